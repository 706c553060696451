"""Periods: the start of the hour, day, week or month, UTC, on every engine."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import ENGINES, collected, frame_of, stepped

from tonframes.analysis.periods import PERIODS, with_period
from tonframes.wire.codec import FIRST, LAST

SECONDS = st.integers(FIRST, LAST)
#: Seconds that no moment can represent: the year 300000, milliseconds, anything.
ABSURD = [
    -(2**63),
    -(2**62),
    FIRST - 1,
    LAST + 1,
    1_764_000_000_000,
    9_404_898_940_800,
    2**62,
    2**63 - 1,
]


def start(period, second):
    """Return the start of a period by the calendar of the standard library."""
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
    moment = moment.replace(minute=0, second=0)
    if period == "hour":
        return moment
    day = moment.replace(hour=0)
    if period == "week":
        return day - dt.timedelta(days=day.weekday())
    return day.replace(day=1) if period == "month" else day


def with_all(frame):
    for period in PERIODS:
        frame = with_period(frame, period, "now")
    return frame


@given(st.lists(SECONDS, min_size=1))
def test_periods_are_those_of_the_calendar(seconds):
    found = stepped(with_all, pa.table({"now": seconds}))
    for period in PERIODS:
        assert found[period].to_pylist() == [start(period, second) for second in seconds]


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
def test_periods_are_the_same_on_every_engine(engine, tmp_path):
    day = 86_400
    edges = [
        FIRST,
        FIRST + 58 * day,
        LAST,
        -1,
        -day,
        -4 * day,
        0,
        3 * day,
        4 * day - 1,
        4 * day,
        951_782_399,
        951_868_799,
        951_868_800,
        1_767_225_599,
    ]
    table = pa.table({"now": [*edges, *ABSURD]})
    result = stepped(with_all, frame_of(engine, table, tmp_path))
    rows = collected(engine, result).to_pylist()
    for period in PERIODS:
        found = {row["now"]: row[period] for row in rows}
        expected = {second: start(period, second) for second in edges}
        assert found == expected | dict.fromkeys(ABSURD)
