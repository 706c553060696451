"""Plot how much gas transactions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.gas import gas_summary
from tonframes.analysis.grouping import keys_of
from tonframes.network.prices import GAS_LIMIT
from tonframes.plots import frames, labels, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_PER_DECADE = 12  # bins of the histogram
_DRAWN = ("gas_median", "gas_p95", "gas_max")
_BOX = "median to 95 %"


def plot_gas(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] | None = None,
    top: int = 10,
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
        is drawn over time. None draws a histogram of all calls, with both axes logarithmic.
    top
        How many groups to draw. The title says how many groups there are.
    address_book
        Names for addresses in `by`: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. The dashed line is the network's gas limit for one transaction. Special accounts of
    the masterchain have another limit.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> ax = plot_gas(read_blocks(sample()), ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_xscale()
    ('gas', 'log')
    """
    keys = keys_of("plot_gas", by or ())
    style.check_top(top)
    # Grouped by the gas itself: few rows, and the counts are the whole histogram.
    groups = gas_summary(transactions, messages, by=keys or "compute_gas_used", wide=True)
    groups = frames.to_pandas(groups)
    groups = groups[groups.gas_max > 0]
    drawn = groups.head(top)
    names, _ = labels.label_groups(drawn, keys, top, "plot_gas", address_book)
    period = style.period_of(keys)
    ax = style.axes(ax)
    title = "Gas of a call"
    if period:
        style.set_labels(ax, title=f"{title} by {period}", x="UTC", y="gas")
    elif keys:
        chosen = f": the top {len(drawn)} of {len(groups):,}" * (len(drawn) < len(groups))
        style.set_labels(ax, title=title + chosen, x="gas", y=", ".join(keys))
    else:
        style.set_labels(ax, title=title, x="gas", y="calls")
    if groups.empty:
        style.set_empty(ax, "no calls")
    elif period:
        _draw_periods(ax, groups, period)
    elif keys:
        _draw_groups(ax, drawn, names)
    else:
        _draw_histogram(ax, groups)
    return ax


def _draw_histogram(ax: Axes, groups: pd.DataFrame) -> None:
    # Gas is an integer. One half is subtracted, so that gas equal to the upper edge of a bin counts
    # in that bin: calls that used the whole limit are drawn to the left of its line.
    gas, calls = groups.gas_max.to_numpy("float64") - 0.5, groups.calls.to_numpy("int64")
    first = np.floor(np.log10(gas.min()) * _PER_DECADE)
    last = np.ceil(np.log10(gas.max()) * _PER_DECADE)
    edges: Any = 10 ** (np.arange(first, last + 1) / _PER_DECADE)
    ax.hist(gas, edges, weights=calls, **style.outline(ax), **style.FILL)
    ax.set(xscale="log", yscale="log", ylim=(0.7, None))
    use = groups.limit_use_max.max()
    used = "" if pd.isna(use) else f",\nused up to {labels.short(use * 100)} %"
    ax.axvline(GAS_LIMIT, label=f"limit {GAS_LIMIT:,}{used}", **_dashed(ax))
    style.add_legend(ax)


def _draw_groups(ax: Axes, groups: pd.DataFrame, names: list[str]) -> None:
    """Draw a box from median to 95th percentile of each group, and a line to its maximum."""
    median, p95, most = (groups[name].to_numpy("int64") for name in _DRAWN)
    rows, color = range(len(groups)), style.text_color(ax)
    style.set_rows(ax, names)
    ax.hlines(rows, median, most, color=color, linewidth=0.8)
    box = {"label": _BOX, **style.outline(ax), **style.FILL}
    ax.barh(rows, p95 - median, left=median, height=0.4, **box)
    ax.plot(median, rows, "o", markersize=5, color=color, label="median")
    ax.plot(most, rows, "|", markersize=11, color=color, label="maximum")
    ax.axvline(GAS_LIMIT, label="limit", **_dashed(ax))
    ax.set(xscale="log", xlim=(max(1, median.min()) / 2, max(GAS_LIMIT, most.max()) * 2))
    style.add_legend(ax)


def _draw_periods(ax: Axes, groups: pd.DataFrame, period: str) -> None:
    """Draw the same as steps over time. Periods without calls stay empty."""
    edges, places = style.time_intervals(groups[period], period)
    median, p95, most = np.full((3, len(edges) - 1), np.nan)
    for heights, name in zip((median, p95, most), _DRAWN, strict=True):
        heights[places] = groups[name]
    color = style.text_color(ax)
    ax.stairs(p95, edges, baseline=median, fill=True, label=_BOX, **style.FILL)
    ax.stairs(median, edges, baseline=None, color=color, linewidth=2, label="median")
    ax.stairs(most, edges, baseline=None, color=color, linestyle=":", label="maximum")
    ax.axhline(GAS_LIMIT, label="limit", **_dashed(ax))
    ax.set(yscale="log", xlim=(edges[0], edges[-1]))
    style.format_times(ax)
    style.add_legend(ax)


def _dashed(ax: Axes) -> dict[str, Any]:
    return {"color": style.text_color(ax), "linestyle": "--", "linewidth": 1.2}
