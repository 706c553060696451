"""Fetch masterchain blocks in threads, prove them part by part, and commit them to a store."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tonframes.errors import (
    IncompleteError,
    MissingError,
    RequestError,
    StoreError,
    TonframesError,
)
from tonframes.fetch.block import BlockPages, fetch_block
from tonframes.fetch.crew import Crew
from tonframes.fetch.ends import knows_windows
from tonframes.fetch.network import Network
from tonframes.fetch.progress import progress as shown
from tonframes.fetch.proving import Proven, Stretch, Unproven
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.fetch.time import resolve_seqnos
from tonframes.fetch.windows import read_windows
from tonframes.frames import Blocks
from tonframes.seqnos import joined, spell, subtract
from tonframes.store import SPAN, blocks_of, open_blocks
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tonframes.client import Client
    from tonframes.fetch.progress import Progress
    from tonframes.store import AnyStore

#: Masterchain blocks that are fetched at the same time, and ahead of the one being processed.
WORKERS, AHEAD = 4, 8

#: A part is committed when it has this many transactions, to limit the memory.
LARGEST = 20_000

#: What is proven is committed this many seconds after the last commit, if it may be this many
#: masterchain blocks: with those that are fetched ahead, a process that is killed loses fewer than
#: 20 masterchain blocks, or less than what came in 5 seconds.
OFTEN, FEWEST = 1.0, 8

#: After this many seconds without a commit the service is asked for what the proof still needs.
OLDEST = 5.0

#: Seconds for a request after one has failed for good.
HURRY = 1.0


def fetch_blocks(
    seqnos: Seqnos,
    *,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
    progress: bool | None = None,
) -> Blocks:
    """Fetch the transactions that masterchain blocks commit; only those that the store lacks.

    Only what is proven to be complete is kept. If the service shows blocks, the proof is the chain
    of blocks of every shard; if it shows transactions only, the chain of transactions of every
    account, which cannot tell that the first or the last one of an account is missing. What else
    the proofs cannot notice is listed in `tonframes.fetch.proof`. What was proven is kept, whatever
    ends the call: an error, Ctrl-C, a lost network. Called again with the same arguments, it
    continues there.

    Parameters
    ----------
    seqnos
        Masterchain seqnos, or a single one; or text, as on the command line: `100:150` (without
        150), `100`, or two moments with a slash between them, `2026-05-28T20:26/2026-05-29`.
    client
        The client to use, or the URL of a service; None is `Client()`. "offline" reads the store
        and opens no socket.
    store
        Folder or URL of the store; by default a folder in the user's cache directory, None for no
        store. Damaged files in it are set aside with a warning, and fetched again. The URL is that
        of a bucket, as `s3://bucket/path` or `gs://bucket/path`: it takes spans of 100 masterchain
        seqnos from a multiple of 100 on, and what is not a whole one stays on this computer.
    progress
        Whether to show a progress bar; None shows one in a terminal or a notebook.

    Returns
    -------
    Blocks, ordered by (mc_block_seqno, lt, account). With a store it is a view of its files.

    Raises
    ------
    RequestError, DecodeError
        The service did not answer, its answer cannot be decoded, or it does not have a block yet.
    IncompleteError
        Some masterchain blocks could not be proven after several attempts. All others were
        fetched.
    MissingError
        Offline, and the store does not hold all blocks.
    StoreError
        The store is of another network, or cannot be written to. What was fetched for a bucket that
        does not answer stays on this computer until the next fetch.

    An error raised while fetching has the attributes `partial`, a `Blocks` with what was fetched
    or held, and `missing`, the ranges of seqnos that are not.

    Warns
    -----
    TonframesWarning
        The service is behind: it lacks blocks before the second moment, though that is past. The
        range ends with the last block that it has.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     blocks = tf.fetch_blocks(range(90_000_000, 90_000_003), client=client, store=None)
    >>> blocks.seqnos
    (range(90000000, 90000003),)
    """
    with resolve_client(client) as (online, service):
        wanted = resolve_seqnos(seqnos, online)
        target = resolve_store(store, service)
        if online is None:
            return _held(target, wanted)
        network = Network(online, target)
        network.claim()
        if target is not None:
            target.verify(wanted)
        parts: list[Proven] = []
        try:
            for part in fetch_missing(online, target, wanted, network, progress=progress):
                if target is None and (not parts or part.seqnos.start >= parts[-1].seqnos.stop):
                    parts.append(part)
        except (TonframesError, KeyboardInterrupt) as error:
            _tell(error, target, wanted, parts, service)
            raise
        return _blocks(target, wanted, parts, service)


def fetch_missing(
    client: Client,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    network: Network,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch and commit what a store lacks; yield each part after its commit.

    However it ends, by an error, Ctrl-C or because the caller takes no more, it first commits what
    is proven by what has come, without another request. After an error it asks once more, and
    briefly, for what the proof of the last masterchain blocks still needs.

    Parameters
    ----------
    network
        The network of which all blocks must be.

    Raises
    ------
    IncompleteError
        Raised at the end; it names every masterchain block that could not be proven.
    """
    missing = wanted if store is None else store.gaps(wanted)
    if missing:
        network.confirm()
    failures: list[IncompleteError] = []
    with shown(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        counted = _Counted(client, bar)
        for run in missing:
            reading = _Reading(client, run, counted, failures)
            yield from _committed(reading, store, run, network)
    if failures:
        unproven = joined(run for error in failures for run in error.missing)
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise IncompleteError(f"{failures[0]}{more}", missing=unproven)


def _committed(
    reading: _Reading, store: AnyStore | None, run: range, network: Network
) -> Iterator[Proven]:
    """Yield each part of consecutive masterchain blocks after its commit.

    Small files are merged at the end, but not after Ctrl-C or if the caller takes no more: the
    store is whole without that, and the next fetch does it.
    """
    try:
        for part in reading.parts():
            _commit(store, part, network)
            yield part
    except GeneratorExit:
        reading.drop(part)
        for part in reading.rest():
            _commit(store, part, network)
        raise
    except BaseException as error:
        with suppress(StoreError, RequestError):
            for part in reading.rest():
                _commit(store, part, network)
                yield part
            for part in reading.rescued() if isinstance(error, TonframesError) else ():
                _commit(store, part, network)
                yield part
        if isinstance(error, TonframesError):
            _merge(store, run)
        raise
    _merge(store, run)


def _commit(store: AnyStore | None, part: Proven, network: Network) -> None:
    network.check(part.tables.get("blocks"))
    if store is not None:
        store.write_blocks(part.tables, [part.seqnos], proof=part.proof)


def _merge(store: AnyStore | None, run: range) -> None:
    if store is not None and (len(run) > 1 or run.stop % SPAN == 0):
        with suppress(StoreError):
            store.merge(run)


class _Counted:
    """Tells a progress bar what has come."""

    def __init__(self, client: Client, bar: Progress) -> None:
        self._client, self._bar = client, bar
        self._transactions = 0

    def add(self, blocks: int, transactions: int) -> None:
        self._transactions += transactions
        statistics = self._client.statistics
        self._bar.advance(
            blocks,
            transactions=self._transactions,
            retries=statistics.retries,
            paused=f"{statistics.seconds_paused:.0f} s",
        )


_Piece = Stretch | BlockPages | IncompleteError
_Task = tuple[int, "Future[BlockPages]"]


class _Reading:
    """Consecutive masterchain blocks that are being fetched and proven."""

    def __init__(
        self, client: Client, run: range, counted: _Counted, failures: list[IncompleteError]
    ) -> None:
        self._client = client
        self._counted = counted
        self._failures = failures
        self._part = Unproven(client, run.start)
        self._ahead: deque[_Task] = deque()
        self._pieces = self._read(run)

    def parts(self) -> Iterator[Proven]:
        """Yield what is proven. A part may be forgotten when the next one is asked for."""
        for piece in self._pieces:
            if isinstance(piece, IncompleteError):
                self._failures.append(piece)
                yield from self._part.prove(self._failures)
                self._part = Unproven(self._client, piece.missing[-1].stop)
                continue
            part, before = self._part, len(self._part.seqnos)
            if isinstance(piece, Stretch):
                part.add_stretch(piece)
            else:
                part.add(piece)
            self._counted.add(len(part.seqnos) - before, piece.transactions)
            part.begin()
            many, now = len(part.seqnos) >= FEWEST, time.monotonic()
            if (
                part.seqnos.stop % SPAN == 0
                or part.transactions >= LARGEST
                or (many and now - part.began >= OLDEST)
            ):
                yield from part.prove(self._failures)
                self._part = Unproven(self._client, part.seqnos.stop, part.after)
            elif many and now - part.tried >= OFTEN and (proven := part.proven()):
                yield proven
                part.drop(proven)
        yield from self._part.prove(self._failures)

    def drop(self, given: Proven) -> None:
        """Forget the part that `parts` has yielded last, if nothing comes after it."""
        if given.seqnos.start == self._part.seqnos.start:
            self._part.drop(given)

    def rest(self) -> Iterator[Proven]:
        """Yield what is proven by what has come, without another request."""
        self._pieces.close()
        for seqno, future in self._ahead:
            if seqno < self._part.seqnos.stop:
                continue
            if not future.done() or future.cancelled() or future.exception():
                break
            self._part.add(future.result())
        if proven := self._part.proven():
            yield proven
            self._part.drop(proven)

    def rescued(self) -> Iterator[Proven]:
        """Prove the others that came before an error, if the service still answers, and soon."""
        with suppress(TonframesError), self._client.hurried(HURRY):
            yield from self._part.prove([])

    def _read(self, run: range) -> Generator[_Piece]:
        """Read masterchain blocks in order: through windows as far as the service allows it.

        Where a window does not show what there must be, the masterchain blocks that are next are
        read one at a time, more of them each time that this happens again.
        """
        client, alone = self._client, 0
        while run:
            if len(run) > 1 and knows_windows(client):
                for stretch in read_windows(client, run):
                    run = range(stretch.seqnos.stop, run.stop)
                    alone = 0
                    yield stretch
            alone = min(SPAN, max(1, 2 * alone)) if knows_windows(client) else len(run)
            for seqno, future in _ahead(client, run[:alone], self._ahead):
                try:
                    yield future.result()
                except IncompleteError as error:
                    yield error
                run = range(seqno + 1, run.stop)


def _ahead(
    client: Client, seqnos: range, waiting: deque[_Task]
) -> Iterator[tuple[int, Future[BlockPages]]]:
    """Fetch masterchain blocks in threads, and yield them in order.

    So one block is decoded, which holds the interpreter lock, while others are downloaded.

    Parameters
    ----------
    waiting
        Takes the blocks that are not processed yet. After an interruption it has what has come.
    """
    tasks: SimpleQueue[_Task | None] = SimpleQueue()
    crew = Crew()
    for _ in range(min(WORKERS, len(seqnos))):
        crew.run(partial(_work, client, tasks))
    waiting.clear()
    try:
        for seqno in seqnos:
            waiting.append((seqno, Future()))
            tasks.put(waiting[-1])
            if len(waiting) == AHEAD:
                yield waiting[0]
                waiting.popleft()
        while waiting:
            yield waiting[0]
            waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()
        for _ in range(WORKERS):
            tasks.put(None)
        crew.close()


def _work(client: Client, tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        seqno, future = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fetch_block(client, seqno))
            except BaseException as error:  # noqa: BLE001 - raised by `Future.result`
                future.set_exception(error)


# ── results and errors ────────────────────────────────────────────────────────────────────────────


def _blocks(
    store: AnyStore | None, wanted: tuple[range, ...], parts: list[Proven], service: str
) -> Blocks:
    if store is not None:
        return blocks_of(store, wanted)
    return Blocks(concat([part.tables for part in parts]), source=service, seqnos=wanted)


def _tell(
    error: TonframesError | KeyboardInterrupt,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    parts: list[Proven],
    service: str,
) -> None:
    """Add to an error what was fetched or is held, what is missing, and how to continue."""
    held = joined(part.seqnos for part in parts) if store is None else store.held()
    missing = subtract(wanted, held)
    there = subtract(wanted, missing)
    if isinstance(error, TonframesError):
        error.missing = missing
        if there:
            error.partial = _blocks(store, there, parts, service)
    kept, count = sum(map(len, there)), sum(map(len, wanted))
    if store is not None:
        text = (
            f"{kept} of {count} masterchain blocks are kept; missing: {spell(missing)}. To "
            f"continue, call fetch_blocks again with store={str(store.path)!r}."
        )
    elif isinstance(error, TonframesError):
        text = (
            f"{kept} of {count} masterchain blocks are in `error.partial`; missing: "
            f"{spell(missing)}. To continue, call fetch_blocks again for these."
        )
    else:
        text = "Without a store nothing is kept; with store= an interrupted fetch continues."
    error.add_note(text)


def _held(store: AnyStore | None, wanted: tuple[range, ...]) -> Blocks:
    if store is None:
        raise MissingError("offline, and without a store", missing=wanted)
    return open_blocks(store.path, wanted)
