"""What it costs accounts to be there, what they owe, and how long they can go on."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.expressions import as_float, one_if
from tonframes.network.prices import PRICES, STORAGE
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from tonframes.analysis.engines import AnyFrame, Frame

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

DAY = 86_400
_FREEZE = PRICES[0].freeze_due_limit  # the same in every row
_CHANGES = [entry.valid_from for entry in STORAGE[1:]]
_KEYS = ["account", "status", "code", "price"]


def storage_rates(transactions: AnyFrame, *, wide: bool = False) -> AnyFrame:
    """Tell what accounts pay for storage by the day, what they owe, and how long they can go on.

    Nobody serves how large an account is. But each transaction collects the rent since the one
    before, so two that follow each other, both without debt, tell the rate.

    Parameters
    ----------
    transactions
        A frame of any engine; the lake's as well as ours. `RENT` names the columns.

    Returns
    -------
    A frame of the same engine, a row an account, the dearest first:

    - account.
    - status, now, balance: the account after its last transaction in the frame, and when that was
      (unix seconds); nanoton. The rent since then is not deducted: nobody knows it before the next
      transaction.
    - debt: nanoton of rent that it owed then; 0 is none.
    - intervals: how many times from one transaction to the next are counted: those since code,
      status and storage prices are what they were after the last transaction; without gaps in the
      frame, and without debt at either end.
    - collected, seconds: nanoton of rent collected over them, and how long they were together.
    - rent_per_day: nanoton, collected by seconds. 0 of special accounts, which pay none.
    - rent_error: nanoton; the true rent of a day is less than `rent_per_day` by less than this, for
      what is collected is rounded up each time.
    - steady: one rate explains what each of the intervals brought. Where none does, the account
      has grown or shrunk in between, and `rent_per_day` is a mean.
    - days_left: for how long after `now` the balance pays the rent, at least. Null where the rent
      is unknown, not steady or 0.
    - days_to_freeze: how long it is from `now`, at least, till the debt is more than 0.1 TON, and
      the next transaction freezes the account. Null as `days_left`, and of accounts that are not
      active.

    What nobody can know is null, as the rent of an account with one transaction in the frame.

    Notes
    -----
    Days are reckoned as if nothing came in or went out, and the account stayed as large as it was
    before its last transaction; whether that one has changed the size, only the next will show.

    Storage prices changed on 29 April 2026 (`tonframes.network.prices.STORAGE`). No interval
    reaches across, and none from before is taken for an account with a transaction since.

    Until global version 4 (20 December 2023) the network forgot what could not be collected. From
    then to 18 April 2024 it charged repaid debts again (GlobalVersions.md, versions 4 and 7): rates
    of accounts that had debts at that time may be too high.

    Source: transaction.cpp of the TON monorepo, prepare_storage_phase.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> rates = storage_rates(read_blocks(sample()).transactions)
    >>> rates[["intervals", "collected", "seconds", "rent_per_day", "steady"]].head(2)
       intervals  collected  seconds     rent_per_day  steady
    0          1      26288      167  13600498.203593    True
    1         41         41      205          17280.0    True
    """
    rows = intake.take(transactions, "storage_rates", TRANSACTIONS, RENT)
    before = rows.select("hash", since="now", owed="storage_fees_due")
    # By hash, not by order: a gap in the frame is no interval.
    intervals = rows.join(before, left_on="prev_trans_hash", right_on="hash")
    intervals = engines.by_row(intervals, _told).filter(nw.col("counts"))
    intervals = engines.by_row(intervals, _weighed)
    added = ["intervals", "seconds", *sums.halves_of(["collected"])]
    intervals = intervals.group_by(_KEYS).agg(
        nw.col(*added).sum(),
        nw.col("least").max(),
        nw.col("most").min(),
    )
    intervals = engines.integers(intervals, *added)
    intervals = sums.whole(
        intervals, ["collected"], helper="storage_rates", keys=["account"], wide=wide
    )
    last = rows.group_by("account").agg(last_lt=nw.col("lt").max())
    last = rows.join(last, left_on=["account", "lt"], right_on=["account", "last_lt"])
    last = engines.by_row(last, _standing)
    rates = engines.by_row(last.join(intervals, on=_KEYS, how="left"), _projected)
    rates = rates.select(results.STORAGE_RATES.names())
    return intake.give(engines.largest_first(rates, "rent_per_day", ["account"]), transactions)


def _told(rows: Frame) -> Frame:
    """Say which intervals tell the rate."""
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
    """Tell which storage prices hold from a moment on, by number."""
    return functools.reduce(operator.add, (one_if(seconds >= change) for change in _CHANGES))


def _weighed(rows: Frame) -> Frame:
    rows = rows.with_columns(
        collected=nw.col("storage_fees_collected"), seconds=nw.col("now") - nw.col("since")
    )
    collected, seconds = nw.col("collected"), nw.col("seconds")
    return rows.select(
        "account",
        "seconds",
        *sums.halves("collected"),
        status=nw.col("orig_status"),
        code=nw.col("account_state_code_hash_before").fill_null(""),
        price=_price(nw.col("since")),
        intervals=nw.lit(1),
        least=(collected - 1) / seconds,
        most=collected / seconds,
    )


def _standing(rows: Frame) -> Frame:
    """Describe accounts as their last transactions left them."""
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
    collected, days = as_float(rates, "collected"), nw.col("seconds") / DAY
    rates = rates.with_columns(
        intervals=nw.col("intervals").fill_null(0),
        rent_per_day=collected / days,
        rent_error=nw.col("intervals") / days,
        steady=nw.col("least") < nw.col("most"),
    )
    told = nw.when(nw.col("steady") & (collected > 0))
    balance = nw.col("balance")
    frozen = told.then((balance + _FREEZE - nw.col("debt")) / collected * days)
    return rates.with_columns(
        days_left=told.then(balance / collected * days),
        days_to_freeze=nw.when(nw.col("status") == "active").then(frozen),
    )
