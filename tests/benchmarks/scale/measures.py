"""What is measured: the four questions, and each helper beside a query written by hand.

Each function computes one result in this process and returns how many rows it has. DuckDB reads it
in batches, and the streaming engine of polars writes it into a file, so that no result has to fit
into the memory.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.dataset as pads
from benchmarks.bench_engines import BY_HAND
from benchmarks.bench_engines import HELPERS as _HELPERS

import tonframes as tf
from tonframes.analysis import price_of, undo_gas_exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    import duckdb
    import polars as pl

TABLES = ("transactions", "messages")
ENGINES = ("duckdb", "polars")
#: The four columns that are read of everything.
FEW = ("account", "block_time", "total_fees", "compute_gas_used")
#: The helpers, by name: transactions and messages in, a frame out.
HELPERS = {
    "price_of": lambda t, _: price_of(t),
    "undo_gas_exchange": lambda t, _: undo_gas_exchange(t),
    **_HELPERS,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of a store the questions are about.

    Attributes
    ----------
    start, stop
        Masterchain seqnos: 100 of them.
    since, until
        Unix seconds: a day, or what there is.
    account
        One account.
    """

    start: int
    stop: int
    since: int
    until: int
    account: str


# ── on an engine ─────────────────────────────────────────────────────────────────────────────────

#: The limit that DuckDB keeps; it spills what is more.
DUCKDB_LIMIT = "1500MB"


@cache
def _spill() -> None:
    """Say where DuckDB spills to, which it takes only once."""
    import duckdb

    folder = tempfile.mkdtemp(prefix="duckdb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    duckdb.execute(f"SET temp_directory = '{folder}'")


def on_duckdb(compute: Callable[[], duckdb.DuckDBPyRelation]) -> int:
    """Compute a result with DuckDB's default connection, which spills above a limit."""
    import duckdb

    _spill()
    duckdb.execute(f"SET memory_limit = '{DUCKDB_LIMIT}'; SET preserve_insertion_order = false")
    try:
        return sum(len(batch) for batch in compute().to_arrow_reader())
    finally:
        duckdb.execute("RESET memory_limit; RESET preserve_insertion_order")


def on_polars(compute: Callable[[], pl.LazyFrame]) -> int:
    """Compute a result with the streaming engine of polars, which writes it into a file."""
    import polars as pl

    with tempfile.TemporaryDirectory() as scratch:
        result = f"{scratch}/result.parquet"
        compute().sink_parquet(result, compression="uncompressed")
        return pl.scan_parquet(result).select(pl.len()).collect().item()


def files(store: Path, table: str) -> str:
    """Return a pattern of the files of a table."""
    return str(store / table / "*.parquet")


def relation(store: Path, table: str) -> duckdb.DuckDBPyRelation:
    """Return the files of a table, as somebody reads them without us."""
    import duckdb

    return duckdb.read_parquet(files(store, table))


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────


def by_hand(engine: str) -> Collection[str]:
    """List the helpers of which there is a query written by hand."""
    return BY_HAND[engine]


def helper(engine: str, side: str, name: str, store: Path) -> int:
    """Compute what a helper returns: with the helper, or with the query written by hand."""
    if side == "ours":
        frames = tf.scan(store, engine=engine)

        def compute() -> Any:
            return HELPERS[name](frames.transactions, frames.messages)

        return on_duckdb(compute) if engine == "duckdb" else on_polars(compute)
    query = BY_HAND[engine][name]
    if engine == "polars":
        import polars as pl

        scans = [pl.scan_parquet(files(store, table)) for table in TABLES]
        return on_polars(lambda: query(*scans))
    import duckdb

    for table in TABLES:
        relation(store, table).create_view(table, replace=True)
    return on_duckdb(lambda: duckdb.sql(query))


# ── the four questions ───────────────────────────────────────────────────────────────────────────

#: Whether four columns are read or all of them, and which rows, by the question.
QUESTIONS = {
    "100 seqnos": (None, "mc_block_seqno >= {start} AND mc_block_seqno < {stop}"),
    "a day, four columns": (FEW, "now >= {since} AND now < {until}"),
    "all of an account": (None, "account = '{account}'"),
    "all, four columns": (FEW, "true"),
}


def question(engine: str, side: str, name: str, store: Path, part: Asked) -> int:
    """Answer a question about transactions: through `scan`, or of the files by hand."""
    columns, where = QUESTIONS[name]
    if engine == "read_blocks" and side == "ours":
        rows = tf.read_blocks(store, range(part.start, part.stop))
        return len(rows.arrow("transactions"))
    if engine == "read_blocks":
        seqno = pc.field("mc_block_seqno")
        chosen = (seqno >= part.start) & (seqno < part.stop)
        return len(pads.dataset(store / "transactions").to_table(filter=chosen))
    if engine == "duckdb":
        picked = ", ".join(columns or ["*"])
        if side == "ours":
            return on_duckdb(lambda: _scanned(engine, name, store, part).project(picked))
        condition = where.format(**asdict(part))
        return on_duckdb(lambda: relation(store, "transactions").filter(condition).project(picked))
    import polars as pl

    if side == "ours":
        rows = _scanned(engine, name, store, part)
    else:
        rows = pl.scan_parquet(files(store, "transactions"))
        rows = rows.filter(pl.sql_expr(where.format(**asdict(part))))
    return on_polars(lambda: rows.select(columns) if columns else rows)


def _scanned(engine: str, name: str, store: Path, part: Asked) -> Any:
    """Return the transactions that a question is about, through `scan`."""
    only: dict[str, Any] = {
        "100 seqnos": {"seqnos": range(part.start, part.stop)},
        "a day, four columns": {
            "since": datetime.fromtimestamp(part.since, UTC),
            "until": datetime.fromtimestamp(part.until, UTC),
        },
        "all of an account": {"accounts": [part.account]},
        "all, four columns": {},
    }[name]
    return tf.scan(store, "transactions", engine=engine, **only)
