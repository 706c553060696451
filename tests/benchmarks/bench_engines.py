"""What the helpers take on DuckDB and polars, on files, beside queries written by hand.

Each figure is of a process of its own, with two threads and, on DuckDB, a limit of memory. Time is
that of the processor, in both sides of a ratio, since other work on the machine changes it least;
memory is what the process held at its peak above what it held before.

    python tests/benchmarks/bench_engines.py [millions of transactions [helper …]]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import tonframes as tf

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import hand_written_polars
from benchmarks.hand_written import CODE, QUERIES

TABLES = ("transactions", "messages")
THREADS, LIMIT = 2, "2GB"

#: What is measured, by a name: transactions and messages in, a frame out. The longest are last.
HELPERS = {
    "fee_breakdown": lambda t, _: tf.fee_breakdown(t),
    "fee_summary": lambda t, m: tf.fee_summary(t, m, by="account"),
    "check_fees": lambda t, _: tf.check_fees(t),
    "gas_summary": lambda t, _: tf.gas_summary(t, by=CODE),
    "gas_outliers": lambda t, _: tf.gas_outliers(t, by=[CODE, "compute_gas_credit"], factor=1.5),
    "failures": lambda t, _: tf.failures(t),
    "failure_summary": lambda t, _: tf.failure_summary(t),
    "storage_rates": lambda t, _: tf.storage_rates(t),
    "activity": tf.activity,
    "flows": lambda _, m: tf.flows(m),
    "with_operation": tf.with_operation,
    "trace_costs": tf.trace_costs,
    "check_balances": tf.check_balances,
}

# The columns of the sample that each copy changes, so that copies are of other transactions.
_HASHES = {
    *("hash", "prev_trans_hash", "trace_id", "trace_external_hash"),
    *("tx_hash", "msg_hash", "msg_hash_norm", "in_msg_tx_hash", "out_msg_tx_hash"),
}
_ADDRESSES = {"account", "source", "destination"}
_CHANGED = {
    **dict.fromkeys(_HASHES, "base64(unhex(sha256({name} || copy)))"),
    **dict.fromkeys(
        _ADDRESSES, "split_part({name}, ':', 1) || ':' || upper(sha256({name} || copy))"
    ),
    **dict.fromkeys(("lt", "prev_trans_lt", "tx_lt", "created_lt"), "{name} + copy * 1000000000"),
    **dict.fromkeys(("now", "tx_now", "created_at"), "{name} + copy * 250"),
    "mc_block_seqno": "{name} + copy * 120",
    # Each call has its own gas, as on the chain; and no amount is above what the chain holds.
    "compute_gas_used": "{name} + (hash(hash || copy) % 64)::BIGINT",
    "value": "{name} % 1000000000000",
}
# No helper of these reads them, and they are most of the bytes.
_LARGE = ("_boc", "body", "decoded_type", "comment", "init_state", "extra", "vm_init", "vm_final")


def write(count: int, folder: Path) -> None:
    """Write tables of `count` different transactions, with the distribution of the sample."""
    blocks = tf.read_blocks(tf.sample())
    for table in TABLES:
        rows = blocks.arrow(table)
        names = [name for name in rows.column_names if not any(w in name for w in _LARGE)]
        columns = ", ".join(f"{_CHANGED.get(n, '{name}').format(name=n)} AS {n}" for n in names)
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {THREADS}; SET memory_limit = '{LIMIT}'")
            connection.register("sample_rows", rows)
            connection.execute(
                f"COPY (SELECT {columns} FROM range({count // 3000}) AS copies(copy), sample_rows) "
                f"TO '{folder}/{table}.parquet' (COMPRESSION zstd)"
            )


def held(field: str) -> int:
    """Return how many MiB this process holds (VmRSS), or held at most (VmHWM)."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


def on_duckdb(side: str, helper: str, folder: Path, scratch: str) -> None:
    """Compute a result and read it in batches."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {THREADS}; SET memory_limit = '{LIMIT}'")
        connection.execute(
            f"SET preserve_insertion_order = false; SET temp_directory = '{scratch}'"
        )
        for table in TABLES:
            path = folder / f"{table}.parquet"
            connection.execute(f"CREATE VIEW {table} AS FROM '{path}'")
        if side == "helper":
            result = HELPERS[helper](*map(connection.table, TABLES))
        else:
            result = connection.sql(QUERIES[helper])
        for _ in result.to_arrow_reader():
            pass


def on_polars(side: str, helper: str, folder: Path, scratch: str) -> None:
    """Compute a result with the streaming engine, into a file."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    frames = (pl.scan_parquet(folder / f"{table}.parquet") for table in TABLES)
    queries = HELPERS if side == "helper" else hand_written_polars.QUERIES
    result = queries[helper](*frames)
    result.sink_parquet(f"{scratch}/result.parquet", compression="uncompressed")


ENGINES = {"duckdb": on_duckdb, "polars": on_polars}
#: The queries written by hand, by engine.
BY_HAND = {"duckdb": QUERIES, "polars": hand_written_polars.QUERIES}


def measure(engine: str, side: str, helper: str, folder: Path) -> None:
    """Compute one result in this process, and print what it took."""
    with tempfile.TemporaryDirectory() as scratch:
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak so far is forgotten
        before, start, used = held("VmRSS"), time.perf_counter(), time.process_time()
        ENGINES[engine](side, helper, folder, scratch)
        taken = (time.process_time() - used, time.perf_counter() - start, held("VmHWM") - before)
    print(json.dumps(taken))


def in_a_process(engine: str, side: str, helper: str, folder: Path) -> list[float] | None:
    command = [sys.executable, __file__, "one", engine, side, helper, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main(millions: float, helpers: list[str]) -> None:
    """Measure helpers on each engine, three times, both sides in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get("BENCH_FILES", scratch))
        if not (folder / "messages.parquet").exists():
            folder.mkdir(parents=True, exist_ok=True)
            write(int(millions * 1_000_000), folder)
        print(f"{'CPU s':>42}{'s':>9}{'MiB':>9}")
        for helper in helpers or HELPERS:
            for engine, by_hand in BY_HAND.items():
                sides = ["helper", *["by hand"] * (helper in by_hand)]
                runs: dict[str, list[list[float]]] = {side: [] for side in sides}
                for _ in range(3):
                    for side, found in runs.items():
                        if taken := in_a_process(engine, side, helper, folder):
                            found.append(taken)
                for side, found in runs.items():
                    print(f"{helper:<17}{engine:<8}{side:<8}{shown(found)}", flush=True)


def shown(runs: list[list[float]]) -> str:
    """Return the medians of runs: seconds of the processor, seconds, MiB."""
    if not runs:
        return " failed"
    used, taken, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    return f"{used:9.2f}{taken:9.2f}{memory:9.0f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        measure(*sys.argv[2:5], Path(sys.argv[5]))
    else:
        main(float((sys.argv[1:] or ["3"])[0]), sys.argv[2:])
