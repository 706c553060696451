"""Room: how much there is for Axes and their labels, and Axes that fit into it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

POINTS = 72  # in an inch
_EM = 0.6  # mean width of a character of DejaVu Sans, in font sizes
_SPACE = 3.0  # points around all that is drawn
_LEAST = 0.3  # part of its room that Axes keep


def size(ax: Axes) -> tuple[float, float]:
    """Return width and height of the room that Axes have with their labels, in points."""
    box = _room(ax)
    return box.width * POINTS / ax.figure.dpi, box.height * POINTS / ax.figure.dpi


def width_of(text: str, font_size: float) -> float:
    """Return about how wide a text is, in points.

    Examples
    --------
    >>> width_of("12345", 10)
    30.0
    """
    return max(map(len, text.split("\n"))) * _EM * font_size


def wrapped(text: str, font_size: float, width: float) -> str:
    """Return a text in lines that are about as wide as `width`, in points."""
    return textwrap.fill(text, max(12, int(width / (_EM * font_size))), break_on_hyphens=False)


def fit(ax: Axes) -> None:
    """Shrink Axes until their labels, title and key are in their part of a grid.

    A layout engine of the figure does the same for all of them, and is left to do it.
    """
    from matplotlib.transforms import Bbox  # noqa: PLC0415 - importing tonframes does not import matplotlib

    grid = ax.get_subplotspec()
    figure: Any = ax.get_figure(root=True)
    if figure.get_layout_engine() is not None or grid is None:
        return
    room = _room(ax).padded(-_SPACE * ax.figure.dpi / POINTS)
    for _ in range(2):  # fewer ticks may fit into the smaller Axes
        ax.apply_aspect()
        drawn: Any = ax.get_tightbbox(for_layout_only=True)
        now = ax.get_window_extent()
        left = now.x0 + max(0, room.x0 - drawn.x0)
        right = now.x1 - max(0, drawn.x1 - room.x1)
        bottom = now.y0 + max(0, room.y0 - drawn.y0)
        top = now.y1 - max(0, drawn.y1 - room.y1)
        right = max(right, left + _LEAST * room.width)
        top = max(top, bottom + _LEAST * room.height)
        whole: Any = ax.figure.transSubfigure
        ax.set_position(Bbox([[left, bottom], [right, top]]).transformed(whole.inverted()))
        ax.set_in_layout(True)  # set_position takes the Axes out of later layouts


def _room(ax: Axes) -> Bbox:
    """Return the part of the figure up to the middle between these Axes and their neighbours."""
    from matplotlib.transforms import Bbox  # noqa: PLC0415 - importing tonframes does not import matplotlib

    figure: Any = ax.figure
    grid = ax.get_subplotspec()
    if grid is None:
        return ax.get_window_extent()
    cells = grid.get_gridspec()
    bottoms, tops, lefts, rights = cells.get_grid_positions(figure)
    rows, columns = grid.rowspan, grid.colspan
    x0 = 0 if columns.start == 0 else (rights[columns.start - 1] + lefts[columns.start]) / 2
    x1 = 1 if columns.stop == cells.ncols else (rights[columns.stop - 1] + lefts[columns.stop]) / 2
    y1 = 1 if rows.start == 0 else (bottoms[rows.start - 1] + tops[rows.start]) / 2
    y0 = 0 if rows.stop == cells.nrows else (bottoms[rows.stop - 1] + tops[rows.stop]) / 2
    return Bbox([[x0, y0], [x1, y1]]).transformed(figure.transSubfigure)
