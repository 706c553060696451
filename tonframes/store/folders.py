"""Folders of a store that are away, because they were moved or are not mounted."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any

from tonframes import sealed
from tonframes.errors import StoreError
from tonframes.store.files import (
    ASIDE,
    HISTORY_FOLDERS,
    SNAPSHOT_FOLDERS,
    Damaged,
    is_table_file,
    reading,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def check_folders(store: Path, committed: Sequence[Path]) -> None:
    """Raise `StoreError` if a folder has no files and must have some, by those of other folders.

    Parameters
    ----------
    committed
        Files of transactions of masterchain blocks, at least the first and the last. In others, a
        process that was killed leaves one file at most without those that it would have written
        next.
    """
    *others, last = HISTORY_FOLDERS
    histories = _some(store / last)
    for files, folder, names in (
        (list(committed), "transactions", ["messages", "blocks"]),
        (histories, last, others),
    ):
        tables = _said(files[0]).get("tables", ()) if files else ()
        for name in names:
            if not files:
                _check(store, folder, _some(store / name))
            elif name in tables and not _some(store / name):
                _check(store, name, files)
    if not (store / "accounts").is_dir():
        _check(store, "accounts", _some(store / "metadata"))
    newest = [file for name in (last, *SNAPSHOT_FOLDERS) for file in _newest(store / name)]
    for file in (*committed[-1:], *newest):
        for name in _said(file).get("snapshots", ()):
            if name in SNAPSHOT_FOLDERS and not _some(store / name) and not _damaged(store, name):
                raise _away(store / name, file)


def with_files(store: Path, folders: Sequence[str]) -> list[str]:
    """List those folders of a store that have files."""
    return [name for name in folders if _some(store / name)]


def _check(store: Path, name: str, others: Sequence[Path]) -> None:
    away = not (store / name).is_dir()
    if len(others) > (0 if away else 1):
        raise _away(store / name, others[0])


def _away(folder: Path, other: Path) -> StoreError:
    return StoreError(
        f"{folder} is {'empty' if folder.is_dir() else 'away'}, but {other.parent} has files that "
        "were written together with files of it: put the folder back, mount it, or use another "
        "store=",
        path=folder,
    )


def _some(folder: Path) -> list[Path]:
    """List the first files of a folder, without listing them all."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if is_table_file(entry.name))
            return [folder / name for name in islice(names, 2)]
    except OSError:
        return []


def _newest(folder: Path) -> list[Path]:
    """List the file of a folder that has the latest moment in its name, if there is any."""
    try:
        with os.scandir(folder) as entries:
            last = max((e.name for e in entries if is_table_file(e.name)), default=None)
    except OSError:
        return []
    return [] if last is None else [folder / last]


def _damaged(store: Path, name: str) -> bool:
    """Return whether a file of a folder was set aside, so that the folder may be empty."""
    return any((store / ASIDE).glob(f"{name}-*"))


def _said(file: Path) -> Mapping[str, Any]:
    """Return what a file says of itself; nothing if it is damaged."""
    try:
        with reading(file), sealed.opened(file) as opened:
            return opened.about or {}
    except Damaged:
        return {}
