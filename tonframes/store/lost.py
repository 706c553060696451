"""Files of transactions that are gone while files that were written together with them are there.

Of files that are written together, that of the transactions gets its name last. A process that is
killed before leaves the others, and also the temporary file of the transactions. So if both the
file of the transactions and its temporary file are gone, it was removed. The name of a temporary
file does not begin with a dot, because many copies are made without such names.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

from tonframes.atomic import TEMPORARY
from tonframes.errors import StoreError
from tonframes.store.files import is_table_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

#: Another process that moves files moves them one after the other. So a store is looked at this
#: often, and after as many seconds.
_LOOKS, _PAUSE = 10, 0.02

T = TypeVar("T")


def files_without(store: Path, others: Iterable[str], last: str) -> list[Path]:
    """List files of some folders without the one of the same name that is written last."""
    beside = {folder: _names(store / folder) for folder in others}
    there = _names(store / last)
    begun = {match[1] for name in there if (match := TEMPORARY.fullmatch(name))}
    return [
        store / folder / name
        for folder, names in beside.items()
        for name in sorted(names - there - begun)
        if is_table_file(name)
    ]


def still_seen(look: Callable[[], Sequence[T]]) -> Sequence[T]:
    """List what is wrong with a store each time that one looks, a few times in a moment.

    What is seen only once is the work of a process that writes to the store.
    """
    found = look()
    for _ in range(_LOOKS - 1):
        if not found:
            break
        time.sleep(_PAUSE)
        again = set(look())
        found = [one for one in found if one in again]
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
        return set(os.listdir(folder))  # noqa: PTH208 - paths take ten times as long as names
    except OSError:  # it is away, or listing it fails elsewhere with an error of the store
        return set()
