"""Write made-up transactions as a store, on all cores."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import TYPE_CHECKING

from tonframes.seqnos import SPAN, WIDTHS
from tonframes.store import Store
from tonframes.store.compaction import _groups
from tonframes.store.files import RANGED, Footer, content, range_name, write_groups
from tonframes.wire import schema

from .rows import SEQNO, rows_of, sample

if TYPE_CHECKING:
    from pathlib import Path

#: The network of the sample, and what says where the rows are from.
NETWORK, SERVICE = "-217", "made up by tests/benchmarks/scale"
#: Masterchain blocks of a file that compaction makes.
WIDE = WIDTHS[-1]


def extend(store: Path, millions: float, *, wide: bool, workers: int | None = None) -> int:
    """Make a store longer until it has so many million transactions; return how many it has.

    Files are complete, with checksums, but a machine that fails leaves a store that must be made
    again.

    Parameters
    ----------
    wide
        Write files as compaction makes them, wherever the store has come to a whole span of them.
        Otherwise files are those of a fetch.
    """
    workers = workers or os.cpu_count() or 1
    target = Store(store)
    target.claim(NETWORK, SERVICE)
    held = target.held()
    seqno = held[-1].stop if held else SEQNO
    each = len(sample()["transactions"])
    running: deque[Future[None]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while (seqno - SEQNO) // SPAN * each < millions * 1_000_000:
            write, width = write_narrow, SPAN
            if wide and seqno % WIDE == 0:
                write, width = write_wide, WIDE
            running.append(pool.submit(write, store, range(seqno, seqno + width)))
            seqno += width
            while len(running) > workers + 1:
                running.popleft().result()
        for task in running:
            task.result()
    return (seqno - SEQNO) // SPAN * each


def write_narrow(store: Path, seqnos: range) -> None:
    """Write the files of a copy, as a commit does."""
    for name in sample():
        table = rows_of(name, (seqnos.start - SEQNO) // SPAN)
        with (store / name / range_name(seqnos)).open("xb") as sink:
            sink.writelines(content(schema.TABLES[name], table, _footer(name, seqnos, len(table))))


def write_wide(store: Path, seqnos: range) -> None:
    """Write the files of many copies, as compaction does: one row group is in memory."""
    copies = range((seqnos.start - SEQNO) // SPAN, (seqnos.stop - SEQNO) // SPAN)
    for name, table in sample().items():
        footer = _footer(name, seqnos, len(table) * len(copies))
        parts = (rows_of(name, copy) for copy in copies)
        write_groups(store / name / range_name(seqnos), schema.TABLES[name], _groups(parts), footer)


def _footer(name: str, run: range, rows: int) -> Footer:
    return Footer(
        schema=schema.VERSION,
        tonframes=version("tonframes"),
        network=NETWORK,
        service=SERVICE,
        rows=rows,
        start=run.start,
        stop=run.stop,
        proof="synthetic",
        tables=RANGED if name == RANGED[-1] else (),
    )
