"""Take out of the outputs of executed pages what depends on the machine and the day of the build.

These are the folders of the samples, temporary folders, and how long ago something was.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
_FOLDER = re.compile(
    rf"{re.escape(str(ROOT / 'data'))}/|{re.escape(tempfile.gettempdir())}/(?:tmp\w+/)?"
)
_AGE = re.compile(r",(?: the newest)? [\d.,]+ (?:days|h|min|s) ago")


def lasting(output: str) -> str:
    """Return an output without folders of this machine and without ages.

    Examples
    --------
    >>> lasting(f"from {ROOT}/data/sample, 3 days ago")
    'from …/sample'
    """
    return _AGE.sub("", _FOLDER.sub("…/", output))


def _clean(_app: Sphinx, document: nodes.document) -> None:
    for node in document.findall(nodes.raw):
        node.children = [nodes.Text(lasting(node.astext()))]
    for node in document.findall(nodes.literal_block):
        text = node.astext()
        if lasting(text) != text:
            node.rawsource = lasting(text)
            node.children = [nodes.Text(lasting(text))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step that cleans each page after its execution."""
    app.connect("doctree-read", _clean)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
