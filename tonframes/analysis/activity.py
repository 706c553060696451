"""Transactions, messages and money by time, by shard, and from account to account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import UNMATCHED, sending, tell_unmatched, unmatched
from tonframes.analysis.engines import one_if
from tonframes.analysis.gas import with_true_gas
from tonframes.analysis.grouping import Options, Summary, messages_with
from tonframes.analysis.intake import Given
from tonframes.analysis.periods import PERIODS
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

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
# Columns of the transaction at one end of a message. A message that is in the frame twice has two
# values of them, and the result would depend on the order of the rows.
_OF_AN_END = ("tx_hash", "tx_lt", "tx_now", "block_time", "mc_block_seqno", "direction", "position")
_NO_KEYS = (*_OF_AN_END, "value", "bounced")


@overload
def activity(
    transactions: Blocks, messages: None = None, **options: Unpack[Options]
) -> pd.DataFrame: ...
@overload
def activity(
    transactions: AnyFrame, messages: AnyFrame | None = ..., **options: Unpack[Options]
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

    With `prices`, each amount in nanoton is followed by the amount in the currency (`fee_summary`).

    A message from account to account has two rows: one of the transaction that sent it, and one of
    the transaction that received it. `internal` and `value` count it once, where it is received.
    Without messages, all columns about them are null.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> hours = activity(blocks)
    >>> hours[["transactions", "accounts", "internal", "value"]]
       transactions  accounts  internal                value
    0          3000       460      1863  2000001511574677736
    """
    given, theirs = intake.entered("activity", transactions, messages)
    summary = Summary(
        results.ACTIVITY, given, theirs, by=by, wide=wide, prices=prices, currency=currency
    )
    alone = theirs.passed is None
    doubted = [*UNMATCHED] * (not alone and given.in_doubt)
    needs = (*ACTIVITY, *(sending(given) if doubted else ()))
    rows = summary.transactions(needs, steps=("exchanged", "gas_known"))
    used, counted = nw.col("compute_gas_used"), nw.col("gas_known") > 0
    known = ~used.is_null() | nw.col("compute_skipped").fill_null(value=False)
    rows = engines.by_row(
        rows,
        lambda frame: with_true_gas(frame).with_columns(gas_used=used, gas_known=one_if(known)),
    )
    unknown = [nw.lit(None, nw.Int64).alias(name) for name in _TRAFFIC]
    unsure = ["value"] * alone
    if alone:
        value = nw.lit(None, nw.Int64)
        rows = engines.by_row(rows, lambda frame: frame.with_columns(*unknown, value=value))
    else:
        ends = theirs.take(ACTIVITY_MESSAGES)
        intake.same_engine(given, theirs)
        traffic = sums.add_up(
            engines.by_row(ends, _counted),
            ["tx_hash"],
            sums=_TRAFFIC,
            amounts=["value"],
            rows_as="messages",
        )
        rows = rows.join(traffic, left_on="hash", right_on="tx_hash", how="left")
    if doubted:
        rows = engines.by_row(rows, lambda frame: unmatched(frame, "messages_out", "messages_in"))
    groups = sums.add_up(
        rows,
        summary.keys,
        sums=["gas_used", "gas_known", *_TRAFFIC, *doubted],
        amounts=["value", "total_fees"],
        unsure=unsure,
        accounts=True,
        currency=summary.money,
    )
    groups = engines.by_row(
        groups,
        lambda frame: frame.with_columns(
            *(unknown if alone else []), gas_used=nw.when(counted).then(nw.col("gas_used"))
        ),
    )
    if doubted:
        groups = tell_unmatched("activity", groups)
    return cast("AnyFrame", summary.give(summary.whole(groups, unsure=unsure)))


def _counted(messages: Frame) -> Frame:
    come = nw.col("direction") == "in"
    outside = nw.col("source").is_null() | nw.col("destination").is_null()
    messages = messages.with_columns(arrived=come & ~outside)
    return messages.select(
        "tx_hash",
        value=nw.when(nw.col("arrived")).then(nw.col("value")),
        messages_in=one_if(come),
        messages_out=one_if(~come),
        external=one_if(outside),
        internal=one_if(nw.col("arrived")),
    )


@overload
def flows(messages: Blocks, **options: Unpack[Options]) -> pd.DataFrame: ...
@overload
def flows(messages: AnyFrame, **options: Unpack[Options]) -> AnyFrame: ...
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

    With `prices`, each amount in nanoton is followed by the amount in the currency (`fee_summary`).

    Each message counts once, whether the frame has the row of its sender, of its receiver, or both.
    External messages are left out: they carry no value, and only one end of them is an account.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> pairs = flows(read_blocks(sample()))
    >>> pairs[["messages", "value", "bounced"]].iloc[:2].values.tolist()
    [[2, 2000000000000000002, 0], [4, 87394639926, 0]]
    """
    given = Given(messages, "flows", MESSAGES)
    summary = Summary(results.FLOWS, given, by=by, wide=wide, prices=prices, currency=currency)
    keys = summary.keys
    if wrong := next((key for key in keys if key in _NO_KEYS), None):
        raise ValueError(
            f"flows cannot group by {wrong!r}: it differs between the two ends of a message, or "
            f"is added up. Group by other columns of the message; {', '.join(PERIODS)} are "
            "computed from created_at"
        )
    summary.refuse_figures(keys, ["transactions"])
    periods = [key for key in keys if key in PERIODS]
    summary.refuse_own(periods)
    own = [key for key in keys if key not in periods]
    timed = bool(periods) or summary.money is not None
    rows = messages_with(given, own, [*FLOWS, *["created_at"] * timed])
    summary.refuse_unknown(own, given.columns, given.columns)
    rows = rows.filter(~nw.col("source").is_null() & ~nw.col("destination").is_null())
    rows = summary.timed(engines.once(rows, "msg_hash"), periods, "created_at")
    back = nw.col("bounced").fill_null(value=False)
    rows = engines.by_row(
        rows,
        lambda frame: frame.with_columns(
            messages=one_if(~back),
            value=nw.when(~back).then(nw.col("value")),
            bounced=one_if(back),
            bounced_value=nw.when(back).then(nw.col("value")),
        ),
    )
    groups = sums.add_up(
        rows,
        keys,
        sums=["messages", "bounced"],
        amounts=["value", "bounced_value"],
        currency=summary.money,
    )
    return cast("AnyFrame", summary.give(summary.whole(groups), largest="value"))
