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

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, StoreError, shorten
from tonframes.seqnos import ranges
from tonframes.store.digest import digest, inside
from tonframes.store.files import Damaged
from tonframes.store.identity import NETWORK
from tonframes.store.listing import INGESTED, MOMENT
from tonframes.store.overlaps import once
from tonframes.store.store import Store
from tonframes.wire import schema
from tonframes.wire.tables import in_order, latest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables

#: What `network.json` of these rows says instead of a network.
UNPROVEN = "unproven"

#: The columns that identify a row, if it does not take all of them.
_KEYS = {"transactions": ("hash",), "blocks": ("workchain", "shard", "seqno")}
_TOGETHER = ("messages", "transactions")
_MESSAGE = ("tx_hash", "direction", "position")


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
        """Read the rows of a table.

        Parameters
        ----------
        name
            One of the tables of the schema.
        without
            Masterchain seqnos whose rows are left out.

        Returns
        -------
        Transactions, messages and blocks in the order of the schema. Of an account, the state with
        the greatest `last_transaction_lt`.
        """
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

        Raises
        ------
        DecodeError
            A row says something else than what was ingested before of the same.
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
            moment = datetime.now(UTC).strftime(MOMENT)
            for name in ("metadata", "address_book", "accounts", "blocks"):
                if len(rows := new.get(name, ())):
                    file = self.path / name / f"{moment}-{digest(rows)[:8]}.parquet"
                    self._write(schema.TABLES[name], rows, file, proof=UNPROVEN)
            if len(rows := new.get("transactions", ())):
                stem = f"{moment}-{digest(rows)[:8]}"
                self._commit(
                    {
                        self.path / name / f"{stem}.parquet": self._content(
                            schema.TABLES[name],
                            new[name],
                            proof=UNPROVEN,
                            tables=_TOGETHER if name == _TOGETHER[-1] else (),
                        )
                        for name in _TOGETHER
                    }
                )
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
        rows = pa.concat_tables([table.schema.empty_table().select(chosen), *parts])
        # After `cp -r` of another store two files may have the same row.
        key = _MESSAGE if name == "messages" else _KEYS.get(name, ())
        return once(rows, key, self.path) if key and set(key) <= set(chosen) else rows

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
            first = before[values[: len(key)]]
            for name, one, other in zip(columns, first, values, strict=True):
                if one != other:
                    raise DecodeError(
                        f"$.{table.name}[].{name}",
                        f"{shorten(one)}, which was ingested before for "
                        f"{', '.join(map(str, values[: len(key)]))}",
                        shorten(other),
                    )

    def _sweep(self) -> None:
        self._sweep_orphans(["messages"], "transactions")
        self._sweep_temporary()

    def check_folders(self) -> None:
        """Raise no error: the ingested tables were not written together."""


def _tuples(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
