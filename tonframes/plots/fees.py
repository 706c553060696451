"""Plot what transactions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.analysis.fees import fee_summary
from tonframes.analysis.grouping import keys_of
from tonframes.plots import amounts, axes, labels, marks, times
from tonframes.plots.colors import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.amounts import Unit
    from tonframes.plots.colors import Colors
    from tonframes.plots.marks import Floats

#: The parts of the cost, in the order of the stack.
_PARTS = (
    "gas",
    "storage",
    "action",
    "import",
    "fwd_fees",
    "bounce",
    "due",
    "unknown",
    "residual",
)


def plot_fees(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
    unit: str = "TON",
    prices: pd.Series[Any] | None = None,
    colors: Colors | None = None,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot what transactions cost, divided into the parts of the cost.

    The amounts are those of `fee_summary`.

    Parameters
    ----------
    transactions, messages
        As for `fee_summary`: frames of one engine, with the messages of all transactions; or a
        `Blocks` in place of both.
    by
        As for `fee_summary`. A period ("hour", "day", …; UTC) is drawn as steps over time, and gaps
        as 0; one period alone is a bar. Other columns are drawn as bars; the groups with the
        highest cost come first. None draws a bar for each part of the cost.
    top
        How many groups to draw. The others share one more row, with their sum.
    unit
        What the amounts are drawn in: "TON", "nanoton", or the currency of `prices`, such as "USD".
    prices
        The price of 1 TON in this currency, as for `fee_summary`. A currency needs them.
    colors
        A mapping from parts of the cost to colours, or the colours of the first parts. The parts
        are gas, storage, action, import, forwarding, bounce, due, unknown and residual, in this
        order.
    address_book
        Names for addresses in `by`: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. The parts of a bar add up to the cost of its group. `forwarding` is the column
    `fwd_fees` of `fee_summary`. A part that is 0 in all groups is not drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_fees(read_blocks(sample()), by="operation", top=5, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['external', 'comment']
    """
    keys = keys_of("plot_fees", by or ())
    axes.check_top(top)
    drawn = amounts.unit_of("plot_fees", unit, prices)
    palette = choose(colors, [labels.name(part) for part in _PARTS], "plot_fees")
    groups = labels.to_pandas(
        fee_summary(transactions, messages, by=keys, wide=True, **drawn.options)
    )
    groups = groups.sort_values(drawn.column("cost"), ascending=False, kind="stable")
    period, groups = times.over_time("plot_fees", keys, groups)
    names, rows = labels.label_groups(groups, keys, top, "plot_fees", address_book)
    title = labels.title("Cost of transactions", keys)
    cost = groups[drawn.column("cost")]
    if not cost.any():
        ax = axes.empty(ax, amounts.why_none(cost, "no transactions", "no fees"))
    elif period:
        ax = axes.start(ax, x="UTC", y=drawn.axis("cost"))
        edges, places = times.time_intervals(groups[period], period)
        times.format_times(ax)
        marks.draw_steps(ax, edges, _parts(groups, places, len(edges) - 1, drawn), palette)
    elif keys:
        ax = axes.start(ax, x=drawn.axis("cost"), rows=names)
        marks.draw_bars(ax, _parts(groups, rows, len(names), drawn), palette)
    else:
        parts = {name: part[0] for name, part in _parts(groups, rows, 1, drawn).items()}
        parts = dict(sorted(parts.items(), key=lambda item: -item[1]))
        ax = axes.start(ax, x=drawn.axis("cost"), rows=list(parts))
        bars = zip(parts, np.diag(list(parts.values())), strict=True)
        marks.draw_bars(ax, dict(bars), palette)
    axes.finish(ax, title, key=bool(keys) and bool(cost.any()), reverse=period is not None)
    return ax


def _parts(
    groups: pd.DataFrame, places: NDArray[np.int64], count: int, unit: Unit
) -> dict[str, Floats]:
    """Return each part of the cost by place. The sums of TON are made in nanoton."""
    parts = {}
    for column in _PARTS:
        sums = groups[unit.column(column)].groupby(places).sum(skipna=False)
        sums = sums.reindex(range(count), fill_value=0)
        if sums.any():
            parts[labels.name(column)] = unit.values(sums)
    return parts
