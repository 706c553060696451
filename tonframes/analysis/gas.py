"""How much gas transactions used, and what it cost."""

from __future__ import annotations

import math
import operator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.engines import as_float, divided, first_match, one_if, ratio
from tonframes.analysis.grouping import Options, Summary
from tonframes.analysis.intake import Given
from tonframes.errors import shorten
from tonframes.network.prices import GAS_LIMIT, checked_prices
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks
    from tonframes.network.prices import Prices

#: The columns that show whether a service has exchanged gas and its fees.
EXCHANGE = ("block_workchain", "compute_gas_used", "compute_gas_fees", "compute_vm_steps")

#: What `with_gas` reads, and the hash: the columns of `gas_summary`.
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
# Columns that are computed on the way.
_STEPS = ("exchanged", "gas", "free", "skipped", "of", "up_to", "bounded")
_QUANTILES = {"gas_median": 50, "gas_p95": 95}


@overload
def gas_summary(
    transactions: Blocks, messages: None = None, **options: Unpack[Options]
) -> pd.DataFrame: ...
@overload
def gas_summary(
    transactions: AnyFrame, messages: AnyFrame | None = ..., **options: Unpack[Options]
) -> AnyFrame: ...
def gas_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = (),
    wide: bool = False,
    prices: pd.Series[Any] | None = None,
    currency: str = "USD",
) -> AnyFrame:
    """Summarize how much gas groups of transactions use, and what it costs.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, of our tables or of the public lake, or a `Blocks` in place of both.
        `tonframes.analysis.gas.GAS` names the columns. Messages are only needed to group by the
        operation or by their columns.
    by
        Columns to group by: columns of transactions (account_state_code_hash_before, account, …);
        columns of messages (source, …), which means of the message that started the transaction;
        "operation", as `with_operation` gives it; or "hour", "day", "week" (from Monday) and
        "month", in UTC. An empty list makes one group, and no row if there is nothing to group.
        External messages have no opcode: "opcode" is null.
    wide
        Return sums as decimal128(38, 0), which hold any sum, and not as int64.
    prices, currency
        Prices of 1 TON, as for `with_price`: each amount is converted at the price of its
        transaction before it is added up. None adds no columns.

    Returns
    -------
    A frame of the same engine with a row for each group: the largest gas_fees first, or in the
    order of time if `by` has periods only. The exchange of gas and fees is undone
    (`undo_gas_exchange`).

    - the columns of `by`.
    - transactions: number of transactions.
    - calls: transactions in which the contract was run.
    - skipped: transactions whose compute phase was skipped. `transactions` minus calls and skipped
      is the number of transactions whose compute phase is missing.
    - free: calls of special accounts, whose gas is free.
    - gas_used: gas of all calls; 0 if all transactions were skipped.
    - gas_mean, gas_median, gas_p95, gas_max: gas of one call. Median and 95th percentile are by
      nearest rank: the smallest gas that 50 or 95 percent of the calls do not exceed.
    - gas_fees: nanoton, what the gas cost.
    - price_per_gas: nanoton, gas_fees divided by gas_used.
    - limit_use_max: the largest gas of a call, divided by the network's limit for one transaction,
      `tonframes.network.prices.GAS_LIMIT`. Special accounts have another limit and are left out.
      Only a few wallets, which the node exempted until 1 March 2025, are above 1.
    - vm_steps: steps of the virtual machine.
    - gas_per_step: gas_used divided by vm_steps.

    Transactions whose compute phase is missing add nothing to gas_used, gas_fees and vm_steps.
    These are null if they are unknown in all transactions. With `prices`, `gas_fees` is followed by
    the same in the currency, as a float: `gas_fees_usd` (`fee_summary`).

    Ratios and means are null if the divisor is 0.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

    Notes
    -----
    Gas is not divided by `compute_gas_limit`, which is the gas that the message's value buys, and
    0 for an external message. A contract that accepts the message raises the limit to what its
    balance buys, at most to the network's limit. No field records that.

    Prices were cut in April 2024, and in April or May 2026. Across these dates, compare gas and not
    fees.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> summary = gas_summary(blocks, by="operation")
    >>> shown = summary[["operation", "calls", "gas_median", "gas_max", "gas_fees"]]
    >>> print(shown.head(3).to_string(index=False))
                   operation  calls  gas_median  gas_max  gas_fees
                    external    777        3308     9958 314723563
                  0x5a17c0de     42         734  1000000 136073115
    jetton_internal_transfer    204        8461    10403 114986405
    """
    given, theirs = intake.entered("gas_summary", transactions, messages)
    summary = Summary(
        results.GAS_SUMMARY, given, theirs, by=by, wide=wide, prices=prices, currency=currency
    )
    rows = engines.by_row(summary.transactions(GAS, steps=_STEPS), _counted)
    keys, money = summary.keys or [sums.ALL], summary.money
    # Every figure follows from how often each amount of gas occurs. That is far fewer rows.
    counts = sums.add_up(
        rows,
        [*keys, "gas"],
        sums=["skipped", "free"],
        amounts=_AMOUNTS,
        unsure=_AMOUNTS,
        currency=money,
    )
    counts = engines.by_row(counts, _called)
    counts = engines.by_group(counts, keys, partial(_ranked, keys=keys))
    counts = engines.by_row(counts, _measured)
    added = ["transactions", *_COUNTS, *sums.counts_of(_AMOUNTS), *_AMOUNTS]
    priced = [] if money is None else [sums.UNPRICED, *money.columns]
    groups = sums.grouped(
        counts,
        keys,
        [*added, *priced],
        amounts=_AMOUNTS,
        least=list(_QUANTILES),
        largest=["gas_max", "bounded"],
    )
    groups = engines.by_row(
        summary.whole(groups, also=["gas_used", "vm_steps"], unsure=_AMOUNTS), _with_ratios
    )
    return cast("AnyFrame", summary.give(groups, largest="gas_fees"))


