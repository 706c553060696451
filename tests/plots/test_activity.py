"""Activity: numbers by block, by period and by group."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import named, texts
from slow import slow

from tonframes import activity
from tonframes.plots import plot_activity


def test_blocks_are_drawn_at_their_seqnos(frames):
    transactions, messages = (frame[frame.mc_block_seqno % 10 < 7] for frame in frames)
    ax = plot_activity(transactions, messages, by="mc_block_seqno")
    counts = activity(transactions, messages, by="mc_block_seqno").set_index("mc_block_seqno")
    for name in ("transactions", "messages_in", "messages_out"):
        values, edges, _ = named(ax, name.replace("_", " ")).get_data()
        places = np.searchsorted(edges, counts.index.to_numpy("int64")) - 1
        assert values[places].tolist() == counts[name].to_list()
        assert values.sum() == counts[name].sum()


@pytest.mark.parametrize("width", [2.6, 6.4, *slow(3.2, 4)])
def test_seqnos_do_not_overlap_in_narrow_pictures(width, frames):
    figure, ax = plt.subplots(figsize=(width, 2.4), layout="constrained")
    plot_activity(*frames, by="mc_block_seqno", ax=ax)
    figure.draw_without_rendering()
    low, high = ax.get_xlim()
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    boxes = [label.get_window_extent() for tick, label in ticks if low <= tick <= high]
    assert boxes
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_hours_of_a_month_have_the_mean_of_each_day(few):
    seconds = few[0].now.min() // 86_400 * 86_400 + np.arange(len(few[0])) * 6 * 3600
    ax = plot_activity(few[0].assign(now=seconds), by="hour")
    hours, edges, _ = ax.patches[0].get_data()
    means, days, _ = named(ax, "transactions").get_data()
    assert hours.sum() == len(few[0])
    assert len(means) == len(few[0]) // 4
    assert means[:-1] == pytest.approx(4 / 24)
    assert (days[0], days[-1]) == (edges[0], edges[-1])
    assert ax.get_title() == "Activity by hour, with the mean of each day"
    short = plot_activity(few[0].assign(now=seconds).head(9), by="hour")
    assert short.get_title() == "Activity by hour"


def test_without_messages_only_transactions_are_drawn(hours):
    ax = plot_activity(hours[0])
    (steps,) = ax.patches
    assert steps.get_data()[0].tolist() == [40, 40, 40, 0, 40]
    assert ax.get_ylabel() == "transactions"
    assert ax.get_legend() is None


def test_without_columns_to_group_by_there_is_one_group(frames):
    ax = plot_activity(frames[0], by=())
    assert texts(ax.get_yticklabels()) == ["all"]
    assert [bar.get_width() for bar in ax.patches] == [len(frames[0])]


def test_shards_are_written_as_explorers_write_them(frames):
    ax = plot_activity(*frames, by=["block_workchain", "block_shard"])
    assert "-1 · 8000000000000000" in texts(ax.get_yticklabels())
    counts = activity(*frames, by=["block_workchain", "block_shard"])
    for name in ("transactions", "messages_in", "messages_out"):
        drawn = [bar.get_width() for bar in named(ax, name.replace("_", " "))]
        assert sorted(drawn) == sorted(counts[name])
