"""Files of earlier versions of the schema: what a column that came later holds."""

import pyarrow as pa
import pytest

from tonframes.wire import schema, versions
from tonframes.wire.kinds import DIGITS, INT, OBJECT, TEXT
from tonframes.wire.record import Column, Derived, Field, Loose, Part, Record, Table

SIZE = Record("Size", "A size.", (Field("cells", DIGITS, "cells", "Cells.", always=True),))
LOOSE = Record("Loose", "Free.", (Field("a", TEXT, "", "A.", "a"),))
ROWS = Table(
    "rows",
    Record(
        "Row",
        "A row.",
        (
            Field("lt", DIGITS, "lt", "Time.", always=True),
            Field("now", INT, "s", "Now."),
            Field("fee", DIGITS, "nanoton", "Fee.", since=2),
            Field("kind", TEXT, "", "Kind.", always=True, since=3, rule="plain"),
            Part("size", SIZE, "Size.", "has_size", "size_{}", since=2),
            Loose("free", LOOSE, "Free.", "free", since=2),
            Derived("time", "now", "Time.", since=2),
        ),
    ),
    keys=(),
    order=(),
    after=(Column("extra", OBJECT, "", "The rest."),),
)
NAMES = ROWS.schema.names
FIRST = pa.table({"lt": [7, 8], "now": [1, None], "extra": ["{}", None]})
LATER = {
    "fee": None,
    "kind": "plain",
    "has_size": False,
    "size_cells": None,
    "free": None,
    "a": None,
    "time": None,
}


def test_columns_of_a_version_are_those_that_it_had():
    assert [c.name for c in versions.columns_of(ROWS, 1)] == ["lt", "now", "extra"]
    assert [c.name for c in versions.columns_of(ROWS, 2)] == [n for n in NAMES if n != "kind"]
    assert versions.columns_of(ROWS, 3) == list(ROWS.columns)


def test_only_columns_that_a_file_has_are_read():
    assert versions.needed(ROWS, 1, ["fee", "lt", "time"]) == ["lt"]
    assert versions.needed(ROWS, 3, ["fee", "lt", "time"]) == ["fee", "lt", "time"]


def test_a_later_column_is_null_or_what_its_rule_says():
    found = versions.upgrade(ROWS, FIRST, 1, NAMES)
    assert found.schema.equals(ROWS.schema, check_metadata=True)
    assert found.select(FIRST.column_names).to_pylist() == FIRST.to_pylist()
    assert found.select(list(LATER)).to_pylist() == [LATER, LATER]


def test_later_columns_alone_have_as_many_rows():
    rows = FIRST.select(versions.needed(ROWS, 1, ["kind"]))
    assert versions.upgrade(ROWS, rows, 1, ["kind"]).to_pydict() == {"kind": ["plain", "plain"]}


def test_rows_of_the_present_version_stay_as_they_are():
    rows = versions.upgrade(ROWS, FIRST, 1, NAMES)
    assert versions.upgrade(ROWS, rows, 3, NAMES[::-1]).equals(rows.select(NAMES[::-1]))


@pytest.mark.parametrize("table", [ROWS, *schema.TABLES.values()], ids=lambda table: table.name)
def test_a_column_that_came_later_and_is_never_null_has_a_rule(table):
    for column in table.columns:
        if column.since > 1 and column.always:
            assert column.rule is not None, column.name
            pa.scalar(column.rule, column.kind.arrow)
        if column.rule is not None:
            assert column.always, column.name


@pytest.mark.parametrize("table", schema.TABLES.values(), ids=schema.TABLES)
def test_no_column_is_newer_than_the_schema(table):
    assert all(1 <= column.since <= schema.VERSION for column in table.columns)
