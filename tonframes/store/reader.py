"""The rows that a store holds: nothing here writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import warn
from tonframes.seqnos import common, joined, subtract
from tonframes.store.files import BY_ACCOUNT, Damaged, in_threads, within
from tonframes.store.listing import LISTINGS, MOMENT, Listing
from tonframes.store.merging import reading_again
from tonframes.wire import schema
from tonframes.wire.tables import latest, latest_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tonframes.store.files import HeldFile
    from tonframes.wire.record import Table

#: How much later than this computer's clock the time of a snapshot may be.
_SKEW = timedelta(minutes=5)

#: Bytes of snapshots that are read before the rows that are out of date are dropped.
_BATCH = 1 << 24

F = TypeVar("F", bound="Callable[..., Any]")


def _again(read: F) -> F:
    """Read again if files are gone because another process has merged them meanwhile."""

    @wraps(read)
    def patient(store: Reader, name: str, seqnos: Iterable[range], *args: Any, **more: Any) -> Any:
        wanted = joined(seqnos)
        for _ in range(LISTINGS):
            before = store.runs(wanted)
            try:
                return read(store, name, wanted, *args, **more)
            except Damaged as damaged:
                if store.runs(wanted) == before and not store.has_moved(damaged.path):
                    raise
        return read(store, name, wanted, *args, **more)

    return cast("F", patient)


class Reader(Listing):
    """A folder of Parquet files that belong to one network, to be read."""

    # ── ranges of masterchain seqnos ─────────────────────────────────────────────────────────────

    def held_of(self, name: str, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return those of these seqnos for which the store holds rows of a table."""
        wanted = joined(seqnos)
        return subtract(wanted, subtract(wanted, self._written(name, wanted)))

    @_again
    def read(
        self, name: str, seqnos: Iterable[range], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the rows of a table that belong to these masterchain seqnos, in order."""
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        wanted = self.require(seqnos)

        def rows(held: tuple[range, HeldFile]) -> pa.Table:
            run, file = held
            return _rows(file, common(run, wanted), chosen)

        parts = in_threads(rows, self._files(name, wanted))
        return pa.concat_tables([table.schema.empty_table().select(chosen), *parts])

    @_again
    def distinct(self, name: str, seqnos: Iterable[range], columns: Sequence[str]) -> set[str]:
        """Return the distinct texts in some columns of these masterchain seqnos."""
        wanted = self.require(seqnos)

        def texts(held: tuple[range, HeldFile]) -> list[str]:
            run, file = held
            rows = _rows(file, common(run, wanted), columns)
            found = pc.unique(pa.chunked_array([c for each in rows.columns for c in each.chunks]))
            return cast("list[str]", found.drop_null().to_pylist())

        found: set[str] = set()
        for some in in_threads(texts, self._files(name, wanted)):
            found.update(some)
        return found

    @_again
    def count(self, name: str, seqnos: Iterable[range]) -> int:
        """Count the rows that `read` would return."""
        wanted = self.require(seqnos)

        def count(held: tuple[range, HeldFile]) -> int:
            run, file = held
            here = common(run, wanted)
            if subtract([file.run or run], here):
                return len(_rows(file, here, ["mc_block_seqno"]))
            return file.footer().rows

        return sum(in_threads(count, self._files(name, wanted)))

    @_again
    def head(
        self, name: str, seqnos: Iterable[range], rows: int, columns: Sequence[str]
    ) -> pa.Table:
        """Read the first rows that `read` would return, from no more row groups than needed."""
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        wanted = self.require(seqnos)
        first = table.schema.empty_table().select(chosen)
        for run, file in self._files(name, wanted):
            for more in _groups(file, common(run, wanted), chosen):
                first = pa.concat_tables([first, more.slice(0, rows - len(first))])
                if len(first) >= rows:
                    return first
        return first

    def held_files(self, name: str, seqnos: Iterable[range]) -> list[tuple[range, HeldFile]]:
        """List the files that `read` would read, each with the seqnos that it reads from it."""
        return self._files(name, self.require(seqnos))

    def account_files(self, seqnos: Iterable[range]) -> list[tuple[range, HeldFile]]:
        """List files as `held_files` does, to read the transactions of a few accounts from."""
        wanted = joined(seqnos)
        copies = self._ranges(BY_ACCOUNT, wanted)
        return [
            (run, file.beside(BY_ACCOUNT, self.path) if file.run in copies else file)
            for run, file in self.held_files("transactions", wanted)
        ]

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────

    @reading_again
    def snapshot(
        self,
        name: str,
        *,
        as_of: datetime | None = None,
        addresses: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Read the newest row of each address, in the order in which the rows were written.

        The newest state of an account is the one with the greatest `last_transaction_lt`, and of
        those the one that was fetched last. A replica that is behind does not hide a later state.
        `as_of` takes only rows fetched until this moment.
        """
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        ordering = ["address", "last_transaction_lt"] if name == "accounts" else ["address"]
        until = as_of if name == "address_book" else None
        if until is not None:
            ordering.append("fetched_at")
        needed = list(dict.fromkeys([*chosen, *ordering]))
        of = None if addresses is None else pa.array(addresses, pa.string())

        def newest(parts: Sequence[pa.Table]) -> pa.Table:
            rows = pa.concat_tables(parts)
            if of is not None:
                rows = rows.filter(pc.is_in(rows["address"], of))
            if until is not None:
                rows = rows.filter(pc.less_equal(rows["fetched_at"], until))
            return (latest_states if name == "accounts" else latest)(rows)

        rows, size = [table.schema.empty_table().select(needed)], 0
        files = self._by_time(self.held_snapshots(name, as_of=as_of))
        if until is not None:  # a joined file has the last moment of its rows, and earlier ones
            later = set(self.held_snapshots(name)).difference(files)
            files += sorted(later, key=lambda file: file.path.name)[:1]
        for part in in_threads(lambda file: file.read(needed), files):
            rows.append(part)
            size += rows[-1].nbytes
            # So no more than twice the result and a batch are in memory, in linear time.
            if size > rows[0].nbytes + _BATCH:
                rows, size = [newest(rows)], 0
        return newest(rows).select(chosen)

    def _by_time(self, files: Sequence[HeldFile]) -> list[HeldFile]:
        """Put snapshots of the future first, with a warning: the clock was wrong, if not now."""
        now = (datetime.now(UTC) + _SKEW).strftime(MOMENT)
        future = [file for file in files if file.path.name > now]
        if future:
            warn(
                f"{len(future)} snapshots in {future[0].path.parent} say that they were fetched in "
                f"the future, such as {future[-1].path.name}: was the clock of the computer "
                "wrong? Other snapshots count as newer"
            )
        return [*future, *(file for file in files if file.path.name <= now)]


def chosen_of(table: Table, columns: Sequence[str] | None) -> list[str]:
    """List those columns that a table has, in its order; None chooses all."""
    names: list[str] = table.schema.names
    return names if columns is None else [name for name in names if name in set(columns)]


def _rows(file: HeldFile, seqnos: Sequence[range], columns: Sequence[str]) -> pa.Table:
    """Read the rows of a file that belong to some of its masterchain seqnos."""
    if file.run is not None and not subtract([file.run], seqnos):
        return file.read(columns)
    empty = file.table.schema.empty_table().select(columns)
    return pa.concat_tables([empty, *_groups(file, seqnos, columns)])


def _groups(file: HeldFile, seqnos: Sequence[range], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read the same rows by row groups; those without any of the seqnos are not read."""
    needed = list(dict.fromkeys([*columns, "mc_block_seqno"]))
    for rows in file.groups(needed, seqnos):
        yield within(rows, seqnos).select(columns)
