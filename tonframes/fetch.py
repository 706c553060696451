"""Fetching: where client, store and frames meet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from http import HTTPStatus
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
import pandas as pd
import platformdirs
import pyarrow as pa
import pyarrow.compute as pc

from tonframes import pages, schema
from tonframes.addresses import to_raw
from tonframes.client import MOST_ROWS, Client
from tonframes.errors import DecodeError, IncompleteError, MissingError, RequestError, shorten
from tonframes.frames import Accounts, Blocks, ranges, spell
from tonframes.progress import progress as shown
from tonframes.store import Store, aligned, blocks_of, read_blocks

if TYPE_CHECKING:
    from tonframes.pages import Page, Tables


class _Default(Enum):
    STORE = "a folder in the user's cache directory, one per service"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.STORE

Where = str | PathLike[str] | _Default | None
Asked = Client | Literal["offline"] | None

#: How often a masterchain block whose parts do not add up is asked for.
ATTEMPTS = 3

_NETWORKS = {-239: "mainnet", -3: "testnet"}


def fetch_blocks(
    seqnos: range | Iterable[int],
    *,
    client: Asked = None,
    store: Where = DEFAULT,
    progress: bool | None = None,
) -> Blocks:
    """Fetch the transactions that masterchain blocks commit; only those the store lacks.

    Parameters
    ----------
    seqnos
        Masterchain seqnos.
    client
        The service to ask; None is `Client()`. "offline" never opens a socket.
    store
        A folder to keep what was fetched in; by default one in the user's cache directory, None
        to keep nothing.
    progress
        Whether to show a bar; None where somebody can see it.

    Returns
    -------
    Blocks, ordered by (mc_block_seqno, lt, account). With a store it is a view of the files.

    Raises
    ------
    RequestError
        The service did not answer. What was fetched before is in the store.
    IncompleteError
        A masterchain block's parts did not add up, again and again; nothing of it was written.
    MissingError
        Offline, and the store does not hold them all.
    StoreError
        The store is of another network, damaged, or cannot be written to.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     blocks = tf.fetch_blocks(range(90_000_000, 90_000_003), client=client, store=None)
    >>> blocks.seqnos
    (range(90000000, 90000003),)
    """
    wanted = _checked(seqnos)
    with _asking(client) as (asked, service):
        place = _place(store, service)
        if asked is None:
            return _held(place, wanted)
        if place is not None:
            place.claim(_network(asked, place), service)
        missing = wanted if place is None else place.gaps(wanted)
        parts = []
        with shown(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
            for run in missing:
                for part in aligned(run):
                    tables, proof = _fetch_run(asked, part, bar)
                    if place is None:
                        parts.append(tables)
                    else:
                        place.write_blocks(tables, [part], proof=proof)
    if place is None:
        return Blocks(pages.concat(parts), source=service, seqnos=wanted)
    return blocks_of(place, wanted)


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
    with _asking(client) as (asked, service):
        place = _place(store, service)
        known = _known(place, wanted, max_age, include_boc=include_boc, offline=asked is None)
        held = set(known["address"].to_pylist())
        missing = [address for address in wanted if address not in held]
        if asked is None and missing:
            raise MissingError(
                f"offline, and {place or 'no store'} does not hold {len(missing)} of "
                f"{len(wanted)} accounts, such as {missing[0]}",
                missing=missing,
            )
        tables = {name: schema.TABLES[name].schema.empty_table() for name in Accounts.names}
        if asked is not None and missing:
            if place is not None:
                place.claim(_network(asked, place), service)
            tables = _fetch_states(asked, missing, include_boc=include_boc, show=progress)
            if place is not None:
                place.write_accounts(tables)
    if place is not None and held:
        for name in ("address_book", "metadata"):
            older = place.snapshot(name, addresses=wanted)
            tables[name] = pages.latest(pa.concat_tables([older, tables[name]]))
    tables["accounts"] = _in_order(pa.concat_tables([known, tables["accounts"]]), wanted)
    return Accounts(tables, source=service)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def _fetch_run(client: Client, run: range, bar: Any) -> tuple[Tables, str]:
    """Fetch consecutive masterchain blocks, to become tables in one pass."""
    fetched: list[Page] = []
    proofs = set()
    for seqno in run:
        of_seqno, proof = _fetch_seqno(client, seqno)
        fetched += of_seqno
        proofs.add(proof)
        bar.advance(1, transactions=sum(len(page.body.transactions or ()) for page in fetched))
    tables = pages.in_order(pages.blocks_tables(fetched))
    return pages.stamped(tables, datetime.now(UTC)), "+".join(sorted(proofs))


def _fetch_seqno(client: Client, seqno: int) -> tuple[list[Page], str]:
    """Fetch all pages of one masterchain block until its parts add up."""
    fault = ""
    for _ in range(ATTEMPTS):
        fetched = list(_pages(client.masterchain_block_shards, seqno, "transactions", "blocks"))
        if fetched[0].body.blocks is None:
            return fetched, "pages"
        fetched += _pages(client.transactions_by_masterchain_block, seqno, "transactions")
        fault = _imbalance(fetched, seqno)
        if not fault:
            return fetched, "counts"
    raise IncompleteError(
        f"masterchain block {seqno} from {client.base_url}: {fault}, {ATTEMPTS} times in a row; "
        "nothing of it was kept, ask again later",
        missing=[range(seqno, seqno + 1)],
    )


def _pages(operation: Any, seqno: int, *lists: str) -> Iterator[Page]:
    """Fetch pages until one is not full; past the end deployed services answer 404."""

    def parse(body: bytes) -> Page:
        page = pages.read(schema.BLOCKS_BODY, body)
        _check_seqno(page, seqno)
        return page

    offset = 0
    while True:
        try:
            page = operation(seqno, parse, limit=MOST_ROWS, offset=offset)
        except RequestError as error:
            if error.status == HTTPStatus.NOT_FOUND and offset:
                return
            raise
        yield page
        rows = max(len(getattr(page.body, name) or ()) for name in lists)
        if rows < MOST_ROWS:
            return
        offset += rows


def _check_seqno(page: Page, seqno: int) -> None:
    """Refuse rows of another masterchain block: a deployed service wraps a seqno of 2^31."""
    for i, row in enumerate(page.body.transactions or ()):
        if row.mc_block_seqno != seqno:
            path = f"$.transactions[{i}].mc_block_seqno"
            raise DecodeError(path, f"{seqno}, as asked", shorten(row.mc_block_seqno))
    for i, row in enumerate(page.body.blocks or ()):
        if row.masterchain_block_ref.seqno != seqno:
            path = f"$.blocks[{i}].masterchain_block_ref.seqno"
            raise DecodeError(path, f"{seqno}, as asked", shorten(row.masterchain_block_ref.seqno))


def _imbalance(fetched: Sequence[Page], seqno: int) -> str:
    """Say what does not add up between blocks and transactions, "" if all does."""
    blocks = {
        (row.workchain, row.shard, row.seqno): row
        for page in fetched
        for row in page.body.blocks or ()
    }
    hashes = {row.hash for page in fetched for row in page.body.transactions or ()}
    masters = [row for row in blocks.values() if row.workchain == -1]
    if len(masters) != 1 or masters[0].seqno != seqno:
        return f"{len(masters)} masterchain blocks in the answer"
    expected = sum(row.tx_count or 0 for row in blocks.values())
    if expected != len(hashes):
        return f"its {len(blocks)} blocks count {expected} transactions, and {len(hashes)} came"
    return ""


# ── accounts ─────────────────────────────────────────────────────────────────────────────────────


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


# ── the service and the store ────────────────────────────────────────────────────────────────────


def default_store(service: str) -> Path:
    """Say where what a service answered is kept by default.

    The environment's `TONFRAMES_STORE`, or a folder in the user's cache directory.

    Examples
    --------
    >>> default_store("https://toncenter.com").name
    'toncenter.com'
    """
    if folder := os.environ.get("TONFRAMES_STORE"):
        return Path(folder)
    address = urlsplit(service)
    name = address.hostname or "service"
    return platformdirs.user_cache_path("tonframes") / (
        f"{name}-{address.port}" if address.port else name
    ).replace(":", "_")


@contextmanager
def _asking(client: Asked) -> Iterator[tuple[Client | None, str]]:
    """Give the client, None for offline, and the name of its service; close it if it is ours."""
    if isinstance(client, Client):
        yield client, client.base_url
        return
    if client not in (None, "offline"):
        raise TypeError(f'client is a Client, "offline" or None, not {shorten(client)}')
    with Client() as own:
        yield (own if client is None else None), own.base_url


def _place(store: Where, service: str) -> Store | None:
    if store is None:
        return None
    return Store(default_store(service) if isinstance(store, _Default) else store)


def _network(client: Client, store: Store) -> str:
    """Name the service's network; a store that came from this service need not ask again."""
    if store.service == client.base_url and store.network is not None:
        return store.network
    network = None
    try:
        network = client.masterchain_info(_network_id)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    if network is None:
        return str(urlsplit(client.base_url).hostname)
    return _NETWORKS.get(network, str(network))


