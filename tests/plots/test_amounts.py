"""Amounts in TON, in nanoton and in a currency."""

import numpy as np
import pandas as pd
import pytest
from drawn import TRANSFER, lengths, texts

from tonframes import TonframesWarning, fee_summary
from tonframes.plots import plot_fees, plot_flows, plot_trace

DAYS = pd.date_range("2026-05-01", "2026-06-30")


@pytest.fixture(scope="module")
def prices():
    """Made-up prices of 1 TON, the same on every day."""
    return pd.Series(4.0, index=DAYS)


def cells(ax):
    return ax.collections[0].get_array().filled(0)


def test_costs_in_a_currency_are_those_of_the_summary(frames, prices):
    ax = plot_fees(*frames, by="operation", top=4, unit="USD", prices=prices)
    costs = fee_summary(*frames, by="operation", prices=prices).cost_usd
    np.testing.assert_allclose(lengths(ax)[:4], costs[:4].astype(float), rtol=1e-9)
    assert ax.get_xlabel() == "cost in USD"


def test_costs_in_nanoton_are_whole_numbers(frames):
    ax = plot_fees(*frames, by="operation", top=4, unit="nanoton")
    assert lengths(ax)[:4].tolist() == fee_summary(*frames, by="operation").cost[:4].to_list()
    assert ax.get_xlabel() == "cost in nanoton"


def test_flows_and_traces_have_the_same_units(frames, prices):
    in_ton = cells(plot_flows(frames[1], top=4))
    in_euro = plot_flows(frames[1], top=4, unit="EUR", prices=prices)
    np.testing.assert_allclose(cells(in_euro), 4 * in_ton, rtol=1e-9)
    assert in_euro.get_title() == "Value sent, in EUR"
    in_nanoton = cells(plot_flows(frames[1], top=4, unit="nanoton"))
    np.testing.assert_allclose(in_nanoton, 1e9 * in_ton, rtol=1e-12)
    drawn = {}
    for unit, given in {"TON": None, "nanoton": None, "USD": prices}.items():
        ax = plot_trace(frames[1], trace_id=TRANSFER, unit=unit, prices=given)
        assert unit in ax.get_title()
        drawn[unit] = texts(ax.texts)
    assert drawn["TON"] == ["0.15", "0.149", "0.109", "0.01"]
    assert drawn["USD"] == ["0.6", "0.596", "0.435", "0.04"]
    assert drawn["nanoton"][0] == "150 million"


@pytest.mark.filterwarnings("ignore::tonframes.TonframesWarning")
def test_amounts_before_the_first_price_are_unknown_and_not_zero(hours):
    late = pd.Series([4.0], index=[hours[0].block_time.sort_values().iloc[60].floor("h")])
    bars = plot_fees(*hours, by=["hour", "descr"], unit="USD", prices=late)
    assert "unknown" in texts(bars.texts)
    steps = plot_fees(*hours, by="hour", unit="USD", prices=late)
    heights, *_ = steps.patches[0].get_data()
    assert np.isnan(heights[0])
    assert heights[-1] > 0
    for ax in (bars, steps):
        ax.figure.draw_without_rendering()


def test_without_any_price_nothing_is_drawn(few):
    later = pd.Series([4.0], index=pd.DatetimeIndex(["2030-01-01"]))
    with pytest.warns(TonframesWarning):
        ax = plot_fees(*few, by="operation", unit="USD", prices=later)
    assert texts(ax.texts) == ["prices unknown"]
    with pytest.warns(TonframesWarning):
        ax = plot_flows(few[1], unit="USD", prices=later)
    assert texts(ax.texts) == ["prices unknown"]


@pytest.mark.parametrize(
    ("unit", "error", "message"),
    [
        ("USD", ValueError, "plot_fees needs prices= to draw amounts in USD"),
        (7, TypeError, "plot_fees draws amounts in TON, nanoton or a currency, not 7"),
        ("", TypeError, "plot_fees draws amounts in TON, nanoton or a currency, not ''"),
    ],
)
def test_wrong_units_raise(unit, error, message, few):
    with pytest.raises(error, match=message):
        plot_fees(*few, unit=unit)


def test_prices_without_a_currency_raise(few, prices):
    with pytest.raises(ValueError, match='name the currency of the prices, such as unit="USD"'):
        plot_fees(*few, prices=prices)
