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

from tonframes.seqnos import SPAN, WIDTHS
from tonframes.store import Store
from tonframes.store.compaction import _groups
from tonframes.store.files import RANGED, Footer, content, range_name, write_groups
from tonframes.wire import schema

from .chain import Chain, Skeleton
from .rows import CHAINS, rows_of, tables_of
from .templates import templates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

#: The network of the sample, and what says where the rows are from.
NETWORK, SERVICE = "-217", "made up by tests/benchmarks/scale"
#: Masterchain blocks of a file that compaction makes, and of the narrow files of one task.
WIDE, _TOGETHER = WIDTHS[-1], 1_000


def extend(store: Path, millions: float, *, wide: bool, workers: int | None = None) -> int:
    """Make a store longer until it has so many million transactions; return how many it has.

    What is needed to go on is in a file beside the store. Files are complete, with checksums, but
    a machine that fails leaves a store that must be made again.

    Parameters
    ----------
    wide
        Write files as compaction makes them, wherever the store has come to a whole span of them.
        Otherwise files are those of a fetch.
    """
    workers = workers or os.cpu_count() or 1
    beside = store.with_name(f"{store.name}.chain")
    chain = pickle.loads(beside.read_bytes()) if beside.exists() else Chain()
    Store(store).claim(NETWORK, SERVICE)
    running: deque[Future[None]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while chain.written < millions * 1_000_000:
            whole = wide and chain.seqno % WIDE == 0
            first = chain.seqno
            rows = chain.go_on(WIDE if whole else _TOGETHER)
            chain.written += len(rows)
            seqnos = range(first, chain.seqno)
            running.append(pool.submit(_write_wide if whole else _write_spans, store, rows, seqnos))
            while len(running) > workers + 1:
                running.popleft().result()
        for task in running:
            task.result()
    beside.write_bytes(pickle.dumps(chain))
    return chain.written


def _parts(rows: Skeleton, seqnos: range, count: int) -> Iterator[tuple[Skeleton, range]]:
    """Cut masterchain blocks into parts of so many."""
    for start in seqnos[::count]:
        run = range(start, start + count)
        ends = np.searchsorted(rows.seqno, [run.start, run.stop])
        yield rows.part(*ends.tolist()), run


def _write_spans(store: Path, rows: Skeleton, seqnos: range) -> None:
    """Write the files of consecutive spans, as fetches do."""
    for part, run in _parts(rows, seqnos, SPAN):
        write_span(store, tables_of(part, run), run)


def write_span(store: Path, tables: dict[str, pa.Table], run: range) -> None:
    """Write the files of a span, as a commit does."""
    for name, table in tables.items():
        footer = _footer(name, run, len(table))
        with (store / name / range_name(run)).open("xb") as sink:
            sink.writelines(content(schema.TABLES[name], table, footer))


def _write_wide(store: Path, rows: Skeleton, seqnos: range) -> None:
    """Write the files of a wide span, as compaction does: one row group is in memory."""
    found = templates()
    counts = {
        "messages": int(found.messages_of[rows.row].sum()),
        "blocks": len(seqnos) * len(CHAINS),
        "transactions": len(rows),
    }
    for name, count in counts.items():
        parts = (rows_of(name, part, run) for part, run in _parts(rows, seqnos, SPAN * 5))
        footer = _footer(name, seqnos, count)
        file = store / name / range_name(seqnos)
        write_groups(file, schema.TABLES[name], _groups(parts), footer)


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
