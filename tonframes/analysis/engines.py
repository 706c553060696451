"""How steps run on each engine.

The analysis is written once, on narwhals, as steps from lazy frame to lazy frame. Only this module
and those built on it (`intake`, `sums`, `periods`, `trees`) know how engines differ:

- pandas and Dask are slow with expressions on rows, and lose dtypes: `by_row` runs on pyarrow.
- pyarrow and Dask have no windows within groups: `by_group` runs on pandas.
- Engines keep the order of rows differently: `in_order`, `largest_first`, `beside`,
  `left_join`.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire.dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: A frame inside the package: of any engine, and lazy if the engine is.
Frame: TypeAlias = nw.LazyFrame[Any]
Step: TypeAlias = "Callable[[Frame], Frame]"
#: A frame of the user: pandas, polars (also lazy), pyarrow, DuckDB, Dask, PySpark.
AnyFrame = TypeVar("AnyFrame")

_ROW = "row of the frame"
#: The same in a join within it.
_JOINED = "row before the join"


def lazy(native: Any) -> Frame:
    """Wrap a frame of an engine."""
    frame: Frame = nw.from_native(native).lazy()
    return frame


def made_of(table: pa.Table, like: Frame) -> Frame:
    """Return a table as a frame of the same engine as `like`, in memory."""
    if like.implementation.is_pandas():
        return lazy(table.to_pandas(types_mapper=dtype_of))
    return nw.from_arrow(table, backend=like.implementation).lazy()


# ── single rows ───────────────────────────────────────────────────────────────────────────


def by_row(frame: Frame, step: Step) -> Frame:
    """Run a step that looks at single rows, and keeps all of them in the same order.

    On pandas and Dask it runs on pyarrow: that takes a third of the time, and every type has nulls.
    Every column of the result comes from the step, with the dtype that `dtype_of` returns.
    """
    if frame.implementation.is_pandas():
        return lazy(_rows_on_arrow(frame.to_native(), step))
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), partial(_rows_on_arrow, step=step))
    return step(frame)


def replace(frame: Frame, step: Step, *, reads: Sequence[str], writes: Sequence[str]) -> Frame:
    """Run a step on single rows that writes some of the columns that it reads.

    All other columns stay as they are: on pandas and Dask the step does not see them.
    """
    work = partial(_replaced, step=step, reads=list(reads), writes=list(writes))
    if frame.implementation.is_pandas():
        return lazy(work(frame.to_native()))
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), work)
    return step(frame)


def by_partition(native: Any, work: Callable[[pd.DataFrame], pd.DataFrame]) -> Frame:
    """Run work on each partition of a Dask frame."""
    # Dask must know the columns of the result in advance: work on a frame without rows shows them.
    empty = work(native._meta)  # noqa: SLF001 - Dask has no public name for it
    return lazy(native.map_partitions(work, meta=empty))


def on_polars(native: Any, work: Callable[[Any], Any], columns: Mapping[str, Any]) -> Frame:
    """Run work in Python on a whole polars frame.

    polars must not move filters and selections of the result before the work, which needs all rows.
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


def look_up(
    frame: Frame,
    column: str,
    starts: Sequence[int],
    values: Sequence[float],
    name: str,
    *,
    end: int,
) -> Frame:
    """Add the value that is in force at each integer of a column.

    A value is in force from its start until the next start, the last one until `end`. `starts` is
    sorted, and each is once. Before the first start, and from `end` on, the value is null.
    """
    bounds = [*starts, end]
    in_force = partial(
        _in_force, starts=np.array(bounds, "int64"), values=pa.array([None, *values, None])
    )
    match frame.implementation:
        case nw.Implementation.POLARS:
            return _looked_up_on_polars(frame, column, in_force, name)
        case nw.Implementation.DUCKDB:
            return _looked_up_on_duckdb(frame, column, bounds, values, name)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            return _looked_up_on_spark(frame, column, bounds, values, name)

    def step(rows: Frame) -> Frame:
        table = rows.collect().to_native()
        return lazy(table.append_column(name, in_force(table[column])))

    return by_row(frame, step)


def _in_force(integers: pa.ChunkedArray, starts: Any, values: pa.Array) -> pa.ChunkedArray:
    known = integers.cast(pa.int64()).fill_null(-(2**63))
    return pa.chunked_array([values.take(pa.array(np.searchsorted(starts, known, side="right")))])


