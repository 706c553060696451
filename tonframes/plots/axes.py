"""Axes: those to draw on, the names of their rows, ticks, title and key."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from tonframes.errors import shorten
from tonframes.inert import inert
from tonframes.plots import labels
from tonframes.plots.colors import ink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: Properties of all text that may come from the chain: a dollar sign does not start a formula.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}

_ROWS = 3  # a plot with fewer rows leaves room for this many, so that its bars do not get thick
_TALLEST = 40.0  # inches
_HEADROOM = 1.2  # inches, for title and ticks
_TITLE = 0.62  # width of Axes for each character of a line of the title, in font sizes
_SHORTEST, _LONGEST = 13, 36  # characters of the name of a row
_CHARACTER = 10.5  # points of the width of Axes for each character of the name of a row
_LAID_OUT = 1.3  # height that a layout engine gives to Axes with all their text, in heights before
_ABOVE_AND_BELOW = 60.0  # points of it, for title and ticks
_BESIDE = 80.0  # points of the width of Axes that names and a key may take
_LINE = 1.25  # height of a line of text, in font sizes
_SMALLEST = 3.0  # points
_TICKS = 5  # intervals between ticks, at most
_FIVEFOLD = 5  # within a factor of less there may be one of 1, 2, 5 times a power of ten only
_DECADES = 60  # a logarithmic axis from 1 to less than this has a tick or two at powers of ten only


def check_top(top: int) -> None:
    """Raise an error unless `top` is a positive int."""
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"top must be an int, not {shorten(top)}")
    if top < 1:
        raise ValueError(f"top is the number of groups to draw: it must be at least 1, not {top}")


def start(
    ax: Axes | None, *, x: str = "", y: str = "", rows: Sequence[str] = (), share: float = 1
) -> Axes:
    """Return the Axes of the user, or those of a new figure, with labels and names of rows."""
    ax = _of_a_new_figure(rows, share) if ax is None else _of_the_user(ax)
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
        _name_rows(ax, rows, share)
    return ax


def _of_the_user(ax: Axes) -> Axes:
    """Check the Axes, and give their figure a layout if it has none."""
    import matplotlib.axes  # noqa: PLC0415 - importing tonframes does not import matplotlib

    if not isinstance(ax, matplotlib.axes.Axes):
        raise TypeError(f"ax must be matplotlib Axes or None, not {shorten(ax)}")
    if ax.name == "3d":
        raise TypeError("ax must be Axes with two dimensions: plots do not draw on 3D Axes")
    figure: Any = ax.get_figure(root=True)
    if figure.get_layout_engine() is None and ax.get_subplotspec() is not None:
        figure.set_layout_engine("constrained")
    return ax


def _of_a_new_figure(rows: Sequence[str], share: float) -> Axes:
    """Return the Axes of a new figure, which is as high as its rows need."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - importing tonframes does not import matplotlib

    from tonframes.plots.figure import ThemedFigure  # noqa: PLC0415 - the same

    figure = plt.figure(FigureClass=ThemedFigure, layout="constrained")
    if rows:
        row = 0.34 if any("\n" in name for name in rows) else 0.28
        height = min(_TALLEST, _HEADROOM + row * max(len(rows), _ROWS) / share)
        figure.set_size_inches(figure.get_figwidth(), height)
    ax: Axes = figure.subplots()
    if ax.get_facecolor() == figure.get_facecolor():
        ax.set_facecolor("none")  # the notebook shows what is behind
    return ax


def _name_rows(ax: Axes, names: Sequence[str], share: float) -> None:
    """Set one labelled row for each group, from top to bottom."""
    width, height = size(ax)
    font = tick_font(ax)
    row = share * (_LAID_OUT * height - _ABOVE_AND_BELOW) / len(names)
    if row < 2 * _LINE * font:
        names = labels.first_lines(names)
    lines = max(name.count("\n") + 1 for name in names)
    longest = int(min(_LONGEST, max(_SHORTEST, width / _CHARACTER)))
    names = ["\n".join(labels.cut(line, longest) for line in name.split("\n")) for name in names]
    ax.set_yticks(range(len(names)), names, **PLAIN)
    font = max(_SMALLEST, min(font, row / (_LINE * lines)))
    ax.tick_params(axis="y", which="major", length=0, labelsize=font)
    margin = max(0.0, (_ROWS - len(names)) / 2)
    ax.set_ylim(len(names) - 0.4 + margin, -0.6 - margin)


def size(ax: Axes) -> tuple[float, float]:
    """Return width and height of the Axes in points, before a layout engine changes them."""
    box = ax.get_window_extent()
    points = 72 / ax.figure.dpi
    return box.width * points, box.height * points


def tick_font(ax: Axes) -> float:
    """Return the size of the labels of the y axis, in points."""
    (tick, *_) = ax.yaxis.get_major_ticks(1)
    return float(tick.label1.get_fontsize())


def empty(ax: Axes | None, text: str) -> Axes:
    """Return Axes with nothing but the reason in their middle."""
    ax = start(ax)
    ax.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, text, color=ink(ax), **middle)
    return ax


def finish(ax: Axes, title: str, *, key: bool = False, reverse: bool = False) -> None:
    """Write the title, and to the right of the Axes a key of all that has a label."""
    width, _ = size(ax)
    longest = max(20, int(width / _TITLE / float(ax.title.get_fontsize())))
    lines = textwrap.fill(inert(title), longest, break_on_hyphens=False)
    ax.set_title(lines, color=ink(ax), **PLAIN)
    if key:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1, 1),
            reverse=reverse,
            frameon=False,
            fontsize="small",
            labelcolor=ink(ax),
            handlelength=1,
            handleheight=0.8,
            handletextpad=0.5,
        )


def format_numbers(axis: Axis, *, whole: bool = False) -> None:
    """Write few numbers, as people do: 0.2, 1,500, 2 million."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    steps = [1, 2, 5, 10]
    axis.set_major_formatter(ticker.FuncFormatter(_short))
    axis.set_major_locator(ticker.MaxNLocator(_few(axis), steps=steps, integer=whole))


def format_seqnos(axis: Axis) -> None:
    """Write few seqnos, at least one."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    steps = [1, 2, 5, 10]
    few = ticker.MaxNLocator(_few(axis, 80, 1), steps=steps, integer=True, min_n_ticks=1)
    axis.set_major_formatter("{x:.0f}")
    axis.set_major_locator(few)


def _short(value: float, _place: int | None) -> str:
    return labels.short(value)


def format_powers(axis: Axis) -> None:
    """Write few numbers on a logarithmic axis: powers of ten, or 1, 2 and 5 within two of them."""
    from matplotlib import ticker  # noqa: PLC0415 - importing tonframes does not import matplotlib

    axis.set_major_formatter(ticker.FuncFormatter(_short))
    low, high = axis.get_view_interval()
    few = _few(axis, 80, 1)
    locator: Any = ticker.LogLocator(numticks=few + 1)
    if high / low < _DECADES:
        locator = ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=few + 1)
    if high / low < _FIVEFOLD:
        locator = ticker.MaxNLocator(few, steps=[1, 2, 5, 10])
    axis.set_major_locator(locator)
    axis.set_minor_locator(ticker.NullLocator())


def _few(axis: Any, number: float = 65, least: int = 2) -> int:
    """Return how many intervals between ticks there is room for, if numbers are so wide."""
    width, height = size(axis.axes)
    room = (width - _BESIDE) / number if axis.axis_name == "x" else height / 30
    return max(least, min(_TICKS, int(room)))
