"""Writing to a store: more is committed, and damaged files leave."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.atomic import TEMPORARY, probe, sync
from tonframes.errors import StoreError, warn
from tonframes.seqnos import SPAN, aligned, joined, meeting, subtract
from tonframes.store import damage, histories, merging
from tonframes.store.digest import digest, within
from tonframes.store.files import (
    FOLDERS,
    HISTORY_FOLDERS,
    Damaged,
    Footer,
    HeldFile,
    replace,
    table_of,
    write,
    writing,
)
from tonframes.store.identity import NETWORK, StoreInfo, encoded, is_sealed
from tonframes.store.locks import locked
from tonframes.store.overlaps import disjoint
from tonframes.store.reader import MERGING, MOMENT, Reader
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tonframes.store.spans import Span
    from tonframes.wire.record import Table

#: Tables by ranges of seqnos, in the order in which they are written. A range is held once the
#: last one has its file.
_RANGED = ("messages", "blocks", "transactions")
#: Tables of snapshots, in the order in which they are written.
_SNAPSHOTS = ("metadata", "address_book", "accounts")

#: Files are merged up to this many transactions, to limit the memory.
LARGEST = 20_000

#: Bytes that must fit on the disk before anything is fetched.
_ROOM = 2**16


def _name_of(commit: Mapping[str, pa.Table]) -> str:
    """Return the name of the files of a commit of histories."""
    moment = datetime.now(UTC).strftime(MOMENT)
    return f"{moment}-{digest(commit['histories'])[:8]}.parquet"


def _written_with(file: HeldFile) -> Iterable[str]:
    """List the folders of the files that were written together with one, the last one first."""
    folder = file.path.parent.name
    if folder == _RANGED[-1]:
        return reversed(_RANGED)
    return reversed(HISTORY_FOLDERS) if folder in HISTORY_FOLDERS else [folder]


@contextmanager
def all_or_none() -> Iterator[list[Path]]:
    """Remove the files in the list that is yielded if not all of them can be written."""
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for file in reversed(written):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        raise


class Store(Reader):
    """A folder of Parquet files that belong to one network."""

    def prepare(self) -> None:
        """Check that the folder can be written to, before anything is asked of a service.

        Raises
        ------
        StoreError
            It cannot: its path is that of a file, permission is missing, the disk is full or
            read-only, its file system has no locks, another process holds its lock, or a newer
            tonframes has written to it.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with self._writing():
            for folder in self._folders():
                if folder.is_dir():
                    with writing(folder):
                        probe(folder, _ROOM)

    def claim(self, network: str, service: str) -> None:
        """Make the folder a store of this network, or refuse if it is one of another.

        Raises
        ------
        StoreError
            It is of another network, or cannot be written to, as in `prepare`.
        """
        self.prepare()
        with self._writing():
            held = self.network
            if held is not None and held != network:
                raise StoreError(
                    f"the store {self.path} is of the network {held}, and {service} is of "
                    f"{network}: give another store=",
                    path=self.path,
                )
            for name in schema.TABLES:
                (self.path / name).mkdir(exist_ok=True)
            if held is None:
                self._write_info(StoreInfo(network, service, schema.VERSION))
                sync(self.path.parent)

    def raise_version(self) -> None:
        """Write into `network.json` that the store may have files of the present version."""
        info = self.info()
        if info is not None and info.schema < schema.VERSION:
            self._write_info(StoreInfo(info.network, info.service, schema.VERSION))

    def _write_info(self, info: StoreInfo) -> None:
        replace(self.path / NETWORK, [encoded(info)])

    def write_blocks(
        self, tables: Mapping[str, pa.Table], seqnos: Iterable[range], *, proof: str
    ) -> None:
        """Commit the rows of whole masterchain blocks. Seqnos that are held are left as they are.

        Parameters
        ----------
        tables
            transactions and messages, blocks where the service shows them, and the address book.
        seqnos
            The masterchain seqnos that the tables cover, those without transactions included.
        proof
            How it was shown that nothing is missing: "chain" or "links".
        """
        names = [name for name in _RANGED if name in tables]
        with self._writing():
            for run in self.gaps(seqnos):
                for part in aligned(run):
                    about = {"start": part.start, "stop": part.stop, "proof": proof}
                    self._make_room(part)
                    with all_or_none() as written:
                        for name in names:
                            rows = within(tables[name], [part])
                            told = {"tables": names} if name == "transactions" else {}
                            file = self.path / name / f"{part.start:011d}-{part.stop:011d}.parquet"
                            written.append(file)
                            self._write(schema.TABLES[name], rows, file, **about, **told)
            self._append("address_book", tables["address_book"])

    def merge(self, seqnos: range) -> None:
        """Merge adjacent small files of the masterchain blocks around these.

        The merged files are written into a folder of their own. Then the small ones are removed,
        and the merged ones are moved to their places. So a folder never has a row twice. A process
        that is killed in between leaves the merged files, which are read instead of the small
        ones, and which the next writer moves to their places.
        """
        with self._writing():
            for group in self._groups(seqnos):
                self._merge(group)

    def _groups(self, seqnos: range) -> Iterator[list[HeldFile]]:
        """List adjacent files that can be one: of one part between multiples of `SPAN`."""
        cells = [
            range(c.start // SPAN * SPAN, (c.start // SPAN + 1) * SPAN) for c in aligned(seqnos)
        ]
        network, table = self.network, schema.TABLES["transactions"]
        group: list[HeldFile] = []
        for run, path in self._ranges("transactions").items():
            if meeting(run, cells):
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
        folder = self.path / MERGING
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
        proof = "; ".join(dict.fromkeys(footer.proof for footer in said if footer.proof))
        for name in _RANGED:
            (folder / name).mkdir(parents=True, exist_ok=True)
            if name in rows:
                told = {"tables": said[0].tables} if name == "transactions" else {}
                file = folder / name / f"{start:011d}-{stop:011d}.parquet"
                about = {"start": start, "stop": stop, "proof": proof}
                self._write(schema.TABLES[name], rows[name], file, **about, **told)
        self._finish_merging()

    def _checked_rows(self, path: Path, run: range | None) -> pa.Table:
        file = HeldFile(path, schema.TABLES[path.parent.name], self.network, run)
        damage.check(file)
        return file.read(file.table.schema.names)

    def _finish_merging(self) -> None:
        """Put merged files into the places of the small ones."""
        folder = self.path / MERGING
        if not folder.is_dir():
            return
        for whole, new in self._ranges(f"{MERGING}/transactions").items():
            if fault := self._fault_of_merged(new):
                self._put_aside([new], f"{fault.path} {fault.reason}")
            else:
                self._replace_small(whole)
        # What else was written when a process was killed before is held in the small files.
        held = self._committed()
        for name in _RANGED:
            rest = self._ranges(f"{MERGING}/{name}").items()
            lost = [file for run, file in rest if subtract([run], held)]
            self._put_aside(lost, f"{folder} has files of which no others have the rows")
        shutil.rmtree(folder)

    def _replace_small(self, whole: range) -> None:
        """Remove the small files of a range, and put the merged ones into their places."""
        for name in reversed(_RANGED):
            for run, file in self._ranges(name).items():
                if run != whole and run[0] in whole and run[-1] in whole:
                    file.unlink()
            sync(self.path / name)
        for name in _RANGED:
            for run, file in self._ranges(f"{MERGING}/{name}").items():
                if run == whole:
                    file.replace(self.path / name / file.name)
            sync(self.path / name)

    def _fault_of_merged(self, file: Path) -> Damaged | None:
        """Return what is wrong with merged files, some of which may have their places already."""
        network = self.network
        try:
            for name in damage.check(self._held_file(file, network)).tables:
                there = self.path / MERGING / name / file.name
                place = there if there.exists() else self.path / name / file.name
                damage.check(self._held_file(place, network))
        except Damaged as damaged:
            return damaged
        return None

    def write_accounts(self, tables: Mapping[str, pa.Table]) -> None:
        """Append snapshots of accounts, of the address book and of metadata."""
        with self._writing():
            for name in _SNAPSHOTS:
                self._append(name, tables[name])

    def write_histories(
        self, tables: Mapping[str, pa.Table], claims: Mapping[str, Sequence[Span]]
    ) -> None:
        """Commit transactions of accounts, and what they prove. What is held is left out.

        Parameters
        ----------
        tables
            transactions, messages and the address book, with rows in any order.
        claims
            Spans without transactions, by account.
        """
        with self._writing():
            fresh = histories.fresh_rows(self, tables, claims)
            if len(fresh["histories"]):
                self._write_commit(fresh, _name_of(fresh))
                self._merge_histories()
            self._append("address_book", tables["address_book"])

    def _write_commit(self, rows: Mapping[str, pa.Table], name: str) -> None:
        """Write the files of a commit of histories, that of the transactions last."""
        with all_or_none() as written:
            for folder in HISTORY_FOLDERS:
                (self.path / folder).mkdir(exist_ok=True)
                about = {"tables": HISTORY_FOLDERS} if folder == HISTORY_FOLDERS[-1] else {}
                file = self.path / folder / name
                written.append(file)
                self._write(table_of(folder), rows[folder], file, proof="account", **about)

    def _merge_histories(self) -> None:
        """Merge the small files of histories if there are many; damaged ones are left alone."""
        files = merging.small_files(histories.transaction_files(self))
        if not files:
            return
        try:
            rows = histories.merged_rows(files)
        except Damaged:
            return
        merge = merging.Merge(_name_of(rows), [file.path.name for file in files])
        merge.note(self.path)
        self._write_commit(rows, merge.new)
        merge.finish(self.path)

    def _append(self, name: str, rows: pa.Table) -> None:
        if len(rows):
            moment = pc.max(rows["fetched_at"]).as_py().strftime(MOMENT)
            file = self.path / name / f"{moment}-{digest(rows)[:8]}.parquet"
            self._write(schema.TABLES[name], rows, file)

    def _write(self, table: Table, rows: pa.Table, file: Path, **about: Any) -> None:
        self.raise_version()
        footer = Footer(
            schema=schema.VERSION,
            tonframes=version("tonframes"),
            network=self.network or "",
            service=self.service,
            rows=len(rows),
            digest=digest(rows),
            **about,
        )
        write(file, table, rows, footer)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock, to write within this folder only.

        Raises
        ------
        StoreError
            Another process holds the lock, a folder of the store is a symbolic link, or a newer
            tonframes has written to the store.
        """
        with writing(self.path), locked(self.path):
            info = self.info()
            for folder in (*self._folders(), self.path / damage.FOLDER, self.path / MERGING):
                if folder.is_symlink():
                    raise StoreError(
                        f"{folder} is a symbolic link: a store writes within its own folder only",
                        path=folder,
                    )
            self.check_folders()
            if info is not None and not is_sealed(self.path, info):
                self._write_info(info)
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, with nothing half done in the store."""
        with self.exclusive():
            self._sweep()
            yield

    def _folders(self) -> list[Path]:
        return [self.path / name for name in FOLDERS]

    def _sweep(self) -> None:
        """Put in order what a killed process, or a copy of another store, has left.

        This is done under the lock only, so its holder never moves what another process writes.
        Temporary files are removed. Files with rows are set aside: none is deleted of which another
        one does not have the rows.
        """
        self._sweep_temporary()
        self._finish_merging()
        self._part_overlaps()
        self._sweep_orphans(_RANGED[:-1], _RANGED[-1])
        self._sweep_histories()

    def _sweep_orphans(self, folders: Iterable[str], last: str) -> None:
        """Set aside old files without the one that is written last with them."""
        held = {file.name for file in self._files_in(last)}
        for name in folders:
            orphans = [f for f in self._files_in(name) if f.name not in held and damage.is_old(f)]
            self._put_aside(orphans, f"there are files in {name} without those in {last}")

    def _make_room(self, part: range) -> None:
        """Set aside files without their transactions that would overlap those of a new range."""
        held = {file.name for file in self._files_in("transactions")}
        for name in _RANGED[:-1]:
            orphans = [
                file
                for run, file in self._ranges(name).items()
                if meeting(run, [part]) and run != part and file.name not in held
            ]
            self._put_aside(orphans, f"there are files in {name} without those in transactions")

    def _part_overlaps(self) -> None:
        """Set aside files whose rows others have, and write again what only they have."""
        committed, network = self._ranges("transactions"), self.network
        parts = disjoint(committed)
        if len(parts) == len(committed) and all(part == run for part, run in parts.items()):
            return
        self._check_overlaps(committed)
        for run, path in committed.items():
            rest = [part for part, whole in parts.items() if whole == run]
            if rest == [run]:
                continue
            file = self._held_file(path, network)
            footer = damage.check(file)
            for part in rest:
                about = {"start": part.start, "stop": part.stop, "proof": footer.proof}
                for name in (name for name in _RANGED if name in footer.tables):
                    rows = within(self._checked_rows(file.beside(name).path, run), [part])
                    told = {"tables": footer.tables} if name == "transactions" else {}
                    new = self.path / name / f"{part.start:011d}-{part.stop:011d}.parquet"
                    self._write(schema.TABLES[name], rows, new, **about, **told)
            others = [file.beside(name).path for name in _written_with(file)]
            self._put_aside(others, f"{path} overlaps other files, which have equal rows")

    def _put_aside(self, files: Sequence[Path], reason: str) -> None:
        """Move files into the folder `damaged`, and warn."""
        if files and (moved := damage.set_aside(self.path, files)):
            warn(f"{reason}: moved to {self.path / damage.FOLDER} ({len(moved)} files)")

    def _sweep_histories(self) -> None:
        *others, last = HISTORY_FOLDERS
        if merge := merging.unfinished(self.path):
            new = self._held_file(self.path / last / merge.new, self.network)
            if new.path.exists() and (fault := damage.find_fault(new)):
                wrong = [new.beside(name).path for name in _written_with(new)]
                self._put_aside(wrong, f"{fault.path} {fault.reason}")
            merge.finish(self.path)
        self._sweep_orphans(others, last)

    def _sweep_temporary(self) -> None:
        for folder in (self.path, *self._folders()):
            for file in folder.glob(".*.tmp"):
                if TEMPORARY.fullmatch(file.name):
                    file.unlink(missing_ok=True)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────

    def verify(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Look for damage in the files that hold these seqnos, and set damaged files aside.

        Every byte of every file is read, unless this process has done so before and the file has
        not changed since. A range of which a file is damaged or missing is not held any more: its
        files are moved into the folder `damaged`, and a `TonframesWarning` says so.

        Returns
        -------
        The ranges that are not held any more, which are those of whole files.

        Raises
        ------
        StoreError
            A file cannot be read or moved for a reason that is not its own, or a newer tonframes
            has written it. It stays where it is.
        """
        wanted, network = joined(seqnos), self.network
        files = [
            self._held_file(file, network)
            for run, file in self.files("transactions").items()
            if meeting(run, wanted)
        ]
        damaged = self._set_aside(files, "its masterchain seqnos are not held any more")
        return joined(file.run for file in damaged if file.run)

    def verify_snapshots(self) -> tuple[Path, ...]:
        """Look for damage in the snapshots, and set damaged files aside.

        Returns
        -------
        Where those files were. The past states in them cannot be fetched again.

        Raises
        ------
        StoreError
            As in `verify`.
        """
        snapshots = [file for name in _SNAPSHOTS for file in self.held_snapshots(name)]
        loss = "this snapshot cannot be fetched again, only the present state"
        return tuple(file.path for file in self._set_aside(snapshots, loss))

    def verify_histories(self, accounts: Collection[str]) -> tuple[Path, ...]:
        """Look for damage in the files that hold histories of accounts, and set it aside.

        Returns
        -------
        Where the files of transactions were. What they held can be fetched again.

        Raises
        ------
        StoreError
            As in `verify`.
        """
        files = histories.files_of(self, accounts)
        loss = "the transactions in it are not held any more"
        return tuple(file.path for file in self._set_aside(files, loss))

    def _set_aside(self, files: Sequence[HeldFile], loss: str) -> list[HeldFile]:
        """Set aside what is damaged, and warn."""
        if files:
            self.check()
        damaged = [file for file, _ in damage.find_damaged(files)]
        warnings = []
        for file in damaged:
            with self._writing():
                fault = damage.find_fault(file)
                if fault is None or not os.path.lexists(file.path):
                    continue  # another process was here first
                # Transactions go first: what a process that is killed here leaves is swept away.
                names = _written_with(file)
                moved = damage.set_aside(
                    self.path, [self.path / name / file.path.name for name in names]
                )
                where = moved.get(fault.path, self.path / damage.FOLDER)
                warnings.append(f"{fault.path} {fault.reason}: moved to {where}; {loss}")
        for warning in warnings:
            warn(warning)
        return damaged
