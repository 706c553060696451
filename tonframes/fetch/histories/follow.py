"""Fetch new transactions of accounts as they appear."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import IncompleteError, MissingError, RequestError
from tonframes.fetch.follow import POLL
from tonframes.fetch.histories.reading import last_transactions
from tonframes.fetch.histories.transactions import fetch_periods, resolve_accounts
from tonframes.fetch.network import Network
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_folder,
)
from tonframes.frames import Transactions
from tonframes.store import Period, held_transactions, transactions_in
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.store import Bound, Store
    from tonframes.wire.tables import Tables


def follow_transactions(
    accounts: Iterable[str],
    *,
    since: Bound | None = None,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
) -> Iterator[Transactions]:
    """Fetch transactions of accounts as they appear, without end.

    Parameters
    ----------
    accounts
        As in `fetch_transactions`. A request for about 90 accounts each second looks for new ones.
    since
        As in `fetch_transactions`; None is now.
    client, store
        As in `fetch_transactions`, except "offline".

    Yields
    ------
    Transactions: the new ones of all accounts that have some, without gaps and each once. With a
    store they are committed first.

    Raises
    ------
    RequestError
        The service does not answer.

    Examples
    --------
    >>> import tonframes as tf
    >>> account = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     following = tf.follow_transactions(
    ...         [account], since="2026-05-28T20:28", client=client, store=None
    ...     )
    ...     history = next(following)
    >>> set(history.transactions.account) == {account}
    True
    """
    listed = [accounts] if isinstance(accounts, str) else list(accounts)
    wanted = resolve_accounts(listed)
    first = Period.parse(since, None)
    with resolve_client(client) as (online, service):
        if online is None:
            raise MissingError("offline: follow_transactions needs a service")
        target = resolve_folder(store, service)
        network = Network(online, target)
        network.claim()
        network.check_addresses(listed)
        periods = dict.fromkeys(wanted, first)
        seen = dict.fromkeys(wanted, 0)
        if since is None:
            seen |= _last(online, wanted)
            periods = {account: Period("lt", lt + 1) for account, lt in seen.items()}
        while True:
            last = _last(online, wanted)
            changed = {a: periods[a] for a in wanted if last.get(a, 0) > seen[a]}
            tables = _fetch(online, target, changed, network) if changed else None
            if tables is None:
                online.wait(POLL)
                continue
            rows = tables["transactions"]
            for row in rows.group_by("account").aggregate([("lt", "max")]).to_pylist():
                periods[row["account"]] = Period("lt", row["lt_max"] + 1)
                seen[row["account"]] = max(seen[row["account"]], row["lt_max"])
            if len(rows):
                yield Transactions(tables, accounts=list(changed), source=service)


def _last(client: Client, accounts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in client.batches(accounts):
        found |= {a: last.lt for a, last in last_transactions(client, batch).items()}
    return found


def _fetch(
    client: Client, store: Store | None, periods: dict[str, Period], network: Network
) -> Tables | None:
    """Fetch the transactions of periods; None if the service does not have them yet."""
    fetched: list[Tables] = []
    try:
        fetch_periods(client, store, periods, fetched, network, progress=False)
    except IncompleteError:
        return None
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND or not error.retryable:
            raise
        return None
    if store is None:
        tables = concat(fetched)
    else:
        least = min(p.start if p.unit == "lt" else 0 for p in periods.values())
        held = held_transactions(store, list(periods), Period("lt", least), unknown=())
        tables = {name: held.arrow(name) for name in ("transactions", "messages", "address_book")}
    return _news(tables, periods)


def _news(tables: Tables, periods: dict[str, Period]) -> Tables:
    """Return the transactions that are of the periods of their accounts."""
    of_period = [
        period.of(tables["transactions"].filter(pc.equal(tables["transactions"]["account"], a)))
        for a, period in periods.items()
    ]
    rows = pa.concat_tables(of_period)
    return transactions_in(tables | {"transactions": rows}, list(periods), Period())
