"""Folders of a store that are away, because they were moved or are not mounted."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from tonframes import sealed
from tonframes.errors import StoreError
from tonframes.store.files import HISTORY_FOLDERS, Damaged, reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def check_folders(store: Path, committed: Sequence[Path]) -> None:
    """Raise `StoreError` if a folder has no files and must have some, by those of other folders.

    Parameters
    ----------
    committed
        The files of transactions of masterchain blocks. In other folders, a process that was
        killed leaves one file at most without those that it would have written next.
    """
    *others, last = HISTORY_FOLDERS
    for files, folder, names in (
        (list(committed), "transactions", ["messages", "blocks"]),
        (_some(store / last), last, others),
    ):
        tables = _tables_of(files[0]) if files else ()
        for name in names:
            if not files:
                _check(store, folder, _some(store / name))
            elif name in tables and not _some(store / name):
                _check(store, name, files)
    if not (store / "accounts").is_dir():
        _check(store, "accounts", _some(store / "metadata"))


def _check(store: Path, name: str, others: Sequence[Path]) -> None:
    away = not (store / name).is_dir()
    if len(others) > (0 if away else 1):
        raise StoreError(
            f"{store / name} {'is away' if away else 'is empty'}, but {others[0].parent} has files "
            "that were written together with files of it: put the folder back, mount it, or use "
            "another store=",
            path=store / name,
        )


def _some(folder: Path) -> list[Path]:
    """List the first files of a folder, without listing them all."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if entry.name.endswith(".parquet"))
            return [folder / name for name in islice(names, 2)]
    except OSError:
        return []


def _tables_of(file: Path) -> Sequence[str]:
    """Return the names of the tables that were written together with a file."""
    try:
        with reading(file), sealed.opened(file) as opened:
            return list((opened.about or {}).get("tables", ()))
    except Damaged:
        return ()
