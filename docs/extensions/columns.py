"""The directive `columns`: the columns that a function returns, or that a table has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import tonframes as tf
from tonframes.analysis.results import RESULTS

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

_HEAD = ("column", "dtype", "unit", "meaning")
_WIDTHS = (24, 14, 12, 50)


class Columns(SphinxDirective):
    """A table of the columns that `describe` lists.

    The argument is the name of a table or of a function.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = tf.describe(self.arguments[0])
        group = nodes.tgroup("", cols=len(_HEAD))
        group += [nodes.colspec("", colwidth=width) for width in _WIDTHS]
        group += nodes.thead("", _row([nodes.paragraph("", text) for text in _HEAD]))
        body = nodes.tbody()
        for row in rows.itertuples():
            name = nodes.literal("", row.column) if row.dtype else nodes.emphasis("", "by")
            cells = [nodes.paragraph("", "", name), nodes.paragraph("", row.dtype)]
            cells += [nodes.paragraph("", row.unit), self._text(row.meaning)]
            body += _row(cells)
        group += body
        return [nodes.table("", group, classes=["columns"])]

    def _text(self, meaning: str) -> nodes.paragraph:
        paragraph = nodes.paragraph()
        text, _ = self.parse_inline(meaning)
        paragraph += text
        return paragraph


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", cell) for cell in cells])


def _tell_results(_app: Sphinx, config: Config) -> None:
    config.autosummary_context["results"] = set(RESULTS)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and tell the templates which functions return declared columns."""
    app.add_directive("columns", Columns)
    app.connect("config-inited", _tell_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
