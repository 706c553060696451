"""Pictures: what is drawn is what the helpers computed, and what is written does nothing."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import dates
from pandas.testing import assert_frame_equal
from parity import frame_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import tonframes as tf
from tonframes.analysis.activity import activity, flows
from tonframes.analysis.failures import failure_summary
from tonframes.analysis.fees import fee_summary
from tonframes.analysis.gas import gas_summary
from tonframes.analysis.units import to_ton
from tonframes.network.prices import GAS_LIMIT
from tonframes.plots import plot_activity, plot_failures, plot_fees, plot_flow, plot_gas, style
from tonframes.plots.tree import Message, Row, messages_of, rows_of

#: A trace of the sample.
LONGEST = "onqUt4ReQejV0t7m/QM4wBlS4I2Ncjw4P+HPWOCpAic="
#: Every kind of picture: a function and its options.
PICTURES = {
    "fees": (plot_fees, {}),
    "fees by hour": (plot_fees, {"by": "hour"}),
    "fees by opcode": (plot_fees, {"by": "opcode"}),
    "fees by two": (plot_fees, {"by": ["account", "descr"], "top": 20}),
    "gas": (plot_gas, {}),
    "gas by day": (plot_gas, {"by": "day"}),
    "gas by code": (plot_gas, {"by": "account_state_code_hash_before"}),
    "gas by opcode": (plot_gas, {"by": "opcode"}),
    "failures": (plot_failures, {}),
    "all failures": (plot_failures, {"top": 40}),
    "activity": (plot_activity, {}),
    "activity by block": (plot_activity, {"by": "mc_block_seqno"}),
    "activity by account": (plot_activity, {"by": "account"}),
    "flow": (plot_flow, {}),
    "trace": (plot_flow, {"trace": LONGEST}),
}
TABLES = ("transactions", "messages")


@pytest.fixture(scope="module")
def blocks():
    return tf.read_blocks(tf.sample())


@pytest.fixture(scope="module")
def frames(blocks):
    return blocks.transactions, blocks.messages


@pytest.fixture(scope="module")
def few(frames):
    return tuple(frame.head(200) for frame in frames)


@pytest.fixture(scope="module")
def hours():
    """Six hours with a gap, on frames whose index is not in order."""
    tables = {name: [] for name in TABLES}
    for hour in (0, 1, 2, 5):
        start = 1_780_000_200 + 3600 * hour
        for body in tf.synthetic_blocks(2, seed=hour, start=start, transactions_per_block=20):
            for name in TABLES:
                tables[name].append(tf.parse_blocks(body).arrow(name))
    return tuple(pa.concat_tables(tables[name]).to_pandas() for name in TABLES)


@pytest.fixture(autouse=True)
def no_figures():
    """Close what a test has opened, and look whether the settings are as they were."""
    settings = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == dict(settings)


def draw(name, transactions, messages, **options):
    plot, more = PICTURES[name]
    if plot is plot_flow:
        return plot(messages, **more, **options)
    if plot is plot_failures:
        return plot(transactions, **more, **options)
    return plot(transactions, messages, **more, **options)


def texts(labels):
    return [label.get_text() for label in labels]


def named(ax, name):
    """Give the bars or steps of a name in the legend."""
    return next(c for c in [*ax.containers, *ax.patches] if c.get_label() == name)


def lengths(ax):
    """Add the bars of each row up."""
    rows = np.zeros(len(ax.get_yticks()))
    for bars in ax.containers:
        for bar in bars:
            rows[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    return rows


# ── every picture ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_on_the_axes_given_and_no_figure_is_made(name, few):
    figure = mpl.figure.Figure()
    ax = figure.subplots()
    assert draw(name, *few, ax=ax) is ax
    assert plt.get_fignums() == []
    assert figure.axes == [ax]
    assert ax.get_title(loc="left")
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", PICTURES)
def test_without_axes_one_figure_is_made_and_nothing_is_shown(name, few, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("shown"))
    ax = draw(name, *few)
    assert plt.get_fignums() == [ax.figure.number]


@pytest.mark.parametrize("name", PICTURES)
def test_an_empty_frame_draws_an_empty_picture_with_its_labels(name, frames):
    ax = draw(name, *(frame.head(0) for frame in frames))
    assert texts(ax.texts)[0].startswith("no ")
    assert ax.get_title(loc="left")
    assert ax.get_xlabel()
    assert not ax.containers
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", PICTURES)
def test_few_rows_are_drawn_without_a_warning(name, rows, frames):
    draw(name, *(frame.head(rows) for frame in frames)).figure.draw_without_rendering()


@pytest.mark.parametrize("name", PICTURES)
def test_arguments_stay_as_they_are(name, few):
    copies = [frame.copy() for frame in few]
    draw(name, *copies)
    for frame, copy in zip(few, copies, strict=True):
        assert_frame_equal(copy, frame)


@pytest.mark.parametrize("engine", ["polars", "duckdb", "pyarrow"])
@pytest.mark.parametrize("name", ["fees by opcode", "gas", "failures", "activity", "flow", "trace"])
def test_frames_of_other_engines_make_the_same_picture(name, engine, blocks, frames, tmp_path):
    expected = draw(name, *frames)
    given = [frame_of(engine, blocks.arrow(table), tmp_path) for table in TABLES]
    found = draw(name, *given)
    assert texts(found.get_yticklabels()) == texts(expected.get_yticklabels())
    for one, other in zip(expected.patches, found.patches, strict=True):
        ends = [patch.get_extents().get_points() for patch in (one, other)]
        np.testing.assert_allclose(ends[0], ends[1], rtol=1e-12)


@pytest.mark.parametrize("name", PICTURES)
def test_labels_lie_inside_of_the_figure_and_not_on_each_other(name, frames):
    ax = draw(name, *frames)
    figure = ax.figure
    figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        labels = [label for place, label in ticks if low <= place <= high and label.get_text()]
        assert all(figure.bbox.containsx(end) for label in labels for end in _ends(label))
        if all(label.get_rotation() == 0 for label in labels):
            boxes = [label.get_window_extent().shrunk(0.98, 0.9) for label in labels]
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    if legend := ax.get_legend():
        box = legend.get_window_extent()
        assert box.x0 >= ax.bbox.x1
        assert box.x1 <= figure.bbox.x1 + 1


def _ends(label):
    box = label.get_window_extent()
    return box.x0 + 1, box.x1 - 1


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_written_has_the_colour_of_the_style(name, few):
    with plt.style.context("dark_background"):
        ax = mpl.figure.Figure().subplots()
    draw(name, *few, ax=ax)  # by then another style is in force
    legend = ax.get_legend()
    written = [ax.title, ax.xaxis.label, *ax.get_yticklabels(), *(legend.texts if legend else ())]
    if name != "flow":  # figures in its fields stand on fills
        written += ax.texts
    for axis in ax.child_axes:
        written += [axis.yaxis.label, *axis.get_yticklabels()]
    assert {mpl.colors.to_hex(text.get_color()) for text in written} == {"#ffffff"}


def test_fills_differ_in_greyscale_and_show_on_white_and_black():
    fills = [fill["facecolor"] for fill in style.FILLS]
    plain = [fill["facecolor"] for fill in style.FILLS if "hatch" not in fill]
    steps = [_lightness(fill) for fill in plain]
    assert all(after - before >= 13 for before, after in pairwise(steps))
    hatched = [fill["hatch"] for fill in style.FILLS if "hatch" in fill]
    assert len(set(hatched)) == len(hatched) == len(fills) - len(plain)
    for fill in (style.FILL["facecolor"], fills[-1]):
        light = _luminance(fill) + 0.05
        assert 1.05 / light >= 3
        assert light / 0.05 >= 3


def _luminance(color):
    levels = np.array(mpl.colors.to_rgb(color))
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def _lightness(color):
    return 116 * _luminance(color) ** (1 / 3) - 16


def test_importing_draws_nothing():
    code = "import sys, tonframes.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", PICTURES)
def test_axes_of_another_kind_are_refused(name, few):
    with pytest.raises(TypeError, match="ax is Axes of matplotlib or None, not 'left'"):
        draw(name, *few, ax="left")


@pytest.mark.parametrize(
    ("top", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_wrong_counts_of_groups_are_refused_before_a_figure_is_made(top, error, few):
    for plot in (plot_fees, plot_activity):
        with pytest.raises(error, match="top "):
            plot(*few, by="account", top=top)
    for plot in (plot_gas, plot_failures):
        with pytest.raises(error, match="top "):
            plot(few[0], top=top)
    with pytest.raises(error, match="top "):
        plot_flow(few[1], top=top)
    assert plt.get_fignums() == []


def test_what_the_helpers_refuse_leaves_no_figure(frames):
    transactions, messages = frames
    with pytest.raises(ValueError, match="total_fees"):
        plot_fees(transactions.drop(columns="total_fees"), messages)
    with pytest.raises(ValueError, match="plot_flow needs the column 'msg_hash'"):
        plot_flow(messages.drop(columns="msg_hash"), trace=LONGEST)
    with pytest.raises(TypeError, match="a trace is named by its trace_id, a text, not 7"):
        plot_flow(messages, trace=7)
    with pytest.raises(ValueError, match="plot_fees needs the column 'domain' of address_book"):
        plot_fees(
            transactions, messages, by="account", address_book=pd.DataFrame({"address": ["0:0"]})
        )
    assert plt.get_fignums() == []


# ── text from the chain ──────────────────────────────────────────────────────────────────────────

NAMES = ["a$x_1$.ton", "$\\frac", "two\nlines", "\u202egnp.ton", "x" * 126]


@pytest.fixture
def address_book(frames):
    accounts = frames[0].account.value_counts().index[: len(NAMES)]
    return pd.DataFrame(
        {
            "address": accounts,
            "domain": pd.Series(NAMES, dtype="str"),
            "user_friendly": pd.Series([None] * len(NAMES), dtype="str"),
            "fetched_at": pd.Timestamp("2026-05-28", tz="UTC"),
        }
    )


def test_names_do_nothing_where_they_are_written(frames, address_book):
    ax = plot_activity(*frames, by="account", top=len(NAMES), address_book=address_book)
    labels = ax.get_yticklabels()
    assert texts(labels)[:4] == [*NAMES[:2], "two\\nlines", "\\u202egnp.ton"]
    assert texts(labels)[4] == "x" * 15 + "…" + "x" * 10
    assert not any(label.get_parse_math() or label.get_usetex() for label in labels)
    ax.figure.draw_without_rendering()


def test_no_text_of_the_chain_is_taken_for_a_formula(frames):
    wild = "$\\a\u202e$"
    transactions, messages = (
        frame.head(30).assign(trace_id=wild, hostile=wild) for frame in frames
    )
    pictures = (
        plot_fees(transactions, messages, by="hostile"),
        plot_gas(transactions, by=["hostile", "trace_id"]),
        plot_flow(messages, trace=wild),
        plot_fees(transactions.rename(columns={"hostile": wild}), messages, by=wild),
    )
    for ax in pictures:
        ax.figure.draw_without_rendering()
        shown = [*ax.get_yticklabels(), ax.yaxis.label, ax._left_title]
        assert any("$\\a\\u202e$" in text for text in texts(shown))


def test_usetex_does_not_reach_text_of_the_chain(frames, address_book):
    with mpl.rc_context({"text.usetex": True}):
        ax = plot_activity(frames[0], by="account", top=3, address_book=address_book)
    assert not any(label.get_usetex() for label in [*ax.get_yticklabels(), ax._left_title])


def test_addresses_are_short_and_names_may_be_of_another_engine(blocks, frames, tmp_path):
    plain = plot_flow(frames[1], top=3)
    assert all(len(text) == 11 for text in texts(plain.get_yticklabels())[:3])
    assert all(text.startswith("0:") for text in texts(plain.get_yticklabels())[:3])
    book = frame_of("polars", blocks.arrow("address_book"), tmp_path)
    known = texts(plot_flow(frames[1], top=3, address_book=book).get_yticklabels())
    assert all(text[:2] in ("EQ", "UQ") or text.endswith(".ton") for text in known[:3])


# ── fees ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", ["opcode", "account", ["descr", "compute_exit_code"]])
def test_bars_of_fees_add_up_to_the_cost(by, frames):
    ax = plot_fees(*frames, by=by, top=4)
    cost = fee_summary(*frames, by=by).cost
    shown = cost.to_list()[:4] + [cost[4:].sum()] * (len(cost) > 4)
    np.testing.assert_allclose(lengths(ax), to_ton(pd.Series(shown)), rtol=1e-12)
    assert texts(ax.get_yticklabels())[-1] == f"{len(cost) - 4:,} others"
    assert texts(ax.texts)[0] == f"{cost[0] / 1e9:.3g}"


def test_each_part_of_the_fees_has_its_bar(frames):
    ax = plot_fees(*frames)
    summary = fee_summary(*frames).iloc[0]
    parts = {"gas": summary.gas, "forwarding": summary.fwd_fees, "import": summary["import"]}
    drawn = dict(zip(texts(ax.get_yticklabels()), lengths(ax), strict=True))
    assert drawn.items() >= {name: to_ton(int(part)) for name, part in parts.items()}.items()
    assert "due" not in drawn  # 0 throughout
    assert sum(drawn.values()) == pytest.approx(summary.cost / 1e9, rel=1e-12)
    assert list(drawn.values()) == sorted(drawn.values(), reverse=True)


def test_fees_over_time_are_steps_with_nothing_in_the_gap(hours):
    ax = plot_fees(*hours, by="hour")
    assert ax.get_xlabel() == "UTC"
    summary = fee_summary(*hours, by="hour").sort_values("hour")
    values, last, _ = ax.patches[-1].get_data()
    costs = to_ton(summary.cost).to_list()
    np.testing.assert_allclose(values, [*costs[:3], 0, costs[3]], rtol=1e-12)
    edges = summary.hour.dt.tz_localize(None).to_list()
    assert last[:3].tolist() == list(map(dates.date2num, edges[:3]))
    gas, *_ = named(ax, "gas").get_data()
    np.testing.assert_allclose(gas[:3], to_ton(summary.gas)[:3], rtol=1e-12)


def test_hours_are_utc_whatever_the_settings_say(hours):
    expected = texts(_drawn(plot_fees(*hours, by="hour")).get_xticklabels())
    with mpl.rc_context({"timezone": "America/New_York"}):
        found = texts(_drawn(plot_fees(*hours, by="hour")).get_xticklabels())
    assert found == expected


def _drawn(ax):
    ax.figure.draw_without_rendering()
    return ax


def test_what_is_violated_is_drawn_to_the_left(frames):
    transactions, messages = frames
    rows = transactions[transactions.compute_gas_fees > 0].head(2)
    wrong = rows.assign(total_fees=rows.total_fees - 50_000_000, compute_gas_credit=0)
    ax = plot_fees(wrong, messages, by="account")
    assert all(bar.get_width() < 0 for bar in named(ax, "residual"))
    cost = fee_summary(wrong, messages, by="account").cost
    np.testing.assert_allclose(lengths(ax), to_ton(cost), rtol=1e-9)
    assert ax.get_xlim()[0] < -0.05


def test_transactions_that_cost_nothing_are_told_from_none(frames):
    transactions, messages = frames
    free = transactions[(transactions.descr == "tick_tock") & (transactions.total_fees == 0)]
    ax = plot_fees(free.head(3), messages.head(0), by="account")
    assert texts(ax.texts) == ["no fees"]


# ── gas ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_distribution_of_gas_counts_every_call_once(frames):
    ax = plot_gas(frames[0])
    summary = gas_summary(frames[0]).iloc[0]
    assert sum(bar.get_height() for bar in ax.patches) == summary.calls
    assert [line.get_xdata()[0] for line in ax.lines] == [GAS_LIMIT]
    assert texts(ax.get_legend().texts) == ["limit 1,000,000,\nused to 100 %"]
    # Calls that used the limit up stand before it, not beyond.
    beyond = [bar for bar in ax.patches if bar.get_x() > GAS_LIMIT * 0.999]
    assert not beyond


def test_gas_of_which_fees_were_exchanged_is_drawn_as_it_was(frames):
    special = frames[0][(frames[0].block_workchain == -1) & (frames[0].compute_gas_used == 0)]
    drawn = [bar for bar in plot_gas(special).patches if bar.get_height()]
    assert sum(bar.get_height() for bar in drawn) == (special.compute_gas_fees > 0).sum()
    assert all(bar.get_x() > 1000 for bar in drawn)


def test_groups_reach_from_the_median_to_the_95th_percentile(frames):
    ax = plot_gas(frames[0], by="account", top=6)
    summary = gas_summary(frames[0], by="account").head(6)
    (boxes,) = ax.containers
    assert [bar.get_x() for bar in boxes] == summary.gas_median.to_list()
    assert [bar.get_x() + bar.get_width() for bar in boxes] == summary.gas_p95.to_list()
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["median"].get_xdata().tolist() == summary.gas_median.to_list()
    assert lines["maximum"].get_xdata().tolist() == summary.gas_max.to_list()
    assert ax.get_title(loc="left").startswith("Gas of a call: the dearest 6 of ")


def test_gas_over_time_leaves_hours_without_calls_out(hours):
    ax = plot_gas(hours[0], by="hour")
    summary = gas_summary(hours[0], by="hour").sort_values("hour")
    median, *_ = named(ax, "median").get_data()
    expected = [*summary.gas_median[:3], np.nan, summary.gas_median.iloc[3]]
    np.testing.assert_array_equal(median, np.array(expected, float))
    assert ax.get_yscale() == "log"


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def test_failures_are_counted_by_code_and_phase(frames):
    ax = plot_failures(frames[0], top=5)
    summary = failure_summary(frames[0])
    counts = summary.failures.to_list()
    assert lengths(ax).tolist() == [*counts[:5], sum(counts[5:])]
    totals = summary.groupby("phase").failures.sum()
    for phase, total in totals.items():
        bars = [bars for bars in ax.containers if bars.get_label() == phase]
        assert sum(bar.get_width() for one in bars for bar in one) == total
    labels = texts(ax.get_yticklabels())
    assert labels[:2] == ["no_gas", "37 · not enough TON"]
    assert ax.get_legend().get_title().get_text() == "phase"


# ── activity ─────────────────────────────────────────────────────────────────────────────────────


def test_activity_by_block_is_drawn_at_the_blocks(frames):
    transactions, messages = (frame[frame.mc_block_seqno % 10 < 7] for frame in frames)
    ax = plot_activity(transactions, messages, by="mc_block_seqno")
    counts = activity(transactions, messages, by="mc_block_seqno").set_index("mc_block_seqno")
    for name in ("transactions", "messages_in", "messages_out"):
        values, edges, _ = named(ax, name.replace("_", " ")).get_data()
        places = np.searchsorted(edges, counts.index.to_numpy("int64")) - 1
        assert values[places].tolist() == counts[name].to_list()
        assert values.sum() == counts[name].sum()


def test_activity_without_messages_counts_transactions_alone(hours):
    ax = plot_activity(hours[0])
    (steps,) = ax.patches
    assert steps.get_data()[0].tolist() == [40, 40, 40, 0, 40]
    assert ax.get_ylabel() == "transactions"
    assert ax.get_legend() is None


def test_activity_of_all_is_one_group(frames):
    ax = plot_activity(frames[0], by=())
    assert texts(ax.get_yticklabels()) == ["all"]
    assert [bar.get_width() for bar in ax.patches] == [len(frames[0])]


def test_activity_by_shard_names_shards_as_explorers_do(frames):
    ax = plot_activity(*frames, by=["block_workchain", "block_shard"])
    assert "-1 · 8000000000000000" in texts(ax.get_yticklabels())
    counts = activity(*frames, by=["block_workchain", "block_shard"])
    for name in ("transactions", "messages_in", "messages_out"):
        drawn = [bar.get_width() for bar in named(ax, name.replace("_", " "))]
        assert sorted(drawn) == sorted(counts[name])


# ── flows ────────────────────────────────────────────────────────────────────────────────────────


def test_the_matrix_adds_up_to_all_that_was_sent(frames):
    ax = plot_flow(frames[1], top=5)
    (mesh,) = ax.collections
    pairs = flows(frames[1])
    total = sum(map(int, pairs.value))
    fields = mesh.get_array()
    assert fields.shape == (6, 6)
    assert fields.sum() == pytest.approx(total / 1e9, rel=1e-12)
    sent = pairs.assign(value=[int(value) for value in pairs.value]).groupby("source").value.sum()
    largest = sorted(sent, reverse=True)[:5]
    np.testing.assert_allclose(fields.sum(axis=1)[:5], [value / 1e9 for value in largest])


def test_figures_are_read_on_the_fill_that_they_stand_on(frames):
    ax = plot_flow(frames[1])
    (mesh,) = ax.collections
    for text in ax.texts:
        column, row = text.get_position()
        fill = mesh.cmap(mesh.norm(mesh.get_array()[int(row), int(column)]))
        light, dark = sorted([_luminance(fill), _luminance(text.get_color())], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_trace_is_drawn_as_the_messages_went(frames):
    messages = frames[1]
    trace = messages[messages.trace_id == LONGEST]
    ax = plot_flow(messages, trace=LONGEST)
    values = trace[trace.direction == "in"].value.dropna()
    (right,) = ax.child_axes
    shown = [text for text in texts(right.get_yticklabels()) if text]
    assert sorted(shown) == sorted(f"{value / 1e9:.3g}" for value in values)
    widths = [patch.get_linewidth() for patch in ax.patches]
    assert max(widths) == 10
    assert len(widths) == len(values)


def _frame(*messages):
    columns = ["msg_hash", "source", "destination", "value", "out", "in"]
    frame = pd.DataFrame(messages, columns=columns).astype({"value": "Int64"})
    ends = [frame.assign(tx_hash=frame[end], direction=end) for end in ("out", "in")]
    return pd.concat(ends).dropna(subset="tx_hash").drop(columns=["out", "in"])


def test_a_message_is_put_together_from_its_ends():
    frame = _frame(("m", None, "a", None, None, "t"), ("n", "a", "b", 5, "t", None))
    assert sorted(messages_of(frame), key=lambda message: message.msg_hash) == [
        Message("m", None, "a", None, None, "t"),
        Message("n", "a", "b", 5, "t", None),
    ]


def test_a_tree_has_the_rows_below_their_cause():
    frame = _frame(
        ("m0", None, "wallet", None, None, "t0"),
        ("m1", "wallet", "shop", 50, "t0", "t1"),
        ("m2", "wallet", "bank", 70, "t0", "t2"),
        ("m3", "bank", "wallet", 60, "t2", "t3"),
        ("m4", "shop", None, None, "t1", None),
    )
    assert rows_of(messages_of(frame), 10) == [
        Row("wallet", None, 0, None),
        Row("bank", 70, 1, 0),
        Row("wallet", 60, 2, 1),
        Row("shop", 50, 1, 0),
        Row(None, None, 2, 3),
    ]


def test_a_tree_sums_up_what_is_not_drawn_and_keeps_what_led_to_what_is():
    many = [(f"n{i}", "wallet", f"a{i}", 10 + i, "t0", f"t{i + 1}") for i in range(9)]
    frame = _frame(
        ("m0", None, "wallet", None, None, "t0"), *many, ("big", "a2", "end", 99, "t3", "te")
    )
    rows = rows_of(messages_of(frame), 2)
    assert rows == [
        Row("wallet", None, 0, None),
        Row("a8", 18, 1, 0),
        Row("a2", 12, 1, 0),
        Row("end", 99, 2, 2),
        Row(None, sum(range(10, 18)) - 12, 1, 0, others=7),
    ]


def test_a_tree_that_is_cut_begins_with_who_sent_into_it():
    cut = _frame(("m", "far", "a", 5, None, "t"), ("n", "clock", "b", 7, "tick", "u"))
    assert rows_of(messages_of(cut), 10) == [
        Row("clock", None),
        Row("b", 7, 1, 0),
        Row("far", None),
        Row("a", 5, 1, 2),
    ]


def test_a_tree_that_cannot_be_comes_to_an_end():
    circle = _frame(("m", "a", "b", 5, "t", "u"), ("n", "b", "a", 7, "u", "t"))
    assert rows_of(messages_of(circle), 10) == []


def test_a_long_trace_is_drawn_in_few_rows():
    rows = [("m0", None, "0:a0", None, None, "t0")]
    rows += [(f"n{i}", "0:a0", f"0:b{i}", i * 10**6, "t0", f"u{i}") for i in range(255)]
    rows += [(f"k{i}", f"0:b{i}", "0:a0", 1, f"u{i}", f"v{i}") for i in range(255)]
    ax = plot_flow(_frame(*rows).assign(trace_id="T"), trace="T", top=8)
    labels = texts(ax.get_yticklabels())
    assert len(labels) <= 20
    assert labels[-1] == "247 others"
