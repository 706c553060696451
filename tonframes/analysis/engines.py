"""How steps run on each engine, and expressions that several helpers share.

The analysis is written once, on narwhals, as steps from lazy frame to lazy frame. Frames of pandas
and pyarrow are computed by polars: it shares their columns, runs on all cores, and has windows and
joins that keep the order of rows. Dask computes partitions, which are pandas frames: `by_row` and
`by_group` pass them to polars. Apart from this module, only `intake`, `sums`, `periods` and
`traces` know how engines differ.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

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

#: The column with the numbers of rows, if they are numbered.
ROW = "row of the frame"
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
    """Wrap a frame of an engine. Frames of pandas and pyarrow become frames of polars."""
    frame = nw.from_native(native)
    if isinstance(frame, nw.LazyFrame) or frame.implementation.is_polars():
        wrapped: Frame = frame.lazy()
        return wrapped
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    # Chunks stay as they are: joining them would copy all columns.
    if frame.implementation.is_pandas():
        # Most columns are shared and not copied: starting threads would take longer.
        table = pa.Table.from_pandas(frame.to_native(), preserve_index=False, nthreads=1)
        table = table.replace_schema_metadata(None)
    else:
        table = frame.to_arrow()
    columns: Any = pl.from_arrow(table, rechunk=False)
    inside: nw.DataFrame[Any] = nw.from_native(columns, eager_only=True)
    # Categories become texts, which can be compared with those of another frame.
    categories = [n for n, dtype in inside.schema.items() if dtype in (nw.Categorical, nw.Enum)]
    inside = inside.with_columns(nw.col(name).cast(nw.String) for name in categories)
    if frame.implementation.is_pandas():  # to which NaN is null
        floats = [name for name, dtype in inside.schema.items() if dtype.is_float()]
        inside = inside.with_columns(nw.col(name).fill_nan(None) for name in floats)
    return inside.lazy()


def computed(frame: Frame, like: Any) -> Any:
    """Compute a frame of polars, as a frame of the library of `like`."""
    rows, given = frame.collect(), nw.from_native(like, eager_only=True)
    if ROW not in rows.columns:
        return _converted(rows, given).to_native()
    result = _converted(rows.drop(ROW), given).to_native()
    # Steps drop rows, but do not move them: if none is dropped, the index is that of `like`.
    dropped = len(rows) < len(like)
    return result.set_axis(like.index.take(rows[ROW].to_numpy()) if dropped else like.index)


def _converted(rows: nw.DataFrame[Any], like: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Convert rows of polars to the library of another frame, its texts and times in their form."""
    if like.implementation.is_polars():
        return rows
    # Arrow has no integers of 128 bits.
    wide = [name for name, dtype in rows.schema.items() if dtype == nw.Int128]
    rows = rows.with_columns(nw.col(name).cast(nw.Decimal(38, 0)) for name in wide)
    table, native = rows.to_arrow(), like.to_native()
    if like.implementation.is_pyarrow():
        former = native.schema
    else:
        formed = [field.name for field in table.schema if any(has(field.type) for has in _FORMS)]
        former = pa.Schema.from_pandas(native[[name for name in formed if name in native.columns]])
    text = next((kind for kind in former.types if kind in _TEXTS), pa.string())
    shape = []
    for field in table.schema:
        kind = former.field(field.name).type if field.name in former.names else text
        same = any(has(field.type) and has(kind) for has in _FORMS)
        shape.append((field.name, kind if same else field.type))
    return _frame(table.cast(pa.schema(shape)), like.implementation)


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
    """Run a step that looks at single rows, and keeps all of them in the same order."""
    if frame.implementation.is_dask():
        return by_partition(frame.to_native(), partial(_rows_on_polars, step=step))
    return step(frame)


