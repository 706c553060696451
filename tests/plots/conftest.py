"""Frames to draw, and settings of matplotlib that no test changes."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pyarrow as pa
import pytest
from drawn import TABLES

import tonframes as tf


@pytest.fixture(scope="session")
def frames(blocks):
    return blocks.transactions, blocks.messages


def first(frames, count):
    """Return the first transactions, and their messages."""
    transactions = frames[0].head(count)
    return transactions, frames[1][frames[1].tx_hash.isin(transactions.hash)]


@pytest.fixture(scope="session")
def few(frames):
    return first(frames, 200)


@pytest.fixture(scope="session")
def one(frames):
    return first(frames, 1)


@pytest.fixture(scope="session")
def hours():
    """Six hours with a gap, on frames whose index is not in order."""
    tables = {name: [] for name in TABLES}
    for hour in (0, 1, 2, 5):
        start = 1_780_000_200 + 3600 * hour
        for answer in tf.synthetic_blocks(2, seed=hour, start=start, transactions_per_block=20):
            for name in TABLES:
                tables[name].append(tf.parse_blocks(answer).arrow(name))
    return tuple(pa.concat_tables(tables[name]).to_pandas() for name in TABLES)


@pytest.fixture(autouse=True)
def no_figures():
    """Close the figures of a test, and check that it left the settings as they were."""
    settings = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == dict(settings)
