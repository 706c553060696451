"""Intervals of time."""

import numpy as np
import pandas as pd
import pytest
from drawn import texts
from matplotlib import dates
from slow import slow

from tonframes.analysis.periods import PERIODS
from tonframes.errors import TonframesWarning
from tonframes.plots import plot_activity, plot_failures, plot_fees, plot_gas, times


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
    two = pd.DataFrame({"day": moments("2026-06-01", "2026-06-02"), "transactions": [0, 0]})
    for keys, groups, period in (
        (["day"], two, "day"),
        (["day"], two.head(1), None),
        (["day", "account"], two, None),
        (["day"], two.assign(day=[two.day[0], pd.NaT]), None),
    ):
        found, kept = times.over_time("plot_fees", keys, groups)
        assert found == period
        assert kept.equals(groups)


@pytest.mark.parametrize("period", ["month", *slow("hour", "day", "week")])
@pytest.mark.parametrize("plot", [plot_activity, plot_failures, plot_fees, plot_gas])
def test_rows_without_a_time_are_left_out_and_counted(plot, period, frames):
    transactions, messages = frames[0].copy(), frames[1]
    quarter = len(transactions) // 4
    months = np.arange(len(transactions)) // quarter % 2
    known = transactions.now.to_numpy("int64") + 31 * 86_400 * months
    now = pd.Series(known, transactions.index, "Int64")
    now.iloc[2 * quarter : 3 * quarter] = pd.NA
    now.iloc[3 * quarter :: 2] = 253_402_300_800  # the year 10000
    now.iloc[3 * quarter + 1 :: 2] = 253_402_300_799
    rest = transactions.assign(now=now).iloc[: 2 * quarter]
    expected = plot(rest, messages[messages.tx_hash.isin(rest.hash)], by=period)
    with pytest.warns(TonframesWarning, match=rf"^{plot.__name__} leaves out [\d,]+ \w+: ") as told:
        ax = plot(transactions.assign(now=now), messages, by=period)
    ax.figure.draw_without_rendering()
    assert len(told) == 1
    assert ax.get_xlim() == expected.get_xlim()
    assert len(ax.patches) == len(expected.patches)
    for found, drawn in zip(ax.patches, expected.patches, strict=True):
        np.testing.assert_array_equal(found.get_data()[0], drawn.get_data()[0])


def test_the_number_of_rows_left_out_is_exact(hours):
    transactions = hours[0].assign(now=hours[0].now.astype("Int64"))
    transactions.iloc[:3, transactions.columns.get_loc("now")] = pd.NA
    with pytest.warns(TonframesWarning, match="leaves out 3 transactions"):
        ax = plot_activity(transactions, by="hour")
    assert sum(ax.patches[0].get_data()[0]) == len(transactions) - 3


def test_bars_have_a_row_for_transactions_without_a_time(few):
    transactions = few[0].assign(now=few[0].now.astype("Int64"))
    transactions.iloc[:3, transactions.columns.get_loc("now")] = pd.NA
    assert texts(plot_activity(transactions, by="month").get_yticklabels()) == ["2026-05", "none"]
