"""Cases that only `make test-slow` runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Seeds of the slow run; `make soak` asks for more.
SEEDS = range(int(os.environ.get("SOAK_SEEDS", "6")))


#: For properties of which one example takes as long as ten of others: a quarter of the examples.
FEW = settings(max_examples=settings.default.max_examples // 4 or 1)


def slow(*values: object) -> list[object]:
    """Return parameters that are marked as slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def slow_after(count: int, values: Iterable[object]) -> list[object]:
    """Return parameters of which all but the first `count` are marked as slow."""
    listed = list(values)
    return listed[:count] + slow(*listed[count:])
