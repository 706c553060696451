"""Verify all bytes of a store, and change nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tonframes.seqnos import subtract
from tonframes.store.bucket_reader import open_store
from tonframes.store.damage import Good, find_damaged
from tonframes.store.files import HISTORY_FOLDERS, RANGED
from tonframes.store.histories import contradictions
from tonframes.store.ingested import Ingested
from tonframes.store.merging import reading_again
from tonframes.store.reader import Reader

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

#: Another process that moves files moves them one after the other. So a store is looked at this
#: often, and after as many seconds.
_LOOKS, _PAUSE = 10, 0.02


def verify_store(path: str | PathLike[str]) -> dict[Path, str]:
    """Verify all bytes of the files of a store, ingested ones included; nothing is changed.

    Each file is read, whether it was verified before or not. Fetching into the store sets damaged
    files aside, and fetches what they held again.

    Another process may write to the store meanwhile. So a store that seems to have damaged files is
    looked at again, ten times within a moment, and only what is wrong each time is returned. A file
    that the other process removes or adds meanwhile is not always verified.

    Parameters
    ----------
    path
        A store, or the URL of one: then all objects in the bucket are read.

    Returns
    -------
    The damaged files, and what is wrong with each; empty if all files are as they were written.
    Where transactions of an account contradict one another, it is the folder of the histories.
    A file of messages or blocks without its file of transactions is among them: that is gone, or a
    process was killed before it committed them.

    Raises
    ------
    StoreError
        There is no store at `path`, another store was copied into it, or a newer tonframes has
        written to it.

    Examples
    --------
    >>> import tonframes as tf
    >>> verify_store(tf.sample())
    {}
    """
    store = open_store(path)
    ingested = Ingested(store.folder)
    good: Good = {}  # what is good is read once, however often the store is looked at
    without = f"has no file of {RANGED[-1]} beside it, so its range is not held"

    @reading_again
    def faults() -> list[tuple[Path, str]]:
        if not ingested.exists():
            store.check()
        files = store.all_files()
        damaged = find_damaged([*files, *ingested.all_files()], good)
        held = store.held()
        left = [
            (file.path, without)
            for name in RANGED[:-1]
            for file in files
            if file.path.parent.name == name and file.run and subtract([file.run], held)
        ]
        contradicted = [
            (store.path / HISTORY_FOLDERS[-1], reason)
            for reason in contradictions(Reader(store.folder))
        ]
        return [*left, *contradicted, *((fault.path, fault.reason) for _, fault in damaged)]

    found = faults()
    for _ in range(_LOOKS - 1):
        if not found:
            break
        time.sleep(_PAUSE)
        again = set(faults())
        found = [fault for fault in found if fault in again]
    return dict(found)