def _rows_on_polars(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    return through_polars(frame, step).set_axis(frame.index)


def through_polars(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    """Run a step on a partition of Dask."""
    result: pd.DataFrame = computed(step(lazy(frame)), frame)
    return result


def replace(
    frame: nw.DataFrame[Any] | Frame, step: Step, *, reads: Sequence[str], writes: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Run a step on single rows that writes columns. All other columns stay as they are."""
    if not frame.implementation.is_dask():
        return beside(frame, step, reads=reads, writes=writes)

    def replaced(partition: pd.DataFrame) -> pd.DataFrame:
        made = _rows_on_polars(partition[list(reads)], step)
        return partition.assign(**{name: made[name] for name in writes})

    return by_partition(frame.to_native(), replaced)


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
    """Run work in Python on a whole polars frame."""
    # polars must not move filters and selections of the result before the work.
    moved = ("predicate_pushdown", "projection_pushdown", "slice_pushdown")
    return lazy(native.map_batches(work, schema=dict(columns), **dict.fromkeys(moved, False)))


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
    bounds, native = [*starts, end], cast("Any", frame.to_native())
    rows = list(zip(bounds[:-1], bounds[1:], values, strict=True))
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            # A subquery, not a join: relations of two connections cannot be joined.
            texts = ", ".join(
                f"({since}, {until}, {value!r}::DOUBLE)" for since, until, value in rows
            )
            known = f"(VALUES {texts}) AS known(since, until, value)"
            in_force = f'known.since <= "{column}" AND "{column}" < known.until'
            value = f"(SELECT known.value FROM {known} WHERE {in_force})"  # noqa: S608 - our own numbers
            return lazy(native.project(f'*, {value} AS "{name}"'))
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

            since, until = f"{name}_since", f"{name}_until"
            shape = f"`{since}` bigint, `{until}` bigint, `{name}` double"
            known = functions.broadcast(native.sparkSession.createDataFrame(rows, shape))
            moment = functions.col(column)
            in_force = (moment >= known[since]) & (moment < known[until])
            return lazy(native.join(known, in_force, "left").drop(since, until))
    step = partial(_looked_up, column=column, bounds=bounds, values=values, name=name)
    return by_row(frame, step)


def _looked_up(
    frame: Frame, column: str, bounds: Sequence[int], values: Sequence[float], name: str
) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    starts, in_force = np.array(bounds, "int64"), pa.array([None, *values, None])

    def work(integers: Any) -> Any:
        known = integers.to_arrow().cast(pa.int64()).fill_null(-(2**63))
        at = pa.array(np.searchsorted(starts, known, side="right"))
        return pl.Series(integers.name, in_force.take(at), pl.Float64)

    value = pl.col(column).map_batches(work, return_dtype=pl.Float64, is_elementwise=True)
    native: Any = frame.to_native()
    return lazy(native.with_columns(value.alias(name)))


def look_up_texts(
    frame: Frame, column: str, texts: Mapping[Any, tuple[str, ...]], names: Sequence[str]
) -> Frame:
    """Add the texts of each value of a column, as columns `names`; null for all other values."""
    if not frame.implementation.is_duckdb():
        tables = [{key: each[at] for key, each in texts.items()} for at in range(len(names))]
        return frame.with_columns(
            nw.col(column).replace_strict(table, default=None, return_dtype=nw.String).alias(name)
            for table, name in zip(tables, names, strict=True)
        )

    # A subquery, which DuckDB makes a join: narwhals would search all values for each row. It is no
    # join of relations, because those of two connections cannot be joined.
    def written(value: object) -> str:
        return str(value) if isinstance(value, int) else quoted(str(value), "'")

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
    return by_row(
        frame, lambda rows: rows.with_columns(nw.col(name).cast(nw.Int64) for name in names)
    )


# ── groups of rows ───────────────────────────────────────────────────────────────────────────────


def by_group(frame: Frame, by: Sequence[str], step: Step) -> Frame:
    """Run a step that looks at single groups of rows: it may use windows."""
    if not frame.implementation.is_dask():
        return step(frame)
    # Dask has no windows: polars has them, and all rows of a group are in the same partition.
    native = frame.to_native()
    native = native.shuffle(on=list(by)) if by else native.repartition(npartitions=1)
    return by_partition(native, partial(through_polars, step=step))


# ── the order of rows ────────────────────────────────────────────────────────────────────────────


def largest_first(frame: Frame, name: str, keys: Sequence[str]) -> Frame:
    """Sort groups by a figure, and groups with the same figure by their keys."""
    descending = [True, *[False] * len(keys)]
    return frame.sort(name, *keys, descending=descending, nulls_last=True)


def once(frame: Frame, key: str) -> Frame:
    """Keep any one of the rows with the same key."""
    if frame.implementation.is_duckdb():
        # narwhals numbers the rows of each key, for which DuckDB sorts all of them.
        native: Any = frame.to_native()
        return lazy(native.query("given", f"SELECT DISTINCT ON ({quoted(key)}) * FROM given"))  # noqa: S608 - our own columns
    return frame.unique(key)


def join_groups(frame: Frame, groups: Frame, keys: Sequence[str]) -> Frame:
    """Add the columns of groups to their rows, in any order; rows without a group are left out.

    A null of a key is a value, as in `group_by`: joins of most engines match no nulls.
    """
    rows: Any = frame.to_native()
    other: Any = groups.to_native()
    if frame.implementation.is_dask():
        return lazy(rows.merge(other, on=list(keys)))
    if frame.implementation.is_polars():
        return lazy(rows.join(other, on=list(keys), nulls_equal=True))
    own = frame.collect_schema().names()
    added = [name for name in groups.collect_schema().names() if name not in keys]
    if frame.implementation.is_duckdb():
        left, right = ({n: f"{side}.{quoted(n)}" for n in own + added} for side in "ab")
        same = " AND ".join(f"{left[key]} IS NOT DISTINCT FROM {right[key]}" for key in keys)
        columns = [*(left[n] for n in own), *(right[n] for n in added)]
        joined = rows.set_alias("a").join(other.set_alias("b"), same)
        return lazy(joined.project(", ".join(columns)))
    from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

    # By the names of both sides, which may come from the same columns.
    ours, theirs = (
        {n: functions.col(f"{side}.{quoted(n, '`')}") for n in own + added} for side in "ab"
    )
    joined = rows.alias("a").join(
        other.alias("b"), [ours[key].eqNullSafe(theirs[key]) for key in keys]
    )
    return lazy(joined.select(*(ours[n] for n in own), *(theirs[n] for n in added)))


# ── SQL ──────────────────────────────────────────────────────────────────────────────────────────


def quoted(name: str, quote: str = '"') -> str:
    """Return a name, or a text, between quotes."""
    return quote + name.replace(quote, quote * 2) + quote


# ── expressions ──────────────────────────────────────────────────────────────────────────────────


def one_if(condition: nw.Expr) -> nw.Expr:
    """Return 1 where a condition holds, and 0 where it does not or is unknown."""
    return nw.when(condition.fill_null(value=False)).then(nw.lit(1)).otherwise(nw.lit(0))


def first_match(*cases: tuple[nw.Expr, nw.Expr]) -> nw.Expr:
    """Return the value of the first condition that holds, and null where none does."""
    (condition, value), *others = cases
    case = nw.when(condition.fill_null(value=False)).then(value)
    return case.otherwise(first_match(*others)) if others else case


def text_of(column: str) -> nw.Expr:
    """Return the texts of a column; an empty one, which services send for no name, is null."""
    text = nw.col(column).cast(nw.String)
    return nw.when(text != "").then(text)


def as_float(name: str) -> nw.Expr:
    """Convert integers or decimals to the nearest floats."""
    return nw.col(name).cast(nw.Float64)


def ratio(name: str, of: str) -> nw.Expr:
    """Divide a column of integers or decimals by another, as floats; null if the divisor is 0."""
    return as_float(name) / nw.when(nw.col(of) != 0).then(as_float(of))


def divided(amount: nw.Expr, by: nw.Expr | float) -> nw.Expr:
    """Divide by a number that is the same in all rows, to the nearest float."""
    # polars multiplies by the reciprocal of such a number, and so rounds twice, but not by that of
    # a column.
    return amount / (amount * 0 + by)
