"""Fetch states of accounts, and keep them in a store."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw
from tonframes.errors import DecodeError, MissingError, TonframesError, shorten
from tonframes.fetch.network import claim
from tonframes.fetch.progress import progress as shown
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.frames import Accounts
from tonframes.wire import pages, schema
from tonframes.wire.tables import fit, latest, stamped, with_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.store import Store
    from tonframes.wire.pages import Page
    from tonframes.wire.tables import Tables

#: States are committed after this many accounts, or after this many seconds.
BATCH, OLDEST = 1000, 30.0


def fetch_accounts(
    addresses: Iterable[str],
    *,
    include_boc: bool = True,
    max_age: str | timedelta | None = None,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
    progress: bool | None = None,
) -> Accounts:
    """Fetch the present states of any number of accounts.

    Parameters
    ----------
    addresses
        Accounts in any form; two forms of one address give one row.
    include_boc
        Whether to fetch code and data of the contracts.
    max_age
        Use states from the store that are not older than this, such as "1h"; None fetches all.
        A state without code and data is not used where `include_boc` is True.
    client, store, progress
        As in `fetch_blocks`; fetched states are added to the store as a snapshot.

    Returns
    -------
    Accounts, in the order of `addresses`; `found` is False where the service knows no such account.

    Raises
    ------
    ValueError
        There are no addresses, or one is not valid; the message names its position.
    RequestError, DecodeError
        The service did not answer, or answered for other accounts.
    MissingError
        Offline, and the store does not hold all accounts.

    Examples
    --------
    >>> import tonframes as tf
    >>> known = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     states = tf.fetch_accounts([known, "0:" + "0" * 64], client=client, store=None)
    >>> states.accounts.found.to_list()
    [True, False]
    """
    wanted = _raw(addresses)
    with resolve_client(client) as (online, service):
        target = resolve_store(store, service)
        if target is not None and online is not None:
            claim(target, online)
            target.verify_snapshots()
        known = _known(target, wanted, max_age, include_boc=include_boc, offline=online is None)
        held = set(known["address"].to_pylist())
        missing = [address for address in wanted if address not in held]
        if online is None and missing:
            raise MissingError(
                f"offline, and {target or 'no store'} does not hold {len(missing)} of "
                f"{len(wanted)} accounts, such as {missing[0]}",
                missing=tuple(missing),
            )
        empty = {name: schema.TABLES[name].schema.empty_table() for name in Accounts.names}
        parts = [empty | {"accounts": known}]
        if target is not None and held:
            books = {n: target.snapshot(n, addresses=wanted) for n in ("address_book", "metadata")}
            parts = [books | {"accounts": known}]
        try:
            for states in _fetch_states(online, missing, include_boc=include_boc, show=progress):
                if target is not None:
                    target.write_accounts(states)
                parts.append(states)
        except TonframesError as error:
            fetched = _joined(parts)["accounts"]["address"].to_pylist()
            error.partial = Accounts(_in_order(_joined(parts), fetched), source=service)
            error.missing = tuple(address for address in wanted if address not in set(fetched))
            error.add_note(
                f"{len(fetched)} of {len(wanted)} accounts were fetched: see `error.partial`, and "
                "`error.missing` for the others"
            )
            raise
    return Accounts(_in_order(_joined(parts), wanted), source=service)


def _fetch_states(
    client: Client | None, addresses: Sequence[str], *, include_boc: bool, show: bool | None
) -> Iterator[Tables]:
    """Fetch states in batches; yield tables of several batches."""
    if client is None or not addresses:
        return
    batches = client.account_states_in_batches(addresses, _page, include_boc=include_boc)
    asked: list[str] = []
    fetched: list[Page] = []
    began = time.monotonic()
    try:
        with shown(len(addresses), "accounts", show=show) as bar:
            for batch, answer in batches:
                page = answer
                if _unasked(page, batch) is not None:
                    # The answer is about other accounts: repeat the request until it is not.
                    page = client.account_states(batch, _page_about(batch), include_boc=include_boc)
                asked += batch
                fetched.append(page)
                bar.advance(len(batch))
                if len(asked) >= BATCH or time.monotonic() - began >= OLDEST:
                    yield _tables(fetched, asked, include_boc=include_boc)
                    asked, fetched, began = [], [], time.monotonic()
    except TonframesError:
        if fetched:
            yield _tables(fetched, asked, include_boc=include_boc)
        raise
    if fetched:
        yield _tables(fetched, asked, include_boc=include_boc)


def _page(answer: bytes) -> Page:
    return pages.read(schema.ACCOUNTS_ANSWER, answer)


def _page_about(addresses: Sequence[str]) -> Callable[[bytes], Page]:
    """Return a `parse` that refuses an answer with an account that was not asked for."""

    def parse(answer: bytes) -> Page:
        page = _page(answer)
        if (position := _unasked(page, addresses)) is not None:
            found = shorten(page.answer.accounts[position].address)
            path = f"$.accounts[{position}].address"
            raise DecodeError(path, "one of the accounts asked for", found)
        return page

    return parse


def _unasked(page: Page, addresses: Sequence[str]) -> int | None:
    """Return the position of the first account that was not asked for, None if there is none."""
    asked = set(addresses)
    for i, row in enumerate(page.answer.accounts or ()):
        if row.address not in asked and _raw_or_none(row.address) not in asked:
            return i
    return None


def _tables(fetched: Sequence[Page], asked: Sequence[str], *, include_boc: bool) -> Tables:
    """Return answers as tables, with a row for every account that was asked for."""
    tables = pages.accounts_tables(fetched)
    accounts = with_columns(
        tables["accounts"],
        address=to_raw(tables["accounts"]["address"].combine_chunks()),
        with_boc=include_boc,
    )
    found = set(accounts["address"].to_pylist())
    unknown = [address for address in asked if address not in found]
    absent = fit(
        schema.ACCOUNTS,
        {"address": pa.array(unknown, pa.string()), "found": False, "with_boc": include_boc},
        len(unknown),
    )
    tables["accounts"] = latest(pa.concat_tables([accounts, absent]))
    return stamped(tables, datetime.now(UTC))


def _joined(parts: Sequence[Tables]) -> Tables:
    return {
        name: latest(pa.concat_tables([part[name] for part in parts])) for name in Accounts.names
    }


def _in_order(tables: Tables, addresses: Sequence[str]) -> Tables:
    position = {address: i for i, address in enumerate(tables["accounts"]["address"].to_pylist())}
    order = pa.array([position[address] for address in addresses], pa.int64())
    return tables | {"accounts": tables["accounts"].take(order)}


def _age(max_age: str | timedelta) -> timedelta:
    try:
        age = pd.Timedelta(max_age)
    except ValueError as error:
        raise ValueError(
            f'max_age is a duration such as "1h", not {shorten(max_age)}: {error}'
        ) from None
    if isinstance(max_age, int | float) or pd.isna(age) or age < pd.Timedelta(0):
        raise ValueError(f'max_age is a duration such as "1h", not {shorten(max_age)}')
    return age.to_pytimedelta()


def _raw(addresses: Iterable[str]) -> list[str]:
    """Check addresses, and return each account once, in raw form."""
    if isinstance(addresses, str | bytes):
        raise TypeError("addresses is a list of addresses: put a single address into a list")
    listed = list(addresses)
    if not listed:
        raise ValueError("addresses is empty")
    return list(dict.fromkeys(to_raw(listed)))


def _raw_or_none(address: str) -> str | None:
    try:
        return to_raw(address)
    except ValueError:
        return None


def _known(
    store: Store | None,
    addresses: Sequence[str],
    max_age: str | timedelta | None,
    *,
    include_boc: bool,
    offline: bool,
) -> pa.Table:
    """Read the states in the store that can be used; offline their age does not matter."""
    if store is None or not (offline or max_age is not None):
        return schema.ACCOUNTS.schema.empty_table()
    if offline:
        store.check()
    known = store.snapshot("accounts", addresses=addresses)
    if max_age is not None and not offline:
        now = datetime.now(UTC)
        since, until = (pa.scalar(m, pa.timestamp("us", "UTC")) for m in (now - _age(max_age), now))
        fetched = known["fetched_at"]
        # A state of the future was fetched while the clock was wrong: its age is unknown.
        known = known.filter(
            pc.and_(pc.greater_equal(fetched, since), pc.less_equal(fetched, until))
        )
    if include_boc:
        known = known.filter(pc.fill_null(known["with_boc"], False))
    return known
