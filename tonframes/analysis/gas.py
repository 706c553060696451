"""How much gas transactions used, what it cost, and at which prices."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.expressions import as_float, first_match, one_if, ratio
from tonframes.analysis.grouping import take_grouped
from tonframes.analysis.phases import with_true_gas
from tonframes.errors import shorten
from tonframes.network.prices import GAS_LIMIT
from tonframes.network.pricing import checked_prices
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks
    from tonframes.network.prices import Prices

#: What `gas_summary` reads, and most of what the other functions here read.
GAS = (
    "hash",
    "block_workchain",
    "compute_skipped",
    "compute_gas_used",
    "compute_gas_fees",
    "compute_vm_steps",
)

_CODE = "account_state_code_hash_before"
_COUNTS, _AMOUNTS = ("calls", "skipped", "free"), ("gas_used", "gas_fees", "vm_steps")
_QUANTILES = {"gas_median": 50, "gas_p95": 95}


@overload
def gas_summary(
    transactions: Blocks, messages: None = None, *, by: str | Sequence[str] = ..., wide: bool = ...
) -> pd.DataFrame: ...
@overload
def gas_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
) -> AnyFrame: ...
def gas_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = (),
    wide: bool = False,
) -> AnyFrame:
    """Summarize how much gas groups of transactions use, and what it costs.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, of our tables or of the public lake, or a `Blocks` in place of both.
        `GAS` names the columns. Messages are only needed to group by their columns.
    by
        Columns to group by: of transactions (account_state_code_hash_before, account, …); of
        messages (opcode, …), then of the message that ran each transaction; or "hour", "day",
        "week" (from Monday) and "month", UTC. An empty list is one group.
    wide
        Return sums as decimal128(38, 0), which hold any sum, and not as int64.

    Returns
    -------
    A frame of the same engine with a row for each group, the largest gas_fees first. The exchange
    of gas and fees is undone (`undo_gas_exchange`).

    - the columns of `by`.
    - transactions: number of transactions.
    - calls: transactions in which the contract was run.
    - skipped: transactions of which the compute phase was skipped. Nothing is known of the rest.
    - free: calls of special accounts, whose gas is free.
    - gas_used: gas of all calls.
    - gas_mean, gas_median, gas_p95, gas_max: gas of one call. Median and 95th percentile are by
      nearest rank: the smallest gas that so many of the calls did not exceed.
    - gas_fees: nanoton, what the gas cost.
    - price_per_gas: nanoton, gas_fees divided by gas_used.
    - limit_use_max: the largest gas of a call, divided by the network's limit for one transaction,
      `tonframes.network.prices.GAS_LIMIT`. Special accounts have another limit and are left out.
      Only the few wallets that the node exempted until 1 March 2025 are above 1.
    - vm_steps: steps of the virtual machine.
    - gas_per_step: gas_used divided by vm_steps.

    Ratios and means are null where the divisor is 0.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Notes
    -----
    Gas is not divided by `compute_gas_limit`: that is the gas that the message's value bought, 0
    for an external message. A contract that accepts the message raises the limit to what its
    balance buys, at most the network's limit. No field records that.

    Prices were cut in April 2024 and in April 2026: across those dates compare gas, not fees.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> summary = gas_summary(blocks, by="opcode")
    >>> shown = summary[["opcode", "calls", "gas_median", "gas_max", "gas_fees"]]
    >>> print(shown.head(3).to_string(index=False))
        opcode  calls  gas_median  gas_max  gas_fees
    1511506142     50        1433  1000000 203415325
     395134233    237        8405     8405 131692359
     260734629    241        6935     6935 109425895
    """
    messages = intake.paired("gas_summary", transactions, messages)
    result = results.GAS_SUMMARY
    rows, keys = take_grouped(
        "gas_summary", transactions, messages, GAS, by, figures=result.figures
    )
    grouping = keys or [sums.ALL]
    rows = engines.by_row(rows, _counted)
    # How often each amount of gas occurs is enough for every figure, in far fewer rows.
    counts = sums.add_up(rows, [*grouping, "gas"], sums=_COUNTS, amounts=_AMOUNTS)
    counts = engines.by_group(counts, grouping, functools.partial(_ranked, keys=grouping))
    counts = engines.by_row(counts, _measured)
    added = ["transactions", *_COUNTS, *sums.halves_of(_AMOUNTS)]
    groups = counts.group_by(grouping, drop_null_keys=False).agg(
        *(nw.col(name).sum() for name in added),
        *(nw.col(name).min() for name in _QUANTILES),
        nw.col("gas").max().alias("gas_max"),
        nw.col("bounded").max(),
    )
    groups = engines.integers(groups, *added, *_QUANTILES, "gas_max", "bounded")
    groups = sums.whole(groups, _AMOUNTS, helper="gas_summary", keys=keys, wide=wide)
    groups = engines.by_row(groups, _with_ratios).select(result.names(keys))
    return intake.give(engines.largest_first(groups, "gas_fees", keys), transactions)


def _counted(rows: Frame) -> Frame:
    rows = _with_gas(rows)
    ran, none = ~nw.col("gas").is_null(), nw.lit(0)
    return rows.with_columns(
        calls=one_if(ran),
        skipped=one_if(nw.col("skipped")),
        free=one_if(nw.col("free")),
        gas_used=nw.col("gas").fill_null(0),
        gas_fees=nw.when(ran).then(nw.col("compute_gas_fees")).otherwise(none),
        vm_steps=nw.when(ran).then(nw.col("compute_vm_steps")).otherwise(none),
    )


def _with_gas(rows: Frame) -> Frame:
    """Add `gas`, null where there was no run, and whether it was `skipped` or `free`."""
    rows = with_true_gas(rows).with_columns(
        skipped=nw.col("compute_skipped").fill_null(value=False)
    )
    rows = rows.with_columns(gas=nw.when(~nw.col("skipped")).then(nw.col("compute_gas_used")))
    # The list of special accounts changes. They are recognized by their fee: all others pay one.
    free = (nw.col("block_workchain") == -1) & (nw.col("compute_gas_fees") == 0)
    ran = ~nw.col("gas").is_null()
    return rows.with_columns(free=(free & ran).fill_null(value=False))


def _ranked(counts: Frame, keys: Sequence[str]) -> Frame:
    """Add the number of calls of the group, `of`, and of those with at most this gas, `up_to`."""
    calls = nw.col("calls")
    return counts.with_columns(
        of=calls.sum().over(keys), up_to=calls.cum_sum().over(keys, order_by="gas")
    )


def _measured(counts: Frame) -> Frame:
    of, up_to = nw.col("of"), nw.col("up_to")
    return counts.with_columns(
        *(
            nw.when(up_to * 100 >= of * percent).then(nw.col("gas")).alias(name)
            for name, percent in _QUANTILES.items()
        ),
        nw.when(nw.col("calls") > nw.col("free")).then(nw.col("gas")).alias("bounded"),
    )


def _with_ratios(groups: Frame) -> Frame:
    return groups.with_columns(
        gas_mean=ratio(groups, "gas_used", "calls"),
        price_per_gas=ratio(groups, "gas_fees", "gas_used"),
        limit_use_max=as_float(groups, "bounded") / GAS_LIMIT,
        gas_per_step=ratio(groups, "gas_used", "vm_steps"),
    )


@overload
def gas_outliers(
    transactions: Blocks,
    messages: None = None,
    *,
    by: str | Sequence[str] = ...,
    factor: float = ...,
    min_calls: int = ...,
) -> pd.DataFrame: ...
@overload
def gas_outliers(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    by: str | Sequence[str] = ...,
    factor: float = ...,
    min_calls: int = ...,
) -> AnyFrame: ...
def gas_outliers(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = (_CODE, "compute_gas_credit"),
    factor: float = 3,
    min_calls: int = 20,
) -> AnyFrame:
    """Find the calls that used far more gas than is usual in their group.

    Parameters
    ----------
    transactions, messages
        As for `gas_summary`. Of transactions, account, lt and now are needed too.
    by
        Columns whose values calls of one kind have in common, as for `gas_summary`. The default is
        the code, and whether the message came from outside: gas is lent to external messages only.
        For a contract that distinguishes messages by opcode,
        ``["account_state_code_hash_before", "opcode"]`` is better.
    factor
        Calls with more gas than this many times the median are returned.
    min_calls
        Groups with fewer calls are left out. So are calls whose code is unknown, if the code is
        grouped by: calls that deployed their contract, and calls between other transactions of
        the same account in one block, for the service knows those states by hash only.

    Returns
    -------
    A frame of the same engine with a row for each call, the largest ratio first:

    - hash, account, lt, now: the transaction.
    - the columns of `by`.
    - gas_used: gas of the call.
    - gas_median: gas, the median of its group by nearest rank.
    - ratio: gas_used divided by gas_median; null where that is 0, and then any gas is returned.
    - calls: number of calls in its group.

    Raises
    ------
    ValueError
        The factor is less than 1, or `min_calls` less than 1.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> far = gas_outliers(read_blocks(sample()), factor=1.5)
    >>> far[["gas_used", "gas_median", "calls"]].drop_duplicates().to_dict("records")
    [{'gas_used': 5234, 'gas_median': 3308, 'calls': 795}]
    """
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        raise TypeError(f"factor is a number, not {shorten(factor)}")
    if not (math.isfinite(factor) and factor >= 1):
        raise ValueError(f"factor is a multiple of the median: at least 1, not {factor}")
    if isinstance(min_calls, bool) or not isinstance(min_calls, int):
        raise TypeError(f"min_calls is an int, not {shorten(min_calls)}")
    if min_calls < 1:
        raise ValueError(f"min_calls is at least 1, not {min_calls}")
    messages = intake.paired("gas_outliers", transactions, messages)
    result = results.GAS_OUTLIERS
    needs = (*GAS, "account", "lt", "now")
    rows, keys = take_grouped(
        "gas_outliers", transactions, messages, needs, by, figures=result.figures[4:]
    )
    grouping = keys or [sums.ALL]
    shown = result.names(keys)

    def calls(rows: Frame) -> Frame:
        kept = dict.fromkeys([*result.figures[:4], *keys])
        return _with_gas(rows).select(*kept, "gas", nw.lit(0).alias(sums.ALL), calls=nw.lit(1))

    def far(rows: Frame) -> Frame:
        rows = _ranked(rows, grouping).with_columns(calls=nw.col("of"))
        half = nw.when(nw.col("up_to") * 2 >= nw.col("of")).then(nw.col("gas"))
        rows = rows.with_columns(gas_median=half).with_columns(
            gas_median=nw.col("gas_median").min().over(grouping)
        )
        beyond = nw.col("gas") > nw.col("gas_median") * float(factor)
        return rows.filter((nw.col("calls") >= min_calls) & beyond)

    def compared(rows: Frame) -> Frame:
        rows = rows.with_columns(gas_used=nw.col("gas"))
        return rows.with_columns(ratio=ratio(rows, "gas_used", "gas_median")).select(shown)

    rows = engines.by_row(rows, calls).filter(~nw.col("gas").is_null())
    if _CODE in keys:
        rows = rows.filter(~nw.col(_CODE).is_null())
    rows = engines.integers(engines.by_group(rows, grouping, far), "calls", "gas_median")
    rows = engines.by_row(rows, compared)
    return intake.give(engines.largest_first(rows, "ratio", ["hash"]), transactions)


@overload
def price_of(transactions: Blocks, *, prices: Iterable[Prices] | None = ...) -> pd.DataFrame: ...
@overload
def price_of(transactions: AnyFrame, *, prices: Iterable[Prices] | None = ...) -> AnyFrame: ...
def price_of(transactions: AnyFrame, *, prices: Iterable[Prices] | None = None) -> AnyFrame:
    """Find the prices at which each transaction paid for its gas.

    Parameters
    ----------
    transactions
        A frame of any engine, of our tables or of the public lake, or a `Blocks`. `GAS` names the
        columns; now is needed too.
    prices
        The price history: yours, if the network is not mainnet or the prices have changed since.
        None is `tonframes.network.prices.PRICES`, the history of mainnet.

    Returns
    -------
    A frame of the same engine with a row for each transaction (on pandas with its index):

    - hash: the transaction.
    - price: name of the row of the history that gives its gas fee, to the nanoton.
    - reason: why `price` is null:

      - skipped: the contract was not run.
      - free: gas of special accounts costs nothing.
      - none: no known price fits. The prices have changed, or it is another network.
      - several: more than one row of the history fits.
      - unknown: the compute phase is missing.

    Notes
    -----
    The time alone does not decide: the block of a price change is not on record, and a shard
    follows the masterchain block that it refers to, so that neighbours may differ for a moment.
    Each row of the account's workchain is tried. If several fit, those in force `now` are
    preferred. Two rows of `PRICES` never fit the same fee: the dearer one is dearer for any gas.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> found = price_of(read_blocks(sample()))
    >>> found.price.value_counts().to_dict()
    {'basechain from May 2026': 2465, 'masterchain': 6}
    >>> found.reason.value_counts().to_dict()
    {'free': 363, 'skipped': 166}
    """
    rows = intake.take(transactions, "price_of", TRANSACTIONS, (*GAS, "now"))
    tried = functools.partial(_tried, prices=checked_prices(prices))
    return intake.give(engines.by_row(rows, tried), transactions)


def _tried(rows: Frame, prices: Sequence[Prices]) -> Frame:
    # Columns, because most engines evaluate an expression as often as it is written.
    merits = [f"merit_{place}" for place in range(len(prices))]
    rows = _with_gas(rows).with_columns(
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
    return rows.with_columns(price=price).select(results.PRICE_OF.names())


def _merit(row: Prices) -> nw.Expr:
    """Return 0 if a row of the history does not give the fee, 1 if it does, 2 if in time too."""
    earliest = 0 if row.valid_from is None else row.valid_from
    latest = 2**62 if row.valid_until is None else row.valid_until
    in_force = (nw.col("now") >= earliest) & (nw.col("now") <= latest)
    fits = _fits(row)
    return one_if(fits) + one_if(fits & in_force)


def _fits(row: Prices) -> nw.Expr:
    """Return whether the gas fee is the flat price and the rest rounded up, by products alone.

    Spark divides integers through a double: ``f == ceil(x / 2^16)`` is ``f * 2^16 >= x`` and
    ``(f - 1) * 2^16 < x``. Numbers too large for that are too large for the network.
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
    """Return why there is not exactly one price: the first reason that holds."""
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
