"""Count the requests of a fetch of histories before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.display import paragraph
from tonframes.errors import StoreError
from tonframes.fetch.histories.batch import AccountPage, read_account_page
from tonframes.fetch.histories.tasks import incomplete_periods
from tonframes.fetch.histories.transactions import resolve_accounts
from tonframes.fetch.plan import PLANS, times_of
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_folder,
)
from tonframes.inert import inert
from tonframes.store import COLUMNS, Period, gaps_of, held_spans, read_history
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tonframes.client import Client
    from tonframes.store import Bound, Spans, Store, Unit

#: Requests' worth of accounts that are looked at, and rows of a look.
LOOKS, ROWS = 8, 100


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What `fetch_transactions` would do with the same arguments, if nothing fails.

    Attributes
    ----------
    accounts, held
        Number of accounts, and of those whose whole period the store holds.
    period
        From when until when.
    transactions
        About how many there are to fetch, from the density at both ends of the period; None if the
        service was not asked.
    requests
        About how many requests they take; with `transactions` None the least number.
    store
        Folder of the store; None for none.
    rows_held
        Number of transactions that the store holds of the other accounts, in the period.

    Examples
    --------
    >>> plan = HistoryPlan(1, 0, Period("lt", 7), transactions=2500, requests=5, store=None)
    >>> print(plan)
    1 account, lt 7 to the last one, 0 of them held; to fetch: about 2,500 transactions, \
about 5 requests (5 s without a key for TON Center, under a second with free, plus, advanced)
    """

    accounts: int
    held: int
    period: Period
    transactions: int | None
    requests: int
    store: Path | None
    rows_held: int = 0

    @property
    def seconds(self) -> pd.Series:
        """Seconds that the requests take at the rate of each plan of TON Center."""
        return pd.Series({plan: self.requests / rate for plan, rate in PLANS.items()}, name="s")

    def __str__(self) -> str:
        accounts = f"{self.accounts:,} account{'s' * (self.accounts != 1)}, {self.period}"
        if self.held == self.accounts:
            return f"{accounts}: {inert(str(self.store))} holds all transactions"
        more = f", and {self.rows_held:,} transactions of the others" if self.rows_held else ""
        rows = "" if self.transactions is None else f"about {self.transactions:,} transactions, "
        least = "at least" if self.transactions is None else "about"
        return (
            f"{accounts}, {self.held:,} of them held{more}; to fetch: {rows}{least} "
            f"{self.requests:,} requests ({times_of(self.requests)})"
        )

    def _repr_html_(self) -> str:
        return paragraph(str(self))


def plan_transactions(
    accounts: Iterable[str],
    *,
    since: Bound | None = None,
    until: Bound | None = None,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
) -> HistoryPlan:
    """Return how many requests and seconds a fetch of histories would take.

    Two requests look at the density of transactions at both ends of the period, or up to sixteen
    if there are many accounts. Nothing is written.

    Parameters
    ----------
    accounts, since, until, client, store
        As in `fetch_transactions`; with the client "offline" nothing is measured.

    Examples
    --------
    >>> import tonframes as tf
    >>> account = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     plan = tf.plan_transactions([account], client=client, store=None)
    >>> plan.requests
    2
    """
    wanted = resolve_accounts(accounts)
    period = Period.parse(since, until)
    with resolve_client(client) as (online, service):
        target = resolve_folder(store, service)
        spans: Spans = {} if target is None else held_spans(target, wanted)
        lacking = list(incomplete_periods(dict.fromkeys(wanted, period), spans))
        batches = list(online.batches(lacking)) if online and lacking else []
        rows = _held_rows(target, lacking, period)
        step = max(1, len(batches) // LOOKS)
        looks = [
            _missing(online, b, period, spans, rows) for b in batches[::step][:LOOKS] if online
        ]
        most = online.page_limit.rows if online else 1
    # For each batch its states, its pages, and the transactions before and after the period.
    each = 1 + bool(period.start) + (period.stop is not None)
    pages = sum(ceil((look + 1) / most) for look in looks)
    count = len(batches) or ceil(len(lacking) / 90)
    scale = count / len(looks) if looks else 0
    return HistoryPlan(
        accounts=len(wanted),
        held=len(wanted) - len(lacking),
        period=period,
        transactions=round(sum(looks) * scale) if looks else None,
        requests=count * each + (ceil(pages * scale) if looks else count),
        store=None if target is None else target.path,
        rows_held=len(rows),
    )


def _held_rows(store: Store | None, accounts: Sequence[str], period: Period) -> pa.Table:
    """Return accounts and times of the transactions of a period that a store holds."""
    columns = ["account", *COLUMNS.values()]
    empty = schema.TRANSACTIONS.schema.empty_table().select(columns)
    if store is None or not accounts:
        return empty
    try:
        return read_history(store, accounts, period, {"transactions": columns})["transactions"]
    except StoreError:  # damaged files are not held: the fetch sets them aside
        return empty


def _missing(
    client: Client, accounts: Sequence[str], period: Period, spans: Spans, held: pa.Table
) -> float:
    """Return about how many transactions of accounts are to be fetched."""
    gaps = [gap for account in accounts for gap in gaps_of(spans.get(account, ()), period)]
    if not gaps:
        return 0
    start, stop = min(gap.start for gap in gaps), max(gap.stop for gap in gaps)
    around = Period(period.unit, start, period.stop if stop == period.end else stop)
    of_accounts = pc.is_in(held["account"], value_set=pa.array(accounts, pa.string()))
    return max(0, _count(client, accounts, around) - len(around.of(held.filter(of_accounts))))


def _count(client: Client, accounts: Sequence[str], period: Period) -> float:
    """Return about how many transactions accounts have in a period."""
    unit = period.unit
    window = range(period.start, period.end)
    first = read_account_page(client, accounts, unit, window, most=ROWS)
    if not first.full:
        return first.count
    last = read_account_page(client, accounts, unit, window, most=ROWS, newest_first=True)
    oldest, newest = _ends(first, unit)[0], _ends(last, unit)[1]
    length = (newest if period.stop is None else period.stop) - (period.start or oldest)
    return length * (_density(first, unit) + _density(last, unit)) / 2


def _density(page: AccountPage, unit: Unit) -> float:
    """Return the transactions for each second, or unit of logical time, on a page."""
    first, last = _ends(page, unit)
    return page.count / max(1, last - first)


def _ends(page: AccountPage, unit: Unit) -> tuple[int, int]:
    ends = pc.min_max(page.transactions[COLUMNS[unit]]).as_py()
    return ends["min"], ends["max"]
