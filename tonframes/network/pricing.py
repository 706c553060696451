"""What gas and messages cost, by the price history: for what has not happened yet, or not so.

For what has happened the chain says what it cost; `price_of` tells which prices
that was by. All amounts are nanoton, all arithmetic is in integers.

Source: mc-config.h and transaction.cpp of the TON monorepo
(https://github.com/ton-blockchain/ton). Where the documentation of TON computes differently, the
node is right: it rounds fees up.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from tonframes.errors import shorten
from tonframes.network.prices import PRICES, Prices

#: A moment: a datetime with its time zone, unix seconds, or ISO text, in UTC if it names no zone.
Moment: TypeAlias = datetime | int | str


def gas_fee(
    gas_used: int,
    *,
    workchain: int = 0,
    at: Moment | None = None,
    prices: Iterable[Prices] | None = None,
) -> int:
    """Price the gas that a transaction uses.

    Parameters
    ----------
    gas_used
        Gas.
    workchain
        The account's: 0 basechain, -1 masterchain.
    at
        When: a datetime with its time zone, unix seconds, or ISO text (UTC if it names no zone).
        None is by the newest prices.
    prices
        The price history: yours, if the network is not mainnet or the prices have changed since.
        None is `tonframes.network.prices.PRICES`, the history of mainnet.

    Returns
    -------
    The fee of the compute phase, in nanoton. Special accounts pay none.

    Raises
    ------
    ValueError
        Less than no gas; or no known price fits: the moment lies between two rows of the history,
        or there is none of that workchain.

    Notes
    -----
    ``flat_gas_price + ceil((gas_used - flat_gas_limit) * gas_price / 2^16)``; what is below the
    flat limit costs the flat price (`ComputePhaseConfig::compute_gas_price`).

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
    """Count the gas that an amount pays for.

    A message buys its receiver this much, if what the account has can pay for it too: that is
    `compute_gas_limit`.

    Parameters
    ----------
    amount
        Nanoton: of a message, what is left of its value after rent.
    workchain, at, prices
        As for `gas_fee`.

    Returns
    -------
    Gas: 0 for less than the flat price, and never more than the limit of one transaction.

    Raises
    ------
    ValueError
        A negative amount; or no known price fits, as for `gas_fee`.

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
    """Price a message by its size.

    Parameters
    ----------
    cells, bits
        Distinct cells of the message and the bits in them, its root cell left out. A body or an
        init state that lies in the root counts with what it refers to only.
    workchain
        -1 if the sender or the receiver is in the masterchain; of an external message, the
        account's.
    at, prices
        As for `gas_fee`.

    Returns
    -------
    The whole forwarding fee, in nanoton. The sending transaction collects a part of it, the
    `fwd_fee` of the message is the rest (`split_forward_fee`). Special accounts pay none.

    Raises
    ------
    ValueError
        A negative size; or no known price fits, as for `gas_fee`.

    Notes
    -----
    ``lump_price + ceil((bit_price * bits + cell_price * cells) / 2^16)``
    (`MsgPrices::compute_fwd_fees`). Instant routing, in use never, cost half as much again on top.

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
    """Split the forwarding fee of an internal message in two.

    Parameters
    ----------
    fee
        The whole fee, as from `forward_fee`.
    workchain, at, prices
        As for `forward_fee`.

    Returns
    -------
    What the sending transaction collects, among its action fees; and what travels with the
    message, its `fwd_fee`. Messages to outside the chain have no second part: all is collected.

    Raises
    ------
    ValueError
        A negative fee; or no known price fits, as for `gas_fee`.

    Notes
    -----
    The way back is not exact: two fees that are 1 nanoton apart may travel as the same `fwd_fee`.

    Examples
    --------
    >>> split_forward_fee(66_667)
    (22221, 44446)
    """
    fee = _natural(fee, "fee")
    collected = fee * prices_at(at, workchain=workchain, prices=prices).first_frac >> 16
    return collected, fee - collected


def prices_at(
    at: Moment | None = None,
    *,
    workchain: int = 0,
    prices: Iterable[Prices] | None = None,
) -> Prices:
    """Find the prices that were in force.

    Parameters
    ----------
    at, workchain, prices
        As for `gas_fee`.

    Returns
    -------
    The row of the history: the newest if `at` is None, or if the moment is within several.

    Raises
    ------
    ValueError
        No known price fits: the moment lies between two rows, for the block of a change is not on
        record, or there is no row of that workchain; or the moment has no time zone, or is none.

    Examples
    --------
    >>> prices_at("2024-01-01").name
    'basechain until April 2024'
    >>> prices_at("2024-04-20")
    Traceback (most recent call last):
    ValueError: no known price fits workchain 0 at 2024-04-20 00:00:00+00:00: ...
    """
    rows = [row for row in checked_prices(prices) if row.workchain == workchain]
    rows.sort(key=lambda row: (row.valid_from is not None, row.valid_from))
    second = None if at is None else _second(at)
    fitting = [row for row in rows if second is None or _holds(row, second)]
    if fitting:
        return fitting[-1]
    known = "; ".join(f"{row.name!r} {_span(row)}" for row in rows) or "no rows"
    when = "" if second is None else f" at {datetime.fromtimestamp(second, UTC)}"
    raise ValueError(
        f"no known price fits workchain {shorten(workchain)}{when}: of it the price history has "
        f"{known}. Pass prices= with a row that does"
    )


def checked_prices(prices: Iterable[Prices] | None) -> tuple[Prices, ...]:
    """Check a price history; None is that of mainnet."""
    if prices is None:
        return PRICES
    rows = tuple(prices) if isinstance(prices, Iterable) else (prices,)
    for row in rows:
        if not isinstance(row, Prices):
            raise TypeError(
                f"prices are rows of tonframes.network.prices.Prices, not {shorten(row)}"
            )
    if not rows:
        raise ValueError("a price history has at least one row of tonframes.network.prices.Prices")
    return rows


def _gas_fee(gas: int, row: Prices) -> int:
    beyond = max(0, gas - row.flat_gas_limit)
    return row.flat_gas_price + _rounded_up(beyond * row.gas_price)


def _rounded_up(fixed: int) -> int:
    """Round a fixed-point number with 16 fractional bits up."""
    return -(-fixed >> 16)


def _holds(row: Prices, second: int) -> bool:
    begun = row.valid_from is None or row.valid_from <= second
    return begun and (row.valid_until is None or second <= row.valid_until)


def _span(row: Prices) -> str:
    ends = (("from", row.valid_from), ("until", row.valid_until))
    known = [f"{word} {datetime.fromtimestamp(end, UTC)}" for word, end in ends if end is not None]
    return " ".join(known) or "at all times"


def _second(at: Moment) -> int:
    """Check a moment and give its unix second."""
    if isinstance(at, str):
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            raise ValueError(f"a moment as text is in ISO form, not {shorten(at)}") from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{at} has no time zone: it may mean any")
        return int(at.timestamp())
    if isinstance(at, bool) or not hasattr(at, "__index__"):
        raise TypeError(
            "a moment is a datetime with its time zone, unix seconds as an int, or ISO text, not "
            f"{shorten(at)}"
        )
    try:
        return int(datetime.fromtimestamp(operator.index(at), UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{shorten(at)} is no moment in unix seconds") from None


def _natural(value: int, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is an int, not {shorten(value)}")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{name} cannot be less than 0: it is {shorten(number)}")
    return number
