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

    Names = Callable[..., nw.Expr]

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


def look_up_text(text: nw.Expr, names: Mapping[str, str]) -> nw.Expr:
    """Name the texts of an expression by a table; null for texts that are not in it."""
    return text.cast(nw.String).replace_strict(names, default=None, return_dtype=nw.String)


def name_codes(
    code: object,
    what: str,
    allowed: range,
    name: Callable[..., str | None],
    names: Names,
    *,
    code_hashes: object = None,
) -> object:
    """Name one code with `name`, or a column of codes with `names`.

    Code hashes, if there are any, are the second argument of both.
    """
    if _is_null(code):
        return None
    if isinstance(code, int | np.integer) and not isinstance(code, bool):
        return name(_checked(int(code), what, allowed), *_one_hash(code_hashes))
    if not _is_column(code):
        raise TypeError(f"{what} is an int or a column of integers, not {type(code).__name__}")
    column = _series(code)
    _check_integers(column, what, allowed)
    return _named(code, column, names, code_hashes)


def name_texts(text: object, what: str, name: Callable[[str], str | None], names: Names) -> object:
    """Name one text with `name`, or a column of texts with `names`."""
    if _is_null(text):
        return None
    if isinstance(text, str):
        return name(text)
    if not _is_column(text):
        raise TypeError(f"{what} is text or a column of text, not {type(text).__name__}")
    column = _series(text)
    _check_text(column, what)
    return _named(text, column, names)


def _named(native: Any, column: nw.Series[Any], names: Names, code_hashes: object = None) -> Any:
    rows = column.alias("code").to_frame()
    arguments = [nw.col("code")]
    if not _is_null(code_hashes):
        rows = rows.with_columns(_hashes_beside(column, native, code_hashes).alias("code_hash"))
        arguments.append(nw.col("code_hash"))
    named = rows.select(name=names(*arguments))["name"].alias(column.name).to_native()
    if isinstance(native, pa.Array):
        return named.combine_chunks()
    return named.astype(pd.StringDtype(na_value=np.nan)) if isinstance(native, pd.Series) else named


def _hashes_beside(
    column: nw.Series[Any], native: object, code_hashes: object
) -> nw.Series[Any] | nw.Expr:
    if isinstance(code_hashes, str):
        return nw.lit(code_hashes)
    if not isinstance(code_hashes, pa.Array if isinstance(native, pa.Array) else type(native)):
        raise TypeError(
            f"code_hashes is text, or a column like the codes: {type(native).__name__}, "
            f"not {type(code_hashes).__name__}"
        )
    hashes = _series(code_hashes)
    _check_text(hashes, "a code hash")
    if len(hashes) != len(column):
        raise ValueError(
            f"code_hashes has {len(hashes)} rows, and there are {len(column)} codes: "
            "take both from the same frame"
        )
    indexes = [given.index for given in (native, code_hashes) if isinstance(given, pd.Series)]
    if indexes and not indexes[0].equals(indexes[1]):
        raise ValueError(
            "code_hashes has another index than the codes: take both from the same frame, or "
            "align them first with code_hashes.reindex(codes.index)"
        )
    return hashes


def _one_hash(code_hash: object) -> tuple[str, ...]:
    if _is_null(code_hash):
        return ()
    if not isinstance(code_hash, str):
        raise TypeError(f"the code hash of one code is text, not {type(code_hash).__name__}")
    return (code_hash,)


def _is_null(value: object) -> bool:
    """Return whether a value is null; NaN is the null of text in pandas."""
    nan = isinstance(value, float | np.floating) and np.isnan(value)
    return value is None or value is pd.NA or bool(nan)


def _is_column(value: object) -> bool:
    arrow = isinstance(value, pa.Array)
    return arrow or isinstance(
        nw.from_native(value, series_only=True, pass_through=True), nw.Series
    )


def _series(native: Any) -> nw.Series[Any]:
    column = pa.chunked_array([native]) if isinstance(native, pa.Array) else native
    series: nw.Series[Any] = nw.from_native(column, series_only=True)
    return series


def _check_integers(column: nw.Series[Any], what: str, allowed: range) -> None:
    known = column.drop_nulls()
    if not (column.dtype.is_integer() or (column.dtype == nw.Unknown and known.is_empty())):
        hint = "; convert it to integers with nulls, for example with astype('Int64')"
        raise TypeError(
            f"{what} is an integer: the column {column.name!r} is {column.dtype}"
            f"{hint if column.dtype.is_float() else ''}"
        )
    for code in () if known.is_empty() else (known.min(), known.max()):
        _checked(int(code), what, allowed)


def _check_text(column: nw.Series[Any], what: str) -> None:
    text = column.dtype in (nw.String, nw.Categorical, nw.Enum)
    if not (text or (column.dtype == nw.Unknown and column.drop_nulls().is_empty())):
        raise TypeError(f"{what} is text: the column {column.name!r} is {column.dtype}")


def _checked(code: int, what: str, allowed: range) -> int:
    if code not in allowed:
        bounds = f"{allowed[0]} to {allowed[-1]}"
        raise ValueError(f"{what} is an integer from {bounds}, not {shorten(code)}")
    return code
