"""The same table as a frame of every engine, and what an engine gave back as one Arrow table."""

from __future__ import annotations

import base64
import decimal
import math
import os
import sys
from functools import cache

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chain import synthetic_blocks
from slow import slow

from tonframes import parse_blocks
from tonframes.analysis import engines

#: What `make test` runs; Spark has its own target.
ENGINES = (
    "pandas",
    "pandas-pyarrow",
    "polars",
    "polars-lazy",
    "pyarrow",
    "duckdb",
    "dask",
)
#: For tests of one step: Dask takes longest, so that it is left to the slow run.
MOST_ENGINES = [*ENGINES[:-1], *slow("dask")]
#: For tests of one helper: one engine that polars computes, and one that is not polars.
TWO_ENGINES = [
    "pyarrow",
    "duckdb",
    *slow("pandas", "pandas-pyarrow", "polars", "polars-lazy", "dask"),
]
#: The engines of `scan`, and their names here.
PARITY = {
    "pyarrow": "pyarrow",
    "polars": "polars-lazy",
    "duckdb": "duckdb",
    "dask": "dask",
    "spark": "spark",
}
EVERY = [
    "pyarrow",
    "polars",
    "duckdb",
    *slow("dask"),
    pytest.param("spark", marks=pytest.mark.spark),
]
LAZY = ("polars-lazy", "duckdb", "dask", "spark")


@cache
def synthetic(count, **options):
    """Make transactions and messages of a made-up chain, as Arrow tables."""
    bodies = [parse_blocks(body) for body in synthetic_blocks(count, **options)]
    return tuple(
        pa.concat_tables(body.arrow(name) for body in bodies).combine_chunks()
        for name in ("transactions", "messages")
    )


def lake(table):
    """Return a table as in the public lake: without our own columns, and with signed opcodes."""
    drop = [name for name in table.column_names if name.startswith("has_") or name == "block_time"]
    table = table.drop_columns(drop)
    if "opcode" in table.column_names:
        opcode = table["opcode"].to_numpy(zero_copy_only=False)
        mask = table["opcode"].is_null().to_numpy()
        signed = np.where(mask, 0, opcode).astype("int64").astype("uint32").astype("int32")
        table = table.set_column(
            table.column_names.index("opcode"), "opcode", pa.array(signed, mask=mask)
        )
        bodies = [None if b is None else base64.b64decode(b) for b in table["body"].to_pylist()]
        table = table.drop_columns("body").append_column("body_boc", pa.array(bodies, pa.binary()))
    narrow = ["now", "compute_exit_code", "block_workchain", "action_result_code"]
    fields = [pa.field(f.name, pa.int32() if f.name in narrow else f.type) for f in table.schema]
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


def spark_session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers import tonframes as well
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than the rows
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "America/New_York")  # ours must not depend on it
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def frame_of(engine, table, folder):
    """Make a frame of an engine of an Arrow table; `folder` takes a Parquet file if need be."""
    path = str(folder / f"{abs(hash(tuple(table.column_names)))}-{id(table)}.parquet")
    match engine:
        case "pandas":
            return table.to_pandas()
        case "pandas-pyarrow":
            return table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
        case "pyarrow":
            return table
        case "polars":
            import polars as pl

            return pl.from_arrow(table)
    pq.write_table(table, path)
    match engine:
        case "polars-lazy":
            import polars as pl

            return pl.scan_parquet(path)
        case "duckdb":
            import duckdb

            return duckdb.read_parquet(path)
        case "dask":
            import dask.dataframe as dd

            # Without pandas' own metadata a partition with gaps would be read as floats.
            nullable = {} if table.schema.pandas_metadata else {"dtype_backend": "numpy_nullable"}
            return dd.read_parquet(path, **nullable).repartition(npartitions=3)
        case "spark":
            return spark_session().read.parquet(path)
    raise ValueError(engine)


def collected(engine, result):
    """Check the kind of a result, and return its rows as an Arrow table."""
    match engine:
        case "pandas" | "pandas-pyarrow":
            assert isinstance(result, pd.DataFrame)
            table = pa.Table.from_pandas(result, preserve_index=False)
        case "pyarrow":
            table = result
        case "polars" | "polars-lazy":
            import polars as pl

            assert isinstance(result, pl.DataFrame if engine == "polars" else pl.LazyFrame)
            table = result.lazy().collect().to_arrow()
        case "duckdb":
            import duckdb

            assert isinstance(result, duckdb.DuckDBPyRelation)
            table = result.to_arrow_table()
        case "dask":
            import dask.dataframe as dd

            assert isinstance(result, dd.DataFrame)
            table = pa.Table.from_pandas(result.compute(), preserve_index=False)
        case "spark":
            table = result.toArrow()
    assert isinstance(table, pa.Table)
    return _plain(table)


def _plain(table):
    """Forget what engines may choose: kinds of strings, time zones' names, metadata."""
    fields = []
    for field in table.schema:
        kind = field.type
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            kind = pa.string()
        elif pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", "UTC")
        fields.append(pa.field(field.name, kind))
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


def rows_of(table):
    """Return the rows in a fixed order; floats need not be equal to the last digit."""
    rows = [tuple(map(_comparable, row.values())) for row in table.to_pylist()]
    return sorted(rows, key=repr)


class _Float(float):
    """A float that is equal to its neighbours, since engines divide differently."""

    def __eq__(self, other):
        return isinstance(other, float) and math.isclose(self, other, rel_tol=1e-12)

    __hash__ = None

    def __repr__(self):
        return f"{float(self):.6g}"  # rows are in the order of their texts


def _comparable(value):
    if isinstance(value, float) and not math.isnan(value):
        return _Float(value)
    return int(value) if isinstance(value, decimal.Decimal) else value


def stepped(step, frame):
    """Run a step as helpers do: frames in memory go into polars and come out as they were."""
    result = step(engines.lazy(frame))
    lazy = isinstance(nw.from_native(frame), nw.LazyFrame)
    return result.to_native() if lazy else engines.computed(result, frame)


def assert_same(expected, found):
    """Compare two collected tables: columns, types, rows in any order."""
    assert found.schema == expected.schema
    if not _in_order(found).equals(_in_order(expected)):  # which is faster
        assert rows_of(found) == rows_of(expected)


def _in_order(table):
    """Return the rows in the order of the columns whose values have one."""
    nested = pa.types.is_nested
    keys = [field.name for field in table.schema if not nested(field.type)]
    return table.sort_by([(key, "ascending") for key in keys]) if keys else table
