"""Files of transactions that are gone while files that were written together with them are there.

Of files that are written together, that of the transactions gets its name last. A process that is
killed before leaves the others, and also the temporary file of the transactions. So others without
this one show that a file of transactions was removed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tonframes.atomic import TEMPORARY
from tonframes.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

#: Another process that moves files moves them one after the other. So what seems to be lost is
#: looked for this often, and after as many seconds.
_LOOKS, _PAUSE = 10, 0.02


def files_without(store: Path, others: Iterable[str], last: str) -> list[Path]:
    """List files of some folders without the one of the same name that is written last."""
    beside = {folder: _names(store / folder) for folder in others}
    there = _names(store / last)
    begun = {match[1] for name in there if (match := TEMPORARY.fullmatch(name))}
    return [
        store / folder / name
        for folder, names in beside.items()
        for name in sorted(names - there - begun)
        if name.endswith(".parquet")
    ]


def still_lost(lost: Callable[[], Sequence[Path]]) -> Sequence[Path]:
    """List files that have lost the one written last, and have not found it a moment later."""
    for _ in range(_LOOKS):
        found = lost()
        if not found:
            break
        time.sleep(_PAUSE)
    return found


def gone(last: Path, found: Sequence[Path], advice: str) -> StoreError:
    """Return the error that files in the folder `last` are gone; `advice` replaces them."""
    names = list(dict.fromkeys(file.name for file in found))
    more = f" and {len(names) - 1} other files are" if len(names) > 1 else " is"
    return StoreError(
        f"{last / names[0]}{more} gone, but {found[0]}, which was written together with it, is "
        f"there: put back what is gone, or {advice}",
        path=last / names[0],
    )


def _names(folder: Path) -> set[str]:
    try:
        return {file.name for file in folder.iterdir()}
    except OSError:  # it is away, or listing it fails elsewhere with an error of the store
        return set()
