"""Histories of any number of accounts: in threads here, or by the workers of an executor.

The proof of a history needs that account only: its state, and the chain of its transactions. So
tasks do not depend on each other. The pages of one account come one after the other, in one task.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, StoreError, TonframesError
from tonframes.fetch.histories.batch import Absence, Batch, NewRows
from tonframes.fetch.histories.chains import Chains
from tonframes.fetch.progress import Counted, Silent
from tonframes.fetch.spread import Spread, most_telling, per_task, workers_of
from tonframes.fetch.workers import Crew, open_store
from tonframes.store import Store, held_spans, without
from tonframes.wire import schema
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.fetch.histories.chains import Service, Step
    from tonframes.store import Period, Span
    from tonframes.wire.tables import Tables

#: Accounts of a task at most.
MOST_ACCOUNTS = 1000
#: Transactions are committed when there are so many, or after so many seconds.
LARGEST, OLDEST = 20_000, 5.0
#: Pages that wait for the thread that commits.
WAITING = 32
#: Seconds between looks at whether the fetch was ended.
LOOK = 0.2

#: What no transactions are.
EMPTY: Tables = {
    name: schema.TABLES[name].schema.empty_table()
    for name in ("transactions", "messages", "address_book")
}


@dataclass(slots=True)
class HistoryResult:
    #: The transactions, where there is no store to commit them to; and how many came.
    tables: list[Tables] = field(default_factory=lambda: [EMPTY])
    transactions: int = 0
    #: The accounts whose histories are complete.
    complete: list[str] = field(default_factory=list)
    #: What did not come, by account.
    lacking: dict[str, Step] = field(default_factory=dict)
    #: The accounts that the service does not know.
    unknown: list[str] = field(default_factory=list)
    #: The second until which all complete periods are held; None if they are held to their ends.
    until: int | None = None
    #: The second until which it would be known, if all replicas that answered had the last block
    #: of the service; 0 if the service does not tell it.
    last: int = 0
    #: Of a task, the accounts of which the store holds something afterwards.
    held: frozenset[str] = frozenset()
    error: TonframesError | None = None
    interrupted: bool = False

    def add(self, other: HistoryResult) -> None:
        self.tables += other.tables
        self.transactions += other.transactions
        self.complete += other.complete
        self.lacking |= other.lacking
        self.unknown += other.unknown
        self.until = _earliest([self.until, other.until])


def incomplete_periods(
    periods: Mapping[str, Period], held: Mapping[str, Sequence[Span]]
) -> dict[str, Period]:
    """Return the periods of the accounts that are not held as a whole."""
    return {
        account: period
        for account, period in periods.items()
        if not any(span.covers(period) for span in held.get(account, ()))
    }


def _earliest(seconds: Iterable[int | None]) -> int | None:
    """Return the least of the seconds that are known, None if none is."""
    return min((second for second in seconds if second is not None), default=None)


class _OverError(Exception):
    """The fetch has ended: nothing more is to be read."""


_Item = NewRows | Absence | HistoryResult | Exception


class Histories:
    """Fetches histories of any number of accounts, and commits what comes."""

    def __init__(
        self,
        client: Client,
        store: Store | None,
        service: Service,
        counted: Counted,
        result: HistoryResult,
    ) -> None:
        self.result = result
        self._client, self._store, self._service = client, store, service
        self._counted = counted
        self._queue: Queue[_Item] = Queue(WAITING)
        self._over = False
        self._merging = True
        self._uncommitted: list[Tables] = []
        self._absence: dict[str, list[Span]] = defaultdict(list)
        self._since = time.monotonic()

    def fetch_with(self, executor: Executor | int, periods: Mapping[str, Period]) -> None:
        """Fetch the histories with the workers of an executor, who commit what comes."""
        wanted, store = list(periods.items()), self._store
        size = per_task(len(wanted), workers_of(executor), most=MOST_ACCOUNTS)
        path, network = (None, None) if store is None else (store.path.absolute(), store.network)
        tasks = [
            HistoryTask(tuple(wanted[i : i + size]), self._service, path, network)
            for i in range(0, len(wanted), size)
        ]
        spread = Spread(executor, self._client, tasks)
        errors: list[TonframesError] = []
        written: set[str] = set()
        for result in spread.results():
            errors += [result.error] if result.error else []
            written |= result.held
            self.result.add(result)
            self._counted.add(len(result.complete), result.transactions)
        if errors:
            raise most_telling(errors)
        if store is not None and (absent := written - held_spans(store, written).keys()):
            raise StoreError(
                f"the workers have fetched the histories of {len(absent)} accounts, such as "
                f"{min(absent)}, and the store {store.path} does not have them here: all workers "
                "must write into the same folder, on a file system that they share",
                path=store.path,
            )
        if spread.failures:
            more = f" (and {len(spread.failures) - 1} more)" if len(spread.failures) > 1 else ""
            missing = [pair for error in spread.failures for pair in error.missing]
            raise IncompleteError(f"{spread.failures[0]}{more}", missing=missing)

    def fetch(self, periods: Mapping[str, Period], held: Mapping[str, Sequence[Span]]) -> None:
        """Fetch the histories in threads; commit what came in this one, whatever happens."""
        crew = Crew()
        waiting = deque(self._client.batches(list(periods))) if periods else deque()
        under_way = 0
        try:
            while under_way or waiting:
                while waiting and under_way < self._client.in_flight:
                    accounts = waiting.popleft()
                    wanted = {account: periods[account] for account in accounts}
                    chains = Chains(wanted, held, self._service)
                    crew.run(partial(self._work, chains, accounts))
                    under_way += 1
                with suppress(Empty):
                    item = self._queue.get(timeout=LOOK)
                    if isinstance(item, Exception):
                        raise item
                    if isinstance(item, HistoryResult):
                        under_way -= 1
                        self.result.add(item)
                        self._counted.add(len(item.complete), 0)
                    else:
                        self._add(item)
                rows = sum(len(tables["transactions"]) for tables in self._uncommitted)
                if rows >= LARGEST or time.monotonic() - self._since >= OLDEST:
                    self._commit()
        except KeyboardInterrupt:
            self._merging = False
            raise
        finally:
            self._over = True
            crew.close()
            try:
                self._rescue()
            finally:
                self._commit()

    def _work(self, chains: Chains, accounts: Sequence[str]) -> None:
        with suppress(_OverError):
            try:
                lacking = Batch(self._client, chains, self._put).fetch(accounts)
                self._put(Absence({a: spans for a in accounts if (spans := chains.absence(a))}))
                complete = [account for account in accounts if account not in lacking]
                until = _earliest(map(chains.held_until, complete))
                unknown = chains.unknown
                self._put(HistoryResult([], 0, complete, lacking, unknown, until))
            except _OverError:
                raise
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits for it
                self._put(error)

    def _put(self, item: _Item) -> None:
        while not self._over:
            with suppress(Full):
                return self._queue.put(item, timeout=LOOK)
        raise _OverError

    def _add(self, item: NewRows | Absence) -> None:
        if isinstance(item, Absence):
            for account, spans in item.spans.items():
                self._absence[account] += spans
        elif item.replacing:
            self._replace(item.tables)
        else:
            if not self._uncommitted:
                self._since = time.monotonic()
            self._uncommitted.append(item.tables)
            count = len(item.tables["transactions"])
            self.result.transactions += count
            self._counted.add(0, count)

    def _rescue(self) -> None:
        """Take what has come, and was not looked at when the fetch ended."""
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, NewRows | Absence):
                    self._add(item)

    def _replace(self, tables: Tables) -> None:
        """Let transactions take the place of those that were fetched or held."""
        self._commit()
        if self._store is None:
            wrong = tables["transactions"]
            self.result.tables = [without(of, wrong) for of in self.result.tables]
            self.result.tables.append(tables)
        else:
            self._store.replace_in_histories(tables)

    def _commit(self) -> None:
        if self._uncommitted or self._absence:
            if self._store is None:
                self.result.tables += self._uncommitted
            else:
                # If this is interrupted, it is done once more. What is committed is left out then.
                rows = concat([EMPTY, *self._uncommitted])
                self._store.write_histories(rows, self._absence, merge=self._merging)
            self._uncommitted, self._absence = [], defaultdict(list)
        self._since = time.monotonic()


# ── a task of a worker ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HistoryTask:
    """The histories of some accounts, to be fetched and committed by a worker."""

    #: What is wanted of each account.
    periods: tuple[tuple[str, Period], ...]
    service: Service
    #: Folder of the store, which the worker must see; None returns what was fetched.
    store: Path | None
    network: str | None

    @property
    def name(self) -> str:
        first, count = self.periods[0][0], len(self.periods)
        more = f" and {count - 1} more accounts" if count > 1 else ""
        return f"the histories of {first}{more}"

    @property
    def missing(self) -> tuple[tuple[str, Period], ...]:
        return self.periods

    def __call__(self, client: Client) -> HistoryResult:
        result = HistoryResult()
        try:
            self._fetch(client, result)
        except TonframesError as error:
            result.error = error
        except KeyboardInterrupt:
            result.interrupted = True
        return result

    def _fetch(self, client: Client, result: HistoryResult) -> None:
        store = None if self.store is None else open_store(self.store, self.network)
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"histories are kept in a folder, not in {store.path}")
        periods = dict(self.periods)
        held = {} if store is None else held_spans(store, periods)
        # What a lost worker has committed is not fetched again.
        lacking = incomplete_periods(periods, held)
        result.complete += [account for account in periods if account not in lacking]
        counted = Counted(client, Silent())
        try:
            Histories(client, store, self.service, counted, result).fetch(lacking, held)
        finally:
            if store is not None:
                result.held = frozenset(held_spans(store, periods))
