"""The directive `gallery`: a card for each notebook, with the first picture that it draws."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

FOLDER = "notebooks/"
#: Where the files of the notebooks can be downloaded.
REPOSITORY = "https://github.com/tonframes/tonframes/blob/main"


class Cards(nodes.General, nodes.Element):
    """The place of the cards; they are filled in when all notebooks are read."""


class Gallery(SphinxDirective):
    """A card for each notebook."""

    def run(self) -> list[nodes.Node]:
        """Return the place of the cards."""
        return [Cards()]


def _fill(app: Sphinx, document: nodes.document, page: str) -> None:
    for place in list(document.findall(Cards)):
        cards = nodes.container(classes=["gallery"])
        for name in sorted(app.env.found_docs):
            if name.startswith(FOLDER):
                cards += _card(app, page, name)
        place.replace_self(cards)


def _card(app: Sphinx, page: str, name: str) -> nodes.container:
    notebook = app.env.get_doctree(name)
    title = app.env.titles[name].astext()
    link = nodes.reference(refuri=app.builder.get_relative_uri(page, name), internal=True)
    for picture in itertools.islice(notebook.findall(nodes.image), 1):
        about = f"First picture of the notebook: {title}"
        link += nodes.image(
            uri=picture["uri"], alt=about, candidates={"*": picture["uri"]}, classes=["dark-light"]
        )
    link += nodes.strong("", title)
    card = nodes.container("", nodes.paragraph("", "", link), classes=["gallery-card"])
    for text in itertools.islice(notebook.findall(nodes.paragraph), 1):
        card += _without_links(text)
    file = nodes.reference("", "Notebook file", refuri=f"{REPOSITORY}/{name}.ipynb")
    card += nodes.paragraph("", "", file)
    return card


def _without_links(text: nodes.paragraph) -> nodes.paragraph:
    """Return a paragraph with its marks, such as code. The whole card is a link already."""
    copy = text.deepcopy()
    for kind in (nodes.reference, addnodes.pending_xref):
        for link in list(copy.findall(kind)):
            link.replace_self(link.children)
    return copy


def _always(_app: Sphinx, _env: BuildEnvironment) -> list[str]:
    """Write the gallery in every build: a notebook may draw another picture."""
    return ["gallery"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the step that fills it."""
    app.add_node(Cards)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", _fill)
    app.connect("env-updated", _always)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
