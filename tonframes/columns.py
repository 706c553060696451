"""What each column of each table means."""

from __future__ import annotations

import pandas as pd

from tonframes.wire import schema
from tonframes.wire.record import api_path


def describe(table: str) -> pd.DataFrame:
    """Tell what the columns of a table are.

    Parameters
    ----------
    table
        transactions, messages, blocks, accounts, address_book or metadata.

    Returns
    -------
    One row a column: `column`, `dtype` (pandas), `unit`, `meaning`, `api_path` (where it stands
    in the API's object, "" if it does not) and `derived` (computed from `api_path`'s neighbours,
    never written back by `to_json`).

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
    """
    if table not in schema.TABLES:
        raise ValueError(f"no table {table!r}: there are {', '.join(schema.TABLES)}")
    return pd.DataFrame(
        [
            {
                "column": column.name,
                "dtype": column.dtype,
                "unit": column.unit,
                "meaning": column.meaning.removeprefix("+ "),
                "api_path": api_path(column),
                "derived": not api_path(column),
            }
            for column in schema.TABLES[table].columns
        ]
    )


def column_reference() -> str:
    """Write the columns of every table as a page of Markdown: `data/COLUMNS.md` is this."""
    lines = [
        "# Columns",
        "",
        "Made from the schema by `make columns`. Times are UTC. An API path is relative to the",
        "object of the row; what is derived has no place in the answers of the service.",
    ]
    for name, table in schema.TABLES.items():
        lines += ["", f"## {name}", "", table.record.meaning, ""]
        lines.append("| column | dtype | unit | meaning | API path |")
        lines.append("|---|---|---|---|---|")
        for row in describe(name).to_dict("records"):
            path = f"`{row['api_path']}`" if row["api_path"] else "*derived*"
            cells = [f"`{row['column']}`", row["dtype"], row["unit"], row["meaning"], path]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
