"""Activity: numbers by block, by period and by group."""

import numpy as np
from drawn import named, texts

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
