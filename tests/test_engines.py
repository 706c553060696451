"""Every helper on every engine: the same kind of frame back, and the same numbers in it."""

from __future__ import annotations

import pytest
from parity import ENGINES, assert_same, collected, frame_of

import tonframes as tf
from tonframes.fees import fee_breakdown, fee_summary, undo_gas_exchange

#: What is called, by a name: transactions and messages in, a frame out.
CALLS = {
    "undo_gas_exchange": lambda t, _: undo_gas_exchange(t),
    "fee_breakdown": lambda t, _: fee_breakdown(t),
    "fee_summary": fee_summary,
    "fee_summary of codes": lambda t, m: fee_summary(t, m, by="compute_exit_code"),
    "fee_summary of opcodes": lambda t, m: fee_summary(t, m, by=["opcode", "hour"]),
}


@pytest.fixture(scope="session")
def tables():
    blocks = tf.read_blocks(tf.sample())
    return blocks.arrow("transactions"), blocks.arrow("messages")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_every_engine_gives_its_own_kind_and_the_same_numbers(engine, call, tables, folder):
    expected = collected("pandas", CALLS[call](*(table.to_pandas() for table in tables)))
    result = CALLS[call](*(frame_of(engine, table, folder) for table in tables))
    assert_same(expected, collected(engine, result))
    assert expected.num_rows
