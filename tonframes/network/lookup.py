"""Name codes: one code, a column of them, or an expression within a frame of any engine."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
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


def read_table(file: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of this package."""
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def look_up(code: nw.Expr, names: Mapping[int, str]) -> nw.Expr:
    """Name the codes of an expression by a table; null for codes that are not in it."""
    return code.cast(nw.Int64).replace_strict(names, default=None, return_dtype=nw.String)


def name_codes(
    codes: Any,
    what: str,
    allowed: range,
    name: Callable[..., str | None],
    *,
    code_hashes: Any = None,
) -> object:
    """Name one code, or each code of a column. Code hashes are the second argument of `name`."""
    if _is_null(codes):
        return None
    if isinstance(codes, int | np.integer) and not isinstance(codes, bool):
        _check_range(int(codes), what, allowed)
        if _is_null(code_hashes):
            return name(int(codes))
        if not isinstance(code_hashes, str):
            raise TypeError(f"the code hash of one code is text, not {type(code_hashes).__name__}")
        return name(int(codes), code_hashes)
    column = _series(codes)
    if column is None:
        raise TypeError(f"{what} is an int or a column of integers, not {type(codes).__name__}")
    if not (column.dtype.is_integer() or _is_untyped(column)):
        hint = "; convert it to integers with nulls, for example with astype('Int64')"
        raise TypeError(
            f"{what} is an integer: the column {column.name!r} is {column.dtype}"
            f"{hint if column.dtype.is_float() else ''}"
        )
    numbers = column.to_arrow().to_pylist()
    known = [number for number in numbers if number is not None]
    for code in (min(known), max(known)) if known else ():
        _check_range(code, what, allowed)
    if _is_null(code_hashes):
        names = [None if number is None else name(number) for number in numbers]
    else:
        hashes = _hashes_beside(codes, len(numbers), code_hashes)
        pairs = zip(numbers, hashes, strict=True)
        names = [None if number is None else name(number, hashed) for number, hashed in pairs]
    return _column_like(codes, column, names)


def name_texts(texts: Any, what: str, names: Mapping[str, str]) -> object:
    """Name one text, or each text of a column, by a table."""
    if _is_null(texts):
        return None
    if isinstance(texts, str):
        return names.get(texts)
    column = _series(texts)
    if column is None:
        raise TypeError(f"{what} is text or a column of text, not {type(texts).__name__}")
    return _column_like(texts, column, [names.get(text or "") for text in _texts(column, what)])


def _hashes_beside(codes: Any, count: int, code_hashes: Any) -> list[str | None]:
    """Return the code hash of each code of a column, and check that they are of the same rows."""
    if isinstance(code_hashes, str):
        return [code_hashes] * count
    if not isinstance(code_hashes, pa.Array if isinstance(codes, pa.Array) else type(codes)):
        raise TypeError(
            f"code_hashes is text, or a column like the codes: {type(codes).__name__}, "
            f"not {type(code_hashes).__name__}"
        )
    hashes = _texts(_series(code_hashes), "a code hash")
    if len(hashes) != count:
        raise ValueError(
            f"code_hashes has {len(hashes)} rows, and there are {count} codes: "
            "take both from the same frame"
        )
    if isinstance(codes, pd.Series) and not codes.index.equals(code_hashes.index):
        raise ValueError(
            "code_hashes has another index than the codes: take both from the same frame, or "
            "align them first with code_hashes.reindex(codes.index)"
        )
    return hashes


def _is_null(value: object) -> bool:
    """Return whether a value is null; NaN is the null of text in pandas."""
    nan = isinstance(value, float | np.floating) and np.isnan(value)
    return value is None or value is pd.NA or bool(nan)


def _series(native: Any) -> Any:
    """Return a column as a Series of narwhals; None for anything else."""
    column = pa.chunked_array([native]) if isinstance(native, pa.Array) else native
    series = nw.from_native(column, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def _is_untyped(column: nw.Series[Any]) -> bool:
    return column.dtype == nw.Unknown and column.drop_nulls().is_empty()


def _texts(column: nw.Series[Any], what: str) -> list[str | None]:
    if column.dtype not in (nw.String, nw.Categorical, nw.Enum) and not _is_untyped(column):
        raise TypeError(f"{what} is text: the column {column.name!r} is {column.dtype}")
    texts: list[str | None] = column.to_arrow().to_pylist()
    return texts


def _check_range(code: int, what: str, allowed: range) -> None:
    if code not in allowed:
        bounds = f"{allowed[0]} to {allowed[-1]}"
        raise ValueError(f"{what} is an integer from {bounds}, not {shorten(code)}")


def _column_like(native: Any, column: nw.Series[Any], names: list[str | None]) -> object:
    """Return names as a column of the kind of `native`; in pandas with its index."""
    if isinstance(native, pa.Array):
        return pa.array(names, pa.string())
    if isinstance(native, pd.Series):
        text = pd.StringDtype(na_value=np.nan)
        return pd.Series(names, native.index, text, native.name)
    return nw.new_series(column.name, names, nw.String, backend=column.implementation).to_native()