def _counted(rows: Frame) -> Frame:
    rows = with_gas(rows)
    ran = ~nw.col("gas").is_null()
    return rows.with_columns(
        skipped=one_if(nw.col("skipped")),
        free=one_if(nw.col("free")),
        gas_used=nw.col("gas"),
        gas_fees=nw.when(ran).then(nw.col("compute_gas_fees")),
        vm_steps=nw.when(ran).then(nw.col("compute_vm_steps")),
    )


def _called(counts: Frame) -> Frame:
    """Add the calls, which are all rows with the same gas, and what the rows without gas used."""
    ran, skipped = ~nw.col("gas").is_null(), nw.col("skipped")
    # A skipped phase used nothing; of a missing phase nothing is known.
    return counts.with_columns(
        nw.when(ran).then(nw.col("transactions")).otherwise(nw.lit(0)).alias("calls"),
        *(
            nw.when(ran).then(nw.col(name)).otherwise(skipped).alias(name)
            for name in sums.counts_of(_AMOUNTS)
        ),
    )


def _ranked(counts: Frame, keys: Sequence[str]) -> Frame:
    """Add `of`, the calls of the group, and `up_to`, its calls with at most this gas."""
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
        gas_max=nw.col("gas"),
    )


def _with_ratios(groups: Frame) -> Frame:
    return groups.with_columns(
        gas_mean=ratio("gas_used", "calls"),
        price_per_gas=ratio("gas_fees", "gas_used"),
        limit_use_max=divided(as_float("bounded"), GAS_LIMIT),
        gas_per_step=ratio("gas_used", "vm_steps"),
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
    by: str | Sequence[str] = (),
    factor: float = 10,
    min_calls: int = 20,
) -> AnyFrame:
    """List the calls that used far more gas than usual.

    Each call is compared with the median of all calls, or of its group. A contract that always uses
    much gas has no outliers in a group of its own.

    Parameters
    ----------
    transactions, messages
        As for `gas_summary`. The columns account, lt and now are needed as well.
    by
        Columns with the same values in all calls of one kind, as for `gas_summary`; by default, all
        calls are one group. For single kinds of calls use ``["account_state_code_hash_before",
        "operation"]`` and a smaller factor, such as 3. Without messages, ``"compute_gas_credit"``
        in place of the operation divides external messages from others: gas is lent to them only.
    factor
        Calls with more gas than this many times the median are returned.
    min_calls
        Groups with fewer calls are left out: their median says little. If `by` contains the code,
        calls whose code is unknown are left out as well: calls that deployed their contract, and
        calls between other transactions of the same account in one block, because the service has
        only the hashes of these states.

    Returns
    -------
    A frame of the same engine with a row for each call, the largest ratio first:

    - hash, account, lt, now: the transaction.
    - the columns of `by`.
    - gas_used: gas of the call.
    - gas_median: gas, the median of its group by nearest rank.
    - ratio: gas_used divided by gas_median; null if that is 0, and then
      calls with any gas are returned.
    - calls: number of calls in its group.

    Raises
    ------
    ValueError
        `factor` or `min_calls` is less than 1.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> far = gas_outliers(read_blocks(sample()))
    >>> far["gas_used"].to_list(), bool((far["ratio"] > 100).all())
    ([1000000, 1000000], True)
    """
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        raise TypeError(f"factor is a number, not {shorten(factor)}")
    if not (math.isfinite(factor) and factor >= 1):
        raise ValueError(f"factor is a multiple of the median: at least 1, not {factor}")
    if isinstance(min_calls, bool) or not isinstance(min_calls, int):
        raise TypeError(f"min_calls is an int, not {shorten(min_calls)}")
    if min_calls < 1:
        raise ValueError(f"min_calls is at least 1, not {min_calls}")
    result = results.GAS_OUTLIERS
    given, theirs = intake.entered("gas_outliers", transactions, messages)
    summary = Summary(result, given, theirs, by=by)
    columns = ("hash", "account", "lt", "now")
    rows = summary.transactions((*GAS, *columns), steps=_STEPS, also=columns)
    keys = summary.keys or [sums.ALL]
    kept = dict.fromkeys([*columns, *summary.keys])
    rows = engines.by_row(
        rows, lambda frame: with_gas(frame).select(*kept, "gas", nw.lit(0).alias(sums.ALL))
    )
    rows = rows.filter(~nw.col("gas").is_null())
    if _CODE in keys:
        rows = rows.filter(~nw.col(_CODE).is_null())
    # The median follows from how often each amount of gas occurs. That is far fewer rows.
    counts = sums.add_up(rows, [*keys, "gas"], rows_as="calls")
    counts = engines.by_group(counts, keys, partial(_ranked, keys=keys))
    # The median is the least gas that at least half of the calls do not exceed.
    half = nw.when(nw.col("up_to") * 2 >= nw.col("of")).then(nw.col("gas"))
    counts = engines.by_row(
        counts, lambda frame: frame.with_columns(gas_median=half, calls=nw.col("of"))
    )
    usual = sums.grouped(counts, keys, [], least=["gas_median"], largest=["calls"])
    usual = engines.integers(usual, "calls").filter(nw.col("calls") >= min_calls)
    rows = engines.join_groups(rows, usual, keys)
    rows = rows.filter(nw.col("gas") > nw.col("gas_median") * float(factor))
    rows = engines.by_row(
        rows,
        lambda frame: frame.with_columns(
            gas_used=nw.col("gas"), ratio=ratio("gas", "gas_median")
        ).select(result.names(summary.keys)),
    )
    return cast("AnyFrame", given.give(engines.largest_first(rows, "ratio", ["hash"])))


