"""Frames of any engine: taken in and checked, worked on once, given back as the kind they were.

The analysis is written once, on narwhals, as steps from lazy frame to lazy frame. This module is
all that knows how engines differ:

- pandas turns integers with gaps into floats unless its nullable dtypes are used: `take` does.
- pandas and Dask are slow by the row, and lose dtypes: `by_row` has pyarrow stand in for them.
- pyarrow and Dask have no windows within groups: `by_group` has pandas stand in for them.
- Sums of int64 wrap without a word on pandas, polars and pyarrow: `halves` and `whole`.
- What is made of seconds is a moment by another function in each engine: `with_period`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire import schema
from tonframes.wire.kinds import BOOL, DIGITS, INT, OPCODE, SHARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tonframes.wire.kinds import Kind
    from tonframes.wire.record import Table

#: A frame inside the package: of any engine, and lazy as far as the engine can be.
Frame: TypeAlias = nw.LazyFrame[Any]
Step: TypeAlias = "Callable[[Frame], Frame]"
#: A frame outside: pandas, polars (also lazy), pyarrow, DuckDB, Dask, PySpark.
AnyFrame = TypeVar("AnyFrame")

_ENGINES = "pandas, polars, pyarrow, DuckDB, Dask or PySpark"
_NUMBERS = (INT, DIGITS, OPCODE, SHARD)
_BILLION = 10**9
PERIODS = {"hour": 3600, "day": 86400}


def take(
    frame: object,
    helper: str,
    table: Table,
    needs: Iterable[str],
    *,
    also: Iterable[str] | None = (),
) -> Frame:
    """Take a frame in: check what the helper needs of it, and nothing else is kept.

    Parameters
    ----------
    frame
        What the user gave.
    helper
        The function that the user called, for messages.
    table
        The table that the frame must be, or hold the columns of.
    needs
        Columns that the helper reads; their kinds are the schema's.
    also
        Further columns to keep, of any dtype: groups. None keeps all.

    Raises
    ------
    TypeError
        Not a frame of a known engine, or a column of another dtype.
    ValueError
        A column is not there.
    """
    rows = _enter(frame, helper, table)
    kinds = {column.name: column.kind for column in table.columns}
    found = rows.collect_schema()
    needs = list(dict.fromkeys(needs))
    names = list(dict.fromkeys([*needs, *(found.names() if also is None else also)]))
    for name in names:
        if name not in found:
            raise ValueError(_missing(name, helper, table, found.names()))
    read = {name: kinds[name] for name in needs}
    native = rows.select(names).to_native()
    if rows.implementation.is_pandas():
        return _lazy(_nullable(native, helper, read))
    if rows.implementation.is_dask():
        # What Dask says of dtypes need not be true of each partition: pandas may have read floats.
        work = partial(_nullable, helper=helper, read=read)
        return _lazy(native.map_partitions(work, meta=_empty(native, work)))
    for name, kind in read.items():
        _check(name, found[name], kind, helper)
    wide = [name for name, kind in read.items() if kind in _NUMBERS]
    return _lazy(native).with_columns(nw.col(name).cast(nw.Int64) for name in wide)


def names(frame: object, helper: str, table: Table) -> list[str]:
    """Name the columns of a frame that a user gave."""
    return _enter(frame, helper, table).collect_schema().names()


def _enter(frame: Any, helper: str, table: Table) -> nw.DataFrame[Any] | Frame:
    try:
        rows = nw.from_native(frame)
    except TypeError:
        rows = None
    if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
        raise TypeError(
            f"{helper} takes {table.name} as a frame of {_ENGINES}, not {type(frame).__name__}"
        )
    return rows


def _missing(name: str, helper: str, table: Table, found: list[str]) -> str:
    text = f"{helper} needs the column {name!r} of {table.name}; the frame has not got it"
    here = set(found)
    closest = max(schema.TABLES.values(), key=lambda other: len(here & set(other.schema.names)))
    if closest is not table and len(here & set(closest.schema.names)) > len(here) // 2:
        return f"{text}. It looks like {closest.name}: was the argument meant for another place?"
    return f"{text}: it has {', '.join(found[:6]) or 'no columns'}{', …' if len(found) > 6 else ''}"  # noqa: PLR2004


def _check(name: str, dtype: nw.dtypes.DType, kind: Kind, helper: str) -> None:
    if kind in _NUMBERS:
        wanted, fits = "integers", dtype.is_integer()
    elif kind is BOOL:
        wanted, fits = "booleans", dtype == nw.Boolean
    else:
        return
    if fits:
        return
    hint = ""
    if dtype.is_float():
        hint = (
            ": pandas makes floats of integers with gaps, and floats lose nanotons. Read them "
            'with dtype_backend="numpy_nullable" (or "pyarrow")'
        )
    raise TypeError(f"{helper} needs {wanted} in the column {name!r}, which is {dtype}{hint}")


def _nullable(frame: pd.DataFrame, helper: str, read: Mapping[str, Kind]) -> pd.DataFrame:
    """Check columns of pandas, and make them such as hold a null."""
    dtypes = {}
    for name, dtype in nw.from_native(frame).schema.items():
        if name not in read:
            continue
        if frame[name].dtype != object:
            _check(name, dtype, read[name], helper)
        if read[name] in _NUMBERS:
            dtypes[name] = "Int64"
        elif read[name] is BOOL:
            dtypes[name] = "boolean"
        elif frame[name].dtype == object:
            dtypes[name] = "str"
    try:
        return frame.astype(dtypes)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{helper} cannot read a column of Python objects: {error}") from None


def give(result: Frame, like: AnyFrame) -> AnyFrame:
    """Give a result back as the kind of frame that was taken."""
    native: AnyFrame = result.to_native() if is_lazy(like) else result.collect().to_native()
    return native


def made_of(table: pa.Table, like: Frame) -> Frame:
    """Make a frame of the same engine, one that is not lazy, of a table."""
    if like.implementation.is_pandas():
        return _lazy(table.to_pandas(types_mapper=_dtype))
    return nw.from_arrow(table, backend=like.implementation).lazy()


def is_lazy(frame: Any) -> bool:
    """Tell a frame that is only computed when asked for."""
    return isinstance(nw.from_native(frame), nw.LazyFrame)


def same_engine(helper: str, *frames: Frame) -> None:
    """Refuse to join frames of two engines."""
    names = [frame.implementation.value for frame in frames]
    if len(set(names)) > 1:
        raise TypeError(f"{helper} takes frames of one engine, not of {' and '.join(names)}")


def by_row(frame: Frame, step: Step) -> Frame:
    """Do a step that looks at each row by itself, and keeps every row in its place.

    A step may replace numbers and booleans, and add what it likes; a text keeps its name only as
    it is. On pandas pyarrow does it: it takes a third of the time, and knows what a null is.
    """
    if frame.implementation.is_pandas():
        return _lazy(_rows_on_arrow(frame.to_native(), step))
    if frame.implementation.is_dask():
        native = frame.to_native()
        work = partial(_rows_on_arrow, step=step)
        return _lazy(native.map_partitions(work, meta=_empty(native, work)))
    return step(frame)


def by_group(frame: Frame, by: Sequence[str], step: Step) -> Frame:
    """Do a step that looks at groups of rows, each by itself: it may use windows.

    On pyarrow and Dask, which have none, pandas does it: for Dask partition by partition, with
    all rows of a group in one.
    """
    if frame.implementation.is_pandas():
        return _lazy(_groups_on_pandas(frame.to_native(), step))
    if frame.implementation.is_pyarrow():
        table = frame.collect().to_native()
        result = _groups_on_pandas(table.to_pandas(types_mapper=_dtype), step)
        made = pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata(None)
        # pandas has texts as large_string, which pyarrow does not join with string.
        kinds = {name: table.schema.field(name).type for name in table.column_names}
        shape = [
            (f.name, kinds.get(f.name, f.type) if _is_text(f.type) else f.type) for f in made.schema
        ]
        return _lazy(made.cast(pa.schema(shape)))
    if frame.implementation.is_dask():
        native = frame.to_native()
        native = native.shuffle(on=list(by)) if by else native.repartition(npartitions=1)
        work = partial(_groups_on_pandas, step=step)
        return _lazy(native.map_partitions(work, meta=_empty(native, work)))
    return step(frame)


def _lazy(native: Any) -> Frame:
    frame: Frame = nw.from_native(native).lazy()
    return frame


def _empty(native: Any, work: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """Do the work on a frame without rows: so Dask learns of the columns to come."""
    return work(native._meta)  # noqa: SLF001 - Dask has no other name for it


def _rows_on_arrow(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    result = step(nw.from_native(table).lazy()).collect().to_native()
    columns = {}
    for name, column in zip(result.column_names, result.columns, strict=True):
        if name in frame and column.type == table[name].type and _is_text(column.type):
            columns[name] = frame[name]  # no step changes a text under its own name
        else:
            columns[name] = column.to_pandas(types_mapper=_dtype).set_axis(frame.index)
    return pd.DataFrame(columns, index=frame.index, copy=False)


def _groups_on_pandas(frame: pd.DataFrame, step: Step) -> pd.DataFrame:
    result: pd.DataFrame = step(_lazy(frame.reset_index(drop=True))).collect().to_native()
    return result


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _dtype(kind: pa.DataType) -> Any:
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


def with_previous(frame: Frame, names: Sequence[str], by: str, order: str) -> Frame:
    """Add what columns held in the row before, within groups, as `previous_…`: for `by_group`.

    Null in the first row of a group.
    """
    if frame.implementation.is_pandas():
        # Windows of narwhals put results in place through Python objects, and trip over nulls.
        rows = frame.to_native()
        before = rows.sort_values([by, order]).groupby(by, sort=False)[list(names)].shift()
        return _lazy(rows.assign(**before.add_prefix("previous_")))
    return frame.with_columns(
        nw.col(name).shift(1).over(by, order_by=order).alias(f"previous_{name}") for name in names
    )


def with_running(frame: Frame, name: str, by: Sequence[str], order: str) -> Frame:
    """Add up a column from row to row, within groups, as `running_…`: for `by_group`."""
    running = f"running_{name}"
    if frame.implementation.is_pandas():
        rows = frame.to_native()
        groups = rows.sort_values([*by, order]).groupby(list(by), sort=False, dropna=False)
        return _lazy(rows.assign(**{running: groups[name].cumsum()}))
    return frame.with_columns(nw.col(name).cum_sum().over(*by, order_by=order).alias(running))


def integers(frame: Frame, *names: str) -> Frame:
    """Make int64 of sums and counts, whatever the engine made of them (DuckDB: HUGEINT)."""
    return by_row(frame, partial(_integers, names=names))


def _integers(frame: Frame, names: tuple[str, ...]) -> Frame:
    return frame.with_columns(nw.col(name).cast(nw.Int64) for name in names)


def with_share(frame: Frame, name: str) -> Frame:
    """Add the part that each row has of the sum of a column, as `share`: 0 to 1."""
    total = nw.col(name).sum()
    return frame.with_columns(share=nw.when(total != 0).then(nw.col(name) / total))


def largest_first(frame: Frame, name: str, keys: Sequence[str]) -> Frame:
    """Sort groups by a figure, and where that is the same by what they are called."""
    frame = frame.sort(name, *keys, descending=[True, *[False] * len(keys)], nulls_last=True)
    if frame.implementation.is_pandas():
        return _lazy(frame.to_native().reset_index(drop=True))
    return frame


def halves(name: str) -> tuple[nw.Expr, nw.Expr]:
    """Split an amount, so that sums of both parts fit int64 over nine billion rows."""
    # Spark divides through a double, which may be off by one in the last billion; the
    # difference makes up for it whatever the quotient is.
    high = nw.col(name) // _BILLION
    return high.alias(f"{name}_high"), (nw.col(name) - high * _BILLION).alias(f"{name}_low")


def whole(frame: Frame, *names: str) -> Frame:
    """Put the sums of halves together, as decimal128(38, 0)."""
    return by_row(frame, partial(_whole, names=names))


def _whole(frame: Frame, names: tuple[str, ...]) -> Frame:
    parts = [f"{name}_{half}" for name in names for half in ("high", "low")]
    if frame.implementation.is_pyarrow():
        return _whole_on_arrow(frame, names).drop(parts)
    wide = nw.Decimal(38, 0)
    billion = nw.lit(_BILLION).cast(wide)
    for name in names:
        high, low = nw.col(f"{name}_high").cast(wide), nw.col(f"{name}_low").cast(wide)
        frame = frame.with_columns((high * billion + low).cast(wide).alias(name))
    return frame.drop(parts)


def _whole_on_arrow(frame: Frame, names: tuple[str, ...]) -> Frame:
    # Decimals of pyarrow get wider with each operation: 19 digits times 10 are 30.
    table = frame.collect().to_native()
    billion = pa.scalar(_BILLION, pa.decimal128(10, 0))
    for name in names:
        high, low = (table[f"{name}_{half}"].cast(pa.decimal128(19, 0)) for half in ("high", "low"))
        amounts = pc.add(pc.multiply(high, billion), low).cast(pa.decimal128(38, 0))
        table = table.append_column(name, amounts)
    return _lazy(table)


def with_period(frame: Frame, period: str, seconds: str) -> Frame:
    """Add the hour or day, UTC, that a column of unix seconds falls into."""
    length = PERIODS[period]
    return by_row(frame, partial(_moments, name=period, seconds=seconds, length=length))


def _moments(frame: Frame, name: str, seconds: str, length: int) -> Frame:
    frame = frame.with_columns((nw.col(seconds) // length * length).alias(name))
    native = frame.to_native()
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            others = [f'"{other}"' for other in native.columns if other != name]
            made = native.project(", ".join([*others, f'to_timestamp("{name}") AS "{name}"']))
            return _lazy(made)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            from pyspark.sql import functions  # noqa: PLC0415 - there where a frame of it is

            return _lazy(native.withColumn(name, functions.timestamp_seconds(name)))
    return frame.with_columns((nw.col(name) * 1_000_000).cast(nw.Datetime("us", "UTC")))
