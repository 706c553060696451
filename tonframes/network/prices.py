"""The price history of mainnet, and what gas and messages cost by it.

Amounts are nanoton. `gas_price`, `bit_price` and `cell_price` are fixed-point numbers with 16
fractional bits (nanoton times 2^16), as in the configuration of the network; so is `first_frac`.

Source of the rows: configuration cells of mainnet as recorded in ton-org/sandbox,
`src/config/defaultConfig.ts`, at many dates from November 2022 to June 2026. Parameters: 20 and 21
(gas), 24 and 25 (messages), 18 (storage), of the masterchain and the basechain. The validators
can vote for a price change at any time, so there may be a newer one than the last row; and other
networks have other prices. That is why functions take the history as an argument.

The functions are for estimates: the data already contains what a recorded transaction cost, and
`price_of` finds the prices that it paid. All arithmetic is in integers. Source: mc-config.h and
transaction.cpp of the TON monorepo (https://github.com/ton-blockchain/ton). The documentation of
TON differs from them in places; the node is right, and it rounds fees up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from tonframes.errors import shorten
from tonframes.moments import parse_moment

#: A moment: a datetime with a time zone, unix seconds, or text (UTC if it names no time zone).
Moment: TypeAlias = datetime | date | int | str

#: The gas limit of one transaction of an ordinary account, the same in every row.
GAS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """One row of the price history of gas and messages.

    Attributes
    ----------
    name
        A name for people to read.
    workchain
        The workchain that the prices are for: -1 masterchain, 0 basechain.
    valid_from, valid_until
        Unix seconds of the first and the last moment at which the row is known to have been in
        force; None if there is no such limit. The exact blocks of the price changes are not on
        record: between `valid_until` of one row and `valid_from` of the next, either row may
        apply. A shard block uses the prices of the masterchain block that it refers to, so for a
        moment after a change two shards may use different prices.
    flat_gas_limit, flat_gas_price
        The first `flat_gas_limit` units of gas cost `flat_gas_price` together, used or not.
    gas_price
        Price of each further unit of gas.
    gas_limit, special_gas_limit
        The gas limit of one transaction, for ordinary and for special accounts.
    gas_credit
        Gas that an external message may use before the contract accepts to pay for it.
    freeze_due_limit, delete_due_limit
        Storage debt above which an account is frozen, or deleted.
    lump_price, bit_price, cell_price
        Forwarding: a message costs `lump_price`, plus these prices for the bits and cells below
        its root cell.
    first_frac
        Share of the forwarding fee that the sending transaction collects.
    """

    name: str
    workchain: int
    valid_from: int | None
    valid_until: int | None
    flat_gas_limit: int
    flat_gas_price: int
    gas_price: int
    gas_limit: int = GAS_LIMIT
    special_gas_limit: int = 1_000_000
    gas_credit: int = 10_000
    freeze_due_limit: int = 100_000_000
    delete_due_limit: int = 1_000_000_000
    lump_price: int
    bit_price: int
    cell_price: int
    first_frac: int = 21_845


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePrices:
    """One entry of the storage prices (configuration parameter 18), for all workchains.

    Attributes
    ----------
    valid_from
        Unix second from which the entry applies, as stated in the configuration itself.
    bit_price, cell_price
        Price of one bit, or one cell, for one second, on the basechain.
    mc_bit_price, mc_cell_price
        The same for the masterchain.
    """

    valid_from: int
    bit_price: int
    cell_price: int
    mc_bit_price: int = 1_000
    mc_cell_price: int = 500_000


BASECHAIN = (
    # In every configuration from November 2022 to masterchain block 36964449 (27 March 2024);
    # transactions up to block 37311815 paid these prices.
    Prices(
        name="basechain until April 2024",
        workchain=0,
        valid_from=None,
        valid_until=1_713_189_438,  # 2024-04-15 13:57:18Z, block 37311815
        flat_gas_limit=100,
        flat_gas_price=100_000,
        gas_price=65_536_000,  # 1000 nanoton
        lump_price=1_000_000,
        bit_price=65_536_000,
        cell_price=6_553_600_000,
    ),
    # First seen in the configuration of block 37471063. Its end was announced on 23 April 2026, and
    # transactions of block 62206707 on the same day still paid these prices.
    Prices(
        name="basechain from April 2024",
        workchain=0,
        valid_from=1_713_830_400,  # 2024-04-23, configuration recorded
        valid_until=1_776_935_867,  # 2026-04-23 09:17:47Z, block 62206707
        flat_gas_limit=100,
        flat_gas_price=40_000,
        gas_price=26_214_400,  # 400 nanoton
        lump_price=400_000,
        bit_price=26_214_400,
        cell_price=2_621_440_000,
    ),
    # First seen in fees of 3 May 2026, and in the configuration recorded on 4 May. Its storage
    # prices apply since 29 April. These prices are not multiples of 2^16, so from here on rounding
    # up matters.
    Prices(
        name="basechain from May 2026",
        workchain=0,
        valid_from=1_777_813_238,  # 2026-05-03 13:00:38Z, first fees on record
        valid_until=None,
        flat_gas_limit=100,
        flat_gas_price=6_667,
        gas_price=4_369_067,  # 66.6667 nanoton
        lump_price=66_667,
        bit_price=4_369_067,
        cell_price=436_906_667,
    ),
)

MASTERCHAIN = (
    # The same in every configuration from November 2022 to June 2026, except for the limit of
    # special accounts: 20 million in 2022, 35 million from 2023, 70 million from 2025.
    Prices(
        name="masterchain",
        workchain=-1,
        valid_from=None,
        valid_until=None,
        flat_gas_limit=100,
        flat_gas_price=1_000_000,
        gas_price=655_360_000,  # 10 000 nanoton
        special_gas_limit=70_000_000,
        lump_price=10_000_000,
        bit_price=655_360_000,
        cell_price=65_536_000_000,
    ),
)

#: All rows, the oldest first within each workchain.
PRICES = BASECHAIN + MASTERCHAIN

STORAGE = (
    StoragePrices(valid_from=0, bit_price=1, cell_price=500),
    StoragePrices(valid_from=1_777_500_000, bit_price=0, cell_price=135),  # 2026-04-29 22:00:00Z
)

#: Special accounts of the masterchain, which pay neither rent nor gas: the configuration contract
#: (parameter 0), and those in parameter 31 (`fundamental_smc_addr`) of June 2026 and before. A few
#: others were special earlier, or are since June 2026.
SPECIAL = (
    "-1:0000000000000000000000000000000000000000000000000000000000000000",
    "-1:3333333333333333333333333333333333333333333333333333333333333333",  # the elector
    "-1:4D5C0210B35DADDAA219FAC459DBA0FDEFB1FAE4E97A0D0797739FE050D694CA",
    "-1:5555555555555555555555555555555555555555555555555555555555555555",  # the configuration
    "-1:DD24C4A1F2B88F8B7053513B5CC6C5A31BC44B2A72DCB4D8C0338AF0F0D37EC5",
    "-1:EAD7DA389BDE317C5FB285807CE507BAAD31C35FE5534B3C418785E901F64C68",
)


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
    The whole forwarding fee, in nanoton. The sending transaction collects ``fee * first_frac //
    2^16`` of it as action fees, a third; the rest is the `fwd_fee` of the message. For a message to
    the outside, it collects the whole fee. Special accounts pay none.

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


def prices_at(
    at: Moment | None = None, *, workchain: int = 0, prices: Iterable[Prices] | None = None
) -> Prices:
    """Return the prices that were in force at a moment; the newest if several rows cover it."""
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
    """List the prices that may have been in force at a unix second.

    Between two rows of the history these are both: the moment of the price change is not on record.
    Before the first row and after the last one there are none.
    """
    rows = _in_order(prices, workchain)
    if fitting := [row for row in rows if _holds(row, second)]:
        return fitting
    ended = [row for row in rows if row.valid_until is not None and row.valid_until < second]
    begun_later = [row for row in rows if row.valid_from is not None and row.valid_from > second]
    return [ended[-1], begun_later[0]] if ended and begun_later else []


def checked_prices(prices: Iterable[Prices] | None = None) -> tuple[Prices, ...]:
    """Return the rows of a price history, or raise an error if they are not rows of prices."""
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
