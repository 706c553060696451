"""Masterchain blocks through a store: fetched ahead, proven in parts, committed."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, MissingError, TonframesError
from tonframes.fetch.block import BlockPages, fetch_block
from tonframes.fetch.network import claim
from tonframes.fetch.progress import progress as shown
from tonframes.fetch.proving import Proven, Stretch, Unproven
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_seqnos,
    resolve_store,
)
from tonframes.fetch.windows import knows_windows, read_windows
from tonframes.frames import Blocks
from tonframes.seqnos import joined, spell, subtract
from tonframes.store import SPAN, Store, blocks_of, read_blocks
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client import Client
    from tonframes.fetch.progress import Progress

#: Masterchain blocks that are asked for at once, and ahead of the one that is waited for.
WORKERS, AHEAD = 4, 8

#: A part is committed at the latest when it has so many transactions, to bound the memory.
LARGEST = 20_000

#: And when it was begun so many seconds ago, to bound what an interruption costs.
OLDEST = 30.0


def fetch_blocks(
    seqnos: Seqnos,
    *,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
    progress: bool | None = None,
) -> Blocks:
    """Fetch the transactions that masterchain blocks commit; only those the store lacks.

    Nothing is kept that is not proven to be whole: where the service shows blocks, by the chain of
    every shard's blocks; where it shows transactions alone, by the chain of every account's.
    Whatever happens, calling it again with the same arguments goes on where it ended.

    Parameters
    ----------
    seqnos
        Masterchain seqnos.
    client
        The service to ask; None is `Client()`. "offline" never opens a socket.
    store
        A folder to keep what was fetched in; by default one in the user's cache directory, None
        to keep nothing. Damaged files of it are set aside, with a warning, and fetched again.
    progress
        Whether to show a bar; None where somebody can see it.

    Returns
    -------
    Blocks, ordered by (mc_block_seqno, lt, account). With a store it is a view of the files.

    Raises
    ------
    RequestError, DecodeError
        The service did not answer, or nothing sensible; or it does not have a block yet.
    IncompleteError
        Some masterchain blocks could not be proven, however often they were asked for. All others
        were fetched.
    MissingError
        Offline, and the store does not hold them all.
    StoreError
        The store is of another network, or cannot be written to.

    Each error but the last says in `partial` what is there, a `Blocks`, and in `missing` what is
    not, as ranges.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     blocks = tf.fetch_blocks(range(90_000_000, 90_000_003), client=client, store=None)
    >>> blocks.seqnos
    (range(90000000, 90000003),)
    """
    wanted = resolve_seqnos(seqnos)
    with resolve_client(client) as (asked, service):
        place = resolve_store(store, service)
        if asked is None:
            return _held(place, wanted)
        if place is not None:
            claim(place, asked)
            place.verify(wanted)
        parts: list[Proven] = []
        try:
            for part in fetch_missing(asked, place, wanted, progress=progress):
                parts += [part] if place is None else []
        except TonframesError as error:
            _tell(error, place, wanted, parts, service)
            raise
        return _blocks(place, wanted, parts, service)


def fetch_missing(
    client: Client, store: Store | None, wanted: tuple[range, ...], *, progress: bool | None
) -> Iterator[Proven]:
    """Fetch and commit what a store lacks, part by part; each is given after its commit.

    Raises
    ------
    IncompleteError
        At the end, naming every masterchain block that could not be proven.
    """
    missing = wanted if store is None else store.gaps(wanted)
    failures: list[IncompleteError] = []
    with shown(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        for run in missing:
            for part in _fetch_run(client, run, bar, failures):
                if store is not None:
                    store.write_blocks(part.tables, [part.seqnos], proof=part.proof)
                yield part
    if failures:
        unproven = joined(run for error in failures for run in error.missing)
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise IncompleteError(f"{failures[0]}{more}", missing=unproven)


def _fetch_run(
    client: Client, run: range, bar: Progress, failures: list[IncompleteError]
) -> Iterator[Proven]:
    part = Unproven(client, run.start)
    done = 0
    pieces = _pieces(client, run)
    while True:
        try:
            piece = next(pieces, None)
        except TonframesError:
            yield from _rescued(part)
            raise
        if piece is None:
            break
        if isinstance(piece, IncompleteError):
            failures.append(piece)
            yield from part.prove(failures)
            part = Unproven(client, piece.missing[-1].stop)
            continue
        if isinstance(piece, Stretch):
            part.add_stretch(piece)
            seqnos = piece.seqnos
        else:
            part.add(piece)
            seqnos = range(piece.seqno, piece.seqno + 1)
        done += piece.transactions
        statistics = client.statistics
        bar.advance(
            len(seqnos),
            transactions=done,
            retries=statistics.retries,
            paused=f"{statistics.seconds_paused:.0f} s",
        )
        old = time.monotonic() - part.began >= OLDEST
        if seqnos.stop % SPAN == 0 or part.transactions >= LARGEST or old:
            yield from part.prove(failures)
            part = Unproven(client, seqnos.stop, part.after)
    yield from part.prove(failures)


def _rescued(part: Unproven) -> Iterator[Proven]:
    """Prove what has come before an error, if the service still answers that much."""
    with suppress(TonframesError):
        yield from part.prove([])


_Piece = Stretch | BlockPages | IncompleteError


def _pieces(client: Client, run: range) -> Iterator[_Piece]:
    """Read masterchain blocks in order: through windows as far as the service allows it.

    Where a window does not show what there must be, the masterchain blocks that are next are read
    one at a time, more of them each time that this happens again.
    """
    alone = 0
    while run:
        if len(run) > 1 and knows_windows(client):
            for stretch in read_windows(client, run):
                run = range(stretch.seqnos.stop, run.stop)
                alone = 0
                yield stretch
        alone = min(SPAN, max(1, 2 * alone)) if knows_windows(client) else len(run)
        for seqno, future in _ahead(client, run[:alone]):
            try:
                yield future.result()
            except IncompleteError as error:
                yield error
            run = range(seqno + 1, run.stop)


_Task = tuple[int, "Future[BlockPages]"]


def _ahead(client: Client, seqnos: range) -> Iterator[tuple[int, Future[BlockPages]]]:
    """Ask for masterchain blocks in threads, and give them in order.

    The network, and the decoding of JSON, which holds the interpreter, take turns this way. The
    threads are daemons, unlike those of an executor: who interrupts a fetch, or ends the program,
    is not made to wait for what is under way.
    """
    tasks: SimpleQueue[_Task | None] = SimpleQueue()
    for _ in range(min(WORKERS, len(seqnos))):
        Thread(target=_work, args=(client, tasks), name="tonframes", daemon=True).start()
    waiting: deque[_Task] = deque()
    try:
        for seqno in seqnos:
            waiting.append((seqno, Future()))
            tasks.put(waiting[-1])
            if len(waiting) == AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()
        for _ in range(WORKERS):
            tasks.put(None)


def _work(client: Client, tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        seqno, future = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fetch_block(client, seqno))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                future.set_exception(error)


# ── the result ───────────────────────────────────────────────────────────────────────────────────


def _blocks(
    store: Store | None, wanted: tuple[range, ...], parts: list[Proven], service: str
) -> Blocks:
    if store is not None:
        return blocks_of(store, wanted)
    return Blocks(concat([part.tables for part in parts]), source=service, seqnos=wanted)


def _tell(
    error: TonframesError,
    store: Store | None,
    wanted: tuple[range, ...],
    parts: list[Proven],
    service: str,
) -> None:
    """Say in an error what is there, what is not, and how to go on."""
    held = joined(part.seqnos for part in parts) if store is None else store.held()
    error.missing = subtract(wanted, held)
    there = subtract(wanted, error.missing)
    if there:
        error.partial = _blocks(store, there, parts, service)
    more = "and `error.partial`" if store is None else f"with store={str(store.path)!r}"
    error.add_note(
        f"{sum(map(len, there))} of {sum(map(len, wanted))} masterchain blocks are there; missing: "
        f"{spell(error.missing)}. To go on, call fetch_blocks again {more}."
    )


def _held(store: Store | None, wanted: tuple[range, ...]) -> Blocks:
    if store is None:
        raise MissingError("offline, and without a store", missing=wanted)
    return read_blocks(store.path, [seqno for run in wanted for seqno in run])
