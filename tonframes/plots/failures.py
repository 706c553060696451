"""Why transactions failed, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tonframes.analysis.failures import (
    ACTION,
    COMMITTED,
    COMPUTE,
    IGNORED,
    SKIPPED,
    failure_summary,
)
from tonframes.plots import labels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNKNOWN = "unknown"
_FILLS = dict(
    zip((COMPUTE, ACTION, SKIPPED, COMMITTED, IGNORED, _UNKNOWN), style.FILLS, strict=False)
)


def plot_failures(transactions: object, *, top: int = 12, ax: Axes | None = None) -> Axes:
    """Draw how many transactions failed in which phase, and by which code: `failure_summary`.

    Parameters
    ----------
    transactions
        As for `failure_summary`.
    top
        How many codes to draw; the others are summed up in a bar of their own.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_failures(read_blocks(sample()).transactions, ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'no_gas'
    """
    style.checked_top(top)
    groups = labels.collected(failure_summary(transactions))
    pairs = zip(groups.code, groups["name"], strict=True)
    groups["label"] = [" · ".join(str(part) for part in pair if pd.notna(part)) for pair in pairs]
    names, rows = labels.rows(groups, ["label"], top, "plot_failures")
    ax = style.axes(ax)
    style.describe(ax, title="Failed transactions", x="transactions", y="code")
    if groups.empty:
        style.empty(ax, "no failures")
        return ax
    phases = groups.phase.fillna(_UNKNOWN)
    parts = {}
    for phase in _FILLS:
        counts = groups.failures.where(phases == phase, 0).groupby(rows).sum()
        if counts.any():
            parts[phase] = counts.to_numpy("float64")
    style.ranked(ax, names)
    style.bars(ax, parts, _FILLS)
    style.numbers_on(ax.xaxis)
    style.legend(ax, "phase")
    return ax
