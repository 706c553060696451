"""The arguments of the fetching functions: `client`, `store`, and seqnos or moments."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import platformdirs

from tonframes.bucket import is_url
from tonframes.client import Client
from tonframes.display import moment as spelt
from tonframes.errors import DecodeError, MissingError, RequestError, shorten, warn
from tonframes.fetch.block import wait_until_indexed
from tonframes.fetch.network import LAG, masterchain_info
from tonframes.fetch.proof import MASTERCHAIN
from tonframes.moments import parse_moment
from tonframes.seqnos import checked, from_text
from tonframes.store import AnyStore, Store, store_at
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Default(Enum):
    STORE = "a folder in the user's cache directory, one per service"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.STORE

StoreOption = str | PathLike[str] | _Default | None
ClientOption = Client | str | None
Seqnos = range | Iterable[int] | int | str


def default_store(service: str) -> Path | str:
    """Return the default folder of the store for a service.

    It is the folder, or the URL, that the environment variable `TONFRAMES_STORE` names, or a folder
    in the user's cache directory.

    Examples
    --------
    >>> Path(default_store("https://toncenter.com")).name
    'toncenter.com'
    """
    if folder := os.environ.get("TONFRAMES_STORE"):
        return folder if is_url(folder) else Path(folder)
    address = urlsplit(service)
    name = address.hostname or "service"
    return platformdirs.user_cache_path("tonframes") / (
        f"{name}-{address.port}" if address.port else name
    ).replace(":", "_")


@contextmanager
def resolve_client(client: ClientOption) -> Iterator[tuple[Client | None, str]]:
    """Yield the client (None is offline) and the URL of its service; close a client of ours."""
    if isinstance(client, Client):
        yield client, client.base_url
        return
    is_url = isinstance(client, str) and client.startswith(("http://", "https://"))
    if not is_url and client not in (None, "offline"):
        raise TypeError(f'client is a Client, a URL, "offline" or None, not {shorten(client)}')
    with Client(client if is_url else None) as own:
        yield (None if client == "offline" else own), own.base_url


def resolve_store(store: StoreOption, service: str) -> AnyStore | None:
    path = _path_of(store, service)
    return None if path is None else store_at(path)


def resolve_folder(store: StoreOption, service: str) -> Store | None:
    """Return the store to use for histories, which a bucket cannot hold; None for none."""
    path = _path_of(store, service)
    return None if path is None else Store(path)


def _path_of(store: StoreOption, service: str) -> str | PathLike[str] | None:
    if store is None:
        return None
    if not str(store):
        raise ValueError("store is empty: pass a folder or a URL, or None to keep nothing")
    return default_store(service) if isinstance(store, _Default) else store


# ── seqnos and moments ───────────────────────────────────────────────────────────────────────────


def seqno_at(time: datetime | date | str, *, client: ClientOption = None) -> int:
    """Return the seqno of the first masterchain block at or after a moment.

    `range(seqno_at(a), seqno_at(b))` are the masterchain blocks from `a` on and before `b`. For a
    moment after the last masterchain block, it is the seqno after the last one.

    Parameters
    ----------
    time
        A datetime with a time zone, a date (in UTC), or text in the form of ISO 8601 such as
        `2026-05-28T20:28` (in UTC if it names no time zone).
    client
        As in `fetch_blocks`, except "offline".

    Raises
    ------
    ValueError
        The moment has no time zone, cannot be read, or is in the future.
    RequestError
        The service does not answer, or its first masterchain block is later.
    IncompleteError
        The service lacks a masterchain block whose time is needed, though it has later ones.
    MissingError
        The client is "offline".

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     tf.seqno_at("2026-05-28 20:28", client=client)
    90000039
    """
    return _find(time, client)[0]


def _find(time: datetime | date | str, client: ClientOption) -> tuple[int, datetime]:
    """Return what `seqno_at` does, and the time of the last masterchain block of the service."""
    when = parse_moment(time, "time")
    if when > datetime.now(UTC):
        raise ValueError(f"time is in the future: {when}")
    moment = when.timestamp()
    with resolve_client(client) as (online, service):
        if online is None:
            raise MissingError("offline: seqno_at needs a service to find the block of a moment")
        info = masterchain_info(online)
        if not info.last.seqno:
            raise RequestError(f"{service} has no masterchain blocks, so no moment has one")
        first, last = 1 if info.first is None else info.first.seqno, info.last.seqno
        begins, ends = _time_of(online, first), _time_of(online, last)
        if moment < begins and first > 1:
            raise RequestError(
                f"{service} has masterchain blocks from {first} on, and its time is "
                f"{datetime.fromtimestamp(begins, UTC)}"
            )
        newest = datetime.fromtimestamp(ends, UTC)
        if moment <= begins:
            return first, newest
        if moment > ends:
            return last + 1, newest
        return _search(online, moment, (first, begins), (last, ends)), newest


def resolve_seqnos(seqnos: Seqnos, client: Client | None) -> tuple[range, ...]:
    """Check masterchain seqnos, and return them as ranges; there must be at least one.

    They are seqnos, a single one, or text: `100:150`, `100`, or moments with a slash between them,
    as ISO 8601 has it. For moments the service is asked; without a client that is an error.
    """
    if isinstance(seqnos, str):
        run = from_text(seqnos)
        if run is None:
            run = _between(seqnos, client)
        if not run:
            raise ValueError(
                f"{seqnos!r} is empty: it starts at {run.start} and ends before {run.stop}"
            )
        wanted = checked(run)
    else:
        wanted = checked([seqnos] if isinstance(seqnos, int) else seqnos)
    if not wanted:
        raise ValueError("seqnos is empty")
    return wanted


def _between(text: str, client: Client | None) -> range:
    # A moment contains colons, and hyphens, which seqnos do not.
    start, separator, stop = text.partition("/" if "/" in text or "-" in text else ":")
    if not separator:
        seqno = resolve_seqno(text, client)
        return range(seqno, seqno + 1)
    if not start or not stop:
        raise ValueError(f"expected 100:150, 100, or 2026-05-28/2026-05-29, not {text!r}")
    are_moments = not (_is_number(start) or _is_number(stop))
    if are_moments and _moment(start) >= _moment(stop):
        raise ValueError(f"{text!r} is empty: it ends before it starts")
    return range(resolve_seqno(start, client), _resolve_stop(stop, client))


def resolve_seqno(start: int | str | datetime | date, client: Client | None) -> int:
    """Return a masterchain seqno, or that of the first masterchain block at or after a moment."""
    if isinstance(start, str):
        if _is_number(start):
            return int(start)
        start = _moment(start)
    if isinstance(start, date):  # a datetime is a date
        return seqno_at(start, client="offline" if client is None else client)
    if isinstance(start, bool) or not isinstance(start, int):
        raise TypeError(f"a seqno is an int, or a moment, not {shorten(start)}")
    return start


def _resolve_stop(stop: str, client: Client | None) -> int:
    """Return what `resolve_seqno` does; warn if the service lacks blocks before a past moment."""
    if _is_number(stop):
        return int(stop)
    until = _moment(stop)
    if client is None:
        return seqno_at(until, client="offline")
    seqno, newest = _find(until, client)
    if newest < until < datetime.now(UTC) - timedelta(seconds=LAG):
        warn(
            f"{client.base_url} is behind: its last masterchain block is {seqno - 1} of "
            f"{spelt(newest)}. It may lack blocks until {spelt(until)}; the range ends without them"
        )
    return seqno


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _moment(text: str) -> datetime:
    try:
        return parse_moment(text, "time")
    except ValueError:
        raise ValueError(
            "expected a masterchain seqno such as 100, or a UTC time such as 2026-05-28T20:28, "
            f"not {shorten(text)}"
        ) from None


def _search(client: Client, moment: float, low: tuple[int, int], high: tuple[int, int]) -> int:
    """Return the seqno of the first block at or after a moment; it is in (`low`, `high`].

    Masterchain blocks are almost evenly spaced in time, so interpolation takes fewer requests than
    bisection. Every third step bisects, in case the spacing is uneven.
    """
    for attempt in count(1):
        if high[0] - low[0] == 1:
            break
        share = (moment - low[1]) / max(1, high[1] - low[1]) if attempt % 3 else 0.5
        guess = low[0] + round(share * (high[0] - low[0]))
        guess = min(max(guess, low[0] + 1), high[0] - 1)
        of_guess = _time_of(client, guess)
        if of_guess < moment:
            low = guess, of_guess
        else:
            high = guess, of_guess
    return high[0]


def _time_of(client: Client, seqno: int) -> int:
    """Fetch the unix second of a masterchain block."""

    def parse(answer: bytes) -> int:
        page = pages.read(schema.BLOCKS_ANSWER, answer)
        for row in page.answer.blocks or ():
            if row.workchain == MASTERCHAIN and row.seqno == seqno and row.gen_utime:
                return int(row.gen_utime)
        # Every masterchain block has tick-tock transactions with the time of the block.
        for row in page.answer.transactions or ():
            if row.block_ref.workchain == MASTERCHAIN and row.mc_block_seqno == seqno:
                return int(row.now)
        raise DecodeError("$", f"the time of masterchain block {seqno}", "no time")

    return wait_until_indexed(client, seqno, partial(client.masterchain_block_shards, seqno, parse))
