"""Check the frames that users pass, and return results as frames of the same engine.

pandas turns integers with nulls into floats, except in its nullable dtypes, which `Given` uses.
"""

from __future__ import annotations

import inspect
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

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

    from tonframes.analysis.engines import Frame
    from tonframes.wire.kinds import Kind
    from tonframes.wire.record import Table

_ENGINES = "pandas, polars, pyarrow, DuckDB, Dask or PySpark"
_NUMBERS = (INT, DIGITS, OPCODE, SHARD)
_NAMED = 6  # columns of a wrong frame that an error names


class Given:
    """What the user passed to a helper as one of our tables: a frame, or such as a `Blocks`."""

    def __init__(self, passed: object, helper: str, table: Table) -> None:
        self.passed, self.helper, self.table = passed, helper, table
        self.of_tables = has_tables(passed)

    @cached_property
    def native(self) -> Any:
        """The frame itself; no frame is created of other tables."""
        several = self.of_tables or isinstance(self.passed, TableSet)
        return getattr(self.passed, self.table.name, self.passed) if several else self.passed

    @cached_property
    def rows(self) -> nw.DataFrame[Any] | Frame:
        """The frame; of a data set no rows, but the columns: `take` reads those it needs."""
        native = self.native
        rows = enter(native.schema.empty_table() if is_dataset(native) else native, self.helper)
        if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
            hint = ": pass two frames, or a Blocks in place of both" if native is None else ""
            raise TypeError(
                f"{self.helper} takes {self.table.name} as a frame of {_ENGINES}, not "
                f"{type(native).__name__}{hint}"
            )
        return rows

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns."""
        # Without dtypes, which narwhals finds out from the rows of columns of Python objects, and
        # on DuckDB with a query for the time zone.
        if self.rows.implementation.is_duckdb():
            return list(self.rows.to_native().columns)
        eager = isinstance(self.rows, nw.DataFrame)
        return self.rows.columns if eager else self.rows.collect_schema().names()

    @property
    def in_memory(self) -> bool:
        """Whether the frame is not lazy."""
        # Without reading the table of a `TableSet`.
        return isinstance(self.passed, TableSet) or isinstance(self.rows, nw.DataFrame)

    @property
    def in_doubt(self) -> bool:
        """Whether to look for rows that are missing, or there more than once.

        A look at a lazy frame would compute it. What a `TableSet` reads is whole.
        """
        return not isinstance(self.passed, TableSet) and self.in_memory

    def take(
        self, needs: Iterable[str], *, also: Iterable[str] = (), numbered: bool = False
    ) -> Frame:
        """Return the columns that a helper reads, with the dtypes of the schema, and others."""
        needs = list(dict.fromkeys(needs))
        names = list(dict.fromkeys([*needs, *also]))
        self._refuse_missing(names)
        rows = self.rows
        if is_dataset(self.native):
            rows = nw.from_native(self.native.to_table(columns=names), eager_only=True)
        taken = engines.lazy(self._typed(rows.select(names), needs).to_native())
        if numbered and rows.implementation.is_pandas():
            taken = engines.lazy(taken.to_native().with_row_index(engines.ROW))
        return taken

    def whole(self, needs: Sequence[str]) -> nw.DataFrame[Any] | Frame:
        """Return all columns, for `engines.replace`: those of `needs` are checked."""
        self._refuse_missing(needs)
        rows = self.rows
        if is_dataset(self.native):
            rows = nw.from_native(self.native.to_table(), eager_only=True)
        return self._typed(rows, list(needs))

    def give(self, result: Frame, names: Sequence[str] = ()) -> Any:
        """Return a result, or columns of it, as the kind of frame that the user passed."""
        if names:
            numbers = [name for name in result.collect_schema().names() if name == engines.ROW]
            result = result.select(*names, *numbers)
        if not self.in_memory:
            return result.to_native()
        return engines.computed(result, self.rows.to_native())

    def _refuse_missing(self, names: Iterable[str]) -> None:
        here = set(self.columns)
        if missing := next((name for name in names if name not in here), None):
            raise ValueError(_missing(missing, self.helper, self.table, self.columns))

    def _typed(
        self, rows: nw.DataFrame[Any] | Frame, needs: list[str]
    ) -> nw.DataFrame[Any] | Frame:
        """Check the dtypes of columns that a helper reads. Integers become as wide as ours."""
        kinds = {column.name: column.kind for column in self.table.columns}
        read = {name: kinds[name] for name in needs}
        if rows.implementation.is_pandas():
            return nw.from_native(_nullable(rows.to_native(), self.helper, read), eager_only=True)
        if rows.implementation.is_dask():
            # What Dask declares may be wrong for a partition: pandas may have read floats.
            typed = partial(_nullable, helper=self.helper, read=read)
            return engines.by_partition(rows.to_native(), typed)
        dtypes = rows.collect_schema()
        for name, kind in read.items():
            _check(name, dtypes[name], kind, self.helper)
        wide = [name for name, kind in read.items() if kind in _NUMBERS]
        return rows.with_columns(nw.col(name).cast(nw.Int64) for name in wide)


def take(frame: object, helper: str, table: Table, needs: Iterable[str]) -> Frame:
    """Return columns of a frame that the user passed."""
    return Given(frame, helper, table).take(needs)


def newest(given: Given, columns: list[str]) -> Frame:
    """Return the newest row of each address, with `columns`.

    If several are equally new, it is always the same one. Rows without an address are left out.
    """
    rows = given.take(["address", *columns, "fetched_at"])
    rows = rows.filter(~nw.col("address").is_null())
    order = ["fetched_at", *columns]
    return engines.by_group(
        rows, ["address"], lambda group: group.unique(["address"], keep="last", order_by=order)
    )


def has_tables(passed: object) -> bool:
    """Return whether an object has a frame for each table, without creating these frames."""
    absent = object()
    names = ("transactions", "messages")
    return all(inspect.getattr_static(passed, name, absent) is not absent for name in names)


def paired(helper: str, transactions: object, messages: object | None) -> Any:
    """Return the messages that the user passed: a `Blocks` contains them."""
    if not has_tables(transactions):
        return messages
    if messages is not None:
        raise ValueError(
            f"{helper} takes the messages of a {type(transactions).__name__} from itself: pass "
            "either that alone, or two frames"
        )
    return transactions


def entered(helper: str, transactions: object, messages: object | None) -> tuple[Given, Given]:
    """Enter transactions and their messages: two frames, or a `Blocks` in place of both."""
    messages = paired(helper, transactions, messages)
    return (
        Given(transactions, helper, schema.TRANSACTIONS),
        Given(messages, helper, schema.MESSAGES),
    )


def same_engine(first: Given, second: Given) -> None:
    """Raise an error if two frames that the user passed are of different engines."""
    names = [each.rows.implementation.value for each in (first, second)]
    if len(set(names)) > 1:
        raise TypeError(f"{first.helper} takes frames of one engine, not of {' and '.join(names)}")


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
