"""Batches of accounts fetched in threads; what comes is committed in one thread."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

from tonframes.fetch.crew import Crew
from tonframes.fetch.histories.batch import Absence, Batch, Rows
from tonframes.fetch.histories.chains import Chains
from tonframes.store import without
from tonframes.wire import schema
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.client import Client
    from tonframes.fetch.histories.chains import Service, Step
    from tonframes.fetch.progress import Progress
    from tonframes.store import Period, Span, Spans, Store
    from tonframes.wire.tables import Tables

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


def earliest(seconds: Iterable[int | None]) -> int | None:
    """Return the least of the seconds that are known, None if none is."""
    return min((second for second in seconds if second is not None), default=None)


class _OverError(Exception):
    """The fetch has ended: nothing more is to be read."""


@dataclass(frozen=True, slots=True)
class _Done:
    """The end of a batch.

    Attributes
    ----------
    accounts
        Its accounts.
    lacking
        What did not come, by account.
    unknown
        The accounts that the service does not know.
    claims
        Spans without transactions, by account.
    until
        The second until which all complete periods are held; None if they are held to their ends.
    """

    accounts: Sequence[str]
    lacking: Mapping[str, Step]
    unknown: Sequence[str]
    claims: Spans
    until: int | None


_Item = Rows | Absence | _Done | Exception


class Histories:
    """Fetches histories of any number of accounts, and commits what comes.

    Parameters
    ----------
    client
        The client to use.
    store
        Where to commit; None keeps everything in `parts`.
    service
        Which blocks the service has.
    bar
        Shows how many accounts are complete.

    Attributes
    ----------
    parts
        What was fetched, without a store.
    complete
        The accounts whose histories are complete.
    lacking
        What did not come, by account.
    unknown
        The accounts that the service does not know.
    until
        The second until which all complete periods are held; None if they are held to their ends.
    transactions
        How many came.
    """

    def __init__(
        self, client: Client, store: Store | None, service: Service, bar: Progress
    ) -> None:
        self.parts: list[Tables] = [EMPTY]
        self.complete: list[str] = []
        self.lacking: dict[str, Step] = {}
        self.unknown: list[str] = []
        self.until: int | None = None
        self._client, self._store, self._service, self._bar = client, store, service, bar
        self._queue: Queue[_Item] = Queue(WAITING)
        self._over = False
        self._merging = True
        self._uncommitted: list[Tables] = []
        self._claims: dict[str, list[Span]] = defaultdict(list)
        self._since = time.monotonic()
        self.transactions = 0

    def fetch(self, periods: Mapping[str, Period], held: Mapping[str, Sequence[Span]]) -> None:
        """Fetch the histories; commit what came, whatever happens.

        After Ctrl-C small files are not merged: the store is whole without that, and the next
        commit does it.
        """
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
                item = self._next()
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, _Done):
                    under_way -= 1
                    self._finish(item)
                elif item is not None:
                    self._add(item)
                if self._rows >= LARGEST or time.monotonic() - self._since >= OLDEST:
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
        """Fetch a batch in a thread."""
        with suppress(_OverError):
            try:
                lacking = Batch(self._client, chains, self._put).fetch(accounts)
                claims = {a: spans for a in accounts if (spans := chains.claims(a))}
                until = earliest(chains.held_until(a) for a in accounts if a not in lacking)
                self._put(_Done(accounts, lacking, chains.unknown, claims, until))
            except _OverError:
                raise
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits for it
                self._put(error)

    def _put(self, item: _Item) -> None:
        while not self._over:
            try:
                return self._queue.put(item, timeout=LOOK)
            except Full:
                continue
        raise _OverError

    def _next(self) -> _Item | None:
        try:
            return self._queue.get(timeout=LOOK)
        except Empty:
            return None

    @property
    def _rows(self) -> int:
        return sum(len(part["transactions"]) for part in self._uncommitted)

    def _add(self, item: Rows | Absence) -> None:
        if isinstance(item, Absence):
            for account, spans in item.spans.items():
                self._claims[account] += spans
        elif item.replacing:
            self._replace(item.tables)
        else:
            if not self._uncommitted:
                self._since = time.monotonic()
            self._uncommitted.append(item.tables)
            self.transactions += len(item.tables["transactions"])
            self._show(0)

    def _finish(self, done: _Done) -> None:
        self.lacking |= done.lacking
        self.unknown += done.unknown
        self.until = earliest([self.until, done.until])
        self.complete += [account for account in done.accounts if account not in done.lacking]
        for account, spans in done.claims.items():
            self._claims[account] += spans
        self._show(len(done.accounts) - len(done.lacking))

    def _show(self, accounts: int) -> None:
        statistics = self._client.statistics
        self._bar.advance(
            accounts,
            transactions=self.transactions,
            retries=statistics.retries,
            paused=f"{statistics.seconds_paused:.0f} s",
        )

    def _rescue(self) -> None:
        """Take what has come, and was not looked at when the fetch ended."""
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            if isinstance(item, Rows | Absence):
                self._add(item)

    def _replace(self, tables: Tables) -> None:
        """Let transactions take the place of those that were fetched or held."""
        self._commit()
        if self._store is None:
            self.parts = [without(part, tables["transactions"]) for part in self.parts]
            self.parts.append(tables)
        else:
            self._store.replace_in_histories(tables)

    def _commit(self) -> None:
        if self._uncommitted or self._claims:
            if self._store is None:
                self.parts += self._uncommitted
            else:
                # If this is interrupted, it is done once more. What is committed is left out then.
                rows = concat([EMPTY, *self._uncommitted])
                self._store.write_histories(rows, self._claims, merge=self._merging)
            self._uncommitted, self._claims = [], defaultdict(list)
        self._since = time.monotonic()
