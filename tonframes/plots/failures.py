"""Plot why transactions failed."""

from __future__ import annotations

from textwrap import shorten
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
from tonframes.analysis.grouping import keys_of
from tonframes.plots import axes, labels, marks, times
from tonframes.plots.colors import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tonframes.plots.colors import Colors
    from tonframes.plots.marks import Floats

_UNKNOWN = "unknown"
_PHASES = (COMPUTE, ACTION, SKIPPED, COMMITTED, IGNORED, _UNKNOWN)
_NAME = 28  # characters of the name of a code


def plot_failures(
    transactions: object,
    messages: object | None = None,
    *,
    by: str | Sequence[str] = ("phase", "code"),
    top: int = 12,
    colors: Colors | None = None,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how many transactions failed, and in which phase.

    The numbers are those of `failure_summary`.

    Parameters
    ----------
    transactions, messages
        As for `failure_summary`; or a `Blocks` in place of both. Messages are only needed if `by`
        names the operation or a column of theirs.
    by
        As for `failure_summary`. A period ("hour", "day", …; UTC) is drawn as steps over time;
        one period alone is a bar.
        Other columns are drawn as bars; the groups with the most failures come first. A code
        has a bar for each of its phases, since it means something else in each: 37 in the compute
        phase and 37 in the action phase are two bars.
    top
        How many groups to draw. The others share one more row, with their sum.
    colors
        A mapping from phases to colours, or the colours of the first phases: compute, action,
        skipped, committed, ignored, unknown.
    address_book
        Names for addresses in `by`: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. The colours are the phases.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> ax = plot_failures(blocks, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['no state', '37 · not enough TON']
    >>> ax = plot_failures(blocks, by="operation", ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    '0x5a17c0de'
    """
    keys = keys_of("plot_failures", by)
    axes.check_top(top)
    palette = choose(colors, _PHASES, "plot_failures")
    # The phase is always needed, for the colours.
    groups = labels.to_pandas(
        failure_summary(transactions, messages, by=[*keys, "phase"], wide=True)
    )
    period, groups = times.over_time("plot_failures", keys, groups, "failures")
    if "code" in keys:
        keys = [key for key in keys if key != "phase"]  # the colour shows it
        groups["code"] = _named_codes(groups)
        firsts, rows = _ranked(groups, [*keys, "phase"])
    else:
        firsts, rows = _ranked(groups, keys)
    names, row_of = labels.label_groups(firsts, keys, top, "plot_failures", address_book)
    title = labels.title(
        "Failed transactions", ["reason" if key == "code" else key for key in keys]
    )
    if groups.empty:
        ax = axes.empty(ax, "no failures")
    elif period:
        ax = axes.start(ax, x="UTC", y="failures")
        edges, places = times.time_intervals(groups[period], period)
        times.format_times(ax)
        marks.draw_steps(ax, edges, _phases(groups, places, len(edges) - 1), palette)
        axes.format_numbers(ax.yaxis, whole=True)
    else:
        ax = axes.start(ax, x="failures", rows=names)
        parts = _phases(groups, row_of[rows], len(names))
        marks.draw_bars(ax, parts, palette, "{:,.0f}".format)
        axes.format_numbers(ax.xaxis, whole=True)
    axes.finish(ax, title, key=not groups.empty, reverse=period is not None)
    return ax


def _named_codes(groups: pd.DataFrame) -> list[str]:
    """Return each code with its name, or the name alone where there is no code."""
    names = [
        shorten(labels.words(name), _NAME, placeholder=" …") if pd.notna(name) else None
        for name in groups["name"]
    ]
    pairs = zip(groups["code"], names, strict=True)
    return [" · ".join(str(part) for part in pair if pd.notna(part)) for pair in pairs]


def _ranked(groups: pd.DataFrame, keys: list[str]) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return one row for each group of `keys`, most failures first, and each row's rank."""
    if keys:
        number = groups.groupby(keys, dropna=False, sort=False).ngroup()
    else:
        number = pd.Series(0, groups.index)
    totals = groups["failures"].groupby(number).sum()
    totals = totals.sort_values(ascending=False, kind="stable")
    firsts = groups[~number.duplicated()].iloc[totals.index]
    return firsts, totals.index.get_indexer(pd.Index(number))


def _phases(groups: pd.DataFrame, places: NDArray[np.int64], count: int) -> dict[str, Floats]:
    """Return the failures of each phase by place."""
    phases = groups["phase"].fillna(_UNKNOWN)
    parts = {}
    for phase in _PHASES:
        counts = groups["failures"].where(phases == phase, 0).groupby(places).sum()
        if counts.any():
            parts[phase] = counts.reindex(range(count), fill_value=0).to_numpy("float64")
    return parts
