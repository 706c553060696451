"""The chain as it grows, and as it was at a moment."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, MissingError, RequestError, shorten
from tonframes.fetch.blocks import fetch_missing
from tonframes.fetch.network import claim, masterchain_info
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.frames import Blocks
from tonframes.store import SPAN, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client import Client
    from tonframes.store import Store

#: Seconds between looks for a new masterchain block; the network makes one every few seconds.
POLL = 1.0


def follow_blocks(
    start: int | None = None, *, client: ClientOption = None, store: StoreOption = DEFAULT
) -> Iterator[Blocks]:
    """Fetch masterchain blocks as they become provable, for ever.

    Parameters
    ----------
    start
        The first masterchain seqno; None is the service's last one.
    client, store
        As for `fetch_blocks`; not offline.

    Yields
    ------
    Blocks: whole masterchain blocks, in order and without a gap, at most 100 at a time. With a
    store they are committed before they are given. A block that the service does not have yet,
    or cannot show whole yet, is waited for.

    Raises
    ------
    RequestError
        The service does not answer. Called again with the first seqno that was not given, it goes
        on.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     following = tf.follow_blocks(90_000_118, client=client, store=None)
    ...     blocks = next(following)
    >>> blocks.seqnos
    (range(90000118, 90000120),)
    """
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise TypeError(f"start is an int, not {shorten(start)}")
    with resolve_client(client) as (asked, service):
        if asked is None:
            raise MissingError("there is nothing to follow offline")
        place = resolve_store(store, service)
        if place is not None:
            claim(place, asked)
        following = masterchain_info(asked).last.seqno if start is None else start
        while True:
            for blocks in _next(asked, place, following):
                following = blocks.seqnos[-1].stop
                yield blocks


def _next(client: Client, store: Store | None, start: int) -> Iterator[Blocks]:
    """Give what can be proven from a seqno on up to the next file, or wait a moment for it."""
    try:
        last = masterchain_info(client).last.seqno
        wanted = range(start, min(last + 1, (start // SPAN + 1) * SPAN))
        held = _held(store, wanted)
        if held and store is not None:
            yield blocks_of(store, (held,))
            return
        for part in fetch_missing(client, store, (wanted,) if wanted else (), progress=False):
            if part.seqnos.start != start:  # what is between is not proven yet
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
    """Give the beginning of some seqnos that a store holds."""
    if store is None or not wanted:
        return range(0)
    store.verify([wanted])
    gaps = store.gaps([wanted])
    return range(wanted.start, gaps[0].start if gaps else wanted.stop)
