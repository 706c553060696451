"""States of accounts through a store."""

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

#: Accounts whose states are committed at once, or as many as came in so many seconds.
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
        Accounts in any form; two spellings of one account give one row.
    include_boc
        Whether to ask for code and data of the contracts.
    max_age
        States not older than this are taken from the store, such as "1h"; None always asks.
        A state fetched without code and data never stands for one with them.
    client, store, progress
        As in `fetch_blocks`; every answer is appended to the store as a snapshot.

    Returns
    -------
    Accounts, in the order asked; `found` is False for those that the service does not know.

    Raises
    ------
    ValueError
        No address, or one that is none, named by its position.
    RequestError, DecodeError
        The service did not answer, or not the question.
    MissingError
        Offline, and the store does not hold them all.

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
    with resolve_client(client) as (asked, service):
        place = resolve_store(store, service)
        if place is not None and asked is not None:
            claim(place, asked)
            place.verify_snapshots()
        known = _known(place, wanted, max_age, include_boc=include_boc, offline=asked is None)
        held = set(known["address"].to_pylist())
        missing = [address for address in wanted if address not in held]
        if asked is None and missing:
            raise MissingError(
                f"offline, and {place or 'no store'} does not hold {len(missing)} of "
                f"{len(wanted)} accounts, such as {missing[0]}",
                missing=tuple(missing),
            )
        empty = {name: schema.TABLES[name].schema.empty_table() for name in Accounts.names}
        parts = [empty | {"accounts": known}]
        if place is not None and held:
            books = {n: place.snapshot(n, addresses=wanted) for n in ("address_book", "metadata")}
            parts = [books | {"accounts": known}]
        try:
            for states in _fetch_states(asked, missing, include_boc=include_boc, show=progress):
                if place is not None:
                    place.write_accounts(states)
                parts.append(states)
        except TonframesError as error:
            there = _joined(parts)["accounts"]["address"].to_pylist()
            error.partial = Accounts(_in_order(_joined(parts), there), source=service)
            error.missing = tuple(address for address in wanted if address not in set(there))
            error.add_note(
                f"{len(there)} of {len(wanted)} accounts are there: see `error.partial` and, for "
                "the others, `error.missing`"
            )
            raise
    return Accounts(_in_order(_joined(parts), wanted), source=service)


def _fetch_states(
    client: Client | None, addresses: Sequence[str], *, include_boc: bool, show: bool | None
) -> Iterator[Tables]:
    """Fetch states batch by batch, some batches joined into tables now and then."""
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
                if _stranger(page, batch) is not None:
                    # An answer to another question: asked for again until it is about this one.
                    page = client.account_states(batch, _about(batch), include_boc=include_boc)
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


def _page(body: bytes) -> Page:
    return pages.read(schema.ACCOUNTS_BODY, body)


def _about(addresses: Sequence[str]) -> Callable[[bytes], Page]:
    """Read a body, and refuse it if it holds an account that was not asked for."""

    def parse(body: bytes) -> Page:
        page = _page(body)
        if (place := _stranger(page, addresses)) is not None:
            found = shorten(page.body.accounts[place].address)
            path = f"$.accounts[{place}].address"
            raise DecodeError(path, "one of the accounts asked for", found)
        return page

    return parse


def _stranger(page: Page, addresses: Sequence[str]) -> int | None:
    """Find the first account of an answer that was not asked for."""
    asked = set(addresses)
    for i, row in enumerate(page.body.accounts or ()):
        if row.address not in asked and _raw_or_none(row.address) not in asked:
            return i
    return None


def _tables(fetched: Sequence[Page], asked: Sequence[str], *, include_boc: bool) -> Tables:
    """Turn answers into tables, with a row for every account that was asked for."""
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
    place = {address: i for i, address in enumerate(tables["accounts"]["address"].to_pylist())}
    order = pa.array([place[address] for address in addresses], pa.int64())
    return tables | {"accounts": tables["accounts"].take(order)}


def _age(max_age: str | timedelta) -> timedelta:
    try:
        age = pd.Timedelta(max_age)
    except ValueError as error:
        raise ValueError(
            f'max_age is a time such as "1h", not {shorten(max_age)}: {error}'
        ) from None
    if isinstance(max_age, int | float) or pd.isna(age) or age < pd.Timedelta(0):
        raise ValueError(f'max_age is a time such as "1h", not {shorten(max_age)}')
    return age.to_pytimedelta()


def _raw(addresses: Iterable[str]) -> list[str]:
    """Check addresses and write each account once, raw."""
    if isinstance(addresses, str | bytes):
        raise TypeError("addresses is a list of addresses: put a single one into a list")
    listed = list(addresses)
    if not listed:
        raise ValueError("no addresses to ask for")
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
    """Read the states in the store that answer the question; offline they may be of any age."""
    if store is None or not (offline or max_age is not None):
        return schema.ACCOUNTS.schema.empty_table()
    if offline:
        store.check()
    known = store.snapshot("accounts", addresses=addresses)
    if max_age is not None and not offline:
        since = datetime.now(UTC) - _age(max_age)
        moment = pa.scalar(since, known["fetched_at"].type)
        known = known.filter(pc.greater_equal(known["fetched_at"], moment))
    if include_boc:
        known = known.filter(pc.fill_null(known["with_boc"], False))
    return known
