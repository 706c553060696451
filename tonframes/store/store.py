"""The store: accounts and histories are committed, and damaged files leave."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from tonframes.errors import warn
from tonframes.seqnos import joined, overlapping
from tonframes.store import damage, histories, merging
from tonframes.store.files import (
    ASIDE,
    BY_ACCOUNT,
    HISTORY_FOLDERS,
    RANGED,
    SNAPSHOT_FOLDERS,
    Damaged,
    table_of,
)
from tonframes.store.listing import MERGING, MOMENT
from tonframes.store.ranges import RangeWriter, written_with
from tonframes.store.writer import snapshot_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tonframes.store.files import HeldFile
    from tonframes.store.spans import Span


class Store(RangeWriter):
    """A folder of Parquet files that belong to one network."""

    def write_accounts(self, tables: Mapping[str, pa.Table]) -> None:
        """Append snapshots of accounts, of the address book and of metadata."""
        with self._writing():
            for name in SNAPSHOT_FOLDERS:
                self._append(name, tables[name])

    def write_histories(
        self,
        tables: Mapping[str, pa.Table],
        absence: Mapping[str, Sequence[Span]],
        *,
        merge: bool = True,
    ) -> None:
        """Commit transactions of accounts, and what they prove. What is held is left out."""
        with self._writing():
            self._append("address_book", tables["address_book"])
            fresh = histories.fresh_rows(self, tables, absence)
            if len(fresh["histories"]):
                fetched = pc.max(tables["address_book"]["fetched_at"]).as_py()
                files = self._history_files(fresh, fetched or datetime.now(UTC))
                self._commit(files)
                small = merging.small_files(histories.transaction_files(self)) if merge else []
                with suppress(Damaged):  # damaged files are left alone
                    if small:
                        self._replace_files(small, histories.merged_rows(small))

    def replace_in_histories(self, tables: Mapping[str, pa.Table]) -> None:
        """Replace transactions that an answer has proven wrong, and warn."""
        with self._writing():
            self._append("address_book", tables["address_book"])
            files, rows = histories.replacing_rows(self, tables)
            if not files:
                return
            self._replace_files(files, rows)
        account, lt = (tables["transactions"][name][0].as_py() for name in ("account", "lt"))
        warn(
            f"{len(tables['transactions'])} transactions in {self.path}, such as that of {account} "
            f"with lt {lt}, had another hash than their neighbours name: they were fetched again, "
            "and replaced"
        )

    def crowded_address_book(self) -> list[list[HeldFile]]:
        """List the files of the address book that can be joined, by the file that they become."""
        now = datetime.now(UTC).strftime(MOMENT)
        files = [file for file in self.held_snapshots("address_book") if file.path.name < now]
        return merging.small_runs(files)

    def join_address_book(self) -> None:
        """Join the many small files of the address book; damaged ones stay as they are.

        The joined file has all of their rows, in the same order. An entry that is in two files says
        the same in both, so nothing is wrong while the small files are removed.
        """
        with self._writing():
            for files in self.crowded_address_book():
                try:
                    rows = merging.rows_of(files, "address_book")
                except Damaged:
                    continue
                self._append("address_book", rows)
                # Of a past moment, the file after it is read too: that is the joined one if the
                # latest go first.
                for file in reversed(files):
                    file.path.unlink(missing_ok=True)

    def _history_files(
        self, rows: Mapping[str, pa.Table], moment: datetime
    ) -> dict[Path, Sequence[memoryview]]:
        """Return the files of a commit of histories with their content, transactions last."""
        contents = {}
        for folder in HISTORY_FOLDERS:
            (self.path / folder).mkdir(exist_ok=True)
            tables = HISTORY_FOLDERS if folder == HISTORY_FOLDERS[-1] else ()
            contents[folder] = self._content(
                table_of(folder), rows[folder], proof="account", tables=tables
            )
        name = snapshot_name(moment, contents["histories"])
        return {self.path / folder / name: pieces for folder, pieces in contents.items()}

    def _replace_files(self, old: Sequence[HeldFile], rows: Mapping[str, pa.Table]) -> None:
        """Write one commit of histories in the place of others."""
        new = self._history_files(rows, datetime.now(UTC))
        merge = merging.Merge(next(iter(new)).name, [file.path.name for file in old])
        merge.note(self.path)
        self._commit(new)
        merge.finish(self.path)

    def _sweep(self) -> None:
        """Put in order what a killed process has left."""
        self._finish_merging()
        self._sweep_orphans(RANGED[:-1], RANGED[-1])
        *others, last = HISTORY_FOLDERS
        if merge := merging.unfinished(self.path):
            new = self._held_file(self.path / last / merge.new, self.network)
            if new.path.exists() and (fault := damage.find_fault(new)):
                wrong = [new.beside(name).path for name in written_with(new)]
                self._put_aside(wrong, f"{fault.path} {fault.reason}")
            merge.finish(self.path)
        self._sweep_orphans(others, last)
        self._sweep_temporary()

    def verify(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Look for damage in the files that hold these seqnos, and set damaged files aside."""
        self.verify_snapshots(["address_book"])
        wanted, network = joined(seqnos), self.network
        files = [
            self._held_file(file, network)
            for run, file in self.files("transactions", wanted).items()
            if overlapping(run, wanted)
        ]
        copies = [
            self._held_file(file, network)
            for run, file in self._ranges(BY_ACCOUNT, wanted).items()
            if overlapping(run, wanted)
        ]
        self._set_aside(copies, "compacting with by_account writes this copy again")
        damaged = self._set_aside(files, "its masterchain seqnos are not held any more")
        return self.gaps(joined(file.run for file in damaged if file.run))

    def verify_snapshots(self, names: Iterable[str] = SNAPSHOT_FOLDERS) -> tuple[Path, ...]:
        """Look for damage in the snapshots, set damaged files aside, and list where they were."""
        snapshots = [file for name in names for file in self.held_snapshots(name)]
        loss = "this snapshot cannot be fetched again, only the present state"
        return tuple(file.path for file in self._set_aside(snapshots, loss))

    def verify_histories(self, accounts: Collection[str]) -> tuple[Path, ...]:
        """Look for damage in the histories of accounts and in the address book; as `verify`."""
        self.verify_snapshots(["address_book"])
        files = histories.files_of(self, accounts)
        loss = "the transactions in it are not held any more"
        return tuple(file.path for file in self._set_aside(files, loss))

    def _set_aside(self, files: Sequence[HeldFile], loss: str) -> list[HeldFile]:
        """Set aside what is damaged, and warn."""
        if files:
            self.check()
        damaged = [file for file, _ in damage.find_new_damage(files)]
        warnings = []
        for file in damaged:
            with self._writing():
                fault = damage.find_fault(file)
                if fault is None or not os.path.lexists(file.path):
                    continue  # another process was here first
                # Transactions go first: what a process that is killed here leaves is swept away.
                others = [file.beside(name).path for name in written_with(file)]
                self._remove_second_names_of(others)
                moved = damage.set_aside(self.path, others)
                where = moved.get(fault.path, self.path / ASIDE)
                merged = file.path.parent.parent.name == MERGING
                kept = merged and file.run is not None and not self.gaps([file.run])
                then = "the files are read whose place it was to take" if kept else loss
                warnings.append(f"{fault.path} {fault.reason}: moved to {where}; {then}")
        for warning in warnings:
            warn(warning)
        return damaged
