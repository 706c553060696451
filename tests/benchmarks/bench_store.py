"""How large and how fast a store is, by the width of its files: 100, 1,000 or 10,000 seqnos.

The rows are those of the sample, many times over, under new hashes and accounts: a few accounts
have most of the transactions. Each figure is the least of several rounds, in which the widths take
turns; the ratio is to files of 100 seqnos. The memory of a compaction is what its process held at
its peak above what it held before.

    python tests/benchmarks/bench_store.py [transactions per seqno] [rounds]
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import tonframes as tf
from tonframes.store import Store, compaction

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST, SEQNOS, SECONDS = 90_000_000, 10_000, 0.4
START = datetime(2026, 5, 28, 20, 26, tzinfo=UTC)
RUN = range(FIRST, FIRST + SEQNOS)
#: A range of seqnos, and as much of the time as a day is of a month.
RANGE = range(FIRST + 4_321, FIRST + 4_371)
TIMES = [START + timedelta(seconds=SEQNOS * SECONDS * part) for part in (0.5, 0.533)]
FEW = ("account", "total_fees", "compute_gas_used", "mc_block_seqno")
HASHES = ("hash", "prev_trans_hash", "trace_id", "account_state_hash_before", "tx_hash", "msg_hash")


def accounts(rng: np.random.Generator, count: int) -> pa.Array:
    """Draw accounts of which a few are drawn often."""
    weights = (1 / np.arange(1, 200_001)).cumsum()
    drawn = np.searchsorted(weights / weights[-1], rng.random(count))
    return pa.array([f"0:{int(number):064X}" for number in (drawn + 1) * 2**40])


def renewed(table: pa.Table, number: int, rng: np.random.Generator, run: range) -> pa.Table:
    """Return the rows of a table under other hashes, accounts, seqnos and times."""
    count = len(table)
    seqnos = run.start + np.arange(count) * len(run) // count
    moments = START.timestamp() + (seqnos - FIRST) * SECONDS
    columns = {
        "mc_block_seqno": pa.array(seqnos),
        "now": pa.array(moments.astype(np.int64)),
        "lt": pa.array(10**13 + number * 10**9 + np.arange(count)),
        "block_time": pa.array((moments * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC")),
        "account": accounts(rng, count),
    }
    for name in HASHES:
        texts = [base64.b64encode(rng.bytes(32)).decode() for _ in range(count)]
        columns[name] = pa.array(texts)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        if place >= 0:
            valid = pc.if_else(table[name].is_valid(), values, None)
            table = table.set_column(place, table.schema.field(place), valid)
    return table


def build(path: Path, each: int) -> Store:
    """Write a store with so many transactions in each masterchain block."""
    sample, rng = tf.read_blocks(tf.sample()), np.random.default_rng(7)
    store = Store(path)
    store.claim("-217", "a benchmark")
    wide = {name: sample.arrow(name) for name in ("transactions", "messages", "address_book")}
    times = 100 * each // len(wide["transactions"]) + 1
    for number, start in enumerate(RUN[::100]):
        run = range(start, start + 100)
        tables = {"address_book": wide["address_book"]}
        for name, rows in ((name, wide[name]) for name in ("transactions", "messages")):
            many = pa.concat_tables([rows] * times).slice(
                0, 100 * each * len(rows) // len(wide["transactions"])
            )
            tables[name] = renewed(many.combine_chunks(), number, rng, run)
        store.write_blocks(tables, [run], proof="chain")
    return store


def compact(path: Path, width: int, *, by_account: bool = False) -> None:
    """Compact a store up to a width in this process, and print seconds and memory."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, start = held("VmRSS"), time.perf_counter()
    widths = tuple(each for each in compaction.WIDTHS if each <= width)
    with mock.patch.object(compaction, "WIDTHS", widths):
        tf.compact_store(path, grace="0s", by_account=by_account)
    print(json.dumps([time.perf_counter() - start, held("VmHWM") - before]))


def compacted(path: Path, width: int, rows: int, what: str) -> None:
    """Compact a store in another process, and print what it took."""
    arguments = [sys.executable, __file__, what, str(path), str(width)]
    printed = subprocess.run(arguments, check=True, capture_output=True).stdout
    seconds, memory = json.loads(printed)
    print(f"{what} {width:>6,}: {rows / seconds:,.0f} transactions/s, {memory} MiB")


