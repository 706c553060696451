"""The chains that the tests of several helpers read."""

from __future__ import annotations

import pytest
from chain import synthetic_blocks
from chains import Answers


@pytest.fixture(scope="session")
def made():
    """Return the answers of a synthetic chain of 1,120 transactions."""
    return Answers(synthetic_blocks(28, seed=3, transactions_per_block=40))


@pytest.fixture(params=["made", "recorded"])
def answers(request):
    """Return the answers of the synthetic chain, then the recorded ones."""
    return request.getfixturevalue(request.param)
