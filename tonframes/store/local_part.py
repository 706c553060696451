"""The local part of a store in a bucket: what the bucket does not hold yet; see `bucket_reader`."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

import platformdirs

from tonframes.seqnos import SPAN, aligned, subtract
from tonframes.store.files import RANGED
from tonframes.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tonframes.bucket import BucketPath
    from tonframes.store.files import HeldFile


def local_part(url: BucketPath) -> Path:
    """Return the folder of what is not in a bucket yet."""
    mark = blake2b(str(url).encode(), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9._-]", "_", url.key)[:60]
    return platformdirs.user_cache_path("tonframes") / "buckets" / f"{url.scheme}-{name}-{mark}"


class LocalPart(Store):
    """The local part of a store in a bucket."""

    def check_folders(self) -> None:
        """Raise no error: what the bucket holds has left the folders."""

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
