"""A lock on a folder, for one writer at a time. The system frees it when its holder dies."""

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

#: Seconds to wait for another process. A commit takes much less than one.
LOCK_TIMEOUT = 60.0

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def locked(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Hold a lock of a folder, which must exist; the error of a timeout names the holder.

    Without locks two processes could commit overlapping ranges, and each could remove what the
    other is writing. So a file system without locks, as some network file systems are, is refused
    for writing. Reading needs no lock.
    """
    file = folder / name
    holder = folder / f"{name}.pid"
    if file.is_symlink():
        raise StoreError(f"{file} is a symbolic link, which a lock must not follow", path=file)
    lock = FileLock(file, timeout=LOCK_TIMEOUT)
    try:
        lock.acquire()
    except Timeout:
        named = "another process"
        with suppress(OSError, ValueError):  # the note is only for the message
            named = f"process {int(holder.read_text())}"
        raise StoreError(
            f"{file} has been held by {named} for more than {LOCK_TIMEOUT:g} s: wait for "
            "it, or end it",
            path=file,
        ) from None
    except (OSError, NotImplementedError) as error:
        number = getattr(error, "errno", errno.ENOSYS)
        hint = (
            ": its file system has no locks, and two processes could damage each other's files; "
            "give a store= on another file system"
            if number in _UNSUPPORTED
            else ""
        )
        raise StoreError(
            f"cannot lock the store {folder}: {getattr(error, 'strerror', None) or error}{hint}",
            path=folder,
        ) from error
    except BaseException:
        # Ctrl-C may come after the lock was taken: this process would wait for itself.
        lock.release(force=True)
        raise
    try:
        # Only for the message to those who wait: the lock is held without it.
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
