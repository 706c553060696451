"""How steps run on each engine.

The analysis is written once, on narwhals, as steps from lazy frame to lazy frame. Frames of pandas
and pyarrow are computed by polars: it shares their columns, runs on all cores, and has windows and
joins that keep the order of rows. Only this module and those built on it (`intake`, `sums`,
`periods`, `trees`) know how engines differ:

- Dask computes partitions, which are pandas frames: `by_row` and `by_group` pass them to polars.
- Engines keep the order of rows differently: `left_join` of `tonframes.batches`.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import pyarrow as pa

from tonframes.network import lookup
from tonframes.wire.dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

#: A frame inside the package: lazy, of polars or of a lazy engine.
Frame: TypeAlias = nw.LazyFrame[Any]
Step: TypeAlias = "Callable[[Frame], Frame]"
#: A frame of the user: pandas, polars (also lazy), pyarrow, DuckDB, Dask, PySpark.
AnyFrame = TypeVar("AnyFrame")

_ROW = "row of the frame"
_FOUND = "found_texts"
_BYTES = {byte: f"{byte:02x}" for byte in range(256)}


# Arrow has some types in several forms, of which polars has fewer. A column comes out in the form
# in which it went in.
_TEXTS = (pa.string(), pa.large_string())
_BINARIES = (pa.binary(), pa.large_binary())
_FORMS: tuple[Callable[[pa.DataType], bool], ...] = (
    _TEXTS.__contains__,
    _BINARIES.__contains__,
    pa.types.is_timestamp,
    pa.types.is_duration,
)


# ── into the engine and out of it ────────────────────────────────────────────────────────────────


def lazy(native: Any) -> Frame:
    """Wrap a frame of an engine. Frames of pandas and pyarrow become frames of polars.

    Their categories become texts, which can be compared with those of another frame.
    """
    frame = nw.from_native(native)
    if isinstance(frame, nw.LazyFrame) or frame.implementation.is_polars():
        wrapped: Frame = frame.lazy()
        return wrapped
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    # Chunks stay as they are: joining them would copy all columns.
    columns: Any = pl.from_arrow(_arrow(frame), rechunk=False)
    inside: nw.DataFrame[Any] = nw.from_native(columns, eager_only=True)
    categories = [n for n, dtype in inside.schema.items() if dtype in (nw.Categorical, nw.Enum)]
    inside = inside.with_columns(nw.col(name).cast(nw.String) for name in categories)
    if frame.implementation.is_pandas():  # to which NaN is null
        floats = [name for name, dtype in inside.schema.items() if dtype.is_float()]
        inside = inside.with_columns(nw.col(name).fill_nan(None) for name in floats)
    return inside.lazy()


def numbered(frame: Frame) -> Frame:
    """Add the numbers of the rows of a frame in memory, for `computed`."""
    return lazy(frame.to_native().with_row_index(_ROW))


def numbers_of(frame: Frame) -> list[str]:
    """Return the column with the numbers of rows, if they are numbered."""
    return [name for name in frame.collect_schema().names() if name == _ROW]


def computed(frame: Frame, like: Any) -> Any:
    """Compute a frame of polars, as a frame of the library of `like`.

    On pandas, rows that are numbered have their index in `like`.
    """
    rows, given = frame.collect(), nw.from_native(like, eager_only=True)
    numbers = numbers_of(frame)
    result = _converted(rows.drop(numbers), given).to_native()
    if numbers and given.implementation.is_pandas():
        # Steps drop rows, but do not move them: if none is dropped, the index is that of `like`.
        dropped = len(rows) < len(like)
        index = like.index.take(rows[_ROW].to_numpy()) if dropped else like.index
        return result.set_axis(index)
    return result


def _converted(rows: nw.DataFrame[Any], like: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Convert rows of polars to the library of another frame."""
    if like.implementation.is_polars():
        return rows
    table = rows.to_arrow()
    given = _schema(like, table)
    text = next((kind for kind in given.types if kind in _TEXTS), pa.string())
    shape = pa.schema((field.name, _form(field, given, text)) for field in table.schema)
    return _frame(table.cast(shape), like.implementation)


