"""The public lake: its folders, and which files have the days that are asked for.

::

    transactions/date=2026-05-28/…          by the date of `now`, in UTC
    messages_with_data/date=2026-05-28/…    by that of `tx_now`; `messages` has no bodies
    blocks/date=2026-05-28/…                by that of `gen_utime`

So it is at s3://aws-public-blockchain/v1.1/ton/
(datalake/airflow/dags/parquet_daily_converter.py of ton-studio/ton-etl). Partitions may also be
named `block_date=20260528`, as in its older form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyarrow import fs

from tonframes.bucket import BucketPath, is_bucket
from tonframes.errors import StoreError, shorten
from tonframes.scanning.asked import Asked, filter_of
from tonframes.scanning.engines import Files, local_path
from tonframes.scanning.form import LakeForm
from tonframes.store.identity import NETWORK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.store import Period

#: The folders of a table, in the order of preference.
FOLDERS = {
    "transactions": ("transactions",),
    "messages": ("messages_with_data", "messages"),
    "blocks": ("blocks",),
}
_PARTITION = re.compile(r"(?:block_)?date=(\d{4})-?(\d\d)-?(\d\d)")

#: The bucket of the public lake, which anyone may read, and where it is.
_PUBLIC, _REGION = "aws-public-blockchain", "us-east-2"


@dataclass(frozen=True)
class LakeTables:
    """The tables of the lake, or of a folder with its files."""

    place: str  # what the user named
    root: str  # the folder, as its file system names it
    filesystem: fs.FileSystem | None = None  # None is here

    def __str__(self) -> str:
        return f"the lake {self.place}"

    @property
    def names(self) -> tuple[str, ...]:
        """The tables that there are files of."""
        return tuple(name for name in FOLDERS if self._folder(name))

    @property
    def _files(self) -> fs.FileSystem:
        return self.filesystem or fs.LocalFileSystem()

    def check(self, asked: Asked) -> None:
        """Do nothing: nobody knows which seqnos a lake should have."""

    def rows(self, name: str, asked: Asked) -> Files:
        """Return the files of a table that have the days that are asked for."""
        form = LakeForm(name)
        if asked.seqnos is not None and "mc_block_seqno" not in form.stored.names:
            raise ValueError(
                f"seqnos: {name} of the lake have no mc_block_seqno; choose with since and until"
            )
        found = [] if asked.nothing else list(self._chosen(name, asked.period))
        return Files(
            paths=tuple(info.path for info in found),
            sizes=tuple(info.size for info in found),
            schema=form.table.schema,
            chosen=filter_of(name, asked),
            filesystem=self.filesystem,
            lake=form,
        )

    def _chosen(self, name: str, period: Period | None) -> Iterator[fs.FileInfo]:
        folder = self._folder(name)
        for day, info in self._partitions(folder) if folder else ():
            if period is None or _meets(day, period):
                for file in self._listed(info.path, recursive=True):
                    # Athena, which writes the lake, gives its files no suffix.
                    hidden = file.base_name.startswith((".", "_"))
                    if file.type == fs.FileType.File and not hidden:
                        yield file

    def _folder(self, name: str) -> str | None:
        """Return the folder of a table; None if it has no partitions."""
        for folder in FOLDERS[name]:
            if next(self._partitions(f"{self.root}/{folder}"), None):
                return f"{self.root}/{folder}"
        return None

    def _partitions(self, folder: str) -> Iterator[tuple[date, fs.FileInfo]]:
        for info in self._listed(folder):
            match = _PARTITION.fullmatch(info.base_name)
            if match and info.type == fs.FileType.Directory:
                yield date(*map(int, match.groups())), info

    def _listed(self, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
        try:
            found = self._files.get_file_info(selector)
        except OSError as error:
            raise StoreError(
                f"cannot list {folder}: {shorten(str(error))}", path=Path(folder)
            ) from error
        return sorted(found, key=lambda info: info.path)


def lake_in(folder: Path) -> LakeTables | None:
    """Return the lake in a folder; None if there is none."""
    if (folder / NETWORK).exists():  # to list the files of a large store would take seconds
        return None
    lake = LakeTables(str(folder), local_path(folder))
    return lake if lake.names else None


def lake_at(url: str) -> LakeTables:
    """Return the lake at a URL."""
    filesystem, root = _opened(url)
    lake = LakeTables(url, root.rstrip("/"), filesystem)
    if not lake.names:
        raise StoreError(f"there is neither a store nor a lake at {url}", path=Path(url))
    return lake


def is_public(url: object) -> bool:
    """Return whether a URL is in the bucket of the public lake."""
    parts = urlsplit(str(url))
    return (parts.scheme, parts.netloc) == ("s3", _PUBLIC)


def _opened(url: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError(
            "the URL contains credentials, which messages would show: set them in the environment, "
            "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if is_public(url):
        return fs.S3FileSystem(anonymous=True, region=_REGION), parts.netloc + parts.path
    if is_bucket(url):
        path = BucketPath.from_url(url)
        return path.filesystem, path.key
    try:
        filesystem, root = fs.FileSystem.from_uri(url)
    except (ValueError, OSError) as error:
        raise ValueError(f"scan cannot open {shorten(url)}: {shorten(str(error))}") from None
    return filesystem, root


def _meets(day: date, period: Period) -> bool:
    start = datetime.combine(day, datetime.min.time(), UTC)
    return start.timestamp() < period.end and period.start < (start + timedelta(days=1)).timestamp()
