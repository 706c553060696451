"""Find damaged files, whose content is not what was written, and set them aside."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tonframes.atomic import sync
from tonframes.store.files import ASIDE, Damaged, Footer, HeldFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: One thread waits for the disk while the other hashes. Each holds a slice of one file.
THREADS = 2

#: Seconds. A file that was changed later than this may change again and keep its time.
_FRESH = 2.0

#: Seconds. A file without those that are written with it may be a part of a copy under way, or the
#: others may be about to appear. After this time it is set aside.
ORPHANED = 3600.0

#: What a file system says of a file, and the network that it must be of.
_Stamp = tuple[int, int, int, str | None]
#: Files that this process has read wholly and found good.
_good: dict[Path, tuple[_Stamp, Footer]] = {}


def check(file: HeldFile) -> Footer:
    """Read every byte of a file, unless this process has and the file is still the same.

    Raises
    ------
    Damaged
        They are not those that were written.
    """
    try:
        status = file.path.stat()
    except OSError:
        return file.check()
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, file.network)
    name = file.path.absolute()
    if name in _good and _good[name][0] == stamp:
        return _good[name][1]
    footer = file.check()
    if time.time() - status.st_mtime > _FRESH:
        _good[name] = stamp, footer
    return footer


def find_fault(file: HeldFile) -> Damaged | None:
    """Return what is wrong with a file, or with those that were written together with it."""
    try:
        for name in check(file).tables:
            if name != file.path.parent.name:
                check(file.beside(name))
    except Damaged as damaged:
        return damaged
    return None


def find_damaged(files: Sequence[HeldFile]) -> list[tuple[HeldFile, Damaged]]:
    """List the files that have a fault, looking at a few at a time."""
    pool = ThreadPoolExecutor(THREADS)
    try:
        faults = pool.map(find_fault, files)
        return [(file, fault) for file, fault in zip(files, faults, strict=True) if fault]
    finally:
        # After Ctrl-C this waits for the files that are being read, not for all.
        pool.shutdown(cancel_futures=True)


def check_whole(files: Sequence[HeldFile]) -> None:
    """Read every byte of files, and raise `Damaged` for the first one that has a fault."""
    for _, fault in find_damaged(files):
        raise fault


def is_old(file: Path, seconds: float) -> bool:
    """Return whether a file has been in its folder for long, whatever its own times say."""
    status = file.stat()
    return time.time() - max(status.st_mtime, status.st_ctime) >= seconds


def set_aside(store: Path, files: Iterable[Path]) -> dict[Path, Path]:
    """Move files into the folder `damaged`, in this order, and return where they are now.

    A file that is gone is left out.
    """
    folder = store / ASIDE
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
