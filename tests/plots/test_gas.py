"""Gas: the histogram, groups, and periods."""

import numpy as np
import pytest
from drawn import named, texts

from tonframes import gas_summary
from tonframes.network.prices import GAS_LIMIT
from tonframes.plots import plot_gas


def test_the_histogram_counts_every_call_once(frames):
    ax = plot_gas(frames[0])
    summary = gas_summary(frames[0]).iloc[0]
    assert sum(bar.get_height() for bar in ax.patches) == summary.calls
    assert [line.get_xdata()[0] for line in ax.lines] == [GAS_LIMIT]
    assert texts(ax.texts) == ["limit 1,000,000,\nused up to 100 %"]
    # Calls that used the whole limit are drawn before it.
    beyond = [bar for bar in ax.patches if bar.get_x() > GAS_LIMIT * 0.999]
    assert not beyond


def test_the_exchange_of_gas_and_fees_is_undone(frames):
    special = frames[0][(frames[0].block_workchain == -1) & (frames[0].compute_gas_used == 0)]
    drawn = [bar for bar in plot_gas(special).patches if bar.get_height()]
    assert sum(bar.get_height() for bar in drawn) == (special.compute_gas_fees > 0).sum()
    assert all(bar.get_x() > 1000 for bar in drawn)


def test_boxes_reach_from_the_median_to_the_95th_percentile(frames):
    ax = plot_gas(frames[0], by="account", top=6)
    summary = gas_summary(frames[0], by="account").head(6)
    (boxes,) = ax.containers
    assert [bar.get_x() for bar in boxes] == summary.gas_median.to_list()
    assert [bar.get_x() + bar.get_width() for bar in boxes] == summary.gas_p95.to_list()
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["median"].get_xdata().tolist() == summary.gas_median.to_list()
    assert lines["maximum"].get_xdata().tolist() == summary.gas_max.to_list()
    assert ax.get_title().startswith("Gas by account, top 6 of ")


def test_hours_without_calls_stay_empty(hours):
    ax = plot_gas(hours[0], by="hour")
    summary = gas_summary(hours[0], by="hour").sort_values("hour")
    median, *_ = named(ax, "median").get_data()
    expected = [*summary.gas_median[:3], np.nan, summary.gas_median.iloc[3]]
    np.testing.assert_array_equal(median, np.array(expected, float))
    assert ax.get_yscale() == "log"


def test_the_limit_is_drawn_where_calls_come_near_it(frames, hours):
    near = frames[0].compute_gas_used.fillna(0) >= GAS_LIMIT / 10
    labels = [line.get_label() for line in plot_gas(frames[0], by="account").lines]
    assert labels.count("limit") == 1
    far = plot_gas(frames[0][~near], by="account")
    assert "limit" not in [line.get_label() for line in far.lines]
    assert far.get_xlim()[1] < GAS_LIMIT
    assert plot_gas(hours[0], by="hour").get_ylim()[0] > 1


@pytest.mark.parametrize("by", [None, "account", "hour"])
def test_gas_of_more_than_any_limit_is_drawn(by, frames):
    used = frames[0].compute_gas_used
    ax = plot_gas(frames[0].assign(compute_gas_used=used.where(used.isna(), 2**62)), by=by)
    ax.figure.draw_without_rendering()
    if by is None:
        assert ax.get_xlim()[1] > 2**62


def test_a_narrow_range_of_gas_has_few_ticks(frames):
    some = frames[0][frames[0].compute_gas_used.between(5000, 9000)]
    ax = plot_gas(some, by="account", top=5)
    low, high = ax.get_xlim()
    assert 2 <= sum(low <= tick <= high for tick in ax.get_xticks()) <= 6
    assert high / low < 5
