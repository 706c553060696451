"""Fills, intervals of time, and where stacked parts start."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from drawn import luminance
from matplotlib import dates

from tonframes.plots import style


def test_fills_differ_in_greyscale_and_show_on_white_and_black():
    fills = [fill["facecolor"] for fill in style.FILLS]
    plain = [fill["facecolor"] for fill in style.FILLS if "hatch" not in fill]
    lightness = [116 * luminance(fill) ** (1 / 3) - 16 for fill in plain]
    assert all(after - before >= 13 for before, after in pairwise(lightness))
    hatches = [fill["hatch"] for fill in style.FILLS if "hatch" in fill]
    assert len(set(hatches)) == len(hatches) == len(fills) - len(plain)
    for fill in (style.FILL["facecolor"], fills[-1]):
        light = luminance(fill) + 0.05
        assert 1.05 / light >= 3
        assert light / 0.05 >= 3


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
    found, where = style.time_intervals(moments(*starts), period)
    expected = sorted([*moments(*starts), *moments(*edges)])
    assert found.tolist() == [dates.date2num(edge) for edge in expected]
    assert where.tolist() == places


@pytest.mark.parametrize("period", style.PERIODS)
def test_every_period_of_the_analysis_has_a_length(period):
    edges, _ = style.time_intervals(moments("2026-06-01"), period)
    assert len(edges) == 2


def test_intervals_keep_their_order_and_leave_gaps():
    starts = np.array([7, 1, 2])
    edges, places = style.intervals(starts, starts + 1)
    assert edges.tolist() == [1, 2, 3, 7, 8]
    assert places.tolist() == [3, 0, 1]
