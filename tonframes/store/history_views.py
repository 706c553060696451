"""Views of histories in a store: Transactions that are read when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonframes.addresses import to_raw, warn_of_test_only, warn_of_unknown
from tonframes.errors import MissingError
from tonframes.frames import Transactions
from tonframes.store.histories import files_of, held_spans, read_history
from tonframes.store.reader import Reader, chosen_of
from tonframes.store.spans import Bound, Period, gaps_of
from tonframes.store.views import check_columns
from tonframes.tableset import Glance, Unread, ends
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    import pyarrow as pa

    from tonframes.store.spans import Span


@dataclass(frozen=True)
class HeldHistory(Unread):
    """Transactions or messages of accounts, read from a store when called."""

    store: Reader
    name: str
    accounts: tuple[str, ...]
    period: Period
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the rows, in the order of blocks."""
        return self._read(chosen_of(schema.TABLES[self.name], self.columns))

    def glance(self) -> Glance:
        """Read times and footers: rows, times, proofs and services."""
        rows = self._read(["block_time"])
        footers = [file.footer() for file in files_of(self.store, self.accounts)]
        first, last = ends(rows, "block_time") or (None, None)
        return Glance(
            rows=len(rows),
            first=first,
            last=last,
            proofs=tuple(dict.fromkeys(f.proof for f in footers if f.proof)),
            services=tuple(dict.fromkeys(f.service for f in footers if f.service)),
        )

    def head(self, rows: int, columns: tuple[str, ...]) -> pa.Table:
        """Read the first rows."""
        chosen = [name for name in columns if self.columns is None or name in self.columns]
        return self._read(chosen).slice(0, rows)

    def _read(self, columns: Sequence[str]) -> pa.Table:
        chosen = {self.name: columns}
        return read_history(self.store, self.accounts, self.period, chosen)[self.name]


@dataclass(frozen=True)
class HistoryBook(Unread):
    """The newest address book entries of the addresses that occur in histories."""

    store: Reader
    accounts: tuple[str, ...]
    period: Period
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the entries."""
        places = {"transactions": ["account"], "messages": ["source", "destination"]}
        tables = read_history(self.store, self.accounts, self.period, places)
        occurring = {
            address
            for table in tables.values()
            for column in table.columns
            for address in column.unique().to_pylist()
        }
        return self.store.snapshot(
            "address_book", addresses=sorted(occurring - {None}), columns=self.columns
        )


def read_transactions(
    path: str | PathLike[str],
    accounts: Iterable[str] | None = None,
    *,
    since: Bound | None = None,
    until: Bound | None = None,
    columns: Sequence[str] | None = None,
) -> Transactions:
    """Open transactions of accounts in a store; never touches the network.

    Parameters
    ----------
    path
        A store, as `fetch_transactions(..., store=path)` makes one.
    accounts
        Accounts in any form; a single one may be passed as text. None is all accounts whose
        histories are held.
    since, until
        As in `fetch_transactions`. None is the first or the last transaction that is held of each
        account. If one of them is given, nothing between these two ends may be missing. If both
        are None, the result may have gaps: its `repr` says in how many spans it is held.
    columns
        Which columns to read, of every table that has them; None is all.

    Returns
    -------
    Transactions, as a view of the store: a table is read when it is first asked for.

    Raises
    ------
    MissingError
        The histories of some accounts are not held, or not without gaps between `since` and
        `until`; `.missing` has these accounts. After its last transaction, the history of an
        account is held until a minute before the last block that the service had when it was asked.
    StoreError
        There is no store at `path`, or a file of it is damaged.

    Warns
    -----
    TonframesWarning
        The service knew no transactions of some of `accounts`, or some of them are marked for test
        networks only (`kQ…`, `0Q…`) and the store holds mainnet.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import tonframes as tf
    >>> account = tf.read_blocks(tf.sample()).transactions.account[0]
    >>> with tf.serve(tf.sample(), dialect="service") as url, TemporaryDirectory() as store:
    ...     since = "2026-05-28T20:28"
    ...     with tf.Client(url) as client:
    ...         fetched = tf.fetch_transactions(account, since=since, client=client, store=store)
    ...     held = tf.read_transactions(store, account, since=since)
    ...     len(held.transactions) == len(fetched.transactions)
    True
    """
    store = Reader(path)
    store.check()
    check_columns(columns, Transactions.names)
    period = Period.parse(since, until)
    if accounts is None:
        spans = held_spans(store)
        wanted = tuple(sorted(spans))
    else:
        listed = [accounts] if isinstance(accounts, str) else list(accounts)
        wanted = tuple(dict.fromkeys(to_raw(listed)))
        if store.network == "mainnet":
            warn_of_test_only(listed, f"{store.path} holds")
        spans = held_spans(store, wanted)
    if since is None and until is None:
        lacking = {account: period for account in wanted if account not in spans}
    else:
        gaps = {
            account: _gap(spans.get(account, ()), period, since is None, until is None)
            for account in wanted
        }
        lacking = {account: gap for account, gap in gaps.items() if gap is not None}
    if lacking:
        account, gap = next(iter(lacking.items()))
        raise MissingError(
            f"{store.path} does not hold all transactions of {len(lacking)} of {len(wanted)} "
            f"accounts, {period.held()}, such as those of {account}, {gap}: "
            f"{store.advice('fetch_transactions')}",
            missing=tuple(lacking),
        )
    if accounts is not None:
        unknown = [a for a in wanted if not any(span.stop_lt for span in spans[a])]
        warn_of_unknown(unknown, wanted, f"{store.path} knows no transactions")
    parts = {a: sum(span.start_lt < span.stop_lt for span in spans[a]) for a in wanted}
    if since is None and until is None and max(parts.values(), default=0) > 1:
        label = f"{period.held()}, in {sum(parts.values()):,} spans with gaps between"
        return held_transactions(store, wanted, period, label=label, proof="spans", columns=columns)
    return held_transactions(store, wanted, period, label=period.held(), columns=columns)


def held_transactions(
    store: Reader,
    accounts: Sequence[str],
    period: Period,
    *,
    label: str = "",
    proof: str = "account",
    unknown: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Transactions:
    """Return transactions of accounts that a store holds, as a view of it."""
    wanted = tuple(accounts)
    if unknown is None:
        spans = held_spans(store, wanted)
        unknown = [a for a in wanted if not any(s.stop_lt for s in spans.get(a, ()))]
    return Transactions(
        {
            "transactions": HeldHistory(store, "transactions", wanted, period, columns),
            "messages": HeldHistory(store, "messages", wanted, period, columns),
            "address_book": HistoryBook(store, wanted, period, columns),
        },
        accounts=wanted,
        unknown=unknown,
        period=label,
        source=str(store.path),
        proof=proof,
    )


def _gap(
    spans: Sequence[Span],
    period: Period,
    first: bool,  # noqa: FBT001
    last: bool,  # noqa: FBT001
) -> Period | None:
    """Return the first part of a period that no span of an account has; None if one has it all."""
    if not spans:
        return period
    unit = period.unit
    start = min(span.start(unit) for span in spans) if first else period.start
    stop = max(span.stop(unit) for span in spans) if last else period.end
    if any(
        span.start(unit) <= start and span.stop(unit) >= stop and span.start(unit) < period.end
        for span in spans
    ):
        return None
    gaps = gaps_of(spans, Period(unit, start, stop))
    return Period(unit, gaps[0].start, gaps[0].stop) if gaps else period
