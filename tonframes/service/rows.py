"""Rows of a store as JSON, kept in memory for a while.

Encoding has a fixed cost of some ten milliseconds however few the rows, and a file of the store
covers a hundred masterchain blocks: so both go by parts of many masterchain blocks, and the last
few stay. What is committed never changes; what else may, is told by the time of its folder.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tonframes.store import within
from tonframes.wire import encode, schema
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import msgspec

    from tonframes.store import Store
    from tonframes.wire.kinds import Dialect

#: Transactions that are encoded at once, at some 5 kB each; and how many such parts stay.
ROWS, PARTS = 1000, 16
#: Files of which tables, or all blocks, stay.
FILES = 4

_BOCS = {"code_boc", "data_boc"}
_ORDER = [(column, "ascending") for column in schema.TRANSACTIONS.order]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, and the addresses that it and its messages name (None among them)."""

    lt: int
    account: str
    named: frozenset[str | None]
    json: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Block:
    """A block; `parents` is the JSON text of `prev_blocks`."""

    workchain: int
    shard: int
    seqno: int
    gen_utime: int | None
    parents: str | None
    json: msgspec.Raw


class HeldRows:
    """What a store holds, in the spelling of a dialect.

    Threads share it. They take turns: of several that ask for the same part, one encodes it, and
    encoding holds the interpreter anyway.
    """

    def __init__(self, store: Store, dialect: Dialect) -> None:
        self.network = store.network
        self.dialect: Dialect = dialect
        self._store = store
        self._turn = Lock()
        self._runs = lru_cache(1)(self._list_runs)
        self._tables = lru_cache(FILES)(self._read_tables)
        self._cuts = lru_cache(1000)(self._find_cuts)
        self._part = lru_cache(PARTS)(self._encode_part)
        self._blocks = lru_cache(FILES)(self._encode_blocks)
        self._accounts = lru_cache(1)(self._read_accounts)
        self._entries = lru_cache(2)(self._read_entries)

    def runs(self) -> Sequence[range]:
        """List the ranges of masterchain seqnos that are committed, in order."""
        with self._turn:
            return self._runs(self._changed("transactions"))

    def run(self, seqno: int) -> range | None:
        """Find the committed range with this masterchain seqno."""
        runs = self.runs()
        i = bisect_right(runs, seqno, key=lambda run: run.start)
        return runs[i - 1] if i and seqno in runs[i - 1] else None

    def transactions(self, seqno: int) -> Sequence[Transaction] | None:
        """Give the transactions of a masterchain block by (lt, account); None if it is not held."""
        run = self.run(seqno)
        if run is None:
            return None
        with self._turn:
            part = next(part for part in self._cuts(run) if seqno in part)
            return self._part(run, part)[seqno]

    def blocks(self, seqno: int) -> Sequence[Block]:
        """Give the blocks that a masterchain block commits, itself included, if they are held."""
        run = self.run(seqno)
        if run is None:
            return ()
        with self._turn:
            return self._blocks(run).get(seqno, ())

    def accounts(
        self, addresses: Iterable[str] | None, *, include_boc: bool, limit: int | None = None
    ) -> dict[str, msgspec.Raw]:
        """Give the accounts that are known, of these addresses (None is all), by address."""
        with self._turn:
            rows, place = self._accounts(self._changed("accounts"))
        known = (address for address in addresses or place if address in place)
        chosen = list(islice(dict.fromkeys(known), limit))
        indices = pa.array([place[address] for address in chosen], pa.int64())
        columns = {
            name: column.take(indices)
            for name, column in zip(rows.column_names, rows.columns, strict=True)
            if include_boc or name not in _BOCS
        }
        shown = fit(schema.ACCOUNTS, columns, len(chosen))
        return dict(
            zip(chosen, encode.encode_rows(schema.ACCOUNTS, shown, self.dialect), strict=True)
        )

    def entries(self, table: str, addresses: Iterable[str | None]) -> dict[str, msgspec.Raw]:
        """Give the newest entries of the address book, or of the metadata, for these addresses."""
        with self._turn:
            known = self._entries(table, self._changed(table))
        return {name: known[name] for name in addresses if name is not None and name in known}

    # ── read and encoded once ────────────────────────────────────────────────────────────────────

    def _changed(self, name: str) -> int:
        """When files last came or went."""
        try:
            return (self._store.path / name).stat().st_mtime_ns
        except FileNotFoundError:  # a copy of the store may lack its empty folders
            return 0

    def _list_runs(self, changed: int) -> Sequence[range]:  # noqa: ARG002 - the key
        return sorted(self._store.files("transactions"), key=lambda run: run.start)

    def _read_tables(self, run: range) -> tuple[pa.Table, pa.Table]:
        transactions = self._store.read("transactions", [run]).sort_by(_ORDER)
        return transactions, self._store.read("messages", [run])

    def _find_cuts(self, run: range) -> Sequence[range]:
        """Cut a range where every so many transactions begin."""
        transactions, _ = self._tables(run)
        before = np.searchsorted(transactions["mc_block_seqno"].to_numpy(), np.array(run))
        starts = [run.start + int(i) for i in np.flatnonzero(np.diff(before // ROWS)) + 1]
        return [range(a, b) for a, b in zip([run.start, *starts], [*starts, run.stop], strict=True)]

    def _encode_part(self, run: range, part: range) -> Mapping[int, Sequence[Transaction]]:
        transactions, messages = (within(table, [part]) for table in self._tables(run))
        named: dict[str, set[str | None]] = defaultdict(set)
        for tx_hash, *ends in _columns(messages, "tx_hash", "source", "destination"):
            named[tx_hash].update(ends)
        rows = encode.encode_transactions(transactions, messages, self.dialect)
        columns = _columns(transactions, "mc_block_seqno", "hash", "lt", "account")
        found: dict[int, list[Transaction]] = {seqno: [] for seqno in part}
        for (seqno, tx_hash, lt, account), json in zip(columns, rows, strict=True):
            addresses = frozenset({account, *named[tx_hash]})
            found[seqno].append(Transaction(lt, account, addresses, json))
        return found

    def _encode_blocks(self, run: range) -> Mapping[int, Sequence[Block]]:
        table = self._store.read("blocks", [run])
        rows = encode.encode_rows(schema.BLOCKS, table, self.dialect)
        names = ("mc_block_seqno", "workchain", "shard", "seqno", "gen_utime", "prev_blocks")
        found: dict[int, list[Block]] = defaultdict(list)
        for (mc_seqno, *values), json in zip(_columns(table, *names), rows, strict=True):
            workchain, shard, seqno, gen_utime, parents = values
            found[mc_seqno].append(Block(workchain, shard, seqno, gen_utime, parents, json))
        return dict(found)

    def _read_accounts(self, changed: int) -> tuple[pa.Table, Mapping[str, int]]:  # noqa: ARG002
        rows = self._store.snapshot("accounts")
        rows = rows.filter(rows["found"]).combine_chunks()
        return rows, {address: i for i, address in enumerate(rows["address"].to_pylist())}

    def _read_entries(self, table: str, changed: int) -> Mapping[str, msgspec.Raw]:  # noqa: ARG002
        return encode.encode_entries(self._store.snapshot(table))


def _columns(table: pa.Table, *names: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)
