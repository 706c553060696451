"""Files that are no longer what was written: found, and set aside."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from tonframes.store.files import Damaged, Footer, Kept, sync
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: Where damaged files go, below the store.
FOLDER = "damaged"

#: One thread waits for the disk while the other hashes. Each holds a slice of one file.
THREADS = 2

#: A file that was changed less than so many seconds ago may change again without a new time.
_FRESH = 2.0

_Stamp = tuple[int, int, int, str | None]
_whole: dict[Path, tuple[_Stamp, Footer]] = {}


def check(kept: Kept) -> Footer:
    """Read every byte of a file, unless this process has and the file is still the same.

    Raises
    ------
    Damaged
        They are not those that were written.
    """
    try:
        status = kept.file.stat()
    except OSError:
        return kept.check()
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, kept.network)
    name = kept.file.absolute()
    if name in _whole and _whole[name][0] == stamp:
        return _whole[name][1]
    footer = kept.check()
    if time.time() - status.st_mtime > _FRESH:
        _whole[name] = stamp, footer
    return footer


def fault(commit: Kept) -> Damaged | None:
    """Find what is wrong with a file, or with those that were committed with it."""
    try:
        for name in check(commit).tables:
            if name != commit.table.name:
                twin = commit.file.parent.parent / name / commit.file.name
                check(replace(commit, file=twin, table=schema.TABLES[name]))
    except Damaged as damaged:
        return damaged
    return None


def find(commits: Sequence[Kept]) -> list[Kept]:
    """Give those that have a fault, looking at a few at a time."""
    pool = ThreadPoolExecutor(THREADS)
    try:
        faults = pool.map(fault, commits)
        return [commit for commit, bad in zip(commits, faults, strict=True) if bad]
    finally:
        # Whoever presses Ctrl-C waits for the files that are being read, not for all.
        pool.shutdown(cancel_futures=True)


def set_aside(store: Path, files: Iterable[Path]) -> dict[Path, Path]:
    """Move files out of the way, in this order, and tell where they are now.

    A file that is gone is passed over.
    """
    folder = store / FOLDER
    folder.mkdir(exist_ok=True)
    mark = secrets.token_hex(4)
    moved = {}
    for file in files:
        target = folder / f"{file.parent.name}-{file.stem}-{mark}.parquet"
        try:
            file.rename(target)  # of a link, the link itself
        except FileNotFoundError:
            continue
        moved[file] = target
        sync(folder)
        sync(file.parent)
    return moved
