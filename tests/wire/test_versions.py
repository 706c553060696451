"""Rows of older versions of the schema: what a column that came later holds."""

from dataclasses import replace

import pyarrow as pa
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from strategies import dump

from tonframes.wire import codec, schema, versions
from tonframes.wire.extra import dump as dump_extra
from tonframes.wire.extra import load
from tonframes.wire.kinds import BOOL, DIGITS, INT, OBJECT, TEXT
from tonframes.wire.older import Older
from tonframes.wire.record import Column, Derived, Field, Loose, Part, Record, Table
from tonframes.wire.tables import fit
from tonframes.wire.tolerant import TolerantReader

EXTRA = Column("extra", OBJECT, "", "The rest.")
SIZE = Record("Size", "A size.", (Field("cells", DIGITS, "cells", "Cells.", always=True),))
LATER_INNER = (
    Field("steps", INT, "steps", "Steps.", since=2),
    Part("size", SIZE, "Size.", "has_size", "size_{}", since=2),
)
LOOSE = Record(
    "Loose", "Free.", (Field("a", TEXT, "", "A.", "a"), Field("b", INT, "", "B.", "b", since=2))
)
LATER = (
    Field("fee", DIGITS, "nanoton", "Fee.", since=2),
    Field("kind", TEXT, "", "Kind.", always=True, since=2, rule="plain"),
    Field("@odd", BOOL, "", "Odd.", "odd", since=2),
    Loose("notes", Record("Notes", "", (Field("x", TEXT, "", "X.", "x"),)), "Notes.", "notes", 2),
    Derived("time", "now", "Time.", since=2),
    Derived("end_time", "end", "End.", since=2),
    Field("end", INT, "s", "End.", since=2),
)


def record(*, later):
    """Declare a record with the members of both versions, or of the first only."""
    inner = (Field("mode", INT, "", "Mode."), *(LATER_INNER if later else ()))
    loose = LOOSE if later else replace(LOOSE, members=LOOSE.members[:1])
    return Record(
        "Row",
        "A row.",
        (
            Field("lt", DIGITS, "lt", "Time.", always=True),
            Field("now", INT, "s", "Now."),
            Part("phase", Record("Phase", "A phase.", inner), "Phase.", "has_phase"),
            Loose("free", loose, "Free.", "free"),
            *(LATER if later else ()),
        ),
    )


OLD = Table("rows", record(later=False), keys=(), order=(), after=(EXTRA,))
NEW = Table("rows", record(later=True), keys=(), order=(), after=(EXTRA,))
NAMES = [column.name for column in NEW.columns]


def decoded(table, trees):
    """Decode objects with a version of the schema."""
    reader = TolerantReader()
    rows = [reader.row(table.record, dump(tree), "$") for tree in trees]
    extra = pa.array([dump_extra(reader.extras.get(id(row), {})) for row in rows], pa.string())
    return fit(table, codec.decode(table.record, rows) | {"extra": extra}, len(rows))


def upgraded(trees, names=NAMES):
    rows = decoded(OLD, trees).select(versions.needed(NEW, 1, names))
    return versions.upgrade(NEW, rows, 1, names)


def test_columns_of_a_version_are_those_that_it_had():
    assert [c.name for c in versions.columns_of(NEW, 1)] == OLD.schema.names
    assert versions.columns_of(NEW, 2) == list(NEW.columns)


@given(trees=st.lists(strategies.objects(NEW.record, odd=False), max_size=3))
def test_upgraded_rows_are_what_the_present_version_decodes(trees):
    for tree in trees:
        tree["kind"] = tree.get("kind") or "plain"
    expected, found = decoded(NEW, trees), upgraded(trees)
    assert found.schema.equals(NEW.schema, check_metadata=True)
    extras = [list(map(load, table["extra"].to_pylist())) for table in (expected, found)]
    assert extras[0] == extras[1]
    assert found.drop_columns(["extra"]).equals(expected.drop_columns(["extra"]))


