"""Rows that a store holds, as JSON, cached in memory.

Encoding takes at least ten milliseconds, even for few rows. So many masterchain blocks are encoded
together, and the last few results are cached. Committed blocks never change. For everything else,
the modification time of the folder shows whether it has changed.
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
import pyarrow.compute as pc

from tonframes.service.scanned import scanned
from tonframes.store import Period, read_history, within
from tonframes.wire import encode, schema
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import msgspec

    from tonframes.store import Reader
    from tonframes.wire.kinds import Dialect

#: Transactions that are encoded together, about 5 kB each; and number of such parts cached.
ROWS, PARTS = 1000, 16
#: Number of files of which the tables, or all blocks, are cached.
FILES = 4
#: Files of which the columns that are searched stay in memory.
KEYS = 256

_BOCS = {"code_boc", "data_boc"}
_ORDER = [(column, "ascending") for column in schema.TRANSACTIONS.order]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as JSON; `named` are the addresses that it and its messages name."""

    lt: int
    account: str
    named: frozenset[str | None]
    json: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Block:
    """A block as JSON; `parents` is the JSON text of `prev_blocks`."""

    workchain: int
    shard: int
    seqno: int
    gen_utime: int | None
    parents: str | None
    json: msgspec.Raw


class HeldRows:
    """The rows that a store holds, as JSON in a dialect."""

    def __init__(self, store: Reader, dialect: Dialect) -> None:
        self.network = store.network
        self.dialect: Dialect = dialect
        self._store = store
        self._turn = Lock()
        self._runs = lru_cache(1)(self._list_runs)
        self._tables = lru_cache(FILES)(self._read_tables)
        self._part = lru_cache(PARTS)(self._encode_part)
        self._blocks = lru_cache(FILES)(self._encode_blocks)
        self._keys = lru_cache(KEYS)(self._read_keys)
        self._history_keys = lru_cache(1)(self._read_history_keys)
        self._accounts = lru_cache(1)(self._read_accounts)
        self._entries = lru_cache(2)(self._read_entries)

    def runs(self) -> Sequence[range]:
        """Return the committed ranges of masterchain seqnos, in order."""
        with self._turn:
            return self._runs(self._store.changed("transactions"))

    def run(self, seqno: int) -> range | None:
        """Return the committed range with this masterchain seqno, None if there is none."""
        runs = self.runs()
        i = bisect_right(runs, seqno, key=lambda run: run.start)
        return runs[i - 1] if i and seqno in runs[i - 1] else None

    def transactions(self, seqno: int) -> Sequence[Transaction] | None:
        """Return the transactions of a masterchain block in order; None if it is not held."""
        run = self.run(seqno)
        if run is None:
            return None
        with self._turn:
            # Parts of a run have about `ROWS` transactions, and equally many masterchain blocks.
            step = max(1, ROWS * len(run) // max(1, self._tables(run)[0].num_rows))
            start = seqno - (seqno - run.start) % step
            return self._part(run, range(start, min(start + step, run.stop)))[seqno]

    def blocks(self, seqno: int) -> Sequence[Block]:
        """Return the blocks that a masterchain block commits, itself included, if they are held."""
        run = self.run(seqno)
        if run is None:
            return ()
        with self._turn:
            return self._blocks(run).get(seqno, ())

    def keys(self, name: str, run: range, columns: tuple[str, ...]) -> pa.Table:
        """Return some columns of the transactions or blocks of a committed range."""
        with self._turn:
            return self._keys(name, run, columns)

    def history_keys(self, columns: tuple[str, ...]) -> pa.Table:
        """Return columns of the transactions of accounts, without those of committed ranges."""
        with self._turn:
            runs = self._runs(self._store.changed("transactions"))
            rows = self._history_keys(self._store.changed("account_transactions"), columns)
        if not runs:
            return rows
        seqnos = rows["mc_block_seqno"].to_numpy()
        starts, stops = np.array([(run.start, run.stop) for run in runs]).T
        last = np.searchsorted(starts, seqnos, side="right") - 1
        return rows.filter(pa.array((last < 0) | (seqnos >= stops[last])))

    def of_histories(self, accounts: Sequence[str], lts: Sequence[int]) -> Sequence[Transaction]:
        """Return transactions of accounts, by account and logical time."""
        if not lts:
            return ()
        columns = {name: schema.TABLES[name].schema.names for name in ("transactions", "messages")}
        period = Period("lt", min(lts), max(lts) + 1)
        with self._turn:
            tables = read_history(self._store, set(accounts), period, columns)
            wanted = set(zip(accounts, lts, strict=True))
            keys = _columns(tables["transactions"], "account", "lt")
            rows = tables["transactions"].filter(pa.array([key in wanted for key in keys]))
            of = pc.is_in(tables["messages"]["tx_hash"], value_set=rows["hash"].combine_chunks())
            messages = tables["messages"].filter(of)
            if self.dialect == "service":
                rows = scanned(rows)
            return [row for _, row in self._encode(rows, messages)]

    def accounts(
        self,
        addresses: Iterable[str] | None,
        code_hashes: Sequence[str] = (),
        *,
        include_boc: bool,
        limit: int | None = None,
    ) -> dict[str, msgspec.Raw]:
        """Return accounts by address: these (None is all), with such code, as far as held."""
        with self._turn:
            rows, position = self._accounts(self._store.changed("accounts"))
        held = (address for address in addresses or position if address in position)
        if code_hashes:
            wanted = pa.array(code_hashes, pa.string())
            coded = pc.is_in(rows["code_hash"], value_set=wanted).to_pylist()
            held = (address for address in held if coded[position[address]])
        chosen = list(islice(dict.fromkeys(held), limit))
        indices = pa.array([position[address] for address in chosen], pa.int64())
        columns = {
            name: column.take(indices)
            for name, column in zip(rows.column_names, rows.columns, strict=True)
            if include_boc or name not in _BOCS
        }
        selected = fit(schema.ACCOUNTS, columns, len(chosen))
        return dict(
            zip(chosen, encode.encode_rows(schema.ACCOUNTS, selected, self.dialect), strict=True)
        )

    def entries(self, table: str, addresses: Iterable[str | None]) -> dict[str, msgspec.Raw]:
        """Return the newest entries of the address book or the metadata for these addresses."""
        with self._turn:
            entries = self._entries(table, self._store.changed(table))
        return {name: entries[name] for name in addresses if name is not None and name in entries}

    # ── cached ───────────────────────────────────────────────────────────────────────────────────

    def _list_runs(self, changed: int) -> Sequence[range]:  # noqa: ARG002 - key of the cache
        return sorted(self._store.files("transactions"), key=lambda run: run.start)

    def _read_tables(self, run: range) -> tuple[pa.Table, pa.Table]:
        transactions = self._store.read("transactions", [run]).sort_by(_ORDER)
        if self.dialect == "service":
            transactions = scanned(transactions)
        return transactions, self._store.read("messages", [run])

    def _read_keys(self, name: str, run: range, columns: tuple[str, ...]) -> pa.Table:
        return self._store.read(name, [run], columns).select(columns).combine_chunks()

    def _read_history_keys(self, changed: int, columns: tuple[str, ...]) -> pa.Table:  # noqa: ARG002
        tables = read_history(self._store, None, Period(), {"transactions": columns})
        return tables["transactions"].combine_chunks()

    def _encode_part(self, run: range, part: range) -> Mapping[int, Sequence[Transaction]]:
        transactions, messages = (within(table, [part]) for table in self._tables(run))
        found: dict[int, list[Transaction]] = {seqno: [] for seqno in part}
        for seqno, row in self._encode(transactions, messages):
            found[seqno].append(row)
        return found

    def _encode(
        self, transactions: pa.Table, messages: pa.Table
    ) -> Iterator[tuple[int, Transaction]]:
        """Yield transactions with the seqnos of their masterchain blocks."""
        named: dict[str, set[str | None]] = defaultdict(set)
        for tx_hash, *ends in _columns(messages, "tx_hash", "source", "destination"):
            named[tx_hash].update(ends)
        rows = encode.encode_transactions(transactions, messages, self.dialect)
        columns = _columns(transactions, "mc_block_seqno", "hash", "lt", "account")
        for (seqno, tx_hash, lt, account), json in zip(columns, rows, strict=True):
            yield seqno, Transaction(lt, account, frozenset({account, *named[tx_hash]}), json)

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
