"""What goes on, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.analysis.activity import activity
from tonframes.plots import labels, style

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
    """Draw how many transactions there were, and messages that ran them and were sent: `activity`.

    Parameters
    ----------
    transactions, messages
        As for `activity`. Without messages there are none to count.
    by
        As for `activity`. "hour" and "day", UTC, and "mc_block_seqno" are drawn as steps, and what
        is not there as 0. Anything else, such as ``["block_workchain", "block_shard"]``, is drawn
        as bars, the groups with the most transactions first.
    top
        How many groups to draw; the others are summed up in bars of their own.
    address_book
        Names for the addresses that are grouped by: a frame of any engine.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> transactions = read_blocks(sample()).transactions
    >>> ax = plot_activity(transactions, by="block_shard", ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'c000000000000000'
    """
    keys = [by] if isinstance(by, str) else list(by)
    style.checked_top(top)
    groups = labels.collected(activity(transactions, messages, by=keys, wide=True))
    groups = groups.sort_values("transactions", ascending=False, kind="stable")
    names, rows = labels.rows(groups, keys, top, "plot_activity", address_book)
    counts = groups[list(_COUNTS if messages is not None else _COUNTS[:1])]
    period = style.period_of(keys)
    counted = "count" if len(counts.columns) > 1 else "transactions"
    ax = style.axes(ax)
    if period:
        style.describe(ax, title=f"Activity by {period}", x="UTC", y=counted)
    elif keys == [_BLOCK]:
        style.describe(ax, title="Activity by block", x="masterchain block", y=counted)
    else:
        style.describe(ax, title="Activity", x=counted, y=", ".join(keys))
    if groups.empty:
        style.empty(ax, "no transactions")
    elif period:
        _draw_steps(ax, counts, *style.periods(groups[period], period))
        style.time_axis(ax)
    elif keys == [_BLOCK]:
        edges, places = style.intervals(groups[_BLOCK].to_numpy("int64"), 1)
        _draw_steps(ax, counts, np.subtract(edges, 0.5), places)
        style.numbers_on(ax.xaxis, "{x:.0f}")
    else:
        style.ranked(ax, names)
        _draw_bars(ax, counts.groupby(rows).sum())
    return ax


def _draw_steps(ax: Axes, counts: pd.DataFrame, edges: Floats, places: NDArray[np.int64]) -> None:
    """Draw transactions as an area, and messages as lines before it."""
    heights = np.zeros((counts.shape[1], len(edges) - 1))
    heights[:, places] = counts.to_numpy("float64").T
    style.steps(ax, edges, {_COUNTS[0]: heights[0]}, {_COUNTS[0]: style.FILL})
    dashes: tuple[Any, ...] = ("-", (0, (2, 1)))
    for name, values, line in zip(_COUNTS[1:], heights[1:], dashes, strict=False):
        look: dict[str, Any] = {"color": style.ink(ax), "linewidth": 1.2, "linestyle": line}
        ax.stairs(values, edges, baseline=None, label=_words(name), **look)
    ax.set_ylim(0, None)
    style.numbers_on(ax.yaxis)
    if len(heights) > 1:
        style.legend(ax)


def _draw_bars(ax: Axes, counts: pd.DataFrame) -> None:
    """Draw a bar for each count, one below the other."""
    height = 0.78 / counts.shape[1]
    tops = np.arange(len(counts)) - 0.39 + height / 2
    fills = (style.FILL, style.FILLS[3], style.FILLS[4])
    columns = zip(_COUNTS, counts.to_numpy("float64").T, fills, strict=False)
    for place, (name, widths, fill) in enumerate(columns):
        look = {**style.outlined(ax), **fill}
        ax.barh(tops + place * height, widths, height, label=_words(name), **look)
    style.numbers_on(ax.xaxis)
    if counts.shape[1] > 1:
        style.legend(ax)


def _words(name: str) -> str:
    return name.replace("_", " ")
