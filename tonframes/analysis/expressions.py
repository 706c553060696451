"""Expressions that several helpers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame


def one_if(condition: nw.Expr) -> nw.Expr:
    """Return 1 where a condition holds, and 0 where it does not or is unknown."""
    return nw.when(condition.fill_null(value=False)).then(nw.lit(1)).otherwise(nw.lit(0))


def first_match(*cases: tuple[nw.Expr, nw.Expr]) -> nw.Expr:
    """Return the value of the first condition that holds, and null where none does."""
    (condition, value), *others = cases
    case = nw.when(condition.fill_null(value=False)).then(value)
    return case.otherwise(first_match(*others)) if others else case


def given(column: str) -> nw.Expr:
    """Return the texts of a column; an empty one, which services send for no name, is null."""
    text = nw.col(column).cast(nw.String)
    return nw.when(text != "").then(text)


def ratio(rows: Frame, name: str, of: str) -> nw.Expr:
    """Divide a column of integers or decimals by another, as floats; null if the divisor is 0."""
    return as_float(rows, name) / nw.when(nw.col(of) != 0).then(as_float(rows, of))


def divided(amount: nw.Expr, by: nw.Expr | float) -> nw.Expr:
    """Divide by a number that is the same in all rows, to the nearest float.

    polars multiplies by the reciprocal of such a number, and so rounds twice. A column of it is
    divided by.
    """
    return amount / (amount * 0 + by)


def as_float(rows: Frame, name: str) -> nw.Expr:
    """Convert integers or decimals to the nearest floats."""
    if rows.collect_schema()[name].is_decimal():
        return nw.col(name).cast(nw.Float64)
    # A cast would fail on pyarrow for integers of more than 53 bits; a division does not.
    return nw.col(name) / 1