def held(field: str) -> int:
    """Read how many MiB this process holds (VmRSS) or held at most (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


def questions(account: str) -> dict[str, Callable[[Path], object]]:
    """Return the four questions, on several engines each."""
    first, last = TIMES
    sql = "select {} from read_parquet('{}/transactions/*.parquet') where {}"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")

    def duck(columns: str, where: str) -> Callable[[Path], object]:
        return lambda path: connection.sql(sql.format(columns, path, where)).to_arrow_table()

    def polars(columns: pl.Expr | list[str], where: pl.Expr | bool) -> Callable[[Path], object]:  # noqa: FBT001
        return lambda path: (
            pl.scan_parquet(path / "transactions" / "*.parquet")
            .filter(where)
            .select(columns)
            .collect()
        )

    seqno, moment = pl.col("mc_block_seqno"), pl.col("block_time")
    few = ", ".join(FEW)
    return {
        "50 seqnos, read_blocks": lambda path: tf.read_blocks(path, RANGE).arrow("transactions"),
        "50 seqnos, DuckDB": duck(
            "*", f"mc_block_seqno between {RANGE.start} and {RANGE.stop - 1}"
        ),
        "50 seqnos, polars": polars(pl.all(), seqno.is_between(RANGE.start, RANGE.stop - 1)),
        "a day of a month, DuckDB": duck(few, f"block_time >= '{first}' and block_time < '{last}'"),
        "a day of a month, polars": polars(list(FEW), moment.is_between(first, last)),
        "an account, DuckDB": duck("*", f"account = '{account}'"),
        "an account, polars": polars(pl.all(), pl.col("account") == account),
        "the same, by account": lambda path: connection.sql(
            f"select * from read_parquet({copies_of(path)}) where account = '{account}'"
        ).to_arrow_table(),
        "4 columns, read_blocks": lambda path: tf.read_blocks(path, columns=FEW).arrow(
            "transactions"
        ),
        "4 columns, DuckDB": duck(few, "true"),
        "4 columns, polars": polars(list(FEW), True),
    }


def copies_of(path: Path) -> list[str]:
    """List the files of transactions of a store, sorted by account where there is a copy."""
    return [str(file.path) for _, file in Store(path).account_files([RUN])]


def size(path: Path, rows: int) -> str:
    """Return the number of files of transactions, and their bytes per row."""
    files = list((path / "transactions").iterdir())
    return (
        f"{len(files)} files, {sum(file.stat().st_size for file in files) / rows:.0f} bytes a row"
    )


def main(each: int, rounds: int) -> None:
    """Build the stores, compact them, ask the questions and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        stores = {100: Path(folder, "100")}
        start = time.perf_counter()
        rows = build(stores[100], each).count("transactions", [RUN])
        print(f"{rows:,} transactions written in {time.perf_counter() - start:.0f} s")
        for width in compaction.WIDTHS[1:]:
            stores[width] = Path(shutil.copytree(stores[100], Path(folder, str(width))))
            compacted(stores[width], width, rows, "compact")
        compacted(stores[SEQNOS], SEQNOS, rows, "by-account")
        for width, path in stores.items():
            print(f"{width:>6,}: {size(path, rows)}")
        seldom = f"0:{120_000 * 2**40:064X}"
        for question, ask in questions(seldom).items():
            taken: dict[int, list[float]] = {width: [] for width in stores}
            for _ in range(rounds):
                for width, path in stores.items():
                    start = time.perf_counter()
                    ask(path)
                    taken[width].append(time.perf_counter() - start)
            least = {width: min(times) for width, times in taken.items()}
            print(
                f"{question:>26}:",
                *(f"{s * 1000:8.1f} ms ({s / least[100]:.2f})" for s in least.values()),
            )


if __name__ == "__main__":
    if sys.argv[1:2] in (["compact"], ["by-account"]):
        compact(Path(sys.argv[2]), int(sys.argv[3]), by_account=sys.argv[1] == "by-account")
    else:
        main(int((sys.argv[1:] or [20])[0]), int((sys.argv[2:] or [5])[0]))
