"""What all plots share: Axes, fills, bars, steps, ticks and legends."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.periods import PERIODS
from tonframes.errors import shorten
from tonframes.inert import inert
from tonframes.plots import labels

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Fills = Mapping[str, Mapping[str, Any]]

#: Fills from dark to light. Their CIE lightness is 32, 47, 62, 76 and 91, so any two differ in
#: greyscale. The others are for rare parts: a grey on which both black and white hatches show.
FILLS: tuple[Mapping[str, Any], ...] = (
    *({"facecolor": c} for c in ("#0a4a8f", "#2c7a8c", "#57a773", "#a8c66c", "#f3e79b")),
    *({"facecolor": "#808080", "hatch": hatch} for hatch in ("////", "....", "xxxx", "----")),
)

#: The fill of a plot that needs one fill only. It has enough contrast with white and with black.
FILL = FILLS[1]

#: Properties of all text that may come from the chain: a dollar sign does not start a formula.
PLAIN: Mapping[str, Any] = {"parse_math": False, "usetex": False}

# Months differ in length: an offset, not a number of seconds.
_LENGTHS: Mapping[str, Any] = {
    "hour": pd.DateOffset(hours=1),
    "day": pd.DateOffset(days=1),
    "week": pd.DateOffset(weeks=1),
    "month": pd.DateOffset(months=1),
}

_LINE = 0.6  # points
_SIZES = ((18, "medium"), (24, "small"), (36, "x-small"))  # font size, up to so many rows
_SMALLEST = "xx-small"
_ROWS = 5  # a plot with fewer rows leaves room for this many, so that its bars do not get thick


def axes(ax: Axes | None) -> Axes:
    """Return the Axes of the user, or those of a new figure if there are none."""
    import matplotlib.axes  # noqa: PLC0415 - importing tonframes does not import matplotlib
    import matplotlib.pyplot as plt  # noqa: PLC0415 - the same

    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not isinstance(ax, matplotlib.axes.Axes):
        raise TypeError(f"ax must be matplotlib Axes or None, not {shorten(ax)}")
    return ax


def check_top(top: int) -> None:
    """Raise an error unless `top` is a positive int."""
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"top must be an int, not {shorten(top)}")
    if top < 1:
        raise ValueError(f"top is the number of groups to draw: it must be at least 1, not {top}")


def set_labels(ax: Axes, *, title: str, x: str = "", y: str = "") -> None:
    """Set the title and the labels of both axes."""
    ax.set_title(inert(title), loc="left", **PLAIN)
    ax.set_xlabel(inert(x), **PLAIN)
    ax.set_ylabel(inert(y), **PLAIN)


def set_empty(ax: Axes, text: str) -> None:
    """Write into the middle of the Axes why nothing is drawn."""
    ax.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, text, color=text_color(ax), **middle)


def text_color(ax: Axes) -> Any:
    """Return the text colour of these Axes. The current style may have another one."""
    return ax.xaxis.label.get_color()


def outline(ax: Axes) -> dict[str, Any]:
    """Return the outline of a fill: it separates light fills from white, dark ones from black."""
    return {"edgecolor": text_color(ax), "linewidth": _LINE}


def add_legend(ax: Axes, title: str | None = None) -> None:
    """Add a legend to the right of the Axes."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    box = ax.legend(
        title=title, frameon=False, alignment="left", labelcolor=text_color(ax), **place
    )
    box.get_title().set_color(text_color(ax))


def set_rows(ax: Axes, names: Sequence[str]) -> None:
    """Set one labelled row for each group, from top to bottom. Many rows get a smaller font."""
    size = next((size for rows, size in _SIZES if len(names) <= rows), _SMALLEST)
    ax.set_yticks(range(len(names)), names, **PLAIN)
    ax.tick_params(axis="y", length=0, labelsize=size)
    margin = max(0.0, (_ROWS - len(names)) / 2)
    ax.set_ylim(len(names) - 0.4 + margin, -0.6 - margin)


def draw_bars(ax: Axes, parts: Mapping[str, Floats], fills: Fills) -> None:
    """Draw a stacked bar for each row, with its total at the end.

    Negative parts are stacked to the left of zero.
    """
    line = outline(ax)
    for (name, widths), left in zip(parts.items(), _bases(parts.values()), strict=True):
        (rows,) = np.nonzero(widths)
        ax.barh(rows, widths[rows], 0.72, left[rows], label=name, **line, **fills[name])
    table = np.array(list(parts.values()))
    ends, starts = table.clip(0).sum(axis=0), table.clip(None, 0).sum(axis=0)
    for row, (end, total) in enumerate(zip(ends, table.sum(axis=0), strict=True)):
        place: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        color = text_color(ax)
        ax.annotate(labels.short(total), (end, row), color=color, fontsize="small", **place)
    margin = 0.3 * (ends.max() - starts.min())
    ax.set_xlim(starts.min() - margin * (starts.min() < 0), ends.max() + margin)
    format_amounts(ax.xaxis)


def draw_steps(ax: Axes, edges: Floats, parts: Mapping[str, Floats], fills: Fills) -> None:
    """Draw stacked steps: one step of each part for each interval between two edges."""
    line = outline(ax)
    for (name, heights), base in zip(parts.items(), _bases(parts.values()), strict=True):
        top = base + heights
        ax.stairs(top, edges, baseline=base, fill=True, label=name, **line, **fills[name])
    ax.set_xlim(edges[0], edges[-1])
    format_amounts(ax.yaxis)


def _bases(parts: Collection[Floats]) -> list[Floats]:
    """Return where each part starts: on top of the parts before it that have its sign."""
    bases = []
    up = down = np.zeros_like(next(iter(parts)))
    for part in parts:
        bases.append(np.where(part < 0, down, up))
        up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
    return bases


def format_amounts(axis: Axis) -> None:
    """Write very small and very large amounts as multiples of a power of ten, to save room."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    formatter = ticker.ScalarFormatter(useOffset=False, useMathText=True)
    formatter.set_powerlimits((-2, 5))
    axis.set_major_formatter(formatter)
    axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))


def format_counts(axis: Axis, form: str = "{x:,.0f}") -> None:
    """Write whole numbers only. There are few ticks, since the numbers may be long."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    axis.set_major_formatter(form)
    few = ticker.MaxNLocator(4, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    axis.set_major_locator(few)


def period_of(keys: Sequence[str]) -> str | None:
    """Return the period if it is the only key. The x axis is time then."""
    return keys[0] if len(keys) == 1 and keys[0] in PERIODS else None


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
    locator = untyped.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator, tz=UTC))
