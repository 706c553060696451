"""Axes: those to draw on, with a title, two spines, few ticks, and rows with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonframes.errors import shorten
from tonframes.inert import inert
from tonframes.plots import labels, layout
from tonframes.plots.colors import ink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: Properties of all text that may come from the chain: a dollar sign does not start a formula.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}

_ROWS = 3  # a plot with fewer rows leaves room for this many, so that its bars do not get thick
_TALLEST = 40.0  # inches
_ABOVE_AND_BELOW = 80.0  # points, for title, key and ticks
_MARGINS = 30.0  # points beside the Axes, other than names
_TWO_LINES = 15.0  # points: lower rows have one line of text
_SHORTEST = 13  # characters that the longest name keeps
_SMALL = 0.9  # size of small text, in sizes of the labels of ticks
_HEADROOM = 1.7  # inches, for title, key and ticks
_TICKS = 5  # intervals between ticks, at most
_FIVEFOLD = 5  # within a factor of less there may be one of 1, 2, 5 times a power of ten only
_SEQNO = "90000000"
_APART = 1.15  # least distance of two seqnos, in widths of one
_DECADES = 60  # a logarithmic axis from 1 to less than this has a tick or two at powers of ten only
_SMALLEST = 3.0  # points
_LINE = 1.25  # height of a line of text, in font sizes
_BETWEEN = 0.4  # space between the names of two rows with two lines each, in font sizes


def axes(ax: Axes | None, names: Sequence[str] = ()) -> Axes:
    """Return the Axes of the user, or those of a new figure if there are none.

    A new figure is as high as the rows of these names need.
    """
    import matplotlib.axes  # noqa: PLC0415 - importing tonframes does not import matplotlib
    import matplotlib.pyplot as plt  # noqa: PLC0415 - the same

    from tonframes.plots.figure import ThemedFigure  # noqa: PLC0415 - the same

    if ax is not None:
        if not isinstance(ax, matplotlib.axes.Axes):
            raise TypeError(f"ax must be matplotlib Axes or None, not {shorten(ax)}")
        if ax.name == "3d":
            raise TypeError("ax must be Axes with two dimensions: plots do not draw on 3D Axes")
        return ax
    figure = plt.figure(FigureClass=ThemedFigure, layout="constrained")
    if names:
        row = 0.34 if any("\n" in name for name in names) else 0.28
        height = min(_TALLEST, _HEADROOM + row * max(len(names), _ROWS))
        figure.set_size_inches(figure.get_figwidth(), height)
    new: Axes = figure.subplots()
    if new.get_facecolor() == figure.get_facecolor():
        new.set_facecolor("none")  # the notebook shows what is behind
    return new


def check_top(top: int) -> None:
    """Raise an error unless `top` is a positive int."""
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"top must be an int, not {shorten(top)}")
    if top < 1:
        raise ValueError(f"top is the number of groups to draw: it must be at least 1, not {top}")


def prepare(
    ax: Axes, *, x: str = "", y: str = "", rows: Sequence[str] = (), below: float = 0
) -> None:
    """Leave two spines and no grid, and set labels and the names of rows.

    `below` is how much more room than usual there is below the Axes, in points.
    """
    color = ink(ax)
    ax.grid(visible=False, which="both")
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set(color=color, linewidth=0.8)
    ax.tick_params(
        which="both", top=False, right=False, direction="out", color=color, labelcolor=color
    )
    ax.tick_params(which="minor", bottom=False, left=False)
    ax.tick_params(which="major", bottom=True, left=True, length=3.5, width=0.8)
    ax.set_xlabel(inert(x), **PLAIN)
    ax.set_ylabel(inert(y), color=color, **PLAIN)
    if rows:
        _set_rows(ax, rows, below)


def width(ax: Axes) -> float:
    """Return about how much width the Axes have beside the names of their rows, in points."""
    whole, _ = layout.size(ax)
    size = font(ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    used = max((layout.width_of(name, size) for name in names), default=4 * size)
    return max(whole - used - _MARGINS, 0.3 * whole)


def _set_rows(ax: Axes, names: Sequence[str], below: float) -> None:
    """Set one labelled row for each group, from top to bottom.

    Many rows get a smaller font, and their names are in one line. Long names get shorter, so that
    they leave half of the width.
    """
    whole, height = layout.size(ax)
    row = (height - _ABOVE_AND_BELOW - below) / len(names)
    if row < _TWO_LINES:
        names = labels.first_lines(names)
    lines = max(name.count("\n") + 1 for name in names)
    size = max(_SMALLEST, min(font(ax), row / (lines * _LINE + _BETWEEN * (lines > 1))))
    longest = max(_SHORTEST, int(whole / 2 / layout.width_of("x", size)))
    names = ["\n".join(labels.cut(line, longest) for line in name.split("\n")) for name in names]
    ax.set_yticks(range(len(names)), names, **PLAIN)
    ax.tick_params(axis="y", which="major", length=0, labelsize=size)
    margin = max(0.0, (_ROWS - len(names)) / 2)
    ax.set_ylim(len(names) - 0.4 + margin, -0.6 - margin)


def font(ax: Axes) -> float:
    """Return the size of the labels of the y axis, in points."""
    (tick, *_) = ax.yaxis.get_major_ticks(1)
    return float(tick.label1.get_fontsize())


def small(ax: Axes) -> float:
    """Return the size of small text on these Axes, in points."""
    return _SMALL * font(ax)


def key_size(ax: Axes) -> float:
    """Return the size of names of colours, in points. It does not depend on the number of rows."""
    (tick, *_) = ax.xaxis.get_major_ticks(1)
    return _SMALL * float(tick.label1.get_fontsize())


def set_empty(ax: Axes, text: str) -> None:
    """Write into the middle of the Axes why nothing is drawn."""
    ax.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, text, color=ink(ax), **middle)


def format_amounts(axis: Axis) -> None:
    """Write few numbers, as people do: 0.2, 1,500, 2 million."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    axis.set_major_formatter(ticker.FuncFormatter(_short))
    axis.set_major_locator(ticker.MaxNLocator(_few(axis), steps=[1, 2, 5, 10]))


