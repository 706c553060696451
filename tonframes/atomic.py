"""Write files completely or not at all, and exchange folders."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: Names of files that are being written, and the names that these will get. Data sets ignore names
#: that begin with `_` or a dot. Many copies are made without names that begin with a dot, so only
#: older versions wrote these.
TEMPORARY = re.compile(r"[_.](.+)\.[0-9]+\.[0-9a-f]{8}\.tmp")

#: Of the system: paths are relative to the working directory; both names stay, and change places.
_AT_FDCWD, _RENAME_EXCHANGE, _RENAME_SWAP = -100, 2, 2


def temporary(file: Path) -> Path:
    """Return a new temporary name in the folder of a file."""
    return file.with_name(f"_{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing. It gets its name when all of its content is on the disk.

    An existing file is replaced. If writing fails, it stays unchanged. The temporary name is new,
    so no symbolic link is followed; a link with the name of the file is replaced.
    """
    with replacing_all([file]) as [sink]:
        yield sink


@contextmanager
def replacing_all(files: Sequence[Path]) -> Iterator[list[IO[bytes]]]:
    """Open files for writing, as `replacing` does for one.

    They get their names in this order when the content of all of them is on the disk. A process
    that is killed in that moment may leave some of the old files with some of the new ones. Then
    the temporary file of the last one is still there.
    """
    made = [temporary(file) for file in files]
    try:
        with ExitStack() as stack:
            sinks: list[IO[bytes]] = [stack.enter_context(new.open("xb")) for new in made]
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
