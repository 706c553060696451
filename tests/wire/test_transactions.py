"""Answers of many transactions, whose structs are not all in memory at once."""

from contextlib import contextmanager
from unittest import mock

import pytest
import strategies
from chain import synthetic_blocks
from hypothesis import given
from strategies import dump, least

from tonframes.errors import DecodeError, TonframesWarning
from tonframes.fetch.proof import lack
from tonframes.wire import pages, schema, transactions

quietly = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")


@contextmanager
def at_once(count):
    """Take an answer of more than so many transactions for one of many."""
    with mock.patch.object(transactions, "MANY", count):
        yield


def tables_of(*contents):
    read = [pages.read(schema.BLOCKS_ANSWER, content) for content in contents]
    return pages.blocks_tables(read)


def document(blocks, rows):
    made = synthetic_blocks(blocks, transactions_per_block=rows)
    return [dump({"transactions": d["transactions"], "address_book": {}}) for d in made]


@quietly
@given(strategies.trees(schema.BLOCKS_ANSWER))
def test_many_are_read_like_few(tree):
    few = tables_of(dump(tree))
    with at_once(1):
        many = tables_of(dump(tree))
    assert few.keys() == many.keys()
    for name, table in few.items():
        assert many[name].equals(table), name


def test_pages_of_many_and_of_few_are_joined_in_their_order():
    contents = document(5, 12)
    contents.insert(2, dump({"transactions": []}))
    expected = tables_of(*contents)
    for counts in ([1] * 6, [1, 100, 1, 100, 100, 1], [100, 100, 5, 5, 1, 1]):
        read = []
        for content, count in zip(contents, counts, strict=True):
            with at_once(count):
                read.append(pages.read(schema.BLOCKS_ANSWER, content))
        assert any(page.transactions for page in read)
        found = pages.blocks_tables(read)
        for name in ("transactions", "messages"):
            assert found[name].equals(expected[name]), (name, counts)


def test_their_structs_are_dropped_and_outlines_are_kept():
    [content] = document(1, 150)
    page = pages.read(schema.BLOCKS_ANSWER, content)
    assert len(page.answer.transactions) >= 150
    assert {type(row) for row in page.answer.transactions} == {transactions.Outline}
    assert not any(map(lack, page.answer.transactions))


def test_one_that_comes_twice_is_folded_or_refused():
    rows = [least(schema.TRANSACTION) | {"hash": f"{i}", "lt": f"{i}"} for i in range(8)]
    rows[3]["in_msg"] = least(schema.MESSAGE)
    content = dump({"transactions": [*rows, rows[3], rows[5]]})
    with at_once(2):
        with pytest.warns(TonframesWarning, match="2 of 10 transactions"):
            tables = tables_of(content)
        assert tables["transactions"]["lt"].to_pylist() == list(range(8))
        assert len(tables["messages"]) == 1
        other = rows[3] | {"in_msg": None}
        with pytest.raises(DecodeError, match="different content"):
            tables_of(dump({"transactions": [*rows, other]}))


def test_a_wrong_value_is_named():
    rows = [least(schema.TRANSACTION) | {"hash": f"{i}", "lt": f"{i}"} for i in range(8)]
    rows[6]["total_fees"] = "007"
    with at_once(2), pytest.raises(DecodeError) as caught:
        tables_of(dump({"transactions": rows}))
    assert caught.value.path == "$.transactions[6].total_fees"
