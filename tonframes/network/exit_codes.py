"""What exit codes mean: how the compute phase of a transaction ended (`compute_exit_code`).

Exit codes and result codes (`result_codes`) are two tables: the same number has another meaning
in each. The codes of the machine and of the network are facts. All others are names that a
compiler or a contract gives to a number that any contract can throw.

Sources: excno.hpp, vm.cpp (both crypto/vm) and transaction.cpp of
https://github.com/ton-blockchain/ton; exit-codes.mdx of https://github.com/ton-blockchain/docs;
wallet_v5.fc of https://github.com/ton-blockchain/wallet-contract-v5; the documentation of the
Tact compiler, by which Tact never throws its code 131.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.network.contracts import CODE_KINDS, WALLET_V5
from tonframes.network.lookup import INT32, Code, name_codes

if TYPE_CHECKING:
    from tonframes.network.lookup import Column

_VM, _RUN, _TX, _DOCS = "excno.hpp", "vm.cpp", "transaction.cpp", "exit-codes.mdx"
_TACT, _V5 = "Tact", "wallet_v5.fc"

#: Every code from 2 on can also be thrown by a contract itself.
_GENERAL = {row.code: row for row in (
    #    code   name                                   meaning                                                  source
    Code(-14,   "out of gas",                          "Out of gas, not caught; exit_arg is the gas used.",     _TX),
    Code(-13,   "no code",                             "The account is active and has no code.",                _RUN),
    Code(0,     "success",                             "The run ended normally.",                               _VM),
    Code(1,     "alternative success",                 "The run ended by the alternative exit.",                _VM),
    Code(2,     "stack underflow",                     "Too few values on the stack.",                          _VM),
    Code(3,     "stack overflow",                      "Too many values on the stack.",                         _VM),
    Code(4,     "integer overflow",                    "A result of more than 257 bits, or a division by zero.", _VM),
    Code(5,     "integer out of range",                "An integer is outside the expected range.",             _VM),
    Code(6,     "invalid opcode",                      "The machine has no such instruction.",                  _VM),
    Code(7,     "type check error",                    "A value has the wrong type.",                           _VM),
    Code(8,     "cell overflow",                       "More than 1023 bits or 4 references for one cell.",     _VM),
    Code(9,     "cell underflow",                      "A read beyond the end of a cell.",                      _VM),
    Code(10,    "dictionary error",                    "A dictionary is malformed.",                            _VM),
    Code(11,    "unknown error",                       "Thrown by a contract, or there is no such get-method.", _VM),
    Code(12,    "fatal error",                         "The machine met a case that should be impossible.",     _VM),
    Code(13,    "out of gas (thrown)",                 "Thrown by a contract itself.",                          _VM),
    Code(14,    "virtualization error",                "Reserved.",                                             _VM),
    Code(65535, "unknown opcode",                      "The contract does not handle this message.",            _DOCS),
)}

_TOLK_CODES = {row.code: row for row in (
    Code(63,    "opcode mismatch",                     "A message or struct begins with an unexpected prefix.", _DOCS),
)}

_TACT_CODES = {row.code: row for row in (
    Code(128,   "null reference",                      "A null instead of a value.",                            _TACT),
    Code(129,   "invalid serialization prefix",        "The data begin with an unexpected prefix.",             _TACT),
    Code(130,   "invalid incoming message",            "The contract has no receiver for this message.",        _TACT),
    Code(132,   "access denied",                       "The sender is not the owner.",                          _TACT),
    Code(133,   "contract stopped",                    "The contract has been stopped.",                        _TACT),
    Code(134,   "invalid argument",                    "An argument is invalid.",                               _TACT),
    Code(135,   "code not found",                      "The code of a contract is missing.",                    _TACT),
    Code(136,   "invalid standard address",            "An address has the wrong length or workchain.",         _TACT),
    Code(137,   "masterchain support off",             "An address is on the masterchain; until Tact 1.6.",     _TACT),
    Code(138,   "not a basechain address",             "An address is not in workchain 0; since Tact 1.6.3.",   _TACT),
)}

#: The wallet checks an external message before it accepts it: 132 to 136 and 138 are then no
#: transaction. A signed request in an internal message is a transaction before it is checked, and
#: ends with 132, 133, 134 or 136. All other codes come after the check.
_WALLET_V5_CODES = {row.code: row for row in (
    Code(132,   "signature disabled",                  "Only extensions may use the wallet.",                   _V5),
    Code(133,   "wrong seqno",                         "The request was executed before, or is out of order.",  _V5),
    Code(134,   "wrong wallet id",                     "The request is for another wallet.",                    _V5),
    Code(135,   "invalid signature",                   "The signature does not belong to the wallet's key.",    _V5),
    Code(136,   "expired",                             "The request was valid until an earlier time.",          _V5),
    Code(137,   "errors not ignored",                  "A message of an external request lacks mode +2.",       _V5),
    Code(138,   "not a signed request",                "An external message has another opcode.",               _V5),
    Code(139,   "extension not added",                 "The extension is already there.",                       _V5),
    Code(140,   "extension not removed",               "There is no such extension.",                           _V5),
    Code(141,   "unsupported action",                  "The wallet does not know this action.",                 _V5),
    Code(142,   "no extension",                        "The signature cannot be disabled without an extension.", _V5),
    Code(143,   "signature mode unchanged",            "The signature is already allowed, or disabled.",        _V5),
    Code(144,   "last extension",                      "It cannot be removed while the signature is disabled.", _V5),
    Code(145,   "extension in another workchain",      "An extension must be in the workchain of the wallet.",  _V5),
    Code(146,   "not an extension",                    "Only an extension can allow or disable the signature.", _V5),
    Code(147,   "invalid actions",                     "The list of actions has other actions than messages.",  _V5),
)}

_NO_TRANSACTION = (135, 138)


def _of(contract: str, row: Code) -> Code:
    return Code(row.code, f"{row.name} ({contract})", row.meaning, row.source)


def _either(v5: Code, tact: Code) -> Code:
    return Code(
        v5.code,
        f"{WALLET_V5}: {v5.name}, or Tact: {tact.name}",
        f"In a {WALLET_V5}: {v5.meaning} In a contract written in Tact: {tact.meaning}",
        f"{v5.source}, {tact.source}",
    )


#: What a code means in a wallet v5.
_IN_WALLET_V5 = _GENERAL | {code: _of(WALLET_V5, row) for code, row in _WALLET_V5_CODES.items()}

#: What a code means if the contract is unknown. Where a code has two meanings, the row has both.
EXIT_CODES = (
    _GENERAL
    | {code: _of("Tolk", row) for code, row in _TOLK_CODES.items()}
    | {code: _of("Tact", row) for code, row in _TACT_CODES.items()}
    | {
        code: _either(row, _TACT_CODES[code]) if code in _TACT_CODES else _IN_WALLET_V5[code]
        for code, row in _WALLET_V5_CODES.items()
        if code not in _NO_TRANSACTION
    }
)

#: What exit codes mean, by what is known of the contract: nothing, which program it is, or that
#: it is a wallet v5.
TABLES = {"": EXIT_CODES, "known": _GENERAL, WALLET_V5: _IN_WALLET_V5}

#: Which of `TABLES` is right for a contract, by the hash of its code; "" for all others.
TABLE_OF = {
    code_hash: kind if kind in TABLES else "known" for code_hash, kind in CODE_KINDS.items()
}

#: Codes that contracts define themselves. By convention all others are reserved for the machine,
#: the network and compilers. Wallets and the elector throw 33 to 41, which are result codes as well.
CONTRACT_DEFINED = (range(32, 128), range(256, 65535))

#: Why the compute phase did not run (`skipped_reason`); transaction.cpp, prepare_compute_phase.
SKIP_REASONS = {
    "no_state":  "The account has no code, and the message has no initial state.",
    "bad_state": "The initial state in the message does not belong to the account's address.",
    "no_gas":    "The balance of the account, or the value of the message, buys no gas.",
    "suspended": "The account is not active, and the configuration suspends its address.",
}

CONTRACT_DEFINED_NAME = "contract-defined"


EXIT_CODE_NAMES = {code: row.name for code, row in EXIT_CODES.items()}


@overload
def exit_code_name(code: int | None, *, code_hashes: str | None = ...) -> str | None: ...
@overload
def exit_code_name(code: Column, *, code_hashes: Column | str | None = ...) -> Column: ...
def exit_code_name(code: object, *, code_hashes: object = None) -> object:
    """Return the names of exit codes of the compute phase (`compute_exit_code`).

    Parameters
    ----------
    code
        A code, or a column of them: a pandas or polars Series, a pyarrow Array or ChunkedArray.
    code_hashes
        The hash of the contract's code (`account_state_code_hash_before`), or a column of hashes
        of the same kind as `code` and with the same rows (in pandas with the same index). If
        `code_name` knows the contract, the codes of wallets v5 are named for a wallet v5 only, and
        the codes of the Tact and Tolk compilers for no contract: the language of a known contract
        is not on record.

    Returns
    -------
    The name; "contract-defined" for other codes that contracts define themselves
    (`tonframes.network.exit_codes.CONTRACT_DEFINED`); None for other codes, and for null (None, NA
    or NaN). The
    name of a code that only some contracts throw ends with those in brackets. If a code has
    several meanings, the name contains all of them. For a column, a column of text of the same
    kind (in pandas of dtype str, with the same index and name), null where there is no name.

    Raises
    ------
    TypeError
        `code` is not an integer or a column of integers; booleans, and floats other than NaN, are
        not accepted. Or `code_hashes` is not text, or not a column of the same kind as `code`.
    ValueError
        A code is outside 32 bits, there are more or fewer code hashes than codes, or the index of
        the code hashes is another one.

    Notes
    -----
    The code does not show whether a run succeeded: a run that committed and then threw has
    succeeded. `compute_success` shows it.

    Examples
    --------
    >>> exit_code_name(-14), exit_code_name(406), exit_code_name(200)
    ('out of gas', 'contract-defined', None)
    >>> exit_code_name(137)
    'wallet v5: errors not ignored, or Tact: masterchain support off'
    >>> exit_code_name(137, code_hashes="IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8=")
    'errors not ignored (wallet v5)'
    >>> import pandas as pd
    >>> exit_code_name(pd.Series([0, 37, None], dtype="Int64")).to_list()
    ['success', 'contract-defined', nan]
    """
    return name_codes(code, "an exit code", INT32, _name, code_hashes=code_hashes)


def is_contract_defined(code: nw.Expr) -> nw.Expr:
    """Return whether exit codes are among those that contracts define themselves."""
    # The bounds do not fit narrower integers.
    code = code.cast(nw.Int64)
    first, second = (code.is_between(codes[0], codes[-1]) for codes in CONTRACT_DEFINED)
    return first | second


def _name(code: int, code_hash: str | None = None) -> str | None:
    rows = TABLES[TABLE_OF.get(code_hash or "", "")]
    if code in rows:
        return rows[code].name
    return CONTRACT_DEFINED_NAME if any(code in codes for codes in CONTRACT_DEFINED) else None