# ── the exchange of gas and fees ─────────────────────────────────────────────────────────────────


@overload
def undo_gas_exchange(transactions: Blocks) -> pd.DataFrame: ...
@overload
def undo_gas_exchange(transactions: AnyFrame) -> AnyFrame: ...
def undo_gas_exchange(transactions: AnyFrame) -> AnyFrame:
    """Restore gas and its fees to their values on the chain.

    Deployed services (ton-index-go since 1.2.1, scan_common.go) exchange `gas_fees` and `gas_used`
    if the fees are less than the gas, in order to repair old rows. Special masterchain accounts
    meet that condition as well, because their gas is free: the service shows them with fees and
    without gas. Executed steps use gas, so the exchanged values cannot be correct. The functions of
    this package undo the exchange themselves; call this before your own calculations.

    Parameters
    ----------
    transactions
        A frame of any engine, or a `Blocks`, with block_workchain, compute_gas_used,
        compute_gas_fees and compute_vm_steps.

    Returns
    -------
    A new frame with the same columns. Only compute_gas_used and compute_gas_fees of exchanged rows
    are different.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"block_workchain": -1, "compute_gas_used": 0, "compute_gas_fees": 6464}
    >>> frame = pd.DataFrame([row | {"compute_vm_steps": 99}])
    >>> undo_gas_exchange(frame)[["compute_gas_used", "compute_gas_fees"]].values.tolist()
    [[6464, 0]]
    """
    rows = Given(transactions, "undo_gas_exchange", TRANSACTIONS).whole(EXCHANGE)
    writes = ["compute_gas_used", "compute_gas_fees"]
    rows = engines.replace(rows, with_true_gas, reads=EXCHANGE, writes=writes)
    return cast("AnyFrame", rows.to_native())


