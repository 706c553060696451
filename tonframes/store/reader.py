"""What a store holds: nothing here writes."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import MissingError, StoreError, shorten
from tonframes.seqnos import SPAN, joined, meeting, spell, subtract
from tonframes.store.digest import within
from tonframes.store.files import FOLDERS, Damaged, Footer, HeldFile, refuse_newer, table_of
from tonframes.wire import schema
from tonframes.wire.tables import latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike

    from tonframes.wire.record import Table

#: How the time of a snapshot is written in the names of its files.
MOMENT = "%Y%m%dT%H%M%S.%fZ"

_RANGE = re.compile(r"([0-9]{11})-([0-9]{11})\.parquet")
_SNAPSHOT = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)-[0-9a-f]{8}\.parquet")
_LATEST = "9"

#: The folder of files that are about to take the places of smaller ones; see `Store.merge`.
MERGING = "merging"
#: How often a folder is listed that changes meanwhile, or read of which files go meanwhile.
_LISTINGS = 20

#: The file in which a store says of which network it is.
NETWORK = "network.json"

#: Names of networks, by the `global_id` of their blocks.
NETWORKS = {-239: "mainnet", -3: "testnet"}


#: Threads that read files: pyarrow reads without the lock of the interpreter.
_THREADS = 4
#: Bytes of snapshots that are read before the rows that are out of date are dropped.
_BATCH = 1 << 24

F = TypeVar("F", bound="Callable[..., Any]")


def _again(read: F) -> F:
    """Read again if files are gone because another process has merged them meanwhile."""

    @wraps(read)
    def patient(store: Reader, *args: Any, **options: Any) -> Any:
        for _ in range(_LISTINGS):
            before = store.files("transactions")
            try:
                return read(store, *args, **options)
            except Damaged:
                if store.files("transactions") == before:
                    raise
        return read(store, *args, **options)

    return cast("F", patient)


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store says of itself: `schema` is the newest version that its files may have."""

    network: str
    service: str
    schema: int


