"""How long the analysis takes, and how much memory: 1, 3 and 10 million transactions.

The rows are those of the sample, many times over, under new hashes. Each figure is of a process of
its own: seconds are of the call (lazy engines: with the collection of the result), memory is what
the process held at its peak above what it held with the frames loaded.

    python tests/benchmarks/bench_analysis.py [millions …]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tonframes as tf
from tonframes.analysis import price_of

ENGINES = ("pandas", "polars", "duckdb")
CALLS = {
    "fee_breakdown": lambda t, _: tf.fee_breakdown(t),
    "fee_summary by account": lambda t, m: tf.fee_summary(t, m, by="account"),
    "check_fees": lambda t, _: tf.check_fees(t),
    "check_balances": tf.check_balances,
    "gas_summary by code": lambda t, _: tf.gas_summary(t, by="account_state_code_hash_before"),
    "gas_outliers": lambda t, _: tf.gas_outliers(t),
    "price_of": lambda t, _: price_of(t),
    "failures": lambda t, _: tf.failures(t),
    "failure_summary": lambda t, _: tf.failure_summary(t),
    "trace_costs": tf.trace_costs,
    "storage_rates": lambda t, _: tf.storage_rates(t),
    "activity by hour": lambda t, m: tf.activity(t, m, wide=True),
    "flows": lambda _, m: tf.flows(m),
}
#: What the helpers read, so that ten million rows fit.
KEEP = {
    "transactions": (
        "has_",
        "_boc",
        "_extra_currencies",
        "vm_init",
        "vm_final",
        "frozen",
        "data_hash",
        "extra",
    ),
    "messages": (
        "has_",
        "_extra",
        "body",
        "decoded",
        "init_state",
        "comment",
        "hash_norm",
        "extra",
    ),
}


def many(name: str, times: int, path: Path) -> None:
    """Write a table of the sample many times over, each time under hashes of its own."""
    table = tf.read_blocks(tf.sample()).arrow(name)
    dropped = [c for c in table.column_names if any(word in c for word in KEEP[name])]
    table = table.drop_columns(dropped)
    own = ("hash", "prev_trans_hash", "trace_id", "tx_hash", "msg_hash", "account", "source")
    own = [column for column in (*own, "destination") if column in table.column_names]
    with pq.ParquetWriter(path, table.schema) as writer:
        for number in range(times):
            part = table
            for column in own:
                tail = pa.scalar(f"{number:06}")
                texts = pc.binary_join_element_wise(part[column], tail, "")
                place = part.column_names.index(column)
                part = part.set_column(place, table.schema.field(column), texts)
            writer.write_table(part.cast(table.schema))


def load(engine: str, path: Path) -> object:
    """Open a table: eager engines read it, DuckDB and lazy polars do so when they compute."""
    if engine == "pandas":
        return pq.read_table(path).to_pandas()
    if engine == "polars":
        import polars as pl

        return pl.read_parquet(path)
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"create table t as from '{path}'")
    return connection.table("t")


def held(field: str) -> int:
    """Read how many MiB this process holds (VmRSS) or held at most (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


def measure(engine: str, call: str, folder: Path) -> None:
    """Time one call in this process and print what it took."""
    if engine == "duckdb":
        import duckdb

        connection = duckdb.connect()
        for name in ("transactions", "messages"):
            connection.execute(f"create table {name} as from '{folder / name}.parquet'")
        frames = [connection.table(name) for name in ("transactions", "messages")]
    else:
        frames = [load(engine, folder / f"{n}.parquet") for n in ("transactions", "messages")]
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, start = held("VmRSS"), time.perf_counter()
    result = CALLS[call](*frames)
    if engine == "duckdb":
        result.to_arrow_table()
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, held("VmHWM") - before]))


def main(millions: list[int]) -> None:
    """Measure every helper on every engine and size."""
    print(f"{'':<24}" + "".join(f"{engine:>24}" for engine in ENGINES))
    print(f"{'million transactions':<24}" + f"{' / '.join(map(str, millions)):>24}" * len(ENGINES))
    with tempfile.TemporaryDirectory() as scratch:
        for size in millions:
            folder = Path(scratch, str(size))
            folder.mkdir()
            for name in ("transactions", "messages"):
                many(name, size * 1_000_000 // 3000, folder / f"{name}.parquet")
        for call in CALLS:
            cells = []
            for engine in ENGINES:
                found = []
                for size in millions:
                    command = [sys.executable, __file__, "one", engine, call, f"{scratch}/{size}"]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    found.append(json.loads(done.stdout) if done.returncode == 0 else None)
                times = " / ".join(f"{f[0]:.1f}" if f else "-" for f in found)
                memory = f" s {found[-1][1] / 1024:.1f}G" if found[-1] else ""
                cells.append(f"{times + memory:>24}")
            print(f"{call:<24}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        measure(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        main([int(size) for size in sys.argv[1:]] or [1, 3, 10])
