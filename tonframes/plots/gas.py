"""Plot how much gas transactions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.gas import gas_summary
from tonframes.analysis.grouping import keys_of
from tonframes.network.prices import GAS_LIMIT
from tonframes.plots import axes, labels, times
from tonframes.plots.colors import MAIN, ink, sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_PER_DECADE = 12  # bins of the histogram
_DRAWN = ("gas_median", "gas_p95", "gas_max")
_NEAR = 0.1  # part of the limit that some call must use for the limit to be drawn
_LIGHT = 0.4  # of an area behind lines
_HEADROOM = 6  # times the highest bar, for the name of the limit
_MEDIAN, _BOX, _MOST = "median", "95th percentile", "maximum"


def plot_gas(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
    colors: Sequence[str] | None = None,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how much gas calls use, as a histogram or by group.

    The numbers are those of `gas_summary`.

    Parameters
    ----------
    transactions, messages
        As for `gas_summary`; or a `Blocks` in place of both. Messages are only needed if `by`
        names the operation or a column of theirs.
    by
        As for `gas_summary`; account_state_code_hash_before groups by contract, with the names of
        `code_name`. Each group has a box from the median to the 95th percentile, and a line to the
        maximum. The groups that paid the most for gas come first. A period ("hour", "day", …; UTC)
        is drawn over time; one period alone is a group. None draws a histogram of all calls, with
        both axes logarithmic.
    top
        How many groups to draw. The title says how many groups there are.
    colors
        A list with one colour, that of bars and boxes.
    address_book
        Names for addresses in `by`: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. The dashed line is the network's gas limit for one transaction; groups have it if one
    of their calls used at least a tenth of it. Special accounts of the masterchain have another
    limit.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_gas(read_blocks(sample()), ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_xscale()
    ('gas', 'log')
    """
    keys = keys_of("plot_gas", by or ())
    axes.check_top(top)
    color = MAIN if colors is None else sequence(colors, "plot_gas")[0]
    # Grouped by the gas itself: few rows, and the counts are the whole histogram.
    groups = gas_summary(transactions, messages, by=keys or "compute_gas_used", wide=True)
    groups = labels.to_pandas(groups)
    groups = groups[groups.gas_max > 0]
    groups = groups.sort_values("gas_fees", ascending=False, kind="stable")
    period, groups = times.over_time("plot_gas", keys, groups, "calls")
    title = labels.title("Gas" if keys else "Gas of a call", keys)
    if groups.empty:
        ax = axes.empty(ax, "no calls")
    elif period:
        ax = axes.start(ax, x="UTC", y="gas")
        _draw_periods(ax, groups, period, color)
    elif keys:
        drawn = groups.head(top)
        names, _ = labels.label_groups(drawn, keys, top, "plot_gas", address_book)
        ax = axes.start(ax, x="gas", rows=names)
        title += f", top {len(drawn)} of {len(groups):,}" * (len(drawn) < len(groups))
        _draw_groups(ax, drawn, color)
    else:
        ax = axes.start(ax, x="gas", y="calls")
        _draw_histogram(ax, groups, color)
    axes.finish(ax, title, key=bool(keys) and not groups.empty)
    return ax


