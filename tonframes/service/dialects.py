"""The operations: from parameters to objects, as specified or as deployed services answer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from tonframes.addresses import to_raw
from tonframes.service.shard_state import MASTERCHAIN, WHOLE, reference, shard_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from tonframes.service.rows import HeldRows, Transaction

T = TypeVar("T")
Query = dict[str, list[str]]
Answer = dict[str, Any]

#: Most and default rows of a page; most addresses of a request.
MOST_ROWS, ROWS, MOST_ADDRESSES = 1000, 100, 1024

# The texts that Go's strconv reads as booleans and integers.
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_NETWORKS = {"mainnet": -239, "testnet": -3}


class Refusal(Exception):  # noqa: N818 - not an error: it becomes an answer
    """An answer with an error: a status and a text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Operations(ABC):
    """The operations of both dialects, and what they have in common."""

    def __init__(self, held: HeldRows) -> None:
        self.held = held
        self.operations: dict[str, Callable[[Query], Answer]] = {
            "accountStates": self.account_states,
            "masterchainBlockShards": self.masterchain_block_shards,
            "transactionsByMasterchainBlock": self.transactions_by_masterchain_block,
            "masterchainInfo": self.masterchain_info,
        }

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""
        operation = self.operations.get(path.removeprefix("/api/v3/"))
        if operation is None or not path.startswith("/api/v3/"):
            raise Refusal(HTTPStatus.NOT_FOUND, f"Cannot GET {path[:200]}")
        return operation(query)

    @abstractmethod
    def account_states(self, query: Query) -> Answer:
        """Return the present states of accounts."""

    @abstractmethod
    def masterchain_block_shards(self, query: Query) -> Answer:
        """Return what a masterchain block commits."""

    @abstractmethod
    def transactions_by_masterchain_block(self, query: Query) -> Answer:
        """Return the transactions that a masterchain block commits."""

    def masterchain_info(self, query: Query) -> Answer:  # noqa: ARG002
        """Return the first and the last masterchain block."""
        # If the store holds no blocks, block 0, which every network has, is both.
        runs = self.held.runs() or (range(1),)
        return {
            "last": self._masterchain_block(runs[-1][-1]),
            "first": self._masterchain_block(runs[0][0]),
        }

    def _masterchain_block(self, seqno: int) -> Any:
        for block in self.held.blocks(seqno):
            if block.workchain == MASTERCHAIN:
                return block.json
        known = reference(MASTERCHAIN, WHOLE, seqno, self.held.dialect)
        network = self.held.network or ""
        if network in _NETWORKS or _INTEGER.fullmatch(network):
            known["global_id"] = _NETWORKS.get(network) or int(network)
        return known

    def _transactions(self, rows: Sequence[Transaction], query: Query) -> Answer:
        named = (address for row in rows for address in row.named)
        return {
            "transactions": [row.json for row in rows],
            "address_book": self._entries("address_book", named, query),
        }

    def _accounts(
        self, addresses: Iterable[str] | None, query: Query, *, include_boc: bool, limit: int
    ) -> Answer:
        accounts = self.held.accounts(addresses, include_boc=include_boc, limit=limit)
        return {
            "accounts": list(accounts.values()),
            "address_book": self._entries("address_book", addresses or accounts, query),
            "metadata": self._entries("metadata", accounts, query),
        }

    def _entries(self, name: str, addresses: Iterable[str | None], query: Query) -> Answer:
        if set(query.get(f"x_no_{name}", ())) & set(_TRUE):
            return {}
        return dict(self.held.entries(name, addresses))


class Specification(Operations):
    """As specified. Where the specification leaves it open, unusual parameters are refused."""

    def account_states(self, query: Query) -> Answer:
        """Return accounts in the order of the addresses."""
        texts = query.get("address", [])
        if not 1 <= len(texts) <= MOST_ADDRESSES:
            raise _unprocessable(f"address must be given 1 to {MOST_ADDRESSES} times")
        flags = query.get("include_boc", ["true"])
        if len(flags) != 1 or flags[0] not in _TRUE + _FALSE:
            raise _unprocessable("include_boc must be true or false")
        addresses = [_address(text, index) for index, text in enumerate(texts)]
        include_boc = flags[0] in _TRUE
        return self._accounts(addresses, query, include_boc=include_boc, limit=MOST_ADDRESSES)

    def masterchain_block_shards(self, query: Query) -> Answer:
        """Return a page of transactions, ordered by (lt, account)."""
        seqno = _whole(query, "seqno", 0)
        limit = _whole(query, "limit", 1, MOST_ROWS, default=ROWS)
        offset = _whole(query, "offset", 0, default=0)
        rows = self.held.transactions(seqno)
        if rows is None:
            raise _not_found(f"masterchain block {seqno} not found")
        return self._transactions(rows[offset : offset + limit], query)

    transactions_by_masterchain_block = masterchain_block_shards


