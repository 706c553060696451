"""Read an answer that the strict reading has refused.

This goes through the answer token by token. What the schema has no place for goes to `extra`,
verbatim, under its RFC 6901 pointer. So does an older spelling (`Older`), which is read as well.
Anything else that does not have the declared form raises a `DecodeError` with its path. The structs
are those that the strict reading makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tonframes import deadline
from tonframes.errors import DecodeError, shorten
from tonframes.wire.extra import escape
from tonframes.wire.kinds import OBJECT, REFUSALS, Mismatch, Oversize
from tonframes.wire.record import Entries, Field, Loose, Part, Record, Rows, attribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonframes.wire.extra import Extra

#: Longest name of a member that the schema does not know, in characters.
LONGEST_NAME = 1000

_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
).decode
_elements: Callable[[bytes], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


class TolerantReader:
    """Reads objects as records declare them.

    `extras` has what the schema has no place for, by the `id` of the struct of a row. Reading takes
    many times as long as strictly, so it ends at the deadline.
    """

    def __init__(self) -> None:
        self.extras: dict[int, Extra] = {}

    def row(self, record: Record, token: bytes, path: str) -> msgspec.Struct:
        """Read the object of one row; pointers of its extra begin there."""
        extra: Extra = {}
        struct = self._object(record, token, path, "", extra)
        if extra:
            self.extras[id(struct)] = extra
        return struct

    def _object(
        self, record: Record, token: bytes, path: str, pointer: str, extra: Extra
    ) -> msgspec.Struct:
        tokens = {key: bytes(raw) for key, raw in _split(_members, token, path, "a JSON object")}
        values: dict[str, Any] = {}
        deadline.check()
        for member in record.wired:
            inner = tokens.pop(member.key, b"")
            here = f"{path}.{member.key}"
            there = f"{pointer}/{escape(member.key)}"
            if isinstance(member, Field) and member.older and member.older.key in tokens:
                if inner not in (b"", b"null"):
                    extra[there] = inner  # beside the older spelling: both are written back
                elif (
                    value := member.older.read(member.kind, tokens[member.older.key])
                ) is not None:
                    values[attribute(member.key)] = value
                    continue
            if inner in (b"", b"null") and not _needed(member):
                continue
            if not _needed(member) and _fills(member) and inner[1:].lstrip() == b"}":
                extra[there] = inner
                continue
            try:
                values[attribute(member.key)] = self._value(member, inner, here, there, extra)
            except Oversize:
                if _needed(member):
                    raise DecodeError(here, "an integer of 64 bits", shorten(inner)) from None
                extra[there] = inner
        for key, inner in tokens.items():
            extra[f"{pointer}/{escape(key)}"] = _unknown(key, inner, path)
        return record.struct(**values)

    def _value(
        self,
        member: Any,
        token: bytes,
        path: str,
        pointer: str,
        extra: Extra,
    ) -> Any:
        match member:
            case Field(kind=kind):
                return _read(kind, token, path)
            case Loose():
                return _read(OBJECT, token, path)
            case Part(record=record):
                return self._object(record, token, path, pointer, extra)
            case Rows(record=record, single=True):
                return self.row(record, token, path)
            case Rows(record=record):
                tokens = _split(_elements, token, path, "a JSON array")
                return [
                    self.row(record, bytes(raw), f"{path}[{i}]") for i, raw in enumerate(tokens)
                ]
            case Entries():
                return {
                    key: raw
                    if bytes(raw) == b"null"
                    else _read(OBJECT, bytes(raw), f"{path}.{_printable(key)}")
                    for key, raw in _split(_members, token, path, "a JSON object")
                }


def _printable(key: str) -> str:
    return ascii(key)[1:-1]


def _unknown(key: str, token: bytes, path: str) -> bytes:
    """Check a member of the object at a path that the schema does not know."""
    deadline.check()
    if len(key) > LONGEST_NAME:
        raise DecodeError(path, f"names of at most {LONGEST_NAME} characters", shorten(key))
    return _utf8(token, f"{path}.{_printable(key)}")


def _utf8(token: bytes, path: str) -> bytes:
    """Refuse a token that is not UTF-8, which msgspec does not check in what it keeps raw."""
    try:
        token.decode()
    except UnicodeDecodeError:
        raise DecodeError(path, "UTF-8", shorten(token)) from None
    return token


def _needed(member: Any) -> bool:
    """Return whether an object must have this member."""
    match member:
        case Field(always=always):
            return always
        case Part(has=has):
            return not has
        case _:
            return False


def _fills(member: Any) -> bool:
    """Return whether the member is an object that cannot be empty.

    Old versions of the service write `"in_msg": {}` where there is no message.
    """
    one = isinstance(member, Part) or (isinstance(member, Rows) and member.single)
    return one and any(_needed(m) for m in member.record.members)


def _read(kind: Any, token: bytes, path: str) -> Any:
    try:
        return kind.read(token)
    except Oversize:
        raise
    except (Mismatch, *REFUSALS):
        raise DecodeError(path, kind.expected, shorten(token) if token else "nothing") from None


def _split(split: Callable[[bytes], Any], token: bytes, path: str, expected: str) -> Any:
    try:
        tokens = split(token)
    except REFUSALS:
        raise DecodeError(path, expected, shorten(token) if token else "nothing") from None
    return tokens.items() if isinstance(tokens, dict) else tokens