def _draw_histogram(ax: Axes, groups: pd.DataFrame, color: str) -> None:
    # Gas is an integer. One half is subtracted, so that gas equal to the upper edge of a bin counts
    # in that bin: calls that used the whole limit are drawn to the left of its line.
    gas, calls = groups.gas_max.to_numpy("float64") - 0.5, groups.calls.to_numpy("int64")
    first = np.floor(np.log10(gas.min()) * _PER_DECADE)
    last = np.ceil(np.log10(gas.max()) * _PER_DECADE)
    edges: Any = 10 ** (np.arange(first, last + 1) / _PER_DECADE)
    heights, *_ = ax.hist(gas, edges, weights=calls, color=color, linewidth=0)
    ax.set(xscale="log", yscale="log", ylim=(0.7, _HEADROOM * max(heights)))
    low, _ = ax.get_xlim()
    ax.set_xlim(min(low, GAS_LIMIT / 2), max(2 * GAS_LIMIT, edges[-1]))
    axes.format_powers(ax.xaxis)
    axes.format_powers(ax.yaxis)
    use = groups.limit_use_max.max()
    used = "" if pd.isna(use) else f",\nused up to {labels.short(use * 100)} %"
    ax.axvline(GAS_LIMIT, **_dashed(ax))
    # Label the line at its top, on the side with more room.
    low, high = np.log(ax.get_xlim())
    left = np.log(GAS_LIMIT) > (low + high) / 2
    look: dict[str, Any] = {
        "xytext": (-4 if left else 4, 0),
        "textcoords": "offset points",
        "fontsize": "small",
    }
    look |= {"ha": "right" if left else "left", "va": "top", "color": ink(ax)}
    text = f"limit {GAS_LIMIT:,}{used}"
    ax.annotate(text, (GAS_LIMIT, 1), xycoords=("data", "axes fraction"), **look)


def _draw_groups(ax: Axes, groups: pd.DataFrame, color: str) -> None:
    """Draw a box from median to 95th percentile of each group, and a line to its maximum."""
    median, p95, most = (groups[name].to_numpy("int64") for name in _DRAWN)
    rows, dark = range(len(groups)), ink(ax)
    ax.hlines(rows, median, most, color=dark, linewidth=0.8)
    dots: dict[str, Any] = {"linestyle": "none", "color": dark}
    ax.plot(median, rows, marker="o", markersize=5, label=_MEDIAN, zorder=3, **dots)
    look: dict[str, Any] = {"height": 0.4, "color": color, "linewidth": 0, "zorder": 2.5}
    ax.barh(rows, p95 - median, left=median, label=_BOX, **look)
    ax.plot(most, rows, marker="|", markersize=10, markeredgewidth=1.2, label=_MOST, **dots)
    highest = most.max()
    if _near(highest):
        ax.axvline(GAS_LIMIT, label="limit", **_dashed(ax))
        highest = max(highest, GAS_LIMIT)
    ax.set(xscale="log", xlim=(max(1, median.min()) / 1.5, highest * 1.5))
    axes.format_powers(ax.xaxis)


def _draw_periods(ax: Axes, groups: pd.DataFrame, period: str, color: str) -> None:
    """Draw the same as steps over time. Periods without calls stay empty."""
    edges, places = times.time_intervals(groups[period], period)
    median, p95, most = np.full((3, len(edges) - 1), np.nan)
    for heights, name in zip((median, p95, most), _DRAWN, strict=True):
        heights[places] = groups[name]
    dark = ink(ax)
    look: dict[str, Any] = {"fill": True, "color": color, "alpha": _LIGHT, "linewidth": 0}
    ax.stairs(p95, edges, baseline=median, label=_BOX, **look)
    ax.stairs(median, edges, baseline=None, color=dark, linewidth=2, label=_MEDIAN)
    ax.stairs(most, edges, baseline=None, color=dark, linewidth=1, label=_MOST)
    lowest, highest = max(1, np.nanmin(median)), np.nanmax(most)
    if _near(highest):
        ax.axhline(GAS_LIMIT, label="limit", **_dashed(ax))
        highest = max(highest, GAS_LIMIT)
    ax.set(yscale="log", xlim=(edges[0], edges[-1]), ylim=(lowest / 1.5, highest * 1.5))
    axes.format_powers(ax.yaxis)
    times.format_times(ax)


def _near(highest: float) -> bool:
    """Return whether the limit is drawn: a line far from all boxes leaves little room for them."""
    return highest >= _NEAR * GAS_LIMIT


def _dashed(ax: Axes) -> dict[str, Any]:
    return {"color": ink(ax), "linestyle": "--", "linewidth": 1}
