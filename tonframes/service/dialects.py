"""The operations: from parameters to objects, as specified or as deployed services answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

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

    from tonframes.service.parameters import Query
    from tonframes.service.rows import HeldRows, Transaction

Answer = dict[str, Any]

PREFIX = "/api/v3/"

_NETWORKS = {"mainnet": -239, "testnet": -3}


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

    @abstractmethod
    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""

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
        if network in _NETWORKS or INTEGER.fullmatch(network):
            known["global_id"] = _NETWORKS.get(network) or int(network)
        return known

    def _transactions(self, rows: Sequence[Transaction], query: Query) -> Answer:
        named = (address for row in rows for address in row.named)
        return {
            "transactions": [row.json for row in rows],
            "address_book": self._entries("address_book", named, query),
        }

    def _accounts(
        self,
        addresses: Iterable[str] | None,
        query: Query,
        *,
        include_boc: bool,
        limit: int,
        code_hashes: Sequence[str] = (),
    ) -> Answer:
        accounts = self.held.accounts(addresses, code_hashes, include_boc=include_boc, limit=limit)
        metadata = self._entries("metadata", accounts, query)
        masters = [jetton for entry in metadata.values() for jetton in _jettons(entry)]
        return {
            "accounts": list(accounts.values()),
            "address_book": self._entries("address_book", accounts, query),
            "metadata": metadata | self._entries("metadata", masters, query),
        }

    def _entries(self, name: str, addresses: Iterable[str | None], query: Query) -> Answer:
        if set(query.get(f"x_no_{name}", ())) & set(TRUE):
            return {}
        return dict(self.held.entries(name, addresses))


class _Extra(msgspec.Struct):
    jetton: str | None = None


class _Token(msgspec.Struct):
    type: str = ""
    extra: _Extra = msgspec.field(default_factory=_Extra)


class _Entry(msgspec.Struct):
    token_info: list[_Token]


def _jettons(entry: msgspec.Raw) -> list[str | None]:
    """Return the masters that the metadata of a jetton wallet names."""
    try:
        tokens = msgspec.json.decode(entry, type=_Entry).token_info
    except msgspec.ValidationError:
        return []
    return [token.extra.jetton for token in tokens if token.type == "jetton_wallets"]


class Specification(Operations):
    """As specified. Where the specification leaves it open, unusual parameters are refused."""

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`."""
        operation = self.operations.get(path.removeprefix(PREFIX))
        if operation is None or not path.startswith(PREFIX):
            raise not_found(f"Cannot GET {path[:200]}")
        return operation(query)

    def account_states(self, query: Query) -> Answer:
        """Return accounts in the order of the addresses."""
        texts = query.get("address", [])
        if not 1 <= len(texts) <= MOST_ADDRESSES:
            raise unprocessable(f"address must be given 1 to {MOST_ADDRESSES} times")
        flags = query.get("include_boc", ["true"])
        if len(flags) != 1 or flags[0] not in TRUE + FALSE:
            raise unprocessable("include_boc must be true or false")
        addresses = [
            raw_address(text, f'index {index} of "address"') for index, text in enumerate(texts)
        ]
        include_boc = flags[0] in TRUE
        return self._accounts(addresses, query, include_boc=include_boc, limit=MOST_ADDRESSES)

    def masterchain_block_shards(self, query: Query) -> Answer:
        """Return a page of transactions, ordered by (lt, account)."""
        seqno = whole_number(query, "seqno", 0)
        limit = whole_number(query, "limit", 1, MOST_ROWS, default=ROWS)
        offset = whole_number(query, "offset", 0, default=0)
        rows = self.held.transactions(seqno)
        if rows is None:
            raise not_found(f"masterchain block {seqno} not found")
        return self._transactions(rows[offset : offset + limit], query)

    transactions_by_masterchain_block = masterchain_block_shards


class Service(Operations):
    """As deployed services answer: toncenter/ton-indexer, main.go and index/crud*.go."""

    def __init__(self, held: HeldRows) -> None:
        super().__init__(held)
        self.operations |= {
            "masterchainBlockShardState": self.masterchain_block_shard_state,
            "blocks": self.blocks,
            "transactions": self.transactions,
        }
        self._paths = {f"{PREFIX}{name}".lower(): self.operations[name] for name in self.operations}

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to a request, or raise a `Refusal`.

        In the path and in names of parameters, case does not matter, nor does a slash at the end.
        """
        operation = self._paths.get(path.lower().removesuffix("/"))
        if operation is None:
            text = f"internal server error: Cannot GET {path[:200]}"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        return operation(bare(query))

    def account_states(self, query: Query) -> Answer:
        """Return at most 1000 accounts; if the address is empty, any accounts.

        Metadata of jetton wallets comes with that of their masters.
        """
        if "address" not in query:
            raise unprocessable("address of account is required")
        flag = query.get("include_boc", ["true"])[-1]
        if flag not in (*TRUE, *FALSE, "on", ""):
            raise unconverted('"include_boc"')
        return self._accounts(
            several(query, "address", read_address) or None,
            query,
            include_boc=flag in (*TRUE, "on"),
            limit=MOST_ROWS,
            code_hashes=several(query, "code_hash", read_hash),
        )

    def masterchain_block_shards(self, query: Query) -> Answer:
        """Return a page of blocks; refuse an empty page with status 404."""
        page = Page.read(query)
        page.check()
        blocks = page.of(
            self.held.blocks(int32(read_seqno(query))),
            lambda block: block.gen_utime or 0,
        )
        if not blocks:
            raise not_found("blocks not found")
        return {"blocks": [block.json for block in blocks]}

    def transactions_by_masterchain_block(self, query: Query) -> Answer:
        """Return a page of transactions, by default the newest first."""
        page = Page.read(query)
        page.check()
        seqno = int32(read_seqno(query))
        rows = self.held.transactions(seqno)
        if rows is None:
            raise not_found(f"masterchain block {seqno} not found")
        chosen = page.of(rows, lambda row: row.lt, "descending")
        return self._transactions(chosen, query)

    def masterchain_block_shard_state(self, query: Query) -> Answer:
        """Return the last block of every shard, including the masterchain."""
        blocks = shard_state(self.held, read_seqno(query))
        if not blocks:
            raise not_found("blocks not found")
        return {"blocks": [block.json for block in blocks]}

    def blocks(self, query: Query) -> Answer:
        """Return a page of the blocks that meet conditions."""
        return {"blocks": [block.json for block in search_blocks(self.held, query)]}

    def transactions(self, query: Query) -> Answer:
        """Return a page of the transactions that meet conditions."""
        return self._transactions(search_transactions(self.held, query), query)


DIALECTS: Mapping[str, Callable[[HeldRows], Operations]] = {
    "specification": Specification,
    "service": Service,
}
