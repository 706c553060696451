"""Count the requests of a fetch before it starts, from samples of masterchain blocks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from tonframes.client import MOST_ROWS, UnknownOperationError
from tonframes.display import paragraph
from tonframes.errors import RequestError
from tonframes.fetch import headers
from tonframes.fetch.headers import PAGES as SLICE
from tonframes.fetch.network import lacks_windows
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_seqnos,
    resolve_store,
)
from tonframes.fetch.rows import PAGES as INTERVAL
from tonframes.fetch.windows import find_ends, read_page
from tonframes.inert import inert
from tonframes.seqnos import spell, subtract
from tonframes.store import SPAN
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.fetch.headers import Ends
    from tonframes.fetch.proof import Key

#: Requests per second of TON Center's plans; all keys of a plan share them.
PLANS = {"without a key": 1.0, "free": 10.0, "plus": 25.0, "advanced": 100.0}

#: A sample for so many masterchain blocks. It is a page of blocks, or some more where the service
#: allows small pages only, but no more than so many.
PER_SAMPLE, MOST_PAGES = 200, 20
#: About how many pages all samples may have.
ALL_PAGES = 12


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
        if missing and online:
            density = measure(online, missing)
        else:
            density = Density(blocks=None, transactions=None, shown=True)
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
    if len(run) == 1:
        return _by_block(density, run, limit)
    blocks = (density.blocks or 0) * len(run) / limit
    transactions = (density.transactions or 0) * len(run) / limit
    # The last page of a slice, and of an interval, is not full.
    of_blocks = 1 + int(blocks + 0.5 * (blocks // SLICE))
    of_transactions = 1 + int(transactions + 0.2 * (transactions // INTERVAL))
    return 2 + of_blocks + of_transactions


def _by_block(density: Density, run: range, limit: int) -> int:
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
    minutes, last_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    numbers = ((hours, "h"), (minutes, "min"), (last_seconds, "s"))
    return " ".join([f"{number} {unit}" for number, unit in numbers if number][:2])


# ── how much there is ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Density:
    """What a masterchain block commits on average; None where it could not be measured."""

    blocks: float | None
    transactions: float | None
    #: Whether the service answers with blocks at all.
    shown: bool


def measure(client: Client, runs: Sequence[range]) -> Density:
    """Measure what the masterchain blocks of some ranges commit, with a few requests."""
    whole = range(runs[0].start, runs[-1].stop)
    ends = find_ends(client, whole)
    if ends is None and len(whole) > 1:  # before its first block a service knows no last blocks
        ends = find_ends(client, whole[1:])
    if ends is None:
        return Density(None, None, _shows_blocks(client, whole.start))
    count = -(-sum(map(len, runs)) // PER_SAMPLE)
    try:
        sizes, read = _sample(client, ends.first, ends)
        samples = min(ALL_PAGES // min(read, ALL_PAGES), count)
        step = (ends.last + 1 - ends.first) / samples
        for i in range(1, samples):
            sizes |= _sample(client, ends.first + round(i * step), ends)[0]
    except UnknownOperationError:
        lacks_windows(client)
        return Density(None, None, _shows_blocks(client, whole.start))
    if not sizes:
        return Density(None, None, shown=True)
    blocks, transactions = (
        sum(values) / len(sizes) for values in zip(*sizes.values(), strict=True)
    )
    return Density(blocks, transactions, shown=True)


def _sample(client: Client, first: int, ends: Ends) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the blocks and transactions of masterchain blocks that came whole, and the pages."""
    counts: dict[int, dict[Key, int]] = defaultdict(dict)
    start, stop, following, read = ends.run.start, ends.run.stop, first, 0
    while read < MOST_PAGES:
        read += 1
        parse = headers.page_parser(following, ends.last)
        ask = partial(client.blocks, parse, start_utime=following, end_utime=ends.last)
        page, limit = read_page(client, ask)
        for header in page.headers:
            counts[header.mc_seqno][header.key] = header.link.transactions
        if len(page.headers) < limit:
            stop = ends.run.stop
            break
        # The masterchain blocks at the ends of a sample may lack blocks that were made earlier, or
        # come later.
        stop = max(counts) - headers.MARGIN + 1
        if stop - min(counts) > 4 * headers.MARGIN:
            break
        following = max(following + 1, *(header.utime for header in page.headers))
    if first > ends.first:
        start = min(counts, default=0) + headers.MARGIN
    sizes = {
        seqno: (len(of_blocks), sum(of_blocks.values()))
        for seqno, of_blocks in counts.items()
        if start <= seqno < stop
    }
    return sizes, read


def _shows_blocks(client: Client, seqno: int) -> bool:
    """Ask whether the service shows the blocks that a masterchain block commits."""

    def parse(content: bytes) -> bool:
        answer = pages.read(schema.BLOCKS_ANSWER, content).answer
        return bool(answer.blocks) or not answer.transactions  # an empty answer says nothing

    try:
        return client.masterchain_block_shards(seqno, parse, limit=1)
    except RequestError:
        return True
