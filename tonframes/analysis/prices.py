"""The prices at which transactions paid for their gas."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results
from tonframes.analysis.expressions import first_match, one_if
from tonframes.analysis.phases import GAS, with_gas
from tonframes.network.prices import checked_prices
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks
    from tonframes.network.prices import Prices


@overload
def price_of(transactions: Blocks, *, prices: Iterable[Prices] | None = ...) -> pd.DataFrame: ...
@overload
def price_of(transactions: AnyFrame, *, prices: Iterable[Prices] | None = ...) -> AnyFrame: ...
def price_of(transactions: AnyFrame, *, prices: Iterable[Prices] | None = None) -> AnyFrame:
    """Find the prices at which each transaction paid for its gas.

    Parameters
    ----------
    transactions
        A frame of any engine, of our tables or of the public lake, or a `Blocks`.
        `tonframes.analysis.gas.GAS` names the columns; now is needed as well.
    prices
        The price history. None means `tonframes.network.prices.PRICES`, the history of mainnet.
        Pass your own if the network is not mainnet, or if the prices have changed.

    Returns
    -------
    A frame of the same engine with a row for each transaction (on pandas with its index):

    - hash: the transaction.
    - price: name of the row of the history whose prices give its gas fee, to the nanoton.
    - reason: why `price` is null:

      - skipped: the contract was not run.
      - free: gas of special accounts costs nothing.
      - none: no known price fits. The prices have changed, or the network is not mainnet.
      - several: more than one row of the history fits.
      - unknown: the compute phase is missing.

    Notes
    -----
    The time does not determine the price. The block of a price change is not on record, and a shard
    uses the prices of the masterchain block that it refers to, so two shards may use different
    prices for a moment. Each row of the account's workchain is tried. If several fit, those in
    force at `now` are preferred. Two rows of `PRICES` never fit the same fee: of any two, one is
    higher for every amount of gas.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> found = price_of(read_blocks(sample()))
    >>> found.price.value_counts().to_dict()
    {'basechain from May 2026': 2322, 'masterchain': 6}
    >>> found.reason.value_counts().to_dict()
    {'free': 363, 'skipped': 309}
    """
    rows = intake.take(transactions, "price_of", TRANSACTIONS, (*GAS, "now"))
    rows = intake.numbered(rows, transactions)
    tried = functools.partial(_tried, prices=checked_prices(prices))
    return intake.give(engines.by_row(rows, tried), transactions, results.PRICE_OF.names())


def _tried(rows: Frame, prices: Sequence[Prices]) -> Frame:
    # Columns, because most engines evaluate an expression as often as it is written.
    merits = [f"merit_{place}" for place in range(len(prices))]
    rows = with_gas(rows).with_columns(
        _merit(row).alias(merit) for row, merit in zip(prices, merits, strict=True)
    )
    best = nw.col("best")
    rows = rows.with_columns(best=nw.max_horizontal(*merits))
    rows = rows.with_columns(fitting=_total([one_if(nw.col(name) == best) for name in merits]))
    rows = rows.with_columns(reason=_reason())
    price: nw.Expr = nw.when(best < 0).then(nw.lit(""))
    for row, merit in zip(prices, merits, strict=True):
        this = (nw.col(merit) == best) & nw.col("reason").is_null()
        price = nw.when(this).then(nw.lit(row.name)).otherwise(price)
    return rows.with_columns(price=price)


def _merit(row: Prices) -> nw.Expr:
    """Return 1 if a row of the history gives the fee, 2 if it was also in force, 0 if not."""
    earliest = 0 if row.valid_from is None else row.valid_from
    latest = 2**62 if row.valid_until is None else row.valid_until
    in_force = (nw.col("now") >= earliest) & (nw.col("now") <= latest)
    fits = _fits(row)
    return one_if(fits) + one_if(fits & in_force)


def _fits(row: Prices) -> nw.Expr:
    """Return whether the gas fee is the flat price plus the rounded price of the rest.

    Spark divides integers through a double, so this uses products: ``f == ceil(x / 2^16)`` means
    ``f * 2^16 >= x`` and ``(f - 1) * 2^16 < x``. The network has no numbers that overflow here.
    """
    gas = _within("gas", 2**62 // max(1, row.gas_price))
    beyond = nw.when(gas > row.flat_gas_limit).then(gas - row.flat_gas_limit)
    fixed = nw.when(gas <= row.flat_gas_limit).then(nw.lit(0)).otherwise(beyond) * row.gas_price
    fee = _within("compute_gas_fees", 2**46) - row.flat_gas_price
    own = nw.col("block_workchain") == row.workchain
    return own & (fee * 2**16 >= fixed) & ((fee - 1) * 2**16 < fixed)


def _within(name: str, most: int) -> nw.Expr:
    return nw.when((nw.col(name) >= 0) & (nw.col(name) <= most)).then(nw.col(name))


def _reason() -> nw.Expr:
    """Return the first reason why there is not exactly one price."""
    lacking = nw.col("gas").is_null() | nw.col("compute_gas_fees").is_null()
    reasons = {
        "skipped": nw.col("skipped"),
        "free": nw.col("free"),
        "unknown": lacking,
        "none": nw.col("best") == 0,
        "several": nw.col("fitting") > 1,
    }
    return first_match(*((holds, nw.lit(name)) for name, holds in reasons.items()))


def _total(numbers: Sequence[nw.Expr]) -> nw.Expr:
    return functools.reduce(operator.add, numbers)
