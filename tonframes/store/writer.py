"""Writing to a store: the lock, `network.json`, single files, and files that are left over."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from tonframes.atomic import TEMPORARY, probe, sync
from tonframes.errors import StoreError, warn
from tonframes.store import damage
from tonframes.store.digest import digest
from tonframes.store.files import (
    ASIDE,
    FOLDERS,
    SNAPSHOT_FOLDERS,
    Footer,
    content,
    replace,
    replace_all,
    writing,
)
from tonframes.store.folders import with_files
from tonframes.store.identity import NETWORK, StoreInfo, encoded, is_sealed
from tonframes.store.listing import MERGING, MOMENT
from tonframes.store.locks import locked
from tonframes.store.meanings import COLUMNS
from tonframes.store.meanings import encoded as meanings
from tonframes.store.merging import NOTE
from tonframes.store.reader import Reader
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tonframes.wire.record import Table

#: Bytes that must fit on the disk before anything is fetched.
_ROOM = 2**16


class Writer(Reader):
    """A store that is written to by one process at a time."""

    #: What the folders were like when this object last left them in order.
    _left: tuple[int, ...] | None = None

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
        self._left = None  # what was left alone because it was young may be old now
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
        replace(self.path / COLUMNS, [meanings()])

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
            for folder in (*self._folders(), self.path / ASIDE, self.path / MERGING):
                if folder.is_symlink():
                    raise StoreError(
                        f"{folder} is a symbolic link: a store writes within its own folder only",
                        path=folder,
                    )
            if self._changes() != self._left:
                self.check_folders()
            if info and not (is_sealed(self.path, info) and (self.path / COLUMNS).exists()):
                self._write_info(info)
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, with nothing half done in the store.

        Putting a large store in order takes long. It is not done if nobody has changed a folder
        since this object did it, unless merged files wait for their places.
        """
        with self.exclusive():
            if self._changes() != self._left or (self.path / MERGING).is_dir():
                self._sweep()
            self._left = None
            yield
            self._left = self._changes()

    def _changes(self) -> tuple[int, ...]:
        """Return when the folders with tables, and those of merges, were last changed."""
        return tuple(self.changed(name) for name in (*FOLDERS, MERGING, NOTE))

    def _folders(self) -> list[Path]:
        return [self.path / name for name in FOLDERS]

    def _sweep(self) -> None:
        """Put in order what a killed process has left.

        This is done under the lock only, so its holder never moves what another process writes.
        """
        self._sweep_temporary()

    def _sweep_temporary(self) -> None:
        """Remove temporary files, but not those that show why another file is without them."""
        for folder in ("", *FOLDERS):
            for name in self._names(folder):
                named = TEMPORARY.fullmatch(name) if name.endswith(".tmp") else None
                if named and not self._is_begun(self.path / folder / named[1]):
                    (self.path / folder / name).unlink(missing_ok=True)

    def _is_begun(self, file: Path) -> bool:
        """Return whether a file is not there, and others are that were written before it."""
        return not file.exists() and any((f / file.name).exists() for f in self._folders())

    def _sweep_orphans(self, folders: Iterable[str], last: str) -> None:
        """Set aside old files without the one that is written last with them."""
        held = set(self._table_names(last))
        for name in folders:
            left = [self.path / name / f for f in self._table_names(name) if f not in held]
            orphans = [file for file in left if damage.is_old(file, damage.ORPHANED)]
            self._put_aside(orphans, f"there are files in {name} without those in {last}")

    def _put_aside(self, files: Sequence[Path], reason: str) -> None:
        """Move files into the folder `damaged`, and warn."""
        if files and (moved := damage.set_aside(self.path, files)):
            warn(f"{reason}: moved to {self.path / ASIDE} ({len(moved)} files)")

    def _append(self, name: str, rows: pa.Table) -> None:
        if len(rows):
            moment = pc.max(rows["fetched_at"]).as_py().strftime(MOMENT)
            file = self.path / name / f"{moment}-{digest(rows)[:8]}.parquet"
            self._write(schema.TABLES[name], rows, file)

    def _write(self, table: Table, rows: pa.Table, file: Path, **about: Any) -> None:
        self.raise_version()
        replace(file, self._content(table, rows, **about))

    def _commit(self, files: Mapping[Path, Sequence[memoryview]]) -> None:
        """Write files that belong together; with the last one, all of them count.

        If they cannot be written, none of them stays. If the process is killed, the temporary file
        of the last one stays as well, so the others are not taken for files that have lost it.
        """
        self.raise_version()
        try:
            replace_all(files)
        except BaseException:
            for file in reversed(list(files)):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            raise
        for file in files:  # what a killed process has left of them
            names = self._names(file.parent.name)
            for mark in "._":
                low, high = f"{mark}{file.name}.", f"{mark}{file.name}/"  # "/" comes after "."
                for name in [name for name in names if low < name < high]:
                    (file.parent / name).unlink(missing_ok=True)

    def _content(self, table: Table, rows: pa.Table, **about: Any) -> Sequence[memoryview]:
        return content(table, rows, self.new_footer(rows=len(rows), digest=digest(rows), **about))

    def new_footer(self, **about: Any) -> Footer:
        """Return what a file that is written now says of itself."""
        return Footer(
            schema=schema.VERSION,
            tonframes=version("tonframes"),
            network=self.network or "",
            service=self.service,
            snapshots=with_files(self.path, SNAPSHOT_FOLDERS),
            **about,
        )