def _looked_up_on_polars(
    frame: Frame, column: str, in_force: Callable[[Any], pa.ChunkedArray], name: str
) -> Frame:
    import polars as pl  # noqa: PLC0415 - installed if the frame is one of it

    def work(integers: Any) -> Any:
        return pl.Series(integers.name, in_force(integers.to_arrow()), pl.Float64)

    found = pl.col(column).map_batches(work, return_dtype=pl.Float64, is_elementwise=True)
    native: Any = frame.to_native()
    return lazy(native.with_columns(found.alias(name)))


def _looked_up_on_duckdb(
    frame: Frame, column: str, bounds: Sequence[int], values: Sequence[float], name: str
) -> Frame:
    # A subquery, not a join: relations of two connections cannot be joined.
    native: Any = frame.to_native()
    rows = ", ".join(
        f"({start}, {stop}, {value!r}::DOUBLE)"
        for (start, stop), value in zip(pairwise(bounds), values, strict=True)
    )
    known = f"(VALUES {rows}) AS known(start, stop, value)"
    in_force = f'known.start <= "{column}" AND "{column}" < known.stop'
    found = f"(SELECT known.value FROM {known} WHERE {in_force})"  # noqa: S608 - our own numbers
    return lazy(native.project(f'*, {found} AS "{name}"'))


def _looked_up_on_spark(
    frame: Frame, column: str, bounds: Sequence[int], values: Sequence[float], name: str
) -> Frame:
    from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

    native: Any = frame.to_native()
    start, stop = f"{name}_start", f"{name}_stop"
    rows = list(zip(bounds[:-1], bounds[1:], values, strict=True))
    shape = f"`{start}` bigint, `{stop}` bigint, `{name}` double"
    known = functions.broadcast(native.sparkSession.createDataFrame(rows, shape))
    in_force = (functions.col(column) >= known[start]) & (functions.col(column) < known[stop])
    return lazy(native.join(known, in_force, "left").drop(start, stop))


def integers(frame: Frame, *names: str) -> Frame:
    """Cast sums and counts to int64; some engines return wider types (DuckDB: HUGEINT)."""
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
    """Run a step that looks at single groups of rows: it may use windows.

    pyarrow and Dask have no windows, so there it runs on pandas. On Dask it runs on partitions, and
    all rows of a group are in the same partition.
    """
    if frame.implementation.is_pandas():
        return lazy(_groups_on_pandas(frame.to_native(), step))
    if frame.implementation.is_pyarrow():
        table = frame.collect().to_native()
        result = _groups_on_pandas(table.to_pandas(types_mapper=dtype_of), step)
        made = pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata(None)
        # Texts come back from pandas as large_string, which pyarrow does not join with string.
        kinds = {name: table.schema.field(name).type for name in table.column_names}
        texts = (pa.string(), pa.large_string())
        shape = [
            (f.name, kinds.get(f.name, f.type) if f.type in texts else f.type) for f in made.schema
        ]
        return lazy(made.cast(pa.schema(shape)))
    if frame.implementation.is_dask():
        native = frame.to_native()
        native = native.shuffle(on=list(by)) if by else native.repartition(npartitions=1)
        return by_partition(native, partial(_groups_on_pandas, step=step))
    return step(frame)


def with_previous(frame: Frame, names: Sequence[str], by: str, order: str) -> Frame:
    """Add the values of columns in the previous row of the group, as `previous_…`.

    For steps of `by_group`. The values are null in the first row of a group.
    """
    if frame.implementation.is_pandas():
        # On pandas, narwhals' windows go through Python objects, and fail on nulls.
        rows = frame.to_native()
        before = rows.sort_values([by, order]).groupby(by, sort=False)[list(names)].shift()
        return lazy(rows.assign(**before.add_prefix("previous_")))
    return frame.with_columns(
        nw.col(name).shift(1).over(by, order_by=order).alias(f"previous_{name}") for name in names
    )


def with_running(frame: Frame, name: str, by: Sequence[str], order: str) -> Frame:
    """Add the running sum of a column within groups, as `running_…`. For steps of `by_group`."""
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
    """Sort groups by a figure, and groups with the same figure by their keys."""
    descending = [True, *[False] * len(keys)]
    return _numbered(frame.sort(name, *keys, descending=descending, nulls_last=True))


