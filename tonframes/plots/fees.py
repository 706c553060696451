"""What transactions cost, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tonframes.analysis.fees import fee_summary
from tonframes.plots import labels, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.style import Floats

#: What the cost is made of, in the order of the stack: the common ones first, and plain.
_PARTS = {
    "gas": "gas",
    "storage": "storage",
    "action": "action",
    "import": "import",
    "fwd_fees": "forwarding",
    "bounce": "bounce",
    "due": "due",
    "unknown": "unknown",
    "residual": "residual",
}
_FILLS = dict(zip(_PARTS.values(), style.FILLS, strict=True))


def plot_fees(
    transactions: object,
    messages: object,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what transactions cost, and for what: `fee_summary`, in TON.

    Parameters
    ----------
    transactions, messages
        As for `fee_summary`: frames of one engine, and the messages of all the transactions.
    by
        As for `fee_summary`. "hour" or "day" is drawn as steps over time, UTC, and an hour in
        which nothing happened is an empty one. Anything else is a bar a group, the dearest first.
        None is a bar for each part of the cost.
    top
        How many groups to draw; the others are summed up in a bar of their own.
    address_book
        Names for the addresses that are grouped by: a frame of any engine.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes. The parts of a bar add up to the cost of its group: `forwarding` is what `fee_summary`
    calls fwd_fees. Parts that are 0 throughout are left out.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> ax = Figure().subplots()
    >>> ax = plot_fees(blocks.transactions, blocks.messages, by="opcode", top=5, ax=ax)
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['0x981f6725', '0x0f8a7ea5']
    """
    keys = [by] if isinstance(by, str) else list(by or ())
    style.checked_top(top)
    groups = labels.collected(fee_summary(transactions, messages, by=keys))
    names, places = labels.rows(groups, keys, top, "plot_fees", address_book)
    period = style.period_of(keys)
    ax = style.axes(ax)
    if period:
        style.describe(ax, title=f"Cost of transactions by {period}", x="UTC", y="TON")
    else:
        style.describe(ax, title="Cost of transactions", x="TON", y=", ".join(keys))
    if not groups.cost.any():
        style.empty(ax, "no transactions" if groups.empty else "no fees")
    elif period:
        edges, places = style.periods(groups[period], period)
        style.steps(ax, edges, _parts(groups, places, len(edges) - 1), _FILLS)
        style.time_axis(ax)
        style.legend(ax)
    elif keys:
        parts = _parts(groups, places, len(names))
        style.ranked(ax, names)
        style.bars(ax, parts, _FILLS)
        style.legend(ax)
    else:
        parts = {name: part[0] for name, part in _parts(groups, places, 1).items()}
        parts = dict(sorted(parts.items(), key=lambda item: -item[1]))
        style.ranked(ax, list(parts))
        style.bars(ax, {"cost": np.array(list(parts.values()))}, {"cost": style.FILL})
    return ax


def _parts(groups: pd.DataFrame, places: NDArray[np.int64], count: int) -> dict[str, Floats]:
    """Add each part up by place, in nanoton; TON is the last step."""
    parts = {}
    for column, name in _PARTS.items():
        sums = groups[column].groupby(places).sum().reindex(range(count), fill_value=0)
        if sums.any():
            parts[name] = labels.ton(sums)
    return parts
