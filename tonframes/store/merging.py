"""Merge small files of histories, and of the address book, into larger ones.

While files are being replaced, the note `merging.json` names the old ones and the new one. Once
the new file of transactions is there, the readers of tonframes ignore the old ones, so that they
read no transaction twice. Another engine that opens the folder in that moment may do so. If the
process is killed, the next one that writes to the store completes the merge.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pyarrow as pa

from tonframes.errors import StoreError
from tonframes.store.files import HISTORY_FOLDERS, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tonframes.store.files import HeldFile

#: The file with the note.
NOTE = "merging.json"
#: A file of transactions is small if it has fewer bytes; so many small ones are merged.
SMALL, MANY = 2**18, 32
#: Files of the address book are joined up to so many bytes.
LARGEST = 2**24
#: How often reading is tried again.
AGAIN = 5

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Merge:
    """Names of files of histories: the new one, and those that it replaces."""

    new: str
    old: Sequence[str]

    def note(self, store: Path) -> None:
        """Write the note; from now on the merge goes on even if the process is killed."""
        content = json.dumps({"new": self.new, "old": list(self.old)}).encode()
        replace(store / NOTE, [content])

    def finish(self, store: Path) -> None:
        """Remove the old files if the new ones are there, and the note."""
        if self._is_done(store):
            for folder in reversed(HISTORY_FOLDERS):
                for name in self.old:
                    (store / folder / name).unlink(missing_ok=True)
        (store / NOTE).unlink(missing_ok=True)

    def replaced(self, store: Path) -> frozenset[str]:
        """Return the names of the files that do not count any more."""
        return frozenset(self.old if self._is_done(store) else ())

    def _is_done(self, store: Path) -> bool:
        return (store / HISTORY_FOLDERS[-1] / self.new).exists()


def reading_again(read: Callable[P, R]) -> Callable[P, R]:
    """Return a function that reads again if a file is gone, as another process may have merged it.

    A file that is missing for another reason is missing every time.
    """

    @wraps(read)
    def reading(*arguments: P.args, **options: P.kwargs) -> R:
        for _ in range(AGAIN):
            try:
                return read(*arguments, **options)
            except StoreError as error:
                if error.path.exists():
                    raise
        return read(*arguments, **options)

    return reading


def unfinished(store: Path) -> Merge | None:
    """Return the merge that is under way, or was interrupted."""
    try:
        noted = json.loads((store / NOTE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        # Without it rows could be read twice.
        raise StoreError(f"{store / NOTE} is damaged: restore it", path=store / NOTE) from None
    return Merge(noted["new"], noted["old"])


def replaced_files(store: Path) -> frozenset[str]:
    """Return the names of the files that a merge under way has replaced."""
    merge = unfinished(store)
    return merge.replaced(store) if merge else frozenset()


def small_files(transactions: Sequence[HeldFile]) -> list[HeldFile]:
    """List the small files of transactions, if there are enough of them to be merged."""
    small = [file for file in transactions if file.size() < SMALL]
    return small if len(small) >= MANY else []


def small_runs(files: Sequence[HeldFile]) -> list[list[HeldFile]]:
    """List runs of adjacent small files that are long enough to become one file each."""
    runs: list[list[HeldFile]] = [[]]
    total = 0
    for file in files:
        size = file.size()
        total += size
        if size >= SMALL or total > LARGEST:
            runs.append([])
            total = size
        if size < SMALL:
            runs[-1].append(file)
    return [run for run in runs if len(run) >= MANY]


def rows_of(files: Sequence[HeldFile], folder: str) -> pa.Table:
    """Verify and read the rows of one folder that were written together with some files."""
    parts = [file.beside(folder) for file in files]
    for part in parts:
        part.check()
    return pa.concat_tables([part.read(part.table.schema.names) for part in parts])
