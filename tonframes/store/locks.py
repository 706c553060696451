"""One writer at a time: a lock on a folder, which the system frees when its holder dies."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from tonframes.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Seconds to wait for another process: a commit takes much less than one.
LOCK_TIMEOUT = 60.0

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is there.

    Without locks two processes could commit overlapping ranges, and each sweep away what the
    other is writing. So a file system that has none (some network file systems) is refused, not
    tolerated: it can be read from.

    Raises
    ------
    StoreError
        Another process holds the lock, which is named, or the folder cannot be locked.
    """
    file = folder / ".lock"
    holder = folder / ".lock.pid"
    if file.is_symlink():
        raise StoreError(f"{file} is a symbolic link, which a lock must not follow", path=file)
    lock = FileLock(file, timeout=LOCK_TIMEOUT)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"{file} is held by {_named(holder)} since more than {LOCK_TIMEOUT:g} s: wait for it, "
            "or end it",
            path=file,
        ) from None
    except (OSError, NotImplementedError) as error:
        number = getattr(error, "errno", errno.ENOSYS)
        hint = (
            ": its file system has no locks, and two processes could spoil each other's work; "
            "give a store= on another one"
            if number in _UNSUPPORTED
            else ""
        )
        raise StoreError(
            f"cannot lock the store {folder}: {getattr(error, 'strerror', None) or error}{hint}",
            path=folder,
        ) from error
    try:
        # A courtesy to who waits: without it the lock is held all the same.
        with suppress(OSError):
            holder.unlink(missing_ok=True)
            with holder.open("x") as note:
                note.write(str(os.getpid()))
        yield
    finally:
        try:
            with suppress(OSError):
                holder.unlink(missing_ok=True)
        finally:
            lock.release()


def _named(holder: Path) -> str:
    try:
        return f"process {int(holder.read_text())}"
    except (OSError, ValueError):
        return "another process"
