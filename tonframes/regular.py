"""Find paths that are not regular files: opening a pipe waits, and a device may have no end."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def irregular(file: Path) -> str | None:
    """Return what a path leads to, such as "a pipe"; None for a regular file.

    Raises
    ------
    OSError
        There is nothing, or it cannot be looked at.
    """
    mode = file.stat().st_mode
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
