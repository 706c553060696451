"""Columns of structs, and structs of columns."""

import msgspec
import pyarrow as pa
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from strategies import dump, least

from tonframes.wire import codec, schema
from tonframes.wire.record import Rows

RECORDS = {
    "transaction": schema.TRANSACTION,
    "message": schema.MESSAGE,
    "block": schema.BLOCK,
    "account": schema.ACCOUNT,
}
records = pytest.mark.parametrize("name", RECORDS)
dialects = pytest.mark.parametrize("dialect", ["service", "specification"])


def structs(record, trees):
    return [msgspec.json.decode(dump(tree), type=record.struct) for tree in trees]


def bare(record, trees):
    """Leave out what other tables hold."""
    rows = {m.key for m in record.wired if isinstance(m, Rows)}
    return [{k: v for k, v in tree.items() if k not in rows} for tree in trees]


def nothing(record, count):
    return {m.key: [None] * count for m in record.wired if isinstance(m, Rows)}


@records
@dialects
@given(data=st.data())
def test_columns_come_back_through_structs(name, dialect, data):
    record = RECORDS[name]
    row = strategies.objects(record, odd=False)
    rows = structs(record, bare(record, data.draw(st.lists(row, max_size=3))))
    columns = codec.decode(record, rows)
    again = codec.encode(record, columns, nothing(record, len(rows)), dialect)
    again = structs(record, map(strategies.Raw, (msgspec.json.encode(s).decode() for s in again)))
    assert codec.decode(record, again) == columns


@records
def test_no_rows_are_columns_of_the_declared_types(name):
    record = RECORDS[name]
    columns = codec.decode(record, [])
    assert {n: a.type for n, a in columns.items()} == {c.name: c.kind.arrow for c in record.columns}


@records
def test_a_row_of_required_fields_has_nulls_elsewhere(name):
    record = RECORDS[name]
    columns = codec.decode(record, structs(record, [least(record)]))
    filled = {name for name, column in columns.items() if column.null_count == 0}
    derived = {column.name for column in record.columns if column.of}
    assert filled - derived == {column.name for column in record.columns if column.always}


def test_an_empty_part_is_not_an_absent_part():
    tree = least(schema.TRANSACTION)
    empty = tree | {"description": tree["description"] | {"credit_ph": {}, "action": None}}
    columns = codec.decode(schema.TRANSACTION, structs(schema.TRANSACTION, [tree, empty]))
    assert columns["has_credit"].to_pylist() == [False, True]
    assert columns["has_action"].to_pylist() == [False, False]
    assert columns["credit"].to_pylist() == [None, None]


def test_parts_within_parts_that_are_absent_are_null():
    tree = least(schema.TRANSACTION)
    sized = {"tot_msg_size": {"cells": "3"}, "msgs_created": 2}
    rows = [
        tree | {"description": tree["description"] | {"action": action}}
        for action in (None, {}, sized, {"tot_msg_size": {}}, None)
    ]
    columns = codec.decode(schema.TRANSACTION, structs(schema.TRANSACTION, rows))
    assert columns["has_action"].to_pylist() == [False, True, True, True, False]
    assert columns["has_action_tot_msg_size"].to_pylist() == [False, False, True, True, False]
    assert columns["action_tot_msg_size_cells"].to_pylist() == [None, None, 3, None, None]
    assert columns["action_msgs_created"].to_pylist() == [None, None, 2, None, None]


@pytest.mark.parametrize(
    ("decoded", "kind", "comment"),
    [
        ('{"type":"text_comment","comment":"hi"}', "text_comment", "hi"),
        ('{"@type":"text_comment","comment":"é"}', "text_comment", "é"),
        ('{"@type":"new","type":"old"}', "old", None),
        ('{"@type":"new","type":null}', "new", None),
        ('{"@type":"new","type":5}', "new", None),
        ('{"comment":["hi"]}', None, None),
        ('{"comment":"\\ud83d\\ude00"}', None, "😀"),
        ('{"data":{"amount":1e5}}', None, None),
        ("{}", None, None),
        ("null", None, None),
    ],
)
def test_type_and_comment_are_repeated_from_the_decoded_body(decoded, kind, comment):
    tree = least(schema.MESSAGE) | {"message_content": {"decoded": strategies.Raw(decoded)}}
    beside = least(schema.MESSAGE)
    columns = codec.decode(schema.MESSAGE, structs(schema.MESSAGE, [tree, beside]))
    assert columns["decoded"].to_pylist() == [None if decoded == "null" else decoded, None]
    assert columns["decoded_type"].to_pylist() == [kind, None]
    assert columns["comment"].to_pylist() == [comment, None]


@pytest.mark.parametrize(
    ("entry", "interfaces"),
    [
        ('{"interfaces":["a"]}', '["a"]'),
        ('{"interfaces":null}', None),
        ('{"interfaces":{"a":1}}', None),
        ('{"interfaces":"a"}', None),
        ("{}", None),
    ],
)
def test_a_wrong_value_in_a_loose_object_is_null(entry, interfaces):
    record = schema.ADDRESS_BOOK_ROW
    row = structs(record, [{"address": "a", "entry": strategies.Raw(entry)}])
    columns = codec.decode(record, row)
    assert columns["entry"].to_pylist() == [entry]
    assert columns["interfaces"].to_pylist() == [interfaces]


def test_seconds_become_moments_and_what_microseconds_cannot_say_is_null():
    seconds = pa.array([0, 1721063820, -1, None, 2**63 - 1, -(2**63)], pa.int64())
    micros = codec.moments(seconds).cast(pa.int64()).to_pylist()
    assert micros == [0, 1721063820 * 10**6, -(10**6), None, None, None]


@dialects
def test_both_dialects_of_a_message_are_what_they_say(dialect):
    tree = least(schema.TRANSACTION) | {"in_msg": None}
    columns = codec.decode(schema.TRANSACTION, structs(schema.TRANSACTION, [tree]))
    again = codec.encode(schema.TRANSACTION, columns, nothing(schema.TRANSACTION, 1), dialect)
    shard = {"service": "8000000000000000", "specification": "-9223372036854775808"}
    assert again[0].block_ref.shard == shard[dialect]
