"""The figures that plots create: in a notebook they follow its theme.

A file that is saved has the colours of the style: by default, black text on white. A notebook shows
a transparent picture of the same figure, and in a dark theme its lightness is inverted and its hues
are kept. The kernel does not know the theme, so CSS chooses. One grey for the text of both themes
would be hard to read: no colour has a contrast of more than 4.35 with both white and #111111, the
background of JupyterLab's dark theme, and WCAG 2.2 asks for 4.5.
"""

from __future__ import annotations

import base64
import html
import struct
from io import BytesIO

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

_WHITE = (1.0, 1.0, 1.0)
_SHARP = 2  # pixels of the picture for each pixel of the page: screens of high resolution
_SIZE = slice(16, 24)  # width and height in the header of a PNG file

# Selectors of dark pages: JupyterLab, Colab, pydata-sphinx-theme, VS Code. A notebook that
# is not trusted has no styles: there the picture has a white background. pydata-sphinx-theme leaves
# images of the class dark-light as they are.
_DARK = (
    '[data-jp-theme-light="false"]',
    'html[theme="dark"]',
    'html[data-theme="dark"]',
    "body.vscode-dark",
)
_STYLE = (
    "<style>img.tonframes-plot{background-color:transparent!important}"
    f"{','.join(f'{page} img.tonframes-plot' for page in _DARK)}"
    "{filter:invert(1) hue-rotate(180deg)}</style>"
)
_IMAGE = (
    '<img class="tonframes-plot dark-light" style="background-color:white" '
    'width="{width}" alt="{alt}" src="data:image/png;base64,{data}">'
)


class ThemedFigure(Figure):
    """A figure that notebooks show in their theme."""

    def _repr_html_(self) -> str | None:
        """Return the picture for a notebook; None if the background is another than white."""
        if to_rgb(self.get_facecolor()) != _WHITE:
            return None
        file = BytesIO()
        self.savefig(
            file, format="png", facecolor="none", bbox_inches="tight", dpi=_SHARP * self.dpi
        )
        width, _ = struct.unpack(">II", file.getvalue()[_SIZE])
        data = base64.b64encode(file.getvalue()).decode()
        return _STYLE + _IMAGE.format(width=width // _SHARP, alt=_described(self), data=data)


def _described(figure: Figure) -> str:
    """Return the titles of a figure, for those who do not see it."""
    return html.escape(", ".join(filter(None, (ax.get_title() for ax in figure.axes))))
