"""The user's prices of 1 TON in a currency, and the amounts that they are applied to."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd

from tonframes.analysis import engines
from tonframes.analysis.expressions import as_float, divided
from tonframes.errors import shorten, warn
from tonframes.wire.codec import LAST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.analysis.declaration import Result
    from tonframes.analysis.engines import Frame

#: The column with the price of 1 TON at the moment of a row. Results do not have it.
PRICE = "price_of_ton"
#: The column that counts the rows whose price is unknown. Results do not have it either.
UNPRICED = "rows_without_price"

_NANOTON = 10**9  # in a TON
#: A step between prices that is longer than the usual one by this factor is a gap.
LONG = 1.5
_MOMENTS = ("datetime", "datetime64", "date")  # what pandas infers


@dataclass(frozen=True, eq=False)
class Currency:
    """The prices of 1 TON in a currency, and names of columns of amounts to convert with them."""

    name: str
    amounts: tuple[str, ...]
    starts: tuple[int, ...]
    """From which unix second on each price is in force; sorted."""
    prices: tuple[float, ...]
    step: float | None
    """The usual number of seconds between two prices; None if there is one price."""

    @property
    def suffix(self) -> str:
        """What is added to the name of an amount in nanoton."""
        return f"_{self.name.lower()}"

    @property
    def columns(self) -> list[str]:
        """The names of the amounts in the currency."""
        return [f"{amount}{self.suffix}" for amount in self.amounts]


# ── reading prices ───────────────────────────────────────────────────────────────────────────────


def read_prices(
    helper: str, prices: object | None, currency: str, amounts: Sequence[str]
) -> Currency | None:
    """Check the prices that a user passed. Without prices there is no currency.

    Parameters
    ----------
    helper
        Name of the function that the user called, for messages.
    prices
        A pandas Series of numbers, indexed by dates, moments or periods; or None.
    currency
        What the prices are in, such as "USD".
    amounts
        Names of the columns of amounts to convert.

    Raises
    ------
    TypeError
        `prices` is not such a Series, or `currency` is not text.
    ValueError
        A moment is in the index twice, a price is not a positive number, or there is no price.
    """
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
    series = pd.Series(_numbers(prices), index=_moments(prices)).sort_index()
    known = series.dropna()
    if known.empty:
        raise ValueError(f"{helper} found no price in prices: all {len(series)} are missing")
    steps = np.diff(_seconds(series.index))
    step = float(np.median(steps)) if len(steps) else None
    _tell_gaps(helper, series, steps, step)
    # Transactions have whole seconds. Of prices in the same second, the last one counts.
    starts = pd.Series(known.to_numpy(), index=_seconds(known.index)).groupby(level=0).last()
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
            f"{_shown(twice.min())}: keep one price of each, with prices.groupby(level=0).last()"
        )
    return moments


def _numbers(prices: pd.Series[Any]) -> list[float]:
    return [_number(value, at) for at, value in prices.items()]


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


def _seconds(moments: Any) -> Any:
    return moments.ceil("s").as_unit("s").asi8


def _tell_gaps(helper: str, prices: pd.Series[float], steps: Any, step: float | None) -> None:
    told = []
    if absent := prices.index[prices.isna()].tolist():
        told.append(f"{len(absent)} {_are(absent)} missing, the first {_shown(absent[0])}")
    gaps = [] if step is None else np.flatnonzero(steps > LONG * step).tolist()
    if gaps:
        told.append(
            f"{len(gaps)} {_are(gaps)} followed by a gap longer than the usual step of "
            f"{_length(step)}, the first {_shown(prices.index[gaps[0]])}"
        )
    if told:
        warn(
            f"{helper}: of {len(prices)} prices, {'; '.join(told)}. There the price before is used"
        )


def _length(seconds: float | None) -> str:
    days, rest = divmod(seconds or 0, 86_400)
    if not days or rest:
        return f"{seconds:g} s"
    return "1 day" if days == 1 else f"{days:g} days"


def _are(found: Sequence[Any]) -> str:
    return "is" if len(found) == 1 else "are"


def _shown(moment: Any) -> str:
    return str(moment).removesuffix("+00:00").removesuffix(" 00:00:00")


# ── applying them ────────────────────────────────────────────────────────────────────────────────


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
    found = rows.select(nw.col(seconds).cast(nw.Int64).alias("at")).collect()["at"].drop_nulls()
    if early := int((found < first).sum()):
        warn(
            f"{helper}: {early} rows are before the first price, of {_moment(first)}: their "
            f"amounts in {currency.name} are null"
        )
    if never := int((found > LAST).sum()):
        warn(
            f"{helper}: {never} rows are after the year 9999: their amounts in {currency.name} are "
            "null"
        )
    # pyarrow compares integers beyond 2^53 with integers only.
    if step is not None and (late := int((found > last + math.floor(step)).sum()) - never):
        warn(
            f"{helper}: {late} rows are more than {_length(step)}, the usual step "
            f"between prices, after the last price, of {_moment(last)}, which is used for them"
        )


def _moment(seconds: int) -> str:
    return _shown(pd.Timestamp(seconds, unit="s"))


def in_currency(rows: Frame, name: str) -> nw.Expr:
    """Convert a column in nanoton at the prices in `PRICE`."""
    return divided(as_float(rows, name), _NANOTON) * nw.col(PRICE)


def names_of(result: Result, keys: Sequence[str], currency: Currency | None) -> list[str]:
    """List the columns of a result that is grouped by `keys`, with those in the currency."""
    return result.names(keys, "" if currency is None else currency.suffix)


def known(groups: Frame, currency: Currency) -> Frame:
    """Replace sums in the currency by null where the price of a row is unknown."""
    return engines.by_row(groups, partial(_known, names=currency.columns))


def _known(groups: Frame, names: Sequence[str]) -> Frame:
    unknown = nw.col(UNPRICED) > 0
    return groups.with_columns(
        nw.when(~unknown).then(nw.col(name)).alias(name) for name in names
    ).drop(UNPRICED)
