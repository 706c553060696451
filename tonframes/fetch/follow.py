"""Fetch new masterchain blocks as they appear."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.display import moment
from tonframes.errors import IncompleteError, MissingError, RequestError
from tonframes.fetch.blocks import fetch_missing
from tonframes.fetch.network import claim, masterchain_info
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.fetch.time import resolve_seqno
from tonframes.frames import Blocks
from tonframes.store import SPAN, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client import Client
    from tonframes.store import Store

#: Seconds between two checks for a new masterchain block; the network makes one every few seconds.
POLL = 1.0

#: Seconds after which the log tells what is waited for; then after twice as many, and so on.
PATIENCE = 10.0

_log = logging.getLogger(__name__)


def follow_blocks(
    start: int | str | datetime | None = None,
    *,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
) -> Iterator[Blocks]:
    """Fetch masterchain blocks as they appear, without end.

    Parameters
    ----------
    start
        The first masterchain seqno, or a moment as for `seqno_at`; None is the last masterchain
        block of the service.
    client, store
        As in `fetch_blocks`, except "offline".

    Yields
    ------
    Blocks: complete masterchain blocks, in order and without gaps, at most 100 at a time. With a
    store they are committed first. If the service does not have a block yet, or not yet all of it,
    this waits.

    Raises
    ------
    RequestError
        The service does not answer. To continue, call it again with the first seqno that it did
        not yield.

    Notes
    -----
    If it has to wait for more than 10 seconds, the logger `tonframes.fetch.follow` warns: for which
    masterchain block, since when, and why.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     following = tf.follow_blocks(90_000_118, client=client, store=None)
    ...     blocks = next(following)
    >>> blocks.seqnos
    (range(90000118, 90000120),)
    """
    with resolve_client(client) as (online, service):
        if online is None:
            raise MissingError("offline: follow_blocks needs a service")
        following = None if start is None else resolve_seqno(start, online)
        target = resolve_store(store, service)
        if target is not None:
            claim(target, online)
        if following is None:
            following = masterchain_info(online).last.seqno
        waiting = _Waiting(online)
        while True:
            for blocks in _next(online, target, following, waiting):
                following = blocks.seqnos[-1].stop
                yield blocks


class _Waiting:
    """Waits for masterchain blocks, and tells for which one, since when and why."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seqno: int | None = None

    def wait(self, seqno: int, reason: str) -> None:
        """Wait before the service is asked again for a masterchain block."""
        if seqno != self._seqno:
            self._seqno, self._since = seqno, datetime.now(UTC)
            self._waited, self._patience = 0.0, PATIENCE
        if self._waited >= self._patience:
            self._patience *= 2
            since = moment(self._since)
            _log.warning("waiting for masterchain block %d since %s: %s", seqno, since, reason)
        self._client.wait(POLL)
        self._waited += POLL


def _next(client: Client, store: Store | None, start: int, waiting: _Waiting) -> Iterator[Blocks]:
    """Yield what can be proven from a seqno on, up to the end of a file; if nothing can, wait."""
    reason = None
    try:
        last = masterchain_info(client).last.seqno
        if last < start:
            reason = f"the last one of {client.base_url} is {last}"
        wanted = range(start, min(last + 1, (start // SPAN + 1) * SPAN))
        held = _held(store, wanted)
        if held and store is not None:
            yield blocks_of(store, (held,))
            return
        for part in fetch_missing(client, store, (wanted,) if wanted else (), progress=False):
            if part.seqnos.start != start:  # the blocks before it are not proven yet
                reason = f"{client.base_url} shows later ones, but not yet all of this one"
                break
            start = part.seqnos.stop
            if store is None:
                yield Blocks(part.tables, source=client.base_url, seqnos=(part.seqnos,))
            else:
                yield blocks_of(store, (part.seqnos,))
    except IncompleteError as error:
        reason = str(error)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND or not error.retryable:
            raise
        reason = str(error)
    if reason is not None:
        waiting.wait(start, reason)


def _held(store: Store | None, wanted: range) -> range:
    """Return the first seqnos of a range, as far as a store holds them without a gap."""
    if store is None or not wanted:
        return range(0)
    store.verify([wanted])
    gaps = store.gaps([wanted])
    return range(wanted.start, gaps[0].start if gaps else wanted.stop)
