"""Flows: the matrix of senders and receivers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawn import luminance, texts

from tonframes import flows
from tonframes.errors import TonframesWarning
from tonframes.plots import plot_fees, plot_flows
from tonframes.plots.labels import short


def test_the_matrix_adds_up_to_the_value_sent(frames):
    ax = plot_flows(frames[1], top=5)
    (mesh,) = ax.collections
    pairs = flows(frames[1])
    total = sum(map(int, pairs.value))
    cells = mesh.get_array()
    assert cells.shape == (6, 6)
    assert cells.sum() == pytest.approx(total / 1e9, rel=1e-12)
    sent = pairs.assign(value=[int(value) for value in pairs.value]).groupby("source").value.sum()
    largest = sorted(sent, reverse=True)[:5]
    np.testing.assert_allclose(cells.sum(axis=1)[:5], [value / 1e9 for value in largest])


def test_cells_with_an_unknown_price_have_a_question_mark(frames):
    messages = frames[1]
    middle = pd.to_datetime(int(messages.tx_now.median()), unit="s", utc=True)
    prices = pd.Series([2.0, 3.0], index=[middle, middle + pd.Timedelta(days=1)])
    with pytest.warns(TonframesWarning, match="before the first price"):
        ax = plot_flows(messages, top=5, unit="USD", prices=prices)
    (mesh,) = ax.collections
    marked = {text.get_position() for text in ax.texts if text.get_text() == "?"}
    with pytest.warns(TonframesWarning, match="before the first price"):
        pairs = flows(messages, prices=prices)
    unknown = pairs.value_usd.isna()
    assert unknown.any()
    assert not unknown.all()
    assert marked
    assert ax.get_title() == "Value sent, in USD (?: price unknown)"
    cells = mesh.get_array()
    assert all(cells.mask[row, column] for column, row in marked)
    drawn = np.ma.count(cells)
    assert drawn + len(marked) <= cells.size


def test_very_low_prices_are_drawn(few):
    days = pd.to_datetime(["2026-05-28", "2026-05-29"])
    ax = plot_fees(*few, by="operation", unit="USD", prices=pd.Series([1e-300] * 2, index=days))
    ax.figure.draw_without_rendering()
    assert all(len(text) < 12 for text in texts(ax.texts))


def test_a_single_value_is_drawn(frames):
    some = frames[1][frames[1].value > 0].head(1)
    ax = plot_flows(some)
    assert texts(ax.texts) == [short(int(some.value.iloc[0]) / 1e9)]


def test_numbers_stay_in_their_cells(frames):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    plot_flows(frames[1], ax=left)
    plot_flows(frames[1], top=4, unit="nanoton", ax=right)
    figure.draw_without_rendering()
    for ax in (left, right):
        cell = ax.get_window_extent().width / len(ax.get_xticks())
        assert all(text.get_window_extent().width <= cell for text in ax.texts)


def test_one_long_number_makes_only_itself_smaller(frames):
    sizes = {text.get_text(): text.get_fontsize() for text in plot_flows(frames[1]).texts}
    assert sizes.pop("2\nbillion") < min(sizes.values())
    assert len(set(sizes.values())) == 1


def test_a_scale_of_one_colour_raises(few):
    with pytest.raises(ValueError, match="colors= needs at least two colours, and has 1"):
        plot_flows(few[1], colors=["red"])


def test_prices_that_are_too_high_to_draw_raise(few):
    prices = pd.Series([1e300] * 2, index=pd.to_datetime(["2026-05-28", "2026-05-29"]))
    for plot in (plot_flows, plot_fees):
        with pytest.raises(ValueError, match="amounts in USD are too large to be drawn, up to "):
            plot(*(few[1:] if plot is plot_flows else few), unit="USD", prices=prices)


def test_numbers_are_readable_on_their_fills(frames):
    ax = plot_flows(frames[1])
    (mesh,) = ax.collections
    for text in ax.texts:
        column, row = text.get_position()
        fill = mesh.cmap(mesh.norm(mesh.get_array()[int(row), int(column)]))
        light, dark = sorted([luminance(fill), luminance(text.get_color())], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
