"""Compute what gas and messages cost, from the price history.

This is for estimates. The data already contains what a recorded transaction cost, and `price_of`
finds the prices that it paid. All amounts are nanoton; all arithmetic is in integers.

Source: mc-config.h and transaction.cpp of the TON monorepo
(https://github.com/ton-blockchain/ton). The documentation of TON differs from them in places; the
node is right, and it rounds fees up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TypeAlias

from tonframes.errors import shorten
from tonframes.moments import parse_moment
from tonframes.network.prices import PRICES, Prices

#: A moment: a datetime with a time zone, unix seconds, or text (UTC if it names no time zone).
Moment: TypeAlias = datetime | date | int | str


def gas_fee(
    gas_used: int,
    *,
    workchain: int = 0,
    at: Moment | None = None,
    prices: Iterable[Prices] | None = None,
) -> int:
    """Return the fee for an amount of gas.

    Parameters
    ----------
    gas_used
        Gas that the transaction uses.
    workchain
        Workchain of the account: 0 basechain, -1 masterchain.
    at
        Moment of the transaction: a datetime with a time zone, unix seconds, or text such as
        ``"2025-01-01"`` (UTC if it names no time zone). None means the newest prices.
    prices
        The price history: rows of `tonframes.network.prices.Prices`. None means the history of
        mainnet that this version contains (`tonframes.network.prices.PRICES`). Pass your own for
        another network, or after a price change.

    Returns
    -------
    The fee of the compute phase, in nanoton. Special accounts pay none.

    Raises
    ------
    ValueError
        `gas_used` is negative; `at` is not a valid moment; `prices` is empty; or no known price
        fits: the moment is between two rows of the history, or the history has no row for that
        workchain.
    TypeError
        `gas_used` is not an integer, `at` is not a moment, or `prices` has other rows than
        `Prices`.

    Notes
    -----
    ``flat_gas_price + ceil((gas_used - flat_gas_limit) * gas_price / 2^16)``. Gas up to the flat
    limit costs the flat price (`ComputePhaseConfig::compute_gas_price`).

    Examples
    --------
    >>> gas_fee(3308)
    220534
    >>> gas_fee(3308, at="2025-01-01"), gas_fee(3308, workchain=-1)
    (1323200, 33080000)
    """
    gas = _natural(gas_used, "gas_used")
    return _gas_fee(gas, prices_at(at, workchain=workchain, prices=prices))


def gas_bought(
    amount: int,
    *,
    workchain: int = 0,
    at: Moment | None = None,
    prices: Iterable[Prices] | None = None,
) -> int:
    """Return the gas that an amount pays for.

    This is the gas limit of the transaction that a message starts (`compute_gas_limit`), unless
    the balance of the account pays for less.

    Parameters
    ----------
    amount
        Nanoton; for a message, the rest of its value after the storage fee.
    workchain, at, prices
        As in `gas_fee`.

    Returns
    -------
    Gas: 0 for less than the flat price, and at most the limit of one transaction.

    Raises
    ------
    ValueError
        `amount` is negative; or no known price fits, as in `gas_fee`.

    Notes
    -----
    Source: `ComputePhaseConfig::gas_bought_for`. A few wallets had higher limits, the last of them
    until 1 March 2025 (`override_gas_limit`).

    Examples
    --------
    >>> gas_bought(220_534), gas_bought(6_666), gas_bought(10**9)
    (3308, 0, 1000000)
    """
    amount = _natural(amount, "amount")
    row = prices_at(at, workchain=workchain, prices=prices)
    if amount < row.flat_gas_price:
        return 0
    if amount >= _gas_fee(row.gas_limit, row):
        return row.gas_limit
    return row.flat_gas_limit + ((amount - row.flat_gas_price) << 16) // row.gas_price


def forward_fee(
    cells: int,
    bits: int,
    *,
    workchain: int = 0,
    at: Moment | None = None,
    prices: Iterable[Prices] | None = None,
) -> int:
    """Return the fee for forwarding a message of a given size.

    Parameters
    ----------
    cells, bits
        Number of distinct cells of the message and of the bits in them, without the root cell. If
        the body or the initial state is in the root cell, only the cells that it refers to count.
    workchain
        -1 if the sender or the receiver is on the masterchain. For an external message, the
        workchain of the account.
    at, prices
        As in `gas_fee`.

    Returns
    -------
    The whole forwarding fee, in nanoton. The sending transaction collects a part of it; the rest
    is the `fwd_fee` of the message (`split_forward_fee`). Special accounts pay none.

    Raises
    ------
    ValueError
        `cells` or `bits` is negative; or no known price fits, as in `gas_fee`.

    Notes
    -----
    ``lump_price + ceil((bit_price * bits + cell_price * cells) / 2^16)``
    (`MsgPrices::compute_fwd_fees`). Instant hypercube routing would cost another 150 % of this;
    it was never in use.

    Examples
    --------
    >>> forward_fee(0, 0), forward_fee(1, 100)
    (66667, 80001)
    """
    cells, bits = _natural(cells, "cells"), _natural(bits, "bits")
    row = prices_at(at, workchain=workchain, prices=prices)
    return row.lump_price + _rounded_up(row.bit_price * bits + row.cell_price * cells)


def split_forward_fee(
    fee: int,
    *,
    workchain: int = 0,
    at: Moment | None = None,
    prices: Iterable[Prices] | None = None,
) -> tuple[int, int]:
    """Split the forwarding fee of an internal message into its two parts.

    Parameters
    ----------
    fee
        The whole fee, as from `forward_fee`.
    workchain, at, prices
        As in `forward_fee`.

    Returns
    -------
    The part that the sending transaction collects as action fees, and the part that travels with
    the message (`fwd_fee`). For a message to the outside, the sending transaction collects the
    whole fee instead.

    Raises
    ------
    ValueError
        `fee` is negative; or no known price fits, as in `gas_fee`.

    Notes
    -----
    `fwd_fee` does not determine the whole fee: two fees that differ by 1 nanoton may have the same
    `fwd_fee`.

    Examples
    --------
    >>> split_forward_fee(66_667)
    (22221, 44446)
    """
    fee = _natural(fee, "fee")
    collected = fee * prices_at(at, workchain=workchain, prices=prices).first_frac >> 16
    return collected, fee - collected


def prices_at(
    at: Moment | None = None, *, workchain: int = 0, prices: Iterable[Prices] | None = None
) -> Prices:
    """Return the prices that were in force at a moment.

    Parameters
    ----------
    at, workchain, prices
        As in `gas_fee`.

    Returns
    -------
    The row of the history; the newest if `at` is None, or if several rows cover the moment.

    Raises
    ------
    ValueError
        No known price fits: the moment is between two rows, because the block of a price change
        is not on record, or the history has no row for that workchain. Or `at` has no time zone,
        or is not a moment.

    Examples
    --------
    >>> prices_at("2024-01-01").name
    'basechain until April 2024'
    >>> prices_at("2024-04-20")
    Traceback (most recent call last):
    ValueError: no known price fits workchain 0 at 2024-04-20 00:00:00+00:00: ...
    """
    rows = _in_order(checked_prices(prices), workchain)
    second = None if at is None else _second(at)
    fitting = [row for row in rows if second is None or _holds(row, second)]
    if fitting:
        return fitting[-1]
    known = "; ".join(f"{row.name!r} {_span(row)}" for row in rows) or "no rows"
    when = "" if second is None else f" at {datetime.fromtimestamp(second, UTC)}"
    raise ValueError(
        f"no known price fits workchain {shorten(workchain)}{when}: the price history has {known} "
        "for this workchain. Pass prices= with a row that fits"
    )


def possible_prices(second: int, *, workchain: int, prices: Iterable[Prices]) -> list[Prices]:
    """List the prices that may have been in force at a moment.

    Between two rows of the history these are both: the moment of the price change is not on record.
    Before the first row and after the last one there are none.

    Parameters
    ----------
    second
        Unix second.
    workchain
        Workchain of the account.
    prices
        The price history.
    """
    rows = _in_order(prices, workchain)
    if fitting := [row for row in rows if _holds(row, second)]:
        return fitting
    ended = [row for row in rows if row.valid_until is not None and row.valid_until < second]
    begun_later = [row for row in rows if row.valid_from is not None and row.valid_from > second]
    return [ended[-1], begun_later[0]] if ended and begun_later else []


def checked_prices(prices: Iterable[Prices] | None = None) -> tuple[Prices, ...]:
    """Return the rows of a price history, or raise an error if they are not rows of prices.

    Parameters
    ----------
    prices
        Rows of `tonframes.network.prices.Prices`, as any iterable: a generator is read once, here.
        A single row is a history as well. None means mainnet's history, `PRICES`.

    Raises
    ------
    TypeError
        A row is not of `Prices`.
    ValueError
        There is no row.
    """
    if prices is None:
        return PRICES
    rows = tuple(prices) if isinstance(prices, Iterable) else (prices,)
    for row in rows:
        if not isinstance(row, Prices):
            raise TypeError(
                f"prices must be rows of tonframes.network.prices.Prices, not {shorten(row)}"
            )
    if not rows:
        raise ValueError(
            "prices is empty; a price history has at least one row of "
            "tonframes.network.prices.Prices. Leave prices out for the history of mainnet"
        )
    return rows


def _gas_fee(gas: int, row: Prices) -> int:
    beyond = max(0, gas - row.flat_gas_limit)
    return row.flat_gas_price + _rounded_up(beyond * row.gas_price)


def _rounded_up(fixed: int) -> int:
    """Round up a fixed-point number with 16 fractional bits."""
    return -(-fixed >> 16)


def _in_order(prices: Iterable[Prices], workchain: int) -> list[Prices]:
    """List the rows of a workchain, the oldest first."""
    rows = [row for row in prices if row.workchain == workchain]
    return sorted(rows, key=lambda row: (row.valid_from is not None, row.valid_from))


def _holds(row: Prices, second: int) -> bool:
    begun = row.valid_from is None or row.valid_from <= second
    return begun and (row.valid_until is None or second <= row.valid_until)


def _span(row: Prices) -> str:
    ends = (("from", row.valid_from), ("until", row.valid_until))
    known = [f"{word} {datetime.fromtimestamp(end, UTC)}" for word, end in ends if end is not None]
    return " ".join(known) or "at all times"


def _second(at: Moment) -> int:
    """Return the unix second of a moment, or raise an error if it is not a moment."""
    if isinstance(at, date | str):  # a datetime is a date
        return math.floor(parse_moment(at, "at").timestamp())
    if isinstance(at, bool) or not hasattr(at, "__index__"):
        raise TypeError(
            "at is a datetime with a time zone, unix seconds as an int, or text such as "
            f"2026-05-28T20:28, not {shorten(at)}"
        )
    try:
        return int(datetime.fromtimestamp(operator.index(at), UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"at is not a moment in unix seconds: {shorten(at)}") from None


def _natural(value: int, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {shorten(value)}")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{name} must not be negative: it is {shorten(number)}")
    return number
