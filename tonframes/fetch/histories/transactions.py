"""Fetch the transactions of accounts, also as they appear, and keep them in a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw, warn_of_unknown
from tonframes.client import UnknownOperationError
from tonframes.errors import (
    IncompleteError,
    MissingError,
    RequestError,
    TonframesError,
    warn,
)
from tonframes.fetch.follow import POLL
from tonframes.fetch.histories.batch import WITNESS, last_transactions, read_account_page
from tonframes.fetch.histories.chains import GENESIS, Created, Disputed, Named, Service
from tonframes.fetch.histories.tasks import (
    Histories,
    HistoryResult,
    incomplete_periods,
)
from tonframes.fetch.network import LAG, Network, masterchain_info
from tonframes.fetch.progress import Counted, progress_bar
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    StoreOption,
    resolve_client,
    resolve_folder,
)
from tonframes.fetch.spread import ExecutorOption, check_executor, workers_for
from tonframes.frames import Transactions
from tonframes.store import (
    Bound,
    Period,
    held_spans,
    held_transactions,
    read_transactions,
    transactions_in,
)
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tonframes.client import Client
    from tonframes.fetch.histories.chains import Step
    from tonframes.store import Store
    from tonframes.wire.tables import Tables


def fetch_transactions(
    accounts: Iterable[str],
    *,
    since: Bound | None = None,
    until: Bound | None = None,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
    executor: ExecutorOption = None,
    progress: bool | None = None,
) -> Transactions:
    """Fetch all transactions of accounts between two moments; only those that the store lacks.

    Each transaction of an account names the one before it, and the account's state names the last
    one. So it is proven that none is missing. The service must have the operation
    `/api/v3/transactions`. After an error or an interruption, call it again with the same
    arguments: it continues where it stopped.

    Parameters
    ----------
    accounts
        Accounts in any form, any number of them; a single one may be passed as text.
    since, until
        From `since` on and before `until`: both moments, or both logical times (lt). A moment is a
        datetime with a time zone, a date (in UTC), or text in the form of ISO 8601 such as
        "2026-05" or "2026-05-28T20:28" (in UTC if it names no time zone). A logical time is an int,
        or text such as "lt:1777593600". An int that looks like a moment is refused: a unix time
        from 2019 to 2038 in seconds, milli-, micro- or nanoseconds, or a date such as 20260501,
        202605 or 2026. If it is a logical time, pass it as text; `f"lt:{lt}"` is right for each.
        None is the account's first and its last transaction. The history of an account is held
        until its last transaction; or until a minute before the service's last block, if that is
        later, and the replica of the service that told the last transaction has that block. If
        that is before `until`, or there is no `until`, the `repr` of the result
        says until when it is held, and `read_transactions` until a later moment raises
        `MissingError`, until a later fetch has completed it.
    client
        As in `fetch_blocks`.
    store
        As in `fetch_blocks`. Transactions of accounts have their own folders in it.
    executor
        As in `fetch_blocks`, but None is this process alone: whether processes pay depends on the
        number of transactions, which is not known beforehand. One worker reads the whole history
        of an account.
    progress
        Whether to show a progress bar; None shows one in a terminal or a notebook.

    Returns
    -------
    Transactions, ordered by (mc_block_seqno, lt, account), so those of one account come oldest
    first. Its `unknown` lists the accounts that the service does not know; they have none.

    Raises
    ------
    ValueError
        There are no accounts, one is not valid, `since` is not before `until`, or one of them is a
        moment that is written as a number.
    RequestError, DecodeError
        The service did not answer, its answer cannot be decoded, or it does not have the operation.
    IncompleteError
        The service does not have a transaction that another one names, after several attempts, or
        it is older than the first block of the service.
    MissingError
        Offline, and the store does not hold all of them.
    StoreError
        The store is of another network, or cannot be written to.

    An error raised while fetching has the attributes `partial`, the `Transactions` that were
    fetched or held, and `missing`, pairs of an account and the `Period` that lacks something.

    Warns
    -----
    TonframesWarning
        The service, or a replica of it that answered, is behind: it may not have all transactions
        before `until`, though that is past. The warning says until when the history is held.
        A transaction in the store was wrong, and was replaced. The service knows no transactions of
        some accounts, or some addresses are marked for test networks only (`kQ…`, `0Q…`) and the
        service shows mainnet.

    Examples
    --------
    >>> import tonframes as tf
    >>> account = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     history = tf.fetch_transactions(
    ...         account, since="2026-05-28T20:28", client=client, store=None
    ...     )
    >>> history.accounts == (account,)
    True
    """
    check_executor(executor)
    listed = [accounts] if isinstance(accounts, str) else list(accounts)
    wanted = resolve_accounts(listed)
    period = Period.parse(since, until)
    with resolve_client(client) as (online, service):
        target = resolve_folder(store, service)
        if online is None:
            if target is None:
                raise MissingError("offline, and without a store", missing=tuple(wanted))
            return read_transactions(target.path, listed, since=since, until=until)
        network = Network(online, target)
        network.claim()
        network.check_addresses(listed)
        if target is not None:
            target.verify_histories(wanted)
        fetched = HistoryResult()

        def result(label: str, proof: str, unknown: Sequence[str] = ()) -> Transactions:
            if target is not None:
                return held_transactions(
                    target, wanted, period, label=label, proof=proof, unknown=unknown
                )
            return Transactions(
                transactions_in(concat(fetched.tables), wanted, period),
                accounts=wanted,
                unknown=unknown,
                period=label,
                source=service,
                proof=proof,
            )

        try:
            fetch_periods(
                online,
                target,
                dict.fromkeys(wanted, period),
                fetched,
                network,
                executor=executor,
                progress=progress,
            )
        except TonframesError as error:
            error.partial = result(f"part of the period {period}", "spans")
            raise
        unknown, until = tuple(fetched.unknown), fetched.until
        warn_of_unknown(unknown, wanted, f"{service} knows no transactions")
        if until is None:
            return result(str(period), "account", unknown)
        label = period.held_until(until)
        past = period.stop is not None and (
            period.unit == "lt" or period.stop < datetime.now(UTC).timestamp() - LAG
        )
        if until < fetched.last or past:
            why = "is behind" if fetched.last else "does not tell the time of its last block"
            before = "" if period.stop is None else f" before {period.spell(period.stop)}"
            warn(
                f"{service} {why}: it may not have all transactions{before}. The result is "
                f"{label}; fetch the rest later"
            )
        whole = until if period.unit == "lt" else until > period.start
        return result(label, "account" if whole else "spans", unknown)


def fetch_periods(
    client: Client,
    store: Store | None,
    periods: Mapping[str, Period],
    result: HistoryResult,
    network: Network,
    *,
    executor: ExecutorOption = None,
    progress: bool | None,
) -> None:
    """Fetch and commit what a store lacks of histories; the error at the end names the rest."""
    held = {} if store is None else held_spans(store, periods)
    lacking = incomplete_periods(periods, held)
    result.unknown += [a for a in held if a not in lacking and not any(s.stop_lt for s in held[a])]
    if not lacking:
        return
    network.confirm()
    with progress_bar(len(lacking), "accounts", show=progress) as bar:
        service = _service(client, lacking.values())
        result.last = service.surely_until
        workers = workers_for(executor, client, is_large=False)
        histories = Histories(client, store, service, Counted(client, bar), result)
        try:
            if workers == 1:
                histories.fetch(lacking, held)
            else:
                histories.fetch_with(workers, lacking)
        except UnknownOperationError as error:
            error.missing = tuple(lacking.items())
            error.add_note(
                "A history needs a service with the operation /api/v3/transactions; others can be "
                "read by masterchain blocks: fetch_blocks."
            )
            raise
        except TonframesError as error:
            complete = set(result.complete)
            error.missing = tuple(pair for pair in lacking.items() if pair[0] not in complete)
            kept = "" if store is None else ", and all transactions that came are kept"
            error.add_note(
                f"{len(complete)} of {len(lacking)} histories are complete{kept}. To "
                "continue, call it again with the same arguments."
            )
            raise
    if result.lacking:
        raise _incomplete(result.lacking, periods, client.base_url, service, store)


def resolve_accounts(accounts: Iterable[str]) -> list[str]:
    """Check accounts that a user passes, and return each once, in raw form."""
    listed = [accounts] if isinstance(accounts, str) else list(accounts)
    if not listed:
        raise ValueError("accounts is empty")
    return list(dict.fromkeys(to_raw(listed)))


def _service(client: Client, periods: Iterable[Period]) -> Service:
    """Ask which blocks the service has."""
    info = masterchain_info(client)
    first, last = info.first, info.last
    service = Service(
        first_lt=int(first.start_lt or 0) if first else 0,
        first_utime=int(first.gen_utime or 0) if first else 0,
        last_lt=int(last.start_lt or 0),
        last_utime=int(last.gen_utime or 0),
    )
    if not service.surely_until or not any(p.unit == "lt" and p.stop for p in periods):
        return service
    try:
        window = range(service.surely_until)
        page = read_account_page(client, [WITNESS], "utime", window, most=2, newest_first=True)
    except UnknownOperationError:  # told when the transactions are asked for
        return service
    # The later one of two names the other one, which so is surely right.
    rows = page.transactions
    named = pc.is_in(rows["hash"], value_set=rows["prev_trans_hash"].combine_chunks())
    until_lt = 0 if page.lacking else pc.max(rows.filter(named)["lt"]).as_py()
    return replace(service, until_lt=until_lt or 0)


def _incomplete(
    lacking: Mapping[str, Step],
    periods: Mapping[str, Period],
    url: str,
    service: Service,
    store: Store | None,
) -> IncompleteError:
    """Return the error that says which transactions did not come."""
    missing: list[tuple[str, Period]] = []
    for name, step in lacking.items():
        match step:
            case Named(lt, floor):
                missing.append((name, Period("lt", floor, lt + 1)))
            case Disputed(lt) | Created(lt):
                missing.append((name, Period("lt", lt, lt + 1)))
            case _:
                missing.append((name, periods[name]))
    account, period = missing[0]
    more = f" (and {len(missing) - 1} more accounts)" if len(missing) > 1 else ""
    kept = "" if store is None else "; all other transactions were kept"
    lt = (period.stop or 1) - 1
    history = f"the history of {account} from {url}{more}"
    begins = f"{history}: the service begins at {_moment(service.first_utime)}"
    # The least `since` of which the service surely has all transactions.
    least = _moment(service.first_utime + LAG)
    if periods[account].unit == "lt" and periods[account] != Period():
        least = f"lt:{service.first_lt}"
    advice = f"use since={least!r}, or a service with older blocks"
    if isinstance(lacking[account], Named) and service.begins_after(lt):
        return IncompleteError(
            f"{begins}, and does not have the transaction with lt {lt}, which is older{kept}: "
            f"{advice}",
            missing=tuple(missing),
        )
    if isinstance(lacking[account], Created) and service.first_lt > GENESIS:
        return IncompleteError(
            f"{begins}, and the account was created with lt {lt}: whether it has transactions of "
            f"an earlier life is not known{kept}: {advice}",
            missing=tuple(missing),
        )
    if isinstance(lacking[account], Created):
        return IncompleteError(
            f"{history}: the account was created again with lt {lt}, and none of its transactions "
            f"before lt {lt} that came deleted it{kept}: try again later, or another service",
            missing=tuple(missing),
        )
    return IncompleteError(
        f"{history}: the transaction with lt {lt}, which another one or the state names, did not "
        "come in any attempt, or not with all its messages, or not with the hash that they name"
        f"{kept}: try again later, or another service",
        missing=tuple(missing),
    )


def _moment(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


# ── new transactions ─────────────────────────────────────────────────────────────────────────────


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
            tables = _fetch_new(online, target, changed, network) if changed else None
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
    return {
        account: last.lt
        for batch in client.batches(accounts)
        for account, last in last_transactions(client, batch).items()
    }


def _fetch_new(
    client: Client, store: Store | None, periods: dict[str, Period], network: Network
) -> Tables | None:
    """Fetch the transactions of periods; None if the service does not have them yet."""
    fetched = HistoryResult()
    try:
        fetch_periods(client, store, periods, fetched, network, progress=False)
    except IncompleteError:
        return None
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND or not error.retryable:
            raise
        return None
    if store is None:
        tables = concat(fetched.tables)
    else:
        least = min(p.start if p.unit == "lt" else 0 for p in periods.values())
        held = held_transactions(store, list(periods), Period("lt", least), unknown=())
        tables = {name: held.arrow(name) for name in ("transactions", "messages", "address_book")}
    of_periods = [
        period.of(tables["transactions"].filter(pc.equal(tables["transactions"]["account"], a)))
        for a, period in periods.items()
    ]
    new = tables | {"transactions": pa.concat_tables(of_periods)}
    return transactions_in(new, list(periods), Period())
