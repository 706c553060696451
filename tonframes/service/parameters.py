"""What requests ask for, and how it is refused: as specified, or as deployed services do."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64decode
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from tonframes.addresses import to_raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

T = TypeVar("T")
Query = dict[str, list[str]]
Answer = dict[str, Any]

#: Most and default rows of a page; most addresses of a request.
MOST_ROWS, ROWS, MOST_ADDRESSES = 1000, 100, 1024

# The texts that Go's strconv reads as booleans and integers.
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")

_WAYS = {"asc": "ascending", "a": "ascending", "desc": "descending", "d": "descending"}


class Refusal(Exception):  # noqa: N818 - not an error: it becomes an answer
    """An answer with an error: a status and a text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


# No text quotes a parameter, because clients recognize temporary failures by the text.


def unprocessable(text: str) -> Refusal:
    """Refuse a parameter, with status 422."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, text)


def unconverted(what: str) -> Refusal:
    """Refuse a value that cannot be converted, as deployed services word it."""
    return unprocessable(f"failed to decode: schema: error converting value for {what}")


def not_found(text: str) -> Refusal:
    """Refuse what is not there."""
    return Refusal(HTTPStatus.NOT_FOUND, text)


def raw_address(text: str, what: str) -> str:
    """Return an address in raw form, or refuse it."""
    try:
        return to_raw(text)
    except ValueError:
        raise unconverted(what) from None


def whole_number(
    query: Query, name: str, least: int, most: int | None = None, *, default: int | None = None
) -> int:
    """Return an integer parameter as specified, or refuse it."""
    texts = query.get(name, [])
    if not texts and default is not None:
        return default
    if len(texts) == 1 and re.fullmatch(r"[0-9]{1,20}", texts[0]):
        number = int(texts[0])
        if number >= least and (most is None or number <= most):
            return number
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise unprocessable(f"{name} must be one integer {bounds}")


# What follows reads parameters as deployed services do.


def bare(query: Query) -> Query:
    """Return the parameters by their names in lower case and without brackets.

    Source: fiber, ctx.go (parseParamSquareBrackets); gorilla/schema compares names by EqualFold.
    Axios writes `address[]=` where an address is repeated.
    """
    found: Query = {}
    for name, texts in query.items():
        plain = name.replace("[]", "").replace("[", ".").replace("]", "").lower()
        found.setdefault(plain, []).extend(texts)
    return found


def several(query: Query, name: str, read: Callable[[str, str], T]) -> list[T]:
    """Return the values of a parameter, also those separated by commas; drop empty ones.

    Source: fiber, internal/schema/decoder.go (decode, for a slice).
    """
    return [
        read(part, f'index {index} of "{name}"')
        for index, text in enumerate(query.get(name, ()))
        for part in text.split(",")
        if part
    ]


def read_address(text: str, what: str) -> str:
    """Read an address in any form. Its workchain may have a sign and zeros before it."""
    workchain, colon, account = text.strip().partition(":")
    if colon and INTEGER.fullmatch(workchain):
        workchain = str(int(workchain))
    return raw_address(workchain + colon + account, what)


def read_hash(text: str, what: str) -> str:
    """Read a hash in hex, or in base64 of either alphabet."""
    if re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", text):
        return b64encode(bytes.fromhex(text[-64:])).decode()
    if not re.fullmatch(r"[0-9A-Za-z+/_-]{43}=", text):
        raise unconverted(what)
    return b64encode(urlsafe_b64decode(text.replace("+", "-").replace("/", "_"))).decode()


def read_shard(text: str, what: str) -> int:
    """Read a shard in hex, or else in decimal; it may be any 64 bits."""
    digits = text.removeprefix("0x")
    if re.fullmatch(r"[0-9a-fA-F]{1,1000}", digits) and int(digits, 16) < 2**64:
        number = int(digits, 16)
    elif INTEGER.fullmatch(digits) and -(2**63) <= int(digits) < 2**63:
        number = int(digits)
    else:
        raise unconverted(what)
    return (number + 2**63) % 2**64 - 2**63


def read_seqno(query: Query) -> int:
    """Return `seqno`, 0 if it is not an integer (fiber's QueryInt)."""
    text = query.get("seqno", [""])[0]
    number = int(text) if INTEGER.fullmatch(text) else 0
    return number if -(2**63) <= number < 2**63 else 0


def int32(number: int) -> int:
    """Convert to int32 as Go does, by dropping bits: 2^32 + 1 becomes the seqno 1."""
    return (number + 2**31) % 2**32 - 2**31


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of a page, and their order."""

    limit: int
    offset: int
    sort: str | None

    @classmethod
    def read(cls, query: Query) -> Self:
        """Return the page that limit, offset and sort describe; an empty number is 0."""
        numbers = {"limit": ROWS, "offset": 0}
        for name in numbers.keys() & query.keys():
            text = query[name][-1] or "0"
            if not INTEGER.fullmatch(text) or int32(int(text)) != int(text):
                raise unconverted(f'"{name}"')
            numbers[name] = int(text)
        sort = query["sort"][-1].lower() if "sort" in query else None
        return cls(max(1, numbers["limit"]), max(0, numbers["offset"]), sort)

    def check(self) -> None:
        """Refuse a limit or a sort that is not allowed: after all parameters were converted."""
        if self.limit > MOST_ROWS:
            text = f"limit is not allowed: {self.limit} > {MOST_ROWS}"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        if self.sort is not None and self.sort not in _WAYS:
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "wrong value for sort parameter")

    def way(self, default: str | None = None) -> str | None:
        """Return "ascending" or "descending", as asked for."""
        return default if self.sort is None else _WAYS[self.sort]

    def of(
        self, rows: Sequence[T], key: Callable[[T], Any], default: str | None = None
    ) -> Sequence[T]:
        """Return the rows of the page, sorted as asked; rows with the same key stay in order."""
        if way := self.way(default):
            rows = sorted(rows, key=key, reverse=way == "descending")
        return rows[self.offset : self.offset + self.limit]
