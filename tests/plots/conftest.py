"""Frames to draw, and settings of matplotlib that no test changes."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pytest
from drawn import six_hours


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
    return six_hours()


@pytest.fixture(autouse=True)
def no_figures():
    """Close the figures of a test, and check that it left the settings as they were."""
    settings = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == dict(settings)
