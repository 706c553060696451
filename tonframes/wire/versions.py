"""Files of earlier versions of the schema. Versions only add columns (`since`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.wire.record import Column, Table


def columns_of(table: Table, version: int) -> list[Column]:
    """List the columns that a table has in a version of the schema."""
    return [column for column in table.columns if column.since <= version]


def needed(table: Table, version: int, names: Sequence[str]) -> list[str]:
    """List those of some columns that a file of a version has."""
    there = {column.name for column in columns_of(table, version)}
    return [name for name in names if name in there]


def upgrade(table: Table, rows: pa.Table, version: int, names: Sequence[str]) -> pa.Table:
    """Return columns in the present version: later ones have the value of their `rule`, or null.

    `rows` has the columns that `needed` lists.
    """
    later = {column.name: column for column in table.columns if column.since > version}
    columns = [
        pa.repeat(pa.scalar(later[name].rule, later[name].kind.arrow), len(rows))
        if name in later
        else rows[name]
        for name in names
    ]
    # The metadata of a file may be shorter, and pandas takes its dtypes from there.
    return pa.Table.from_arrays(columns, schema=table.select(names))
