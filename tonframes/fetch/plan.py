"""Count the requests of a fetch before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from tonframes.client import MOST_ROWS
from tonframes.display import paragraph
from tonframes.fetch.density import Density, measure
from tonframes.fetch.headers import PAGES as SLICE
from tonframes.fetch.intervals import PAGES as INTERVAL
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.fetch.time import resolve_seqnos
from tonframes.inert import inert
from tonframes.seqnos import spell, subtract
from tonframes.store import SPAN

if TYPE_CHECKING:
    from pathlib import Path

#: Requests per second of TON Center's plans; all keys of a plan share them.
PLANS = {"without a key": 1.0, "free": 10.0, "plus": 25.0, "advanced": 100.0}

#: What is said of a service that is not asked.
UNMEASURED = Density(blocks=None, transactions=None, shown=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fetch_blocks` would do with the same arguments, if nothing fails.

    Attributes
    ----------
    wanted, held, missing
        Ranges of masterchain seqnos: all, those that the store holds, those to fetch.
    transactions
        About how many there are to fetch; None where it was not measured.
    requests_by_windows
        About how many requests it takes to read 1000 blocks or transactions with each; None if
        the service does not have the operations for it, or was not asked.
    requests_by_block
        How many it takes to read one masterchain block at a time: one or two for each, which is
        enough for 1000 transactions, one for the tips before each range and at the end of each
        file, and with a store one for the network.
    store
        Folder of the store; None for none.
    """

    wanted: tuple[range, ...]
    held: tuple[range, ...]
    missing: tuple[range, ...]
    transactions: int | None
    requests_by_windows: int | None
    requests_by_block: int
    store: Path | None

    @property
    def requests(self) -> int:
        """How many requests the fetch takes: through windows, if the service allows it."""
        by_windows = self.requests_by_windows
        return self.requests_by_block if by_windows is None else by_windows

    @property
    def seconds(self) -> pd.Series:
        """Seconds that the requests take at the rate of each plan of TON Center."""
        return self._seconds(self.requests)

    @property
    def ways(self) -> pd.DataFrame:
        """Requests, and seconds at the rate of each plan of TON Center, of both ways to read."""
        ways = {"windows": self.requests_by_windows, "masterchain blocks": self.requests_by_block}
        return pd.DataFrame(
            {
                name: pd.concat([pd.Series({"requests": float(count)}), self._seconds(count)])
                for name, count in ways.items()
                if count is not None
            }
        ).T

    @staticmethod
    def _seconds(requests: int) -> pd.Series:
        return pd.Series({plan: requests / rate for plan, rate in PLANS.items()}, name="s")

    def __str__(self) -> str:
        if not self.missing:
            store = inert(str(self.store))
            return f"{_count(self.wanted)} masterchain blocks: {store} holds all of them"
        begin = (
            f"{_count(self.wanted)} masterchain blocks, {_count(self.held)} of them held; to "
            f"fetch: {spell(self.missing)}"
        )
        if self.transactions is not None:
            begin += f" with about {self.transactions:,} transactions"
        if self.requests_by_windows is None:
            return f"{begin}, at least {self._told(self.requests_by_block)}"
        return (
            f"{begin}, about {self._told(self.requests_by_windows)}; one masterchain block at a "
            f"time: {self._told(self.requests_by_block)}"
        )

    @staticmethod
    def _told(requests: int) -> str:
        return f"{requests} requests ({times_of(requests)})"

    def _repr_html_(self) -> str:
        return paragraph(str(self))


def plan_blocks(
    seqnos: Seqnos, *, client: ClientOption = None, store: StoreOption = DEFAULT
) -> Plan:
    """Return how many requests and seconds a fetch would take; fetch and write nothing.

    A few requests measure how many blocks and transactions there are and whether the service can
    be read through windows: about 15 at most, and 25 where it allows pages of very few rows only.
    Offline, or if nothing is missing, none is sent.

    Parameters
    ----------
    seqnos, client, store
        As in `fetch_blocks`.

    Raises
    ------
    RequestError
        The service does not answer.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     plan = plan_blocks(range(90_000_000, 90_000_100), client=client, store=None)
    >>> plan.transactions, plan.requests_by_windows, plan.requests_by_block
    (2500, 6, 202)
    >>> plan.ways["free"].to_dict()
    {'windows': 0.6, 'masterchain blocks': 20.2}
    """
    with resolve_client(client) as (online, service):
        wanted = resolve_seqnos(seqnos, online)
        target = resolve_store(store, service)
        missing = wanted if target is None else target.gaps(wanted)
        density = measure(online, missing) if missing and online else UNMEASURED
        limit = MOST_ROWS if online is None else online.page_limit.rows
    return _planned(wanted, missing, density, limit, None if target is None else target.path)


def expect(seqnos: range, density: Density) -> Plan:
    """Return the plan of masterchain blocks of which no service is asked, and none is held.

    Examples
    --------
    >>> plan = expect(range(49_000_000, 49_034_000), Density(2.0, 43.5, shown=True))
    >>> plan.transactions, plan.requests
    (1479000, 1592)
    """
    return _planned((seqnos,), (seqnos,), density, MOST_ROWS, None)


def _planned(
    wanted: tuple[range, ...],
    missing: tuple[range, ...],
    density: Density,
    limit: int,
    store: Path | None,
) -> Plan:
    network = int(store is not None and bool(missing))
    by_windows, transactions = None, None
    if density.blocks is not None and density.transactions is not None:
        transactions = round(density.transactions * _count(missing))
        by_windows = network + sum(_by_windows(density, run, limit) for run in missing)
    return Plan(
        wanted=wanted,
        held=subtract(wanted, missing),
        missing=missing,
        transactions=transactions,
        requests_by_windows=by_windows,
        requests_by_block=network + sum(_by_block(density, run, limit) for run in missing),
        store=store,
    )


def _by_windows(density: Density, run: range, limit: int) -> int:
    """Return about how many requests a range takes through windows."""
    if len(run) == 1:
        return _by_block(density, run, limit)
    blocks = (density.blocks or 0) * len(run) / limit
    transactions = (density.transactions or 0) * len(run) / limit
    # The last page of a slice, and of an interval, is not full.
    of_blocks = 1 + int(blocks + 0.5 * (blocks // SLICE))
    of_transactions = 1 + int(transactions + 0.2 * (transactions // INTERVAL))
    return 2 + of_blocks + of_transactions


def _by_block(density: Density, run: range, limit: int) -> int:
    """Return how many requests a range takes one masterchain block at a time."""
    more = int((density.transactions or 0) // limit)
    if not density.shown:
        return (1 + more) * len(run)
    ends = (run.stop - 1) // SPAN - run.start // SPAN + 2
    return (2 + more) * len(run) + ends


def _count(runs: tuple[range, ...]) -> int:
    return sum(map(len, runs))


def times_of(requests: int) -> str:
    """Return how long requests take at the rate of each plan of TON Center, as text.

    Examples
    --------
    >>> times_of(20)
    '20 s without a key for TON Center, 2 s with the plan free, under a second with plus, advanced'
    """
    seconds = {plan: requests / rate for plan, rate in PLANS.items()}
    keyless, *keyed = ((plan, needed) for plan, needed in seconds.items() if needed >= 1)
    quick = ", ".join(plan for plan, needed in seconds.items() if needed < 1)
    times = [f"{_time(keyless[1])} {keyless[0]} for TON Center"]
    times += [f"{_time(needed)} with the plan {plan}" for plan, needed in keyed]
    return ", ".join([*times, *([f"under a second with {quick}"] if quick else [])])


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(told[:2])