@given(names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_chosen_columns_are_the_same_as_of_all(names):
    tree = {"lt": "1", "now": 2, "fee": "3", "phase": {"steps": 4}, "free": {"b": 5}, "z": 6}
    assert upgraded([tree], names).equals(upgraded([tree]).select(names))


def test_only_what_is_needed_is_read():
    assert versions.needed(NEW, 1, ["lt"]) == ["lt"]
    assert versions.needed(NEW, 2, ["fee", "lt"]) == ["fee", "lt"]
    assert versions.needed(NEW, 1, ["time"]) == ["now", "extra"]
    assert versions.needed(NEW, 1, ["lt", "fee"]) == ["lt", "extra"]


def test_without_a_kept_value_a_column_is_null_or_what_its_rule_says():
    [row] = upgraded([{"lt": "1", "phase": {}}]).to_pylist()
    later = {name: row[name] for name in NAMES if name not in OLD.schema.names}
    assert later.pop("kind") == "plain"
    assert later.pop("has_size") is False
    assert set(later.values()) == {None}


@pytest.mark.parametrize(
    ("tree", "pointer"),
    [
        ({"fee": 5}, "/fee"),
        ({"fee": "007"}, "/fee"),
        ({"fee": str(2**63)}, "/fee"),
        ({"kind": 5}, "/kind"),
        ({"kind": None}, "/kind"),
        ({"@odd": "yes"}, "/@odd"),
        ({"notes": []}, "/notes"),
        ({"phase": {"steps": 1.5}}, "/phase/steps"),
        ({"phase": {"size": {}}}, "/phase/size"),
        ({"phase": {"size": {"cells": 3}}}, "/phase/size"),
        ({"phase": {"size": {"cells": "3", "z": 1}}}, "/phase/size/z"),
        ({"z": 1}, "/z"),
    ],
)
def test_what_is_not_of_its_kind_stays_in_extra(tree, pointer):
    found = upgraded([{"lt": "1"} | tree])
    [extra] = map(load, found["extra"].to_pylist())
    assert list(extra) == [pointer]
    assert found["fee"].to_pylist() == [None]
    assert found["kind"].to_pylist() == ["plain"]


def test_a_null_that_was_kept_leaves_extra():
    found = upgraded([{"lt": "1", "fee": None, "phase": {"size": None}}])
    assert found["extra"].to_pylist() == [None]
    assert found["has_size"].to_pylist() == [False]


def test_a_table_without_extra_has_nulls_in_columns_that_came_later():
    table = replace(NEW, after=())
    rows = OLD.record.struct(lt="1")
    old = replace(OLD, after=())
    older = fit(old, codec.decode(old.record, [rows]), 1)
    found = versions.upgrade(table, older, 1, table.schema.names)
    assert found["fee"].to_pylist() == [None]
    assert found["kind"].to_pylist() == ["plain"]


def test_a_spelling_that_a_later_version_reads_is_read_from_extra():
    old_fields = (Field("skipped", BOOL, "", "Skipped."), Field("why", TEXT, "", "Why."))
    new_fields = (
        replace(old_fields[0], older=Older("type", {"skipped": True, "vm": False}, since=2)),
        replace(old_fields[1], older=Older("because", since=2)),
    )
    old, new = (
        Table(
            "rows",
            Record("Row", "", (Part("phase", Record("Phase", "", fields), "", "has_phase"),)),
            keys=(),
            order=(),
            after=(EXTRA,),
        )
        for fields in (old_fields, new_fields)
    )
    phases = [
        {"type": "skipped", "because": "no_gas"},
        {"type": "vm"},
        {"skipped": False, "why": "now", "type": "odd"},
        {"type": "odd"},
        {},
    ]
    rows = decoded(old, [{"phase": phase} for phase in phases])
    assert rows["skipped"].to_pylist() == [None, None, False, None, None]
    assert versions.needed(new, 1, ["skipped"]) == ["skipped", "extra"]
    assert versions.needed(new, 2, ["skipped"]) == ["skipped"]
    found = versions.upgrade(new, rows, 1, new.schema.names)
    assert found["skipped"].to_pylist() == [True, False, False, None, None]
    assert found["why"].to_pylist() == ["no_gas", None, "now", None, None]
    assert found["extra"].equals(rows["extra"])


# ── the schema itself ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", [NEW, *schema.TABLES.values()], ids=lambda table: table.name)
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
