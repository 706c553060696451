"""Amounts in a currency, at the prices of 1 TON that the user passes."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np
import pandas as pd

from tonframes.analysis import engines
from tonframes.analysis.engines import as_float, divided
from tonframes.analysis.periods import LENGTHS, PERIODS, with_seconds
from tonframes.analysis.sums import PRICE, Currency
from tonframes.analysis.units import TON, amounts_of, refuse_other, unit_of
from tonframes.errors import did_you_mean, shorten, warn
from tonframes.native import enter
from tonframes.wire.codec import LAST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.analysis.engines import AnyFrame, Frame

#: Columns with the time of a row, in the order in which they are looked for.
TIMES = ("now", "tx_now", "started_at", "block_time", "fetched_at", *PERIODS)

_HELPER = "with_price"
_SECONDS = "seconds_of_row"
_MONTH = 31 * LENGTHS["day"]
# A step between prices that is longer than the usual one by this factor is a gap.
_LONG = 1.5
_MOMENTS = ("datetime", "datetime64", "date")  # what pandas infers


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
    in_memory = isinstance(rows, nw.DataFrame)

    def step(frame: Frame) -> Frame:
        frame = with_seconds(frame, moment, _SECONDS)
        frame = with_price_at(frame, money, _SECONDS, helper=_HELPER, in_memory=in_memory)
        return frame.with_columns(
            (divided(as_float(amount), TON) * nw.col(PRICE)).alias(name)
            for amount, name in zip(money.amounts, money.columns, strict=True)
        ).drop(_SECONDS, PRICE)

    reads = list(dict.fromkeys([moment, *names]))
    priced = engines.replace(rows, step, reads=reads, writes=money.columns)
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
        if money.step is not None and length > money.step * _LONG:
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


def read_prices(
    helper: str, prices: object | None, currency: str, amounts: Sequence[str]
) -> Currency | None:
    """Check the prices that a user passed to a helper. Without prices there is no currency."""
    if not isinstance(currency, str):
        raise TypeError(f"currency is a text such as 'USD', not {shorten(currency)}")
    if not currency.isalnum():
        raise ValueError(f"currency is letters and digits, such as 'USD', not {shorten(currency)}")
    if prices is None:
        return None
    if not isinstance(prices, pd.Series):
        hint = ": pass one of its columns" if isinstance(prices, pd.DataFrame) else ""
        raise TypeError(
            f"{helper} takes prices as a pandas Series, the price of 1 TON by day or moment, not "
            f"{type(prices).__name__}{hint}"
        )
    values = [_number(value, at) for at, value in prices.items()]
    series: Any = pd.Series(values, index=_moments(prices)).sort_index()
    seconds = series.index.ceil("s").as_unit("s").asi8
    known = series.notna().to_numpy()
    if not known.any():
        raise ValueError(f"{helper} found no price in prices: all {len(series)} are missing")
    steps = np.diff(seconds)
    step = float(np.median(steps)) if len(steps) else None
    _tell_gaps(helper, series, steps, step)
    # Transactions have whole seconds. Of prices in the same second, the last one counts.
    starts = pd.Series(series.to_numpy()[known], index=seconds[known]).groupby(level=0).last()
    return Currency(
        currency, tuple(amounts), tuple(map(int, starts.index)), tuple(starts.tolist()), step
    )


def _moments(prices: pd.Series[Any]) -> pd.DatetimeIndex:
    index: Any = prices.index
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    elif pd.api.types.infer_dtype(index) not in _MOMENTS:
        raise TypeError(
            f"the index of prices is {index.dtype}, not dates or moments: convert it, with "
            "prices.index = pd.to_datetime(prices.index)"
        )
    try:
        moments = pd.DatetimeIndex(pd.to_datetime(index))
    except (TypeError, ValueError) as error:
        raise TypeError(f"the index of prices has no dates or moments: {error}") from None
    if moments.hasnans:
        raise ValueError(
            f"{int(np.isnat(moments.to_numpy()).sum())} prices have no date (NaT): leave them out"
        )
    moments = moments.tz_localize("UTC") if moments.tz is None else moments.tz_convert("UTC")
    if moments.has_duplicates:
        twice = moments[moments.duplicated()]
        raise ValueError(
            f"prices has {twice.nunique()} moments more than once, the first "
            f"{_text(twice.min())}: keep one price of each, with prices.groupby(level=0).last()"
        )
    return moments


def _number(value: Any, at: Any) -> float:
    if value is None or value is pd.NA or value is pd.NaT:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError(
            f"the price at {at} is {shorten(value)}, not a number: convert texts with "
            "pd.to_numeric(prices)"
        )
    number = float(value)
    if number <= 0 or math.isinf(number):
        raise ValueError(
            f"the price at {at} is {shorten(value)}: a price is more than 0 and finite. Replace "
            "unknown prices by NaN"
        )
    return number


def _tell_gaps(helper: str, prices: pd.Series[float], steps: Any, step: float | None) -> None:
    gap: Any = [] if step is None else np.flatnonzero(steps > _LONG * step)
    longer = f"followed by a gap longer than the usual step of {_length(step or 0)}"
    places = {"missing": np.flatnonzero(prices.isna()), longer: gap}
    doubts = [
        f"{len(at)} {'is' if len(at) == 1 else 'are'} {what}, the first "
        f"{_text(prices.index[at[0]])}"
        for what, at in places.items()
        if len(at)
    ]
    if doubts:
        told = "; ".join(doubts)
        warn(f"{helper}: of {len(prices)} prices, {told}. There the price before is used")


def _length(seconds: float) -> str:
    days, rest = divmod(seconds, 86_400)
    if not days or rest:
        return f"{seconds:g} s"
    return "1 day" if days == 1 else f"{days:g} days"


def _text(moment: Any) -> str:
    return str(moment).removesuffix("+00:00").removesuffix(" 00:00:00")


def with_price_at(
    rows: Frame, currency: Currency | None, seconds: str, *, helper: str, in_memory: bool
) -> Frame:
    """Add `PRICE`, the price in force at a unix second; without a currency, add nothing.

    After the year 9999 there is no price. If the rows are in memory, warn of those then, before the
    first price, or too long after the last one. To find them in a lazy frame would compute it.
    """
    if currency is None:
        return rows
    if in_memory:
        _tell_outside(rows, currency, seconds, helper)
    return engines.look_up(rows, seconds, currency.starts, currency.prices, PRICE, end=LAST + 1)


def _tell_outside(rows: Frame, currency: Currency, seconds: str, helper: str) -> None:
    first, last, step = currency.starts[0], currency.starts[-1], currency.step
    since, until = (_text(pd.Timestamp(at, unit="s")) for at in (first, last))
    at = rows.select(nw.col(seconds).cast(nw.Int64).alias("at")).collect()["at"].drop_nulls()
    if early := int((at < first).sum()):
        warn(
            f"{helper}: {early} rows are before the first price, of {since}: their "
            f"amounts in {currency.name} are null"
        )
    if never := int((at > LAST).sum()):
        warn(
            f"{helper}: {never} rows are after the year 9999: their amounts in {currency.name} are "
            "null"
        )
    # pyarrow compares integers beyond 2^53 with integers only.
    if step is not None and (late := int((at > last + math.floor(step)).sum()) - never):
        warn(
            f"{helper}: {late} rows are more than {_length(step)}, the usual step "
            f"between prices, after the last price, of {until}, which is used for them"
        )
