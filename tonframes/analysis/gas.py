"""How much gas transactions used, and what it cost."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.currency import UNPRICED, names_of, read_prices, with_price_at
from tonframes.analysis.expressions import as_float, divided, one_if, ratio
from tonframes.analysis.grouping import in_time_or_largest_first, take_grouped
from tonframes.analysis.phases import GAS, with_gas
from tonframes.errors import shorten
from tonframes.network.prices import GAS_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

_CODE = "account_state_code_hash_before"
_COUNTS, _AMOUNTS = ("calls", "skipped", "free"), ("gas_used", "gas_fees", "vm_steps")
# Columns that are computed on the way.
_STEPS = ("exchanged", "gas", "free", "skipped", "of", "up_to", "bounded")
_QUANTILES = {"gas_median": 50, "gas_p95": 95}


@overload
def gas_summary(
    transactions: Blocks,
    messages: None = None,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> pd.DataFrame: ...
@overload
def gas_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
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
    the same in the currency, as a float: `gas_fees_usd`. It is null if a price of the group is
    unknown. The error of floats is at most 2^-52 of the sum for each price that is used.

    Ratios and means are null if the divisor is 0.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

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
    messages = intake.paired("gas_summary", transactions, messages)
    money = read_prices("gas_summary", prices, currency, ["gas_fees"])
    rows, keys = take_grouped(
        "gas_summary",
        transactions,
        messages,
        (*GAS, *["now"] * bool(money)),
        by,
        figures=(*names_of(results.GAS_SUMMARY, (), money), *_STEPS),
    )
    rows = with_price_at(
        rows, money, "now", helper="gas_summary", in_memory=intake.in_memory(transactions)
    )
    grouping = keys or [sums.ALL]
    rows = engines.by_row(rows, _counted)
    # Every figure follows from how often each amount of gas occurs. That is far fewer rows.
    counts = sums.add_up(
        rows,
        [*grouping, "gas"],
        sums=["skipped", "free"],
        amounts=_AMOUNTS,
        unsure=_AMOUNTS,
        currency=money,
    )
    counts = engines.by_row(counts, _called)
    counts = engines.by_group(counts, grouping, functools.partial(_ranked, keys=grouping))
    counts = engines.by_row(counts, _measured)
    added = ["transactions", *_COUNTS, *sums.counts_of(_AMOUNTS)]
    priced = [] if money is None else [UNPRICED, *money.columns]
    groups = counts.group_by(grouping, drop_null_keys=False).agg(
        *(nw.col(name).sum() for name in (*added, *sums.parts_of(counts, _AMOUNTS), *priced)),
        *(nw.col(name).min() for name in _QUANTILES),
        nw.col("gas").max().alias("gas_max"),
        nw.col("bounded").max(),
    )
    groups = sums.narrowed(groups, [*added, *_QUANTILES, "gas_max", "bounded"], _AMOUNTS)
    groups = sums.whole(
        groups,
        _AMOUNTS,
        helper="gas_summary",
        keys=keys,
        wide=wide,
        unsure=_AMOUNTS,
        currency=money,
    )
    groups = engines.by_row(groups, _with_ratios)
    groups = groups.select(names_of(results.GAS_SUMMARY, keys, money))
    return intake.give(in_time_or_largest_first(groups, "gas_fees", keys), transactions)


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
        *(
            nw.when(ran).then(nw.col(name)).otherwise(nw.lit(0)).alias(name)
            for name in sums.parts_of(counts, _AMOUNTS)
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
    )


def _with_ratios(groups: Frame) -> Frame:
    return groups.with_columns(
        gas_mean=ratio(groups, "gas_used", "calls"),
        price_per_gas=ratio(groups, "gas_fees", "gas_used"),
        limit_use_max=divided(as_float(groups, "bounded"), GAS_LIMIT),
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
    messages = intake.paired("gas_outliers", transactions, messages)
    result = results.GAS_OUTLIERS
    needs = (*GAS, "account", "lt", "now")
    figures = (*result.figures[4:], *_STEPS)
    rows, keys = take_grouped("gas_outliers", transactions, messages, needs, by, figures=figures)
    grouping = keys or [sums.ALL]
    rows = engines.by_row(rows, functools.partial(_calls, kept=[*result.figures[:4], *keys]))
    rows = rows.filter(~nw.col("gas").is_null())
    if _CODE in keys:
        rows = rows.filter(~nw.col(_CODE).is_null())
    # The median follows from how often each amount of gas occurs. That is far fewer rows.
    counts = sums.add_up(rows, [*grouping, "gas"], rows_as="calls")
    counts = engines.by_group(counts, grouping, functools.partial(_ranked, keys=grouping))
    groups = engines.by_row(counts, _halved).group_by(grouping, drop_null_keys=False)
    usual = groups.agg(nw.col("gas_median").min(), calls=nw.col("of").max())
    usual = engines.integers(usual, "gas_median", "calls").filter(nw.col("calls") >= min_calls)
    rows = engines.join_groups(rows, usual, grouping)
    rows = rows.filter(nw.col("gas") > nw.col("gas_median") * float(factor))
    rows = engines.by_row(rows, functools.partial(_compared, columns=result.names(keys)))
    return intake.give(engines.largest_first(rows, "ratio", ["hash"]), transactions)


def _calls(rows: Frame, kept: Sequence[str]) -> Frame:
    return with_gas(rows).select(*dict.fromkeys(kept), "gas", nw.lit(0).alias(sums.ALL))


def _halved(counts: Frame) -> Frame:
    """Add the gas that at least half of the calls do not exceed; its minimum is the median."""
    half = nw.when(nw.col("up_to") * 2 >= nw.col("of")).then(nw.col("gas"))
    return counts.with_columns(gas_median=half)


def _compared(rows: Frame, columns: Sequence[str]) -> Frame:
    rows = rows.with_columns(gas_used=nw.col("gas"))
    return rows.with_columns(ratio=ratio(rows, "gas_used", "gas_median")).select(columns)
