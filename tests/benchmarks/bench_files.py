"""What a store with many small files costs, and what does not grow with their number.

Stores of 100 transactions a file are opened, shown, added to, verified and read. What is compared
takes turns, and each figure is the least of several rounds. The promises: a commit, a card and the
reading of a few seqnos take nearly the same time in a store of ten times as many files; a second
process reads no file again to verify it; reading is nearly as fast as DuckDB.

    python tests/benchmarks/bench_files.py [files] [rounds]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

import tonframes as tf
from tonframes.seqnos import SPAN
from tonframes.store import Store
from tonframes.store.files import RANGED, Footer, content, range_name
from tonframes.wire import schema
from tonframes.wire.tables import with_columns

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST, ROWS = 90_000_000, 100
FOUR = ("account", "lt", "total_fees", "mc_block_seqno")
VERIFY = """
import sys, time
from tonframes.store import Store
store = Store(sys.argv[1])
held = store.held()
start = time.perf_counter()
assert store.verify(held) == ()
print(time.perf_counter() - start)
"""


def make(path: Path, count: int) -> Store:
    """Make a store of the sample's rows, again and again; nothing waits for the disk."""
    blocks, store = tf.read_blocks(tf.sample()), Store(path)
    store.claim("-217", "synthetic")
    tables = {name: blocks.arrow(name).slice(0, ROWS) for name in RANGED}
    for part in range(FIRST, FIRST + SPAN * count, SPAN):
        for name, table in tables.items():
            seqnos = pa.array(part + np.arange(len(table)) * SPAN // len(table))
            footer = Footer(
                schema=schema.VERSION,
                tonframes="0",
                network="-217",
                service="synthetic",
                rows=len(table),
                start=part,
                stop=part + SPAN,
                proof="chain",
                tables=RANGED if name == RANGED[-1] else (),
            )
            rows = with_columns(table, mc_block_seqno=seqnos)
            file = path / name / range_name(range(part, part + SPAN))
            file.write_bytes(b"".join(content(schema.TABLES[name], rows, footer)))
    return store


def committer(store: Store, seqno: int) -> Callable[[], None]:
    """Return a function that commits a masterchain block, the next one each time."""
    blocks = tf.read_blocks(tf.sample(), FIRST)
    rows = {name: blocks.arrow(name) for name in RANGED}
    book = {"address_book": blocks.arrow("address_book").slice(0, 0)}
    places = iter(range(seqno, 2**31))
    store.prepare()

    def commit() -> None:
        place = next(places)
        tables = {n: with_columns(table, mc_block_seqno=place) for n, table in rows.items()}
        store.write_blocks(tables | book, [range(place, place + 1)], proof="chain")

    return commit


def least(rounds: int, *tasks: Callable[[], object]) -> list[float]:
    """Return the least time of each task, in milliseconds; they take turns."""
    times: list[list[float]] = [[] for _ in tasks]
    for _ in range(rounds):
        for taken, task in zip(times, tasks, strict=True):
            start = time.perf_counter()
            task()
            taken.append(1e3 * (time.perf_counter() - start))
    return [min(taken) for taken in times]


def show(label: str, *figures: float, unit: str = "ms") -> None:
    """Print figures, and the ratio of the last one to the first one."""
    said = " / ".join(f"{figure:,.1f}" for figure in figures)
    print(f"{label:44} {said} {unit}, ratio {figures[-1] / figures[0]:.2f}")


def footers(store: Store) -> None:
    """Print how large footers are."""
    for name in RANGED:
        content = next(iter(store.files(name).values())).read_bytes()
        size = int.from_bytes(content[-8:-4], "little")
        share = size / len(content)
        print(f"footer of {name:34} {size:,} bytes, {share:.0%} of a file of {ROWS} rows")


def main(count: int = 500, rounds: int = 3) -> None:
    """Print what stores of some files, and of a tenth as many, cost."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            make(Path(folder) / "small", count // 10),
            make(Path(folder) / "large", count),
        )
        stores = (small, large)
        footers(large)
        print(f"a store of {count // 10:,} / {count:,} files of each table:")

        def of_each(task: Callable[[Store], object]) -> list[Callable[[], object]]:
            return [lambda store=store: task(store) for store in stores]

        commits = [committer(store, FIRST + SPAN * count * 2) for store in stores]
        show("a commit", *least(5 * rounds, *commits))
        few = range(FIRST + 10, FIRST + 12)
        read = of_each(lambda s: tf.read_blocks(s.path, few, columns=FOUR).arrow("transactions"))
        show("two seqnos, four columns", *least(rounds, *read))
        show("read_blocks", *least(rounds, *of_each(lambda s: tf.read_blocks(s.path))))
        cards = of_each(lambda s: repr(tf.read_blocks(s.path)))
        show("read_blocks and its card", *least(rounds, *cards))

        time.sleep(2.5)  # what was written a moment ago may change again
        command = [sys.executable, "-c", VERIFY, str(large.path)]
        verified = [
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(2)
        ]
        show("verification: first / second process", *(1e3 * taken for taken in verified))

        print(f"reading {ROWS * count:,} rows of {count:,} files: DuckDB / tonframes")
        files = f"'{large.path}/transactions/*.parquet'"
        for label, columns in (("four columns", FOUR), ("all columns", None)):
            query = f"select {', '.join(columns or ['*'])} from read_parquet({files})"
            tasks = (
                lambda query=query: duckdb.sql(query).to_arrow_table(),
                lambda columns=columns: tf.read_blocks(large.path, columns=columns).arrow(
                    "transactions"
                ),
            )
            show(label, *least(rounds, *tasks))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
