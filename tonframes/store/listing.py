"""Which files a store has, and which masterchain seqnos are held: no rows are read."""

from __future__ import annotations

import os
import re
from datetime import UTC
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tonframes.bucket import BucketPath, is_url
from tonframes.errors import MissingError, StoreError, shorten
from tonframes.seqnos import WIDTHS, fits, joined, overlapping, spell, subtract
from tonframes.store.files import (
    FOLDERS,
    RANGED,
    Damaged,
    HeldFile,
    in_threads,
    is_table_file,
    table_of,
)
from tonframes.store.identity import MADE_UP, read_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from os import PathLike

    from tonframes.store.files import Footer
    from tonframes.store.identity import StoreInfo

#: How the time of a snapshot is written in the names of its files.
MOMENT = "%Y%m%dT%H%M%S.%fZ"

_RANGE = re.compile(r"([0-9]{11})-([0-9]{11})\.parquet")
_SNAPSHOT = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)-[0-9a-f]{8}\.parquet")
_ANY = re.compile(f"{_RANGE.pattern}|{_SNAPSHOT.pattern}")
_LATEST = "9"

#: The folder of rows that were ingested; see `ingested`.
INGESTED = "ingested"
#: The folder of files that are about to take the places of smaller ones; see `Store.merge`.
MERGING = "merging"
#: How often a folder is listed that changes meanwhile, or read of which files go meanwhile.
LISTINGS = 20


