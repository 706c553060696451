"""What the header of a column says, and how Excel shows its numbers.

The columns of a sheet are compared with the declared tables and results. Users name sheets as they
like, so the name of a sheet counts only if several tables or results fit equally well.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa

from tonframes.analysis.results import BY, RESULTS
from tonframes.wire.kinds import FLOAT
from tonframes.wire.schema import TABLES

if TYPE_CHECKING:
    from tonframes.analysis.results import Result
    from tonframes.wire.record import Column, Table

    Dtypes = dict[str, nw.dtypes.DType]

#: Results that add columns to a frame of the user.
_ADDED = ("with_names", "with_operation", "with_price", "jetton_amounts")
_ALL: dict[str, Table | Result] = {**TABLES, **RESULTS}
_DECLARED = {
    name: {column.name: column for column in each.columns if column is not BY}
    for name, each in _ALL.items()
    if name not in _ADDED
}

#: Numbers that name something, which have no thousands separators: codes, seqnos, logical times.
_NAMING = {
    *(c.name for table in TABLES.values() for c in table.columns if c.unit == ""),
    *(c.name for columns in _DECLARED.values() for c in columns.values() if c.unit in ("lt", "s")),
    *("code", "result_arg", "opcode", "bounced_opcode", "query_id"),
}
_PERCENTAGES = ("share", "rate", "call_rate", "limit_use_max")
# `cost_mean` is not an amount in a currency.
_AGGREGATIONS = ("count", "max", "mean", "median", "min", "std", "sum", "total")
_PLACES = range(2, 10)  # decimal places of a float


def declared_columns(sheet: str, dtypes: Dtypes) -> dict[str, Column]:
    """Return the declarations of the columns of a frame, as far as they are certain.

    A frame with more than half of the columns of a table or result, and with their dtypes, is that
    one. If this holds for several, it is the one that shares the most columns with the frame. A
    frame with fewer columns is a part of one of those that declare all of its known columns; where
    their declarations differ, only the unit of a column is certain. Between equals, the name of the
    sheet decides.
    """
    found = {
        key: {name: c for name, c in columns.items() if name in dtypes and _fits(c, dtypes[name])}
        for key, columns in _DECLARED.items()
    }
    likely = [key for key in found if 2 * len(found[key]) > len(_DECLARED[key])]
    if likely:
        return found[max(likely, key=lambda key: (len(found[key]), key == sheet))]
    known = dict.fromkeys(name for columns in found.values() for name in columns)
    containing = {key: columns for key, columns in found.items() if columns.keys() == known.keys()}
    if sheet in containing:
        return containing[sheet]
    return _agreed(list((containing or found).values()), list(known))


def _fits(column: Column, dtype: nw.dtypes.DType) -> bool:
    kind = column.kind.arrow
    if isinstance(dtype, nw.Unknown | nw.Object):
        return True
    if pa.types.is_integer(kind):
        in_ton = column.unit == "nanoton" and dtype.is_float()
        return dtype.is_integer() or dtype.is_decimal() or in_ton
    if pa.types.is_floating(kind):
        return dtype.is_float() or dtype.is_decimal()
    if pa.types.is_boolean(kind):
        return isinstance(dtype, nw.Boolean)
    if pa.types.is_timestamp(kind):
        return isinstance(dtype, nw.Datetime)
    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)


def _agreed(declarations: list[dict[str, Column]], names: list[str]) -> dict[str, Column]:
    """Return what all declarations say of a column: its meaning and unit, or the unit alone."""
    agreed = {}
    for name in names:
        first, *others = [columns[name] for columns in declarations if name in columns]
        if all(other.unit == first.unit for other in others):
            same = all(other.meaning == first.meaning for other in others)
            agreed[name] = first if same else replace(first, meaning="")
    return agreed


def with_units(declared: dict[str, Column], values: dict[str, list[Any]]) -> dict[str, Column]:
    """Return the declarations with the units that the values are in.

    Amounts in nanoton are integers, so floats are in TON, as `to_ton` returns them. If all of them
    are whole numbers, they may also be nanoton that pandas has turned into floats for the sake of
    NaN: then the unit is unknown. An amount in a currency is named after the amount in nanoton.
    """
    amounts = {name: column for name, column in declared.items() if column.unit == "nanoton"}
    floats = {
        name: [value for value in values[name] if isinstance(value, float)] for name in amounts
    }
    every = [value for numbers in floats.values() for value in numbers if math.isfinite(value)]
    unit = "" if all(value.is_integer() for value in every) else "TON"
    result = declared | {
        name: replace(amounts[name], unit=unit, kind=FLOAT)
        for name, numbers in floats.items()
        if numbers
    }
    for name in values.keys() - declared.keys():
        amount, _, currency = name.rpartition("_")
        floating = any(isinstance(value, float) for value in values[name])
        if floating and amount in amounts and currency not in _AGGREGATIONS:
            result[name] = replace(amounts[amount], unit=currency.upper(), kind=FLOAT)
    return result


def number_format(name: str, column: Column | None, cells: list[Any]) -> str | None:
    """Return how Excel shows the numbers of a column."""
    numbers = [cell for cell in cells if isinstance(cell, float | Decimal)]
    if not numbers:
        return None
    if all(isinstance(one, Decimal) and one == one.to_integral_value() for one in numbers):
        return "0" if name in _NAMING else "#,##0"
    if column and name in _PERCENTAGES:
        return "0.00%"
    if column and column.unit == "TON":
        return _decimals(_PLACES[-1])
    smallest = min((abs(float(number)) for number in numbers if number), default=1.0)
    places = max(_PLACES[0], 2 - math.floor(math.log10(smallest)))
    return _decimals(places) if places in _PLACES else None


def _decimals(places: int) -> str:
    return f"#,##0.{'0' * places}"


def shown(cell: Any, form: str | None) -> str:
    """Return about what Excel shows, to find out how wide a column must be."""
    if cell is None:
        return ""
    if not form or not isinstance(cell, float | Decimal):
        return str(cell)
    if form.endswith("%"):
        return f"{cell:.2%}"
    return f"{cell:,.{len(form.partition('.')[2])}f}"


def comment(column: Column | None, notes: list[str]) -> str:
    """Return the text of the comment of a header."""
    if not column:
        return "\n".join(notes)
    lines = [f"Unit: {column.unit}" if column.unit else "", *notes]
    return "\n".join(filter(None, [*lines, column.meaning.removeprefix("+ ")]))
