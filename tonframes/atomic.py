"""Files that are written whole or not at all."""

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
    """Return a new name beside a file, for its content while it is written."""
    return file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, which appears under its name once all is on the disk.

    A file that is there is replaced. If writing fails, it stays as it was. The temporary name is
    new, so no symbolic link is followed; a link of the file's own name is replaced.
    """
    new = temporary(file)
    try:
        with new.open("xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        new.replace(file)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync(file.parent)


def sync(folder: Path) -> None:
    """Wait until a rename in a folder is on the disk.

    Only POSIX opens folders; other systems see to it themselves.
    """
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
