"""What an answer of the service means: a body to be read, or one of a few kinds of failure."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonframes.client.transport import Answer
    from tonframes.errors import TonframesError

#: Bytes of a page that are searched for its text.
PAGE = 8 * 2**10


class Verdict(Enum):
    """What a failure says about the same request, sent again."""

    PASSING = "may well succeed later"
    DOUBTFUL = "may succeed, or this is what the service has to say"
    ABSENT = "the service has nothing there, or not yet"
    TOO_LONG = "the URL is too long: ask for less at once"
    FINAL = "would fail again"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt gave no value.

    Attributes
    ----------
    verdict
        What it says about the next attempt.
    reason
        What the service said, or what happened; not cut, and nothing cut out of it.
    status
        HTTP status, None when there was no answer.
    retry_after
        Seconds that the service asks to wait.
    hint
        What can be done about it.
    cause
        What the caller's `parse` raised.
    """

    verdict: Verdict
    reason: str
    status: int | None = None
    retry_after: float = 0.0
    hint: str = ""
    cause: TonframesError | None = None


# Statuses of the ton-indexer's errors that mean something else than they say, by its source
# (index/crud_blocks.go, crud_accounts.go): wrong arguments wrapped in 500, failures of the
# database wrapped in 422. `schema:` begins what the parser of the arguments says.
_ARGUMENTS = re.compile(r"limit is not allowed|wrong value for sort|cannot get /", re.IGNORECASE)
_DATABASE = re.compile(
    r"(?!.*schema:).*(timeout|context deadline|canceling statement|conn|sqlstate (57|08|53))",
    re.IGNORECASE | re.DOTALL,
)
_TOO_LARGE = re.compile(r"too (large|long)", re.IGNORECASE)
# The gateway's wording, with one spelling or the other.
_RATE_LIMIT = re.compile(r"rate ?limit exceed", re.IGNORECASE)

_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_TOO_LONG = {HTTPStatus.REQUEST_URI_TOO_LONG, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE}
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the key; a new one takes up to 10 minutes to work",
    HTTPStatus.FORBIDDEN: "check that the key was made for this network, mainnet or testnet",
}


def judge(answer: Answer, url: str) -> Failure | None:
    """Tell what is wrong with an answer, None if its body is worth reading.

    Examples
    --------
    >>> from tonframes.client.transport import Answer
    >>> body = b'{"error": "limit is not allowed: 1001 > 1000"}'
    >>> judge(Answer(500, {}, body), "https://example.org").verdict
    <Verdict.FINAL: 'would fail again'>
    >>> judge(Answer(500, {}, b'{"error": "query timeout 3s"}'), "https://example.org").verdict
    <Verdict.PASSING: 'may well succeed later'>
    """
    status, body = answer.status, answer.body
    is_html = body.lstrip()[:1] == b"<"
    if status == HTTPStatus.OK:
        if body.strip() and not is_html:
            return None
        reason = f"with a page: {text_of(body)}" if is_html else "without a body"
        hint = "check that base_url is a service of the API v3"
        return Failure(Verdict.PASSING, reason, status, hint=hint)
    if status // 100 == HTTPStatus.MULTIPLE_CHOICES // 100:
        target = _host(url, answer.headers.get("Location", ""))
        hint = f"pass {target} as base_url if you trust it"
        return Failure(Verdict.FINAL, f"redirects to {target}, not followed", status, hint=hint)
    text = text_of(body)
    reason = text or "without a text"
    if _RATE_LIMIT.search(text):
        status = HTTPStatus.TOO_MANY_REQUESTS
    verdict = _verdict(status, text, is_html=is_html)
    hint = _HINTS.get(status, "")
    if verdict is Verdict.TOO_LONG:
        hint = "ask for fewer addresses at once"
    said: int | None = status
    if verdict is Verdict.ABSENT and (is_html or not _is_error_object(body)):
        # Only the service can say that it has nothing there. Nobody shall take the page of a
        # gateway for the end of a list, so the status is not passed on.
        verdict, said = Verdict.DOUBTFUL, None
        reason = f"status 404, not written by the service: {reason}"
        hint = "check that base_url is a service of the API v3"
    return Failure(verdict, reason, said, retry_after=retry_after(answer.headers), hint=hint)


def _verdict(status: int, text: str, *, is_html: bool) -> Verdict:
    """Classify a status other than 200 and 3xx by the number and, where that lies, the text."""
    if status == HTTPStatus.NOT_FOUND:
        return Verdict.ABSENT
    if (
        status in _TOO_LONG
        or (status == HTTPStatus.BAD_REQUEST and is_html)  # nginx, of a line over its buffer
        or (status == HTTPStatus.INTERNAL_SERVER_ERROR and _TOO_LARGE.search(text))
    ):
        return Verdict.TOO_LONG
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return Verdict.PASSING if _DATABASE.match(text) else Verdict.FINAL
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Verdict.FINAL if _ARGUMENTS.search(text) else Verdict.PASSING
    if status < HTTPStatus.BAD_REQUEST:
        return Verdict.DOUBTFUL
    return Verdict.PASSING if status in _PASSING else Verdict.FINAL


def retry_after(headers: Mapping[str, str]) -> float:
    """Read the seconds to wait from Retry-After, 0 if there are none or they are nonsense.

    A date is measured against the answer's own `Date`, so that a wrong clock here does no harm.

    Examples
    --------
    >>> retry_after({"Retry-After": "2"}), retry_after({"Retry-After": "-5"})
    (2.0, 0.0)
    >>> start, end = "Fri, 13 Feb 2026 23:31:30 GMT", "Fri, 13 Feb 2026 23:31:37 GMT"
    >>> retry_after({"Date": start, "Retry-After": end})
    7.0
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


def text_of(body: bytes) -> str:
    """Find the message in the body of an error, whatever shape it has.

    Examples
    --------
    >>> text_of(b'{"error": "blocks not found"}')
    'blocks not found'
    >>> text_of(b'{"ok": false, "result": "Ratelimit exceed", "code": 429}')
    'Ratelimit exceed'
    >>> text_of(b"<html><style>p {}</style><h1>502 Bad&nbsp;Gateway</h1>")
    '502 Bad Gateway'
    """
    found = _error_object(body)
    for key in ("error", "result", "detail", "message"):
        if value := found.get(key):
            return value if isinstance(value, str) else json.dumps(value)
    text = body[:PAGE].decode("utf-8", "replace")
    if text.lstrip().startswith("<"):
        text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->", " ", text)
        text = unescape(re.sub(r"<[^>]*>?", " ", text))
    return " ".join(text.split())


def _error_object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_error_object(body: bytes) -> bool:
    """Tell whether the service wrote this; objects with `ok` are the gateway's."""
    found = _error_object(body)
    return bool(found) and "ok" not in found


def _host(url: str, location: str) -> str:
    try:
        found = urlsplit(urljoin(url, location))
    except ValueError:
        return shorten(location)
    # Host and port only: a user and password may stand before them.
    return shorten(f"{found.scheme}://{found.netloc.rpartition('@')[2]}") if location else "nowhere"