def beside(
    frame: nw.DataFrame[Any] | Frame, columns: Sequence[str], step: Step, adds: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Add columns that a step finds by a join, from columns of text.

    A frame in memory keeps the order of its rows, its index and its dtypes. A join does not keep
    them, so only the columns of text go through the join.
    """
    if isinstance(frame, nw.LazyFrame):
        return step(frame)
    keys = frame.select(nw.col(*columns).cast(nw.String)).with_row_index(_ROW)
    made = step(keys.lazy()).collect().sort(_ROW)
    return frame.with_columns(*(made[name] for name in adds))


def with_table(frame: nw.DataFrame[Any], table: pa.Table) -> nw.DataFrame[Any]:
    """Add the columns of a table with as many rows, in the order of the frame."""
    made = made_of(table, frame.lazy()).collect()
    if frame.implementation.is_pandas():
        aligned = made.to_native().set_axis(frame.to_native().index)
        made = nw.from_native(aligned, eager_only=True)
    return frame.with_columns(*(made[name] for name in table.column_names))


def left_join(frame: Frame, other: Frame, *, left_on: str, right_on: str) -> Frame:
    """Add the columns of another frame, in which each key is once.

    pandas, polars and pyarrow keep the order of the rows, and pandas its index. Others have none.
    """

    def join(rows: Frame) -> Frame:
        return rows.join(other, left_on=left_on, right_on=right_on, how="left")

    native: Any = frame.to_native()
    if frame.implementation.is_pandas():
        return lazy(join(frame).to_native().set_axis(native.index))
    if frame.implementation.is_pyarrow():
        rows = join(frame.collect().with_row_index(_JOINED).lazy())
        return rows.sort(_JOINED).drop(_JOINED)
    if frame.implementation.is_polars():
        keys = {"left_on": left_on, "right_on": right_on}
        return lazy(native.join(other.to_native(), how="left", maintain_order="left", **keys))
    return join(frame)


def once(frame: Frame, key: str) -> Frame:
    """Keep any one of the rows with the same key."""
    if frame.implementation.is_duckdb():
        # narwhals numbers the rows of each key, for which DuckDB sorts all of them.
        native: Any = frame.to_native()
        quoted = '"' + key.replace('"', '""') + '"'
        return lazy(native.query("given", f"SELECT DISTINCT ON ({quoted}) * FROM given"))  # noqa: S608 - our own columns
    return frame.unique(key)


def join_groups(frame: Frame, groups: Frame, keys: Sequence[str]) -> Frame:
    """Add the columns of groups to their rows, in any order; rows without a group are left out.

    A null of a key is a value, as in `group_by`: joins of most engines match no nulls.
    """
    rows: Any = frame.to_native()
    other: Any = groups.to_native()
    keys = list(keys)
    match frame.implementation:
        case nw.Implementation.PANDAS | nw.Implementation.DASK:
            return lazy(rows.merge(other, on=keys))
        case nw.Implementation.PYARROW:
            return _joined_on_arrow(rows, other, keys)
        case nw.Implementation.POLARS:
            return lazy(rows.join(other, on=keys, nulls_equal=True))
        case nw.Implementation.DUCKDB:
            return _joined_on_duckdb(rows, other, keys)
    return _joined_on_spark(rows, other, keys)


def _joined_on_arrow(rows: pa.Table, groups: pa.Table, keys: list[str]) -> Frame:
    places = [f"place of {key}" for key in keys]
    for key, place in zip(keys, places, strict=True):
        known = groups[key].unique()
        rows = rows.append_column(place, pc.index_in(rows[key], known))
        groups = groups.append_column(place, pc.index_in(groups[key], known))
    return lazy(
        rows.join(groups.drop_columns(keys), places, join_type="inner").drop_columns(places)
    )


def _joined_on_duckdb(rows: Any, groups: Any, keys: list[str]) -> Frame:
    def named(side: str, name: str) -> str:
        return f'{side}."' + name.replace('"', '""') + '"'

    same = (f"{named('a', key)} IS NOT DISTINCT FROM {named('b', key)}" for key in keys)
    added = [named("b", name) for name in groups.columns if name not in keys]
    joined = rows.set_alias("a").join(groups.set_alias("b"), " AND ".join(same))
    return lazy(joined.project(", ".join([*(named("a", name) for name in rows.columns), *added])))


def _joined_on_spark(rows: Any, groups: Any, keys: list[str]) -> Frame:
    from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

    def named(side: str, name: str) -> Any:
        return functions.col(f"{side}.`{name}`")  # both sides may come from the same columns

    same = [named("a", key).eqNullSafe(named("b", key)) for key in keys]
    added = [named("b", name) for name in groups.columns if name not in keys]
    joined = rows.alias("a").join(groups.alias("b"), same)
    return lazy(joined.select(*(named("a", name) for name in rows.columns), *added))


def _numbered(frame: Frame) -> Frame:
    """Reset the index of a pandas frame."""
    if frame.implementation.is_pandas():
        return lazy(frame.to_native().reset_index(drop=True))
    return frame
