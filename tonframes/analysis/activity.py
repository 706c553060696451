"""Transactions, messages and money by time, by shard, and from account to account."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.currency import names_of, read_prices, with_price_at
from tonframes.analysis.doubts import UNMATCHED, in_doubt, sending, tell_unmatched, unmatched
from tonframes.analysis.expressions import one_if
from tonframes.analysis.grouping import (
    in_time_or_largest_first,
    keys_of,
    messages_with,
    refuse_figures,
    refuse_own,
    refuse_unknown,
    take_grouped,
)
from tonframes.analysis.periods import PERIODS, with_period
from tonframes.analysis.phases import with_true_gas
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

#: What `activity` reads of transactions, and of messages.
ACTIVITY = (
    "account",
    "total_fees",
    "block_workchain",
    "compute_skipped",
    "compute_gas_used",
    "compute_gas_fees",
    "compute_vm_steps",
)
ACTIVITY_MESSAGES = ("tx_hash", "direction", "source", "destination", "value")

#: What `flows` reads.
FLOWS = ("msg_hash", "source", "destination", "value", "bounced")

_TRAFFIC = ("messages_in", "messages_out", "external", "internal")
_FLOWS_AMOUNTS = ("value", "bounced_value")
_VALUE = ["value"]
# Columns of the transaction at one end of a message. A message that is in the frame twice has two
# values of them, and the result would depend on the order of the rows.
_OF_AN_END = ("tx_hash", "tx_lt", "tx_now", "block_time", "mc_block_seqno", "direction", "position")
_NO_KEYS = (*_OF_AN_END, "value", "bounced")


@overload
def activity(
    transactions: Blocks,
    messages: None = None,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> pd.DataFrame: ...
@overload
def activity(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> AnyFrame: ...
def activity(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = "hour",
    wide: bool = False,
    prices: pd.Series[Any] | None = None,
    currency: str = "USD",
) -> AnyFrame:
    """Count transactions and messages of groups, and add up what they moved and cost.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, of our tables or of the public lake, or a `Blocks` in place of both.
        `ACTIVITY` and `ACTIVITY_MESSAGES` of `tonframes.analysis.activity` name the columns.
    by
        Columns to group by: columns of transactions (mc_block_seqno, block_workchain and
        block_shard, account, …); columns of messages (source, …), which means of the message that
        started the transaction; "operation", as `with_operation` gives it; or "hour", "day", "week"
        (from Monday) and "month", in UTC. An empty list makes one group, and no row if there is
        nothing to group. External messages have no opcode: "opcode" is null.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.
    prices, currency
        Prices of 1 TON, as for `with_price`: each amount is converted at the price of its
        transaction before it is added up. None adds no columns.

    Returns
    -------
    A frame of the same engine with a row for each group, in the order of the columns of `by`:

    - the columns of `by`.
    - transactions: number of transactions.
    - accounts: number of different accounts.
    - messages_in, messages_out: messages that started these transactions, and messages that these
      transactions sent.
    - external: messages in and out whose other end is outside the chain.
    - internal: messages in that another account sent.
    - value: nanoton, the value of the internal messages.
    - gas_used: gas of the transactions, with the exchange of gas and fees undone
      (`undo_gas_exchange`). Transactions whose compute phase is missing add nothing. It is null if
      it is unknown in all transactions.
    - total_fees: nanoton, what validators collected in these transactions.

    With `prices`, each amount in nanoton is followed by the amount in the currency, as a float:
    `value_usd` and so on. It is null if a price of the group is unknown. The error of
    floats is at most 2^-52 of the sum for each price that is used.

    A message from account to account has two rows: one of the transaction that sent it, and one of
    the transaction that received it. `internal` and `value` count it once, where it is received.
    Without messages, all columns about them are null.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> hours = activity(blocks)
    >>> hours[["transactions", "accounts", "internal", "value"]]
       transactions  accounts  internal                value
    0          3000       460      1863  2000001511574677736
    """
    messages = intake.paired("activity", transactions, messages)
    counts, amounts = ["gas_used", "gas_known"], ["total_fees"]
    moved = ["value"] if messages is not None else []
    money = read_prices("activity", prices, currency, [*moved, *amounts])
    sends = sending("activity", transactions)
    doubted = messages is not None and in_doubt(transactions)
    rows, keys = take_grouped(
        "activity",
        transactions,
        messages,
        (
            *ACTIVITY,
            *["now"] * bool(money),
            *(sends if doubted else ()),
        ),
        by,
        figures=(*names_of(results.ACTIVITY, (), money), "exchanged", "gas_known"),
    )
    rows = with_price_at(
        rows, money, "now", helper="activity", in_memory=intake.in_memory(transactions)
    )
    rows = engines.by_row(rows, _with_gas_used)
    if messages is not None:
        ends = intake.take(messages, "activity", MESSAGES, ACTIVITY_MESSAGES)
        intake.same_engine("activity", transactions=transactions, messages=messages)
        rows = _with_traffic(rows, ends)
        counts += [*_TRAFFIC, *sums.parts_of(rows, _VALUE)]
    if doubted:
        rows = engines.by_row(rows, _compared)
        counts += UNMATCHED
    groups = sums.add_up(rows, keys, sums=counts, amounts=amounts, accounts=True, currency=money)
    groups = engines.by_row(groups, _with_known_gas)
    if messages is None:
        groups = engines.by_row(groups, _unknown_traffic)
    if doubted:
        groups = tell_unmatched("activity", groups)
    groups = sums.whole(
        groups, ["value", *amounts], helper="activity", keys=keys, wide=wide, currency=money
    )
    columns = names_of(results.ACTIVITY, keys, money)
    if messages is None and money is not None:
        groups = engines.by_row(groups, partial(_unknown_value, name=f"value{money.suffix}"))
    return intake.give(engines.in_order(groups.select(columns), keys), transactions)


def _with_gas_used(rows: Frame) -> Frame:
    used = nw.col("compute_gas_used")
    known = ~used.is_null() | nw.col("compute_skipped").fill_null(value=False)
    return with_true_gas(rows).with_columns(gas_used=used.fill_null(0), gas_known=one_if(known))


def _with_known_gas(groups: Frame) -> Frame:
    return groups.with_columns(gas_used=nw.when(nw.col("gas_known") > 0).then(nw.col("gas_used")))


def _with_traffic(rows: Frame, messages: Frame) -> Frame:
    """Add the number and the value of the messages of each transaction."""
    traffic = sums.add_up(
        engines.by_row(messages, _counted),
        ["tx_hash"],
        sums=_TRAFFIC,
        amounts=["value"],
        rows_as="messages",
    )
    rows = rows.join(traffic, left_on="hash", right_on="tx_hash", how="left")
    return engines.by_row(
        rows,
        lambda frame: frame.with_columns(
            nw.col(*_TRAFFIC, *sums.parts_of(frame, _VALUE)).fill_null(0)
        ),
    )


def _compared(rows: Frame) -> Frame:
    return unmatched(rows, "messages_out", "messages_in")


def _unknown_traffic(groups: Frame) -> Frame:
    never = nw.when(nw.col("transactions") < 0).then(nw.lit(0)).cast(nw.Int64)
    return groups.with_columns(
        never.alias(name) for name in (*_TRAFFIC, *sums.parts_of(groups, _VALUE))
    )


def _unknown_value(groups: Frame, name: str) -> Frame:
    never = nw.when(nw.col("transactions") < 0).then(nw.lit(0.0)).cast(nw.Float64)
    return groups.with_columns(never.alias(name))


def _counted(messages: Frame) -> Frame:
    come = nw.col("direction") == "in"
    outside = nw.col("source").is_null() | nw.col("destination").is_null()
    messages = messages.with_columns(arrived=come & ~outside)
    return messages.select(
        "tx_hash",
        value=nw.when(nw.col("arrived")).then(nw.col("value").fill_null(0)).otherwise(nw.lit(0)),
        messages_in=one_if(come),
        messages_out=one_if(~come),
        external=one_if(outside),
        internal=one_if(nw.col("arrived")),
    )


@overload
def flows(
    messages: Blocks,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> pd.DataFrame: ...
@overload
def flows(
    messages: AnyFrame,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> AnyFrame: ...
def flows(
    messages: AnyFrame,
    *,
    by: str | Sequence[str] = ("source", "destination"),
    wide: bool = False,
    prices: pd.Series[Any] | None = None,
    currency: str = "USD",
) -> AnyFrame:
    """Add up how much is sent from account to account.

    Parameters
    ----------
    messages
        A frame of any engine, of our table or of the public lake, or a `Blocks`.
        `tonframes.analysis.activity.FLOWS` names the columns.
    by
        Columns of messages to group by (source, destination, opcode, trace_id, …); "operation", as
        `with_operation` gives it; or "hour", "day", "week" (from Monday) and "month", in UTC, of
        the time when they were sent. Columns of the transaction at one end of a message cannot be
        used. An empty list makes one group, and no row if there is nothing to group.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.
    prices, currency
        Prices of 1 TON, as for `with_price`: each amount is converted at the price of its
        message (`created_at`) before it is added up. None adds no columns.

    Returns
    -------
    A frame of the same engine with a row for each group: the largest value first, or in the
    order of time if `by` has periods only.

    - the columns of `by`. Opcodes are unsigned.
    - messages: number of messages, without those that come back from a failed call.
    - value: nanoton, the value of these messages, also of those that were sent back.
    - bounced: number of messages that come back from a failed call.
    - bounced_value: nanoton, the value that comes back with them. What A has paid to B is `value`
      from A to B minus `bounced_value` from B to A.

    With `prices`, each amount in nanoton is followed by the amount in the currency, as a float:
    `value_usd` and so on. It is null if a price of the group is unknown. The error of
    floats is at most 2^-52 of the sum for each price that is used.

    Each message counts once, whether the frame has the row of its sender, of its receiver, or both.
    External messages are left out: they carry no value, and only one end of them is an account.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> pairs = flows(read_blocks(sample()))
    >>> pairs[["messages", "value", "bounced"]].iloc[:2].values.tolist()
    [[2, 2000000000000000002, 0], [4, 87394639926, 0]]
    """
    keys = keys_of("flows", by)
    if wrong := next((key for key in keys if key in _NO_KEYS), None):
        raise ValueError(
            f"flows cannot group by {wrong!r}: it differs between the two ends of a message, or "
            f"is added up. Group by other columns of the message; {', '.join(PERIODS)} are "
            "computed from created_at"
        )
    money = read_prices("flows", prices, currency, _FLOWS_AMOUNTS)
    refuse_figures("flows", keys, [*names_of(results.FLOWS, (), money), "transactions"])
    periods = [key for key in keys if key in PERIODS]
    refuse_own("flows", periods, messages, MESSAGES)
    own = [key for key in keys if key not in periods]
    found = intake.columns_of(messages, "flows", MESSAGES)
    rows = messages_with(messages, "flows", own, [*FLOWS, *["created_at"] * bool(periods or money)])
    refuse_unknown("flows", own, found, found)
    rows = rows.filter(~nw.col("source").is_null() & ~nw.col("destination").is_null())
    rows = engines.once(rows, "msg_hash")
    rows = with_price_at(
        rows, money, "created_at", helper="flows", in_memory=intake.in_memory(messages)
    )
    for period in periods:
        rows = with_period(rows, period, "created_at")
    rows = engines.by_row(rows, _split_bounced)
    groups = sums.add_up(
        rows, keys, sums=["messages", "bounced"], amounts=_FLOWS_AMOUNTS, currency=money
    )
    groups = sums.whole(
        groups, _FLOWS_AMOUNTS, helper="flows", keys=keys, wide=wide, currency=money
    )
    groups = groups.select(names_of(results.FLOWS, keys, money))
    return intake.give(in_time_or_largest_first(groups, "value", keys), messages)


def _split_bounced(rows: Frame) -> Frame:
    """Divide count and value into those of bounced messages and those of all others."""
    back, none = nw.col("bounced").fill_null(value=False), nw.lit(0)
    value = nw.col("value").fill_null(0)
    return rows.with_columns(
        messages=one_if(~back),
        value=nw.when(back).then(none).otherwise(value),
        bounced=one_if(back),
        bounced_value=nw.when(back).then(value).otherwise(none),
    )
