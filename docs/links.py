"""Check that the links between the pages of a built site lead somewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it that a link can lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and the places of a tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and ((tag, name) == ("a", "href") or name == "src"):
                self.links.add(value)


def broken(site: Path) -> list[str]:
    """Return the links between pages that lead nowhere."""
    files = [file for file in sorted(site.resolve().rglob("*.html")) if "_static" not in file.parts]
    pages = {file: Page(file) for file in files}
    return [
        f"{file.name}: {link}"
        for file, page in pages.items()
        for link in sorted(page.links)
        if not _reached(link, file, pages)
    ]


def _reached(link: str, file: Path, pages: dict[Path, Page]) -> bool:
    url = urlsplit(link)
    if url.scheme or url.netloc:  # of another host
        return True
    target = (file.parent / unquote(url.path)).resolve() if url.path else file
    if target in pages:
        return unquote(url.fragment) in pages[target].anchors
    return target.is_file()


if __name__ == "__main__":
    links = broken(Path(sys.argv[1]))
    sys.exit("\n".join(["Links that lead nowhere:", *links]) if links else 0)
