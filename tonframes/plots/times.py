"""Periods on the x axis: the edges of their steps, and ticks in UTC."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.periods import PERIODS
from tonframes.errors import warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Months differ in length: an offset, not a number of seconds.
_LENGTHS: Mapping[str, Any] = {
    "hour": pd.DateOffset(hours=1),
    "day": pd.DateOffset(days=1),
    "week": pd.DateOffset(weeks=1),
    "month": pd.DateOffset(months=1),
}

# matplotlib draws times of the years 1 to 9999, and an axis ends where its last period ends.
_LAST_YEAR = 9998

# Ticks at years, months, days, hours, minutes and seconds; those where the larger unit starts; and
# what is written at the end of the axis.
_FORMATS = ("%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S")
_STARTS = ("", "%b", "%d %b", "%d %b", "%H:%M", "%H:%M")
_OFFSETS = ("", "%Y", "%Y", "%Y", "%d %b %Y", "%d %b %Y")


def over_time(
    plot: str, keys: Sequence[str], groups: pd.DataFrame, counted: str = "transactions"
) -> tuple[str | None, pd.DataFrame]:
    """Return the period of an axis of time, and the groups that have a place on it.

    The x axis is time if a period is the only key and has at least two values: one step alone would
    be a rectangle as large as the Axes. `counted` is the column with the number of rows: those
    without a place are counted in a warning.
    """
    if len(keys) != 1 or keys[0] not in PERIODS:
        return None, groups
    drawable = groups[keys[0]].dt.year <= _LAST_YEAR  # false where it is null
    if len(groups[keys[0]][drawable].unique()) <= 1:
        return None, groups
    if left_out := int(groups[counted][~drawable].sum()):
        warn(
            f"{plot} leaves out {left_out:,} {counted}: their time is null, or outside the years "
            f"1 to {_LAST_YEAR}"
        )
    return keys[0], groups[drawable]


def time_intervals(times: pd.Series[Any], period: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return the edges of periods as matplotlib dates, and for each time the interval it starts."""
    from matplotlib import dates  # noqa: PLC0415 - importing tonframes does not import matplotlib

    starts = times.dt.tz_convert("UTC").dt.tz_localize(None)
    ends = starts + _LENGTHS[period]
    edges, places = intervals(
        *(t.to_numpy("datetime64[s]").astype("int64") for t in (starts, ends))
    )
    number: Any = dates.date2num
    return number(edges.astype("datetime64[s]")), places


def intervals(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the edges of all intervals in order, and the place of each interval among them."""
    edges = np.unique(np.concatenate([starts, ends]))
    return edges, np.searchsorted(edges, starts)


def means_of_days(heights: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each day in UTC over the intervals in it, and the edges of the days."""
    days = np.unique(np.clip(np.arange(np.floor(edges[0]), edges[-1] + 1), edges[0], edges[-1]))
    areas = np.concatenate([[0.0], np.cumsum(heights * np.diff(edges))])
    return np.diff(np.interp(days, edges, areas)) / np.diff(days), days


def format_times(ax: Axes) -> None:
    """Write times on the x axis in UTC, regardless of the time zone in matplotlib's settings."""
    from matplotlib import dates  # noqa: PLC0415 - importing tonframes does not import matplotlib

    untyped: Any = dates
    most = {**dict.fromkeys(range(untyped.SECONDLY + 1), 5), untyped.DAILY: 6}  # a tick per week
    locator = untyped.AutoDateLocator(tz=UTC, minticks=2, maxticks=most)
    ax.xaxis.set_major_locator(locator)
    form = untyped.ConciseDateFormatter(
        locator, tz=UTC, formats=_FORMATS, zero_formats=_STARTS, offset_formats=_OFFSETS
    )
    ax.xaxis.set_major_formatter(form)
    ax.set_xlabel(ax.get_xlabel(), loc="left")
