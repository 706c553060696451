"""Who sends to whom, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd

from tonframes.analysis import intake
from tonframes.analysis.activity import flows
from tonframes.analysis.units import to_ton
from tonframes.errors import shorten
from tonframes.plots import labels, style
from tonframes.plots.tree import messages_of, rows_of
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.style import Floats
    from tonframes.plots.tree import Row

#: What is read of the messages of a trace.
TRACE = ("tx_hash", "trace_id", "direction", "msg_hash", "source", "destination", "value")

_WIDEST, _THINNEST, _ALL_WIDTHS = 10.0, 0.8, 150.0  # points
_OUTSIDE = "outside"
_LEVELS, _DARK = 5, 0.6  # fills from dark to light, and from where on white is read on them


def plot_flow(
    messages: object,
    *,
    trace: str | None = None,
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw who sends to whom, and how much: all accounts as a matrix, or a trace as a tree.

    Parameters
    ----------
    messages
        A frame of any engine, as for `flows`; of a trace, `TRACE` names the columns.
    trace
        The `trace_id` of a trace. Each message of it is a row, below the one that caused it and a
        step to the right; as thick as its value, which stands at the right end. None is all
        messages but those that came back: senders from the top down, receivers from left to right,
        and in each field what the one sent to the other, the darker the more (logarithmic).
    top
        How many senders and how many receivers to draw, those of the highest values; or how many
        messages of the trace, with those that caused them. The others are summed up.
    address_book
        Names for the addresses: a frame of any engine.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes. Values are in TON.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> messages = read_blocks(sample()).messages
    >>> ax = plot_flow(messages, trace=messages.trace_id[0], ax=Figure().subplots())
    >>> len(ax.get_yticklabels())
    2
    """
    style.checked_top(top)
    if trace is None:
        return _plot_matrix(messages, top, address_book, ax)
    if not isinstance(trace, str):
        raise TypeError(f"a trace is named by its trace_id, a text, not {shorten(trace)}")
    return _plot_trace(messages, trace, top, address_book, ax)


def _plot_matrix(messages: object, top: int, address_book: object | None, ax: Axes | None) -> Axes:
    pairs = labels.collected(flows(messages, wide=True))
    values = pd.Series([int(value) for value in pairs["value"]], dtype=object)
    (senders, down), (receivers, across) = (
        _side(pairs[side], values, top, address_book) for side in ("source", "destination")
    )
    sums = values.groupby([down, across]).sum()
    fields = np.zeros((len(senders), len(receivers)))
    fields[tuple(np.array(sums.index.to_list(), int).reshape(-1, 2).T)] = labels.ton(sums)
    ax = style.axes(ax)
    style.describe(ax, title="Value sent, TON", x="to", y="from")
    if not fields.any():
        style.empty(ax, "no messages" if pairs.empty else "no value")
        return ax
    _draw_matrix(ax, fields)
    style.ranked(ax, senders)
    ax.set_xticks(range(len(receivers)), receivers, rotation=45, ha="right", **style.PLAIN)
    return ax


def _side(
    accounts: pd.Series[str], values: pd.Series[Any], top: int, address_book: object | None
) -> tuple[list[str], NDArray[np.int64]]:
    """Choose the accounts on one side of the matrix: labels, and where each pair belongs."""
    totals = values.groupby(accounts).sum().sort_values(ascending=False, kind="stable")
    frame = totals.index.to_frame(index=False)
    names, rows = labels.rows(frame, [str(accounts.name)], top, "plot_flow", address_book)
    return names, rows[totals.index.get_indexer(pd.Index(accounts))]


def _draw_matrix(ax: Axes, fields: Floats) -> None:
    from matplotlib import colors  # noqa: PLC0415 - importing tonframes draws nothing

    ramp = [fill["facecolor"] for fill in reversed(style.FILLS[:_LEVELS])]
    norm = colors.LogNorm(fields[fields > 0].min(), fields.max())
    cmap = colors.LinearSegmentedColormap.from_list("value", ramp)
    edges = [np.arange(count + 1) - 0.5 for count in reversed(fields.shape)]
    there = np.ma.masked_equal(fields, 0)
    ax.pcolormesh(*edges, there, norm=norm, cmap=cmap, **style.outlined(ax))
    for row, column in np.argwhere(fields > 0):
        value = fields[row, column]
        dark = norm(value) > _DARK
        place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small"}
        ax.text(column, row, labels.short(value), color="white" if dark else "black", **place)


def _plot_trace(
    messages: object, trace: str, top: int, address_book: object | None, ax: Axes | None
) -> Axes:
    told = intake.take(messages, "plot_flow", MESSAGES, TRACE)
    frame = labels.collected(told.filter(nw.col("trace_id") == trace).to_native())
    rows = rows_of(messages_of(frame), top)
    accounts = {row.account for row in rows if row.account}
    known = labels.of_addresses(accounts, "plot_flow", address_book)
    names = [
        f"{row.others:,} others" if row.others else known.get(row.account or "", _OUTSIDE)
        for row in rows
    ]
    ax = style.axes(ax)
    style.describe(ax, title=f"Trace {labels.shortened(trace, 11)}", x="messages since the first")
    if not rows:
        style.empty(ax, "no messages")
        return ax
    _draw_tree(ax, rows)
    style.ranked(ax, names)
    values = ["" if row.value is None else labels.short(to_ton(row.value)) for row in rows]
    right: Any = ax.secondary_yaxis("right")
    style.ranked(right, values)
    right.tick_params(labelcolor=style.ink(ax))
    right.set_ylabel("value, TON", color=style.ink(ax))
    return ax


def _draw_tree(ax: Axes, rows: Sequence[Row]) -> None:
    """Draw a bow from each row to those below it that came of it."""
    from matplotlib import patches, path  # noqa: PLC0415 - importing tonframes draws nothing

    scale = min(_WIDEST, _ALL_WIDTHS / len(rows)) / (max(row.value or 0 for row in rows) or 1)
    for place, row in enumerate(rows):
        if row.parent is None:
            continue
        start = rows[row.parent].depth, row.parent
        bow = path.Path([start, (start[0], place), (row.depth, place)], [1, 3, 3])
        width = max(_THINNEST, scale * (row.value or 0))
        color = style.FILL["facecolor"]
        ax.add_patch(patches.PathPatch(bow, fill=False, edgecolor=color, linewidth=width))
    depths = [row.depth for row in rows]
    ax.plot(depths, range(len(rows)), "o", markersize=5, color=style.ink(ax))
    ax.set_xlim(-0.3, max(depths) + 0.3)
    style.numbers_on(ax.xaxis)