class Reader:
    """A folder of Parquet files that belong to one network, to be read."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = _checked_path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def network(self) -> str | None:
        """The network that the store holds; None before it is claimed."""
        info = self.info()
        return info.network if info else None

    @property
    def service(self) -> str | None:
        """The service that the store was first fetched from; None before that."""
        info = self.info()
        return info.service if info else None

    def info(self) -> StoreInfo | None:
        """Read what the store says of itself in `network.json`; None before it is claimed.

        Raises
        ------
        StoreError
            The file cannot be read, or a newer tonframes has written to the store.
        """
        file = self.path / NETWORK
        try:
            said = json.loads(file.read_bytes())
            network, service, version = said["network"], said["service"], int(said["schema"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{file} does not say which network the store is of ({type(error).__name__}: "
                f"{shorten(str(error))}): it is no store of tonframes, or the file is damaged",
                path=file,
            ) from None
        refuse_newer(self.path, version)
        return StoreInfo(str(network), str(service), version)

    def check(self) -> None:
        """Raise `StoreError` unless there is a store."""
        if self.network is None:
            raise StoreError(
                f"there is no store at {self.path}: fetch_blocks(..., store={str(self.path)!r}) "
                "makes one",
                path=self.path,
            )

    # ── ranges of masterchain seqnos ─────────────────────────────────────────────────────────────

    def files(self, name: str) -> dict[range, Path]:
        """List the files of a table by range, in order.

        A range is held if it has a file of transactions, which is written last. While small files
        are merged, the merged one counts instead of them.
        """
        for _ in range(_LISTINGS):
            changed = self._changed(name)
            found, merged = self._ranges(name), self._ranges(f"{MERGING}/transactions")
            of_merged = self._ranges(f"{MERGING}/{name}") if merged else {}
            if self._changed(name) == changed:
                break  # no other process has changed the folder meanwhile
        if not merged:
            return found
        single = {
            run: file
            for run, file in found.items()
            if run in merged or not any(run[0] in whole and run[-1] in whole for whole in merged)
        }
        here = single | {run: file for run, file in of_merged.items() if run in merged}
        return dict(sorted(here.items(), key=lambda item: item[0].start))

    def _ranges(self, name: str) -> dict[range, Path]:
        """List the files in a folder by range, in order."""
        found = {}
        for file, match in self._listed(name, _RANGE):
            run = range(int(match[1]), int(match[2]))
            if not run or run.start // SPAN != (run.stop - 1) // SPAN:
                raise _misnamed(file)
            found[run] = file
        return found

    def _changed(self, name: str) -> int:
        try:
            return (self.path / name).stat().st_mtime_ns
        except OSError:
            return 0

    def held(self) -> tuple[range, ...]:
        """Return the masterchain seqnos that the store holds, as ranges."""
        return joined(self.files("transactions"))

    def gaps(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return the parts of these ranges that are not held."""
        return subtract(seqnos, self.held())

    def require(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return these ranges joined, or raise `MissingError` if some of them are not held."""
        wanted = joined(seqnos)
        if missing := self.gaps(wanted):
            raise MissingError(
                f"{self.path} does not hold the masterchain seqnos {spell(missing)}: fetch them "
                f"with fetch_blocks(..., store={str(self.path)!r})",
                missing=missing,
            )
        return wanted

    def held_of(self, name: str, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return those of these seqnos for which the store holds rows of a table.

        Raises
        ------
        StoreError
            The table was written for some of them, and the file is gone.
        """
        wanted = joined(seqnos)
        return subtract(wanted, subtract(wanted, [run for run, _ in self._files(name, wanted)]))

    @_again
    def read(
        self, name: str, seqnos: Iterable[range], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the rows of a table that belong to these masterchain seqnos, in order.

        Parameters
        ----------
        name
            transactions, messages or blocks.
        seqnos
            Ranges that are held.
        columns
            Which columns to read, of those that the table has; None is all.

        Raises
        ------
        MissingError
            Some of `seqnos` are not held, or not any more.
        StoreError
            A file is damaged, or cannot be read.
        """
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        wanted = self.require(seqnos)
        parts = [_rows(file, wanted, chosen) for _, file in self._files(name, wanted)]
        return pa.concat_tables([table.schema.empty_table().select(chosen), *parts])

    @_again
    def distinct(self, name: str, seqnos: Iterable[range], columns: Sequence[str]) -> set[str]:
        """Return the distinct texts in some columns of these masterchain seqnos.

        A few files are in memory at a time.
        """
        wanted = self.require(seqnos)

        def texts(file: HeldFile) -> list[str]:
            rows = _rows(file, wanted, columns)
            found = pc.unique(pa.chunked_array([c for each in rows.columns for c in each.chunks]))
            return cast("list[str]", found.drop_null().to_pylist())

        files = [file for _, file in self._files(name, wanted)]
        with ThreadPoolExecutor(_THREADS) as pool:
            return set().union(*pool.map(texts, files))

    @_again
    def count(self, name: str, seqnos: Iterable[range]) -> int:
        """Count the rows that `read` would return.

        Footers tell the number for files that lie wholly inside.
        """
        total = 0
        wanted = self.require(seqnos)
        for run, file in self._files(name, wanted):
            here = meeting(run, wanted)
            if subtract([run], here):
                total += len(within(file.read(["mc_block_seqno"]), here))
            else:
                total += file.footer().rows
        return total

    @_again
    def head(
        self, name: str, seqnos: Iterable[range], rows: int, columns: Sequence[str]
    ) -> pa.Table:
        """Read the first rows that `read` would return, from no more files than needed."""
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        wanted = self.require(seqnos)
        first = table.schema.empty_table().select(chosen)
        for _, file in self._files(name, wanted):
            if len(first) >= rows:
                break
            more = _rows(file, wanted, chosen)
            first = pa.concat_tables([first, more.slice(0, rows - len(first))])
        return first

    def held_files(self, name: str, seqnos: Iterable[range]) -> list[HeldFile]:
        """List the files that `read` would read, in order."""
        return [file for _, file in self._files(name, self.require(seqnos))]

    def _files(self, name: str, wanted: Sequence[range]) -> Iterator[tuple[range, HeldFile]]:
        """List the files of a table that have some of these seqnos, in order."""
        network = self.network
        transactions = self.files("transactions")
        files = transactions if name == "transactions" else self.files(name)
        for run, last in transactions.items():
            if not meeting(run, wanted):
                continue
            if run in files:
                yield run, HeldFile(files[run], schema.TABLES[name], network, run)
            elif (
                name in HeldFile(last, schema.TABLES["transactions"], network, run).footer().tables
            ):
                raise Damaged(self.path / name / last.name, "is gone")

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────

    def snapshot(
        self,
        name: str,
        *,
        as_of: datetime | None = None,
        addresses: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Read the newest row of each address, in the order in which the rows were written.

        Parameters
        ----------
        name
            accounts, address_book or metadata.
        as_of
            Only rows fetched until this moment; None is all.
        addresses
            Raw addresses to choose; None is all.
        columns
            Which columns to read, of those that the table has; None is all.
        """
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        needed = list(dict.fromkeys([*chosen, "address"]))
        of = None if addresses is None else pa.array(addresses, pa.string())
        rows, size = [table.schema.empty_table().select(needed)], 0
        for file in self.held_snapshots(name, as_of=as_of):
            rows.append(file.read(needed))
            size += rows[-1].nbytes
            # So no more than twice the result and a batch are in memory, in linear time.
            if size > rows[0].nbytes + _BATCH:
                rows, size = [_newest(rows, of)], 0
        return _newest(rows, of).select(chosen)

    def held_snapshots(self, name: str, *, as_of: datetime | None = None) -> list[HeldFile]:
        """List the files of a table of snapshots, oldest first; those until a moment if given."""
        network = self.network
        last = _LATEST if as_of is None else as_of.astimezone(UTC).strftime(MOMENT)
        return [
            HeldFile(file, table_of(name), network, None)
            for file, match in self._listed(name, _SNAPSHOT)
            if match[1] <= last
        ]

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def footer(self, file: Path) -> Footer:
        """Read what a file of the store says of itself."""
        return self._held_file(file, self.network).footer()

    def all_files(self) -> list[HeldFile]:
        """List every file of the store: tables by ranges first, then snapshots."""
        pattern, network = re.compile(f"{_RANGE.pattern}|{_SNAPSHOT.pattern}"), self.network
        return [
            self._held_file(file, network)
            for name in FOLDERS
            for file, _ in self._listed(name, pattern)
        ]

    def _held_file(self, path: Path, network: str | None) -> HeldFile:
        match = _RANGE.fullmatch(path.name)
        run = range(int(match[1]), int(match[2])) if match else None
        return HeldFile(path, table_of(path.parent.name), network, run)

    def _listed(self, name: str, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        folder = self.path / name
        try:
            names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".parquet")
        except FileNotFoundError:  # a copy of the store may lack its empty folders
            return
        except OSError as error:
            raise StoreError(f"cannot list {folder}: {error.strerror}", path=folder) from error
        for file in names:
            match = pattern.fullmatch(file)
            if match is None:
                raise _misnamed(folder / file)
            yield folder / file, match


def chosen_of(table: Table, columns: Sequence[str] | None) -> list[str]:
    """List those columns that a table has, in its order; None chooses all."""
    names: list[str] = table.schema.names
    return names if columns is None else [name for name in names if name in set(columns)]


def _checked_path(path: str | PathLike[str]) -> Path:
    if not os.fspath(path):
        raise ValueError("the path of the store is empty: name a folder")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the path of the store is not UTF-8, which Parquet needs: {shorten(str(path))}"
        ) from None
    return Path(path).expanduser()


def _rows(file: HeldFile, wanted: Sequence[range], columns: Sequence[str]) -> pa.Table:
    """Read the rows of a file that belong to some masterchain seqnos."""
    run = file.run or range(0)
    here = meeting(run, wanted)
    if not subtract([run], here):
        return file.read(columns)
    needed = list(dict.fromkeys([*columns, "mc_block_seqno"]))
    return within(file.read(needed), here).select(columns)


def _newest(parts: Sequence[pa.Table], addresses: pa.Array | None) -> pa.Table:
    """Keep the last row of each address, or of each of some addresses."""
    rows = pa.concat_tables(parts)
    if addresses is not None:
        rows = rows.filter(pc.is_in(rows["address"], addresses))
    return latest(rows)


def _misnamed(file: Path) -> StoreError:
    return StoreError(
        f"{file} does not have a name that files of a store have: move it elsewhere", path=file
    )
