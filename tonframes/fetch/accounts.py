"""Fetch states of accounts, and keep them in a store."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw, warn_of_test_only, warn_of_unknown
from tonframes.errors import DecodeError, MissingError, TonframesError, shorten, warn
from tonframes.fetch.block import wait_before
from tonframes.fetch.network import Network, observed
from tonframes.fetch.progress import progress_bar
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
    from tonframes.store import AnyStore
    from tonframes.wire.pages import Page
    from tonframes.wire.tables import Tables

#: States are committed after this many accounts, or after this many seconds.
BATCH, OLDEST = 1000, 30.0
#: Further requests for accounts that were known before and are missing.
ATTEMPTS = 6


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
    Accounts, in the order of `addresses`; `found` is False where the service knows no such account:
    two answers in a row lack it. An account that the store or an earlier answer knows is asked for
    more often, and a warning names it.

    Raises
    ------
    ValueError
        There are no addresses, or one is not valid; the message names its position.
    RequestError, DecodeError
        The service did not answer, or answered for other accounts.
    MissingError
        Offline, and the store does not hold all accounts.

    Warns
    -----
    TonframesWarning
        The service does not know some accounts, or some addresses are marked for test networks only
        (`kQ…`, `0Q…`) and the service shows mainnet.

    Examples
    --------
    >>> import tonframes as tf
    >>> known = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     states = tf.fetch_accounts([known], client=client, store=None)
    >>> states.accounts.found.to_list()
    [True]
    """
    listed = _listed(addresses)
    wanted = list(dict.fromkeys(to_raw(listed)))
    age = None if max_age is None else _age(max_age)
    with resolve_client(client) as (online, service):
        target = resolve_store(store, service)
        network = None if online is None else Network(online, target)
        if target is not None and network is not None:
            network.claim()
            target.verify_snapshots()
        if network is not None:
            network.check_addresses(listed)
        elif target is not None and target.network == "mainnet":
            warn_of_test_only(listed, f"{target.path} holds")
        known = _known(target, wanted, age, include_boc=include_boc, offline=online is None)
        held = set(known["address"].to_pylist())
        missing = [address for address in wanted if address not in held]
        if online is None and missing:
            raise MissingError(
                f"offline, and {target or 'no store'} does not hold {len(missing)} of "
                f"{len(wanted)} accounts, such as {missing[0]}",
                missing=tuple(missing),
            )
        if missing and network is not None:
            network.confirm()
        empty = {name: schema.TABLES[name].schema.empty_table() for name in Accounts.names}
        batches = [empty | {"accounts": known}]
        if target is not None and held:
            books = {n: target.snapshot(n, addresses=wanted) for n in ("address_book", "metadata")}
            batches = [books | {"accounts": known}]
        try:
            for states in _fetch_states(
                online, missing, target, include_boc=include_boc, show=progress
            ):
                if target is not None:
                    target.write_accounts(states)
                batches.append(states)
        except TonframesError as error:
            tables = _joined(batches)
            fetched = tables["accounts"]["address"].to_pylist()
            error.partial = Accounts(tables, source=service)
            error.missing = tuple(address for address in wanted if address not in set(fetched))
            error.add_note(
                f"{len(fetched)} of {len(wanted)} accounts were fetched: see `error.partial`, and "
                "`error.missing` for the others"
            )
            raise
    tables = _joined(batches)
    position = {address: i for i, address in enumerate(tables["accounts"]["address"].to_pylist())}
    order = pa.array([position[address] for address in wanted], pa.int64())
    tables |= {"accounts": tables["accounts"].take(order)}
    absent = tables["accounts"].filter(pc.invert(tables["accounts"]["found"]))
    place = service if online is not None or target is None else target.path
    warn_of_unknown(absent["address"].to_pylist(), wanted, f"{place} knows no state")
    return Accounts(tables, source=service)


def _known_before(
    client: Client, store: AnyStore | None, addresses: Sequence[str]
) -> Callable[[Iterable[str]], set[str]]:
    """Return a function that finds the accounts that an earlier answer or the store knows."""

    @cache
    def held() -> set[str]:
        if store is None:
            return set()
        rows = store.snapshot("accounts", addresses=addresses)
        return set(rows.filter(pc.fill_null(rows["found"], False))["address"].to_pylist())

    def known(some: Iterable[str]) -> set[str]:
        some = set(some)
        return observed(client).accounts(some) | (held() & some)

    return known


def _fetch_states(
    client: Client | None,
    addresses: Sequence[str],
    store: AnyStore | None,
    *,
    include_boc: bool,
    show: bool | None,
) -> Iterator[Tables]:
    """Fetch states in batches; yield tables of several batches."""
    if client is None or not addresses:
        return
    known_before = _known_before(client, store, addresses)
    batches = client.account_states_in_batches(addresses, _page, include_boc=include_boc)
    asked: list[str] = []
    fetched: list[Page] = []
    began = time.monotonic()
    try:
        with progress_bar(len(addresses), "accounts", show=show) as bar:
            for batch, answer in batches:
                page = answer
                if _unasked(page, batch) is not None:
                    # The answer is about other accounts: repeat the request until it is not.
                    page = client.account_states(batch, _page_about(batch), include_boc=include_boc)
                fetched += _with_missing(client, page, batch, known_before, include_boc=include_boc)
                asked += batch
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


