"""What the schema has no place for, and older spellings: JSON tokens by RFC 6901 pointer, verbatim.

The column `extra` holds such a map as the text of a JSON object. The pointers of a row begin at
the row's own object.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Pointer to token.
Extra = dict[str, bytes]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def escape(key: str) -> str:
    """Write a key as a part of an RFC 6901 pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def pointer_to(path: Iterable[str]) -> str:
    """Write a path as an RFC 6901 pointer."""
    return "".join(f"/{escape(key)}" for key in path)


def dump(extra: Mapping[str, bytes]) -> str | None:
    """Write a map as the text of the column `extra`; an empty map is null."""
    if not extra:
        return None
    return msgspec.json.encode({p: msgspec.Raw(token) for p, token in extra.items()}).decode()


def load(text: str | None) -> Extra:
    """Read the text of the column `extra` back."""
    if text is None:
        return {}
    return {pointer: bytes(token) for pointer, token in _members(text).items()}


def insert(token: bytes, extra: Mapping[str, bytes]) -> bytes:
    """Put tokens into a JSON object at their pointers. An empty token removes the member.

    Examples
    --------
    >>> insert(b'{"a":{"b":1}}', {"/a/c": b"2", "/d": b"3", "/a/b": b""})
    b'{"a":{"c":2},"d":3}'
    """
    members = _members(token)
    deeper: dict[str, Extra] = defaultdict(dict)
    for pointer, value in extra.items():
        head, slash, rest = pointer[1:].partition("/")
        key = head.replace("~1", "/").replace("~0", "~")
        if slash:
            deeper[key]["/" + rest] = value
        elif value:
            members[key] = msgspec.Raw(value)
        else:
            members.pop(key, None)
    for key, inner in deeper.items():
        members[key] = msgspec.Raw(insert(bytes(members[key]), inner))
    return msgspec.json.encode(members)
