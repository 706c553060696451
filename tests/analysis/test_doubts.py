"""Warnings of rows that are missing, or there more than once."""

from __future__ import annotations

import warnings
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from chains import sample_tables
from parity import TWO_ENGINES, assert_same, collected, frame_of
from slow import slow

import tonframes as tf

EAGER = ["pandas", "polars", "pyarrow", *slow("pandas-pyarrow")]
SUMS = ["fee_summary", "gas_summary", "gas_outliers", "failure_summary", "activity",
        "trace_costs", "storage_rates"]  # fmt: skip


def told(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tf.TonframesWarning)
        work()
    return [str(one.message) for one in caught if one.category is tf.TonframesWarning]


@pytest.fixture(scope="module")
def blocks():
    return tf.read_blocks(tf.sample())


def called(name, transactions, messages):
    needed = {"fee_summary", "activity", "trace_costs"}
    return getattr(tf, name)(*[transactions, messages][: 1 + (name in needed)])


@pytest.mark.parametrize("name", ["fee_summary", "activity", "trace_costs"])
@pytest.mark.parametrize("engine", EAGER)
def test_missing_messages_are_told_with_their_number(engine, name, tmp_path):
    transactions, messages = sample_tables()
    senders = messages.to_pandas().query("direction == 'out'").tx_hash.unique()
    transactions = frame_of(engine, transactions, tmp_path)
    found = told(lambda: called(name, transactions, frame_of(engine, messages[:0], tmp_path)))
    assert len(found) == 1
    assert f"messages of {len(senders)} transactions are missing" in found[0]
    assert not told(lambda: called(name, transactions, frame_of(engine, messages, tmp_path)))


@pytest.mark.parametrize(
    ("name", "summed"),
    [("fee_summary", ["out"]), ("activity", ["in", "out"]), ("trace_costs", ["in", "out"])],
)
def test_repeated_messages_are_told(name, summed, blocks):
    again = blocks.messages.tail(9)
    number = again[again.direction.isin(summed)].tx_hash.nunique()
    assert number
    twice = pd.concat([blocks.messages, again])
    found = told(lambda: called(name, blocks.transactions, twice))
    assert [text.split(" of ")[1].split()[0] for text in found] == [str(number)]
    assert "more than once" in found[0]


@pytest.mark.parametrize("name", ["gas_summary", "failure_summary", "gas_outliers"])
@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_repeated_messages_repeat_no_transaction(engine, name, tmp_path):
    transactions, messages = sample_tables()
    twice = pa.concat_tables([messages, messages])
    summary = partial(getattr(tf, name), by=["operation", "bounced"])
    summary = partial(summary, factor=1.1) if name == "gas_outliers" else summary
    expected = collected("pyarrow", summary(transactions, messages))
    assert expected.num_rows
    frames = [frame_of(engine, table, tmp_path) for table in (transactions, twice)]
    assert_same(expected, collected(engine, summary(*frames)))


def test_a_number_of_created_messages_that_is_unknown_is_not_judged(blocks):
    transactions = blocks.transactions.assign(action_msgs_created=pd.NA)
    assert not told(lambda: tf.fee_summary(transactions, blocks.messages))


@pytest.mark.parametrize("engine", EAGER)
def test_missing_in_messages_are_told(engine, tmp_path):
    transactions, messages = sample_tables()
    outgoing = messages.filter(pc.equal(messages["direction"], "out"))
    started = sum(descr != "tick_tock" for descr in transactions["descr"].to_pylist())
    frames = [frame_of(engine, table, tmp_path) for table in (transactions, outgoing)]
    calls = {
        "gas_summary": lambda: tf.gas_summary(*frames, by="operation"),
        "failure_summary": lambda: tf.failure_summary(*frames, by="source"),
        "with_operation": lambda: tf.with_operation(*frames),
    }
    for name, call in calls.items():
        assert [text.split(" are missing")[0] for text in told(call)] == [
            f"{name}: the in-messages of {started} of {started} transactions"
        ]
    whole = frame_of(engine, messages, tmp_path)
    assert not told(lambda: tf.gas_summary(frames[0], whole, by=["operation", "source"]))


def test_without_descr_no_in_message_is_known_to_be_missing(blocks):
    transactions = blocks.transactions.drop(columns="descr")
    assert not told(lambda: tf.gas_summary(transactions, blocks.messages[:0], by="source"))


@pytest.mark.parametrize("name", SUMS)
def test_a_transaction_that_is_there_twice_is_told(name, blocks):
    transactions, messages = blocks.transactions, blocks.messages
    twice = pd.concat([transactions, transactions.head(7)])
    found = told(lambda: called(name, twice, messages))
    assert f"{name}: 7 of 3007 rows are of transactions that are in the frame before" in found[0]
    assert 'messages.drop_duplicates(["tx_hash", "direction", "position"])' in found[0]
    assert not told(lambda: called(name, twice.drop_duplicates("hash"), messages))


@pytest.mark.parametrize("engine", EAGER)
def test_user_friendly_addresses_are_told(engine, tmp_path):
    states = tf.read_accounts(tf.sample())
    accounts = states.arrow("accounts").select(["address"])
    book = frame_of(engine, states.arrow("address_book"), tmp_path)
    assert not told(lambda: tf.with_names(frame_of(engine, accounts, tmp_path), book))
    friendly = accounts.to_pandas()
    friendly.loc[:4, "address"] = [tf.to_friendly(raw) for raw in friendly.address[:5]]
    frame = frame_of(engine, pa.Table.from_pandas(friendly), tmp_path)
    found = told(lambda: tf.with_names(frame, book))
    assert len(found) == 1
    assert "with_names: 5 of 300 addresses in address are user-friendly" in found[0]


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", *slow("dask")])
def test_lazy_frames_are_not_looked_at(engine, tmp_path):
    transactions, messages = sample_tables()
    frames = [frame_of(engine, table, tmp_path) for table in (transactions, messages[:0])]
    assert not told(lambda: tf.fee_summary(*frames))


def test_a_message_for_each_that_was_created_and_for_each_bounce(answers):
    # The rule that a warning depends on, on recorded and made transactions.
    transactions, messages = answers.frames
    transactions = transactions.drop_duplicates("hash")
    messages = messages.drop_duplicates(["tx_hash", "direction", "position"])
    assert not told(lambda: tf.fee_summary(transactions, messages))
