"""Moments as masterchain seqnos."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

import pandas as pd

from tonframes.errors import DecodeError, MissingError, RequestError, shorten
from tonframes.fetch.network import masterchain_info
from tonframes.fetch.proof import MASTERCHAIN
from tonframes.fetch.resolve import ClientOption, resolve_client
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from tonframes.client import Client


def seqno_at(time: datetime | pd.Timestamp | str, *, client: ClientOption = None) -> int:
    """Find the first masterchain seqno that is not before a moment.

    `range(seqno_at(a), seqno_at(b))` are the masterchain blocks from a on and before b. A moment
    after the last masterchain block gives the seqno after it.

    Parameters
    ----------
    time
        A moment with its time zone, or text as pandas reads it, in UTC if it names no zone.
    client
        As for `fetch_blocks`; not offline.

    Raises
    ------
    ValueError
        The moment has no time zone, is none, or lies in the future.
    RequestError
        The service does not answer, or its first masterchain block is later.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     tf.seqno_at("2026-05-28 20:28", client=client)
    90000044
    """
    moment = _moment(time)
    with resolve_client(client) as (asked, service):
        if asked is None:
            raise MissingError("only a service knows which block is of which moment")
        held = masterchain_info(asked)
        first = 1 if held.first is None else held.first.seqno
        begins, ends = _time_of(asked, first), _time_of(asked, held.last.seqno)
        if moment < begins and first > 1:
            raise RequestError(
                f"{service} holds masterchain blocks from {first} on, which is of "
                f"{datetime.fromtimestamp(begins, UTC)}"
            )
        if moment <= begins:
            return first
        if moment > ends:
            return held.last.seqno + 1
        return _search(asked, moment, (first, begins), (held.last.seqno, ends))


def _search(client: Client, moment: float, low: tuple[int, int], high: tuple[int, int]) -> int:
    """Find the first block not before a moment, which is after `low` and not after `high`.

    Masterchain blocks come at a rather even pace, so that guessing by the share of time takes
    fewer questions than halving; every third guess halves, should the pace be anything but.
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
    """Ask for the unix second of a masterchain block."""

    def parse(body: bytes) -> int:
        page = pages.read(schema.BLOCKS_BODY, body)
        for row in page.body.blocks or ():
            if row.workchain == MASTERCHAIN and row.seqno == seqno and row.gen_utime:
                return int(row.gen_utime)
        # Every masterchain block has tick-tock transactions, of its own time.
        for row in page.body.transactions or ():
            if row.block_ref.workchain == MASTERCHAIN and row.mc_block_seqno == seqno:
                return int(row.now)
        raise DecodeError("$", f"the time of masterchain block {seqno}", "none")

    return client.masterchain_block_shards(seqno, parse)


def _moment(time: datetime | pd.Timestamp | str) -> float:
    """Check a moment and give its unix second."""
    try:
        stamp = pd.Timestamp(time)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{shorten(time)} is no moment: {error}") from None
    if pd.isna(stamp):
        raise ValueError(f"{shorten(time)} is no moment")
    if stamp.tzinfo is None:
        if not isinstance(time, str):
            raise ValueError(f"{time} has no time zone: it may mean any")
        stamp = stamp.tz_localize("UTC")
    if stamp > pd.Timestamp.now("UTC"):
        raise ValueError(f"{stamp} lies in the future")
    return float(stamp.timestamp())
