"""Classify an answer of the service: content to decode, or one of a few kinds of failure."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from tonframes.errors import shorten
from tonframes.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tonframes.errors import TonframesError

#: Only this many bytes of an HTML answer are searched for its text.
TEXT_BYTES = 8 * 2**10


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, decompressed."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    refuse: Callable[[], None] = field(default=lambda: None, repr=False)


class Verdict(Enum):
    """What happens if the same request is sent again after a failure."""

    PASSING = "may succeed later"
    SLOW = "took too long: may succeed later, or for fewer rows"
    UNREACHABLE = "the host is unknown or refuses connections"
    DOUBTFUL = "may succeed later, or may always get this answer"
    ABSENT = "the service has nothing there, or not yet"
    NOT_FOUND = "a 404 that the service did not write: may succeed later, or never"
    UNKNOWN = "the service does not have this operation"
    TOO_LARGE = "the answer is too large: ask for less in one request"
    TOO_LONG = "the URL is too long: ask for less in one request"
    FINAL = "would fail again"


@dataclass(slots=True)
class Failure:
    """Why an attempt returned no value.

    `reason` is what the service said or what happened, `status` None if there was no answer, `hint`
    what the user can do about it, and `cause` the error that the caller's `parse` raised.
    """

    verdict: Verdict
    reason: str
    status: int | None = None
    retry_after: float = 0.0
    hint: str = ""
    cause: TonframesError | None = None

    def __post_init__(self) -> None:
        # A service may send back the key that it got.
        self.reason = masked(self.reason)


# The ton-indexer sends some errors with a misleading status (its source: index/crud_blocks.go,
# crud_accounts.go): wrong arguments come with 500, database failures with 422. Messages of its
# argument parser begin with `schema:`.
_ARGUMENTS = re.compile(r"limit is not allowed|wrong value for sort", re.IGNORECASE)
# What web frameworks answer if they have no such path: the deployed service's with 500.
_UNKNOWN_PATH = re.compile(r"cannot get /", re.IGNORECASE)
_SLOW = re.compile(r"timeout|context deadline|canceling statement", re.IGNORECASE)
_DATABASE = re.compile(
    r"(?!.*schema:).*(timeout|context deadline|canceling statement|conn|sqlstate (57|08|53))",
    re.IGNORECASE | re.DOTALL,
)
_TOO_LARGE = re.compile(r"too (large|long)", re.IGNORECASE)
# The gateway writes it with or without the space.
_RATE_LIMIT = re.compile(r"rate ?limit exceed", re.IGNORECASE)

_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_UNKNOWN = {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}
_TOO_LONG = {HTTPStatus.REQUEST_URI_TOO_LONG, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE}
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the key; a new one takes up to 10 minutes to work",
    HTTPStatus.FORBIDDEN: "check that the key is for this network, mainnet or testnet",
}


def judge(answer: Answer, url: str) -> Failure | None:
    """Return what is wrong with an answer, or None if its content can be decoded."""
    status, content = answer.status, answer.content
    is_html = content.lstrip()[:1] == b"<"
    if status == HTTPStatus.OK:
        if content.strip() and not is_html:
            return None
        reason = f"an HTML page: {text_of(content)}" if is_html else "an empty answer"
        hint = "check that base_url is a service of the API v3"
        return Failure(Verdict.PASSING, reason, status, hint=hint)
    if status == HTTPStatus.NOT_MODIFIED:
        # No request asks for it: a cache on the way answers one that another client has sent.
        return Failure(Verdict.PASSING, "not modified, though nothing is cached here", status)
    if status // 100 == HTTPStatus.MULTIPLE_CHOICES // 100:
        target = _host(url, answer.headers.get("Location", ""))
        hint = f"pass {target} as base_url if you trust it"
        return Failure(Verdict.FINAL, f"redirects to {target}, not followed", status, hint=hint)
    text = text_of(content)
    reason = text or "no error text"
    if _RATE_LIMIT.search(text):
        status = HTTPStatus.TOO_MANY_REQUESTS
    verdict = _verdict(status, text, is_html=is_html)
    hint = _HINTS.get(status, "")
    if verdict is Verdict.TOO_LONG:
        hint = "ask for fewer addresses in one request"
    if verdict is Verdict.UNKNOWN:
        hint = "check that base_url is a service of the API v3"
    said: int | None = status
    said_by = _error_object(content)
    # An error of the service has its text as `error`. Those of the gateway have a member `ok` as
    # well, and those of other servers `message` or `detail`.
    by_service = isinstance(said_by.get("error"), str) and "ok" not in said_by
    if verdict is Verdict.ABSENT and not by_service:
        # Only the service itself knows that it has nothing there. A 404 page of a gateway must not
        # look like the end of a list, so the status is not passed on.
        verdict, said = Verdict.NOT_FOUND, None
        reason = f"status 404, not written by the service: {reason}"
        hint = "check that base_url is a service of the API v3"
    return Failure(verdict, reason, said, retry_after=retry_after(answer.headers), hint=hint)


def _verdict(status: int, text: str, *, is_html: bool) -> Verdict:
    """Classify a status other than 200 and 3xx, by the text where the status misleads."""
    if status in _UNKNOWN or _UNKNOWN_PATH.search(text):
        return Verdict.UNKNOWN
    if status == HTTPStatus.NOT_FOUND:
        return Verdict.ABSENT
    if (
        status in _TOO_LONG
        or (status == HTTPStatus.BAD_REQUEST and is_html)  # nginx, if the line exceeds its buffer
        or (status == HTTPStatus.INTERNAL_SERVER_ERROR and _TOO_LARGE.search(text))
    ):
        return Verdict.TOO_LONG
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return Verdict.PASSING if _DATABASE.match(text) else Verdict.FINAL
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        if _ARGUMENTS.search(text):
            return Verdict.FINAL
        return Verdict.SLOW if _SLOW.search(text) else Verdict.PASSING
    if status < HTTPStatus.BAD_REQUEST:
        return Verdict.DOUBTFUL
    return Verdict.PASSING if status in _PASSING else Verdict.FINAL


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait from Retry-After, 0 if it is missing or invalid.

    A date is compared with the answer's own `Date`, so a wrong local clock does not matter.
    """
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,15}", text):
        return float(text)
    until = _seconds(text)
    if until is None:
        return 0.0
    now = _seconds(headers.get("Date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def text_of(content: bytes) -> str:
    """Return the message in the answer of an error, whether JSON, HTML or plain text."""
    found = _error_object(content)
    for key in ("error", "result", "detail", "message"):
        if value := found.get(key):
            return value if isinstance(value, str) else json.dumps(value)
    text = content[:TEXT_BYTES].decode("utf-8", "replace")
    if text.lstrip().startswith("<"):
        text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->", " ", text)
        text = unescape(re.sub(r"<[^>]*>?", " ", text))
    return " ".join(text.split())


def _error_object(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _host(url: str, location: str) -> str:
    try:
        found = urlsplit(urljoin(url, location))
    except ValueError:
        return shorten(location)
    # Host and port only: they may follow a user name and password.
    target = f"{found.scheme}://{found.netloc.rpartition('@')[2]}"
    return shorten(target) if location else "nowhere"
