"""Plot what transactions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tonframes.analysis.fees import fee_summary
from tonframes.analysis.grouping import keys_of
from tonframes.plots import frames, labels, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.style import Floats

#: The parts of the cost, in the order of the stack. The common ones come first: they have plain
#: fills, and the rare ones hatched fills.
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
_FILLS = dict(zip(map(labels.name, _PARTS), style.FILLS, strict=True))


def plot_fees(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot what transactions cost, divided into the parts of the cost.

    The amounts are those of `fee_summary`, drawn in TON.

    Parameters
    ----------
    transactions, messages
        As for `fee_summary`: frames of one engine, with the messages of all transactions; or a
        `Blocks` in place of both.
    by
        As for `fee_summary`. A period ("hour", "day", …; UTC) is drawn as steps over time, and gaps
        as 0. Other columns are drawn as bars; the groups with the highest cost come first. None
        draws a bar for each part of the cost.
    top
        How many groups to draw. The others share one more row, with their sum.
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
    ['external', 'jetton_transfer']
    """
    keys = keys_of("plot_fees", by or ())
    style.check_top(top)
    groups = frames.to_pandas(fee_summary(transactions, messages, by=keys, wide=True))
    names, rows = labels.label_groups(groups, keys, top, "plot_fees", address_book)
    period = style.period_of(keys)
    ax = style.axes(ax)
    cost = labels.axis("cost")
    if period:
        style.set_labels(ax, title=f"Cost of transactions by {period}", x="UTC", y=cost)
    else:
        style.set_labels(ax, title="Cost of transactions", x=cost, y=", ".join(keys))
    if not groups.cost.any():
        style.set_empty(ax, "no transactions" if groups.empty else "no fees")
    elif period:
        edges, places = style.time_intervals(groups[period], period)
        style.draw_steps(ax, edges, _parts(groups, places, len(edges) - 1), _FILLS)
        style.format_times(ax)
        style.add_legend(ax)
    elif keys:
        style.set_rows(ax, names)
        style.draw_bars(ax, _parts(groups, rows, len(names)), _FILLS)
        style.add_legend(ax)
    else:
        parts = {name: part[0] for name, part in _parts(groups, rows, 1).items()}
        parts = dict(sorted(parts.items(), key=lambda item: -item[1]))
        style.set_rows(ax, list(parts))
        style.draw_bars(ax, {"cost": np.array(list(parts.values()))}, {"cost": style.FILL})
    return ax


def _parts(groups: pd.DataFrame, places: NDArray[np.int64], count: int) -> dict[str, Floats]:
    """Return each part of the cost by place, in TON. The sums are made in nanoton."""
    parts = {}
    for column in _PARTS:
        sums = groups[column].groupby(places).sum().reindex(range(count), fill_value=0)
        if sums.any():
            parts[labels.name(column)] = labels.in_ton(sums)
    return parts
