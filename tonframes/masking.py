"""API keys, and texts without them.

Every message passes `masked`: those of the errors and the warnings of this package, what it logs,
and what urllib3 logs about answers.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from typing import NoReturn

#: A part of a key with this many characters is masked; messages shorten what they quote.
PIECE = 8
MASK = "***"


class Key:
    """An API key. Only `reveal` shows it, and what `masked` returns does not contain it.

    It is not a str, because a debugger that shortens long strings would show how a key begins. The
    constructor raises nothing, because a traceback would show its argument; `check` raises.

    Examples
    --------
    >>> key = Key("zyx-wvu-tsr-qpo")
    >>> key, masked("'zyx-wvu-tsr-qpo' is no key"), masked("no key: zyx-wvu-tsr…")
    (***, "'***' is no key", 'no key: ***…')
    """

    __slots__ = ("__weakref__", "_kind", "_pieces", "_text")

    def __init__(self, given: object) -> None:
        global _keys  # noqa: PLW0603 - replaced as a whole, so that no thread sees it half made
        self._kind = type(given).__name__
        self._text = text = given.strip() if isinstance(given, str) else ""
        lower = text.lower()
        ends = range(PIECE, max(PIECE, len(lower)) + 1)
        self._pieces = frozenset(lower[end - PIECE : end] for end in ends) - {""}
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
        """Replace the key, and each part of it that has `PIECE` characters, in upper or lower case.

        A shorter key is replaced as a whole.
        """
        lower = text.lower()
        if len(lower) != len(text):  # the lower case of İ has two characters
            lower = text
        if not any(piece in lower for piece in self._pieces):
            return text
        hidden: set[int] = set()
        for piece in self._pieces:
            at = lower.find(piece)
            while at >= 0:
                hidden.update(range(at, at + len(piece)))
                at = lower.find(piece, at + 1)
        kept = [
            MASK * (at - 1 not in hidden) if at in hidden else character
            for at, character in enumerate(text)
        ]
        return "".join(kept)

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Key cannot be pickled or copied")


_keys: tuple[ref[Key], ...] = ()


def masked(text: str) -> str:
    """Return a text without the keys that are in use."""
    for known in _keys:
        key = known()
        if key is not None:
            text = key.mask(text)
    return text


def mask_record(record: logging.LogRecord) -> bool:
    """Mask the keys in a record of a log; used as a filter that lets every record pass."""
    if _keys:
        text = record.getMessage()
        shown = masked(text)
        if shown != text:
            record.msg, record.args, record.exc_info = shown, None, None
    return True


# They quote headers that cannot be parsed.
for _name in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(mask_record)
