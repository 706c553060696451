"""Fetch the masterchain blocks that a store lacks: read in threads, prove, and commit them."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, RequestError, StoreError, TonframesError
from tonframes.fetch.block import BlockPages, fetch_block
from tonframes.fetch.network import Network, observed
from tonframes.fetch.progress import Counted, Silent, progress_bar
from tonframes.fetch.proof import BrokenError, compare
from tonframes.fetch.proving import Proven, Stretch, Unproven
from tonframes.fetch.spread import Spread, most_telling, per_task, workers_of
from tonframes.fetch.windows import read_windows
from tonframes.fetch.workers import Crew, open_store
from tonframes.seqnos import SPAN, aligned, intersection, joined, spell, subtract
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.fetch.proof import Tips
    from tonframes.store import AnyStore

#: Masterchain blocks that are fetched at the same time, and ahead of the one being processed.
WORKERS, AHEAD = 4, 8

#: Blocks are committed when they have this many transactions, to limit the memory.
LARGEST = 20_000

#: What is proven is committed this many seconds after the last commit, if it may be this many
#: masterchain blocks: with those that are fetched ahead, a process that is killed loses fewer than
#: 20 masterchain blocks, or less than what came in 5 seconds.
OFTEN, FEWEST = 1.0, 8

#: After this many seconds without a commit the service is asked for what the proof still needs.
OLDEST = 5.0

#: Seconds for a request after one has failed for good.
HURRY = 1.0

#: Files of a task at most.
MOST_FILES = 10


def fetch_missing(
    client: Client,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    network: Network,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch and commit what a store lacks; yield what is proven after its commit.

    However it ends, by an error, Ctrl-C or because the caller takes no more, it first commits what
    can be proven without another request. After an error it asks once more, and briefly, for what
    the proof of the last masterchain blocks still needs.
    """
    missing = wanted if store is None else store.gaps(wanted)
    if missing:
        network.confirm()
    failures: list[IncompleteError] = []
    with progress_bar(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        counted = Counted(client, bar)
        for run in missing:
            yield from committed(RunReader(client, run, counted, failures), store, network)
    raise_failures(failures)


def raise_failures(failures: Sequence[IncompleteError]) -> None:
    """Raise one error that names every masterchain block that could not be proven."""
    if failures:
        unproven = joined(run for error in failures for run in error.missing)
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise IncompleteError(f"{failures[0]}{more}", missing=unproven)


def committed(reader: RunReader, store: AnyStore | None, network: Network) -> Iterator[Proven]:
    """Yield consecutive masterchain blocks that are proven, after their commit."""

    def commit(proven: Proven) -> Proven:
        network.check(proven.tables.get("blocks"))
        if store is not None:
            store.write_blocks(proven.tables, [proven.seqnos], proof=proven.proof)
        return proven

    try:
        for proven in reader.proven():
            yield commit(proven)
    except GeneratorExit:
        reader.drop(proven)
        for more in reader.proven_without_requests():
            commit(more)
        raise
    except BaseException as error:
        with suppress(StoreError, RequestError):
            yield from map(commit, reader.proven_without_requests())
            if isinstance(error, TonframesError):
                yield from map(commit, reader.proven_in_a_hurry())
        if isinstance(error, TonframesError):
            _merge(store, reader.run)
        raise
    _merge(store, reader.run)


def _merge(store: AnyStore | None, run: range) -> None:
    if store is not None and (len(run) > 1 or run.stop % SPAN == 0):
        with suppress(StoreError):
            store.merge(run)


class RunReader:
    """Reads consecutive masterchain blocks, and proves them."""

    def __init__(
        self, client: Client, run: range, counted: Counted, failures: list[IncompleteError]
    ) -> None:
        self.run = run
        self._client = client
        self._counted = counted
        self._failures = failures
        self._unproven = Unproven(client, run.start)
        self._before: Tips | None = None
        # What is fetched and not yet processed; after an interruption, what has come.
        self._ahead: deque[tuple[int, Future[BlockPages]]] = deque()
        self._read = self._read_run()

    @property
    def borders(self) -> list[tuple[int, Tips]]:
        """Where a finished proof begins and ends, with the last blocks of all shards before."""
        ends = ((self.run.start, self._before), (self.run.stop, self._unproven.after))
        return [(seqno, tips) for seqno, tips in ends if tips is not None]

    def proven(self) -> Iterator[Proven]:
        """Yield what is proven. It may be forgotten when more is asked for."""
        for proven in self._proven():
            if proven.seqnos.start == self.run.start:
                self._before = self._unproven.before
            yield proven

    def _proven(self) -> Iterator[Proven]:
        for blocks in self._read:
            if isinstance(blocks, IncompleteError):
                self._failures.append(blocks)
                yield from self._unproven.prove(self._failures)
                self._unproven = Unproven(self._client, blocks.missing[-1].stop)
                continue
            unproven, before = self._unproven, len(self._unproven.seqnos)
            if isinstance(blocks, Stretch):
                unproven.add_stretch(blocks)
            else:
                unproven.add(blocks)
            self._counted.add(len(unproven.seqnos) - before, blocks.transactions)
            unproven.begin()
            many, now = len(unproven.seqnos) >= FEWEST, time.monotonic()
            if (
                unproven.seqnos.stop % SPAN == 0
                or unproven.transactions >= LARGEST
                or (many and now - unproven.began >= OLDEST)
            ):
                yield from unproven.prove(self._failures)
                self._unproven = Unproven(self._client, unproven.seqnos.stop, unproven.after)
            elif many and now - unproven.tried >= OFTEN and (proven := unproven.proven()):
                yield proven
                unproven.drop(proven)
        yield from self._unproven.prove(self._failures)

    def drop(self, proven: Proven) -> None:
        """Forget what `proven` has yielded last, if nothing comes after it."""
        if proven.seqnos.start == self._unproven.seqnos.start:
            self._unproven.drop(proven)

    def proven_without_requests(self) -> Iterator[Proven]:
        """End the reading, and yield what the blocks that have come prove."""
        self._read.close()
        for seqno, future in self._ahead:
            if seqno < self._unproven.seqnos.stop:
                continue
            if not future.done() or future.cancelled() or future.exception():
                break
            self._unproven.add(future.result())
        if proven := self._unproven.proven():
            yield proven
            self._unproven.drop(proven)

    def proven_in_a_hurry(self) -> Iterator[Proven]:
        """Prove what came before an error, if the service still answers, and soon."""
        with suppress(TonframesError), self._client.hurried(HURRY):
            yield from self._unproven.prove([])

    def _read_run(self) -> Generator[Stretch | BlockPages | IncompleteError]:
        """Read masterchain blocks in order: through windows as far as the service allows it."""
        run, known, alone = self.run, observed(self._client), 0
        while run:
            if len(run) > 1 and known.windows:
                for stretch in read_windows(self._client, run):
                    run = range(stretch.seqnos.stop, run.stop)
                    alone = 0
                    yield stretch
            alone = min(SPAN, max(1, 2 * alone)) if known.windows else len(run)
            for seqno, future in self._read_one_by_one(run[:alone]):
                try:
                    yield future.result()
                except IncompleteError as error:
                    yield error
                run = range(seqno + 1, run.stop)

    def _read_one_by_one(self, seqnos: range) -> Iterator[tuple[int, Future[BlockPages]]]:
        """Fetch masterchain blocks in threads, and yield them in order.

        So one block is decoded, which holds the interpreter lock, while others are downloaded.
        """
        tasks: SimpleQueue[tuple[int, Future[BlockPages]] | None] = SimpleQueue()
        crew, waiting = Crew(), self._ahead
        waiting.clear()
        try:
            for _ in range(min(WORKERS, len(seqnos))):
                crew.run(partial(_fetch_blocks, self._client, tasks))
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


def _fetch_blocks(
    client: Client, tasks: SimpleQueue[tuple[int, Future[BlockPages]] | None]
) -> None:
    while (task := tasks.get()) is not None:
        seqno, future = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fetch_block(client, seqno))
            except BaseException as error:  # noqa: BLE001 - raised by `Future.result`
                future.set_exception(error)


