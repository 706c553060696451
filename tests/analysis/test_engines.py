"""Every helper on every engine: the same kind of frame back, and the same numbers in it."""

from __future__ import annotations

import re
from pathlib import Path

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from parity import ENGINES, LAZY, assert_same, collected, frame_of, lake, rows_of

import tonframes as tf
from tonframes.analysis import engines

#: What is called, by a name: transactions and messages in, a frame out.
CALLS = {
    "undo_gas_exchange": lambda t, _: tf.undo_gas_exchange(t),
    "fee_breakdown": lambda t, _: tf.fee_breakdown(t),
    "fee_summary": tf.fee_summary,
    "fee_summary of codes": lambda t, m: tf.fee_summary(t, m, by="compute_exit_code"),
    "fee_summary of opcodes": lambda t, m: tf.fee_summary(t, m, by=["opcode", "hour"]),
    "check_fees": lambda t, _: tf.check_fees(t),
    "check_balances": tf.check_balances,
    "gas_summary": lambda t, _: tf.gas_summary(t),
    "gas_summary of codes": lambda t, _: tf.gas_summary(
        t, by=["block_workchain", "compute_exit_code"]
    ),
    "gas_summary of opcodes": lambda t, m: tf.gas_summary(t, m, by=["opcode", "hour"]),
    "gas_outliers": lambda t, _: tf.gas_outliers(t, factor=1, min_calls=1),
    "gas_outliers of all": lambda t, _: tf.gas_outliers(t, by=(), factor=1.5),
    "gas_outliers of opcodes": lambda t, m: tf.gas_outliers(
        t, m, by=["account_state_code_hash_before", "opcode"], factor=1, min_calls=2
    ),
    "price_of": lambda t, _: tf.price_of(t),
    "failures": lambda t, _: tf.failures(t),
    "failure_summary": lambda t, _: tf.failure_summary(t),
    "failure_summary of opcodes": lambda t, m: tf.failure_summary(
        t, m, by=["opcode", "phase", "code"]
    ),
    "failure_summary of hours": lambda t, _: tf.failure_summary(t, by=["hour", "name"]),
    "trace_costs": tf.trace_costs,
    "storage_rates": lambda t, _: tf.storage_rates(t),
    "activity": tf.activity,
    "activity of shards": lambda t, m: tf.activity(t, m, by=["block_workchain", "block_shard"]),
    "activity of opcodes": lambda t, m: tf.activity(t, m, by=["opcode", "day"]),
    "activity without messages": lambda t, _: tf.activity(t),
    "flows": lambda _, m: tf.flows(m),
    "flows of opcodes": lambda _, m: tf.flows(m, by=["opcode", "hour"]),
    "flows of weeks": lambda _, m: tf.flows(m, by=["week", "month"], wide=True),
    "fee_summary of months": lambda t, m: tf.fee_summary(t, m, by=["week", "month"], wide=True),
    "to_ton": lambda t, _: tf.to_ton(tf.fee_breakdown(t)),
}


@pytest.fixture(scope="session")
def tables():
    blocks = tf.read_blocks(tf.sample())
    return blocks.arrow("transactions"), blocks.arrow("messages")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("engine", [*ENGINES[1:], pytest.param("spark", marks=pytest.mark.spark)])
def test_every_engine_gives_its_own_kind_and_the_same_numbers(engine, call, tables, folder):
    expected = collected("pandas", CALLS[call](*(table.to_pandas() for table in tables)))
    result = CALLS[call](*(frame_of(engine, table, folder) for table in tables))
    assert_same(expected, collected(engine, result))
    assert expected.num_rows


@pytest.mark.parametrize("call", [call for call in CALLS if call != "undo_gas_exchange"])
def test_every_helper_takes_the_lake_s_frames(call, tables):
    # There opcodes are signed, bodies bytes, integers narrow; and nothing of ours is beside them.
    expected, found = (CALLS[call](*frames) for frames in (tables, map(lake, tables)))
    assert rows_of(collected("pyarrow", found)) == rows_of(collected("pyarrow", expected))


def test_every_helper_is_called():
    takes_frames = {re.split(" of | without ", name)[0] for name in CALLS}
    helpers = {
        name
        for name in tf.__all__
        if {"transactions", "messages"} & set(getattr(getattr(tf, name), "__annotations__", ()))
    }
    # Bodies are read by Python and pictures drawn: they have tests of their own.
    drawn = {name for name in helpers if name.startswith("plot_")}
    assert takes_frames - {"to_ton"} == helpers - drawn - {"decode_bodies", "parse_transactions"}


def test_only_the_modules_of_engines_know_them():
    modules = {path.stem: path.read_text() for path in Path(engines.__file__).parent.glob("*.py")}
    knowing = {name for name, source in modules.items() if "implementation" in source}
    assert knowing == {"engines", "intake", "sums", "periods", "trees"}


@pytest.mark.parametrize("engine", LAZY[:-1])
def test_what_is_lazy_stays_lazy(engine, tables, folder):
    # That the kind is the same is shown above; this, that nothing was computed to make it.
    transactions, messages = (frame_of(engine, table[:0], folder) for table in tables)
    for call in CALLS.values():
        call(transactions, messages)


def rewritten(rows):
    return rows.with_columns(
        text=nw.when(nw.col("text") == "a").then(nw.lit("z")).otherwise(nw.col("text")),
        number=nw.col("number") + 1,
    )


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
def test_a_step_may_rewrite_a_text_under_its_own_name(engine, tmp_path):
    table = pa.table({"text": ["a", "b", None], "number": [1, 2, 3], "other": ["a", "a", "b"]})
    frame = engines.lazy(frame_of(engine, table, tmp_path))
    for found in (
        engines.by_row(frame, rewritten),
        engines.replace(frame, rewritten, reads=["text", "number"], writes=["text", "number"]),
    ):
        in_memory = engine in ("polars", "pyarrow")
        native = found.collect().to_native() if in_memory else found.to_native()
        rows = collected(engine, native).sort_by("number")
        assert rows["text"].to_pylist() == ["z", "b", None]
        assert rows["number"].to_pylist() == [2, 3, 4]
        assert rows["other"].to_pylist() == ["a", "a", "b"]


def test_columns_that_a_step_does_not_read_pass_as_they_are():
    frame = pd.DataFrame(
        {
            "mine": pd.Series([object(), 2, "x"], dtype=object),
            "text": ["a", "b", None],
            "number": [1, 2, 3],
            "kind": pd.Categorical(["p", "q", "p"]),
        },
        index=[7, 7, 9],
    )
    found = engines.replace(
        engines.lazy(frame), rewritten, reads=["text", "number"], writes=["number"]
    )
    expected = frame.assign(number=pd.array([2, 3, 4], "Int64"))
    assert_frame_equal(found.collect().to_native(), expected)
