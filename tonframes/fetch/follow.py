"""Fetch new masterchain blocks as they appear."""

from __future__ import annotations

import logging
from collections import deque
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from tonframes.display import moment
from tonframes.errors import IncompleteError, MissingError, RequestError
from tonframes.fetch.missing import fetch_missing
from tonframes.fetch.network import Network, last_shown, masterchain_info
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_seqno,
    resolve_store,
)
from tonframes.frames import Blocks
from tonframes.store import SPAN, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from tonframes.client import Client
    from tonframes.fetch.network import MasterchainBlock
    from tonframes.store import AnyStore

#: Shortest and longest wait for a new masterchain block, in seconds.
POLL, LONGEST = 1.0, 10.0
#: The time between masterchain blocks is measured over so many of the answers that had new ones.
MEASURED = 20

#: Seconds after which the log says what is waited for; then after twice as many, and so on.
PATIENCE = 10.0

_log = logging.getLogger(__name__)


def follow_blocks(
    start: int | str | datetime | date | None = None,
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
    this waits. It asks for the last block as often as blocks come, at most once a second.

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
        network = Network(online, target)
        network.claim()
        pace = _Pace()
        last = _last(online, pace)
        if following is None:
            following = last
        waiting = _Waiting(online)
        while True:
            start = following
            waiting.begin(start)
            for blocks in _next(online, target, range(start, last + 1), network, waiting):
                following = blocks.seqnos[-1].stop
                yield blocks
            if following > last:
                waiting.reason = f"the last one of {online.base_url} is {last}"
                waiting.wait(pace.seconds)
                last = _last(online, pace)
            elif following == start:
                waiting.wait(POLL)


def _last(client: Client, pace: _Pace) -> int:
    pace.note(masterchain_info(client).last)
    return last_shown(client, 0)


class _Pace:
    """How long to wait for a new masterchain block: as long as they take on average."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=MEASURED)
        self._in_vain = 0

    def note(self, last: MasterchainBlock) -> None:
        if self._seen and last.seqno <= self._seen[-1][0]:
            self._in_vain += 1
            return
        self._in_vain = 0
        self._seen.append((last.seqno, int(last.gen_utime or 0)))

    @property
    def seconds(self) -> float:
        """Seconds until the service is asked again."""
        seconds = POLL
        if len(self._seen) > 1:
            (first, begins), (last, ends) = self._seen[0], self._seen[-1]
            seconds = max(POLL, (ends - begins) / (last - first))
        return min(seconds * 2.0**self._in_vain, LONGEST)


class _Waiting:
    """Waits for masterchain blocks, and logs for which one, since when and why."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seqno: int | None = None
        self.reason = ""

    def begin(self, seqno: int) -> None:
        if seqno != self._seqno:
            self._seqno, self._since = seqno, datetime.now(UTC)
            self._began, self._patience = monotonic(), PATIENCE

    def wait(self, seconds: float) -> None:
        waited = monotonic() - self._began
        if waited >= self._patience:
            self._patience = 2 * waited
            since = moment(self._since)
            _log.warning(
                "waiting for masterchain block %d since %s: %s", self._seqno, since, self.reason
            )
        self._client.wait(seconds)


def _next(
    client: Client, store: AnyStore | None, wanted: range, network: Network, waiting: _Waiting
) -> Iterator[Blocks]:
    """Yield the first masterchain blocks of a range that can be proven, as far as a file goes."""
    start = wanted.start
    wanted = wanted[: SPAN - start % SPAN]
    if not wanted:
        return
    try:
        if store is not None:
            store.verify([wanted])
            gaps = store.gaps([wanted])
            held = range(start, gaps[0].start if gaps else wanted.stop)
            if held:
                yield blocks_of(store, (held,))
                return
        for proven in fetch_missing(client, store, (wanted,), network, progress=False):
            if proven.seqnos.start != start:  # the blocks before it are not proven yet
                waiting.reason = f"{client.base_url} shows later ones, but not yet all of this one"
                break
            start = proven.seqnos.stop
            if store is None:
                yield Blocks(proven.tables, source=client.base_url, seqnos=(proven.seqnos,))
            else:
                yield blocks_of(store, (proven.seqnos,))
    except IncompleteError as error:
        waiting.reason = str(error)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND or not error.retryable:
            raise
        waiting.reason = str(error)
