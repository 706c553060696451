"""Frames that users pass: each column has its own name."""

import pandas as pd
import pyarrow as pa
import pytest

import tonframes as tf

BLOCKS = tf.read_blocks(tf.sample(), [90_000_000])
TRANSACTIONS, MESSAGES = BLOCKS.transactions, BLOCKS.messages


def doubled(frame, name):
    return pd.concat([frame, frame[[name]]], axis=1)


def to_arrow(frame):
    columns = [pa.array(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pa.Table.from_arrays(columns, list(frame))


@pytest.mark.parametrize("to_frame", [lambda frame: frame, to_arrow], ids=["pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("helper", "call"),
    [
        ("fee_summary", lambda to: tf.fee_summary(to(doubled(TRANSACTIONS, "lt")))),
        ("gas_summary", lambda to: tf.gas_summary(to(doubled(TRANSACTIONS, "lt")))),
        ("to_ton", lambda to: tf.to_ton(to(doubled(TRANSACTIONS, "lt")))),
        (
            "with_names",
            lambda to: tf.with_names(to(doubled(TRANSACTIONS, "lt")), BLOCKS.address_book),
        ),
        ("decode_bodies", lambda to: tf.decode_bodies(to(doubled(MESSAGES, "tx_lt")))),
        ("write_csv", lambda to: tf.write_csv(to(doubled(MESSAGES, "tx_lt")), "never.csv")),
    ],
)
def test_a_column_that_comes_twice_is_named(helper, call, to_frame):
    match = rf"^{helper} takes a frame in which each column has its own name: '(tx_)?lt' comes 2"
    with pytest.raises(ValueError, match=match):
        call(to_frame)
