"""What accounts pay for storage, what they owe, and how long their balance lasts."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import tell_repeated
from tonframes.analysis.expressions import as_float, divided, one_if
from tonframes.analysis.states import DAY, FREEZE, MASTERCHAIN, are_states, rates_of_states
from tonframes.network.prices import SPECIAL, STORAGE
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Accounts, Blocks

#: What `storage_rates` reads.
RENT = (
    "account",
    "hash",
    "lt",
    "now",
    "prev_trans_hash",
    "orig_status",
    "end_status",
    "storage_fees_collected",
    "storage_fees_due",
    "account_state_balance_after",
    "account_state_code_hash_before",
    "account_state_code_hash_after",
)

_CHANGES = [entry.valid_from for entry in STORAGE[1:]]
_KEYS = ["account", "status", "code", "price"]


@overload
def storage_rates(transactions: Blocks | Accounts, *, wide: bool = ...) -> pd.DataFrame: ...
@overload
def storage_rates(transactions: AnyFrame, *, wide: bool = ...) -> AnyFrame: ...
def storage_rates(transactions: AnyFrame, *, wide: bool = False) -> AnyFrame:
    """Estimate what accounts pay for storage, what they owe, and how long their balance lasts.

    No service shows the size of an account. But each transaction collects the rent since the
    previous one. So two consecutive transactions, both without debt, give the rate. Account states
    with code and data give the size itself.

    Parameters
    ----------
    transactions
        A frame of any engine, of our tables or of the public lake, or a `Blocks`.
        `tonframes.analysis.storage.RENT` names the columns. Or an `Accounts` that was fetched with
        code and data, or its frame `accounts` on pandas, polars or pyarrow; this needs
        pytoniq-core: ``pip install 'tonframes[boc]'``.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.

    Returns
    -------
    A frame of the same engine with a row for each account, the largest rent first, and special
    accounts last:

    - account: the account.
    - status, now, balance: the account after its last transaction in the frame: status, unix
      seconds and nanoton. The rent since then is not deducted, because it is unknown until the next
      transaction.
    - debt: nanoton of rent owed at that time; 0 if there was none.
    - intervals: number of intervals between two transactions that are counted. The code, the status
      and the storage prices must be the same as after the last transaction, both transactions must
      be in the frame, and there must be no debt at either end.
    - collected, seconds: nanoton of rent collected over these intervals, and their total length.
    - rent_per_day: nanoton, collected divided by seconds, times 86400. It is 0 for special
      accounts, which pay no rent.
    - rent_error: nanoton. `rent_per_day` may be too high by less than this amount, because the node
      rounds the rent up each time that it collects it.
    - steady: one rate explains every interval. If not, the size of the account changed, and
      `rent_per_day` is a mean.
    - days_left: for how long after `now` the balance pays the rent, at least. Null if the rent is
      unknown, not steady or 0.
    - days_to_freeze: how long it takes after `now`, at least, until the debt is more than 0.1 TON,
      so that the next transaction freezes the account. Null if `days_left` is null, and for
      accounts that are not active.
    - cells, bits: the size that the rent is for; null from transactions.
    - special: it is a special account of the masterchain, such as the elector, which pays no rent:
      one of `tonframes.network.prices.SPECIAL`, or one whose transactions collected nothing. The
      network changes its list of special accounts, so among states others are taken for ordinary
      ones.

    From account states, the newest state of each account counts. `now` is when it was fetched, and
    rent_per_day is what the size costs at the prices of that time. The days count from the last
    transaction, whose time a state does not show, and debts are unknown: they are taken to be 0.
    `intervals` is 0; debt, collected, seconds and steady are null. Code and data that were not
    fetched leave size and rent unknown. Without `fetched_at` the size is known, and the rent is
    not. Libraries and extra currencies of an account are not counted.

    Unknown values are null, such as the rent of an account with one transaction in the frame.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Notes
    -----
    The days assume that the account receives and sends nothing, and that its size is the same as
    before its last transaction. Only the next transaction shows whether the last one changed the
    size.

    Storage prices changed on 29 April 2026 (`tonframes.network.prices.STORAGE`). Intervals across
    that date are not counted. If the account has a transaction after that date, earlier intervals
    are not counted either.

    Until global version 4 (20 December 2023) the network forgot what could not be collected. From
    then to 18 April 2024 it charged repaid debts again (GlobalVersions.md, versions 4 and 7): rates
    of accounts that had debts at that time may be too high.

    Source: transaction.cpp of the TON monorepo, prepare_storage_phase.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> rates = storage_rates(read_blocks(sample()))
    >>> rates[["intervals", "collected", "seconds", "rent_per_day", "steady"]].head(2)
       intervals  collected  seconds     rent_per_day  steady
    0          1      17316      110  13600930.909091    True
    1          1      12593       80       13600440.0    True
    """
    if are_states(transactions):
        rates = rates_of_states(transactions)
    else:
        rates = _of_transactions(transactions, wide=wide)
    order, descending = ["special", "rent_per_day", "account"], [False, True, False]
    return intake.give(rates.sort(order, descending=descending, nulls_last=True), transactions)


def _of_transactions(transactions: object, *, wide: bool) -> Frame:
    rows = intake.take(transactions, "storage_rates", TRANSACTIONS, RENT)
    tell_repeated("storage_rates", transactions, rows)
    before = rows.select("hash", since="now", owed="storage_fees_due")
    # By hash, not by order: if transactions between two of them are missing, there is no interval.
    intervals = rows.join(before, left_on="prev_trans_hash", right_on="hash")
    intervals = engines.by_row(intervals, _counted).filter(nw.col("counts"))
    intervals = engines.by_row(intervals, _weighed)
    added = ["intervals", "seconds"]
    intervals = intervals.group_by(_KEYS).agg(
        nw.col(*added, *sums.parts_of(intervals, ["collected"])).sum(),
        nw.col("least").max(),
        nw.col("most").min(),
    )
    intervals = sums.narrowed(intervals, added, ["collected"])
    intervals = sums.whole(
        intervals, ["collected"], helper="storage_rates", keys=["account"], wide=wide
    )
    last = rows.group_by("account").agg(last_lt=nw.col("lt").max())
    last = rows.join(last, left_on=["account", "lt"], right_on=["account", "last_lt"])
    last = engines.by_row(last, _standing)
    rates = engines.by_row(last.join(intervals, on=_KEYS, how="left"), _projected)
    return engines.by_row(rates, _without_size).select(results.STORAGE_RATES.names())


def _without_size(rates: Frame) -> Frame:
    unknown = nw.when(nw.col("intervals") < 0).then(nw.lit(0)).cast(nw.Int64)
    return rates.with_columns(cells=unknown, bits=unknown)


def _counted(rows: Frame) -> Frame:
    """Add which intervals are counted."""
    now, since = nw.col("now"), nw.col("since")
    across = functools.reduce(
        operator.or_, ((since < change) & (now > change) for change in _CHANGES)
    )
    debt = (nw.col("owed").fill_null(0) > 0) | (nw.col("storage_fees_due").fill_null(0) > 0)
    counts = (
        (now > since)
        & (nw.col("orig_status") != "nonexist")
        & ~nw.col("storage_fees_collected").is_null()
        & ~across
        & ~debt
    )
    return rows.with_columns(counts=counts.fill_null(value=False))


def _price(seconds: nw.Expr) -> nw.Expr:
    """Return the place, in the price history, of the storage prices in force at a moment."""
    return functools.reduce(operator.add, (one_if(seconds >= change) for change in _CHANGES))


def _weighed(rows: Frame) -> Frame:
    rows = rows.with_columns(
        collected=nw.col("storage_fees_collected"), seconds=nw.col("now") - nw.col("since")
    )
    collected, seconds = nw.col("collected"), nw.col("seconds")
    return rows.select(
        "account",
        "seconds",
        *sums.parts(rows, "collected"),
        status=nw.col("orig_status"),
        code=nw.col("account_state_code_hash_before").fill_null(""),
        price=_price(nw.col("since")),
        intervals=nw.lit(1),
        least=(collected - 1) / seconds,
        most=collected / seconds,
    )


def _standing(rows: Frame) -> Frame:
    """Return the accounts after their last transactions."""
    balance, due = nw.col("account_state_balance_after"), nw.col("storage_fees_due")
    gone = nw.col("end_status") == "nonexist"
    paid = ~nw.col("storage_fees_collected").is_null()
    return rows.select(
        "account",
        "now",
        status=nw.col("end_status"),
        code=nw.col("account_state_code_hash_after").fill_null(""),
        price=_price(nw.col("now")),
        balance=nw.when(gone).then(balance.fill_null(0)).otherwise(balance),
        debt=nw.when(paid).then(due.fill_null(0)).otherwise(due),
    )


def _projected(rates: Frame) -> Frame:
    collected, days = as_float(rates, "collected"), divided(nw.col("seconds"), DAY)
    rates = rates.with_columns(
        intervals=nw.col("intervals").fill_null(0),
        rent_per_day=collected / days,
        rent_error=nw.col("intervals") / days,
        steady=nw.col("least") < nw.col("most"),
    )
    known = nw.when(nw.col("steady") & (collected > 0))
    # The sum of integers is exact. The division by 1 converts it, as in `as_float`.
    # Any other account of the masterchain pays at least 1 nanoton each time.
    free = nw.col("account").str.starts_with(MASTERCHAIN) & (collected == 0)
    until_frozen = (nw.col("balance") + FREEZE - nw.col("debt")) / 1
    frozen = known.then(until_frozen / collected * days)
    return rates.with_columns(
        special=nw.col("account").is_in(SPECIAL) | free.fill_null(value=False),
        days_left=known.then(as_float(rates, "balance") / collected * days),
        days_to_freeze=nw.when(nw.col("status") == "active").then(frozen),
    )
