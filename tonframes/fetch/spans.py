"""Fetch masterchain blocks on an executor: whole spans of the store are tasks.

A task asks the service for the last blocks of all shards before its first masterchain block and at
its end, and follows the chains from the one to the other. Two tasks that meet must have proven the
same last blocks where they meet: so no block can be missing between them, as in one process.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, RequestError, StoreError, TonframesError
from tonframes.fetch.missing import committed, raise_failures
from tonframes.fetch.network import Network
from tonframes.fetch.progress import Silent
from tonframes.fetch.progress import progress as shown_progress
from tonframes.fetch.proof import BrokenError, compare
from tonframes.fetch.reading import Counted, Reading
from tonframes.fetch.shown import shown
from tonframes.fetch.spread import Spread, most_telling, per_task, workers_of
from tonframes.fetch.work import open_store
from tonframes.seqnos import SPAN, aligned, intersection, joined, spell, subtract
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.fetch.proof import Tips
    from tonframes.fetch.proving import Proven
    from tonframes.store import AnyStore

#: Spans of a task at most.
MOST_SPANS = 10


@dataclass(slots=True)
class Fetched:
    """What came of a task.

    Attributes
    ----------
    blocks, transactions
        How many came.
    parts
        What was proven, where there is no store to commit it to.
    failures
        What could not be proven.
    borders
        The last blocks of all shards before a masterchain seqno, as the proofs have them.
    """

    blocks: int = 0
    transactions: int = 0
    parts: list[Proven] = field(default_factory=list)
    failures: list[IncompleteError] = field(default_factory=list)
    borders: list[tuple[int, Tips]] = field(default_factory=list)
    error: TonframesError | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Spans:
    """Consecutive masterchain blocks to be fetched and committed by a worker.

    Attributes
    ----------
    store
        Folder of the store, which the worker must see; None returns what was proven.
    network
        The network of the store.
    """

    run: range
    store: Path | None
    network: str | None

    @property
    def name(self) -> str:
        """What is fetched, for messages."""
        return f"masterchain blocks {spell([self.run])}"

    @property
    def missing(self) -> tuple[range, ...]:
        """What is missing without it."""
        return (self.run,)

    def __call__(self, client: Client) -> Fetched:
        """Fetch what is missing, as far as possible."""
        fetched = Fetched()
        try:
            self._fetch(client, fetched)
        except TonframesError as error:
            fetched.error = error
        except KeyboardInterrupt:
            fetched.interrupted = True
        return fetched

    def _fetch(self, client: Client, fetched: Fetched) -> None:
        store = None if self.store is None else open_store(self.store, self.network)
        counted = Counted(client, Silent())
        for gap in [self.run] if store is None else store.gaps([self.run]):
            reading = Reading(client, gap, counted, fetched.failures)
            for part in committed(reading, store, gap, Network(client, store)):
                fetched.blocks += len(part.seqnos)
                fetched.transactions += len(part.tables["transactions"])
                if store is None:
                    fetched.parts.append(part)
            fetched.borders += reading.borders


def fetch_spans(
    executor: Executor | int,
    client: Client,
    store: AnyStore | None,
    missing: Sequence[range],
    network: Network,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch masterchain blocks with the workers of an executor; they commit them to a store.

    Parameters
    ----------
    executor
        The workers; a number is that of processes of our own.

    Yields
    ------
    What was proven, in any order, if there is no store to commit it to.

    Raises
    ------
    IncompleteError
        Raised at the end; it names every masterchain block that could not be proven.
    StoreError
        What workers have written is not in the store that this process sees.
    """
    _learn(client, missing[0].start)
    tasks = list(_tasks(missing, workers_of(executor), store))
    failures: list[IncompleteError] = []
    errors: list[TonframesError] = []
    borders: dict[int, list[Tips]] = defaultdict(list)
    with shown_progress(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        counted = Counted(client, bar)
        spread = Spread(executor, client, tasks)
        for fetched in spread.results():
            failures += fetched.failures
            errors += [fetched.error] if fetched.error else []
            for seqno, tips in fetched.borders:
                borders[seqno].append(tips)
            for part in fetched.parts:
                network.check(part.tables.get("blocks"))
                yield part
            counted.add(fetched.blocks, fetched.transactions)
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


def _learn(client: Client, seqno: int) -> None:
    """Learn whether the service shows blocks, unless it is known: all workers must agree on it."""

    def parse(content: bytes) -> bool | None:
        answer = pages.read(schema.BLOCKS_ANSWER, content).answer
        return bool(answer.blocks) if answer.blocks or answer.transactions else None

    if shown(client).blocks is None:
        with suppress(RequestError):
            blocks = client.masterchain_block_shards(seqno, parse, limit=1)
            if blocks is not None:
                shown(client).note_blocks(blocks=blocks)


def _tasks(missing: Sequence[range], workers: int, store: AnyStore | None) -> Iterator[Spans]:
    """Yield tasks of whole spans, several of them if there are many."""
    parts = [part for run in missing for part in aligned(run)]
    spans = per_task(len(parts), workers, most=MOST_SPANS)
    path, network = (None, None) if store is None else (store.path.absolute(), store.network)
    for _, group in groupby(parts, key=lambda part: part.start // (spans * SPAN)):
        for run in joined(group):
            yield Spans(run, path, network)


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
