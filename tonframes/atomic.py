"""Write files completely or not at all, and exchange folders."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Names of files that are being written, and the names that these will get. Data sets ignore names
#: that begin with `_` or a dot, and many copies are made without names that begin with a dot.
TEMPORARY = re.compile(r"_(.+)\.[0-9]+\.[0-9a-f]{8}\.tmp")

#: Of the system: paths are relative to the working directory; both names stay, and change places.
_AT_FDCWD, _RENAME_EXCHANGE, _RENAME_SWAP = -100, 2, 2


def temporary(file: Path) -> Path:
    """Return a new temporary name in the folder of a file."""
    return file.with_name(f"_{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing. It gets its name when all of its content is on the disk.

    If writing fails, an existing file stays unchanged. A link with its name is replaced.
    """
    with replacing_all([file]) as [sink]:
        yield sink


@contextmanager
def replacing_all(files: Sequence[Path], *, keep: bool = False) -> Iterator[list[IO[bytes]]]:
    """Open files for writing, as `replacing` does for one.

    They get their names in this order when the content of all of them is on the disk. A process
    that is killed in that moment may leave some of the old files with some of the new ones.

    `keep` says that a user has named the files: links are followed, and a file that is replaced
    keeps its mode, its owner and its group. If it cannot, or is no file, `OSError` is raised.
    """
    if keep:
        files = [Path(os.path.realpath(file)) for file in files]
    made = [temporary(file) for file in files]
    try:
        with ExitStack() as stack:
            sinks: list[IO[bytes]] = [
                stack.enter_context(open(new, "xb", opener=partial(_like, file) if keep else None))
                for new, file in zip(made, files, strict=True)
            ]
            yield sinks
            for sink in sinks:
                sink.flush()
                os.fsync(sink.fileno())
        if files[0].parent != files[-1].parent:
            sync(files[-1].parent)
        pairs = zip(made, files, strict=True)
        for folder, moved in groupby(pairs, key=lambda pair: pair[1].parent):
            for new, file in moved:
                new.replace(file)
            sync(folder)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # as of a full disk
            error.filename = os.path.commonpath(files)
        for new in made:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        raise


def _like(file: Path, new: str, flags: int) -> int:
    """Open a new file with the mode, the owner and the group of one that it will replace."""
    old = _status(file)
    if old is None or os.name != "posix":
        return os.open(new, flags, 0o666)
    if not stat.S_ISREG(old.st_mode):
        reason = "is a folder, a pipe or a device, and not replaced by a file"
        raise FileExistsError(errno.EEXIST, reason, str(file))
    handle = os.open(new, flags, 0o600)  # nobody else opens it before it has its mode
    try:
        inherit(handle, file)
    except OSError:
        os.close(handle)
        raise
    return handle


def inherit(handle: int, old: Path) -> None:
    """Give a new file or folder the mode, the owner and the group of one that it will replace.

    It is known by its descriptor: somebody else may put a link in the place of its name.
    `PermissionError` tells that the system does not allow it: only root can make a file somebody
    else's.
    """
    made, kept = os.fstat(handle), old.stat()
    try:
        if (made.st_uid, made.st_gid) != (kept.st_uid, kept.st_gid):
            os.fchown(handle, kept.st_uid, kept.st_gid)
        os.fchmod(handle, stat.S_IMODE(kept.st_mode))
    except OSError:
        reason = "its mode, its owner and its group cannot be kept: remove it, or name another path"
        raise PermissionError(errno.EPERM, reason, str(old)) from None


@contextmanager
def output(file: Path) -> Iterator[IO[bytes]]:
    """Open what a user has named for writing: a file that is replaced, or a pipe or a device.

    A file is written whole or not at all, as `replacing_all` does with `keep`. A pipe or a device
    cannot be replaced, so it gets the content as it comes. So does what is the standard output or
    error of this process, even if it is a file: others write to it as well.
    """
    there, handle = _status(file), None
    for standard in (2, 1):
        with suppress(OSError):  # it is closed
            if there and os.path.samestat(there, os.fstat(standard)):
                handle = standard
    if handle is None and (there is None or stat.S_ISREG(there.st_mode)):
        with replacing_all([file], keep=True) as [sink]:
            yield sink
    else:
        with file.open("wb") if handle is None else os.fdopen(os.dup(handle), "wb") as sink:
            yield sink


def _status(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def sync(folder: Path) -> None:
    """Wait until a rename in a folder is on the disk.

    Only POSIX systems can open folders. Other systems need no call for this.
    """
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step, and return whether the system can do so.

    Linux and macOS can within one file system, but not every file system has it. Python has no
    function for it.
    """
    if os.name != "posix":
        return False
    system = ctypes.CDLL(None)
    here, there = os.fsencode(first), os.fsencode(second)
    if hasattr(system, "renameat2"):
        return bool(system.renameat2(_AT_FDCWD, here, _AT_FDCWD, there, _RENAME_EXCHANGE) == 0)
    if hasattr(system, "renamex_np"):
        return bool(system.renamex_np(here, there, _RENAME_SWAP) == 0)
    return False


def probe(folder: Path, size: int) -> None:
    """Write as many bytes into a folder, wait until they are on the disk, and remove them."""
    trial = temporary(folder / "trial")
    try:
        with trial.open("xb") as sink:
            sink.write(bytes(size))
            sink.flush()
            os.fsync(sink.fileno())
    finally:
        trial.unlink(missing_ok=True)