class Service(Operations):
    """As deployed services answer: toncenter/ton-indexer, main.go and index/crud*.go."""

    def __init__(self, held: HeldRows) -> None:
        super().__init__(held)
        self.operations["masterchainBlockShardState"] = self.masterchain_block_shard_state

    def account_states(self, query: Query) -> Answer:
        """Return at most 1000 accounts; if the address is empty, any accounts."""
        if "address" not in query:
            raise _unprocessable("address of account is required")
        flag = query.get("include_boc", ["true"])[-1]
        if flag not in (*_TRUE, *_FALSE, "on", ""):
            raise _unconverted('"include_boc"')
        addresses = [
            address
            for index, text in enumerate(query["address"])
            for address in _addresses(text, index)
        ]
        include_boc = flag in (*_TRUE, "on")
        return self._accounts(addresses or None, query, include_boc=include_boc, limit=MOST_ROWS)

    def masterchain_block_shards(self, query: Query) -> Answer:
        """Return a page of blocks; refuse an empty page with status 404."""
        page = _Page.read(query)
        blocks = page.of(
            self.held.blocks(_int32(_seqno(query))),
            lambda block, sign: sign * (block.gen_utime or 0),
        )
        if not blocks:
            raise _not_found("blocks not found")
        return {"blocks": [block.json for block in blocks]}

    def transactions_by_masterchain_block(self, query: Query) -> Answer:
        """Return a page of transactions, by default the newest first."""
        page = _Page.read(query)
        seqno = _int32(_seqno(query))
        rows = self.held.transactions(seqno)
        if rows is None:
            raise _not_found(f"masterchain block {seqno} not found")
        chosen = page.of(rows, lambda row, sign: (sign * row.lt, row.account), default="desc")
        return self._transactions(chosen, query)

    def masterchain_block_shard_state(self, query: Query) -> Answer:
        """Return the last block of every shard, including the masterchain."""
        blocks = shard_state(self.held, _seqno(query))
        if not blocks:
            raise _not_found("blocks not found")
        return {"blocks": [block.json for block in blocks]}


DIALECTS: Mapping[str, Callable[[HeldRows], Operations]] = {
    "specification": Specification,
    "service": Service,
}


# ── errors ───────────────────────────────────────────────────────────────────────────────────────
# No text quotes a parameter, because clients recognize temporary failures by the text.


def _unprocessable(text: str) -> Refusal:
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, text)


def _unconverted(what: str) -> Refusal:
    return _unprocessable(f"schema: error converting value for {what}")


def _not_found(text: str) -> Refusal:
    return Refusal(HTTPStatus.NOT_FOUND, text)


def _address(text: str, index: int) -> str:
    try:
        return to_raw(text)
    except ValueError:
        raise _unconverted(f'index {index} of "address"') from None


# ── parameters as specified ──────────────────────────────────────────────────────────────────────


def _whole(
    query: Query, name: str, least: int, most: int | None = None, *, default: int | None = None
) -> int:
    texts = query.get(name, [])
    if not texts and default is not None:
        return default
    if len(texts) == 1 and re.fullmatch(r"[0-9]{1,20}", texts[0]):
        number = int(texts[0])
        if number >= least and (most is None or number <= most):
            return number
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise _unprocessable(f"{name} must be one integer {bounds}")


# ── parameters as deployed services read them ────────────────────────────────────────────────────


def _addresses(text: str, index: int) -> list[str]:
    """Return the addresses in a value of `address`, separated by commas; drop empty ones."""
    return [_address(part, index) for part in text.split(",") if part]


def _seqno(query: Query) -> int:
    """Return `seqno`, 0 if it is not an integer (fiber's QueryInt)."""
    text = query.get("seqno", [""])[0]
    number = int(text) if _INTEGER.fullmatch(text) else 0
    return number if -(2**63) <= number < 2**63 else 0


def _int32(number: int) -> int:
    """Convert to int32 as Go does, by dropping bits: 2^32 + 1 becomes the seqno 1."""
    return (number + 2**31) % 2**32 - 2**31


@dataclass(frozen=True, slots=True)
class _Page:
    """The rows of a page, and their order."""

    limit: int
    offset: int
    sort: str | None

    @classmethod
    def read(cls, query: Query) -> Self:
        """Return the page that limit, offset and sort describe; an empty number is 0."""
        numbers = {"limit": ROWS, "offset": 0}
        for name in numbers.keys() & query.keys():
            text = query[name][-1] or "0"
            if not _INTEGER.fullmatch(text) or _int32(int(text)) != int(text):
                raise _unconverted(f'"{name}"')
            numbers[name] = int(text)
        sort = query["sort"][-1].lower() if "sort" in query else None
        return cls(max(1, numbers["limit"]), max(0, numbers["offset"]), sort)

    def of(
        self, rows: Sequence[T], key: Callable[[T, int], Any], *, default: str | None = None
    ) -> Sequence[T]:
        """Return the rows of the page, sorted by `key(row, sign)`; the sign is -1 for "desc"."""
        if self.limit > MOST_ROWS:
            text = f"limit is not allowed: {self.limit} > {MOST_ROWS}"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        signs = {None: 0, "asc": 1, "a": 1, "desc": -1, "d": -1}
        if self.sort not in signs:
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "wrong value for sort parameter")
        sign = signs[self.sort or default]
        if sign:
            rows = sorted(rows, key=lambda row: key(row, sign))
        return rows[self.offset : self.offset + self.limit]
