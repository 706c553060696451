"""Plot the value that accounts send to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.activity import flows
from tonframes.plots import frames, labels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.style import Floats

_PLAIN_FILLS = 5  # the first fills of the style, from dark to light
_DARK = 0.6  # values above this part of the colour scale have a fill on which white is readable


def plot_flows(
    messages: object,
    *,
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how much accounts send to each other, as a matrix of senders and receivers.

    The amounts are those of `flows`, drawn in TON. `plot_trace` draws the messages of one trace.

    Parameters
    ----------
    messages
        A frame of any engine, as for `flows`; or a `Blocks`.
    top
        How many senders and how many receivers to draw, those with the highest values. The others
        share one more row and one more column, with their sums.
    address_book
        Names for the addresses: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. Each row is a sender, and each column a receiver. A cell is the value that the sender
    sent to the receiver, without bounced messages; the higher it is, the darker the fill. The
    colour scale is logarithmic.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_flows(read_blocks(sample()), top=3, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0:4CDB…C11E', '0:2048…4A2A', '0:3B4F…6524', '454 others']
    """
    style.check_top(top)
    pairs = frames.to_pandas(flows(messages, wide=True))
    # Python integers: the sum over many pairs may be more than int64 holds.
    values = pd.Series([int(value) for value in pairs["value"]], dtype=object)
    senders, rows = _side(pairs["source"], values, top, address_book)
    receivers, columns = _side(pairs["destination"], values, top, address_book)
    matrix = np.zeros((len(senders), len(receivers)))
    sums = values.groupby([rows, columns]).sum()
    matrix[tuple(np.array(sums.index.to_list(), int).reshape(-1, 2).T)] = labels.in_ton(sums)
    ax = style.axes(ax)
    title = f"Value sent between accounts ({labels.unit('value')})"
    style.set_labels(ax, title=title, x="to", y="from")
    if not matrix.any():
        style.set_empty(ax, "no messages" if pairs.empty else "no value")
        return ax
    _draw_matrix(ax, matrix)
    style.set_rows(ax, senders)
    ax.set_xticks(range(len(receivers)), receivers, rotation=45, ha="right", **style.PLAIN)
    return ax


def _side(
    accounts: pd.Series[str], values: pd.Series[Any], top: int, address_book: object | None
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the labels of one side of the matrix, and for each pair its place on that side."""
    totals = values.groupby(accounts).sum().sort_values(ascending=False, kind="stable")
    groups = totals.index.to_frame(index=False)
    names, places = labels.label_groups(
        groups, [str(accounts.name)], top, "plot_flows", address_book
    )
    return names, places[totals.index.get_indexer(pd.Index(accounts))]


def _draw_matrix(ax: Axes, matrix: Floats) -> None:
    from matplotlib import colors  # noqa: PLC0415 - importing tonframes does not import matplotlib

    ramp = [fill["facecolor"] for fill in reversed(style.FILLS[:_PLAIN_FILLS])]
    norm = colors.LogNorm(matrix[matrix > 0].min(), matrix.max())
    cmap = colors.LinearSegmentedColormap.from_list("value", ramp)
    edges = [np.arange(count + 1) - 0.5 for count in reversed(matrix.shape)]
    ax.pcolormesh(*edges, np.ma.masked_equal(matrix, 0), norm=norm, cmap=cmap, **style.outline(ax))
    for row, column in np.argwhere(matrix > 0):
        value = matrix[row, column]
        color = "white" if norm(value) > _DARK else "black"
        place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small"}
        ax.text(column, row, labels.short(value), color=color, **place)