def _short(value: float, _place: int | None) -> str:
    return labels.short(value)


def format_counts(axis: Axis, form: str = "{x:,.0f}", intervals: int | None = None) -> None:
    """Write few whole numbers, with at most so many intervals between them."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    axis.set_major_formatter(form)
    steps = [1, 2, 5, 10]
    few = ticker.MaxNLocator(intervals or _few(axis), steps=steps, integer=True, min_n_ticks=1)
    axis.set_major_locator(few)


def format_seqnos(axis: Axis, beside: float) -> None:
    """Write few seqnos, at least one. Names to the right of the Axes take `beside` points."""
    ax: Any = axis.axes
    one = _APART * layout.width_of(_SEQNO, font(ax))
    format_counts(axis, "{x:.0f}", max(1, min(_TICKS, int((width(ax) - beside) // one))))


def format_powers(axis: Axis) -> None:
    """Write few numbers on a logarithmic axis: powers of ten, or 1, 2 and 5 within two of them."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    axis.set_major_formatter(ticker.FuncFormatter(_short))
    low, high = axis.get_view_interval()
    few: Any = ticker.LogLocator(numticks=_few(axis) + 1)
    if high / low < _DECADES:
        few = ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=_few(axis) + 1)
    if high / low < _FIVEFOLD:
        few = ticker.MaxNLocator(_few(axis), steps=[1, 2, 5, 10])
    axis.set_major_locator(few)
    axis.set_minor_locator(ticker.NullLocator())


def _few(axis: Any) -> int:
    """Return how many intervals between ticks the axis has room for, from 2 to 5."""
    ax = axis.axes
    _, height = layout.size(ax)
    room, one = (width(ax), 7 * font(ax)) if axis.axis_name == "x" else (height, 3 * font(ax))
    return max(2, min(_TICKS, int(room // one)))
