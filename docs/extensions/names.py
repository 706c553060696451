"""Link the names of public functions, of tables, and of files of the repository.

A name in backticks becomes a link to the reference, on every page: in docstrings, in the guide, in
notebooks, and in pages such as the changelog, which are also read in the repository. Their links to
other files of the repository lead there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

import tonframes
from tonframes.analysis.results import RESULTS
from tonframes.wire.schema import TABLES

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/tonframes/tonframes/blob/main"
_CALL = re.compile(r"(tf\.|tonframes\.)?(\w+)(\(.*\))?")
_DESCRIBED = re.compile(r"(?:tf\.)?describe\([\"'](\w+)[\"']\)")
_COLUMNS = {
    column.name for each in (*TABLES.values(), *RESULTS.values()) for column in each.columns
}


def documented(text: str) -> str | None:
    """Return the public name that a literal text is about, or None.

    A name that is also one of a column counts only as a call or with `tf.` before it.

    Examples
    --------
    >>> [documented(text) for text in ("fee_summary", "tf.failures", "failures", "lt")]
    ['fee_summary', 'failures', None, None]
    """
    found = _CALL.fullmatch(text)
    if not found or found[2] not in tonframes.__all__:
        return None
    if found[2] in _COLUMNS and not (found[1] or found[3]):
        return None
    return found[2]


class LinkNames(SphinxPostTransform):
    """Turn literal names into cross-references."""

    default_priority = 5  # before cross-references are resolved

    def run(self, **_options: Any) -> None:
        """Replace the literals of a document, and its links to files."""
        for link in list(self.document.findall(addnodes.pending_xref)):
            file = link["reftarget"]
            if link["reftype"] == "myst" and (ROOT / file).is_file():
                text = [child.deepcopy() for child in link.children]
                link.replace_self(nodes.reference("", "", *text, refuri=f"{REPOSITORY}/{file}"))
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title):
                continue
            target = self._target(literal.astext())
            if target:
                literal.replace_self(target(literal))

    def _target(self, text: str) -> Any:
        here = self.env.docname
        described = _DESCRIBED.fullmatch(text)
        if described and described[1] in TABLES:
            name = described[1]
            return lambda literal: self._reference(literal, "columns/tables", name)
        name = documented(text) or ""
        if name and here != f"reference/api/tonframes.{name}":
            return lambda literal: self._xref(literal, name)
        return None

    def _xref(self, literal: nodes.literal, name: str) -> nodes.Node:
        xref = addnodes.pending_xref(
            "",
            literal.deepcopy(),
            refdomain="py",
            reftype="obj",
            reftarget=f"tonframes.{name}",
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        xref["py:module"] = xref["py:class"] = None
        return xref

    def _reference(self, literal: nodes.literal, page: str, anchor: str) -> nodes.Node:
        place = self.app.builder.get_relative_uri(self.env.docname, page)
        return nodes.reference(
            "", "", literal.deepcopy(), refuri=f"{place}#{anchor}", internal=True
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
