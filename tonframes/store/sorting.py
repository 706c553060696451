"""The rows of a file sorted by account, when they do not fit into the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tonframes.store.files import HeldFile

#: Rows that are sorted at once.
BATCH = 100_000
#: Bounds between batches are found by looking at so many rows of each.
_SAMPLE = 100

_ORDER = ["account", "lt"]


def sorted_by_account(file: HeldFile, folder: Path) -> Iterator[pa.Table]:
    """Read the rows of a file of transactions by (account, lt).

    They are divided into consecutive ranges of that order, which are written to the disk, and each
    of them is sorted in memory.

    Parameters
    ----------
    folder
        For these files, which are removed as they are read.
    """
    bounds = _bounds(file)
    parts = [folder / f"{number}.arrow" for number in range(len(bounds) + 1)]
    schema = file.table.schema
    sinks = [pa.ipc.new_file(str(part), schema) for part in parts]
    for rows in file.groups(schema.names):
        numbers = np.searchsorted(bounds, _keys(rows), side="right")
        for number in np.unique(numbers):
            sinks[number].write_table(rows.filter(pa.array(numbers == number)))
    for sink in sinks:
        sink.close()
    for part in parts:
        with pa.OSFile(str(part)) as source:
            rows = pa.ipc.open_file(source).read_all()
        part.unlink()
        yield rows.sort_by([(name, "ascending") for name in _ORDER])


def _bounds(file: HeldFile) -> np.ndarray:
    """Return the keys at which the rows are divided."""
    step = BATCH // _SAMPLE
    keys = [_keys(rows)[step // 2 :: step] for rows in file.groups(_ORDER)]
    return np.sort(np.concatenate([np.array([], "U"), *keys]))[_SAMPLE::_SAMPLE]


def _keys(rows: pa.Table) -> np.ndarray:
    """Return texts that have the order of (account, lt): no address begins with another one."""
    lt = pc.utf8_lpad(rows["lt"].cast(pa.string()), 20, "0")
    return np.array(pc.binary_join_element_wise(rows["account"], lt, ":").to_pylist(), "U")
