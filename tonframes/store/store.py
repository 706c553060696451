"""How more is committed to a store, and how what is damaged leaves it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from tonframes.errors import StoreError, warn
from tonframes.seqnos import aligned, joined, meeting
from tonframes.store import damage
from tonframes.store.digest import digest, within
from tonframes.store.files import TEMPORARY, Footer, Kept, probe, replace, sync, write, writing
from tonframes.store.locks import locked
from tonframes.store.reader import MOMENT, Reader
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tonframes.wire.record import Table

#: Tables by ranges of seqnos, in the order in which they are written: the last one commits.
_RANGED = ("messages", "blocks", "transactions")
#: Tables of snapshots, in the order in which they are written.
_SNAPSHOTS = ("metadata", "address_book", "accounts")

#: Bytes that must fit on the disk before anything is fetched.
_ROOM = 2**16


class Store(Reader):
    """A folder of Parquet files that belong to one network."""

    def prepare(self) -> None:
        """Make sure that the folder can be written to, before anything is asked of a service.

        Raises
        ------
        StoreError
            It cannot: its path is that of a file, permission is missing, the disk is full or
            read-only, its file system has no locks, or another process holds its lock.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with self._writing():
            for folder in self._folders():
                if folder.is_dir():
                    probe(folder, _ROOM)

    def claim(self, network: str, service: str) -> None:
        """Make the folder a store of this network, or refuse if it is one of another.

        Raises
        ------
        StoreError
            It is of another network, or cannot be written to, as `prepare` finds out.
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
            for folder in self._folders():
                folder.mkdir(exist_ok=True)
            if held is None:
                content = {"network": network, "service": service, "schema": schema.VERSION}
                replace(self.path / "network.json", json.dumps(content, indent=2).encode() + b"\n")
                sync(self.path.parent)

    def write_blocks(
        self, tables: Mapping[str, pa.Table], seqnos: Iterable[range], *, proof: str
    ) -> None:
        """Commit the rows of whole masterchain blocks; those held already are left as they are.

        Parameters
        ----------
        tables
            transactions and messages, blocks where they are shown, and the address book.
        seqnos
            What the tables cover, empty masterchain blocks included.
        proof
            How it was shown that nothing is missing.
        """
        names = [name for name in _RANGED if name in tables]
        with self._writing():
            for run in self.gaps(seqnos):
                for part in aligned(run):
                    about = {"start": part.start, "stop": part.stop, "proof": proof}
                    for name in names:
                        rows = within(tables[name], [part])
                        told = {"tables": names} if name == "transactions" else {}
                        file = self.path / name / f"{part.start:011d}-{part.stop:011d}.parquet"
                        self._write(schema.TABLES[name], rows, file, **about, **told)
            self._append("address_book", tables["address_book"])

    def write_accounts(self, tables: Mapping[str, pa.Table]) -> None:
        """Append snapshots of accounts, of the address book and of metadata."""
        with self._writing():
            for name in _SNAPSHOTS:
                self._append(name, tables[name])

    def _append(self, name: str, rows: pa.Table) -> None:
        if len(rows):
            moment = pc.max(rows["fetched_at"]).as_py().strftime(MOMENT)
            file = self.path / name / f"{moment}-{digest(rows)[:8]}.parquet"
            self._write(schema.TABLES[name], rows, file)

    def _write(self, table: Table, rows: pa.Table, file: Path, **about: Any) -> None:
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
    def _writing(self) -> Iterator[None]:
        """Write alone, below this folder only, with nothing half done about."""
        with writing(self.path), locked(self.path):
            for folder in (*self._folders(), self.path / damage.FOLDER):
                if folder.is_symlink():
                    raise StoreError(
                        f"{folder} is a symbolic link: a store writes within its own folder only",
                        path=folder,
                    )
            self._sweep()
            yield

    def _folders(self) -> list[Path]:
        return [self.path / name for name in schema.TABLES]

    def _sweep(self) -> None:
        """Remove what a killed process has left: temporary files, and ranges without a commit.

        Both are made under the lock only, so whoever holds it finds no other's work.
        """
        for folder in (self.path, *self._folders()):
            for file in folder.glob(".*.tmp"):
                if TEMPORARY.fullmatch(file.name):
                    file.unlink(missing_ok=True)
        committed = self.files("transactions")
        for name in _RANGED[:-1]:
            for run, file in self.files(name).items():
                if run not in committed:
                    file.unlink(missing_ok=True)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────

    def verify(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Look for damage in what is committed of these seqnos, and give up ranges that have it.

        Every byte of every file is read, unless this process has done so before and the file has
        not changed since. A range of which a file is damaged or missing is not held any more: its
        files are moved into the folder `damaged`, and a `TonframesWarning` says so.

        Returns
        -------
        The ranges that were given up, which are those of whole files: to be fetched again.

        Raises
        ------
        StoreError
            A file cannot be read or moved for a reason that is not its own, or is of another
            version of the columns. It stays where it is.
        """
        wanted, network = joined(seqnos), self.network
        commits = [
            Kept(file, schema.TRANSACTIONS, network, run)
            for run, file in self.files("transactions").items()
            if meeting(run, wanted)
        ]
        given_up = self._set_aside(commits, "its masterchain seqnos are not held any more")
        return joined(commit.run for commit in given_up if commit.run)

    def verify_snapshots(self) -> tuple[Path, ...]:
        """Look for damage in the snapshots, and set aside the files that have it.

        Returns
        -------
        Where those files were. What they told of the past cannot be fetched again.

        Raises
        ------
        StoreError
            As in `verify`.
        """
        network = self.network
        snapshots = [
            Kept(file, schema.TABLES[name], network, None)
            for name in _SNAPSHOTS
            for file in self.snapshots(name)
        ]
        loss = "this snapshot cannot be fetched again, only the present"
        return tuple(snapshot.file for snapshot in self._set_aside(snapshots, loss))

    def _set_aside(self, commits: Sequence[Kept], loss: str) -> list[Kept]:
        """Set aside what is damaged, and warn."""
        if commits:
            self.check()
        faulty = damage.find(commits)
        warnings = []
        for commit in faulty:
            with self._writing():
                fault = damage.fault(commit)
                if fault is None or not os.path.lexists(commit.file):
                    continue  # another process was here first
                # The commit goes first: twins that a killed process leaves are swept away.
                names = reversed(_RANGED) if commit.run else [commit.table.name]
                files = [self.path / name / commit.file.name for name in names]
                moved = damage.set_aside(self.path, files)
                where = moved.get(fault.path, self.path / damage.FOLDER)
                warnings.append(f"{fault.path} {fault.reason}: moved to {where}; {loss}")
        for warning in warnings:
            warn(warning)
        return faulty
