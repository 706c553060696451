"""States of accounts through a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes import pages, schema
from tonframes.addresses import to_raw
from tonframes.errors import DecodeError, MissingError, shorten
from tonframes.fetch.places import DEFAULT, Asked, Where, asking, claim, place_of
from tonframes.frames import Accounts
from tonframes.progress import progress as shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tonframes.client import Client
    from tonframes.pages import Page, Tables
    from tonframes.store import Store


def fetch_accounts(
    addresses: Iterable[str],
    *,
    include_boc: bool = True,
    max_age: str | timedelta | None = None,
    client: Asked = None,
    store: Where = DEFAULT,
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
    with asking(client) as (asked, service):
        place = place_of(store, service)
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
        tables = {name: schema.TABLES[name].schema.empty_table() for name in Accounts.names}
        if asked is not None and missing:
            tables = _fetch_states(asked, missing, include_boc=include_boc, show=progress)
            if place is not None:
                place.write_accounts(tables)
    if place is not None and held:
        for name in ("address_book", "metadata"):
            older = place.snapshot(name, addresses=wanted)
            tables[name] = pages.latest(pa.concat_tables([older, tables[name]]))
    tables["accounts"] = _in_order(pa.concat_tables([known, tables["accounts"]]), wanted)
    return Accounts(tables, source=service)


def _fetch_states(
    client: Client, addresses: Sequence[str], *, include_boc: bool, show: bool | None
) -> Tables:
    asked = set(addresses)

    def parse(body: bytes) -> Page:
        page = pages.read(schema.ACCOUNTS_BODY, body)
        for i, row in enumerate(page.body.accounts or ()):
            if _raw_or_none(row.address) not in asked:
                path = f"$.accounts[{i}].address"
                raise DecodeError(path, "one of the accounts asked for", shorten(row.address))
        return page

    fetched = []
    with shown(len(addresses), "accounts", show=show) as bar:
        batches = client.account_states_in_batches(addresses, parse, include_boc=include_boc)
        for batch, page in batches:
            fetched.append(page)
            bar.advance(len(batch))
    tables = pages.accounts_tables(fetched)
    accounts = pages.with_columns(
        tables["accounts"],
        address=to_raw(tables["accounts"]["address"].combine_chunks()),
        with_boc=include_boc,
    )
    found = set(accounts["address"].to_pylist())
    unknown = [address for address in addresses if address not in found]
    absent = pages.fit(
        schema.ACCOUNTS,
        {"address": pa.array(unknown, pa.string()), "found": False, "with_boc": include_boc},
        len(unknown),
    )
    tables["accounts"] = pages.latest(pa.concat_tables([accounts, absent]))
    return pages.stamped(tables, datetime.now(UTC))


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
        since = datetime.now(UTC) - pd.Timedelta(max_age).to_pytimedelta()
        moment = pa.scalar(since, known["fetched_at"].type)
        known = known.filter(pc.greater_equal(known["fetched_at"], moment))
    if include_boc:
        known = known.filter(pc.fill_null(known["with_boc"], False))
    return known


def _in_order(accounts: pa.Table, addresses: Sequence[str]) -> pa.Table:
    place = {address: i for i, address in enumerate(accounts["address"].to_pylist())}
    return accounts.take(pa.array([place[address] for address in addresses], pa.int64()))
