"""Every kind of plot: Axes, arguments, engines, labels and colours."""

import subprocess
import sys
from itertools import combinations, pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawn import PLOTS, TABLES, TRANSFER, draw, luminance, texts
from pandas.testing import assert_frame_equal
from parity import frame_of
from slow import slow, slow_after

from tonframes.plots import (
    plot_activity,
    plot_failures,
    plot_fees,
    plot_flows,
    plot_gas,
    plot_trace,
)

#: One plot of each function.
FUNCTIONS = ["fees by operation", "gas", "failures by operation", "activity", "flows", "trace"]
#: All plots, of which the ordinary run draws one of each function.
ALL = FUNCTIONS + slow(*(name for name in PLOTS if name not in FUNCTIONS))
#: The plots of all rows, which may be none.
OF_ALL_ROWS = [name for name in ALL if name != "trace"]


@pytest.mark.parametrize("name", ALL)
def test_draws_on_the_given_axes_and_changes_no_argument(name, few):
    copies = [frame.copy() for frame in few]
    figure = mpl.figure.Figure()
    ax = figure.subplots()
    assert draw(name, *few, ax=ax) is ax
    assert plt.get_fignums() == []
    assert figure.axes == [ax]
    assert ax.get_title()
    figure.draw_without_rendering()
    for frame, copy in zip(few, copies, strict=True):
        assert_frame_equal(frame, copy)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_axes_creates_one_figure_and_does_not_show_it(name, few, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("shown"))
    ax = draw(name, *few)
    assert plt.get_fignums() == [ax.figure.number]


@pytest.mark.parametrize("name", OF_ALL_ROWS)
def test_empty_frames_draw_labels_and_a_note(name, frames):
    ax = draw(name, *(frame.head(0) for frame in frames))
    assert texts(ax.texts)[0].startswith("no ")
    assert ax.get_title()
    assert not ax.containers
    assert not any(spine.get_visible() for spine in ax.spines.values())
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("name", OF_ALL_ROWS)
def test_a_single_row_is_drawn_without_a_warning(name, one):
    draw(name, *one).figure.draw_without_rendering()


