"""What is drawn: stacked bars, stacked steps, and names at the ends of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.plots import labels, layout
from tonframes.plots.axes import PLAIN, format_amounts, key_size, small, width
from tonframes.plots.colors import ink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_GAP = 4.0  # points between a mark and its text
_FAN, _DASH = 10.0, 8.0  # points: lines to the names at the right, and the dashes beside them


def draw_bars(
    ax: Axes,
    parts: Mapping[str, Floats],
    colors: Mapping[str, str],
    text: Callable[[float], str] = labels.short,
) -> None:
    """Draw a stacked bar for each row, with its total at the end.

    Negative parts are stacked to the left of zero.
    """
    for (name, widths), left in zip(parts.items(), _bases(parts.values()), strict=True):
        (rows,) = np.nonzero(widths)
        look: dict[str, Any] = {"color": colors[name], "linewidth": 0}
        ax.barh(rows, widths[rows], 0.68, left[rows], label=name, **look)
    table = np.array(list(parts.values()))
    totals = ["unknown" if np.isnan(total) else text(total) for total in table.sum(axis=0)]
    known = np.nan_to_num(table)
    ends, starts = known.clip(0).sum(axis=0), known.clip(None, 0).sum(axis=0)
    for row, (end, total) in enumerate(zip(ends, totals, strict=True)):
        write(ax, total, (end, row))
    span = ends.max() - starts.min()
    ax.set_xlim(
        starts.min() - 0.05 * span * (starts.min() < 0), ends.max() + room(ax, totals, span)
    )
    format_amounts(ax.xaxis)


def room(ax: Axes, texts: Sequence[str], span: float) -> float:
    """Return how far the x axis must extend beyond `span`, so that texts fit behind its end."""
    widest = max((layout.width_of(text, small(ax)) for text in texts), default=0)
    part = min(0.45, (widest + 3 * _GAP) / width(ax))
    return part / (1 - part) * span


def write(ax: Axes, text: str, place: tuple[float, float], *, gap: float = _GAP) -> None:
    """Write a number to the right of a mark."""
    look: dict[str, Any] = {"xytext": (gap, 0), "textcoords": "offset points", "va": "center"}
    ax.annotate(text, place, color=ink(ax), fontsize=small(ax), **look)


def draw_steps(
    ax: Axes, edges: Floats, parts: Mapping[str, Floats], colors: Mapping[str, str]
) -> None:
    """Draw stacked steps: one step of each part for each interval between two edges."""
    middles = {}
    for (name, heights), base in zip(parts.items(), _bases(parts.values()), strict=True):
        top = base + heights
        look: dict[str, Any] = {"fill": True, "color": colors[name], "linewidth": 0}
        ax.stairs(top, edges, baseline=base, label=name, **look)
        middles[name] = float(np.nan_to_num((base[-1] + top[-1]) / 2))
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(min(0, ax.dataLim.y0), None)
    format_amounts(ax.yaxis)
    name_ends(ax, middles, colors)


def _bases(parts: Collection[Floats]) -> list[Floats]:
    """Return where each part starts: on top of the parts before it that have its sign."""
    bases = []
    up = down = np.zeros_like(next(iter(parts)))
    for part in parts:
        bases.append(np.where(part < 0, down, up))
        up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
    return bases


def room_of_names(ax: Axes, names: Iterable[str]) -> float:
    """Return how much room `name_ends` takes to the right of the Axes, in points."""
    widest = max(layout.width_of(name, key_size(ax)) for name in names)
    return _FAN + _DASH + _GAP + widest


def name_ends(ax: Axes, ends: Mapping[str, float], colors: Mapping[str, str]) -> None:
    """Write names to the right of the Axes, each at the height where its line or area ends.

    Call this when the limits of the y axis are set. Names that would overlap are moved apart. Each
    name has a dash in the colour of its part, and a thin line from the place where it ends.
    """
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415 - importing tonframes does not import matplotlib

    size = key_size(ax)
    _, height = layout.size(ax)
    step = 1.3 * size / max(0.6 * height, 1)
    to_axes = ax.transData + ax.transAxes.inverted()
    middle = ax.get_xlim()[1]
    found = {name: to_axes.transform((middle, value))[1] for name, value in ends.items()}
    order = sorted(found, key=lambda name: found[name])
    heights = moved_apart(np.array([found[name] for name in order]), step)
    figure: Any = ax.figure
    beside, dash = (
        ax.transAxes + ScaledTranslation(points / layout.POINTS, 0, figure.dpi_scale_trans)
        for points in (_FAN, _FAN + _DASH / 2)
    )
    for name, place in zip(order, heights, strict=True):
        color = colors[name]
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
        end = (1, float(np.clip(found[name], 0, 1)))
        look: dict[str, Any] = {"xycoords": "axes fraction", "annotation_clip": False}
        ax.annotate("", end, (1, place), textcoords=beside, arrowprops=line, **look)
        mark: dict[str, Any] = {"marker": "_", "markersize": _DASH, "markeredgewidth": 3}
        ax.plot([1], [place], color=color, transform=dash, clip_on=False, **mark)
        look |= {"va": "center", "color": ink(ax), "fontsize": size, "textcoords": "offset points"}
        ax.annotate(name, (1, place), (_FAN + _DASH + _GAP, 0), **look, **PLAIN)


def moved_apart(places: Floats, step: float) -> Floats:
    """Return places between 0 and 1, in order, with at least a step between neighbours.

    Examples
    --------
    >>> moved_apart(np.array([0.0, 0.0, 0.9]), 0.25).tolist()
    [0.0, 0.25, 0.9]
    """
    step = min(step, 1 / max(len(places) - 1, 1))
    offsets = step * np.arange(len(places))
    pushed: Floats = np.maximum.accumulate(places.clip(0, 1) - offsets) + offsets
    # What was pushed above 1 goes back down, and pushes what is below it.
    most = 1 - offsets[::-1]
    least: Floats = np.minimum(pushed, most)
    return least
