"""Find damaged files, whose content is not what was written, and set them aside."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from tonframes.atomic import sync
from tonframes.store import verified
from tonframes.store.files import (
    ASIDE,
    HISTORY_FOLDERS,
    RANGED,
    Damaged,
    Footer,
    HeldFile,
    in_threads,
)
from tonframes.store.listing import MERGING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: One thread waits for the disk while the other hashes. Each holds a slice of one file.
THREADS = 2

#: Seconds. A file without those that are written with it may be a part of a copy under way, or the
#: others may be about to appear. After this time it is set aside.
ORPHANED = 3600.0

#: The folders with files of the same names as those of another one, written together with them.
_TOGETHER = {RANGED[-1]: RANGED[:-1], HISTORY_FOLDERS[-1]: HISTORY_FOLDERS[:-1]}

#: Files that were read wholly and found good: what the file system said of each, the network that
#: it must be of, and its footer.
Good = dict["Path", tuple[tuple[int, ...], str | None, Footer]]


def check(file: HeldFile, good: Good = verified.good) -> Footer:
    """Read every byte of a file, unless it is known to be good and still the same."""
    name, stamp = file.path.absolute(), verified.stamp(file.path)
    if name in good and good[name][:2] == (stamp, file.network):
        return good[name][2]
    good.pop(name, None)
    footer = file.check()
    if stamp is not None and verified.is_settled(stamp):
        good[name] = stamp, file.network, footer
    return footer


def find_fault(file: HeldFile, good: Good = verified.good) -> Damaged | None:
    """Return what is wrong with a file, or with those that were written together with it."""
    try:
        for name in check(file, good).tables:
            if name != file.path.parent.name:
                check(file.beside(name), good)
    except Damaged as damaged:
        return damaged
    return None


def find_damaged(
    files: Sequence[HeldFile], good: Good | None = None
) -> list[tuple[HeldFile, Damaged]]:
    """List the files that have a fault, looking at a few at a time."""
    known: Good = {} if good is None else good
    faults = in_threads(lambda file: find_fault(file, known), files, THREADS)
    return [(file, fault) for file, fault in zip(files, faults, strict=True) if fault]


def find_new_damage(files: Sequence[HeldFile]) -> list[tuple[HeldFile, Damaged]]:
    """List the files of a store that have a fault; what was verified before is not read again."""
    folders = defaultdict(list)
    for file in files:
        folders[file.path.parent].append(file)
    found = []
    for folder, those in folders.items():
        if folder.parent.name == MERGING:  # soon they are elsewhere
            found += find_damaged(those, verified.good)
            continue
        store, asked = folder.parent, {file.path.name for file in those}
        together = [folder, *(store / name for name in _TOGETHER.get(folder.name, ()))]
        units = verified.units(together, asked, those[0].network)
        before = verified.noted(store)
        known = {
            name
            for unit, (names, stamps) in units.items()
            if before.get(unit) == stamps
            for name in names
        }
        damaged = find_damaged([f for f in those if f.path.name not in known], verified.good)
        good = asked - {file.path.name for file, _ in damaged}
        more = {unit: stamps for unit, (names, stamps) in units.items() if names <= good}
        if more.items() - before.items():
            verified.note(store, before | more)
        found += damaged
    return found


def check_whole(files: Sequence[HeldFile]) -> None:
    """Read every byte of files, and raise `Damaged` for the first one that has a fault."""
    for _, fault in find_damaged(files):
        raise fault


def is_old(file: Path, seconds: float) -> bool:
    """Return whether a file has been in its folder for long, whatever its own times say."""
    status = file.stat()
    return time.time() - max(status.st_mtime, status.st_ctime) >= seconds


def set_aside(store: Path, files: Iterable[Path]) -> dict[Path, Path]:
    """Move files into the folder `damaged`, in this order, and return where they are now."""
    folder = store / ASIDE
    folder.mkdir(exist_ok=True)
    mark = secrets.token_hex(4)
    moved = {}
    for file in files:
        target = folder / f"{file.parent.name}-{file.stem}-{mark}.parquet"
        try:
            file.rename(target)  # of a link, the link itself
        except FileNotFoundError:
            continue
        moved[file] = target
        sync(folder)
        sync(file.parent)
    return moved
