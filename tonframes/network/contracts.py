"""Names of contracts, by the hash of their code (`code_hash`).

The code is a fact: two accounts with one code hash run the same program. The name is the one that
its source gives to the program. Accounts whose code is a reference to a library have the hash of
that reference; such rows are marked "(library)". Where a source has several versions of a program
without a number, the name has the first digits of the hash.

Sources of contracts.csv:

- docs: content/standard/wallets/sources.mdx of https://github.com/ton-blockchain/docs
- abis: data/*/info.toml of https://github.com/ton-blockchain/abis
- acton: crates/acton-abi-catalog/data/data-abis.json of https://github.com/ton-blockchain/acton
- tongo: abi/interfaces.go of https://github.com/tonkeeper/tongo; the hashes of wallets v1 to v3 and
  highload wallets v1 and v2 were computed again from the code in its wallet/models.go
- Tokens.cpp: ton-index-worker/tondb-scanner/src/smc-interfaces of
  https://github.com/toncenter/ton-indexer
- opentonapi: pkg/defi/asset_info.go and pkg/references/tf.go of
  https://github.com/tonkeeper/opentonapi (its kinds of STON.fi v2 pools differ from those of
  Tokens.cpp, so only the version is taken)
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.network.lookup import name_texts, read_table

if TYPE_CHECKING:
    from tonframes.network.lookup import Column


@dataclass(frozen=True, slots=True)
class Contract:
    """A program that many accounts run; `code_hash` is in hex, `kind` groups similar programs."""

    code_hash: str
    name: str
    kind: str
    source: str


#: By code hash, in hex as explorers write it.
CONTRACTS = {row["code_hash"]: Contract(**row) for row in read_table("contracts.csv")}

WALLET_V5 = "wallet v5"


#: By code hash in base64, as in our tables, and in hex of either case.
CODE_NAMES: dict[str, str] = {}
CODE_KINDS: dict[str, str] = {}
for _row in CONTRACTS.values():
    _in_base64 = base64.b64encode(bytes.fromhex(_row.code_hash)).decode()
    for _spelling in (_in_base64, _row.code_hash.lower(), _row.code_hash.upper()):
        CODE_NAMES[_spelling], CODE_KINDS[_spelling] = _row.name, _row.kind


@overload
def code_name(code_hashes: str | None) -> str | None: ...
@overload
def code_name(code_hashes: Column) -> Column: ...
def code_name(code_hashes: object) -> object:
    """Return the names of contracts by the hashes of their code.

    Wallets, jetton wallets and minters, NFTs and their sales, and exchanges are known. A contract
    with the name of a wallet is that wallet: the hash is that of its code. For a
    token or an exchange, the hash identifies the program and not the owner: anybody can deploy the
    same code.

    Parameters
    ----------
    code_hashes
        A code hash, or a column of them as in `exit_code_name`: `code_hash` of accounts, or
        `account_state_code_hash_before` of transactions. Base64, as in our tables, or hex in lower
        or upper case.

    Returns
    -------
    The name; None for code that is not in `tonframes.network.contracts.CONTRACTS`, and for null.
    For a column, a column as from `exit_code_name`.

    Raises
    ------
    TypeError
        `code_hashes` is not text or a column of text.

    Examples
    --------
    >>> code_name("IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8=")
    'wallet v5 r1'
    >>> code_name("feb5ff6820e2ff0d9483e7e0d62c817d846789fb4ae580c878866d959dabd5c0")
    'wallet v4 r2'
    """
    return name_texts(code_hashes, "a code hash", CODE_NAMES)


def code_names(code_hash: nw.Expr) -> nw.Expr:
    """Name code hashes within a frame of any engine, as `code_name` does."""
    return code_hash.cast(nw.String).replace_strict(
        CODE_NAMES, default=None, return_dtype=nw.String
    )