def is_exchanged() -> nw.Expr:
    """Return whether a service has exchanged gas and its fees (see `undo_gas_exchange`)."""
    free = (nw.col("block_workchain") == -1) & (nw.col("compute_gas_used") == 0)
    ran = (nw.col("compute_gas_fees") > 0) & (nw.col("compute_vm_steps") > 0)
    return (free & ran).fill_null(value=False)


def with_true_gas(rows: Frame) -> Frame:
    """Undo the exchange of gas and its fees in rows that hold the columns of `EXCHANGE`."""
    used, fees = nw.col("compute_gas_used"), nw.col("compute_gas_fees")
    return (
        rows.with_columns(exchanged=is_exchanged())
        .with_columns(
            compute_gas_used=nw.when(nw.col("exchanged")).then(fees).otherwise(used),
            compute_gas_fees=nw.when(nw.col("exchanged")).then(used).otherwise(fees),
        )
        .drop("exchanged")
    )


def with_gas(rows: Frame) -> Frame:
    """Add `gas`, null if the contract was not run, and whether it was `skipped` or `free`."""
    rows = with_true_gas(rows).with_columns(
        skipped=nw.col("compute_skipped").fill_null(value=False)
    )
    rows = rows.with_columns(gas=nw.when(~nw.col("skipped")).then(nw.col("compute_gas_used")))
    # The list of special accounts changes. They are recognized by their fee: all others pay one.
    free = (nw.col("block_workchain") == -1) & (nw.col("compute_gas_fees") == 0)
    ran = ~nw.col("gas").is_null()
    return rows.with_columns(free=(free & ran).fill_null(value=False))


# ── prices ───────────────────────────────────────────────────────────────────────────────────────


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
    given = Given(transactions, "price_of", TRANSACTIONS)
    rows = given.take((*GAS, "now"), numbered=True)
    rows = engines.by_row(rows, partial(_tried, prices=checked_prices(prices)))
    return cast("AnyFrame", given.give(rows, results.PRICE_OF.names()))


def _tried(rows: Frame, prices: Sequence[Prices]) -> Frame:
    # Columns, because most engines evaluate an expression as often as it is written.
    merits = [f"merit_{place}" for place in range(len(prices))]
    rows = with_gas(rows).with_columns(
        _merit(row).alias(merit) for row, merit in zip(prices, merits, strict=True)
    )
    best = nw.col("best")
    rows = rows.with_columns(best=nw.max_horizontal(*merits))
    fitting = (one_if(nw.col(name) == best) for name in merits)
    rows = rows.with_columns(fitting=reduce(operator.add, fitting))
    lacking = nw.col("gas").is_null() | nw.col("compute_gas_fees").is_null()
    reasons = {
        "skipped": nw.col("skipped"),
        "free": nw.col("free"),
        "unknown": lacking,
        "none": best == 0,
        "several": nw.col("fitting") > 1,
    }
    reason = first_match(*((holds, nw.lit(name)) for name, holds in reasons.items()))
    rows = rows.with_columns(reason=reason)
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
    # The gas fee is the flat price plus the rounded price of the rest. Spark divides integers
    # through a double, so this uses products: f == ceil(x / 2^16) means f * 2^16 >= x and
    # (f - 1) * 2^16 < x. The network has no numbers that overflow here.
    gas = _within("gas", 2**62 // max(1, row.gas_price))
    beyond = nw.when(gas > row.flat_gas_limit).then(gas - row.flat_gas_limit)
    fixed = nw.when(gas <= row.flat_gas_limit).then(nw.lit(0)).otherwise(beyond) * row.gas_price
    fee = _within("compute_gas_fees", 2**46) - row.flat_gas_price
    own = nw.col("block_workchain") == row.workchain
    fits = own & (fee * 2**16 >= fixed) & ((fee - 1) * 2**16 < fixed)
    return one_if(fits) + one_if(fits & in_force)


def _within(name: str, most: int) -> nw.Expr:
    return nw.when((nw.col(name) >= 0) & (nw.col(name) <= most)).then(nw.col(name))
