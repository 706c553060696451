"""How deep trees of transactions are, on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.analysis import engines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.analysis.engines import Frame


def depths(links: Frame) -> Frame:
    """Count the transactions of the longest chain of each trace.

    No fixed number of joins is enough for every trace, and each join doubles the plan of a lazy
    engine. So DuckDB runs a recursive query, and all other engines pass the rows to Python.

    Parameters
    ----------
    links
        One row per transaction whose sender is known: trace_id, tx_hash, parent.

    Returns
    -------
    One row per trace that has links: trace_id and depth.
    """
    native: Any = links.to_native()
    match links.implementation:
        case nw.Implementation.DUCKDB:
            return engines.lazy(native.query("edges", _RECURSION))
        case nw.Implementation.DASK:
            return engines.by_partition(native.shuffle(on="trace_id"), _on_pandas)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            columns = "trace_id string, depth bigint"
            return engines.lazy(native.repartition("trace_id").mapInArrow(_on_spark, columns))
    return _on_polars(native)


_RECURSION = """
WITH RECURSIVE
links AS MATERIALIZED (FROM edges),
levels AS (
    SELECT links.trace_id, links.tx_hash, 2 AS depth
    FROM links ANTI JOIN links AS others ON links.parent = others.tx_hash
    UNION ALL
    SELECT links.trace_id, links.tx_hash, depth + 1
    FROM levels JOIN links ON links.parent = levels.tx_hash
)
SELECT trace_id, max(depth)::BIGINT AS depth FROM levels GROUP BY trace_id
"""


def _on_polars(links: Any) -> Frame:
    import polars as pl  # noqa: PLC0415 - installed if the frame is one of it

    def work(frame: Any) -> Any:
        return pl.from_pandas(_on_pandas(frame.to_pandas()), schema_overrides=shape)

    shape = {"trace_id": pl.String, "depth": pl.Int64}
    return engines.on_polars(links, work, shape)


def _on_spark(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = list(parts)
    if batches:
        depths = _on_pandas(pa.Table.from_batches(batches).to_pandas())
        yield from pa.Table.from_pandas(depths, preserve_index=False).to_batches()


def _on_pandas(links: pd.DataFrame) -> pd.DataFrame:
    hashes = pd.Index(links["tx_hash"])
    links, hashes = links[~hashes.duplicated()], hashes.unique()
    # For each row: the row of an ancestor, or -1 if there is none, and the number of links to it.
    # Each pass replaces the ancestor by its own ancestor, so the distance doubles: 1, 2, 4, 8, …
    ahead, jumped = hashes.get_indexer(pd.Index(links["parent"])), np.ones(len(links), "int64")
    going = np.flatnonzero(ahead >= 0)
    while len(going):
        at = ahead[going]
        jumped[going] += jumped[at]
        ahead[going] = ahead[at]
        going = going[ahead[going] >= 0]
    depth = pd.Series(jumped + 1, index=links.index, dtype="Int64")
    longest = depth.groupby(links["trace_id"]).max()
    return longest.rename("depth").reset_index()
