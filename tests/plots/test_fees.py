"""Costs: bars, steps over time, and what cannot be right."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from drawn import lengths, named, texts
from matplotlib import dates

from tonframes import fee_summary, to_ton
from tonframes.plots import plot_fees


@pytest.mark.parametrize("by", ["operation", "account", ["descr", "compute_exit_code"]])
def test_bars_add_up_to_the_cost(by, frames):
    ax = plot_fees(*frames, by=by, top=4)
    cost = fee_summary(*frames, by=by).cost
    shown = cost.to_list()[:4] + [cost[4:].sum()] * (len(cost) > 4)
    np.testing.assert_allclose(lengths(ax), to_ton(pd.Series(shown)), rtol=1e-12)
    assert texts(ax.get_yticklabels())[-1] == f"{len(cost) - 4:,} others"
    assert texts(ax.texts)[0] == f"{cost[0] / 1e9:.3g}"


def test_each_part_of_the_cost_has_a_bar(frames):
    ax = plot_fees(*frames)
    summary = fee_summary(*frames).iloc[0]
    parts = {"gas": summary.gas, "forwarding": summary.fwd_fees, "import": summary["import"]}
    drawn = dict(zip(texts(ax.get_yticklabels()), lengths(ax), strict=True))
    assert drawn.items() >= {name: to_ton(int(part)) for name, part in parts.items()}.items()
    assert "due" not in drawn  # 0 throughout
    assert sum(drawn.values()) == pytest.approx(summary.cost / 1e9, rel=1e-12)
    assert list(drawn.values()) == sorted(drawn.values(), reverse=True)


def test_periods_are_steps_and_gaps_are_zero(hours):
    ax = plot_fees(*hours, by="hour")
    assert ax.get_xlabel() == "UTC"
    assert ax.get_ylabel() == "cost in TON"
    summary = fee_summary(*hours, by="hour").sort_values("hour")
    values, last, _ = ax.patches[-1].get_data()
    costs = to_ton(summary.cost).to_list()
    np.testing.assert_allclose(values, [*costs[:3], 0, costs[3]], rtol=1e-12)
    edges = summary.hour.dt.tz_localize(None).to_list()
    assert last[:3].tolist() == list(map(dates.date2num, edges[:3]))
    gas, *_ = named(ax, "gas").get_data()
    np.testing.assert_allclose(gas[:3], to_ton(summary.gas)[:3], rtol=1e-12)


def test_hours_are_in_utc_whatever_the_settings(hours):
    expected = texts(_drawn(plot_fees(*hours, by="hour")).get_xticklabels())
    with mpl.rc_context({"timezone": "America/New_York"}):
        found = texts(_drawn(plot_fees(*hours, by="hour")).get_xticklabels())
    assert found == expected


def _drawn(ax):
    ax.figure.draw_without_rendering()
    return ax


def test_negative_parts_are_drawn_to_the_left(frames):
    transactions, messages = frames
    rows = transactions[transactions.compute_gas_fees > 0].head(2)
    wrong = rows.assign(total_fees=rows.total_fees - 50_000_000, compute_gas_credit=0)
    ax = plot_fees(wrong, messages, by="account")
    assert all(bar.get_width() < 0 for bar in named(ax, "residual"))
    cost = fee_summary(wrong, messages, by="account").cost
    np.testing.assert_allclose(lengths(ax), to_ton(cost), rtol=1e-9)
    assert ax.get_xlim()[0] < -0.05


def test_transactions_without_fees_are_not_called_missing(frames):
    transactions, messages = frames
    free = transactions[(transactions.descr == "tick_tock") & (transactions.total_fees == 0)]
    ax = plot_fees(free.head(3), messages.head(0), by="account")
    assert texts(ax.texts) == ["no fees"]