# ── by the workers of an executor ────────────────────────────────────────────────────────────────
#
# A task asks the service for the last blocks of all shards before its first masterchain block and
# at its end, and follows the chains from the one to the other. Two tasks that meet must have proven
# the same last blocks where they meet: so no block can be missing between them, as in one process.


@dataclass(slots=True)
class BlockResult:
    blocks: int = 0
    transactions: int = 0
    #: What was proven, where there is no store to commit it to.
    proven: list[Proven] = field(default_factory=list)
    failures: list[IncompleteError] = field(default_factory=list)
    #: The last blocks of all shards before a masterchain seqno, as the proofs have them.
    borders: list[tuple[int, Tips]] = field(default_factory=list)
    error: TonframesError | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class BlockTask:
    """Consecutive masterchain blocks to be fetched and committed by a worker."""

    run: range
    #: Folder of the store, which the worker must see; None returns what was proven.
    store: Path | None
    network: str | None

    @property
    def name(self) -> str:
        return f"masterchain blocks {spell([self.run])}"

    @property
    def missing(self) -> tuple[range, ...]:
        return (self.run,)

    def __call__(self, client: Client) -> BlockResult:
        result = BlockResult()
        try:
            store = None if self.store is None else open_store(self.store, self.network)
            counted = Counted(client, Silent())
            for gap in [self.run] if store is None else store.gaps([self.run]):
                reader = RunReader(client, gap, counted, result.failures)
                for proven in committed(reader, store, Network(client, store)):
                    result.blocks += len(proven.seqnos)
                    result.transactions += len(proven.tables["transactions"])
                    if store is None:
                        result.proven.append(proven)
                result.borders += reader.borders
        except TonframesError as error:
            result.error = error
        except KeyboardInterrupt:
            result.interrupted = True
        return result


