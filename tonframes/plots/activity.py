"""Plot how many transactions and messages there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.analysis.activity import activity
from tonframes.analysis.grouping import keys_of
from tonframes.analysis.intake import paired
from tonframes.plots import frames, labels, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.style import Floats

_BLOCK = "mc_block_seqno"
_COUNTS = ("transactions", "messages_in", "messages_out")


def plot_activity(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] = "hour",
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the number of transactions, and of the messages that they received and sent.

    The numbers are those of `activity`.

    Parameters
    ----------
    transactions, messages
        As for `activity`; or a `Blocks` in place of both. Without messages only transactions are
        drawn.
    by
        As for `activity`. A period ("hour", "day", …; UTC) and "mc_block_seqno" are drawn as steps,
        and gaps as 0. Other columns, such as ``["block_workchain", "block_shard"]``, are drawn as
        bars; the groups with the most transactions come first.
    top
        How many groups to draw. The others share one more row, with their sums.
    address_book
        Names for addresses in `by`: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_activity(read_blocks(sample()), by="block_shard", ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'c000000000000000'
    """
    keys = keys_of("plot_activity", by)
    style.check_top(top)
    groups = frames.to_pandas(activity(transactions, messages, by=keys, wide=True))
    groups = groups.sort_values("transactions", ascending=False, kind="stable")
    names, rows = labels.label_groups(groups, keys, top, "plot_activity", address_book)
    with_messages = paired("plot_activity", transactions, messages) is not None
    counts = groups[list(_COUNTS if with_messages else _COUNTS[:1])]
    period = style.period_of(keys)
    counted = "count" if len(counts.columns) > 1 else "transactions"
    ax = style.axes(ax)
    if period:
        style.set_labels(ax, title=f"Activity by {period}", x="UTC", y=counted)
    elif keys == [_BLOCK]:
        style.set_labels(ax, title="Activity by block", x=labels.axis(_BLOCK), y=counted)
    else:
        style.set_labels(ax, title="Activity", x=counted, y=", ".join(keys))
    if groups.empty:
        style.set_empty(ax, "no transactions")
    elif period:
        _draw_steps(ax, counts, *style.time_intervals(groups[period], period))
        style.format_times(ax)
    elif keys == [_BLOCK]:
        seqnos = groups[_BLOCK].to_numpy("int64")
        edges, places = style.intervals(seqnos, seqnos + 1)
        _draw_steps(ax, counts, np.subtract(edges, 0.5), places)
        style.format_counts(ax.xaxis, "{x:.0f}")
    else:
        style.set_rows(ax, names)
        _draw_bars(ax, counts.groupby(rows).sum())
    return ax


def _draw_steps(ax: Axes, counts: pd.DataFrame, edges: Floats, places: NDArray[np.int64]) -> None:
    """Draw transactions as an area, and messages as lines in front of it."""
    heights = np.zeros((counts.shape[1], len(edges) - 1))
    heights[:, places] = counts.to_numpy("float64").T
    style.draw_steps(ax, edges, {_COUNTS[0]: heights[0]}, {_COUNTS[0]: style.FILL})
    dashes: tuple[Any, ...] = ("-", (0, (2, 1)))
    for column, values, dash in zip(_COUNTS[1:], heights[1:], dashes, strict=False):
        line: dict[str, Any] = {"color": style.text_color(ax), "linewidth": 1.2, "linestyle": dash}
        ax.stairs(values, edges, baseline=None, label=labels.name(column), **line)
    ax.set_ylim(0, None)
    style.format_counts(ax.yaxis)
    if len(heights) > 1:
        style.add_legend(ax)


def _draw_bars(ax: Axes, counts: pd.DataFrame) -> None:
    """Draw one bar for each count, one below the other."""
    height = 0.78 / counts.shape[1]
    first = np.arange(len(counts)) - 0.39 + height / 2
    fills = (style.FILL, style.FILLS[3], style.FILLS[4])
    bars = zip(_COUNTS, counts.to_numpy("float64").T, fills, strict=False)
    for place, (column, widths, fill) in enumerate(bars):
        look = {**style.outline(ax), **fill}
        ax.barh(first + place * height, widths, height, label=labels.name(column), **look)
    style.format_counts(ax.xaxis)
    if counts.shape[1] > 1:
        style.add_legend(ax)