class _Last(msgspec.Struct):
    global_id: int | None = None


class _Info(msgspec.Struct):
    last: _Last


def _network_id(body: bytes) -> int | None:
    try:
        return msgspec.json.decode(body, type=_Info).last.global_id
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the network's id, or nothing"
        raise DecodeError("$.last.global_id", expected, shorten(error)) from None


def _held(store: Store | None, wanted: tuple[range, ...]) -> Blocks:
    if store is None:
        raise MissingError("offline, and without a store", missing=wanted)
    return read_blocks(store.path, [seqno for run in wanted for seqno in run])


def _checked(seqnos: range | Iterable[int]) -> tuple[range, ...]:
    if isinstance(seqnos, range) and seqnos.step == 1:
        wanted: tuple[range, ...] = (seqnos,) if seqnos else ()
    elif isinstance(seqnos, Iterable) and not isinstance(seqnos, str | bytes):
        numbers = list(seqnos)
        if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise TypeError("seqnos are ints")
        wanted = ranges(numbers)
    else:
        raise TypeError(f"seqnos is a range or a list of ints, not {shorten(seqnos)}")
    if not wanted:
        raise ValueError("no seqnos to ask for")
    if wanted[0].start < 1 or wanted[-1].stop > 2**31:
        raise ValueError(f"seqnos are from 1 to {2**31 - 1}, not {spell(wanted)}")
    return wanted
