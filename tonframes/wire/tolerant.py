"""Read an answer that the strict reading has refused.

What the schema has no place for goes to `extra`, verbatim, under its RFC 6901 pointer. So does an
older spelling (`Older`), which is read as well. Anything else that does not have the declared form
raises a `DecodeError` with its path. The structs are those that the strict reading makes.
"""

from __future__ import annotations

from collections import Counter
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
    from tonframes.wire.kinds import Kind
    from tonframes.wire.record import Wired

#: Longest name of a member that the schema does not know, in characters.
LONGEST_NAME = 1000

_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
).decode
_elements: Callable[[bytes], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


class TolerantReader:
    """Reads objects as records declare them.

    `extras` has what the schema has no place for, by the `id` of the struct of a row. `unknown` and
    `oversize` count it by pointer, without older spellings that were understood. Reading takes many
    times as long as strictly, so it ends at the deadline.
    """

    def __init__(self) -> None:
        self.extras: dict[int, Extra] = {}
        self.unknown: Counter[str] = Counter()
        self.oversize: Counter[str] = Counter()

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
        tokens = {key: bytes(raw) for key, raw in _split(token, path).items()}
        deadline.check()
        values, understood = _older_values(record, tokens)
        for member in record.wired:
            inner = tokens.pop(member.key, b"")
            name, needed = attribute(member.key), _needed(member)
            here, place = f"{path}.{member.key}", f"{pointer}/{escape(member.key)}"
            if inner in (b"", b"null") and (name in values or not needed):
                continue
            if isinstance(member, Field) and member.older and member.older.key in tokens:
                extra[place] = inner  # beside the older spelling: both are written back
                self.unknown[place] += 1
            elif not needed and inner[1:].lstrip() == b"}" and _cannot_be_empty(member):
                # Old versions of the service write `"in_msg": {}` where there is no message.
                extra[place] = inner
                self.unknown[place] += 1
                continue
            try:
                values[name] = self._value(member, inner, here, place, extra)
            except Oversize:
                if needed:
                    raise DecodeError(here, "an integer of 64 bits", shorten(inner)) from None
                extra[place] = inner
                self.oversize[place] += 1
        for key, inner in tokens.items():
            _check_unknown(key, inner, path)
            place = f"{pointer}/{escape(key)}"
            extra[place] = inner
            self.unknown[place] += key not in understood
        return record.struct(**values)

    def _value(self, member: Wired, token: bytes, path: str, pointer: str, extra: Extra) -> Any:
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
                try:
                    rows = _elements(token)
                except REFUSALS:
                    raise _mismatch(path, "a JSON array", token) from None
                return [self.row(record, bytes(raw), f"{path}[{i}]") for i, raw in enumerate(rows)]
            case Entries():
                return {
                    key: raw
                    if bytes(raw) == b"null"
                    else _read(OBJECT, bytes(raw), f"{path}.{_printable(key)}")
                    for key, raw in _split(token, path).items()
                }


def _older_values(record: Record, tokens: dict[str, bytes]) -> tuple[dict[str, Any], set[str]]:
    """Read fields that have their older spelling alone; return them, and its keys."""
    values: dict[str, Any] = {}
    keys: set[str] = set()
    for member in record.wired:
        if not (isinstance(member, Field) and member.older and member.older.key in tokens):
            continue
        if tokens.get(member.key, b"null") == b"null":
            value = member.older.read(member.kind, tokens[member.older.key])
            if value is not None:
                values[attribute(member.key)] = value
                keys.add(member.older.key)
    return values, keys


def _split(token: bytes, path: str) -> dict[str, msgspec.Raw]:
    try:
        return _members(token)
    except REFUSALS:
        raise _mismatch(path, "a JSON object", token) from None


def _read(kind: Kind, token: bytes, path: str) -> Any:
    try:
        return kind.read(token)
    except Oversize:
        raise
    except (Mismatch, *REFUSALS):
        raise _mismatch(path, kind.expected, token) from None


def _mismatch(path: str, expected: str, token: bytes) -> DecodeError:
    return DecodeError(path, expected, shorten(token) if token else "nothing")


def _check_unknown(key: str, token: bytes, path: str) -> None:
    """Refuse an unknown member that msgspec, which keeps it raw, has not checked."""
    deadline.check()
    if len(key) > LONGEST_NAME:
        raise DecodeError(path, f"names of at most {LONGEST_NAME} characters", shorten(key))
    try:
        token.decode()
    except UnicodeDecodeError:
        raise DecodeError(f"{path}.{_printable(key)}", "UTF-8", shorten(token)) from None


def _printable(key: str) -> str:
    return ascii(key)[1:-1]


def _needed(member: Wired) -> bool:
    """Return whether an object must have this member."""
    return (isinstance(member, Field) and member.always) or (
        isinstance(member, Part) and not member.has
    )


def _cannot_be_empty(member: Wired) -> bool:
    if isinstance(member, Part) or (isinstance(member, Rows) and member.single):
        return any(map(_needed, member.record.wired))
    return False
