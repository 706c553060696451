"""Fetch new masterchain blocks as they appear."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, MissingError, RequestError
from tonframes.fetch.blocks import fetch_missing
from tonframes.fetch.network import Network, masterchain_info
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
    from datetime import datetime

    from tonframes.client import Client
    from tonframes.store import Store

#: Seconds between two checks for a new masterchain block; the network makes one every few seconds.
POLL = 1.0


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
        network = Network(online, target)
        network.claim()
        if following is None:
            following = masterchain_info(online).last.seqno
        while True:
            for blocks in _next(online, target, following, network):
                following = blocks.seqnos[-1].stop
                yield blocks


def _next(client: Client, store: Store | None, start: int, network: Network) -> Iterator[Blocks]:
    """Yield what can be proven from a seqno on, up to the end of a file; if nothing can, wait."""
    try:
        last = masterchain_info(client).last.seqno
        wanted = range(start, min(last + 1, (start // SPAN + 1) * SPAN))
        held = _held(store, wanted)
        if held and store is not None:
            yield blocks_of(store, (held,))
            return
        missing = (wanted,) if wanted else ()
        for part in fetch_missing(client, store, missing, network, progress=False):
            if part.seqnos.start != start:  # the blocks before it are not proven yet
                break
            start = part.seqnos.stop
            if store is None:
                yield Blocks(part.tables, source=client.base_url, seqnos=(part.seqnos,))
            else:
                yield blocks_of(store, (part.seqnos,))
    except IncompleteError:
        wanted = range(0)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND or not error.retryable:
            raise
        wanted = range(0)
    if not wanted:
        client.wait(POLL)


def _held(store: Store | None, wanted: range) -> range:
    """Return the first seqnos of a range, as far as a store holds them without a gap."""
    if store is None or not wanted:
        return range(0)
    store.verify([wanted])
    gaps = store.gaps([wanted])
    return range(wanted.start, gaps[0].start if gaps else wanted.stop)
