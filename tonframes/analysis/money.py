"""Amounts in a currency, at prices that the user passes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw

from tonframes.analysis import engines, intake
from tonframes.analysis.currency import LONG, PRICE, in_currency, read_prices, with_price_at
from tonframes.analysis.periods import LENGTHS, PERIODS, with_seconds
from tonframes.analysis.units import amounts_of, refuse_other, unit_of
from tonframes.errors import did_you_mean
from tonframes.native import enter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.currency import Currency
    from tonframes.analysis.engines import AnyFrame, Frame

#: Columns with the time of a row, in the order in which they are looked for.
TIMES = ("now", "tx_now", "started_at", "block_time", "fetched_at", *PERIODS)

_HELPER = "with_price"
_SECONDS = "seconds_of_row"
_MONTH = 31 * LENGTHS["day"]


def with_price(
    frame: AnyFrame,
    prices: pd.Series[Any],
    *,
    currency: str = "USD",
    columns: Sequence[str] | None = None,
    time: str | None = None,
) -> AnyFrame:
    """Add amounts in a currency beside the amounts in nanoton.

    Parameters
    ----------
    frame
        A frame of any engine: a table, or the result of an analysis function.
    prices
        The price of 1 TON in the currency: a pandas Series of numbers, indexed by days, moments or
        periods, in any order. Times without a zone are in UTC. A price is in force from its moment
        (a period: from its start) until the next one, and the last one for good.
    currency
        What the prices are in. In lower case, it ends the names of the new columns.
    columns
        The columns to convert. None means the columns of our tables and results whose unit is
        nanoton (`describe`). Rates, such as `rent_per_day`, are converted if they are named.
    time
        The column with the time of each row: unix seconds, moments or dates. None means the first
        of now, tx_now, started_at, block_time, fetched_at, hour, day, week and month that the frame
        has. A day, week or month is converted at the price at its start.

    Returns
    -------
    A frame of the same engine with the same rows; the frame that was passed is not changed. After
    each column that is converted, there is:

    - <column>_<currency>: the amount in the currency, as a float. It is null if the amount or the
      time is unknown, or if the time is before the first price or after the year 9999.

    Raises
    ------
    TypeError
        `prices` is not a Series of numbers by day or moment, or a column to convert has no amounts.
    ValueError
        `prices` contains a moment twice, a price that is not positive, or no price. The frame has
        no column to convert or no time, or one period spans several prices.

    Warns
    -----
    TonframesWarning
        Prices are missing or have gaps, which the price before fills. Or rows are before the first
        price, or later than the usual step after the last one; lazy frames are not checked for
        this, because that would compute them.

    Notes
    -----
    Summaries with ``prices=`` (`fee_summary`, `gas_summary`, `failure_summary`, `activity`,
    `flows`) are exact where this function is not: they convert each transaction at its own price,
    and then add up. In a result by month, there is only one time for all transactions of a month.

    An amount in the currency differs from the exact product by less than 4 parts in 10^16. Add up
    nanoton rather than these floats.

    `fee_breakdown` has no time. On pandas, its rows have the index of the transactions, so
    ``fees.assign(now=transactions.now)`` adds it; on other engines join the transactions by hash.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.date_range("2026-05-01", periods=2)
    >>> prices = pd.Series([3.0, 3.5], index=days)  # made up
    >>> fees = pd.DataFrame({"day": days, "cost": [2_000_000_000, 500_000_000]})
    >>> with_price(fees, prices)
             day        cost  cost_usd
    0 2026-05-01  2000000000       6.0
    1 2026-05-02   500000000      1.75
    """
    rows = enter(frame, _HELPER)
    if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"{_HELPER} takes a frame with amounts, not {type(frame).__name__}")
    if prices is None:
        raise TypeError(f"{_HELPER} needs prices: a pandas Series with the price of 1 TON by day")
    dtypes = rows.collect_schema()
    names = amounts_of(_HELPER, dtypes, columns)
    for name in names:
        if not (unit_of(name).startswith("nanoton/") and dtypes[name].is_float()):
            refuse_other(name, dtypes[name])
    money = read_prices(_HELPER, prices, currency, names)
    assert money is not None  # noqa: S101 - for mypy: there are prices
    if taken := next((name for name in money.columns if name in dtypes), None):
        raise ValueError(f"{_HELPER} would add the column {taken!r}, which the frame has")
    moment = _time_of(dtypes, time, money)
    step = partial(_priced, money=money, time=moment, in_memory=intake.in_memory(frame))
    reads = dict.fromkeys([moment, *names])
    priced = engines.replace(rows, step, reads=list(reads), writes=money.columns)
    beside = dict(zip(names, money.columns, strict=True))
    order = [each for name in dtypes for each in (name, beside.get(name)) if each is not None]
    return cast("AnyFrame", priced.select(order).to_native())


def _time_of(dtypes: nw.Schema, time: str | None, money: Currency) -> str:
    """Return the column with the time of each row."""
    if time is None:
        found = next((name for name in TIMES if name in dtypes), None)
        if found is None:
            raise ValueError(
                f"{_HELPER} found no time in the frame, none of {', '.join(TIMES)}: name the "
                "column with time=, or add it (fees.assign(now=transactions.now) on pandas)"
            )
        length = LENGTHS.get(found, _MONTH) if found in PERIODS else 0
        if money.step is not None and length > money.step * LONG:
            raise ValueError(
                f"{_HELPER} finds several prices within one {found}: pass prices= to the summary, "
                "which converts each transaction at its own price. To use the price at the start, "
                f"pass time={found!r}"
            )
        time = found
    if time not in dtypes:
        raise ValueError(f"the frame has no column {time!r}{did_you_mean(time, dtypes)}")
    dtype = dtypes[time]
    if not (dtype.is_integer() or dtype == nw.Date or isinstance(dtype, nw.Datetime)):
        raise TypeError(
            f"the time of a row is unix seconds, a moment or a date; the column {time!r} is {dtype}"
        )
    return time


def _priced(rows: Frame, money: Currency, time: str, *, in_memory: bool) -> Frame:
    rows = with_seconds(rows, time, _SECONDS)
    rows = with_price_at(rows, money, _SECONDS, helper=_HELPER, in_memory=in_memory)
    rows = rows.with_columns(
        in_currency(rows, amount).alias(name)
        for amount, name in zip(money.amounts, money.columns, strict=True)
    )
    return rows.drop(_SECONDS, PRICE)
