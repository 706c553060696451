"""Plot how many transactions and messages there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.analysis.activity import activity
from tonframes.analysis.grouping import keys_of
from tonframes.analysis.intake import paired
from tonframes.plots import axes, labels, times
from tonframes.plots.colors import choose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.colors import Colors
    from tonframes.plots.marks import Floats

_BLOCK = "mc_block_seqno"
_COUNTS = ("transactions", "messages_in", "messages_out")
_WIDTHS = (2.4, 1.2, 1.2)  # points
_LEAST = 2.0  # points: the width of an interval whose step can be seen
_PALE = 0.3  # opacity of hours behind the means of days
_ROW = 0.78  # height of the bars of a row


def plot_activity(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] = "hour",
    top: int = 10,
    colors: Colors | None = None,
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
        As for `activity`. A period ("hour", "day", …; UTC) and "mc_block_seqno" are drawn as lines,
        and gaps as 0; one period alone is drawn as bars. Hours of many days are drawn pale, behind
        the mean of each day. Other columns, such as ``["block_workchain", "block_shard"]``, are
        drawn as bars; the groups with the most transactions come first.
    top
        How many groups to draw. The others share one more row, with their sums.
    colors
        A mapping from "transactions", "messages in" and "messages out" to colours, or a sequence of
        colours in this order.
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
    axes.check_top(top)
    palette = choose(colors, [labels.name(column) for column in _COUNTS], "plot_activity")
    groups = labels.to_pandas(activity(transactions, messages, by=keys, wide=True))
    period, groups = times.over_time("plot_activity", keys, groups)
    groups = groups.sort_values("transactions", ascending=False, kind="stable")
    names, rows = labels.label_groups(groups, keys, top, "plot_activity", address_book)
    with_messages = paired("plot_activity", transactions, messages) is not None
    counts = groups[list(_COUNTS if with_messages else _COUNTS[:1])].rename(columns=labels.name)
    counted = "number" if len(counts.columns) > 1 else "transactions"
    title = labels.title("Activity", ["block" if key == _BLOCK else key for key in keys])
    if groups.empty:
        ax = axes.empty(ax, "no transactions")
    elif period:
        ax = axes.start(ax, x="UTC", y=counted)
        times.format_times(ax)
        moments, places = times.time_intervals(groups[period], period)
        # Lines of so many intervals would run into each other.
        days = period == "hour" and bool(len(moments) > axes.size(ax)[0] / _LEAST)
        title += ", with the mean of each day" * days
        _draw_lines(ax, counts, moments, places, palette, days=days)
    elif keys == [_BLOCK] and len(groups) > 1:
        ax = axes.start(ax, x=labels.name(_BLOCK), y=counted)
        axes.format_seqnos(ax.xaxis)
        seqnos = groups[_BLOCK].to_numpy("int64")
        edges, places = times.intervals(seqnos, seqnos + 1)
        _draw_lines(ax, counts, np.subtract(edges, 0.5), places, palette)
    else:
        ax = axes.start(ax, x=counted, rows=names)
        _draw_bars(ax, counts.groupby(rows).sum(), palette)
    axes.finish(ax, title, key=not groups.empty and len(counts.columns) > 1)
    return ax


def _draw_lines(
    ax: Axes,
    counts: pd.DataFrame,
    edges: Floats,
    places: NDArray[np.int64],
    palette: Mapping[str, str],
    *,
    days: bool = False,
) -> None:
    """Draw one line with steps for each count, that of the transactions the thickest."""
    heights = np.zeros((counts.shape[1], len(edges) - 1))
    heights[:, places] = counts.to_numpy("float64").T
    thin = min(1.0, max(0.4, axes.size(ax)[0] / heights.shape[1] / 2))  # of many intervals
    for column, values, width in zip(map(str, counts), heights, _WIDTHS, strict=False):
        look: dict[str, Any] = {"color": palette[column], "baseline": None}
        if days:
            ax.stairs(values, edges, linewidth=thin * width, alpha=_PALE, **look)
            means, midnights = times.means_of_days(values, edges)
            ax.stairs(means, midnights, label=column, linewidth=width, **look)
        else:
            ax.stairs(values, edges, label=column, linewidth=thin * width, **look)
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.08 * heights.max()))
    axes.format_numbers(ax.yaxis, whole=True)


def _draw_bars(ax: Axes, counts: pd.DataFrame, palette: Mapping[str, str]) -> None:
    """Draw one bar for each count, one below the other."""
    height = _ROW / counts.shape[1]
    first = np.arange(len(counts)) - _ROW / 2 + height / 2
    for place, column in enumerate(map(str, counts)):
        look: dict[str, Any] = {"color": palette[column], "linewidth": 0}
        widths = counts[column].to_numpy("float64")
        ax.barh(first + place * height, widths, 0.9 * height, label=column, **look)
    axes.format_numbers(ax.xaxis, whole=True)
