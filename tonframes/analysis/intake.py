"""Check the frames that users pass, and return results as frames of the same engine.

pandas turns integers with nulls into floats, except in its nullable dtypes. `take` uses these.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw

from tonframes.analysis import engines
from tonframes.errors import did_you_mean
from tonframes.native import enter, is_dataset
from tonframes.tableset import TableSet
from tonframes.wire import schema
from tonframes.wire.kinds import BOOL, DIGITS, INT, OPCODE, SHARD, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.wire.kinds import Kind
    from tonframes.wire.record import Table

_ENGINES = "pandas, polars, pyarrow, DuckDB, Dask or PySpark"
_NUMBERS = (INT, DIGITS, OPCODE, SHARD)
_NAMED = 6  # columns of a wrong frame that an error names


def take(
    frame: object, helper: str, table: Table, needs: Iterable[str], *, also: Iterable[str] = ()
) -> Frame:
    """Return a frame for a helper: its columns are checked, and columns not needed are dropped.

    Frames of pandas and pyarrow become frames of polars, which `give` converts back.

    Parameters
    ----------
    frame
        What the user passed: a frame, or an object with a frame for each table (`Blocks`).
    helper
        Name of the function that the user called, for error messages.
    table
        The table whose columns the frame must have.
    needs
        Columns that the helper reads; their kinds are those of the schema.
    also
        Further columns to keep, of any dtype, such as those to group by.

    Raises
    ------
    TypeError
        `frame` is not a frame of a known engine, or a column has the wrong dtype.
    ValueError
        A column is missing.
    """
    given, needs = _chosen(frame, table), list(dict.fromkeys(needs))
    names = list(dict.fromkeys([*needs, *also]))
    rows = _enter(given, helper, table)
    _refuse_missing(rows, helper, table, names)
    if is_dataset(given):
        rows = nw.from_native(given.to_table(columns=names), eager_only=True)
    return engines.lazy(_typed(rows.select(names), helper, table, needs).to_native())


def take_whole(
    frame: object, helper: str, table: Table, needs: Iterable[str]
) -> nw.DataFrame[Any] | Frame:
    """Return a frame with all its columns, for `engines.replace`: those of `needs` are checked."""
    given, needs = _chosen(frame, table), list(dict.fromkeys(needs))
    rows = _enter(given, helper, table)
    _refuse_missing(rows, helper, table, needs)
    if is_dataset(given):
        rows = nw.from_native(given.to_table(), eager_only=True)
    return _typed(rows, helper, table, needs)


def numbered(rows: Frame, like: object) -> Frame:
    """Add the numbers of the rows of a pandas frame, so that `give` finds their index."""
    given = nw.from_native(_native(like))
    return engines.numbered(rows) if given.implementation.is_pandas() else rows


def newest(helper: str, frame: object, table: Table, columns: list[str]) -> Frame:
    """Return the newest row of each address, with `columns`.

    If several are equally new, it is always the same one. Rows without an address are left out.
    """
    rows = take(frame, helper, table, ["address", *columns, "fetched_at"])
    rows = rows.filter(~nw.col("address").is_null())
    return engines.by_group(rows, ["address"], partial(_last, columns=columns))


def _last(rows: Frame, columns: list[str]) -> Frame:
    return rows.unique(["address"], keep="last", order_by=["fetched_at", *columns])


def columns_of(frame: object, helper: str, table: Table) -> list[str]:
    """List the columns of a frame that the user passed."""
    return _names(_enter(frame, helper, table))


def paired(helper: str, transactions: object, messages: object | None) -> Any:
    """Return the messages that the user passed: a `Blocks` contains them."""
    if not _has_tables(transactions):
        return messages
    if messages is not None:
        raise ValueError(
            f"{helper} takes the messages of a {type(transactions).__name__} from itself: pass "
            "either that alone, or two frames"
        )
    return transactions


def give(result: Frame, like: AnyFrame, names: Sequence[str] | None = None) -> AnyFrame:
    """Return columns of a result as the kind of frame that the user passed.

    Rows that are `numbered` get the index that they had.
    """
    if names is not None:
        result = result.select(*names, *engines.numbers_of(result))
    if not in_memory(like):
        return cast("AnyFrame", result.to_native())
    return cast("AnyFrame", engines.computed(result, _native(like)))


def in_memory(frame: Any) -> bool:
    """Return whether the rows of a frame are in memory, so that it is not lazy."""
    if isinstance(frame, TableSet):
        return True  # without reading a table
    return nw.dependencies.is_into_dataframe(_native(frame))


def same_engine(helper: str, **given: object) -> None:
    """Raise an error if frames that the user passed, by their tables, are of different engines."""
    if len({id(frame) for frame in given.values()}) == 1:
        return  # a `Blocks` in place of all of them
    frames: list[Any] = [
        getattr(each, name) if _has_tables(each) else each for name, each in given.items()
    ]
    names = [nw.from_native(_native(frame)).implementation.value for frame in frames]
    if len(set(names)) > 1:
        raise TypeError(f"{helper} takes frames of one engine, not of {' and '.join(names)}")


def _native(given: Any) -> Any:
    """Return a frame whose kind, and whose index, the result has."""
    if _has_tables(given):
        given = given.transactions
    if isinstance(given, TableSet):
        given = getattr(given, schema.ACCOUNTS.name)
    return given.schema.empty_table() if is_dataset(given) else given


def _has_tables(given: object) -> bool:
    """Return whether an object has a frame for each table, without creating these frames."""
    absent = object()
    names = ("transactions", "messages")
    return all(inspect.getattr_static(given, name, absent) is not absent for name in names)


def _chosen(frame: Any, table: Table) -> Any:
    """Return the frame of a table, if an object with a frame for each table is given."""
    return getattr(frame, table.name, frame) if _has_tables(frame) else frame


def _enter(frame: Any, helper: str, table: Table) -> nw.DataFrame[Any] | Frame:
    given = _chosen(frame, table)
    if is_dataset(given):
        given = given.schema.empty_table()  # its columns; `take` reads those that it needs
    rows = enter(given, helper)
    if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
        hint = ": pass two frames, or a Blocks in place of both" if frame is None else ""
        raise TypeError(
            f"{helper} takes {table.name} as a frame of {_ENGINES}, not "
            f"{type(frame).__name__}{hint}"
        )
    return rows


def _names(rows: nw.DataFrame[Any] | Frame) -> list[str]:
    # Without dtypes, which narwhals finds out from the rows of columns of Python objects, and on
    # DuckDB with a query for the time zone.
    if rows.implementation.is_duckdb():
        return list(rows.to_native().columns)
    return rows.columns if isinstance(rows, nw.DataFrame) else rows.collect_schema().names()


def _refuse_missing(
    rows: nw.DataFrame[Any] | Frame, helper: str, table: Table, names: Iterable[str]
) -> None:
    found = _names(rows)
    here = set(found)
    if missing := next((name for name in names if name not in here), None):
        raise ValueError(_missing(missing, helper, table, found))


def _typed(
    rows: nw.DataFrame[Any] | Frame, helper: str, table: Table, needs: list[str]
) -> nw.DataFrame[Any] | Frame:
    """Check the dtypes of columns that a helper reads. Integers become as wide as ours."""
    kinds = {column.name: column.kind for column in table.columns}
    read = {name: kinds[name] for name in needs}
    if rows.implementation.is_pandas():
        return nw.from_native(_nullable(rows.to_native(), helper, read), eager_only=True)
    if rows.implementation.is_dask():
        # The dtypes that Dask declares may be wrong for a partition: pandas may have read floats.
        return engines.by_partition(rows.to_native(), partial(_nullable, helper=helper, read=read))
    found = rows.collect_schema()
    for name, kind in read.items():
        _check(name, found[name], kind, helper)
    wide = [name for name, kind in read.items() if kind in _NUMBERS]
    return rows.with_columns(nw.col(name).cast(nw.Int64) for name in wide)


def _missing(name: str, helper: str, table: Table, found: list[str]) -> str:
    text = f"{helper} needs the column {name!r} of {table.name}; the frame has no such column"
    here = set(found)
    closest = max(schema.TABLES.values(), key=lambda other: len(here & set(other.schema.names)))
    if closest is not table and len(here & set(closest.schema.names)) > len(here) // 2:
        return f"{text}. It looks like {closest.name}: is this the right argument?"
    if near := did_you_mean(name, found):
        return text + near
    more = ", …" if len(found) > _NAMED else ""
    return f"{text}: it has {', '.join(found[:_NAMED]) or 'no columns'}{more}"


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
            ": pandas turns integers with nulls into floats, and floats lose nanotons. Read them "
            'with dtype_backend="numpy_nullable" (or "pyarrow")'
        )
    raise TypeError(f"{helper} needs {wanted} in the column {name!r}, which is {dtype}{hint}")


def _nullable(frame: pd.DataFrame, helper: str, read: Mapping[str, Kind]) -> pd.DataFrame:
    """Check columns of pandas, and convert them to the nullable dtypes of our tables."""
    dtypes: dict[str, Any] = {}
    for name, dtype in nw.from_native(frame[list(read)]).schema.items():
        plain = frame[name].dtype == object
        if not plain:
            _check(name, dtype, read[name], helper)
        if read[name] in _NUMBERS:
            dtypes[name] = "Int64"
        elif read[name] is BOOL:
            dtypes[name] = "boolean"
        elif plain or (read[name] is TEXT and dtype in (nw.String, nw.Categorical)):
            dtypes[name] = "str"
    others = {name: dtype for name, dtype in dtypes.items() if frame[name].dtype != dtype}
    try:
        return frame.assign(**{name: frame[name].astype(others[name]) for name in others})
    except (TypeError, ValueError) as error:
        raise TypeError(f"{helper} cannot read a column of Python objects: {error}") from None