def _schema(like: nw.DataFrame[Any], table: pa.Table) -> pa.Schema:
    """Return the types of a frame, of pandas those that can have come out in another form."""
    native = like.to_native()
    if like.implementation.is_pyarrow():
        return native.schema
    names = [each.name for each in table.schema if any(has(each.type) for has in _FORMS)]
    return pa.Schema.from_pandas(native[[name for name in names if name in native.columns]])


def _form(field: pa.Field, given: pa.Schema, text: pa.DataType) -> pa.DataType:
    former = given.field(field.name).type if field.name in given.names else text
    return former if any(has(field.type) and has(former) for has in _FORMS) else field.type


def _arrow(frame: nw.DataFrame[Any]) -> pa.Table:
    native = frame.to_native()
    if frame.implementation.is_pandas():
        # Most columns are shared and not copied: starting threads would take longer.
        table = pa.Table.from_pandas(native, preserve_index=False, nthreads=1)
        return table.replace_schema_metadata(None)
    return frame.to_arrow()


def _frame(table: pa.Table, engine: Any) -> nw.DataFrame[Any]:
    if engine.is_pandas():
        return nw.from_native(table.to_pandas(types_mapper=dtype_of), eager_only=True)
    return nw.from_arrow(table, backend=engine)


def made_of(table: pa.Table, like: Frame) -> Frame:
    """Return a table as a frame of the same engine as `like`, in memory."""
    return _frame(table, like.implementation).lazy()


def with_table(frame: nw.DataFrame[Any], table: pa.Table) -> nw.DataFrame[Any]:
    """Add the columns of a table with as many rows, in the order of the frame."""
    return _beside(frame, _frame(table, frame.implementation))


def _beside(frame: nw.DataFrame[Any], made: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    native = frame.to_native()
    if frame.implementation.is_pandas():
        added = dict(made.to_native().set_axis(native.index).items())
        return nw.from_native(native.assign(**added), eager_only=True)
    return frame.with_columns(*made.iter_columns())


# ── single rows ──────────────────────────────────────────────────────────────────────────────────


def by_row(frame: Frame, step: Step) -> Frame:
    """Run a step that looks at single rows, and keeps all of them in the same order.

    On Dask it runs on each partition, with polars.
    """
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), partial(_rows_on_polars, step=step))
    return step(frame)


