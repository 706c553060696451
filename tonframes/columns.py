"""Describe the columns of tables and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tonframes.analysis.results import BY, RESULTS
from tonframes.errors import did_you_mean, shorten
from tonframes.wire.record import api_path
from tonframes.wire.schema import TABLES

if TYPE_CHECKING:
    from tonframes.wire.record import Column


def describe(table: str) -> pd.DataFrame:
    """Return the columns of a table, or of the result of an analysis function.

    Parameters
    ----------
    table
        A table: transactions, messages, blocks, accounts, address_book or metadata; or a function
        that returns a frame: fee_summary, failures, …

    Returns
    -------
    One row per column: `column`, `dtype` (on pandas), `unit`, `meaning`, `api_path` (its place in
    the object of the API, "" if it has none) and `derived` (whether it is computed; `to_json` does
    not write it). For a result, the row `by` stands for the columns to group by.

    Notes
    -----
    pandas cuts long frames and long cells when it shows them; to see everything::

        with pd.option_context("display.max_rows", None, "display.max_colwidth", None):
            display(tf.describe("transactions"))

    Examples
    --------
    >>> print(describe("transactions").set_index("column").loc["compute_gas_used"].to_string())
    dtype                               Int64
    unit                                  gas
    meaning                     Gas consumed.
    api_path    description.compute_ph.gas_used
    derived                             False
    >>> describe("flows")[["column", "dtype", "unit"]].values.tolist()[:3]
    [['by', '', ''], ['messages', 'Int64', ''], ['value', 'Int64', 'nanoton']]
    """
    if not isinstance(table, str):
        raise TypeError(f"describe takes the name of a table or function, not {shorten(table)}")
    declared = TABLES | RESULTS
    if table not in declared:
        near = did_you_mean(table, declared) or f": there are {', '.join(declared)}"
        raise ValueError(f"no table or result {table!r}{near}")
    return pd.DataFrame(
        [
            {
                "column": column.name,
                "dtype": "" if column is BY else column.dtype,
                "unit": column.unit,
                "meaning": column.meaning.removeprefix("+ "),
                "api_path": api_path(column),
                "derived": not api_path(column),
            }
            for column in declared[table].columns
        ]
    )


def column_reference() -> str:
    """Return the columns of every table and result as Markdown, for `data/COLUMNS.md`."""
    lines = [
        "# Columns\n",
        "Made from the schema and the results of the analysis by `make columns`. Times are UTC.",
        "Dtypes are those on pandas. An API path is relative to the object of the row. Derived",
        "columns are computed, and the answers of the service do not contain them.",
    ]
    for table in TABLES.values():
        lines += ["", f"## {table.name}", "", table.record.meaning, ""]
        lines += ["| column | dtype | unit | meaning | API path |", "|---|---|---|---|---|"]
        for column in table.columns:
            path = f"`{api_path(column)}`" if api_path(column) else "*derived*"
            lines.append(_row(column, column.dtype, path))
    lines += ["", "# Results", "", "What the functions of the analysis return. Where they take"]
    lines += ["`wide=True`, sums of nanoton are decimal128(38, 0) with it."]
    for result in RESULTS.values():
        lines += ["", f"## {result.name}", "", result.meaning, ""]
        lines += ["| column | dtype | unit | meaning |", "|---|---|---|---|"]
        lines += [_row(column, "" if column is BY else column.dtype) for column in result.columns]
    return "\n".join([*lines, ""])


def _row(column: Column, dtype: str, *more: str) -> str:
    name = "the columns of `by`" if column is BY else f"`{column.name}`"
    cells = [name, dtype, column.unit, column.meaning.removeprefix("+ "), *more]
    return f"| {' | '.join(cells)} |"