@pytest.mark.parametrize(
    "name",
    slow_after(1, FUNCTIONS),
)
def test_other_engines_and_a_blocks_draw_the_same(name, blocks, frames, tmp_path):
    expected = draw(name, *frames)
    plot, options = PLOTS[name]
    polars, duckdb = (
        draw(name, *(frame_of(engine, blocks.arrow(table), tmp_path) for table in TABLES))
        for engine in ("polars", "duckdb")
    )
    for found in (polars, duckdb, plot(blocks, **options)):
        assert texts(found.get_yticklabels()) == texts(expected.get_yticklabels())
        for one, other in zip(expected.patches, found.patches, strict=True):
            ends = [patch.get_extents().get_points() for patch in (one, other)]
            np.testing.assert_allclose(ends[0], ends[1], rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_labels_are_inside_the_figure_and_do_not_overlap(name, frames):
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
        assert figure.bbox.containsx(box.x1)
        assert not any(text.get_window_extent().overlaps(box) for text in ax.texts)


def _ends(label):
    box = label.get_window_extent()
    return box.x0 + 1, box.x1 - 1


@pytest.mark.parametrize("name", ALL)
def test_text_has_the_colour_of_the_style_of_the_axes(name, few):
    with plt.style.context("dark_background"):
        ax = mpl.figure.Figure().subplots()
    draw(name, *few, ax=ax)  # now another style is the current one
    legend = ax.get_legend()
    written = [ax.title, ax.xaxis.label, *ax.get_yticklabels(), *(legend.texts if legend else ())]
    if name != "flows":  # the numbers of its cells are written on fills
        written += [text for text in ax.texts if text.get_text()]  # not the lines to names
    assert {mpl.colors.to_hex(text.get_color()) for text in written} == {"#ffffff"}


@pytest.mark.parametrize("name", ALL)
def test_there_are_two_spines_at_most_and_no_grid_or_outline(name, few):
    with plt.style.context("ggplot"):  # with a grid, and outlines of bars
        ax = draw(name, *few)
    spines = {side for side, spine in ax.spines.items() if spine.get_visible()}
    assert spines <= {"left", "bottom"}
    assert not any(line.get_visible() for line in [*ax.get_xgridlines(), *ax.get_ygridlines()])
    filled = [patch for patch in ax.patches if patch.get_fill()]
    assert not any(patch.get_linewidth() for patch in filled)
    assert not any(patch.get_hatch() for patch in filled)


@pytest.mark.parametrize("layout", [None, *slow("constrained", "tight")])
def test_a_grid_of_plots_does_not_overlap(layout, frames):
    figure, grid = plt.subplots(3, 2, figsize=(13, 13), layout=layout)
    for ax, name in zip(grid.flat, FUNCTIONS, strict=True):
        draw(name, *frames, ax=ax)
    figure.draw_without_rendering()
    boxes = [ax.get_tightbbox().padded(-1) for ax in grid.flat]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for box in boxes:
        assert figure.bbox.padded(1).containsx(box.x0)
        assert figure.bbox.padded(1).containsx(box.x1)
        assert figure.bbox.padded(1).containsy(box.y1)


#: First the one with the largest text.
STYLES = ["fivethirtyeight", "dark_background", "seaborn-v0_8-paper", "ggplot", "grayscale"]


@pytest.mark.parametrize("style", slow_after(1, STYLES))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_is_readable_in_common_styles(name, style, few):
    with plt.style.context(style):
        ax = draw(name, *few)
    figure = ax.figure
    figure.draw_without_rendering()
    behind = luminance(ax.get_facecolor() if ax.get_facecolor()[3] else figure.get_facecolor())
    written = [ax.title, ax.xaxis.label, *ax.get_yticklabels(), *ax.get_xticklabels()]
    for text in written:
        light, dark = sorted([luminance(text.get_color()), behind], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    box = ax.get_tightbbox()
    assert figure.bbox.padded(2).containsx(box.x0)
    assert figure.bbox.padded(2).containsx(box.x1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_narrow_figures_have_room_for_marks_and_labels(name, frames):
    figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
    draw(name, *frames, ax=ax)
    figure.draw_without_rendering()
    assert ax.get_window_extent().width > 0.3 * figure.bbox.width
    assert ax.get_window_extent().height > 0.3 * figure.bbox.height
    labels = [label.get_window_extent().shrunk(0.98, 0.8) for label in ax.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in pairwise(labels))
    assert ax.title.get_window_extent().x1 <= figure.bbox.x1


def test_many_long_names_do_not_overlap(few):
    long = pd.Series(range(len(few[0]))).map(
        "a very long name of group number {} with an end".format
    )
    transactions = few[0].assign(group=long.astype("str").to_numpy())
    for ax in (None, plt.subplots(layout="constrained")[1]):
        drawn = plot_activity(transactions, by="group", top=40, ax=ax)
        drawn.figure.draw_without_rendering()
        labels = drawn.get_yticklabels()
        assert len(labels) == 41
        assert all("…" in text for text in texts(labels)[:40])
        boxes = [label.get_window_extent().shrunk(0.98, 0.8) for label in labels]
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_new_figures_are_as_high_as_their_rows(few):
    one = plot_activity(few[0], by=()).figure.get_figheight()
    many = plot_activity(few[0], by="hash", top=40).figure.get_figheight()
    assert one < 3
    assert many > 10


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, tonframes.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["gas", *slow(*(name for name in FUNCTIONS if name != "gas"))])
def test_wrong_axes_raise(name, few):
    with pytest.raises(TypeError, match="ax must be matplotlib Axes or None, not 'left'"):
        draw(name, *few, ax="left")


@pytest.mark.parametrize("name", ["gas", *slow(*(name for name in FUNCTIONS if name != "gas"))])
def test_axes_with_three_dimensions_raise(name, few):
    ax = plt.figure().add_subplot(projection="3d")
    with pytest.raises(TypeError, match="plots do not draw on 3D Axes"):
        draw(name, *few, ax=ax)


@pytest.mark.parametrize(
    ("top", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_top_raises_and_creates_no_figure(name, top, error, few):
    with pytest.raises(error, match=r"^top "):
        draw(name, *few, top=top)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("plot", [plot_activity, plot_failures, plot_fees, plot_gas])
def test_messages_beside_a_blocks_raise(plot, blocks):
    with pytest.raises(ValueError, match=r"takes the messages of a Blocks from itself"):
        plot(blocks, blocks.messages)


@pytest.mark.parametrize("plot", [plot_activity, plot_failures, plot_fees, plot_gas])
def test_wrong_by_raises(plot, few):
    with pytest.raises(TypeError, match=r"groups by names of columns, not by 7"):
        plot(*few, by=7)


def test_wrong_columns_raise_and_create_no_figure(frames):
    transactions, messages = frames
    with pytest.raises(ValueError, match="total_fees"):
        plot_fees(transactions.drop(columns="total_fees"), messages)
    with pytest.raises(ValueError, match="value"):
        plot_flows(messages.drop(columns="value"))
    with pytest.raises(ValueError, match="plot_trace needs the column 'msg_hash'"):
        plot_trace(messages.drop(columns="msg_hash"), trace_id=TRANSFER)
    with pytest.raises(TypeError, match="plot_trace needs a trace_id, a str, not 7"):
        plot_trace(messages, trace_id=7)
    book = pd.DataFrame({"address": ["0:0"]})
    with pytest.raises(ValueError, match="plot_fees needs the column 'domain' of address_book"):
        plot_fees(transactions, messages, by="account", address_book=book)
    assert plt.get_fignums() == []
