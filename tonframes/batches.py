"""Lazy frames that Python reads in batches, and results that are joined back to them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import pyarrow as pa

from tonframes.wire.dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

    Frame: TypeAlias = nw.LazyFrame[Any]
    Work: TypeAlias = Callable[[pa.Table], pa.Table]

#: Rows of a batch on DuckDB; the other engines have batches and partitions of their own.
BATCH = 50_000


def in_batches(frame: Frame, work: Work, schema: pa.Schema) -> Frame:
    """Return what work makes of the rows of a lazy frame, as a lazy frame of the same engine.

    The work makes a table with the columns of the schema of some rows at a time, and sees all of
    them once. Workers of Dask and PySpark must be able to import it. DuckDB does not run Python in
    a query: there the work is done at once, and what it made is held in memory.
    """
    native: Any = frame.to_native()
    match frame.implementation:
        case nw.Implementation.POLARS:
            made = _on_polars(native, work, schema)
        case nw.Implementation.DUCKDB:
            made = _on_duckdb(native, work, schema)
        case nw.Implementation.DASK:
            meta = schema.empty_table().to_pandas(types_mapper=dtype_of)
            made = native.map_partitions(_partition, work, meta=meta)
        case _:
            made = _on_spark(native, work, schema)
    result: Frame = nw.from_native(made)
    return result


def left_join(frame: Frame, other: Frame, *, left_on: str, right_on: str) -> Frame:
    """Add the columns of another frame, in which each key is once."""
    if frame.implementation.is_polars():
        native: Any = frame.to_native()
        keys = {"left_on": left_on, "right_on": right_on}
        joined = native.join(other.to_native(), how="left", maintain_order="left", **keys)
        result: Frame = nw.from_native(joined)
        return result
    return frame.join(other, left_on=left_on, right_on=right_on, how="left")


def _on_polars(native: Any, work: Work, schema: pa.Schema) -> Any:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    def mapped(rows: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame(work(rows.to_arrow()))

    # polars must not move filters and selections of the result before the work.
    return native.map_batches(
        mapped,
        schema=pl.DataFrame(schema.empty_table()).schema,
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
        streamable=True,
    )


def _on_duckdb(native: Any, work: Work, schema: pa.Schema) -> Any:
    # DuckDB 1.3 has this method by its older name only.
    read = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader
    made = [work(pa.Table.from_batches([batch])) for batch in read(BATCH)]
    # DuckDB finds the table by the name of this variable, and holds it.
    made_rows = pa.concat_tables([schema.empty_table(), *made])  # noqa: F841
    return native.query("given", "SELECT * FROM made_rows")


def _partition(rows: pd.DataFrame, work: Work) -> pd.DataFrame:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    frame: pd.DataFrame = work(table).to_pandas(types_mapper=dtype_of)
    return frame


def _on_spark(native: Any, work: Work, schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import (  # noqa: PLC0415 - installed if the frame is one of it
        from_arrow_schema,
    )

    # Spark has no unsigned integers.
    signed = pa.schema(
        (field.name, pa.decimal128(20, 0) if field.type == pa.uint64() else field.type)
        for field in schema
    )
    each = partial(_each, work=work, schema=signed)
    return native.mapInArrow(each, from_arrow_schema(signed))


def _each(
    batches: Iterator[pa.RecordBatch], work: Work, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from work(pa.Table.from_batches([batch])).cast(schema).to_batches()