def fetch_tasks(
    executor: Executor | int,
    client: Client,
    store: AnyStore | None,
    missing: Sequence[range],
    network: Network,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch with the workers of an executor, who commit; without a store yield what is proven."""
    _learn_blocks(client, missing[0].start)
    tasks = list(_tasks(missing, workers_of(executor), store))
    failures: list[IncompleteError] = []
    errors: list[TonframesError] = []
    borders: dict[int, list[Tips]] = defaultdict(list)
    with progress_bar(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        counted = Counted(client, bar)
        spread = Spread(executor, client, tasks)
        for result in spread.results():
            failures += result.failures
            errors += [result.error] if result.error else []
            for seqno, tips in result.borders:
                borders[seqno].append(tips)
            for proven in result.proven:
                network.check(proven.tables.get("blocks"))
                yield proven
            counted.add(result.blocks, result.transactions)
    failures += spread.failures
    failures += _contradictions(client, store, borders, missing)
    if errors:
        raise most_telling(errors)
    if store is not None:
        lacking = subtract(
            store.gaps(missing), (run for error in failures for run in error.missing)
        )
        if lacking:
            raise StoreError(
                f"the workers have fetched masterchain blocks {spell(lacking)}, and the store "
                f"{store.path} does not have them here: all workers must write into the same "
                "folder, on a file system that they share",
                path=store.path,
            )
    raise_failures(failures)


def _learn_blocks(client: Client, seqno: int) -> None:
    """Learn whether the service shows blocks, unless it is known: all workers must agree on it."""

    def parse(content: bytes) -> bool | None:
        answer = pages.read(schema.BLOCKS_ANSWER, content).answer
        return bool(answer.blocks) if answer.blocks or answer.transactions else None

    if observed(client).blocks is None:
        with suppress(RequestError):
            blocks = client.masterchain_block_shards(seqno, parse, limit=1)
            if blocks is not None:
                observed(client).note_blocks(blocks=blocks)


def _tasks(missing: Sequence[range], workers: int, store: AnyStore | None) -> Iterator[BlockTask]:
    """Yield tasks of whole files, several of them if there are many."""
    files = [file for run in missing for file in aligned(run)]
    count = per_task(len(files), workers, most=MOST_FILES)
    path, network = (None, None) if store is None else (store.path.absolute(), store.network)
    for _, group in groupby(files, key=lambda file: file.start // (count * SPAN)):
        for run in joined(group):
            yield BlockTask(run, path, network)


def _contradictions(
    client: Client,
    store: AnyStore | None,
    borders: dict[int, list[Tips]],
    missing: Sequence[range],
) -> Iterator[IncompleteError]:
    """Compare what tasks have proven where they meet; set aside both sides where it differs."""
    for seqno, tips in sorted(borders.items()):
        try:
            for other in tips[1:]:
                compare(tips[0], other)
        except BrokenError as broken:
            sides = intersection([range(seqno - SPAN, seqno + SPAN)], missing)
            reason = (
                f"{client.base_url} contradicts itself about the last blocks before masterchain "
                f"block {seqno}: {broken}"
            )
            if store is not None:
                store.set_aside(sides, reason)
            yield IncompleteError(
                f"{reason}; masterchain blocks {spell(sides)} were not kept: try again later, or "
                "another service",
                missing=sides,
            )
