"""Parquet files as the lazy frame of an engine.

pyarrow, and the engines that read through it, verify the checksum of each page that they read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from operator import and_
from typing import TYPE_CHECKING, Any, Literal, get_args

import narwhals as nw
import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from tonframes.errors import did_you_mean, shorten
from tonframes.scanning.asked import Filter, expression
from tonframes.scanning.form import SQL, LakeForm, LakeRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

Engine = Literal["pyarrow", "duckdb", "polars", "dask", "spark"]

#: The module of each engine, its name, and what installs it.
_MODULES = {
    "duckdb": ("duckdb", "DuckDB", "engines"),
    "polars": ("polars", "polars", "engines"),
    "dask": ("dask.dataframe", "Dask", "engines"),
    "spark": ("pyspark.sql", "PySpark", "spark"),
}
#: Columns that every table has, and that are read quickly. The checksum of a page does not cover
#: its header. If the header has a wrong kind of page, pyarrow skips the page, and notices that rows
#: are missing only if it reads another column too.
_READ_TOO = ("mc_block_seqno", "block_time")
#: Bytes of files that make a partition in Dask.
_PARTITION = 1 << 24


@dataclass(frozen=True)
class Files:
    """Parquet files with the rows of one table, and which of the rows are asked for."""

    paths: tuple[str, ...]  # in order; local ones are absolute
    sizes: tuple[int, ...]  # in bytes
    schema: pa.Schema  # of the frame
    chosen: Filter
    filesystem: fs.FileSystem | None = None  # None is here
    lake: LakeForm | None = None  # None if the files have the columns of the frame
    more: pa.Table | None = None  # further rows
    groups: tuple[int, ...] | None = None  # of a single file; None is all


def check_engine(engine: str) -> None:
    """Raise an error unless there is such an engine, and it is installed."""
    known = get_args(Engine)
    if engine not in known:
        near = did_you_mean(str(engine), known) or f": there are {', '.join(known)}"
        raise ValueError(f"scan knows no engine {shorten(engine)}{near}")
    if engine in _MODULES:
        _module(engine)


def _module(engine: str) -> Any:
    module, name, extra = _MODULES[engine]
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"scan with engine={engine!r} needs {name}: pip install 'tonframes[{extra}]'"
        ) from error


def frame_of(engine: Engine, files: Files) -> Any:
    """Return files as the lazy frame of an engine."""
    if not files.paths:
        rows = files.schema.empty_table() if files.more is None else files.more
        return frame_of_table(engine, rows)
    if files.more is not None:
        return _with_more(engine, files, files.more)
    match engine:
        case "pyarrow":
            return _in_pyarrow(files)
        case "duckdb":
            return _in_duckdb(files)
        case "polars":
            return _in_polars(files)
        case "dask":
            return _in_dask(files)
        case "spark":
            return _in_spark(files)


def _with_more(engine: Engine, files: Files, more: pa.Table) -> Any:
    """Return files and further rows as one frame."""
    if engine == "pyarrow":  # a data set of data sets does not see their filters
        rows = pads.dataset([_dataset(files, rows=[]), pads.dataset(more)]).filter(_read_too())
        chosen = expression(files.chosen, pads.field)
        return rows if chosen is None else rows.filter(chosen)
    parts = [frame_of(engine, replace(files, more=None)), frame_of_table(engine, more)]
    if engine in ("polars", "dask"):
        return _module(engine).concat(parts)
    return parts[0].union(parts[1])


def frame_of_table(engine: Engine, table: pa.Table) -> Any:
    """Return a table in memory as the lazy frame of an engine."""
    match engine:
        case "pyarrow":
            return pads.dataset(table)
        case "duckdb":
            return _module(engine).from_arrow(table)
        case "polars":
            return _module(engine).from_arrow(table).lazy()
        case "dask":
            return _module(engine).from_pandas(table.to_pandas(), npartitions=1)
        case "spark":
            return _session().createDataFrame(table)


def _in_pyarrow(files: Files) -> pads.Dataset | LakeRows:
    rows = _dataset(files)
    return rows if files.lake is None else LakeRows(rows, files.lake)


def _dataset(files: Files, *, rows: Filter | None = None) -> pads.Dataset:
    """Return the rows that are asked for, as they are in the files."""
    verified = pads.ParquetFragmentScanOptions(page_checksum_verification=True)
    dataset = pads.dataset(
        list(files.paths),
        schema=files.schema if files.lake is None else files.lake.stored,
        format=pads.ParquetFileFormat(default_fragment_scan_options=verified),
        filesystem=files.filesystem or fs.LocalFileSystem(),
    )
    if files.groups is not None:
        parts = [part.subset(row_group_ids=files.groups) for part in dataset.get_fragments()]
        dataset = pads.FileSystemDataset(parts, dataset.schema, dataset.format, dataset.filesystem)
    if rows is None and files.lake is None:
        dataset = dataset.filter(_read_too())
    chosen = expression(files.chosen if rows is None else rows, pads.field)
    return dataset if chosen is None else dataset.filter(chosen)


def _read_too() -> pads.Expression:
    """Return a filter that chooses all rows, and for which two columns are read.

    pyarrow drops a condition that is always true, but reads its columns.
    """
    return pads.scalar(value=True) | reduce(and_, (pads.field(n).is_null() for n in _READ_TOO))


def _chosen(rows: Any, chosen: Filter) -> Any:
    """Choose rows of a lazy frame of polars, DuckDB or Spark."""
    condition = expression(chosen)
    return rows if condition is None else nw.from_native(rows).filter(condition).to_native()


def _in_polars(files: Files) -> Any:
    if files.filesystem is not None or files.lake is not None:
        return _through_pyarrow(_in_pyarrow(files))
    # A folder of the path may look like a partition, or like a pattern.
    rows = _module("polars").scan_parquet(list(files.paths), glob=False, hive_partitioning=False)
    return _chosen(rows, files.chosen)


def _through_pyarrow(rows: pads.Dataset | LakeRows) -> Any:
    """Return rows as polars reads them through pyarrow.

    `polars.scan_pyarrow_dataset` would pass filters to pyarrow as Python code. That can be switched
    off, but then versions before 2 fail.
    """
    polars = _module("polars")

    def read(
        columns: list[str] | None, predicate: Any, limit: int | None, _size: int | None
    ) -> Iterator[Any]:
        for batch in rows.to_batches(columns=columns or None):
            frame = polars.from_arrow(batch)
            if limit is not None:
                frame = frame.head(limit)
                limit -= len(frame)
            if columns is not None:
                frame = frame.select(columns)
            yield frame if predicate is None else frame.filter(predicate)
            if limit == 0:
                return

    shape = dict(polars.from_arrow(rows.schema.empty_table()).schema)
    return import_module("polars.io.plugins").register_io_source(read, schema=shape)


def _in_duckdb(files: Files) -> Any:
    duckdb = _module("duckdb")
    if files.filesystem is None and files.lake is None:
        # Every path is a pattern to DuckDB.
        paths = [re.sub(r"([*?\[])", r"[\1]", path) for path in files.paths]
        rows = duckdb.read_parquet(paths, hive_partitioning=False)
    else:
        rows = duckdb.from_arrow(_dataset(files, rows=[]))  # DuckDB does not see its filter
    rows = _chosen(rows, files.chosen)
    if files.lake is not None:
        rows = rows.project(", ".join(files.lake.as_sql('"', "TIMESTAMPTZ", "to_timestamp")))
    return rows


def _in_spark(files: Files) -> Any:
    if files.filesystem is not None:
        raise ValueError(
            "scan with engine='spark' reads local files only: Spark opens object stores with "
            "its own settings, as spark.read.parquet('s3a://…')"
        )
    paths = [re.sub(r"([*?{}\[\]\\])", r"\\\1", path) for path in files.paths]
    reader = _session().read
    if files.lake is not None:
        reader = reader.schema(
            ", ".join(f"`{each.name}` {SQL[each.type]}" for each in files.lake.stored)
        )
    rows = _chosen(reader.parquet(*paths), files.chosen)
    if files.lake is not None:
        rows = rows.selectExpr(*files.lake.as_sql("`", "TIMESTAMP", "timestamp_seconds"))
    return rows


def _session() -> Any:
    session = _module("spark").SparkSession.getActiveSession()
    if session is None:
        raise ValueError(
            "scan with engine='spark' takes the active Spark session, and there is none: make one "
            "with SparkSession.builder.getOrCreate()"
        )
    return session


def _in_dask(files: Files) -> Any:
    shape = files.schema.empty_table().to_pandas()
    return _module("dask").from_map(_partition, _partitions(files), meta=shape, label="scan")


def _partitions(files: Files) -> list[Files]:
    """Divide files into partitions: small files are joined, large ones divided by row groups."""
    parts: list[Files] = []
    for path, size in zip(files.paths, files.sizes, strict=True):
        file = replace(files, paths=(path,), sizes=(size,))
        last = parts[-1] if parts else None
        if last and last.groups is None and sum(last.sizes) + size <= _PARTITION:
            parts[-1] = replace(last, paths=(*last.paths, path), sizes=(*last.sizes, size))
        elif size <= _PARTITION:
            parts.append(file)
        else:
            [fragment] = _dataset(file, rows=[]).get_fragments()
            groups = range(fragment.num_row_groups)
            step = max(1, _PARTITION * len(groups) // size)
            parts += [replace(file, groups=tuple(groups[at : at + step])) for at in groups[::step]]
    return parts


def _partition(part: Files, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a partition; Dask says which columns it needs."""
    names = None if columns is None else list(columns)
    frame: pd.DataFrame = _in_pyarrow(part).to_table(columns=names).to_pandas()
    return frame


def local_path(path: str | os.PathLike[str]) -> str:
    """Return a local path that stays the same when the working directory changes."""
    return os.path.abspath(path)  # noqa: PTH100 - `Path.absolute` keeps `..`
