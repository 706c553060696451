"""What is above the Axes: a title, and a key where colours have no name beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonframes.inert import inert
from tonframes.plots import layout
from tonframes.plots.axes import PLAIN, key_size
from tonframes.plots.colors import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text
    from matplotlib.transforms import Transform

_SWATCH = 3.0  # width of a swatch and the spaces around it, in font sizes
_LARGEST, _LONGEST = 0.04, 0.85  # size of the title, and its length, as parts of the width
_SPACE = 7.0  # points between Axes, key and title


def finish(ax: Axes, title: str, *, key: bool = False) -> None:
    """Write the title, add a key if one is needed, and fit the Axes into their part of a grid.

    Both begin above the names of the rows and take as many lines as they need. Call this last: the
    names of rows and the numbers of the y axis must be there.
    """
    indent = _indent(ax)
    if key:
        _add_key(ax, indent)
    whole, _ = layout.size(ax)
    size = min(float(ax.title.get_fontsize()), _LARGEST * whole)
    text = layout.wrapped(inert(title), size, _LONGEST * whole)
    look: dict[str, Any] = {"loc": "left", "color": ink(ax), "fontsize": size, "pad": _above(ax)}
    written = ax.set_title(text, **look, **PLAIN)
    written.set_transform(written.get_transform() + _left_by(ax, indent))
    _give_way(ax, written)
    layout.fit(ax)


def _give_way(ax: Axes, written: Text) -> None:
    """Leave the place to a title that the user sets later, and put it above the key.

    `Axes.set_title` moves titles to where matplotlib has them: a callback moves them back.
    """
    axes: Any = ax

    def replace(title: Any) -> None:
        if title is not written and title.get_text():
            written.set_text("")
        left = _indent(ax) if title is written else 0
        place = ax.transAxes + _moved(ax, -left, _above(ax))
        if title.get_transform() == ax.transAxes + axes.titleOffsetTrans != place:
            title.set_transform(place)

    right: Text = axes._right_title  # noqa: SLF001 - matplotlib has no public one
    for place in (written, ax.title, right):
        place.add_callback(replace)


def _above(ax: Axes) -> float:
    """Return how far above the Axes the title is, in points."""
    key = ax.get_legend()
    if key is None:
        return _SPACE
    return 1.5 * _SPACE + key.get_window_extent().height * layout.POINTS / ax.figure.dpi


def _indent(ax: Axes) -> float:
    """Return how much room the y axis takes to the left of the Axes, in points."""
    axis: Any = ax.yaxis
    figure: Any = ax.get_figure(root=True)
    box = axis.get_tightbbox(figure._get_renderer())  # noqa: SLF001 - matplotlib has no public one
    left = ax.get_window_extent().x0
    return 0 if box is None else max(0, (left - box.x0) * layout.POINTS / ax.figure.dpi)


def _left_by(ax: Axes, points: float) -> Transform:
    return _moved(ax, -points, 0)


def _moved(ax: Axes, right: float, up: float) -> Transform:
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415 - importing tonframes does not import matplotlib

    figure: Any = ax.figure
    return ScaledTranslation(right / layout.POINTS, up / layout.POINTS, figure.dpi_scale_trans)


def _add_key(ax: Axes, indent: float) -> None:
    """Add a key of all that has a label."""
    size = key_size(ax)
    handles, names = ax.get_legend_handles_labels()
    widths = [layout.width_of(name, size) + _SWATCH * size for name in names]
    whole, _ = layout.size(ax)
    room = whole - 2 * _SPACE
    # The columns of a legend are as wide as their widest name.
    columns = len(names) if sum(widths) <= room else max(1, int(room // max(widths)))
    ax.legend(
        handles,
        names,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + _left_by(ax, indent),
        borderaxespad=_SPACE / size / 2,
        frameon=False,
        fontsize=size,
        labelcolor=ink(ax),
        handlelength=1,
        handleheight=0.8,
        handletextpad=0.4,
        columnspacing=1,
        labelspacing=0.3,
        borderpad=0,
    )
