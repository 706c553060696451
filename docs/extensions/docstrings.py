"""Add the types of annotations to docstrings, where numpydoc expects them.

The docstrings here have no types: the annotations have them. But numpydoc reads the first line of a
return value as its type.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: A list of names alone on its line: ``transactions, messages``.
_NAMES = re.compile(r"\w+(, \w+)*")

#: What to call the types that only the annotations have.
_WORDS = {
    "AnyFrame": "frame",
    "Bound": "datetime or str or int",
    "ClientOption": "Client or str or None",
    "Column": "column of a frame",
    "Dialect": "str",
    "DtypeBackend": "str",
    "Json": "str or bytes or dict",
    "Moment": "datetime or str",
    "PathLike[str]": "path",
    "Seqnos": "range or Iterable[int] or int or str",
    "StoreOption": "path or None",
    "T": "what parse returns",
    "object": "",
    "pa.Table": "pyarrow.Table",
    "pd.DataFrame": "DataFrame",
    "pd.Series[Any]": "Series",
}


def with_types(lines: list[str], types: dict[str, str]) -> list[str]:
    """Return the lines of a docstring with the types of its parameters and of its value.

    Parameters
    ----------
    lines
        The lines of the docstring.
    types
        The type of each parameter, as text, and of the value as "return".

    Examples
    --------
    >>> with_types(["Returns", "-------", "The path."], {"return": "Path"})
    ['Returns', '-------', 'Path', '    The path.']
    """
    result: list[str] = []
    section = ""
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if line and set(following) == {"-"}:
            section = line
            result.append(line)
        elif set(line) == {"-"} and section in {"Returns", "Yields"}:
            result += [line, in_words(types.get("return", "")) or "frame"]
        elif section in {"Returns", "Yields"}:
            result.append(f"    {line}" if line else "")
        elif section == "Parameters" and _NAMES.fullmatch(line):
            kind = in_words(" | ".join(types.get(name, "object") for name in line.split(", ")))
            result.append(f"{line} : {kind}" if kind else line)
        else:
            result.append(line)
    return result


def in_words(annotation: str) -> str:
    """Return an annotation as text for readers.

    Examples
    --------
    >>> in_words("AnyFrame | AnyFrame | None"), in_words("str | PathLike[str]")
    ('frame or None', 'str or path')
    """
    parts = re.split(r" \| (?![^\[]*\])", annotation)
    words = dict.fromkeys(word for part in parts for word in _WORDS.get(part, part).split(" or "))
    if "None" in words:  # last
        del words["None"]
        words["None"] = None
    return " or ".join(filter(None, words)) if set(words) - {"", "None"} else ""


def _types(what: Any) -> dict[str, str]:
    call = what.__init__ if inspect.isclass(what) else what
    annotations = getattr(inspect.unwrap(call), "__annotations__", {})
    return {name: str(kind).strip("'\"") for name, kind in annotations.items()}


def _add_types(
    _app: Sphinx, _what: str, _name: str, found: Any, _options: Any, lines: list[str]
) -> None:
    if inspect.isclass(found) or inspect.isroutine(found):
        lines[:] = with_types(lines, _types(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect before numpydoc, which has the priority 500."""
    app.connect("autodoc-process-docstring", _add_types, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
