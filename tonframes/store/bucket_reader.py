"""A store under a URL: whole spans and snapshots are objects in a bucket, the rest is local.

::

    s3://bucket/path/
      network.json                                    of which network the store is
      columns.json                                    what the columns mean, as in a local store
      transactions/00049000000-00049000100.parquet    spans: 100 seqnos from a multiple of 100 on
      messages/…  blocks/…                            the same spans
      accounts/20261121T094500.123456Z-6b1f0a2c.parquet   snapshots, as in a local store
      address_book/…  metadata/…
      damaged/…                                       objects that were moved aside

A bucket has no locks and no renames. So the rows are committed to a local store first, its *local
part*: a folder in the user's cache, one per URL, with all promises of a store. When it holds a
whole span, the span is put into the bucket, messages and blocks first and transactions last: with
these, it is held there. Only then its files leave the local part. A process that is killed leaves
either nothing of an object or all of it, and the span in the local part until it is put again.

The name of a span's objects is determined by its seqnos, and the content by its rows: the footer
does not say from which service or when they came. So two writers put the same bytes, if they have
the same versions of tonframes and pyarrow; with others, files with equal rows. Snapshots have names
that their content determines, and are put as they are.
"""

from __future__ import annotations

import re
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, cast

import platformdirs

from tonframes.bucket import BucketPath, is_url
from tonframes.errors import StoreError
from tonframes.seqnos import SPAN, aligned, joined, subtract
from tonframes.store.files import RANGED, is_table_file
from tonframes.store.identity import StoreInfo, read_info
from tonframes.store.listing import MERGING, run_of
from tonframes.store.reader import Reader
from tonframes.store.store import Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike
    from pathlib import Path

    from tonframes.store.files import HeldFile

#: Seconds for which a listing of the bucket is used again: a thousand objects are a request.
RECENT = 30.0


def open_store(path: str | PathLike[str] | BucketPath) -> Reader:
    """Return the store that a path or a URL names, to be read."""
    return BucketReader(path) if isinstance(path, BucketPath) or is_url(path) else Reader(path)


def local_part(url: BucketPath) -> Path:
    """Return the folder of what is not in a bucket yet."""
    mark = blake2b(str(url).encode(), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9._-]", "_", url.key)[:60]
    return platformdirs.user_cache_path("tonframes") / "buckets" / f"{url.scheme}-{name}-{mark}"


class LocalPart(Store):
    """The local part of a store in a bucket."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder."""
        return self._names(folder)

    def whole_spans(self) -> list[range]:
        """List the spans that are held wholly, in order."""
        return [run for held in self.held() for run in aligned(held) if len(run) == SPAN]

    def leave(self, runs: Sequence[range]) -> None:
        """Remove the files of ranges that the bucket holds, those of transactions first."""
        with self.exclusive():
            for name in reversed(RANGED):
                for run, file in self._ranges(name).items():
                    if not subtract([run], runs):
                        file.unlink(missing_ok=True)

    def merge_address_book(self) -> None:
        """Write the files of the address book, one of each commit, as one."""
        with self.exclusive():
            files = self.held_snapshots("address_book")
            if len(files) > 1:
                self._append("address_book", self.snapshot("address_book"))
                for file in files:
                    file.path.unlink(missing_ok=True)

    def leave_snapshots(self, files: Iterable[HeldFile]) -> None:
        """Remove snapshots that the bucket holds."""
        with self.exclusive():
            for file in files:
                file.path.unlink(missing_ok=True)


class BucketReader(Reader):
    """A store whose whole spans and snapshots are objects in a bucket."""

    def __init__(self, url: str | PathLike[str] | BucketPath) -> None:
        self.bucket = url if isinstance(url, BucketPath) else BucketPath.from_url(url)
        super().__init__(self.bucket)
        self.local = LocalPart(local_part(self.bucket))
        self._info: StoreInfo | None = None
        self._listings: dict[str, tuple[float, frozenset[str], dict[str, Path]]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.bucket,)

    @property
    def folder(self) -> Path:
        """The folder of this store on this computer."""
        return self.local.path

    # ── what is held ─────────────────────────────────────────────────────────────────────────────

    def info(self) -> StoreInfo | None:
        """Read of which network the store is, in both places; None before it is claimed."""
        local = self.local.info()
        self._info = self._info or read_info(self.path)
        if local is None or self._info is None:
            return self._info or local
        if local.network != self._info.network:
            raise self._other_network(local.network, f"its local part {self.local.path}")
        return StoreInfo(self._info.network, local.service, self._info.schema)

    def check(self) -> None:
        """Raise `StoreError` unless there is a store."""
        if self.network is None:
            self.bucket.check_bucket()
        super().check()

    def changed(self, name: str) -> int:
        """Return a number that changes when files of a folder are added or removed."""
        return hash(frozenset(self._names(name)))

    def at(self, file: str) -> Path:
        """Return an object, or a file of the local part, by its path within the store."""
        folder, _, name = file.rpartition("/")
        return self._objects(folder).get(name) or self.local.at(file)

    def has_moved(self, file: Path) -> bool:
        """Return whether a file has left the local part, and is in the bucket."""
        return self.at(f"{file.parent.name}/{file.name}") != file

    def _names(self, name: str) -> list[str]:
        """List the names in a folder in both places; where both have rows, the bucket counts."""
        # What leaves the local part meanwhile is in the bucket, so this is looked at afterwards.
        here = self.local.names(name)
        there = self._objects(name, here)
        if name.removeprefix(f"{MERGING}/") == RANGED[-1]:
            held = self._spans_put()
            here = [file for file in here if subtract([run_of(file) or range(1)], held)]
        return [*dict.fromkeys([*here, *there])]

    def _spans_put(self) -> tuple[range, ...]:
        """Return the ranges that the bucket holds, joined."""
        return joined(run for name in self._objects(RANGED[-1]) if (run := run_of(name)))

    def _objects(self, name: str, here: Iterable[str] | None = None) -> dict[str, Path]:
        """List the objects of a folder by name. A listing is used again for some time."""
        if name not in schema.TABLES:
            return {}
        if name in self._listings:
            listed, before, objects = self._listings[name]
            left = here is not None and not before.issubset(here)
            if time.monotonic() - listed < RECENT and not left:
                return objects
        listed = time.monotonic()
        paths = cast("Iterable[Path]", (self.bucket / name).iterdir())
        objects = {path.name: path for path in paths if is_table_file(path.name)}
        self._listings[name] = listed, frozenset(here or ()), objects
        return objects

    def _other_network(self, network: str, other: str) -> StoreError:
        held = self._info.network if self._info else None
        return StoreError(
            f"the store {self.bucket} is of the network {held}, and {other} is of {network}: give "
            "another store=",
            path=self.path,
        )
