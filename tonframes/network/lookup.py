"""Name codes: one code, a column of them, or an expression within a frame of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from narwhals.typing import IntoSeries

#: A column of codes. pyarrow has no types: for a type checker its arrays are `Any`, which fits.
Column = TypeVar("Column", bound="pd.Series[Any] | IntoSeries")

INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class Code:
    """What an exit code or result code means."""

    code: int
    name: str
    meaning: str
    source: str


def look_up(code: nw.Expr, names: Mapping[int, str]) -> nw.Expr:
    """Name the codes of an expression by a table; null for codes that are not in it."""
    return code.cast(nw.Int64).replace_strict(names, default=None, return_dtype=nw.String)


def name_codes(
    code: object,
    what: str,
    allowed: range,
    name: Callable[[int], str | None],
    names: Callable[[nw.Expr], nw.Expr],
) -> object:
    """Name one code with `name`, or a column of codes with `names`."""
    if code is None or code is pd.NA:
        return None
    if isinstance(code, int | np.integer) and not isinstance(code, bool):
        return name(_checked(int(code), what, allowed))
    if isinstance(code, pa.Array):
        return _name_column(pa.chunked_array([code]), what, allowed, names).combine_chunks()
    if isinstance(nw.from_native(code, series_only=True, pass_through=True), nw.Series):
        return _name_column(code, what, allowed, names)
    raise TypeError(f"{what} is an int or a column of integers, not {type(code).__name__}")


def _name_column(
    native: Any, what: str, allowed: range, names: Callable[[nw.Expr], nw.Expr]
) -> Any:
    column: nw.Series[Any] = nw.from_native(native, series_only=True)
    known = column.drop_nulls()
    if not (column.dtype.is_integer() or (column.dtype == nw.Unknown and known.is_empty())):
        hint = "; convert it to integers with nulls, for example with astype('Int64')"
        raise TypeError(
            f"{what} is an integer: the column {column.name!r} is {column.dtype}"
            f"{hint if column.dtype.is_float() else ''}"
        )
    for code in () if known.is_empty() else (known.min(), known.max()):
        _checked(int(code), what, allowed)
    rows = column.alias("code").to_frame().select(name=names(nw.col("code")))
    named = rows["name"].alias(column.name).to_native()
    if isinstance(named, pd.Series):
        return named.astype(pd.StringDtype(na_value=np.nan))
    return named


def _checked(code: int, what: str, allowed: range) -> int:
    if code not in allowed:
        bounds = f"{allowed[0]} to {allowed[-1]}"
        raise ValueError(f"{what} is an integer from {bounds}, not {shorten(code)}")
    return code
