"""API keys, and texts without them.

Messages pass `masked`: those of the errors and the warnings of this package, and what it logs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from typing import NoReturn

MASK = "***"


class Key:
    """An API key. Only `reveal` shows it, and what `masked` returns does not contain it.

    It is not a str, because a debugger that shortens long strings would show how a key begins. The
    constructor raises nothing, because a traceback would show its argument; `check` raises.
    """

    __slots__ = ("__weakref__", "_kind", "_text")

    def __init__(self, given: object) -> None:
        global _keys  # noqa: PLW0603 - replaced as a whole, so that no thread sees it half made
        self._kind = type(given).__name__
        self._text = given.strip() if isinstance(given, str) else ""
        _keys = (*(known for known in _keys if known() is not None), ref(self))

    def check(self) -> None:
        """Raise an error if it cannot be a key: other code would quote it in its errors."""
        if self._kind != "str":
            raise TypeError(f"api_key is a str, not {self._kind}")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self._text):
            raise ValueError("api_key may contain letters, digits, - and _ only (not shown here)")

    def reveal(self) -> str:
        """Return the key itself."""
        return self._text

    def mask(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._text, MASK) if self._text else text

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Key cannot be pickled or copied")


_keys: tuple[ref[Key], ...] = ()


def masked(text: str) -> str:
    """Return a text without the keys that are in use."""
    for known in _keys:
        if (key := known()) is not None:
            text = key.mask(text)
    return text