def replace(
    frame: nw.DataFrame[Any] | Frame, step: Step, *, reads: Sequence[str], writes: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Run a step on single rows that writes columns. All other columns stay as they are.

    In a frame in memory and on Dask, the step sees only the columns that it reads.
    """
    if frame.implementation.is_dask():
        work = partial(_replaced, step=step, reads=list(reads), writes=list(writes))
        return by_partition(frame.to_native(), work)
    return beside(frame, step, reads=reads, writes=writes)


def beside(
    frame: nw.DataFrame[Any] | Frame, step: Step, *, reads: Sequence[str], writes: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Run a step that keeps all rows in their order, and may join other frames by `left_join`."""
    if isinstance(frame, nw.LazyFrame):
        return step(frame)
    made = step(lazy(frame.select(reads).to_native())).select(writes).collect()
    return _beside(frame, _converted(made, frame))


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
        case nw.Implementation.DUCKDB:
            return _looked_up_on_duckdb(frame, column, bounds, values, name)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            return _looked_up_on_spark(frame, column, bounds, values, name)
    found = partial(_looked_up_on_polars, column=column, in_force=in_force, name=name)
    return by_row(frame, found)


def _in_force(integers: pa.ChunkedArray, starts: Any, values: pa.Array) -> pa.ChunkedArray:
    known = integers.cast(pa.int64()).fill_null(-(2**63))
    return pa.chunked_array([values.take(pa.array(np.searchsorted(starts, known, side="right")))])


def _looked_up_on_polars(
    frame: Frame, column: str, in_force: Callable[[Any], pa.ChunkedArray], name: str
) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

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


def look_up_texts(
    frame: Frame, column: str, texts: Mapping[Any, tuple[str, ...]], names: Sequence[str]
) -> Frame:
    """Add the texts of each value of a column, as columns `names`; null for all other values."""
    if frame.implementation.is_duckdb():
        return _texts_joined_on_duckdb(frame, column, texts, names)
    tables = [{key: each[at] for key, each in texts.items()} for at in range(len(names))]
    return frame.with_columns(
        nw.col(column).replace_strict(table, default=None, return_dtype=nw.String).alias(name)
        for table, name in zip(tables, names, strict=True)
    )


def _texts_joined_on_duckdb(
    frame: Frame, column: str, texts: Mapping[Any, tuple[str, ...]], names: Sequence[str]
) -> Frame:
    # A subquery, which DuckDB makes a join: narwhals would search all values for each row. It is no
    # join of relations, because those of two connections cannot be joined.
    def written(value: object) -> str:
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    native: Any = frame.to_native()
    rows = ", ".join(f"({', '.join(map(written, (key, *each)))})" for key, each in texts.items())
    known = f"(VALUES {rows}) AS known({', '.join(['value', *names])})"
    row = ", ".join(f"'{name}': known.{name}" for name in names)
    found = f'(SELECT {{{row}}} FROM {known} WHERE known.value = "{column}")'  # noqa: S608 - our own texts
    added = ", ".join(f"{_FOUND}.{name} AS {name}" for name in names)
    joined = native.project(f"*, {found} AS {_FOUND}")
    return lazy(joined.project(f"* EXCLUDE ({_FOUND}), {added}"))


def named(frame: Frame, column: str, names: Mapping[int, str], name: str) -> Frame:
    """Add the name of each number of 32 bits; if it has none, its digits, such as 0x0000002a."""
    number = nw.col(column)
    if frame.implementation.is_duckdb():
        texts = {number: (text,) for number, text in names.items()}
        native: Any = look_up_texts(frame, column, texts, [name]).to_native()
        found = f'coalesce("{name}", format(\'0x{{:08x}}\', "{column}"))'
        return lazy(native.project(f'* REPLACE ({found} AS "{name}")'))
    digits = [lookup.look_up(number // 256**place % 256, _BYTES) for place in (3, 2, 1, 0)]
    in_hex = nw.concat_str(nw.lit("0x"), *digits)
    return frame.with_columns(nw.coalesce(lookup.look_up(number, names), in_hex).alias(name))


def integers(frame: Frame, *names: str) -> Frame:
    """Cast sums and counts to int64; some engines return wider types (DuckDB: HUGEINT)."""
    return by_row(frame, partial(_integers, names=names))


def _integers(frame: Frame, names: tuple[str, ...]) -> Frame:
    return frame.with_columns(nw.col(name).cast(nw.Int64) for name in names)


def _rows_on_polars(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    return _on_polars(frame, step).set_axis(frame.index)


def _on_polars(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    result: pd.DataFrame = computed(step(lazy(frame)), frame)
    return result


def _replaced(frame: pd.DataFrame, step: Step, reads: list[str], writes: list[str]) -> pd.DataFrame:
    made = _rows_on_polars(frame[reads], step)
    return frame.assign(**{name: made[name] for name in writes})


# ── groups of rows ───────────────────────────────────────────────────────────────────────────────


def by_group(frame: Frame, by: Sequence[str], step: Step) -> Frame:
    """Run a step that looks at single groups of rows: it may use windows.

    Dask has no windows, so there it runs on each partition, with polars. All rows of a group are in
    the same partition.
    """
    if frame.implementation.is_dask():
        native = frame.to_native()
        native = native.shuffle(on=list(by)) if by else native.repartition(npartitions=1)
        return by_partition(native, partial(_on_polars, step=step))
    return step(frame)


# ── the order of rows ────────────────────────────────────────────────────────────────────────────


def in_order(frame: Frame, keys: Sequence[str]) -> Frame:
    """Sort groups by their keys, null last."""
    return frame.sort(*keys, nulls_last=True) if keys else frame


def largest_first(frame: Frame, name: str, keys: Sequence[str]) -> Frame:
    """Sort groups by a figure, and groups with the same figure by their keys."""
    descending = [True, *[False] * len(keys)]
    return frame.sort(name, *keys, descending=descending, nulls_last=True)


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
        case nw.Implementation.DASK:
            return lazy(rows.merge(other, on=keys))
        case nw.Implementation.POLARS:
            return lazy(rows.join(other, on=keys, nulls_equal=True))
        case nw.Implementation.DUCKDB:
            return _joined_on_duckdb(rows, other, keys)
    return _joined_on_spark(rows, other, keys)


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
