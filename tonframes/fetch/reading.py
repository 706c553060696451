"""Read consecutive masterchain blocks in threads, and prove them part by part."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, TonframesError
from tonframes.fetch.block import BlockPages, fetch_block
from tonframes.fetch.crew import Crew
from tonframes.fetch.ends import knows_windows
from tonframes.fetch.proving import Proven, Stretch, Unproven
from tonframes.fetch.windows import read_windows
from tonframes.store import SPAN

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tonframes.client import Client
    from tonframes.fetch.progress import Progress
    from tonframes.fetch.proof import Tips

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


class Counted:
    """Tells a progress bar what has come."""

    def __init__(self, client: Client, bar: Progress) -> None:
        self._client, self._bar = client, bar
        self._transactions = 0

    def add(self, blocks: int, transactions: int) -> None:
        """Add masterchain blocks and their transactions to what has come."""
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


class Reading:
    """Consecutive masterchain blocks that are being fetched and proven."""

    def __init__(
        self, client: Client, run: range, counted: Counted, failures: list[IncompleteError]
    ) -> None:
        self._client = client
        self._counted = counted
        self._failures = failures
        self._part = Unproven(client, run.start)
        self._run = run
        self._before: Tips | None = None
        self._ahead: deque[_Task] = deque()
        self._pieces = self._read(run)

    @property
    def borders(self) -> list[tuple[int, Tips]]:
        """The seqnos where the proof begins and ends, with the last blocks of all shards before.

        They are known once all is proven, if the service shows blocks.
        """
        ends = ((self._run.start, self._before), (self._run.stop, self._part.after))
        return [(seqno, tips) for seqno, tips in ends if tips is not None]

    def parts(self) -> Iterator[Proven]:
        """Yield what is proven. A part may be forgotten when the next one is asked for."""
        for part in self._parts():
            if part.seqnos.start == self._run.start:
                self._before = self._part.before
            yield part

    def _parts(self) -> Iterator[Proven]:
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
    waiting.clear()
    try:
        for _ in range(min(WORKERS, len(seqnos))):
            crew.run(partial(_work, client, tasks))
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
