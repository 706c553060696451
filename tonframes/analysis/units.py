"""Units of columns, and amounts in TON."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, overload

import narwhals as nw

from tonframes.analysis.results import RESULTS
from tonframes.errors import did_you_mean
from tonframes.native import enter
from tonframes.wire.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.analysis.engines import AnyFrame

#: 1 TON in nanoton.
TON = 10**9

_NAMED = 6  # columns of a frame that an error lists

# A name has the same unit in all tables and results. `bounce` is text in some of them and an amount
# in others: text has no unit.
_COLUMNS = (column for table in TABLES.values() for column in table.columns)
_FIGURES = (column for result in RESULTS.values() for column in result.columns)
_UNITS = {column.name: column.unit for column in (*_COLUMNS, *_FIGURES) if column.unit}


def unit_of(column: str) -> str:
    """Return the unit of a column of numbers of any table or result, or ""."""
    return _UNITS.get(column, "")


@overload
def to_ton(nanoton: int) -> float: ...
@overload
def to_ton(nanoton: AnyFrame, columns: Sequence[str] | None = None) -> AnyFrame: ...
def to_ton(nanoton: object, columns: Sequence[str] | None = None) -> object:
    """Convert amounts in nanoton to TON, as floats, for display.

    Parameters
    ----------
    nanoton
        An amount, or a column of amounts or a frame of any engine. In a frame, the columns of our
        tables and results whose unit is nanoton (`describe`) are converted. All others stay as they
        are, and so do rates: `rent_per_day` is in nanoton per day, `price_per_gas` per gas.
    columns
        The columns of a frame to convert, if they have other names than ours.

    Returns
    -------
    The same, in TON. Unknown amounts stay null. Amounts above 9 million TON lose their last
    digits, as floats do.

    Raises
    ------
    TypeError
        The amounts are not integers: floats may already be in TON.
    ValueError
        The frame has no column that is known to be in nanoton, or lacks one of `columns`.

    Examples
    --------
    >>> to_ton(1_500_000_000)
    1.5
    >>> import pandas as pd
    >>> to_ton(pd.Series([1, None], dtype="Int64")).to_list()
    [1e-09, <NA>]
    >>> to_ton(pd.DataFrame({"opcode": [5], "cost": [2_000_000_000]}))
       opcode  cost
    0       5   2.0
    """
    amounts: Any = enter(nanoton, "to_ton", allow_series=True)
    if isinstance(amounts, nw.DataFrame | nw.LazyFrame):
        return nw.to_native(_converted(amounts, columns))
    if columns is not None:
        raise TypeError(f"columns= names columns of a frame, not of {type(nanoton).__name__}")
    if isinstance(amounts, nw.Series):
        refuse_other(amounts.name, amounts.dtype)
        return nw.to_native(_in_ton(amounts, amounts.dtype))
    if isinstance(nanoton, bool) or not hasattr(nanoton, "__index__"):
        raise TypeError(f"an amount in nanoton is an int, not {type(nanoton).__name__}")
    return operator.index(nanoton) / TON


def _converted(frame: Any, columns: Sequence[str] | None) -> Any:
    dtypes = frame.collect_schema()
    names = amounts_of("to_ton", dtypes, columns)
    for name in names:
        refuse_other(name, dtypes[name])
    return frame.with_columns(_in_ton(nw.col(name), dtypes[name]) for name in names)


def amounts_of(helper: str, dtypes: nw.Schema, columns: Sequence[str] | None) -> list[str]:
    """List the columns of a frame to convert: those in nanoton, or those that the user named."""
    if columns is None:
        # A text or boolean of the same name is not an amount.
        names = [
            name
            for name, dtype in dtypes.items()
            if unit_of(name) == "nanoton" and (dtype.is_numeric() or dtype.is_decimal())
        ]
        if not names:
            raise ValueError(
                f"{helper} knows no column of this frame that is in nanoton: name such columns "
                f"with columns=. The frame has {', '.join(list(dtypes)[:_NAMED]) or 'no columns'}"
            )
        return names
    if isinstance(columns, str):
        raise TypeError("columns is a list of names: put a single one into a list")
    for name in columns:
        if name not in dtypes:
            raise ValueError(f"the frame has no column {name!r}{did_you_mean(name, dtypes)}")
    return list(dict.fromkeys(columns))


def refuse_other(name: str, dtype: nw.dtypes.DType) -> None:
    """Raise an error if a column holds no amounts in nanoton."""
    if not (dtype.is_integer() or dtype.is_decimal()):
        hint = ". Is it already in TON?" if dtype.is_float() else ""
        raise TypeError(f"amounts in nanoton are integers; the column {name!r} is {dtype}{hint}")


def _in_ton(amounts: Any, dtype: nw.dtypes.DType) -> Any:
    return (amounts.cast(nw.Float64) if dtype.is_decimal() else amounts) / TON
