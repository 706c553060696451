"""The colours of plots.

The palette is that of Okabe and Ito, Color Universal Design (https://jfly.uni-koeln.de/color/):
people with any of the common kinds of colour blindness can tell its colours apart. Its yellow has
a contrast of 1.3 with white paper; in its place is the purple of Tol's bright scheme
(https://sronpersonalpages.nl/~pault/). In our order, colours that follow each other differ in
lightness as well, so neighbours in a stack are distinct in greyscale print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonframes.errors import did_you_mean, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Colors = Mapping[str, str] | Sequence[str]

#: Grey and dark brown are ours: they are for what is unknown or wrong.
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#AA3377", "#CC79A7"),
    *("#BBBBBB", "#4A3B2A"),
)
#: The colour of a plot that needs one only.
MAIN = PALETTE[0]
#: Shades of one hue, from light to dark.
SHADES = ("#E3EEF6", "#8FBFDD", "#3C8CBF", "#004B78")

#: The luminance that has the same contrast with black and with white: (L + 0.05)² = 0.05 · 1.05.
MIDDLE = 0.179


def choose(colors: Colors | None, parts: Sequence[str], plot: str) -> dict[str, str]:
    """Return a colour for each part that a plot may draw: that of the user, or of the palette."""
    defaults = {part: PALETTE[place % len(PALETTE)] for place, part in enumerate(parts)}
    if colors is None:
        return defaults
    if isinstance(colors, Mapping):
        if unknown := [part for part in colors if part not in defaults]:
            near = did_you_mean(str(unknown[0]), parts)
            raise ValueError(
                f"{plot} draws nothing that is called {shorten(unknown[0])}{near}: colors= names "
                f"{', '.join(map(repr, parts))}"
            )
        return {**defaults, **_checked(colors, plot)}
    listed = sequence(colors, plot)
    if len(listed) > len(parts):
        raise ValueError(
            f"{plot} draws {len(parts)} parts at most: colors= has {len(listed)} colours"
        )
    return {**defaults, **dict(zip(parts, listed, strict=False))}


def sequence(colors: object, plot: str) -> list[str]:
    """Return a sequence of colours as a list, and check each of them."""
    if isinstance(colors, str | Mapping) or not isinstance(colors, Sequence) or not colors:
        raise TypeError(f"{plot} takes a list of colours as colors=, not {shorten(colors)}")
    return list(_checked(dict(enumerate(colors)), plot).values())


def _checked(colors: Mapping[Any, str], plot: str) -> dict[Any, str]:
    from matplotlib.colors import is_color_like  # noqa: PLC0415 - importing tonframes does not import matplotlib

    for color in colors.values():
        if not is_color_like(color):
            raise ValueError(f"{plot}: matplotlib knows no colour {shorten(color)} (colors=)")
    return dict(colors)


def ink(ax: Axes) -> str:
    """Return the colour of text on these Axes. The current style may have another one."""
    return str(ax.xaxis.label.get_color())


def ramp(ax: Axes) -> tuple[str, ...]:
    """Return shades from little to much: the first is the nearest to the background."""
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - importing tonframes does not import matplotlib

    return SHADES if luminance(to_rgb(ink(ax))) < MIDDLE else SHADES[::-1]


def luminance(color: Sequence[float]) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    levels = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in color[:3]]  # noqa: PLR2004
    return sum(part * level for part, level in zip((0.2126, 0.7152, 0.0722), levels, strict=True))
