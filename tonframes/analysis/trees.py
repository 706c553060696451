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
    """Count the links of each trace, and the transactions of its longest chain.

    No fixed number of joins is enough for every trace, and each join doubles the plan of a lazy
    engine. So DuckDB runs a recursive query, and all other engines pass the rows to Python: polars
    all of them, Spark and Dask those of one partition at a time.

    Parameters
    ----------
    links
        One row per transaction whose sender is known: trace_id, tx_hash, parent.

    Returns
    -------
    One row per trace that has links: trace_id, depth and linked, the number of links.
    """
    native: Any = links.to_native()
    match links.implementation:
        case nw.Implementation.DUCKDB:
            return engines.lazy(native.query("edges", _RECURSION))
        case nw.Implementation.DASK:
            return engines.by_partition(native.shuffle(on="trace_id"), _on_pandas)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            columns = "trace_id string, depth bigint, linked bigint"
            return engines.lazy(native.repartition("trace_id").mapInArrow(_on_spark, columns))
    return _on_polars(native)


_COUNTS = [("depth", pa.int64()), ("linked", pa.int64())]

# A recursion holds its rows in memory, so these are numbers, and not hashes. A link has a level for
# each way that leads to it: more than one if a transaction is in the frame more than once.
_RECURSION = """
WITH RECURSIVE
numbered AS MATERIALIZED (SELECT *, row_number() OVER () AS link FROM edges),
pairs AS MATERIALIZED (
    SELECT numbered.link, before.link AS previous
    FROM numbered LEFT JOIN numbered AS before ON numbered.parent = before.tx_hash
),
levels AS (
    SELECT link, 2 AS depth FROM pairs WHERE previous IS NULL
    UNION ALL
    SELECT pairs.link, depth + 1 FROM levels JOIN pairs ON pairs.previous = levels.link
),
deepest AS (SELECT link, max(depth) AS depth FROM levels GROUP BY link)
SELECT trace_id, max(depth)::BIGINT AS depth, count(*) AS linked
FROM numbered LEFT JOIN deepest USING (link) GROUP BY trace_id
"""


def _on_polars(links: Any) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    def work(frame: Any) -> Any:
        once = frame.select("tx_hash").unique("tx_hash", keep="first", maintain_order=True)
        places = once.with_row_index("place")
        first = frame.unique("tx_hash", keep="first", maintain_order=True)
        ahead = first.select("parent").join(
            places, left_on="parent", right_on="tx_hash", how="left", maintain_order="left"
        )
        depth = _lengths(ahead["place"].cast(pl.Int64).fill_null(-1).to_numpy(writable=True))
        deepest = first.select("trace_id", depth=pl.Series(depth)).group_by("trace_id").max()
        linked = frame.group_by("trace_id").agg(linked=pl.len().cast(pl.Int64))
        return deepest.join(linked, on="trace_id")

    shape = {"trace_id": pl.String, "depth": pl.Int64, "linked": pl.Int64}
    return engines.on_polars(links, work, shape)


def _on_spark(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = list(parts)
    if batches:
        depths = _on_pandas(pa.Table.from_batches(batches).to_pandas())
        yield from pa.Table.from_pandas(depths, preserve_index=False).to_batches()


def _on_pandas(links: pd.DataFrame) -> pd.DataFrame:
    hashes = pd.Index(links["tx_hash"])
    first, hashes = links[~hashes.duplicated()], hashes.unique()
    ahead = hashes.get_indexer(pd.Index(first["parent"]))
    depth = pd.Series(_lengths(ahead), index=first.index, dtype="Int64")
    deepest = depth.groupby(first["trace_id"]).max().rename("depth")
    linked = links.groupby("trace_id").size().rename("linked").astype("Int64")
    return pd.concat([deepest, linked], axis="columns").reset_index()


def _lengths(ahead: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Count the transactions of the chain that ends with each link.

    Parameters
    ----------
    ahead
        For each link: the place of the link of its sender, or -1 if there is none. It is changed.
    """
    # `ahead` becomes the place of an ancestor, and `jumped` the number of links to it. Each pass
    # replaces the ancestor by its own ancestor, so the distance doubles: 1, 2, 4, 8, …
    jumped = np.ones(len(ahead), "int64")
    going = np.flatnonzero(ahead >= 0)
    while len(going):
        at = ahead[going]
        jumped[going] += jumped[at]
        ahead[going] = ahead[at]
        going = going[ahead[going] >= 0]
    return jumped + 1
