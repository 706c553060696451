"""Rows that two files have, after `cp -r` of one store into another: read once, or refused.

Files that tonframes writes into one store never overlap. Where files of two stores do, they must
have equal rows. Then each row is read from the first of them.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import StoreError
from tonframes.seqnos import spell
from tonframes.store.digest import digest, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tonframes.store.files import HeldFile


def disjoint(runs: Iterable[range]) -> dict[range, range]:
    """Return parts of ranges that do not overlap, each with the range it is of, in order.

    Examples
    --------
    >>> disjoint([range(0, 6), range(4, 10), range(5, 7)])
    {range(0, 6): range(0, 6), range(6, 10): range(4, 10)}
    """
    runs = list(runs)
    if all(run.stop <= after.start for run, after in pairwise(runs)) and all(runs):
        return {run: run for run in runs}
    parts: dict[range, range] = {}
    reached = 0
    for run in sorted(runs, key=lambda run: (run.start, -run.stop)):
        if part := range(max(run.start, reached), run.stop):
            parts[part] = run
            reached = run.stop
    return parts


def check_equal(first: HeldFile, second: HeldFile) -> None:
    """Raise `StoreError` unless two files of transactions, with their other tables, agree.

    They agree if they have equal rows for the masterchain seqnos that both of them have.
    """
    runs = [file.run or range(0) for file in (first, second)]
    shared = range(max(run.start for run in runs), min(run.stop for run in runs))
    tables = [file.footer().tables for file in (first, second)]
    for name in tables[0]:
        if name in tables[1]:
            digests = [
                _digest(file.beside(name), shared, file.beside(name).stamp())
                for file in (first, second)
            ]
            if digests[0] != digests[1]:
                raise StoreError(
                    f"{first.path} and {second.path} have different {name} of the masterchain "
                    f"seqnos {spell([shared])}: move one of them out of the store, with the files "
                    "of its name in the other folders",
                    path=second.path,
                )


@lru_cache(4096)
def _digest(file: HeldFile, seqnos: range, _stamp: tuple[int, ...]) -> str:
    names = file.table.schema.names
    rows = [within(group, [seqnos]) for group in file.groups(names, [seqnos])]
    return digest(pa.concat_tables([file.table.schema.empty_table(), *rows]))


def once(rows: pa.Table, key: Sequence[str], store: Path) -> pa.Table:
    """Keep one of the rows that have the same key.

    Raises
    ------
    StoreError
        They are not equal.
    """
    numbered = rows.select(key).append_column("row", pa.array(range(len(rows)), pa.int64()))
    first = numbered.group_by(list(key)).aggregate([("row", "min")])
    if len(first) == len(rows):
        return rows
    numbered = numbered.join(first, list(key)).sort_by("row")
    again = numbered.filter(pc.not_equal(numbered["row"], numbered["row_min"]))
    same = rows.take(again["row"]).combine_chunks()
    if not same.equals(rows.take(again["row_min"]).combine_chunks()):
        raise StoreError(
            f"two files of {store} have different rows of the same {' and '.join(key)}: one of "
            "them came from another store; move it out of this one",
            path=store,
        )
    kept = first["row_min"].combine_chunks()
    return rows.take(kept.take(pc.sort_indices(kept)))
