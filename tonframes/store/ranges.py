"""Ranges of masterchain seqnos: written, and merged.

Merged files take the places of the smaller ones that have the same rows.

A merged file is written into the folder `merging`. From then on tonframes reads it instead of the
smaller ones. A file of one span of 100 masterchain seqnos takes the place of its parts at once. A
compacted file, which is wider, takes three steps, so that readers that were given paths find them:

1. The smaller files stay in the folders of the tables for the grace. Data sets of other engines
   have these folders and do not have `merging`, so they have each row once.
2. Each folder is exchanged for one with the compacted files instead of the smaller ones. Where the
   system can exchange folders, a data set has all rows at every moment. Otherwise those of one
   folder are away for as long as its smaller files are removed.
3. For another grace the compacted files stay in `merging` as well, as second names (hard links).

A process that is killed leaves what the next writer completes.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from tonframes.atomic import exchange, sync
from tonframes.seqnos import SPAN, aligned, joined, overlapping, subtract
from tonframes.store import damage, verified
from tonframes.store.files import (
    BY_ACCOUNT,
    HISTORY_FOLDERS,
    RANGED,
    Damaged,
    HeldFile,
    range_name,
    within,
)
from tonframes.store.listing import MERGING, is_inside, run_of, widest
from tonframes.store.writer import Writer
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tonframes.store.files import Footer

#: Seconds. So long files that were replaced stay for those who have their paths.
GRACE = 3600.0
#: Seconds in which those who have begun to list a folder before it was exchanged finish. A listing
#: reads the folder that it has opened, even after that has another name.
_LISTED = 0.2
#: Files are merged up to this many transactions, to limit the memory.
LARGEST = 20_000


def written_with(file: HeldFile) -> Iterable[str]:
    """List the folders of the files that were written together with one, the last one first."""
    folder = file.path.parent.name
    if folder == RANGED[-1]:
        return reversed(RANGED)
    return reversed(HISTORY_FOLDERS) if folder in HISTORY_FOLDERS else [folder]


def proof_of(footers: Iterable[Footer]) -> str:
    """Return how the rows of several files were proven, as the proof of one with all of them."""
    return "; ".join(dict.fromkeys(footer.proof for footer in footers if footer.proof))


class RangeWriter(Writer):
    """The tables of masterchain blocks, which have the same ranges."""

    def write_blocks(
        self, tables: Mapping[str, pa.Table], seqnos: Iterable[range], *, proof: str
    ) -> None:
        """Commit the rows of whole masterchain blocks. Seqnos that are held are left as they are.

        `proof` is how it was shown that nothing is missing: "chain" or "links".
        """
        names = [name for name in RANGED if name in tables]
        with self._writing():
            self._append("address_book", tables["address_book"])
            for run in self.gaps(seqnos):
                for part in aligned(run):
                    self._make_room(part)
                    rows = {name: within(tables[name], [part]) for name in names}
                    self._write_range(self.path, rows, part, proof)

    def _write_range(
        self, folder: Path, tables: Mapping[str, pa.Table], run: range, proof: str | None
    ) -> None:
        """Write the files of a range, that of the transactions last."""
        names = [name for name in RANGED if name in tables]
        files = {}
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
            files[folder / name / range_name(run)] = self._content(
                schema.TABLES[name],
                tables[name],
                start=run.start,
                stop=run.stop,
                proof=proof,
                tables=names if name == RANGED[-1] else (),
            )
        self._commit(files)

    def set_aside(self, seqnos: Iterable[range], reason: str) -> None:
        """Set aside the files that hold some masterchain blocks, and warn."""
        wanted = joined(seqnos)
        with self._writing():
            files = [
                file for run, file in self.files("transactions").items() if overlapping(run, wanted)
            ]
            network = self.network
            for file in files:
                held = self._held_file(file, network)
                self._put_aside([held.beside(name).path for name in written_with(held)], reason)

    def merge(self, seqnos: range) -> None:
        """Merge adjacent small files of the masterchain blocks around these; see above."""
        with self._writing():
            for group in self._groups(seqnos):
                self._merge(group)

    def replace_range(self, run: range, files: Sequence[Path], folder: Path) -> bool:
        """Commit files that have the rows of several others, and return whether these are held."""
        with self._writing():
            held = self.files(RANGED[-1]).items()
            there = [file.name for part, file in held if overlapping(part, [run])]
            if there != [file.name for file in files]:
                return False
            self._raise_version()
            for name in RANGED:
                new, place = folder / f"{name}.parquet", self.path / MERGING / name
                if new.exists():
                    place.mkdir(parents=True, exist_ok=True)
                    new.replace(place / range_name(run))
                    sync(place)
        return True

    def _groups(self, seqnos: range) -> Iterator[list[HeldFile]]:
        """List adjacent files that can be one: of one part between multiples of `SPAN`."""
        around = range(seqnos.start // SPAN * SPAN, -(-seqnos.stop // SPAN) * SPAN)
        network, table = self.network, schema.TABLES["transactions"]
        group: list[HeldFile] = []
        for run, path in self._ranges("transactions", [around]).items():
            if overlapping(run, [around]):
                file = HeldFile(path, table, network, run)
                if group and not self._fits(group, file):
                    yield group
                    group = []
                group.append(file)
        yield group

    def _fits(self, group: Sequence[HeldFile], file: HeldFile) -> bool:
        last, run = group[-1].run or range(0), file.run or range(0)
        if last.stop != run.start or run.start % SPAN == 0:
            return False
        try:
            footers = [one.footer() for one in (*group, file)]
        except Damaged:
            return False
        alike = len({tuple(footer.tables) for footer in footers}) == 1
        return alike and sum(footer.rows for footer in footers) <= LARGEST

    def _merge(self, group: Sequence[HeldFile]) -> None:
        """Write files as one, which takes their places; damaged ones stay as they are."""
        if len(group) < 2:  # noqa: PLR2004 - nothing to merge
            return
        start, stop = (group[0].run or range(0)).start, (group[-1].run or range(0)).stop
        try:
            said = [file.footer() for file in group]
            rows = {}
            for name in said[0].tables:
                parts = [file.beside(name) for file in group]
                for part in parts:
                    damage.check(part)
                whole = [part.read(part.table.schema.names) for part in parts]
                rows[name] = pa.concat_tables(whole)
        except Damaged:
            return
        self._write_range(self.path / MERGING, rows, range(start, stop), proof_of(said))
        self._finish_merging()

    def _make_room(self, part: range) -> None:
        """Set aside files without their transactions that would overlap those of a new range."""
        held = {file.name for file in self._ranges("transactions", [part]).values()}
        for name in RANGED[:-1]:
            orphans = [
                file
                for run, file in self._ranges(name, [part]).items()
                if overlapping(run, [part]) and run != part and file.name not in held
            ]
            self._put_aside(orphans, f"there are files in {name} without those in transactions")

    # ── merged files take their places ────────────────────────────────────────────────────────────

    def settle(self, grace: float) -> None:
        """Put the merged files into their places that have waited for so many seconds."""
        with self._writing():
            self._finish_merging(grace)

    def place_copy(self, new: Path) -> None:
        """Put a copy by account into its folder."""
        with self._writing():
            folder = self.path / BY_ACCOUNT
            folder.mkdir(exist_ok=True)
            new.replace(folder / new.name)
            sync(folder)

    def remove_copies(self, grace: float) -> None:
        """Remove copies by account of files that have become a part of larger ones."""
        with self._writing():
            held = tuple(self.files(RANGED[-1]))
            for run, file in self._ranges(BY_ACCOUNT).items():
                if run not in held and is_inside(run, held) and damage.is_old(file, grace):
                    file.unlink()

    def _finish_merging(self, grace: float = GRACE) -> None:
        """Put merged files into their places, and remove the smaller ones."""
        folder = self.path / MERGING
        if not folder.is_dir():
            return
        for name in RANGED:  # folders of before, which a process that was killed has not removed
            shutil.rmtree(folder / f"{name}.new", ignore_errors=True)
        due = [file for file in self._merged().values() if self._is_due(file, grace)]
        self._put_in_place([file for file in due if self._is_sound(file)])
        self._remove_second_names(grace)
        self._sweep_merging()
        if not self._merged():
            (folder / verified.NOTE).unlink(missing_ok=True)
        for empty in (*(folder / name for name in RANGED), folder):
            with suppress(OSError):  # it has files, or is not there
                empty.rmdir()

    def _merged(self) -> dict[range, Path]:
        return self._ranges(f"{MERGING}/{RANGED[-1]}")

    def _is_due(self, merged: Path, grace: float) -> bool:
        """Return whether a merged file is to take its place now, or has begun to."""
        *others, last = [self.path / name / merged.name for name in RANGED]
        if last.exists():
            return False
        narrow = len(run_of(merged.name) or range(0)) <= SPAN
        return narrow or any(map(os.path.exists, others)) or damage.is_old(merged, grace)

    def _is_sound(self, merged: Path) -> bool:
        """Set merged files aside if one of them is damaged, and return whether they are sound."""
        network = self.network
        try:
            for name in damage.check(self._held_file(merged, network)).tables:
                there = self.path / MERGING / name / merged.name
                place = there if there.exists() else self.path / name / merged.name
                damage.check(self._held_file(place, network))
        except Damaged as damaged:
            self._put_aside([merged], f"{damaged.path} {damaged.reason}")
            return False
        return True

    def _put_in_place(self, merged: Sequence[Path]) -> None:
        """Exchange the smaller files for the merged ones, those of the transactions last."""
        wide = widest(run for file in merged if (run := run_of(file.name)))
        for name in RANGED if wide else ():
            old = [
                file
                for run, file in self._ranges(name).items()
                if run not in wide and is_inside(run, wide)
            ]
            there = self._ranges(f"{MERGING}/{name}")
            new = [there[run] for run in wide if run in there]
            compacted = any(len(run) > SPAN for run in wide)
            if not (compacted and self._exchange(self.path / name, old, new)):
                self._replace(self.path / name, old, new)
        self._remove(run for run in self._merged() if run not in wide and is_inside(run, wide))

    def _exchange(self, folder: Path, old: Iterable[Path], new: Iterable[Path]) -> bool:
        """Replace files of a folder in one step; return whether the system can."""
        other = self.path / MERGING / f"{folder.name}.new"
        removed = {file.name for file in old}
        kept = [file for file in folder.iterdir() if file.name not in removed]
        try:
            shutil.rmtree(other, ignore_errors=True)
            other.mkdir()
            shutil.copystat(folder, other)
            status = folder.stat()
            os.chown(other, status.st_uid, status.st_gid)
            for file in (*kept, *new):
                os.link(file, other / file.name, follow_symlinks=False)
            sync(other)
            if not exchange(folder, other):
                raise OSError  # noqa: TRY301 - as where there are no hard links
        except (OSError, NotImplementedError, AttributeError):
            shutil.rmtree(other, ignore_errors=True)
            return False
        sync(self.path)
        sync(other.parent)
        time.sleep(_LISTED)
        shutil.rmtree(other)  # it is the folder of before
        return True

    def _replace(self, folder: Path, old: Iterable[Path], new: Iterable[Path]) -> None:
        """Replace files of a folder, the old ones first, so that it never has a row twice."""
        for file in old:
            file.unlink()
        for file in new:
            if len(run_of(file.name) or range(0)) > SPAN:
                with suppress(OSError, NotImplementedError):
                    os.link(file, folder / file.name)
            if not (folder / file.name).exists():
                file.replace(folder / file.name)
        sync(folder)

    def _remove_second_names(self, grace: float) -> None:
        """Remove files that have their places, after the grace."""
        self._remove(
            run
            for run, file in self._merged().items()
            if (self.path / RANGED[-1] / file.name).exists() and damage.is_old(file, grace)
        )

    def _remove_second_names_of(self, files: Iterable[Path]) -> None:
        """Remove the second names of files that are about to leave their places."""
        for file in files:
            second = self.path / MERGING / file.parent.name / file.name
            if second != file and file.exists() and second.exists() and second.samefile(file):
                second.unlink()

    def _remove(self, runs: Iterable[range]) -> None:
        """Remove merged files, that of the transactions first."""
        for run in runs:
            for name in reversed(RANGED):
                (self.path / MERGING / name / range_name(run)).unlink(missing_ok=True)

    def _sweep_merging(self) -> None:
        """Remove merged files without their transactions, unless no others have their rows."""
        merged, held = self._merged(), self.runs()
        for name in RANGED[:-1]:
            for run, file in self._ranges(f"{MERGING}/{name}").items():
                if run not in merged and subtract([run], held):
                    self._put_aside([file], "merged files of which no others have the rows")
                elif run not in merged:
                    file.unlink()
