"""Ranges of masterchain seqnos: written, and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tonframes.atomic import sync
from tonframes.seqnos import SPAN, aligned, joined, meeting
from tonframes.store import damage
from tonframes.store.files import HISTORY_FOLDERS, RANGED, Damaged, HeldFile, range_name, within
from tonframes.store.listing import MERGING
from tonframes.store.places import PlaceWriter
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tonframes.store.files import Footer

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


class RangeWriter(PlaceWriter):
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
                file for run, file in self.files("transactions").items() if meeting(run, wanted)
            ]
            network = self.network
            for file in files:
                held = self._held_file(file, network)
                self._put_aside([held.beside(name).path for name in written_with(held)], reason)

    def merge(self, seqnos: range) -> None:
        """Merge adjacent small files of the masterchain blocks around these; see `places`."""
        with self._writing():
            for group in self._groups(seqnos):
                self._merge(group)

    def replace_range(self, run: range, files: Sequence[Path], folder: Path) -> bool:
        """Commit files that have the rows of several others, and return whether these are held.

        `folder` has the new files, under the names of their tables.
        """
        with self._writing():
            held = self.files(RANGED[-1]).items()
            there = [file.name for part, file in held if meeting(part, [run])]
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
            if meeting(run, [around]):
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
        runs = [file.run or range(0) for file in group]
        start, stop = runs[0].start, runs[-1].stop
        try:
            said = [file.footer() for file in group]
            rows = {
                name: pa.concat_tables(
                    self._checked_rows(self.path / name / file.path.name, file.run)
                    for file in group
                )
                for name in said[0].tables
            }
        except Damaged:
            return
        self._write_range(self.path / MERGING, rows, range(start, stop), proof_of(said))
        self._finish_merging()

    def _checked_rows(self, path: Path, run: range | None) -> pa.Table:
        file = HeldFile(path, schema.TABLES[path.parent.name], self.network, run)
        damage.check(file)
        return file.read(file.table.schema.names)

    def _make_room(self, part: range) -> None:
        """Set aside files without their transactions that would overlap those of a new range."""
        held = {file.name for file in self._ranges("transactions", [part]).values()}
        for name in RANGED[:-1]:
            orphans = [
                file
                for run, file in self._ranges(name, [part]).items()
                if meeting(run, [part]) and run != part and file.name not in held
            ]
            self._put_aside(orphans, f"there are files in {name} without those in transactions")
