"""How steps run on each engine.

The analysis is written once, on narwhals, as steps from lazy frame to lazy frame. Only this module
and those built on it (`intake`, `sums`, `periods`, `trees`) know how engines differ:

- pandas and Dask are slow by the row, and lose dtypes: `by_row` runs the step on pyarrow.
- pyarrow and Dask have no windows within groups: `by_group` runs the step on pandas.
- Engines keep the order of rows differently: `in_order`, `largest_first`, `beside`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: A frame inside the package: of any engine, and lazy as far as the engine can be.
Frame: TypeAlias = nw.LazyFrame[Any]
Step: TypeAlias = "Callable[[Frame], Frame]"
#: A frame outside: pandas, polars (also lazy), pyarrow, DuckDB, Dask, PySpark.
AnyFrame = TypeVar("AnyFrame")

_ROW = "row of the frame"


def lazy(native: Any) -> Frame:
    """Wrap a frame of an engine."""
    frame: Frame = nw.from_native(native).lazy()
    return frame


def made_of(table: pa.Table, like: Frame) -> Frame:
    """Return a table as a frame of the same engine, one whose rows are in memory."""
    if like.implementation.is_pandas():
        return lazy(table.to_pandas(types_mapper=dtype_of))
    return nw.from_arrow(table, backend=like.implementation).lazy()


# ── rows by themselves ───────────────────────────────────────────────────────────────────────────


def by_row(frame: Frame, step: Step) -> Frame:
    """Run a step that looks at each row by itself, and keeps every row in its place.

    On pandas and Dask it runs on pyarrow: that takes a third of the time, and knows nulls.
    Every column of the result comes from the step, with the dtype that `dtype_of` chooses.
    """
    if frame.implementation.is_pandas():
        return lazy(_rows_on_arrow(frame.to_native(), step))
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), partial(_rows_on_arrow, step=step))
    return step(frame)


def replace(frame: Frame, step: Step, *, reads: Sequence[str], writes: Sequence[str]) -> Frame:
    """Run a step by row that writes a few of the columns that it reads.

    All other columns are passed on as they are: on pandas and Dask the step does not see them.
    """
    work = partial(_replaced, step=step, reads=list(reads), writes=list(writes))
    if frame.implementation.is_pandas():
        return lazy(work(frame.to_native()))
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), work)
    return step(frame)


def by_partition(native: Any, work: Callable[[pd.DataFrame], pd.DataFrame]) -> Frame:
    """Run work on each partition of a Dask frame."""
    # Dask must know the columns of the result: they are those of the work on a frame without rows.
    empty = work(native._meta)  # noqa: SLF001 - Dask has no public name for it
    return lazy(native.map_partitions(work, meta=empty))


def on_polars(native: Any, work: Callable[[Any], Any], columns: Mapping[str, Any]) -> Frame:
    """Run work in Python on a whole polars frame.

    A filter on the result must not run before the work: it would see a part of the rows only.
    """
    return lazy(
        native.map_batches(
            work,
            schema=dict(columns),
            predicate_pushdown=False,
            projection_pushdown=False,
            slice_pushdown=False,
        )
    )


def integers(frame: Frame, *names: str) -> Frame:
    """Cast sums and counts to int64, whatever the engine made of them (DuckDB: HUGEINT)."""
    return by_row(frame, partial(_integers, names=names))


def _integers(frame: Frame, names: tuple[str, ...]) -> Frame:
    return frame.with_columns(nw.col(name).cast(nw.Int64) for name in names)


def _rows_on_arrow(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    result = step(lazy(table)).collect().to_native()
    columns = {
        name: column.to_pandas(types_mapper=dtype_of).set_axis(frame.index)
        for name, column in zip(result.column_names, result.columns, strict=True)
    }
    return pd.DataFrame(columns, index=frame.index, copy=False)


def _replaced(frame: pd.DataFrame, step: Step, reads: list[str], writes: list[str]) -> pd.DataFrame:
    made = _rows_on_arrow(frame[reads], step)
    return frame.assign(**{name: made[name] for name in writes})


# ── groups of rows ───────────────────────────────────────────────────────────────────────────────


def by_group(frame: Frame, by: Sequence[str], step: Step) -> Frame:
    """Run a step that looks at groups of rows, each by itself: it may use windows.

    pyarrow and Dask have no windows, so there it runs on pandas: on Dask by partition, with all
    rows of a group in the same one.
    """
    if frame.implementation.is_pandas():
        return lazy(_groups_on_pandas(frame.to_native(), step))
    if frame.implementation.is_pyarrow():
        table = frame.collect().to_native()
        result = _groups_on_pandas(table.to_pandas(types_mapper=dtype_of), step)
        made = pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata(None)
        # pandas has texts as large_string, which pyarrow does not join with string.
        kinds = {name: table.schema.field(name).type for name in table.column_names}
        shape = [
            (f.name, kinds.get(f.name, f.type) if _is_text(f.type) else f.type) for f in made.schema
        ]
        return lazy(made.cast(pa.schema(shape)))
    if frame.implementation.is_dask():
        native = frame.to_native()
        native = native.shuffle(on=list(by)) if by else native.repartition(npartitions=1)
        return by_partition(native, partial(_groups_on_pandas, step=step))
    return step(frame)


def with_previous(frame: Frame, names: Sequence[str], by: str, order: str) -> Frame:
    """Add what columns held in the row before, within groups, as `previous_…`: for `by_group`.

    Null in the first row of a group.
    """
    if frame.implementation.is_pandas():
        # Windows of narwhals put results in place through Python objects, and fail on nulls.
        rows = frame.to_native()
        before = rows.sort_values([by, order]).groupby(by, sort=False)[list(names)].shift()
        return lazy(rows.assign(**before.add_prefix("previous_")))
    return frame.with_columns(
        nw.col(name).shift(1).over(by, order_by=order).alias(f"previous_{name}") for name in names
    )


def with_running(frame: Frame, name: str, by: Sequence[str], order: str) -> Frame:
    """Add up a column from row to row, within groups, as `running_…`: for `by_group`."""
    running = f"running_{name}"
    if frame.implementation.is_pandas():
        rows = frame.to_native()
        groups = rows.sort_values([*by, order]).groupby(list(by), sort=False, dropna=False)
        return lazy(rows.assign(**{running: groups[name].cumsum()}))
    return frame.with_columns(nw.col(name).cum_sum().over(*by, order_by=order).alias(running))


def _groups_on_pandas(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    result: pd.DataFrame = step(lazy(frame.reset_index(drop=True))).collect().to_native()
    return result


# ── the order of rows ────────────────────────────────────────────────────────────────────────────


def in_order(frame: Frame, keys: Sequence[str]) -> Frame:
    """Sort groups by their keys, null last."""
    return _numbered(frame.sort(*keys, nulls_last=True)) if keys else frame


def largest_first(frame: Frame, name: str, keys: Sequence[str]) -> Frame:
    """Sort groups by a figure, and where that is the same by their keys."""
    descending = [True, *[False] * len(keys)]
    return _numbered(frame.sort(name, *keys, descending=descending, nulls_last=True))


def beside(
    frame: nw.DataFrame[Any] | Frame, column: str, step: Step, adds: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Add columns that a step makes of a column of text by a join.

    A frame in memory keeps its order, its index and the dtypes of its other columns. A join would
    not keep them, so only the text goes through it.
    """
    if isinstance(frame, nw.LazyFrame):
        return step(frame)
    keys = frame.select(nw.col(column).cast(nw.String)).with_row_index(_ROW)
    made = step(keys.lazy()).collect().sort(_ROW)
    return frame.with_columns(*(made[name] for name in adds))


def _numbered(frame: Frame) -> Frame:
    """Give a pandas frame a new index."""
    if frame.implementation.is_pandas():
        return lazy(frame.to_native().reset_index(drop=True))
    return frame


# ── dtypes on pandas ─────────────────────────────────────────────────────────────────────────────


def dtype_of(kind: pa.DataType) -> Any:
    """Choose the dtype on pandas of a column: one that holds nulls, whatever the rows."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if pa.types.is_floating(kind):
        return pd.Float64Dtype()
    if _is_text(kind) or pa.types.is_null(kind):
        return pd.StringDtype(na_value=np.nan)
    return None if pa.types.is_timestamp(kind) else pd.ArrowDtype(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
