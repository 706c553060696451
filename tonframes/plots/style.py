"""What all pictures share: a place to draw, fills, axes, and text that does nothing."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.analysis.periods import LENGTHS
from tonframes.display import inert
from tonframes.errors import shorten
from tonframes.plots import labels

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Fills = Mapping[str, Mapping[str, Any]]

#: Fills from dark to light: CIE lightness 32, 47, 62, 76 and 91, so that any two stay apart in
#: greyscale. What is rare is hatched instead, on a grey that shows black lines and white ones.
FILLS: tuple[Mapping[str, Any], ...] = (
    *({"facecolor": c} for c in ("#0a4a8f", "#2c7a8c", "#57a773", "#a8c66c", "#f3e79b")),
    *({"facecolor": "#808080", "hatch": hatch} for hatch in ("////", "....", "xxxx", "----")),
)

#: The fill of a picture that needs but one: as far from white as from black.
FILL = FILLS[1]

#: For text that may come from the chain: a dollar sign is a dollar sign.
PLAIN: Mapping[str, Any] = {"parse_math": False, "usetex": False}

_LINE = 0.6
_SIZES = ((18, "medium"), (24, "small"), (36, "x-small"))
_SMALLEST = "xx-small"
_ROWS = 5  # the height of a row is that of one of five, if there are fewer


def axes(ax: Axes | None) -> Axes:
    """Give the Axes to draw on: the user's, or those of a new figure."""
    import matplotlib.axes  # noqa: PLC0415 - importing tonframes draws nothing
    import matplotlib.pyplot as plt  # noqa: PLC0415 - the same

    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not isinstance(ax, matplotlib.axes.Axes):
        raise TypeError(f"ax is Axes of matplotlib or None, not {shorten(ax)}")
    return ax


def checked_top(top: int) -> int:
    """Check how many groups are to be drawn."""
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"top is an int, not {shorten(top)}")
    if top < 1:
        raise ValueError(f"top says how many groups to draw: at least 1, not {top}")
    return top


def describe(ax: Axes, *, title: str, x: str = "", y: str = "") -> None:
    """Set title and labels."""
    ax.set_title(inert(title), loc="left", **PLAIN)
    ax.set_xlabel(inert(x), **PLAIN)
    ax.set_ylabel(inert(y), **PLAIN)


def empty(ax: Axes, text: str) -> None:
    """Say that there is nothing to draw."""
    ax.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, text, color=ink(ax), **middle)


def ink(ax: Axes) -> Any:
    """Give the colour of the text of these Axes, which need not be that of the style in force."""
    return ax.xaxis.label.get_color()


def outlined(ax: Axes) -> dict[str, Any]:
    """Draw a thin line around fills: the lightest is seen on white so, the darkest on black."""
    return {"edgecolor": ink(ax), "linewidth": _LINE}


def legend(ax: Axes, title: str | None = None) -> None:
    """Put the legend to the right, where nothing is drawn."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    box = ax.legend(title=title, frameon=False, alignment="left", labelcolor=ink(ax), **place)
    box.get_title().set_color(ink(ax))


def ranked(ax: Axes, names: Sequence[str]) -> None:
    """Make a row for each group, from the top down; many get smaller letters."""
    size = next((size for rows, size in _SIZES if len(names) <= rows), _SMALLEST)
    ax.set_yticks(range(len(names)), names, **PLAIN)
    ax.tick_params(axis="y", length=0, labelsize=size)
    beyond = max(0.0, (_ROWS - len(names)) / 2)
    ax.set_ylim(len(names) - 0.4 + beyond, -0.6 - beyond)


def bars(ax: Axes, parts: Mapping[str, Floats], fills: Fills) -> None:
    """Stack the parts of each row to the right of zero, what is negative to the left.

    Behind each bar stands how long it is.
    """
    line = outlined(ax)
    for (name, widths), left in zip(parts.items(), _stacked(parts.values()), strict=True):
        (there,) = np.nonzero(widths)
        ax.barh(there, widths[there], 0.72, left[there], label=name, **line, **fills[name])
    table = np.array(list(parts.values()))
    ends, beginnings = table.clip(0).sum(axis=0), table.clip(None, 0).sum(axis=0)
    for row, (end, length) in enumerate(zip(ends, table.sum(axis=0), strict=True)):
        place: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(labels.short(length), (end, row), color=ink(ax), fontsize="small", **place)
    room = 0.22 * (ends.max() - beginnings.min())
    ax.set_xlim(beginnings.min() - room * (beginnings.min() < 0), ends.max() + room)
    amounts_on(ax.xaxis)


def steps(ax: Axes, edges: Floats, parts: Mapping[str, Floats], fills: Fills) -> None:
    """Stack the parts over time, or whatever the edges are of, as steps."""
    line = outlined(ax)
    for (name, heights), base in zip(parts.items(), _stacked(parts.values()), strict=True):
        top = base + heights
        ax.stairs(top, edges, baseline=base, fill=True, label=name, **line, **fills[name])
    ax.set_xlim(edges[0], edges[-1])
    amounts_on(ax.yaxis)


def amounts_on(axis: Axis) -> None:
    """Write small amounts and large ones as multiples of a power of ten, so that they fit."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes draws nothing

    formatter = ticker.ScalarFormatter(useOffset=False, useMathText=True)
    formatter.set_powerlimits((-2, 5))
    axis.set_major_formatter(formatter)
    axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))


def numbers_on(axis: Axis, form: str = "{x:,.0f}") -> None:
    """Write whole numbers, and few, for they may be long."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes draws nothing

    axis.set_major_formatter(form)
    few = ticker.MaxNLocator(4, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    axis.set_major_locator(few)


def _stacked(parts: Collection[Floats]) -> list[Floats]:
    """Say where each part begins: on top of those of its own sign."""
    bases = []
    up = down = np.zeros_like(next(iter(parts)))
    for part in parts:
        bases.append(np.where(part < 0, down, up))
        up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
    return bases


def period_of(keys: Sequence[str]) -> str | None:
    """Say whether groups follow each other in time: they do where they are nothing but hours."""
    return keys[0] if len(keys) == 1 and keys[0] in LENGTHS else None


def periods(times: pd.Series[Any], period: str) -> tuple[Floats, NDArray[np.int64]]:
    """Lay hours or days out on the axis: their edges, and where each is among them."""
    from matplotlib import dates  # noqa: PLC0415 - importing tonframes draws nothing

    starts = times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[s]")
    edges, places = intervals(starts.astype("int64"), LENGTHS[period])
    number: Any = dates.date2num
    return number(edges.astype("datetime64[s]")), places


def intervals(
    starts: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lay intervals out on the axis; what is missing between two is one more, and empty."""
    edges = np.unique(np.concatenate([starts, starts + length]))
    return edges, np.searchsorted(edges, starts)


def time_axis(ax: Axes) -> None:
    """Write times on the x axis, whatever the time zone of the style."""
    from matplotlib import dates  # noqa: PLC0415 - importing tonframes draws nothing

    untyped: Any = dates
    locator = untyped.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator, tz=UTC))
