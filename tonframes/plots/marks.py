"""What is drawn: stacked bars, stacked steps, and numbers beside marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tonframes.plots import labels
from tonframes.plots.axes import format_numbers, size, tick_font
from tonframes.plots.colors import ink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_GAP = 4.0  # points between a mark and its text
_SMALL = 0.85  # size of numbers, in sizes of the names of rows
_CHARACTER = 10.0  # points of the width of Axes for each character behind the longest bar


def draw_bars(
    ax: Axes,
    parts: Mapping[str, Floats],
    colors: Mapping[str, str],
    text: Callable[[float], str] = labels.short,
) -> None:
    """Draw a stacked bar for each row, with its total at the end."""
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
        starts.min() - 0.05 * span * (starts.min() < 0), ends.max() + room(ax, totals) * span
    )
    format_numbers(ax.xaxis)


def room(ax: Axes, texts: Sequence[str]) -> float:
    """Return how far the x axis must extend beyond its marks, so that texts fit behind them."""
    width, _ = size(ax)
    return 0.03 + min(0.45, _CHARACTER / width * max(map(len, texts), default=0))


def write(ax: Axes, text: str, place: tuple[float, float], *, gap: float = _GAP) -> None:
    """Write a number to the right of a mark."""
    look: dict[str, Any] = {"xytext": (gap, 0), "textcoords": "offset points", "va": "center"}
    ax.annotate(text, place, color=ink(ax), fontsize=_SMALL * tick_font(ax), **look)


def draw_steps(
    ax: Axes, edges: Floats, parts: Mapping[str, Floats], colors: Mapping[str, str]
) -> None:
    """Draw stacked steps: one step of each part for each interval between two edges."""
    for (name, heights), base in zip(parts.items(), _bases(parts.values()), strict=True):
        look: dict[str, Any] = {"fill": True, "color": colors[name], "linewidth": 0}
        ax.stairs(base + heights, edges, baseline=base, label=name, **look)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(min(0, ax.dataLim.y0), None)
    format_numbers(ax.yaxis)


def _bases(parts: Collection[Floats]) -> list[Floats]:
    """Return where each part starts: on top of the parts before it that have its sign."""
    bases = []
    up = down = np.zeros_like(next(iter(parts)))
    for part in parts:
        bases.append(np.where(part < 0, down, up))
        up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
    return bases
