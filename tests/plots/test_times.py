"""Intervals of time."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import dates

from tonframes.analysis.periods import PERIODS
from tonframes.plots import times


def moments(*texts):
    return pd.Series(pd.DatetimeIndex(texts, tz="UTC"))


@pytest.mark.parametrize(
    ("period", "starts", "edges", "places"),
    [
        ("hour", ["2026-05-28 22:00", "2026-05-28 23:00"], ["2026-05-29"], [0, 1]),
        ("day", ["2026-02-28", "2026-02-27"], ["2026-03-01"], [1, 0]),
        ("week", ["2026-05-25", "2026-06-08"], ["2026-06-01", "2026-06-15"], [0, 2]),
        ("month", ["2024-02-01", "2023-12-01"], ["2024-01-01", "2024-03-01"], [2, 0]),
    ],
)
def test_periods_end_where_the_next_one_starts(period, starts, edges, places):
    found, where = times.time_intervals(moments(*starts), period)
    expected = sorted([*moments(*starts), *moments(*edges)])
    assert found.tolist() == [dates.date2num(edge) for edge in expected]
    assert where.tolist() == places


@pytest.mark.parametrize("period", PERIODS)
def test_every_period_of_the_analysis_has_a_length(period):
    edges, _ = times.time_intervals(moments("2026-06-01"), period)
    assert len(edges) == 2


def test_intervals_keep_their_order_and_leave_gaps():
    starts = np.array([7, 1, 2])
    edges, places = times.intervals(starts, starts + 1)
    assert edges.tolist() == [1, 2, 3, 7, 8]
    assert places.tolist() == [3, 0, 1]


def test_one_period_alone_is_not_drawn_over_time():
    two = pd.DataFrame({"day": moments("2026-06-01", "2026-06-02")})
    assert times.period_of(["day"], two) == "day"
    assert times.period_of(["day"], two.head(1)) is None
    assert times.period_of(["day", "account"], two) is None
