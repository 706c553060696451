"""Text and HTML for a terminal and a notebook.

Anybody can write text to a chain: a comment may contain HTML, an escape sequence for terminals, or
characters that reverse the direction of a line. So this module passes all text through `inert`.
The HTML has no script and sets no colours: it is readable in light and dark themes and in a
notebook that is not trusted. Its tables are readable without their styles. Notebooks set text
between dollar signs as a formula, and a formula may have links: two classes keep them from that.

Addresses are long, so HTML shows only their ends. A shortened address could be mistaken for another
one with the same ends. Therefore the page always contains the whole address: only a style hides its
middle, it is shown when the mouse is over it, and it is what is copied. A notebook that is not
trusted, and a terminal, show it whole.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tonframes.inert import inert

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Longest text in a cell, in characters. A raw address fits.
WIDEST = 69

#: An address in raw or user-friendly form, and how many characters of its end are shown.
_ADDRESS = re.compile(r"(?<![\w-])(-?[0-9]+:[0-9A-F]{64}|[EUk0][Qf][\w-]{46})(?![\w-])", re.ASCII)
_END = 6
#: The class of what MathJax leaves as it is: in version 2, as of nbconvert and nbviewer, and from 3
#: on, as of JupyterLab (docs.mathjax.org: `ignoreClass` of tex2jax, `ignoreHtmlClass`). It counts
#: for all that is inside.
_NO_MATH = "tex2jax_ignore mathjax_ignore"
_DIGITS = "font-family: monospace"
#: Hides what is after the first characters, without taking it out of the page.
_ENDS = (
    "display: inline-block; max-width: 8.3ch; overflow: hidden; text-overflow: ellipsis; "
    "white-space: nowrap; vertical-align: bottom"
)

_SCALES = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))
_AGES = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))


def cut(text: str) -> str:
    """Return text made inert and shortened to `WIDEST` characters."""
    short = inert(text[:WIDEST])
    return short if len(text) <= WIDEST and len(short) <= WIDEST else short[: WIDEST - 1] + "…"


def size(count: int) -> str:
    """Return a number of bytes as text."""
    for scale, unit in _SCALES:
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def moment(time: datetime) -> str:
    """Return a moment as text, to the second, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """Return a duration as text, in the largest unit of which it has at least two."""
    for length, unit in _AGES:
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def ago(time: datetime) -> str:
    """Return how long ago a moment was; it may be in the future, because clocks differ."""
    seconds = (datetime.now(UTC) - time).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def period_text(first: datetime, last: datetime) -> str:
    """Return two moments and the duration between them as text."""
    if first == last:
        return moment(first)
    return f"{moment(first)} to {moment(last)} ({duration((last - first).total_seconds())})"


@dataclass(frozen=True)
class Preview:
    """The first rows of a table: names of columns, and text of cells."""

    summary: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""

    def html(self) -> str:
        """Return HTML: a table that a click opens, or one line if there are no rows."""
        if not self.rows:
            return f"<div>{_escape(self.summary)}</div>"
        head = "".join(f"<th>{_escape(name)}</th>" for name in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_escape(cut(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<details><summary>{_escape(self.summary)}</summary>"
            f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div><div>{_escape(self.note)}</div></details>"
        )


@dataclass(frozen=True)
class Card:
    """A title, and facts about an object with their labels."""

    title: str
    facts: Sequence[tuple[str, str]]

    def text(self) -> str:
        """Return text for a terminal."""
        width = max((len(label) for label, _ in self.facts), default=0)
        lines = [f"\n  {inert(label):{width}}  {inert(fact)}" for label, fact in self.facts]
        return f"<{inert(self.title)}{''.join(lines)}>"

    def html(self, previews: Sequence[Preview] = ()) -> str:
        """Return HTML for a notebook."""
        left = 'style="text-align: left"'
        rows = "".join(
            f"<tr><th {left}>{_escape(label)}</th><td {left}>{_escape(fact)}</td></tr>"
            for label, fact in self.facts
        )
        tables = "".join(preview.html() for preview in previews)
        return (
            f'<div class="{_NO_MATH}"><b>{_escape(self.title)}</b><table><tbody>{rows}</tbody>'
            f"</table>{tables}</div>"
        )


def paragraph(text: str) -> str:
    """Return a text as HTML for a notebook."""
    return f'<div class="{_NO_MATH}">{_escape(text)}</div>'


def _escape(text: str) -> str:
    """Return text as HTML, with the middle of addresses hidden."""
    return _ADDRESS.sub(_ends, html.escape(inert(text)))


def _ends(found: re.Match[str]) -> str:
    address = found[0]
    return (
        f'<span title="{address}" style="{_DIGITS}"><span style="{_ENDS}">{address[:-_END]}</span>'
        f"{address[-_END:]}</span>"
    )
