"""Rows that were ingested: nobody has proven that nothing is missing among them.

They lie in a folder of their own, so that no engine takes them for rows that were fetched::

    store/
      ingested/
        network.json                                     says "unproven" instead of a network
        transactions/20261121T094500.123456Z-6b1f0a2c.parquet
        messages/…                                       the same names
        blocks/…  accounts/…  address_book/…  metadata/…

No row is in a folder twice. Messages are written before their transactions: a file of messages
without a file of transactions was left by a process that was killed, and is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, StoreError, shorten
from tonframes.seqnos import ranges
from tonframes.store.files import Damaged, inside, replace, within
from tonframes.store.identity import NETWORK
from tonframes.store.listing import INGESTED
from tonframes.store.reader import chosen_of
from tonframes.store.store import Store
from tonframes.store.writer import snapshot_name
from tonframes.tableset import Glance, Unread, ends
from tonframes.wire import schema
from tonframes.wire.tables import in_order, latest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from tonframes.store.reader import Reader
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables

#: What `network.json` of these rows says instead of a network.
UNPROVEN = "unproven"

#: The columns that identify a row, if it does not take all of them.
_KEYS = {"transactions": ("hash",), "blocks": ("workchain", "shard", "seqno")}
_TOGETHER = ("messages", "transactions")


class Ingested(Store):
    """The rows that were ingested into a store."""

    def __init__(self, store: str | PathLike[str]) -> None:
        super().__init__(Store(store).path / INGESTED)

    def exists(self) -> bool:
        """Return whether anything was ingested."""
        return (self.path / NETWORK).exists()

    def total(self, name: str) -> int:
        """Count the transactions or blocks."""
        return len(self._all(name, *_KEYS[name]))

    def rows(self, name: str, *, without: Sequence[range] = ()) -> pa.Table:
        """Read the rows of a table, in the order of the schema, without some masterchain seqnos."""
        rows = self._all(name)
        if name == "accounts":
            # Without a transaction comes first.
            order = pc.sort_indices(rows["last_transaction_lt"].fill_null(-1))
            return latest(rows.take(order))
        if name not in ("transactions", "messages", "blocks"):
            return latest(rows)
        rows = rows.filter(pc.invert(inside(rows, without)))
        if name != "messages":
            return in_order({name: rows})[name]
        transactions = self.rows("transactions", without=without)
        of = pc.is_in(rows["tx_hash"], value_set=transactions["hash"].combine_chunks())
        return in_order({"transactions": transactions, name: rows.filter(of)})[name]

    def seqnos(self) -> tuple[range, ...]:
        """Return the masterchain seqnos of the transactions and blocks."""
        columns = [self._all(name, "mc_block_seqno") for name in ("transactions", "blocks")]
        numbers = pc.unique(pa.concat_tables(columns)["mc_block_seqno"]).drop_null()
        return ranges(numbers.to_pylist())

    def add(self, tables: Tables) -> dict[str, int]:
        """Commit the rows that are not there yet; return how many of each table.

        A row that says something else than what was ingested before of the same is a `DecodeError`.
        """
        with self._writing():
            new = {
                name: self._new(schema.TABLES[name], rows)
                for name, rows in tables.items()
                if name != "messages"
            }
            if "messages" in tables:
                hashes = new["transactions"]["hash"].combine_chunks()
                messages = tables["messages"]
                new["messages"] = messages.filter(pc.is_in(messages["tx_hash"], value_set=hashes))
            moment = datetime.now(UTC)
            contents = {
                name: self._content(
                    schema.TABLES[name],
                    rows,
                    proof=UNPROVEN,
                    tables=_TOGETHER if name == _TOGETHER[-1] else (),
                )
                for name, rows in new.items()
                if len(rows) or (name == "messages" and len(new["transactions"]))
            }
            for name in contents.keys() - set(_TOGETHER):
                replace(self.path / name / snapshot_name(moment, contents[name]), contents[name])
            if "transactions" in contents:
                stem = snapshot_name(moment, contents["transactions"])
                self._commit({self.path / name / stem: contents[name] for name in _TOGETHER})
        return {name: len(rows) for name, rows in new.items() if len(rows)}

    def set_damaged_aside(self) -> None:
        """Set damaged files aside, with a warning: what was in them can be ingested again."""
        files = [
            file
            for name in schema.TABLES
            if name != "messages"
            for file in self.held_snapshots(name)
        ]
        self._set_aside(files, "its rows are not in the store any more: ingest them again")

    def _all(self, name: str, *columns: str) -> pa.Table:
        table = schema.TABLES[name]
        chosen = list(columns) or table.schema.names
        parts = []
        for file in self.held_snapshots(name):
            try:
                parts.append(file.read(chosen))
            except Damaged as damaged:
                raise StoreError(
                    f"{file.path} {damaged.reason}; the next ingest into the store sets aside "
                    "what is damaged",
                    path=file.path,
                ) from None
        return pa.concat_tables([table.schema.empty_table().select(chosen), *parts])

    def _new(self, table: Table, rows: pa.Table) -> pa.Table:
        """Return the rows that are not there yet, each once."""
        key = _KEYS.get(table.name, tuple(table.schema.names))
        seen = set(_tuples(self._all(table.name, *key)))
        places: list[int] = []
        again: list[int] = []
        for place, values in enumerate(_tuples(rows.select(key))):
            (again if values in seen else places).append(place)
            seen.add(values)
        new = rows.take(pa.array(places, pa.int64()))
        if again and table.name in _KEYS:
            self._check_same(table, key, new, rows.take(pa.array(again, pa.int64())))
        return new

    def _check_same(self, table: Table, key: Sequence[str], new: pa.Table, again: pa.Table) -> None:
        """Compare rows that came again, in the columns that every service always fills."""
        always = [column.name for column in table.columns if column.always]
        columns = [*key, *(name for name in always if name not in key)]
        known = pa.concat_tables([self._all(table.name, *columns), new.select(columns)])
        before = {values[: len(key)]: values for values in _tuples(known)}
        for values in _tuples(again.select(columns)):
            row = values[: len(key)]
            for name, one, other in zip(columns, before[row], values, strict=True):
                if one != other:
                    was = (
                        f"{shorten(one)}, which was ingested before for {', '.join(map(str, row))}"
                    )
                    raise DecodeError(f"$.{table.name}[].{name}", was, shorten(other))

    def _sweep(self) -> None:
        committed = self._table_names("transactions")
        for name in set(self._table_names("messages")).difference(committed):
            (self.path / "messages" / name).unlink()
        self._sweep_temporary()


def _tuples(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@dataclass(frozen=True)
class AllRows(Unread):
    """The rows of held masterchain seqnos, and ingested rows of others, read when called."""

    store: Reader
    ingested: Ingested
    name: str
    held: tuple[range, ...]
    unproven: tuple[range, ...] | None = None
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the rows."""
        return self._read(self.columns)

    def glance(self) -> Glance:
        """Read times: rows, the first and the last."""
        rows = self._read(["block_time"])
        first, last = ends(rows, "block_time") or (None, None)
        return Glance(len(rows), first, last)

    def _read(self, columns: Sequence[str] | None) -> pa.Table:
        chosen = chosen_of(schema.TABLES[self.name], columns)
        needed = list(dict.fromkeys([*chosen, "mc_block_seqno"]))
        more = self.ingested.rows(self.name, without=self.store.held())
        if self.unproven is not None:
            more = within(more, self.unproven)
        held = self.store.read(self.name, self.store.held_of(self.name, self.held), needed)
        rows = pa.concat_tables([held.select(needed), more.select(needed)])
        # The sort is stable: within a masterchain block rows stay in their order.
        return rows.take(pc.sort_indices(rows["mc_block_seqno"])).select(chosen)


@dataclass(frozen=True)
class AllEntriesOf(Unread):
    """The address book entries of the addresses that occur in transactions and messages."""

    transactions: AllRows
    messages: AllRows
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the entries."""
        transactions = replaced(self.transactions, columns=["account"])()
        messages = replaced(self.messages, columns=["source", "destination"])()
        chunks = [
            chunk for rows in (transactions, messages) for c in rows.columns for chunk in c.chunks
        ]
        addresses = pa.chunked_array(chunks, pa.string()).unique().drop_null().to_pylist()
        of = self.transactions
        rows = newest(of.store, of.ingested, "address_book", addresses=addresses)
        return rows.select(chosen_of(schema.ADDRESS_BOOK, self.columns))


def newest(
    store: Reader,
    ingested: Ingested,
    name: str,
    *,
    addresses: Sequence[str] | None = None,
) -> pa.Table:
    """Return the newest row of each address that is held, and ingested rows of other addresses."""
    held = store.snapshot(name, addresses=addresses)
    more = ingested.rows(name)
    if addresses is not None:
        more = more.filter(pc.is_in(more["address"], value_set=pa.array(addresses, pa.string())))
    return latest(pa.concat_tables([more, held]))  # of each address the last row
