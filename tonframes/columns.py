"""What each column of each table and of each result means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tonframes.analysis.result import BY
from tonframes.analysis.results import RESULTS
from tonframes.errors import did_you_mean
from tonframes.wire.record import api_path
from tonframes.wire.schema import TABLES

if TYPE_CHECKING:
    from tonframes.wire.record import Column


def describe(table: str) -> pd.DataFrame:
    """Describe the columns of a table, or of what a function of the analysis returns.

    Parameters
    ----------
    table
        A table: transactions, messages, blocks, accounts, address_book or metadata. Or the name
        of a function that returns a frame: fee_summary, failures, …

    Returns
    -------
    One row a column: `column`, `dtype` (pandas), `unit`, `meaning`, `api_path` (where it stands
    in the API's object, "" if it does not) and `derived` (computed, never written back by
    `to_json`). Of a result the row `by` stands for the columns that were grouped by.

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
    found = TABLES.get(table) or RESULTS.get(table)
    if found is None:
        near = did_you_mean(table, [*TABLES, *RESULTS]) if isinstance(table, str) else ""
        raise ValueError(
            f"no table or result {table!r}{near}: there are {', '.join([*TABLES, *RESULTS])}"
        )
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
            for column in found.columns
        ]
    )


def column_reference() -> str:
    """Write the columns of every table and result as a page of Markdown: `data/COLUMNS.md`."""
    lines = [
        "# Columns",
        "",
        "Made from the schema and the results of the analysis by `make columns`. Times are UTC.",
        "Dtypes are those on pandas. An API path is relative to the object of the row; what is",
        "derived has no place in the answers of the service.",
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
