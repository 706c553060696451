"""Writing to a store: the lock, `network.json`, single files, and files that are left over."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from tonframes.atomic import TEMPORARY, probe, sync
from tonframes.errors import StoreError, warn
from tonframes.store import damage
from tonframes.store.files import ASIDE, FOLDERS, Footer, content, replace, replace_all, writing
from tonframes.store.identity import COLUMNS, NETWORK, StoreInfo, encoded, meanings
from tonframes.store.listing import MERGING, MOMENT
from tonframes.store.locks import locked
from tonframes.store.merging import NOTE
from tonframes.store.reader import Reader
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pyarrow as pa

    from tonframes.wire.record import Table

#: Bytes that must fit on the disk before anything is fetched.
_ROOM = 2**16


def snapshot_name(moment: datetime, pieces: Iterable[memoryview]) -> str:
    """Return the name of a file of a moment, which its content determines."""
    hashed = blake2b(digest_size=4)
    for piece in pieces:
        hashed.update(piece)
    return f"{moment.strftime(MOMENT)}-{hashed.hexdigest()}.parquet"


class Writer(Reader):
    """A store that is written to by one process at a time."""

    #: What the folders were like when this object last left them in order.
    _left: tuple[int, ...] | None = None

    def prepare(self) -> None:
        """Check that the folder can be written to, before anything is asked of a service."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._left = None  # what was left alone because it was young may be old now
        with self._writing():
            for folder in self._folders():
                if folder.is_dir():
                    with writing(folder):
                        probe(folder, _ROOM)

    def claim(self, network: str, service: str) -> None:
        """Make the folder a store of this network, or refuse if it is one of another."""
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

    def _raise_version(self) -> None:
        """Write into `network.json` that the store may have files of the present version."""
        info = self.info()
        if info is not None and info.schema < schema.VERSION:
            self._write_info(StoreInfo(info.network, info.service, schema.VERSION))

    def _write_info(self, info: StoreInfo) -> None:
        replace(self.path / NETWORK, [encoded(info)])
        replace(self.path / COLUMNS, [meanings()])

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock, to write within this folder only."""
        with writing(self.path), locked(self.path):
            self.info()  # raises an error if a newer tonframes has written to the store
            for folder in (*self._folders(), self.path / ASIDE, self.path / MERGING):
                if folder.is_symlink():
                    raise StoreError(
                        f"{folder} is a symbolic link: a store writes within its own folder only",
                        path=folder,
                    )
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
        """Put in order what a killed process has left."""
        self._sweep_temporary()

    def _sweep_temporary(self) -> None:
        """Remove temporary files."""
        for folder in ("", *FOLDERS):
            for name in self._names(folder):
                if name.endswith(".tmp") and TEMPORARY.fullmatch(name):
                    (self.path / folder / name).unlink(missing_ok=True)

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

    def _append(self, name: str, rows: pa.Table, **about: Any) -> None:
        """Write a file of snapshots."""
        if len(rows):
            self._raise_version()
            pieces = self._content(schema.TABLES[name], rows, **about)
            moment = pc.max(rows["fetched_at"]).as_py()
            replace(self.path / name / snapshot_name(moment, pieces), pieces)

    def _commit(self, files: Mapping[Path, Sequence[memoryview]]) -> None:
        """Write files that belong together; with the last one, all of them count."""
        self._raise_version()
        try:
            replace_all(files)
        except BaseException:
            for file in reversed(list(files)):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            raise

    def _content(self, table: Table, rows: pa.Table, **about: Any) -> Sequence[memoryview]:
        return content(table, rows, self.new_footer(rows=len(rows), **about))

    def new_footer(self, **about: Any) -> Footer:
        """Return what a file that is written now says of itself."""
        return Footer(
            schema=schema.VERSION,
            tonframes=version("tonframes"),
            network=self.network or "",
            service=self.service,
            **about,
        )
