"""Plot the value that accounts send to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.activity import flows
from tonframes.plots import amounts, axes, labels
from tonframes.plots.colors import MIDDLE, ink, luminance, ramp, sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.marks import Floats

_FEWEST = 2  # colours of a scale
_WRITTEN = 8  # cells with a number, those with the highest values
_TURNED = 0.6  # size of a turned name, as part of the width of its column
_SMALL = 0.85  # size of numbers, in sizes of the names of rows or in heights of a line
_INSIDE = 1.3  # their size in a narrow cell, in widths of the cell for each character
_BELOW = 16  # characters of a turned name
_ROWS = 0.75  # part of the height: the turned names take the rest
_READABLE = 5.0  # points: smaller numbers are not written


def plot_flows(
    messages: object,
    *,
    top: int = 10,
    unit: str = "TON",
    prices: pd.Series[Any] | None = None,
    colors: Sequence[str] | None = None,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how much accounts send to each other, as a matrix of senders and receivers.

    The amounts are those of `flows`. `plot_trace` draws the messages of one trace.

    Parameters
    ----------
    messages
        A frame of any engine, as for `flows`; or a `Blocks`.
    top
        How many senders and how many receivers to draw, those with the highest values. The others
        share one more row and one more column, with their sums.
    unit
        What the amounts are drawn in: "TON", "nanoton", or the currency of `prices`, such as "USD".
    prices
        The price of 1 TON in this currency, as for `flows`. A currency needs them.
    colors
        The colours from the lowest to the highest value.
    address_book
        Names for the addresses: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. Each row is a sender, and each column a receiver. A cell is the value that the sender
    sent to the receiver, also of calls that failed and were sent back; the higher it is, the more
    its colour differs from the background. The colour scale is logarithmic. The highest values are
    written into their cells. A cell with a question mark has a value whose price is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_flows(read_blocks(sample()), top=3, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0:4CDB…C11E', '0:B00F…B037', '0:5F6E…0E02', '423 others']
    """
    axes.check_top(top)
    drawn = amounts.unit_of("plot_flows", unit, prices)
    chosen = None if colors is None else sequence(colors, "plot_flows")
    if chosen is not None and len(chosen) < _FEWEST:
        raise ValueError(
            "plot_flows shades cells from the colour of the lowest value to that of the highest: "
            f"colors= needs at least two colours, and has {len(chosen)}"
        )
    pairs = labels.to_pandas(flows(messages, wide=True, **drawn.options))
    values = pairs[drawn.column("value")]
    if prices is None:  # Python integers: the sum over many pairs may be more than int64 holds
        values = pd.Series([int(value) for value in values], dtype=object)
    senders, rows = _side(pairs["source"], values, top, address_book)
    receivers, columns = _side(pairs["destination"], values, top, address_book)
    matrix = np.zeros((len(senders), len(receivers)))
    sums = values.groupby([rows, columns]).sum(skipna=False)
    matrix[tuple(np.array(sums.index.to_list(), int).reshape(-1, 2).T)] = drawn.values(sums)
    title = f"Value sent, in {drawn.name}" + " (?: price unknown)" * bool(np.isnan(matrix).any())
    if (matrix > 0).any():
        ax = axes.start(ax, x="to", y="from", rows=senders, share=_ROWS)
        _draw_matrix(ax, matrix, chosen or ramp(ax))
        size = min(axes.tick_font(ax), _TURNED * axes.size(ax)[0] / len(receivers))
        turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        below = [labels.cut(name, _BELOW) for name in receivers]
        ax.set_xticks(range(len(below)), below, fontsize=size, **turned, **axes.PLAIN)
        ax.tick_params(length=0)
    else:
        ax = axes.empty(ax, amounts.why_none(values, "no messages", "no value"))
    axes.finish(ax, title)
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
    return labels.first_lines(names), places[totals.index.get_indexer(pd.Index(accounts))]


def _draw_matrix(ax: Axes, matrix: Floats, shades: Sequence[str]) -> None:
    """Draw a shaded cell for each value, and write the highest values."""
    from matplotlib import colors  # noqa: PLC0415 - importing tonframes does not import matplotlib

    values = matrix[matrix > 0]
    norm = colors.LogNorm(values.min(), values.max())
    cmap = colors.LinearSegmentedColormap.from_list("value", list(shades))
    edges = [np.arange(count + 1) - 0.5 for count in reversed(matrix.shape)]
    shaded = np.ma.masked_where(~(matrix > 0), matrix)
    ax.pcolormesh(*edges, shaded, norm=norm, cmap=cmap, linewidth=0)
    ax.set_xlim(-0.5, matrix.shape[1] - 0.5)
    for spine in ax.spines.values():
        spine.set_visible(False)
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    for row, column in np.argwhere(np.isnan(matrix)):
        ax.text(column, row, "?", color=ink(ax), fontsize="small", **middle)
    fills = cmap(norm(shaded))
    width, height = axes.size(ax)
    cell, row_height = width / matrix.shape[1], _ROWS * height / matrix.shape[0]
    for row, column in np.argwhere(matrix >= np.sort(values)[-_WRITTEN:][0]):
        text = labels.short(matrix[row, column]).replace(" ", "\n")
        lines = text.split("\n")
        size = min(_INSIDE * cell / max(map(len, lines)), _SMALL * row_height / len(lines))
        size = min(_SMALL * axes.tick_font(ax), size)
        if size >= _READABLE:
            dark = luminance(fills[row, column]) < MIDDLE
            color = "white" if dark else "black"
            ax.text(column, row, text, color=color, fontsize=size, **middle)
