"""What goes on: transactions, messages and money by time, by shard, and from whom to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from tonframes.analysis import engines
from tonframes.analysis.fees import with_true_gas
from tonframes.analysis.grouping import add_up, take_grouped
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.analysis.engines import AnyFrame, Frame

#: What `activity` reads of transactions, and of messages.
ACTIVITY = (
    "account",
    "total_fees",
    "block_workchain",
    "compute_gas_used",
    "compute_gas_fees",
    "compute_vm_steps",
)
ACTIVITY_MESSAGES = ("tx_hash", "direction", "source", "destination", "value")

#: What `flows` reads.
FLOWS = ("msg_hash", "source", "destination", "value", "bounced")

_TRAFFIC = ("messages_in", "messages_out", "external", "internal")
_HALVES = ("value_high", "value_low")
# Columns of the transaction at one end of a message: it would be chance which end counts.
_OF_AN_END = ("tx_hash", "tx_lt", "tx_now", "block_time", "mc_block_seqno", "direction", "position")
_NO_KEYS = (*_OF_AN_END, "value", "bounced")


def activity(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = "hour",
) -> AnyFrame:
    """Count what groups of transactions did, and add up what they moved and burned.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, of any; the lake's as well as ours. `ACTIVITY` and
        `ACTIVITY_MESSAGES` name the columns.
    by
        Columns to group by: "hour" and "day", UTC; columns of transactions (mc_block_seqno,
        block_workchain and block_shard, account, …), of messages, then those of the message that
        each transaction was run by (opcode, …). None at all is one group.

    Returns
    -------
    A frame of the same engine, a row a group, in the order of the columns of `by`:

    - the columns of `by`.
    - transactions: how many.
    - accounts: how many accounts had them.
    - messages_in, messages_out: how many messages ran these transactions, and were sent by them.
    - external: how many of these came from outside, or went there.
    - internal: how many messages from account to account arrived.
    - value: nanoton, what these brought. decimal128(38, 0), for it may be more than int64 holds.
    - gas_used: gas; the exchange of gas and fees undone (`undo_gas_exchange`).
    - total_fees: nanoton, what validators collected in these transactions.

    A message from account to account is in the frames twice, where it is sent and where it
    arrives; `internal` and `value` count it where it arrives, and so once. Without messages all
    that is about them is null.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> hours = activity(blocks.transactions, blocks.messages)
    >>> hours[["transactions", "accounts", "internal", "value"]]
       transactions  accounts  internal                value
    0          3000       516      1792  2000000433570911660
    """
    rows, keys = take_grouped("activity", transactions, messages, ACTIVITY, by)
    rows = engines.by_row(rows, with_true_gas)
    rows = engines.by_row(
        rows, lambda frame: frame.with_columns(gas_used=nw.col("compute_gas_used").fill_null(0))
    )
    sums = ["gas_used", "total_fees"]
    if messages is not None:
        told = engines.take(messages, "activity", MESSAGES, ACTIVITY_MESSAGES)
        engines.same_engine("activity", rows, told)
        rows = _with_traffic(rows, told)
        sums += [*_TRAFFIC, *_HALVES]
    # First by account too: what is left to count are rows, which every engine adds up alike.
    groups = add_up(rows, list(dict.fromkeys([*keys, "account"])), *sums)
    groups = groups.rename({"transactions": "runs"})
    groups = add_up(groups, keys, "runs", *sums)
    groups = groups.rename({"transactions": "accounts", "runs": "transactions"})
    if messages is None:
        groups = engines.by_row(groups, _unknown_traffic)
    groups = engines.whole(groups, "value").select(
        *keys, "transactions", "accounts", *_TRAFFIC, "value", "gas_used", "total_fees"
    )
    return engines.give(_in_order(groups, keys) if keys else groups, transactions)


def _in_order(groups: Frame, keys: Sequence[str]) -> Frame:
    groups = groups.sort(*keys, nulls_last=True)
    if groups.implementation.is_pandas():
        groups = nw.from_native(groups.to_native().reset_index(drop=True)).lazy()
    return groups


def _with_traffic(rows: Frame, messages: Frame) -> Frame:
    """Add to transactions what came and went with their messages."""
    traffic = engines.by_row(messages, _counted)
    traffic = traffic.group_by("tx_hash").agg(nw.col(*_TRAFFIC, *_HALVES).sum())
    rows = rows.join(traffic, left_on="hash", right_on="tx_hash", how="left")
    return engines.by_row(
        rows, lambda frame: frame.with_columns(nw.col(*_TRAFFIC, *_HALVES).fill_null(0))
    )


def _unknown_traffic(groups: Frame) -> Frame:
    never = nw.when(nw.col("transactions") < 0).then(nw.lit(0)).cast(nw.Int64)
    return groups.with_columns(never.alias(name) for name in (*_TRAFFIC, *_HALVES))


def _counted(messages: Frame) -> Frame:
    come, one, none = nw.col("direction") == "in", nw.lit(1), nw.lit(0)
    outside = nw.col("source").is_null() | nw.col("destination").is_null()
    messages = messages.with_columns(arrived=come & ~outside)
    messages = messages.with_columns(
        value=nw.when(nw.col("arrived")).then(nw.col("value").fill_null(0)).otherwise(none)
    )
    return messages.select(
        "tx_hash",
        *engines.halves("value"),
        messages_in=nw.when(come).then(one).otherwise(none),
        messages_out=nw.when(come).then(none).otherwise(one),
        external=nw.when(outside).then(one).otherwise(none),
        internal=nw.when(nw.col("arrived")).then(one).otherwise(none),
    )


def flows(messages: AnyFrame, *, by: str | Sequence[str] = ("source", "destination")) -> AnyFrame:
    """Add up who sends how much to whom.

    Parameters
    ----------
    messages
        A frame of any engine; the lake's as well as ours. `FLOWS` names the columns.
    by
        Columns to group by: of messages (source, destination, opcode, trace_id, …), or "hour" and
        "day", UTC, at which they were sent. Not those of the transaction at one end of them.

    Returns
    -------
    A frame of the same engine, a row a group, the largest value first:

    - the columns of `by`. Opcodes are unsigned.
    - messages: how many.
    - value: nanoton they carried. decimal128(38, 0), for it may be more than int64 holds.
    - bounced: how many more were messages that came back.
    - bounced_value: nanoton they carried; the same.

    Each message counts once, whether the frame has it as sent, as arrived, or both. External
    messages are left out: they carry no value, and have nobody at the other end.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> pairs = flows(read_blocks(sample()).messages)
    >>> pairs[["messages", "value", "bounced"]].iloc[:2].values.tolist()
    [[2, Decimal('2000000000000000002'), 0], [2, Decimal('1838968617'), 0]]
    """
    keys = [by] if isinstance(by, str) else list(dict.fromkeys(by))
    wrong = [key for key in keys if key in _NO_KEYS]
    if wrong:
        raise ValueError(
            f"flows cannot group by {wrong[0]!r}: it differs between the two ends of a message, or "
            "is what is added up. Group by other columns of the message; hour and day are made of "
            "created_at"
        )
    periods = [key for key in keys if key in engines.PERIODS]
    own = [key for key in keys if key not in periods]
    known = [key for key in own if key in MESSAGES.schema.names]
    needs = [*FLOWS, *known, *["created_at"] * bool(periods)]
    rows = engines.take(messages, "flows", MESSAGES, needs, also=own)
    rows = rows.filter(~nw.col("source").is_null() & ~nw.col("destination").is_null())
    rows = rows.unique("msg_hash")
    if "opcode" in keys:
        rows = engines.by_row(rows, _unsigned)
    for period in periods:
        rows = engines.with_period(rows, period, "created_at")
    rows = engines.by_row(rows, _told_apart)
    sums = ("sent", "returned")
    halves = [f"{name}_{half}" for name in ("carried", "back") for half in ("high", "low")]
    groups = add_up(rows, keys, *sums, *halves)
    groups = engines.whole(groups, "carried", "back")
    shown = {"sent": "messages", "carried": "value", "returned": "bounced", "back": "bounced_value"}
    groups = groups.select(*keys, *(nw.col(name).alias(alias) for name, alias in shown.items()))
    return engines.give(engines.largest_first(groups, "value", keys), messages)


def _unsigned(rows: Frame) -> Frame:
    opcode = nw.col("opcode")
    return rows.with_columns(opcode=nw.when(opcode < 0).then(opcode + 2**32).otherwise(opcode))


def _told_apart(rows: Frame) -> Frame:
    """Give messages that bounced columns of their own."""
    back, none = nw.col("bounced").fill_null(value=False), nw.lit(0)
    value = nw.col("value").fill_null(0)
    rows = rows.with_columns(
        sent=nw.when(back).then(none).otherwise(nw.lit(1)),
        returned=nw.when(back).then(nw.lit(1)).otherwise(none),
        carried=nw.when(back).then(none).otherwise(value),
        back=nw.when(back).then(value).otherwise(none),
    )
    return rows.with_columns(*engines.halves("carried"), *engines.halves("back"))
