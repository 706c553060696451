"""One file of a store: written whole or not at all, read with its checksums; see `sealed`."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from tonframes import sealed
from tonframes.atomic import replacing_all, sync, temporary
from tonframes.bucket import BucketPath, said
from tonframes.errors import StoreError, shorten
from tonframes.sealed import SealError
from tonframes.seqnos import joined, overlapping
from tonframes.store import verified
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pyarrow.parquet as pq

    from tonframes.wire.record import Table

T = TypeVar("T")
R = TypeVar("R")

#: Tables by ranges of seqnos, in the order in which they are written. A range is held once the
#: last one has its file.
RANGED = ("messages", "blocks", "transactions")
#: The folders of one commit of histories, in the order in which they are written. A transaction
#: may be in `transactions` too, and in each of the two folders only once.
HISTORY_FOLDERS = ("account_messages", "histories", "account_transactions")
#: The folders of snapshots, in the order in which they are written.
SNAPSHOT_FOLDERS = ("metadata", "address_book", "accounts")
#: Those of them of which only fetching accounts reads the files.
OF_ACCOUNTS = ("metadata", "accounts")
#: The columns of so few rows are read one after the other: passing them to threads takes longer.
_FEW_ROWS = 10_000
#: How many results of each reading thread may wait until they are used.
_AHEAD = 4
#: The folder of damaged files.
ASIDE = "damaged"
#: The folder of copies of compacted transactions, sorted by account.
BY_ACCOUNT = "by_account"
#: All folders with tables.
FOLDERS = (*schema.TABLES, *HISTORY_FOLDERS, BY_ACCOUNT)


def table_of(folder: str) -> Table:
    """Return the table whose rows are in the files of a folder."""
    name = "transactions" if folder == BY_ACCOUNT else folder.removeprefix("account_")
    return schema.HISTORIES if name == schema.HISTORIES.name else schema.TABLES[name]


def is_table_file(name: str) -> bool:
    """Return whether a file has the name of one with rows.

    Names that begin with a dot are of other programs, such as the `._*` files of macOS.
    """
    return name.endswith(".parquet") and not name.startswith(".")


def range_name(run: range) -> str:
    """Return the name of the files of a range of masterchain seqnos."""
    return f"{run.start:011d}-{run.stop:011d}.parquet"


class Damaged(StoreError):  # noqa: N818 - a state of a file; only the store handles it apart from other errors
    """A file is not, or no longer, what was written under its name."""

    def __init__(self, file: Path, reason: str, advice: str = "") -> None:
        what = "accounts " if file.parent.name in OF_ACCOUNTS else ""
        again = f"fetching {what}into the store again, with the network, sets aside what is damaged"
        if isinstance(file, BucketPath):
            again = f"delete the object, or move it elsewhere, and fetch {what}into the store again"
        super().__init__(f"{file} {reason}; {advice and f'{advice}; '}{again}", path=file)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a file says of itself, as JSON in the Parquet metadata key `tonframes`.

    `schema` is the version of the columns in the file, `tonframes` the version of the package that
    wrote it. `tables` are those that were written for these seqnos, in the transactions file only.
    """

    schema: int
    tonframes: str
    network: str
    service: str | None
    rows: int
    start: int | None = None
    stop: int | None = None
    proof: str | None = None
    tables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file and what must be in it: rows of a table, of a network, of masterchain seqnos."""

    path: Path
    table: Table
    network: str | None
    run: range | None

    def beside(self, folder: str, store: Path | None = None) -> HeldFile:
        """Return the file of the same name in another folder, of the store if it is given."""
        path = (store or self.path.parent.parent) / folder / self.path.name
        return HeldFile(path, table_of(folder), self.network, self.run)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of the present schema; the footer and the pages are verified."""
        with doubting(self.path), reading(self.path), sealed.opened(self.path) as opened:
            footer = self._checked(opened.about)
            needed = columns_of(self.table, footer.schema, columns)
            rows = opened.parquet().read(needed, use_threads=footer.rows > _FEW_ROWS)
        self._check_columns(rows.schema, needed)
        self._check_count(len(rows), footer)
        return with_later(self.table, rows, columns)

    def groups(
        self, columns: Sequence[str], seqnos: Sequence[range] | None = None
    ) -> Iterator[pa.Table]:
        """Read columns as `read` does, one row group after the other."""
        with doubting(self.path), reading(self.path), sealed.opened(self.path) as opened:
            footer = self._checked(opened.about)
            parquet = opened.parquet()
            self._check_count(parquet.metadata.num_rows, footer)
            needed = columns_of(self.table, footer.schema, columns)
            for group in _groups_of(parquet, seqnos):
                rows = parquet.read_row_group(group, needed)
                self._check_columns(rows.schema, needed)
                # The checksum of a page does not cover its header, with the number of values.
                if len(rows) != parquet.metadata.row_group(group).num_rows:
                    raise Damaged(self.path, f"does not have the rows of its row group {group}")
                yield with_later(self.table, rows, columns)

    def footer(self) -> Footer:
        """Read what the file says of itself."""
        with reading(self.path), sealed.opened(self.path) as opened:
            return self._checked(opened.about)

    def times(self) -> tuple[Footer, tuple[datetime, ...]]:
        """Read the footer, and the first and the last `block_time` in the file's statistics."""
        with reading(self.path), sealed.opened(self.path) as opened:
            footer = self._checked(opened.about)
            parquet = opened.parquet()
            place = parquet.schema_arrow.get_field_index("block_time")
            metadata = parquet.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            found = [group.column(place).statistics for group in groups]
        ends = [(part.min, part.max) for part in found if part is not None and part.has_min_max]
        return footer, (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else ()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        with reading(self.path):
            return self.path.stat().st_size

    def stamp(self) -> tuple[int, ...]:
        """Return what the file system says of the file; it is another one if this changes."""
        with reading(self.path):
            status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def check(self) -> Footer:
        """Read every byte, and raise `Damaged` unless they are those that were written."""
        with reading(self.path), sealed.opened(self.path, whole=True) as opened:
            footer = self._checked(opened.about)
            parquet = opened.parquet()
            columns = columns_of(self.table, footer.schema, self.table.schema.names)
            self._check_columns(parquet.schema_arrow, columns)
            rows = parquet.metadata.num_rows
        self._check_count(rows, footer)
        return footer

    def _checked(self, said: Mapping[str, Any]) -> Footer:
        # Before all else: a later version may say the rest in another way.
        refuse_newer(self.path, said.get("schema", 0))
        try:
            footer = Footer(**{f.name: said[f.name] for f in fields(Footer) if f.name in said})
        except TypeError:
            raise Damaged(self.path, "does not say what it holds") from None
        if footer.network != self.network:
            of = f"is of the network {shorten(footer.network)} in a store of {self.network}"
            raise Damaged(self.path, of)
        if self.run is not None and (footer.start, footer.stop) != (self.run.start, self.run.stop):
            of = f"holds the masterchain seqnos {footer.start}:{footer.stop}, not those of its name"
            raise Damaged(self.path, of)
        return footer

    def _check_count(self, rows: int, footer: Footer) -> None:
        if rows != footer.rows:
            raise Damaged(self.path, f"has {rows} rows of {footer.rows}")

    def _check_columns(self, found: pa.Schema, names: Sequence[str]) -> None:
        if not found.equals(self.table.select(names)):
            raise Damaged(self.path, f"does not have the columns of {self.table.name}")


def columns_of(table: Table, version: int, names: Sequence[str]) -> list[str]:
    """List those of some columns that a table has in a version of the schema."""
    there = {column.name for column in table.columns if column.since <= version}
    return [name for name in names if name in there]


def with_later(table: Table, rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of the present version: a later one has the value of its rule, or null."""
    found = dict(zip(rows.column_names, rows.columns, strict=True))
    if lacking := set(names) - found.keys():
        for column in table.columns:
            if column.name in lacking:
                found[column.name] = pa.array([column.rule] * len(rows), column.kind.arrow)
    # The metadata of the file may be shorter, and pandas takes its dtypes from there.
    return pa.Table.from_arrays([found[name] for name in names], schema=table.select(names))


def refuse_newer(path: Path, version: int) -> None:
    """Raise `StoreError` if a file, or a whole store, is of a version that came later."""
    if version > schema.VERSION:
        raise StoreError(
            f"{path} has version {version} of the columns and this tonframes reads versions up to "
            f"{schema.VERSION}: use a newer tonframes",
            path=path,
        )


def _groups_of(parquet: pq.ParquetFile, seqnos: Sequence[range] | None) -> Iterator[int]:
    """List the row groups that may have rows of some masterchain seqnos, by their statistics."""
    if seqnos is None:
        yield from range(parquet.num_row_groups)
        return
    place = parquet.schema_arrow.get_field_index("mc_block_seqno")
    for group in range(parquet.num_row_groups):
        found = parquet.metadata.row_group(group).column(place).statistics
        known = found is not None and found.has_min_max
        if not known or overlapping(range(found.min, found.max + 1), seqnos):
            yield group


def inside(rows: pa.Table, seqnos: Sequence[range]) -> pa.Array:
    """Return whether the mc_block_seqno of each row lies in one of the ranges."""
    edges = [edge for run in joined(seqnos) for edge in (run.start, run.stop)]
    numbers = rows["mc_block_seqno"].fill_null(-1).to_numpy()
    # A number lies in a range if it has passed more starts than stops.
    passed = np.searchsorted(np.array(edges, np.int64), numbers, side="right")
    return pa.array(passed % 2 == 1)


def within(rows: pa.Table, seqnos: Sequence[range]) -> pa.Table:
    """Keep the rows whose mc_block_seqno lies in one of the ranges."""
    return rows.filter(inside(rows, seqnos))


def write_groups(file: Path, table: Table, groups: Iterable[pa.Table], footer: Footer) -> None:
    """Write rows whole or not at all, sealed, with one row group in memory at a time."""
    made = temporary(file)
    try:
        sealed.write(made, table.file_schema, groups, asdict(footer), table.pruning)
        with made.open("rb") as source:
            os.fsync(source.fileno())
        made.replace(file)
        sync(file.parent)
    finally:
        made.unlink(missing_ok=True)


def content(table: Table, rows: pa.Table, footer: Footer) -> Sequence[memoryview]:
    """Return the content of a file with rows, sealed."""
    return sealed.content(table.file_schema, rows, asdict(footer), table.pruning)


def replace(file: Path, pieces: Sequence[bytes | memoryview]) -> None:
    """Write a file whole or not at all, and wait until it is on the disk."""
    replace_all({file: pieces})


def replace_all(files: Mapping[Path, Sequence[bytes | memoryview]]) -> None:
    """Write files that belong together, each whole or not at all; the last gets its name last."""
    try:
        with replacing_all(list(files)) as sinks:
            for sink, pieces in zip(sinks, files.values(), strict=True):
                for piece in pieces:
                    sink.write(piece)
    except OSError as error:
        size = sum(len(piece) for pieces in files.values() for piece in pieces)
        *_, last = files
        raise StoreError(
            f"cannot write {last} ({size:,} bytes): {error.strerror or error}; what was "
            "committed before is kept",
            path=last,
        ) from error


#: How errors of Parquet that hide a failed allocation of C++, zstd or Thrift describe it.
_OUT_OF_MEMORY = ("bad_alloc", "Allocation error", "malloc of size", "not enough memory")


def _no_memory(file: Path) -> MemoryError:
    return MemoryError(
        f"memory ran out while {file} was read: read fewer columns or masterchain seqnos at once"
    )


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn failures to read a file into errors that name it.

    An error with a number comes from the system, and the file may be good. Parquet's own errors
    have no number.
    """
    try:
        yield
    except MemoryError as error:
        raise _no_memory(file) from error
    except FileNotFoundError:
        raise Damaged(file, "is gone") from None
    except SealError as error:
        raise Damaged(file, str(error)) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"{file} cannot be read: {reason}", path=file) from error
        if isinstance(file, BucketPath) and said(error):
            raise file.failed("read", error) from None
        if any(sign in str(error) for sign in _OUT_OF_MEMORY):
            raise _no_memory(file) from error
        raise Damaged(file, f"cannot be read ({shorten(str(error))})") from error


@contextmanager
def doubting(file: Path) -> Iterator[None]:
    """Have the next fetch verify all files again if this one turns out to be damaged."""
    try:
        yield
    except Damaged:
        verified.forget(file)
        raise


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn failures to write below a folder into errors that name it."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write to the store {folder}: {error.strerror or error}; what was committed "
            "before is kept",
            path=folder,
        ) from error


def in_threads(
    read: Callable[[T], R], items: Sequence[T], threads: int | None = None
) -> Iterator[R]:
    """Call a function for each item, and list the results in the order of the items.

    Few results are in memory that the caller has not used yet. After an error or Ctrl-C nothing
    new is begun. Without a number, as many threads are used as pyarrow uses.
    """
    threads = min(threads or pa.cpu_count(), len(items))
    if threads < 2:  # noqa: PLR2004 - with one item a thread is of no use
        yield from map(read, items)
        return
    pool = ThreadPoolExecutor(threads)
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(read, item))
            if len(begun) > threads * _AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
