"""What transactions use of gas, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.gas import gas_summary
from tonframes.network.prices import GAS_LIMIT
from tonframes.plots import labels, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_PER_DECADE = 12
_FIGURES = ("gas_median", "gas_p95", "gas_max")
_SPAN = "median to 95 %"


def plot_gas(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much gas calls use, as a distribution or by group: `gas_summary`.

    Parameters
    ----------
    transactions, messages
        As for `gas_summary`.
    by
        As for `gas_summary`: account_state_code_hash_before is the contract. Each group is drawn
        from its median over the 95th percentile to the maximum, those first that paid the most for
        gas; "hour" or "day" over time, UTC. None is a histogram of all calls, both axes
        logarithmic.
    top
        How many groups to draw. The others cannot be drawn as one, but are counted.
    address_book
        Names for the addresses that are grouped by: a frame of any engine.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes. The dashed line is the network's limit for one transaction; special accounts of the
    masterchain have another.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_gas(read_blocks(sample()).transactions, ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_xscale()
    ('gas', 'log')
    """
    keys = [by] if isinstance(by, str) else list(by or ())
    style.checked_top(top)
    # The gas itself as the group: how often each occurs is the whole distribution, in few rows.
    groups = gas_summary(transactions, messages, by=keys or "compute_gas_used")
    groups = labels.collected(groups)
    groups = groups[groups.gas_max > 0]
    drawn = groups.head(top)
    names, _ = labels.rows(drawn, keys, top, "plot_gas", address_book)
    period = style.period_of(keys)
    ax = style.axes(ax)
    title = "Gas of a call"
    if period:
        style.describe(ax, title=f"{title} by {period}", x="UTC", y="gas")
    elif keys:
        chosen = f": the dearest {len(drawn)} of {len(groups):,}" * (len(drawn) < len(groups))
        style.describe(ax, title=title + chosen, x="gas", y=", ".join(keys))
    else:
        style.describe(ax, title=title, x="gas", y="calls")
    if groups.empty:
        style.empty(ax, "no calls")
    elif period:
        _draw_times(ax, groups, period)
    elif keys:
        _draw_groups(ax, drawn, names)
    else:
        _draw_distribution(ax, groups)
    return ax


def _draw_distribution(ax: Axes, groups: pd.DataFrame) -> None:
    # Gas is a whole number, and what reaches a bin's upper edge belongs to it: the limit above all.
    gas, calls = groups.gas_max.to_numpy("float64") - 0.5, groups.calls.to_numpy("int64")
    first = np.floor(np.log10(gas.min()) * _PER_DECADE)
    last = np.ceil(np.log10(gas.max()) * _PER_DECADE)
    edges: Any = 10 ** (np.arange(first, last + 1) / _PER_DECADE)
    ax.hist(gas, edges, weights=calls, **style.outlined(ax), **style.FILL)
    ax.set(xscale="log", yscale="log", ylim=(0.7, None))
    use = groups.limit_use_max.max()
    used = "" if pd.isna(use) else f",\nused to {labels.short(use * 100)} %"
    ax.axvline(GAS_LIMIT, label=f"limit {GAS_LIMIT:,}{used}", **_line(ax))
    style.legend(ax)


def _draw_groups(ax: Axes, groups: pd.DataFrame, names: list[str]) -> None:
    """Draw a box from median to 95th percentile of each group, and a line to its maximum."""
    median, p95, most = (groups[name].to_numpy("int64") for name in _FIGURES)
    rows, color = range(len(groups)), style.ink(ax)
    style.ranked(ax, names)
    ax.hlines(rows, median, most, color=color, linewidth=0.8)
    box = {"label": _SPAN, **style.outlined(ax), **style.FILL}
    ax.barh(rows, p95 - median, left=median, height=0.4, **box)
    ax.plot(median, rows, "o", markersize=5, color=color, label="median")
    ax.plot(most, rows, "|", markersize=11, color=color, label="maximum")
    ax.axvline(GAS_LIMIT, label="limit", **_line(ax))
    ax.set(xscale="log", xlim=(max(1, median.min()) / 2, max(GAS_LIMIT, most.max()) * 2))
    style.legend(ax)


def _draw_times(ax: Axes, groups: pd.DataFrame, period: str) -> None:
    """Draw the same as steps over time; hours without calls are left out."""
    edges, places = style.periods(groups[period], period)
    median, p95, most = np.full((3, len(edges) - 1), np.nan)
    for heights, name in zip((median, p95, most), _FIGURES, strict=True):
        heights[places] = groups[name]
    color = style.ink(ax)
    ax.stairs(p95, edges, baseline=median, fill=True, label=_SPAN, **style.FILL)
    ax.stairs(median, edges, baseline=None, color=color, linewidth=2, label="median")
    ax.stairs(most, edges, baseline=None, color=color, linestyle=":", label="maximum")
    ax.axhline(GAS_LIMIT, label="limit", **_line(ax))
    ax.set(yscale="log", xlim=(edges[0], edges[-1]))
    style.time_axis(ax)
    style.legend(ax)


def _line(ax: Axes) -> dict[str, Any]:
    return {"color": style.ink(ax), "linestyle": "--", "linewidth": 1.2}
