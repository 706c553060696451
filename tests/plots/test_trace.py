"""A trace: messages with both ends, the rows of the tree, and what is drawn of them."""

import matplotlib as mpl
import pandas as pd
import pytest
from drawn import TRANSFER, texts

from tonframes.plots import plot_trace
from tonframes.plots.trace import Message, Row, join_ends, rows_of


def test_each_message_of_the_trace_is_drawn_with_its_value(frames):
    messages = frames[1]
    trace = messages[messages.trace_id == TRANSFER]
    ax = plot_trace(messages, trace_id=TRANSFER)
    values = trace[trace.direction == "in"].value.dropna()
    assert sorted(texts(ax.texts)) == sorted(f"{value / 1e9:.3g}" for value in values)
    widths = [patch.get_linewidth() for patch in ax.patches]
    assert max(widths) == 10
    assert len(widths) == len(values)


def test_rows_name_the_operation_and_below_it_the_account(frames):
    ax = plot_trace(frames[1], trace_id=TRANSFER)
    operations = [text.partition("\n")[0] for text in texts(ax.get_yticklabels())]
    assert operations[:3] == ["external", "jetton transfer", "jetton internal transfer"]
    assert not ax.get_xticks().size


def test_lines_have_the_colours_of_their_operations(frames):
    ax = plot_trace(frames[1], trace_id=TRANSFER, colors={"excess": "red"})
    assert "#ff0000" in {mpl.colors.to_hex(line.get_edgecolor()) for line in ax.patches}


def _frame(*messages):
    columns = ["msg_hash", "source", "destination", "value", "out", "in"]
    frame = pd.DataFrame(messages, columns=columns).astype({"value": "Int64"})
    frame["operation"] = frame["msg_hash"].map("does {}".format)
    ends = [frame.assign(tx_hash=frame[end], direction=end) for end in ("out", "in")]
    return pd.concat(ends).dropna(subset="tx_hash").drop(columns=["out", "in"])


def test_an_unknown_trace_is_refused(blocks):
    with pytest.raises(ValueError, match="plot_trace: no message is of the trace 'unknown'"):
        plot_trace(blocks, trace_id="unknown")


def test_messages_have_both_ends():
    frame = _frame(("m", None, "a", None, None, "t"), ("n", "a", "b", 5, "t", None))
    assert sorted(join_ends(frame), key=lambda message: message.msg_hash) == [
        Message("m", None, "a", None, "does m", None, "t"),
        Message("n", "a", "b", 5, "does n", "t", None),
    ]


def test_rows_are_below_their_cause():
    frame = _frame(
        ("m0", None, "wallet", None, None, "t0"),
        ("m1", "wallet", "shop", 50, "t0", "t1"),
        ("m2", "wallet", "bank", 70, "t0", "t2"),
        ("m3", "bank", "wallet", 60, "t2", "t3"),
        ("m4", "shop", None, None, "t1", None),
    )
    assert rows_of(join_ends(frame), 10) == [
        Row("wallet", None, 0, None, "does m0"),
        Row("bank", 70, 1, 0, "does m2"),
        Row("wallet", 60, 2, 1, "does m3"),
        Row("shop", 50, 1, 0, "does m1"),
        Row(None, None, 2, 3, "does m4"),
    ]


def test_others_are_added_up_and_causes_are_kept():
    many = [(f"n{i}", "wallet", f"a{i}", 10 + i, "t0", f"t{i + 1}") for i in range(9)]
    frame = _frame(
        ("m0", None, "wallet", None, None, "t0"), *many, ("big", "a2", "end", 99, "t3", "te")
    )
    rows = rows_of(join_ends(frame), 2)
    assert rows == [
        Row("wallet", None, 0, None, "does m0"),
        Row("a8", 18, 1, 0, "does n8"),
        Row("a2", 12, 1, 0, "does n2"),
        Row("end", 99, 2, 2, "does big"),
        Row(None, sum(range(10, 18)) - 12, 1, 0, others=7),
    ]


def test_an_incomplete_trace_starts_with_the_known_senders():
    cut = _frame(("m", "far", "a", 5, None, "t"), ("n", "clock", "b", 7, "tick", "u"))
    assert rows_of(join_ends(cut), 10) == [
        Row("clock", None),
        Row("b", 7, 1, 0, "does n"),
        Row("far", None),
        Row("a", 5, 1, 2, "does m"),
    ]


def test_messages_in_a_circle_do_not_hang():
    circle = _frame(("m", "a", "b", 5, "t", "u"), ("n", "b", "a", 7, "u", "t"))
    assert rows_of(join_ends(circle), 10) == []


def test_a_long_trace_has_few_rows():
    rows = [("m0", None, "0:a0", None, None, "t0")]
    rows += [(f"n{i}", "0:a0", f"0:b{i}", i * 10**6, "t0", f"u{i}") for i in range(255)]
    rows += [(f"k{i}", f"0:b{i}", "0:a0", 1, f"u{i}", f"v{i}") for i in range(255)]
    trace = _frame(*rows).assign(trace_id="T", bounced=False, opcode=0x0F8A7EA5)
    ax = plot_trace(trace, trace_id="T", top=8)
    labels = texts(ax.get_yticklabels())
    assert len(labels) <= 20
    assert labels[:2] == ["external\n0:a0", "jetton transfer\n0:b254"]
    assert labels[-1] == "247 others"