class Listing:
    """The files of a store, which belong to one network."""

    def __init__(self, path: str | PathLike[str] | BucketPath) -> None:
        self.path = _checked_path(path)

    @property
    def folder(self) -> Path:
        """The folder of this store on this computer."""
        return self.path

    def at(self, file: str) -> Path:
        """Return a file of the store by its path within the store."""
        return self.path / file

    def has_moved(self, file: Path) -> bool:  # noqa: ARG002 - see `BucketReader`
        """Return whether a file is in another place by now."""
        return False

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
        """Read what the store says of itself; None before it is claimed."""
        return read_info(self.path)

    def check(self) -> None:
        """Raise `StoreError` unless there is a store."""
        if self.network is None:
            instead = ""
            if isinstance(self.path, Path) and (self.path / INGESTED).is_dir():
                instead = "only ingested rows, which are not proven; "
            elif isinstance(self.path, Path) and (self.path / "transactions.parquet").is_file():
                instead = "only files for other programs, which `write` has written; "
            raise StoreError(
                f"there is no store at {self.path}: {instead}a fetch with "
                f"store={str(self.path)!r} makes one",
                path=self.path,
            )

    # ── ranges of masterchain seqnos ─────────────────────────────────────────────────────────────

    def files(self, name: str, seqnos: Iterable[range] | None = None) -> dict[range, Path]:
        """List the files of a table (transactions, messages or blocks) by range, in order.

        A range is held if it has a file of transactions, which is written last. Files that are far
        from all of the seqnos may be left out.
        """
        held = self.runs(None if seqnos is None else joined(seqnos))
        found = held if name == "transactions" else self._beside(name, held)
        return {run: self.at(file) for run, file in found.items()}

    def runs(self, seqnos: Sequence[range] | None = None) -> dict[range, str]:
        """List the files of transactions as `files` does, as paths within the store."""
        for _ in range(LISTINGS):
            changed = self.changed("transactions")
            found = self._runs("transactions", seqnos)
            merged = self._runs(f"{MERGING}/transactions", seqnos)
            if self.changed("transactions") == changed:
                break  # no other process has changed the folder meanwhile
        if merged:
            wide = widest(merged)
            every = {run: file for run, file in merged.items() if run in wide} | {
                run: file for run, file in found.items() if run in wide or not is_inside(run, wide)
            }
            found = dict(sorted(every.items(), key=lambda item: item[0].start))
        for run, after in pairwise(found):
            if after.start < run.stop:
                raise StoreError(
                    f"{self.path / found[run]} and {found[after]} have the same masterchain "
                    f"seqnos, so another store was copied into this one: move one of them out, "
                    "with the files of its name in the other folders",
                    path=self.path / found[after],
                )
        return found

    def _beside(self, name: str, held: Mapping[range, str]) -> dict[range, str]:
        """List the files of another table that were written together with files of transactions."""
        if not held:
            return {}
        first, *_, last = [*held, *held]
        near, folders = [range(first.start, last.stop)], (f"{MERGING}/{name}", name)
        there = {_name(file): file for f in folders for file in self._runs(f, near).values()}
        return {run: there[_name(file)] for run, file in held.items() if _name(file) in there}

    def _ranges(self, name: str, seqnos: Sequence[range] | None = None) -> dict[range, Path]:
        """List the files in a folder by range, in order."""
        return {run: self.at(file) for run, file in self._runs(name, seqnos).items()}

    def _runs(self, name: str, seqnos: Sequence[range] | None = None) -> dict[range, str]:
        """List the files in a folder by range, in order, as paths within the store.

        Those that are far from some joined ranges are left out. In a large store, looking at each
        name would take longer than listing them.
        """
        names = self._names(name)
        if seqnos is not None:
            first, stop = (seqnos[0].start, seqnos[-1].stop) if seqnos else (0, 0)
            low, high = f"{max(first - WIDTHS[-1], 0):011d}", f"{stop:011d}"
            names = [f for f in names if low <= f < high or not "0" <= f < ":"]  # ":" is after "9"
        found = {}
        for file in sorted(filter(is_table_file, names)):
            run = run_of(file)
            if not run or not fits(run):
                raise _misnamed(self.path / name / file)
            found[run] = f"{name}/{file}"
        return found

    def changed(self, name: str) -> int:
        """Return a number that changes when files of a folder are added or removed."""
        try:
            return (self.path / name).stat().st_mtime_ns
        except OSError:
            return 0

    def held(self) -> tuple[range, ...]:
        """Return the masterchain seqnos that the store holds, as ranges."""
        return joined(self.runs())

    def gaps(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return the parts of these ranges that are not held."""
        wanted = list(seqnos)
        return subtract(wanted, self.runs(joined(wanted)))

    def require(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return these ranges joined, or raise `MissingError` if some of them are not held."""
        wanted = joined(seqnos)
        if missing := self.gaps(wanted):
            raise MissingError(
                f"{self.path} does not hold the masterchain seqnos {spell(missing)}: "
                f"{self.advice('fetch_blocks')}",
                missing=missing,
            )
        return wanted

    def advice(self, fetch: str) -> str:
        """Return how to get what is not held, with the name of the function that fetches it."""
        if self.service == MADE_UP:
            return (
                "its data are made up, and there is no more of them; fetch from a service into a "
                f"store of your own, as {fetch}(..., store='my-store')"
            )
        return f"fetch them with {fetch}(..., store={str(self.path)!r})"

    def _files(self, name: str, wanted: Sequence[range]) -> list[tuple[range, HeldFile]]:
        """List the files of a table that have some of these seqnos, in order."""
        network, written = self.network, self._written(name, wanted)
        return [
            (run, self._held_file(self.at(file), network))
            for run, file in written.items()
            if overlapping(run, wanted)
        ]

    def _written(self, name: str, wanted: Sequence[range]) -> dict[range, str]:
        """List the files of a table near these seqnos, as paths within the store.

        If the table was written for some of them and the file is gone, `Damaged` is raised.
        """
        held, network = self.runs(wanted), self.network
        if name == "transactions":
            return held
        beside = self._beside(name, held)
        lacking = [
            file for run, file in held.items() if run not in beside and overlapping(run, wanted)
        ]
        footers = in_threads(lambda file: self._held_file(self.at(file), network).footer(), lacking)
        for file, footer in zip(lacking, footers, strict=True):
            if name in footer.tables:
                raise Damaged(self.path / name / _name(file), "is gone")
        return beside

    # ── snapshots, and all files ─────────────────────────────────────────────────────────────────

    def held_snapshots(self, name: str, *, as_of: datetime | None = None) -> list[HeldFile]:
        """List the files of a table of snapshots, oldest first; those until a moment if given."""
        network = self.network
        last = _LATEST if as_of is None else as_of.astimezone(UTC).strftime(MOMENT)
        return [
            HeldFile(self.at(f"{name}/{file}"), table_of(name), network, None)
            for file in self._table_names(name, _SNAPSHOT)
            if file.partition("-")[0] <= last
        ]

    def footer(self, file: Path) -> Footer:
        """Read what a file of the store says of itself."""
        return self._held_file(file, self.network).footer()

    def held_file(self, folder: str, name: str) -> HeldFile:
        """Return a file of the store, and what must be in it."""
        return self._held_file(self.at(f"{folder}/{name}"), self.network)

    def all_files(self) -> list[HeldFile]:
        """List every file of the store: tables by ranges first, then snapshots."""
        network, names = self.network, list(FOLDERS)
        merged = widest(self._ranges(f"{MERGING}/{RANGED[-1]}"))
        if merged:
            names = [*(f"{MERGING}/{name}" for name in RANGED), *FOLDERS]
        found = {
            (name.rpartition("/")[2], file): self.at(f"{name}/{file}")
            for name in names
            for file in self._table_names(name)
        }
        files = [self._held_file(file, network) for file in found.values()]
        return [
            file
            for file in files
            if file.run is None or file.run in merged or not is_inside(file.run, merged)
        ]

    def _held_file(self, path: Path, network: str | None) -> HeldFile:
        return HeldFile(path, table_of(path.parent.name), network, run_of(path.name))

    def _table_names(self, name: str, pattern: re.Pattern[str] = _ANY) -> list[str]:
        """List the names of the files of a folder, in order."""
        names = sorted(filter(is_table_file, self._names(name)))
        for file in names:
            if not pattern.fullmatch(file):
                raise _misnamed(self.path / name / file)
        return names

    def _names(self, name: str) -> list[str]:
        """List the names in a folder, in any order."""
        folder = self.path / name
        try:
            return os.listdir(folder)  # noqa: PTH208 - paths take ten times as long as names
        except FileNotFoundError:  # a copy of the store may lack its empty folders
            return []
        except OSError as error:
            raise StoreError(f"cannot list {folder}: {error.strerror}", path=folder) from error


def _name(file: str) -> str:
    """Return the name of a file from its path within the store."""
    return file.rpartition("/")[2]


@lru_cache(2**16)
def run_of(name: str) -> range | None:
    """Return the seqnos that a name of a file says; None if it says none."""
    match = _RANGE.fullmatch(name)
    return range(int(match[1]), int(match[2])) if match else None


def is_inside(run: range, others: Sequence[range]) -> bool:
    """Return whether one of ranges that do not overlap has all seqnos of a range."""
    return any(run[0] in other and run[-1] in other for other in overlapping(run, others))


def widest(runs: Iterable[range]) -> tuple[range, ...]:
    """List those ranges that are in no other one, in order; they overlap in no other way."""
    widest: list[range] = []
    for run in sorted(runs, key=lambda run: (run.start, -run.stop)):
        if not widest or run[-1] not in widest[-1]:
            widest.append(run)
    return tuple(widest)


def _checked_path(path: str | PathLike[str] | BucketPath) -> Path:
    if isinstance(path, BucketPath):
        return cast("Path", path)  # it has those members of a Path that reading needs
    if is_url(path):
        raise ValueError(
            "a folder is needed here, not a URL: a bucket holds masterchain blocks and states of "
            "accounts only (fetch_blocks, plan_blocks, follow_blocks, fetch_accounts, read_blocks, "
            "read_accounts, scan, verify_store and serve take its URL)"
        )
    if not os.fspath(path):
        raise ValueError("the path of the store is empty: name a folder")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the path of the store is not UTF-8, which Parquet needs: {shorten(str(path))}"
        ) from None
    return Path(path).expanduser()


def _misnamed(file: Path) -> StoreError:
    return StoreError(
        f"{file} does not have a name that files of a store have: move it elsewhere", path=file
    )
