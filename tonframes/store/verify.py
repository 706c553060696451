"""Verify all bytes of a store, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonframes.store.bucket_reader import open_store
from tonframes.store.damage import Good, find_damaged
from tonframes.store.files import HISTORY_FOLDERS, RANGED
from tonframes.store.histories import contradictions
from tonframes.store.ingested import Ingested
from tonframes.store.lost import still_seen
from tonframes.store.merging import reading_again
from tonframes.store.reader import Reader

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


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
    A file of messages or blocks whose file of transactions is gone is among them, unless a process
    was killed before it committed them.

    Raises
    ------
    StoreError
        There is no store at `path`, a folder of it is away, files overlap and have different rows,
        or a newer tonframes has written to it.

    Examples
    --------
    >>> import tonframes as tf
    >>> verify_store(tf.sample())
    {}
    """
    store = open_store(path)
    ingested = Ingested(store.folder)
    if not ingested.exists():
        store.check()
    good: Good = {}  # what is good is read once, however often the store is looked at
    without = f"has no file of {RANGED[-1]} beside it, so its range is not held"

    @reading_again
    def faults() -> list[tuple[Path, str]]:
        if not ingested.exists():
            store.check()
        store.files("transactions")  # raises an error if files overlap and have different rows
        damaged = find_damaged([*store.all_files(), *ingested.all_files()], good)
        left = [(file, without) for file in store.files_left()]
        contradicted = [
            (store.path / HISTORY_FOLDERS[-1], reason)
            for reason in contradictions(Reader(store.folder))
        ]
        return [*left, *contradicted, *((fault.path, fault.reason) for _, fault in damaged)]

    return dict(still_seen(faults))