def _with_missing(
    client: Client,
    page: Page,
    batch: Sequence[str],
    known_before: Callable[[Iterable[str]], set[str]],
    *,
    include_boc: bool,
) -> list[Page]:
    """Return an answer, and further ones about the accounts that it lacks.

    An account that is missing is unknown to the service. But it is asked for again before that is
    believed: until an answer about the missing ones has none of them, or, if it was known before,
    several times.
    """
    answers, known = [page], _accounts_of(page)
    new = known
    for attempt in range(ATTEMPTS):
        missing = [address for address in batch if address not in known]
        if attempt and missing and not new:
            of_before = known_before(missing)
            missing = [address for address in missing if address in of_before]
        if not missing:
            break
        wait_before(client, attempt)
        answer = client.account_states(missing, _page_about(missing), include_boc=include_boc)
        answers.append(answer)
        new = _accounts_of(answer)
        known |= new
    else:
        gone = known_before(address for address in batch if address not in known)
        if gone:
            warn(
                f"{client.base_url} no longer knows {len(gone)} accounts that it knew before, such "
                f"as {min(gone)}: {ATTEMPTS + 1} answers lack them"
            )
            observed(client).forget_accounts(gone)
    observed(client).note_accounts(known)
    return answers


def _accounts_of(page: Page) -> set[str]:
    return {to_raw(row.address) for row in page.answer.accounts or ()}


def _page(answer: bytes) -> Page:
    """Read an answer; refuse one that says two things of one account, however it is spelt."""
    page = pages.read(schema.ACCOUNTS_ANSWER, answer)
    rows = page.answer.accounts
    if rows is None:
        # Where the deployed service knows none of the accounts, the list is empty, and not null
        # (ton-indexer, crud_accounts.go).
        raise DecodeError("$.accounts", "a list of accounts", "null")
    first: dict[str, int] = {}
    for i, row in enumerate(rows):
        account = _raw_or_none(row.address) or row.address
        j = first.setdefault(account, i)
        if j != i and _content(page, row, account) != _content(page, rows[j], account):
            raise DecodeError(
                f"$.accounts[{i}]",
                f"what accounts[{j}] says of the same account",
                f"different content for {shorten(row.address)}",
            )
    return page


def _content(page: Page, row: Any, account: str) -> tuple[bytes, object]:
    """Return the content of a row, but for how it spells the address."""
    # As bytes: read as numbers, 1e400 and 1e500 would be equal.
    spelt = msgspec.structs.replace(row, address=account)
    return msgspec.json.encode(spelt), page.extras.get(id(row))


def _page_about(addresses: Sequence[str]) -> Callable[[bytes], Page]:
    """Return a `parse` that refuses an answer with an account that was not asked for."""

    def parse(answer: bytes) -> Page:
        page = _page(answer)
        if (position := _unasked(page, addresses)) is not None:
            path = f"$.accounts[{position}].address"
            other = shorten(page.answer.accounts[position].address)
            raise DecodeError(path, "one of the accounts asked for", other)
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
    known = set(accounts["address"].to_pylist())
    if len(known) < len(accounts):
        warn(
            f"{len(accounts) - len(known)} of {len(accounts)} accounts came twice, in two "
            "spellings with the same content; kept once"
        )
    unknown = [address for address in asked if address not in known]
    absent = fit(
        schema.ACCOUNTS,
        {"address": pa.array(unknown, pa.string()), "found": False, "with_boc": include_boc},
        len(unknown),
    )
    tables["accounts"] = latest(pa.concat_tables([accounts, absent]))
    return stamped(tables, datetime.now(UTC))


def _joined(batches: Sequence[Tables]) -> Tables:
    return {
        name: latest(pa.concat_tables([batch[name] for batch in batches]))
        for name in Accounts.names
    }


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


def _listed(addresses: Iterable[str]) -> list[str]:
    if isinstance(addresses, str | bytes):
        raise TypeError("addresses is a list of addresses: put a single address into a list")
    listed = list(addresses)
    if not listed:
        raise ValueError("addresses is empty")
    return listed


def _raw_or_none(address: str) -> str | None:
    try:
        return to_raw(address)
    except ValueError:
        return None


def _known(
    store: AnyStore | None,
    addresses: Sequence[str],
    age: timedelta | None,
    *,
    include_boc: bool,
    offline: bool,
) -> pa.Table:
    """Read the states in the store that can be used; offline their age does not matter."""
    if store is None or not (offline or age is not None):
        return schema.ACCOUNTS.schema.empty_table()
    if offline:
        store.check()
    known = store.snapshot("accounts", addresses=addresses)
    if age is not None and not offline:
        now, fetched = datetime.now(UTC), known["fetched_at"]
        since, until = (pa.scalar(moment, fetched.type) for moment in (now - age, now))
        # A state of the future was fetched while the clock was wrong: its age is unknown.
        known = known.filter(
            pc.and_(pc.greater_equal(fetched, since), pc.less_equal(fetched, until))
        )
    if include_boc:
        known = known.filter(pc.fill_null(known["with_boc"], False))
    return known
