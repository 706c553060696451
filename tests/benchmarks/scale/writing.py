"""Write made-up transactions as a store, on all cores."""

from __future__ import annotations

import os
import pickle
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np

from tonframes.store import SPAN, Store, digest
from tonframes.store.files import Footer, content, range_name
from tonframes.wire import schema

from .chain import Chain, Skeleton
from .rows import tables_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

#: The network of the sample, and what says where the rows are from.
NETWORK, SERVICE = "-217", "made up by tests/benchmarks/scale"
#: Spans that a process makes at once.
_SPANS = 10
#: Parts that wait to be made: more would only take memory.
_WAITING = 2


def extend(store: Path, millions: float, *, workers: int | None = None) -> int:
    """Make a store longer until it has so many million transactions; return how many it has.

    What is needed to go on is in a file beside the store. Spans have `SPAN` masterchain blocks, as
    those of a fetch. Files are complete, with checksums, but they are not flushed to the disk one
    by one: a machine that fails leaves a store that must be made again.
    """
    workers = workers or os.cpu_count() or 1
    beside = store.with_name(f"{store.name}.chain")
    chain = pickle.loads(beside.read_bytes()) if beside.exists() else Chain()
    Store(store).claim(NETWORK, SERVICE)
    written = chain.written
    running: deque[Future[None]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while written < millions * 1_000_000:
            first = chain.seqno
            rows = chain.go_on(SPAN * _SPANS)
            written += len(rows)
            running.append(pool.submit(_write_spans, store, rows, range(first, chain.seqno)))
            while len(running) > workers * _WAITING:
                running.popleft().result()
        for task in running:
            task.result()
    chain.written = written
    beside.write_bytes(pickle.dumps(chain))
    return written


def _write_spans(store: Path, rows: Skeleton, seqnos: range) -> None:
    """Write the files of consecutive spans."""
    ends = np.searchsorted(rows.seqno, np.array(seqnos[SPAN::SPAN]))
    starts = [0, *ends.tolist(), len(rows)]
    for number, start in enumerate(seqnos[::SPAN]):
        part = rows.part(starts[number], starts[number + 1])
        run = range(start, start + SPAN)
        write_span(store, tables_of(part, run), run)


def write_span(store: Path, tables: dict[str, pa.Table], run: range) -> None:
    """Write the files of a span, as a commit does."""
    for name, table in tables.items():
        footer = Footer(
            schema=schema.VERSION,
            tonframes=version("tonframes"),
            network=NETWORK,
            service=SERVICE,
            rows=len(table),
            digest=digest(table),
            start=run.start,
            stop=run.stop,
            proof="synthetic",
            tables=list(tables) if name == "transactions" else (),
        )
        with (store / name / range_name(run)).open("xb") as sink:
            sink.writelines(content(schema.TABLES[name], table, footer))
