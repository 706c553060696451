"""Write files completely or not at all."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Names of files that are being written. They begin with a dot: data sets ignore them.
TEMPORARY = re.compile(r"\..+\.[0-9]+\.[0-9a-f]{8}\.tmp")


def temporary(file: Path) -> Path:
    """Return a new temporary name in the folder of a file."""
    return file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing. It gets its name when all of its content is on the disk.

    An existing file is replaced. If writing fails, it stays unchanged. The temporary name is new,
    so no symbolic link is followed; a link with the name of the file is replaced.
    """
    new = temporary(file)
    try:
        with new.open("xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        new.replace(file)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(file)  # that of a full disk has none
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync(file.parent)


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
