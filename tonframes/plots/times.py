"""Periods on the x axis: the edges of their steps, and ticks in UTC."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.periods import PERIODS

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

# Ticks at years, months, days, hours, minutes and seconds; those where the larger unit starts; and
# what is written at the end of the axis.
_FORMATS = ("%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S")
_STARTS = ("", "%b", "%d %b", "%d %b", "%H:%M", "%H:%M")
_OFFSETS = ("", "%Y", "%Y", "%Y", "%d %b %Y", "%d %b %Y")


def period_of(keys: Sequence[str], groups: pd.DataFrame) -> str | None:
    """Return the period if it is the only key and has at least two values. The x axis is time then.

    One step alone would be a rectangle as large as the Axes: a single period is drawn as a bar.
    """
    return keys[0] if len(keys) == 1 and keys[0] in PERIODS and len(groups) != 1 else None


def time_intervals(times: pd.Series[Any], period: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return the edges of periods as matplotlib dates, and for each time the interval it starts.

    Two intervals that do not follow each other have one more between them: the gap.
    """
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


def format_times(ax: Axes) -> None:
    """Write times on the x axis in UTC, regardless of the time zone in matplotlib's settings."""
    from matplotlib import dates  # noqa: PLC0415 - importing tonframes does not import matplotlib

    untyped: Any = dates
    locator = untyped.AutoDateLocator(tz=UTC, minticks=2, maxticks=5)
    ax.xaxis.set_major_locator(locator)
    form = untyped.ConciseDateFormatter(
        locator, tz=UTC, formats=_FORMATS, zero_formats=_STARTS, offset_formats=_OFFSETS
    )
    ax.xaxis.set_major_formatter(form)
    ax.set_xlabel(ax.get_xlabel(), loc="left")
