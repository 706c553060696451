"""The operations: from parameters to objects, as specified or as deployed services answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tonframes.service.parameters import (
    FALSE,
    INTEGER,
    MOST_ADDRESSES,
    MOST_ROWS,
    ROWS,
    TRUE,
    Page,
    Refusal,
    bare,
    int32,
    not_found,
    raw_address,
    read_address,
    read_hash,
    read_seqno,
    several,
    unconverted,
    unprocessable,
    whole_number,
)
from tonframes.service.search import search_blocks, search_transactions
from tonframes.service.shard_state import MASTERCHAIN, WHOLE, reference, shard_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tonframes.service.parameters import Answer, Query
    from tonframes.service.rows import Block, HeldRows, Transaction

PREFIX = "/api/v3/"

_NETWORKS = {"mainnet": -239, "testnet": -3}


class Operations(Protocol):
    """The operations of a dialect."""

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""


class Specification:
    """As specified. Where the specification leaves it open, unusual parameters are refused."""

    def __init__(self, held: HeldRows) -> None:
        self._held = held
        self._operations: Mapping[str, Callable[[Query], Answer]] = {
            "accountStates": self._account_states,
            "masterchainBlockShards": self._transactions,
            "transactionsByMasterchainBlock": self._transactions,
            "masterchainInfo": lambda _: masterchain_info(held),
        }

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""
        operation = self._operations.get(path.removeprefix(PREFIX))
        if operation is None or not path.startswith(PREFIX):
            raise not_found(f"Cannot GET {path[:200]}")
        return operation(query)

    def _account_states(self, query: Query) -> Answer:
        texts = query.get("address", [])
        if not 1 <= len(texts) <= MOST_ADDRESSES:
            raise unprocessable(f"address must be given 1 to {MOST_ADDRESSES} times")
        flags = query.get("include_boc", ["true"])
        if len(flags) != 1 or flags[0] not in TRUE + FALSE:
            raise unprocessable("include_boc must be true or false")
        addresses = [
            raw_address(text, f'index {index} of "address"') for index, text in enumerate(texts)
        ]
        accounts = self._held.accounts(addresses, include_boc=flags[0] in TRUE)
        return accounts_answer(self._held, accounts, query)

    def _transactions(self, query: Query) -> Answer:
        seqno = whole_number(query, "seqno", 0)
        limit = whole_number(query, "limit", 1, MOST_ROWS, default=ROWS)
        offset = whole_number(query, "offset", 0, default=0)
        rows = self._held.transactions(seqno)
        if rows is None:
            raise not_found(f"masterchain block {seqno} not found")
        return transactions_answer(self._held, rows[offset : offset + limit], query)


class Service:
    """As deployed services answer: toncenter/ton-indexer, main.go and index/crud*.go.

    In the path and in names of parameters, case does not matter, nor does a slash at the end.
    """

    def __init__(self, held: HeldRows) -> None:
        self._held = held
        operations: Mapping[str, Callable[[Query], Answer]] = {
            "accountStates": self._account_states,
            "blocks": lambda query: {"blocks": _json(search_blocks(held, query))},
            "masterchainBlockShards": self._blocks_of_masterchain_block,
            "masterchainBlockShardState": self._shard_state,
            "masterchainInfo": lambda _: masterchain_info(held),
            "transactions": lambda query: transactions_answer(
                held, search_transactions(held, query), query
            ),
            "transactionsByMasterchainBlock": self._transactions_of_masterchain_block,
        }
        self._operations = {f"{PREFIX}{name}".lower(): operations[name] for name in operations}

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""
        operation = self._operations.get(path.lower().removesuffix("/"))
        if operation is None:
            text = f"internal server error: Cannot GET {path[:200]}"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        return operation(bare(query))

    def _account_states(self, query: Query) -> Answer:
        if "address" not in query:
            raise unprocessable("address of account is required")
        flag = query.get("include_boc", ["true"])[-1]
        if flag not in (*TRUE, *FALSE, "on", ""):
            raise unconverted('"include_boc"')
        # If the address is empty, any accounts come.
        accounts = self._held.accounts(
            several(query, "address", read_address) or None,
            several(query, "code_hash", read_hash),
            include_boc=flag in (*TRUE, "on"),
            limit=MOST_ROWS,
        )
        return accounts_answer(self._held, accounts, query)

    def _blocks_of_masterchain_block(self, query: Query) -> Answer:
        page = Page.read(query)
        page.check()
        held = self._held.blocks(int32(read_seqno(query)))
        blocks = page.of(held, lambda block: block.gen_utime or 0)
        if not blocks:  # also past the last page
            raise not_found("blocks not found")
        return {"blocks": _json(blocks)}

    def _transactions_of_masterchain_block(self, query: Query) -> Answer:
        page = Page.read(query)
        page.check()
        seqno = int32(read_seqno(query))
        rows = self._held.transactions(seqno)
        if rows is None:
            raise not_found(f"masterchain block {seqno} not found")
        newest_first = page.of(rows, lambda row: row.lt, "descending")
        return transactions_answer(self._held, newest_first, query)

    def _shard_state(self, query: Query) -> Answer:
        blocks = shard_state(self._held, read_seqno(query))
        if not blocks:
            raise not_found("blocks not found")
        return {"blocks": _json(blocks)}


DIALECTS: Mapping[str, Callable[[HeldRows], Operations]] = {
    "specification": Specification,
    "service": Service,
}


def masterchain_info(held: HeldRows) -> Answer:
    """Return the first and the last masterchain block."""
    # If the store holds no blocks, block 0, which every network has, is both.
    runs = held.runs() or (range(1),)
    return {
        "last": _masterchain_block(held, runs[-1][-1]),
        "first": _masterchain_block(held, runs[0][0]),
    }


def _masterchain_block(held: HeldRows, seqno: int) -> Any:
    for block in held.blocks(seqno):
        if block.workchain == MASTERCHAIN:
            return block.json
    known = reference(MASTERCHAIN, WHOLE, seqno, held.dialect)
    network = held.network or ""
    if network in _NETWORKS or INTEGER.fullmatch(network):
        known["global_id"] = _NETWORKS.get(network) or int(network)
    return known


def transactions_answer(held: HeldRows, rows: Sequence[Transaction], query: Query) -> Answer:
    """Return transactions with the entries of the address book that they name."""
    named = (address for row in rows for address in row.named)
    return {
        "transactions": _json(rows),
        "address_book": _entries(held, "address_book", named, query),
    }


def accounts_answer(held: HeldRows, accounts: Mapping[str, msgspec.Raw], query: Query) -> Answer:
    """Return accounts; metadata of jetton wallets come with those of their masters."""
    metadata = _entries(held, "metadata", accounts, query)
    masters = [master for entry in metadata.values() for master in _masters(entry)]
    return {
        "accounts": list(accounts.values()),
        "address_book": _entries(held, "address_book", accounts, query),
        "metadata": metadata | _entries(held, "metadata", masters, query),
    }


def _masters(entry: msgspec.Raw) -> list[str | None]:
    """Return the masters that the metadata of a jetton wallet name, if they have the usual form."""
    try:
        tokens = msgspec.json.decode(entry)["token_info"]
        wallets = [token for token in tokens if token["type"] == "jetton_wallets"]
        masters = [wallet["extra"].get("jetton") for wallet in wallets]
    except (AttributeError, KeyError, TypeError):
        return []
    return [master for master in masters if isinstance(master, str)]


def _entries(held: HeldRows, name: str, addresses: Iterable[str | None], query: Query) -> Answer:
    if set(query.get(f"x_no_{name}", ())) & set(TRUE):
        return {}
    return dict(held.entries(name, addresses))


def _json(rows: Iterable[Block | Transaction]) -> list[msgspec.Raw]:
    return [row.json for row in rows]
