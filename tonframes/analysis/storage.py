"""What accounts pay for storage, what they owe, and how long their balance lasts."""

from __future__ import annotations

import operator
from datetime import UTC
from functools import reduce
from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw
import pyarrow as pa

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import tell_repeated
from tonframes.analysis.engines import as_float, divided, one_if
from tonframes.analysis.intake import Given
from tonframes.bodies.weights import state_weight
from tonframes.network.prices import PRICES, SPECIAL, STORAGE
from tonframes.tableset import TableSet
from tonframes.wire.schema import ACCOUNTS, TRANSACTIONS

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

#: What is read of account states, in addition to address and fetched_at.
STATES = ("status", "balance", "code_boc", "data_boc")

DAY = 86_400
#: The account is frozen once its debt is above this.
FREEZE = PRICES[0].freeze_due_limit  # the same in every row

#: How an address of the masterchain begins.
MASTERCHAIN = "-1:"
# The root cell of an account's storage (block.tlb, AccountStorage): last_trans_lt, the length of
# the balance, and one bit for extra currencies.
_ROOT = 64 + 4 + 1
# account_active and the five fields of StateInit; account_uninit; account_frozen and its hash.
_STATUS = {"active": 1 + 5, "uninit": 2, "frozen": 2 + 256}

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
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

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
    if _are_states(transactions):
        given = Given(transactions, "storage_rates", ACCOUNTS)
        rates = _of_states(given)
    else:
        given = Given(transactions, "storage_rates", TRANSACTIONS)
        rates = _of_transactions(given, wide=wide)
    order, descending = ["special", "rent_per_day", "account"], [False, True, False]
    rates = rates.sort(order, descending=descending, nulls_last=True)
    return cast("AnyFrame", given.give(rates))


def _of_transactions(given: Given, *, wide: bool) -> Frame:
    rows = given.take(RENT)
    tell_repeated(given, rows)
    before = rows.select("hash", since="now", owed="storage_fees_due")
    # By hash, not by order: if transactions between two of them are missing, there is no interval.
    intervals = rows.join(before, left_on="prev_trans_hash", right_on="hash")
    intervals = engines.by_row(intervals, _counted).filter(nw.col("counts"))
    intervals = engines.by_row(intervals, _weighed)
    added = ["intervals", "seconds", "collected"]
    intervals = sums.grouped(
        intervals, _KEYS, added, amounts=["collected"], least=["most"], largest=["least"]
    )
    intervals = sums.whole(
        intervals, ["collected"], helper="storage_rates", keys=["account"], wide=wide
    )
    last = rows.group_by("account").agg(last_lt=nw.col("lt").max())
    last = rows.join(last, left_on=["account", "lt"], right_on=["account", "last_lt"])
    last = engines.by_row(last, _standing)
    rates = engines.by_row(last.join(intervals, on=_KEYS, how="left"), _projected)
    return rates.select(results.STORAGE_RATES.names())


def _counted(rows: Frame) -> Frame:
    """Add which intervals are counted."""
    now, since = nw.col("now"), nw.col("since")
    across = reduce(operator.or_, ((since < change) & (now > change) for change in _CHANGES))
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
    return reduce(operator.add, (one_if(seconds >= change) for change in _CHANGES))


def _weighed(rows: Frame) -> Frame:
    rows = rows.with_columns(
        collected=nw.col("storage_fees_collected"), seconds=nw.col("now") - nw.col("since")
    )
    collected, seconds = nw.col("collected"), nw.col("seconds")
    return rows.select(
        "account",
        "seconds",
        sums.exact(rows, "collected"),
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
    collected, days = as_float("collected"), divided(nw.col("seconds"), DAY)
    rates = rates.with_columns(
        nw.lit(None, nw.Int64).alias("cells"),
        nw.lit(None, nw.Int64).alias("bits"),
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
        days_left=known.then(as_float("balance") / collected * days),
        days_to_freeze=nw.when(nw.col("status") == "active").then(frozen),
    )


# ── from account states ──────────────────────────────────────────────────────────────────────────


def _are_states(given: object) -> bool:
    """Return whether these are account states, as `Accounts` or as its frame."""
    if isinstance(given, TableSet):
        return hasattr(type(given), "accounts")
    frame = nw.from_native(given, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return False
    return {"address", "fetched_at"} <= set(frame.collect_schema().names())


def _of_states(given: Given) -> Frame:
    """Return the rates from the newest state of each account."""
    if not given.in_memory:
        raise TypeError(
            "storage_rates reads the code and data of account states in Python: collect the lazy "
            "frame first"
        )
    rows = intake.newest(given, list(STATES))
    read = rows.collect("pyarrow").to_native().select(["address", *STATES, "fetched_at"])
    moments = read.schema.field("fetched_at").type
    if not (pa.types.is_timestamp(moments) or pa.types.is_null(moments)):
        raise TypeError(
            f"storage_rates needs moments in the column 'fetched_at', not {moments} (objects of "
            "several types are read as text): pd.to_datetime(frame['fetched_at'], utc=True) "
            "converts them"
        )
    shape = pa.schema([(each.name, each.kind.arrow) for each in results.STORAGE_RATES.columns])
    table = pa.Table.from_pylist([_rate(**state) for state in read.to_pylist()], shape)
    return engines.made_of(table, rows)


def _rate(
    *,
    address: str,
    status: str | None,
    balance: int | None,
    code_boc: str | None,
    data_boc: str | None,
    fetched_at: Any,
) -> dict[str, Any]:
    if fetched_at is not None and fetched_at.tzinfo is None:
        fetched_at = fetched_at.replace(tzinfo=UTC)  # Python takes it as local time
    now = None if fetched_at is None else int(fetched_at.timestamp())
    cells, bits = _size(status, balance, code_boc, data_boc)
    special = address in SPECIAL
    row: dict[str, Any] = {
        "account": address,
        "status": status,
        "now": now,
        "balance": balance,
        "intervals": 0,
        "cells": cells,
        "bits": bits,
        "special": special,
    }
    if special:
        return row | {"rent_per_day": 0.0, "rent_error": 0.0}
    if cells is None or bits is None or balance is None or now is None:
        return row
    prices = next((entry for entry in reversed(STORAGE) if entry.valid_from <= now), None)
    if prices is None:
        return row
    if address.startswith(MASTERCHAIN):
        price = bits * prices.mc_bit_price + cells * prices.mc_cell_price
    else:
        price = bits * prices.bit_price + cells * prices.cell_price
    # Prices are in 2^-16 nanoton for a second. `price` is an integer, and each figure one division.
    row |= {"rent_per_day": price * DAY / 2**16, "rent_error": 0.0}
    if price:
        row["days_left"] = (balance << 16) / (price * DAY)
    if price and status == "active":
        row["days_to_freeze"] = ((balance + FREEZE) << 16) / (price * DAY)
    return row


def _size(
    status: str | None, balance: int | None, code: str | None, data: str | None
) -> tuple[int, int] | tuple[None, None]:
    """Return the cells and bits that storage is charged for; None if they are unknown."""
    if status == "nonexist":
        return 0, 0
    if status not in _STATUS or balance is None or (status == "active" and None in (code, data)):
        return None, None
    try:
        cells, bits = state_weight(code, data)
    except ValueError:
        return None, None
    return cells + 1, bits + _ROOT + 8 * ((balance.bit_length() + 7) // 8) + _STATUS[status]
