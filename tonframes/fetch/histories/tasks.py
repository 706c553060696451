"""Fetch histories on an executor: parts of the list of accounts are tasks.

The proof of a history needs that account only: its state, and the chain of its transactions. So
tasks do not depend on each other. The pages of one account come one after the other, in one task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, StoreError, TonframesError
from tonframes.fetch.histories.commits import Histories, earliest
from tonframes.fetch.progress import Silent
from tonframes.fetch.spread import Spread, most_telling, per_task, workers_of
from tonframes.fetch.work import open_store
from tonframes.store import Store, held_spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.fetch.histories.chains import Service, Step
    from tonframes.fetch.progress import Progress
    from tonframes.store import Period, Span
    from tonframes.wire.tables import Tables

#: Accounts of a task at most.
MOST_ACCOUNTS = 1000


@dataclass(slots=True)
class Fetched:
    """What came of a task: what `Histories` has at the end.

    Attributes
    ----------
    held
        The accounts of which the store holds something afterwards.
    transactions
        How many came.
    """

    complete: Sequence[str] = ()
    unknown: Sequence[str] = ()
    held: frozenset[str] = frozenset()
    lacking: dict[str, Step] = field(default_factory=dict)
    parts: Sequence[Tables] = ()
    transactions: int = 0
    until: int | None = None
    error: TonframesError | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SomeHistories:
    """The histories of some accounts, to be fetched and committed by a worker.

    Attributes
    ----------
    periods
        What is wanted of each account.
    service
        Which blocks the service has.
    store
        Folder of the store, which the worker must see; None returns what was fetched.
    network
        The network of the store.
    """

    periods: tuple[tuple[str, Period], ...]
    service: Service
    store: Path | None
    network: str | None

    @property
    def name(self) -> str:
        """What is fetched, for messages."""
        first, count = self.periods[0][0], len(self.periods)
        more = f" and {count - 1} more accounts" if count > 1 else ""
        return f"the histories of {first}{more}"

    @property
    def missing(self) -> tuple[tuple[str, Period], ...]:
        """What is missing without it."""
        return self.periods

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
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"histories are kept in a folder, not in {store.path}")
        periods = dict(self.periods)
        held = {} if store is None else held_spans(store, periods)
        # What a lost worker has committed is not fetched again.
        lacking = {
            account: period
            for account, period in periods.items()
            if not any(span.covers(period) for span in held.get(account, ()))
        }
        histories = Histories(client, store, self.service, Silent())
        try:
            histories.fetch(lacking, held)
        finally:
            done = [account for account in periods if account not in lacking]
            fetched.complete = done + histories.complete
            fetched.unknown = histories.unknown
            fetched.lacking = histories.lacking
            fetched.until = histories.until
            fetched.transactions = histories.transactions
            fetched.parts = histories.parts
            if store is not None:
                fetched.held = frozenset(held_spans(store, periods))


class SpreadHistories:
    """Fetches histories of any number of accounts with the workers of an executor.

    Parameters
    ----------
    executor
        The workers; a number is that of processes of our own.
    client, store, service, bar
        As of `Histories`; the workers commit.

    Attributes
    ----------
    parts, complete, lacking, unknown, until
        As of `Histories`.
    """

    def __init__(
        self,
        executor: Executor | int,
        client: Client,
        store: Store | None,
        service: Service,
        bar: Progress,
    ) -> None:
        self.parts: list[Tables] = []
        self.complete: list[str] = []
        self.lacking: dict[str, Step] = {}
        self.unknown: list[str] = []
        self.until: int | None = None
        self._executor, self._client, self._store = executor, client, store
        self._service, self._bar = service, bar
        self._transactions = 0

    def fetch(self, periods: Mapping[str, Period], _held: Mapping[str, Sequence[Span]]) -> None:
        """Fetch the histories; the workers commit what comes.

        Raises
        ------
        IncompleteError
            Workers were lost with some accounts again and again.
        StoreError
            What workers have written is not in the store that this process sees.
        """
        spread = Spread(self._executor, self._client, self._tasks(list(periods.items())))
        errors: list[TonframesError] = []
        written: set[str] = set()
        for fetched in spread.results():
            errors += [fetched.error] if fetched.error else []
            written |= fetched.held
            self._add(fetched)
        if errors:
            raise most_telling(errors)
        if self._store is not None:
            _check(self._store, written)
        if spread.failures:
            more = f" (and {len(spread.failures) - 1} more)" if len(spread.failures) > 1 else ""
            missing = [pair for error in spread.failures for pair in error.missing]
            raise IncompleteError(f"{spread.failures[0]}{more}", missing=missing)

    def _tasks(self, periods: Sequence[tuple[str, Period]]) -> list[SomeHistories]:
        """Return tasks of as many accounts each."""
        size = per_task(len(periods), workers_of(self._executor), most=MOST_ACCOUNTS)
        store = self._store
        path, network = (None, None) if store is None else (store.path.absolute(), store.network)
        return [
            SomeHistories(tuple(periods[i : i + size]), self._service, path, network)
            for i in range(0, len(periods), size)
        ]

    def _add(self, fetched: Fetched) -> None:
        self.parts += fetched.parts
        self.complete += fetched.complete
        self.lacking |= fetched.lacking
        self.unknown += fetched.unknown
        self.until = earliest([self.until, fetched.until])
        self._transactions += fetched.transactions
        statistics = self._client.statistics
        self._bar.advance(
            len(fetched.complete),
            transactions=self._transactions,
            retries=statistics.retries,
            paused=f"{statistics.seconds_paused:.0f} s",
        )


def _check(store: Store, written: set[str]) -> None:
    """Raise an error unless the store has here what the workers have written."""
    absent = written - held_spans(store, written).keys()
    if absent:
        raise StoreError(
            f"the workers have fetched the histories of {len(absent)} accounts, such as "
            f"{min(absent)}, and the store {store.path} does not have them here: all workers must "
            "write into the same folder, on a file system that they share",
            path=store.path,
        )
