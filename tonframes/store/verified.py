"""`.verified`: which files of a store were read wholly and found good, in any process.

Hashing all bytes of a large store takes long, and a fetch would do it in each process again. So a
store notes what was verified, and a file is not read again while the file system says the same of
it: its number, size, and both times. A unit of the note is the files of 10,000 masterchain seqnos,
or the snapshots of a minute. It has one hash of all these, so the note of a large store is small.

The note only saves time. If it is damaged or gone, everything is verified again. It does not tell
whether a bit has flipped on the disk since: the footer and the pages of a file are verified each
time it is read, and if they are wrong, the note is removed, so the next fetch finds the damage.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tonframes.atomic import replacing
from tonframes.bucket import BucketPath

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

#: The file with the note. Its name begins with a dot, as copies of the files are not verified.
NOTE = ".verified"

#: Seconds. A file that was changed later than this may change again and keep its time.
_FRESH = 2.0
#: How many characters of the names of files are those of their unit.
_SEQNOS, _MINUTE = len("0004900"), len("20261121T0945")

#: What this process has read wholly: see `damage.Good`.
good: dict[Path, Any] = {}


def units(
    folders: Sequence[Path], files: Collection[str], network: str | None
) -> dict[str, tuple[frozenset[str], str]]:
    """Return the units that have some files of a folder: their names and a hash of their stamps."""
    wanted = set(map(_unit_of, files))
    names = defaultdict(list)
    try:
        there = sorted(os.listdir(folders[0]))  # noqa: PTH208 - paths take ten times as long
    except OSError:
        return {}
    for name in there:
        if name.endswith(".parquet") and (unit := _unit_of(name)) in wanted:
            names[unit].append(name)
    found = {}
    for unit, those in names.items():
        stamps = [stamp(folder / name) for name in those for folder in folders]
        if all(one is None or is_settled(one) for one in stamps):
            said = repr((network, [folder.name for folder in folders], those, stamps))
            hashed = blake2b(said.encode(), digest_size=16).hexdigest()
            found[f"{folders[0].name}/{unit}"] = frozenset(those), hashed
    return found


def stamp(file: Path) -> tuple[int, ...] | None:
    """Return what the file system says of a file; None if it is gone."""
    if isinstance(file, BucketPath):
        return None
    try:
        status = os.stat(file)  # noqa: PTH116 - for each file of a large store
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def is_settled(stamp: tuple[int, ...]) -> bool:
    """Return whether another change of the file would change its time."""
    return time.time_ns() - stamp[2] > _FRESH * 1e9


def noted(store: Path) -> dict[str, str]:
    """Read the hashes of the units that were verified; none if the note is damaged or gone."""
    try:
        said = json.loads((store / NOTE).read_bytes())
        found = {str(unit): str(hashed) for unit, hashed in said["units"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return found if said.get("seal") == _seal(found) else {}


def note(store: Path, hashes: Mapping[str, str]) -> None:
    """Write the hashes of units that were verified."""
    content = json.dumps({"units": hashes, "seal": _seal(hashes)}).encode()
    with suppress(OSError), replacing(store / NOTE) as sink:
        sink.write(content)


def forget(file: Path) -> None:
    """Verify all files of a store again the next time, as this one of it is damaged."""
    if isinstance(file, BucketPath):
        return
    good.pop(file.absolute(), None)
    with suppress(OSError):
        (file.parent.parent / NOTE).unlink(missing_ok=True)


def _unit_of(name: str) -> str:
    return name[:_MINUTE] if name[8:9] == "T" else name[:_SEQNOS]


def _seal(hashes: Mapping[str, str]) -> str:
    return blake2b(json.dumps(hashes, sort_keys=True).encode(), digest_size=16).hexdigest()
