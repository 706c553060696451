"""Kinds of values: how a value is written in JSON and in an Arrow column.

`decode` and `encode` convert whole columns and are inverse to each other. `decode` is strict and
fast: it refuses a column (`REFUSALS`) if one of its values is written in another way. `read` reads
a single JSON token and raises `Mismatch` if it is wrong, for answers that `decode` has refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

Dialect = Literal["service", "specification"]

#: Everything that strict reading raises if JSON does not have exactly the declared form.
REFUSALS = (
    msgspec.DecodeError,
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    OverflowError,
    RecursionError,
    UnicodeDecodeError,
)

INT64 = range(-(2**63), 2**63)

_UNSIGNED = re.compile(r"0|[1-9][0-9]*")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_HEX_SHARD = re.compile(r"[0-9A-Fa-f]{1,16}")


class Mismatch(ValueError):  # noqa: N818 - never raised to users: it becomes a DecodeError or `extra`
    """A token is not of the declared kind."""


class Oversize(Mismatch):
    """An integer that is written correctly and does not fit into an int64 column."""


class Kind:
    """One kind of value. `wire` is its msgspec type, `missing` the wire value of null."""

    name: ClassVar[str]
    expected: ClassVar[str]
    wire: ClassVar[Any]
    arrow: ClassVar[pa.DataType]
    missing: ClassVar[Any] = None

    def decode(self, values: list[Any]) -> pa.Array:
        """Turn wire values, as msgspec made them, into a column."""
        return pa.array(values, self.arrow)

    def encode(self, column: pa.Array, dialect: Dialect) -> list[Any]:  # noqa: ARG002
        """Turn a column back into the wire values of a dialect."""
        values: list[Any] = column.to_pylist()
        return values

    def read(self, token: bytes) -> Any:
        """Turn one JSON token into a wire value, or raise `Mismatch`."""
        value = msgspec.json.decode(token)
        if type(value) is not self.wire:
            raise Mismatch
        return value

    def __repr__(self) -> str:
        return self.name.upper()


class Text(Kind):
    """A JSON string: text."""

    name, expected, wire, arrow = "text", "a string", str, pa.string()


class Bool(Kind):
    """A JSON true or false."""

    name, expected, wire, arrow = "bool", "true or false", bool, pa.bool_()


class Int(Kind):
    """A JSON number without a fraction or an exponent."""

    name, expected, wire, arrow = "int", "an integer", int, pa.int64()

    def read(self, token: bytes) -> int:
        if not _INTEGER.fullmatch(token.decode()) and token != b"-0":
            raise Mismatch
        return _int64(token.decode())


class Digits(Kind):
    """An unsigned integer written as a JSON string of decimal digits.

    Amounts, gas, sizes, logical times and flags are unsigned in block.tlb of the TON monorepo.
    """

    name, expected, wire, arrow = "digits", "a string of decimal digits", str, pa.int64()

    def decode(self, values: list[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        numbers = texts.cast(pa.int64())
        # Arrow's cast also accepts "007", "+7" and "0x10". Casting back shows whether it did.
        if not numbers.cast(pa.string()).equals(texts):
            raise pa.ArrowInvalid("not a decimal integer")
        if (pc.min(numbers).as_py() or 0) < 0:
            raise pa.ArrowInvalid("negative")
        return numbers

    def encode(self, column: pa.Array, dialect: Dialect) -> list[Any]:
        return super().encode(column.cast(pa.string()), dialect)

    def read(self, token: bytes) -> str:
        text = msgspec.json.decode(token)
        if type(text) is not str or not _UNSIGNED.fullmatch(text):
            raise Mismatch
        _int64(text)
        return text


class Shard(Kind):
    """The 64-bit tagged prefix of a shard, as a signed integer.

    Deployed services write the unsigned number in hex without padding. In the specification it is a
    string-int, which is a signed decimal. The length shows which of the two it is: a decimal of 16
    digits or less would be a prefix of more than 9 bits, and mainnet splits to 4 bits.
    """

    name, wire, arrow = "shard", str, pa.int64()
    expected = "a shard: 1 to 16 hex digits, or a signed decimal, and not 0"

    def decode(self, values: list[Any]) -> pa.Array:
        return _by_spelling(values, self._number)

    def encode(self, column: pa.Array, dialect: Dialect) -> list[Any]:
        form = (lambda n: f"{n % 2**64:X}") if dialect == "service" else str
        return _by_value(column, form)

    def read(self, token: bytes) -> str:
        text = msgspec.json.decode(token)
        if type(text) is not str:
            raise Mismatch
        self._number(text)
        return text

    @staticmethod
    def _number(text: str) -> int:
        if _HEX_SHARD.fullmatch(text):
            number = int(text, 16)
        elif len(text) <= len("-9223372036854775808") and _INTEGER.fullmatch(text):
            number = int(text)
        else:
            raise Mismatch
        if number == 0 or not -(2**63) <= number < 2**64:
            raise Mismatch
        return (number + 2**63) % 2**64 - 2**63


class Opcode(Kind):
    """The first 32 bits of a message body, as an unsigned integer.

    Deployed services write "0x%08x". In the specification it is an int, signed or unsigned.
    """

    name, wire, arrow = "opcode", str | int, pa.int64()
    expected = 'an opcode: "0x" and 1 to 8 hex digits, or an integer of 32 bits'

    def decode(self, values: list[Any]) -> pa.Array:
        return _by_spelling(values, self._number)

    def encode(self, column: pa.Array, dialect: Dialect) -> list[Any]:
        if dialect == "service":
            return _by_value(column, lambda n: f"0x{n:08x}")
        return super().encode(column, dialect)

    def read(self, token: bytes) -> str | int:
        value = msgspec.json.decode(token)
        if type(value) not in (str, int):
            raise Mismatch
        self._number(value)
        return value  # type: ignore[no-any-return]

    @staticmethod
    def _number(value: str | int) -> int:
        if isinstance(value, str):
            # int() alone would also accept " 0x10", "0x1_0" and digits of other alphabets.
            if value[:2] != "0x" or len(value) > len("0x00000000"):
                raise Mismatch
            if not (value.isascii() and value.isalnum()):
                raise Mismatch
            try:
                return int(value, 16)
            except ValueError:
                raise Mismatch from None
        if not -(2**31) <= value < 2**32:
            raise Mismatch
        return value % 2**32


class Json(Kind):
    """A JSON object or array of free form, kept byte for byte as text."""

    wire, arrow, missing = msgspec.Raw, pa.string(), msgspec.Raw()

    def __init__(self, opening: str, name: str) -> None:
        self.opening = opening
        self.name = name  # type: ignore[misc]
        self.expected = f"a JSON {name}"  # type: ignore[misc]

    def decode(self, values: list[Any]) -> pa.Array:
        tokens = [None if token in (b"", b"null") else token for token in values]
        # msgspec does not check the UTF-8 of what it keeps raw; this cast does.
        text = pa.array(tokens, pa.binary()).cast(pa.string())
        if pc.all(pc.starts_with(text, self.opening)).as_py() is False:
            raise pa.ArrowInvalid(f"not {self.expected}")
        return text

    def encode(self, column: pa.Array, dialect: Dialect) -> list[Any]:
        return [
            None if text is None else msgspec.Raw(text.encode())
            for text in super().encode(column, dialect)
        ]

    def read(self, token: bytes) -> msgspec.Raw:
        token.decode()
        if not token.startswith(self.opening.encode()):
            raise Mismatch
        return msgspec.Raw(token)


class Time(Kind):
    """A moment in UTC. The API never sends one: it is computed from unix seconds."""

    name, expected, wire, arrow = "time", "a moment", None, pa.timestamp("us", tz="UTC")


class Float(Kind):
    """A ratio, in results of the analysis. The service never sends one."""

    name, expected, wire, arrow = "float", "a ratio", None, pa.float64()


TEXT, BOOL, INT, DIGITS = Text(), Bool(), Int(), Digits()
SHARD, OPCODE, TIME, FLOAT = Shard(), Opcode(), Time(), Float()
OBJECT, ARRAY = Json("{", "object"), Json("[", "array")


@dataclass(frozen=True, slots=True, eq=False)
class Older:
    """How older versions of the service spelled a field: its key, and the values if others.

    This is read into the column of the field. It also stays in `extra`, so that a row is written
    back in the form that it had.
    """

    key: str
    values: Mapping[str, Any] | None = None

    def read(self, kind: Kind, token: bytes) -> Any:
        """Turn a token of this spelling into a wire value of the field; None if it is none."""
        try:
            if self.values is None:
                return kind.read(token)
            return self.values.get(TEXT.read(token))
        except (Mismatch, *REFUSALS):
            return None


def _int64(digits: str) -> int:
    if len(digits) > len("-9223372036854775808") or int(digits) not in INT64:
        raise Oversize
    return int(digits)


def _by_spelling(values: list[Any], number: Any) -> pa.Array:
    """Parse each distinct spelling once: an answer has few shards and few opcodes."""
    try:
        numbers = {value: number(value) for value in set(values) - {None}}
    except Mismatch as mismatch:
        raise pa.ArrowInvalid(str(mismatch)) from None
    return pa.array([numbers.get(value) for value in values], pa.int64())


def _by_value(column: pa.Array, spelling: Any) -> list[Any]:
    spellings = {n: spelling(n) for n in column.unique().to_pylist() if n is not None}
    return [spellings.get(n) for n in column.to_pylist()]
