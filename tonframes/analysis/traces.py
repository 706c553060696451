"""What traces cost. A trace is all transactions that one message or one tick has started."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import in_doubt, sending, tell_repeated, tell_unmatched, unmatched
from tonframes.analysis.expressions import one_if
from tonframes.analysis.phases import is_deposit, is_dust
from tonframes.analysis.trees import depths
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

#: What `trace_costs` reads of transactions, and of messages.
TRACES = (
    "hash",
    "account",
    "now",
    "trace_id",
    "total_fees",
    "aborted",
    "orig_status",
    "compute_skipped",
    "skipped_reason",
    "bounce",
)
TRACE_MESSAGES = (
    "tx_hash",
    "tx_lt",
    "trace_id",
    "direction",
    "msg_hash",
    "source",
    "destination",
    "value",
    "fwd_fee",
    "opcode",
)

#: The message by which contracts send back what they have not used (TEP-74).
EXCESSES = 0xD53276DB

_AMOUNTS = ("total_fees", "fwd_fees", "cost", "attached", "excesses")


@overload
def trace_costs(
    transactions: Blocks, messages: None = None, *, wide: bool = ...
) -> pd.DataFrame: ...
@overload
def trace_costs(transactions: AnyFrame, messages: AnyFrame, *, wide: bool = ...) -> AnyFrame: ...
def trace_costs(
    transactions: AnyFrame, messages: AnyFrame | None = None, *, wide: bool = False
) -> AnyFrame:
    """Add up what each trace cost, and what it did.

    A trace is a first transaction and all transactions that its messages caused. The service
    identifies it by the hash of the first transaction.

    Parameters
    ----------
    transactions, messages
        Two frames of one engine, of our tables or of the public lake, or a `Blocks` in place of
        both. `TRACES` and `TRACE_MESSAGES` of `tonframes.analysis.traces` name the columns. The
        messages of all the transactions must be there. Rows without a trace_id (services sent none
        before 2024) are left out.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.

    Returns
    -------
    A frame of the same engine with a row for each trace, the largest cost first. Amounts are in
    nanoton.

    - trace_id: hash of the first transaction.
    - started_by, started_at: its account and unix second; null if it is not in the frame.
    - complete: the frames contain the whole trace: the first transaction, the sender of every other
      transaction, and the receiver of every message to an account. If not, the other columns are
      about the part in the frames. Usually an end of the range cuts the trace.
    - transactions, accounts: number of transactions, and of different accounts.
    - depth: number of transactions in the longest chain, from the first one; at least 1.
    - failures: number of aborted transactions, without deposits and dust: those that `failures`
      does not list as deposit, dust, committed or ignored.
    - total_fees: what validators collected in these transactions.
    - fwd_fees: the part of the forwarding fees that travels with the messages sent. Each message
      counts once, where it is sent.
    - cost: total_fees plus fwd_fees. The accounts of a complete trace have lost this amount
      together, not counting the value of a first message that came from outside the trace.
    - attached: value of the messages that the first transaction sent; null if it is not in the
      frame.
    - excesses: value of the excesses (opcode 0xd53276db) that came back to `started_by`; null if
      `attached` is null.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Notes
    -----
    Most traces begin with an external message, or with a tick or tock. Some begin with an internal
    message that no account sent: it carries the validators' fees from the masterchain to the
    elector.

    polars, Dask and Spark compute the depth in Python: polars with the links of all traces in
    memory, Spark and Dask with the links of one partition. So the workers of Spark and Dask need an
    installed tonframes.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> traces = trace_costs(blocks)
    >>> traces[["complete", "transactions", "depth", "cost", "attached"]].head(2)
       complete  transactions  depth       cost    attached
    0      True             2      2  449038545  1000000000
    1      True             2      2  411885264  1000000000
    """
    messages = intake.paired("trace_costs", transactions, messages)
    doubted = in_doubt(transactions)
    needs = (*TRACES, *(sending("trace_costs", transactions) if doubted else ()))
    rows = intake.take(transactions, "trace_costs", TRANSACTIONS, needs)
    tell_repeated("trace_costs", transactions, rows)
    rows = rows.filter(~nw.col("trace_id").is_null())
    ends = intake.take(messages, "trace_costs", MESSAGES, TRACE_MESSAGES)
    ends = ends.filter(~nw.col("trace_id").is_null())
    intake.same_engine("trace_costs", transactions=transactions, messages=messages)
    if doubted:
        tell_unmatched("trace_costs", _matched(rows, ends))
    starts = rows.filter(nw.col("hash") == nw.col("trace_id")).select(
        "trace_id", started_by="account", started_at="now"
    )
    sent = ends.filter(nw.col("direction") == "out")
    come = ends.filter((nw.col("direction") == "in") & ~nw.col("source").is_null())
    traces = _transactions(rows)
    for part in (starts, _sent(sent), depths(_links(come, sent))):
        traces = traces.join(part, on="trace_id", how="left")
    traces = traces.join(
        _excesses(come),
        left_on=["trace_id", "started_by"],
        right_on=["trace_id", "destination"],
        how="left",
    )
    traces = engines.by_row(traces, _completed)
    traces = sums.whole(traces, _AMOUNTS, helper="trace_costs", keys=["trace_id"], wide=wide)
    traces = traces.select(results.TRACE_COSTS.names())
    return intake.give(engines.largest_first(traces, "cost", ["trace_id"]), transactions)


def _matched(rows: Frame, messages: Frame) -> Frame:
    """Compare transactions with the number of their messages."""
    counted = engines.by_row(messages, _counted)
    counted = sums.add_up(counted, ["tx_hash"], sums=["sent", "come"], rows_as="messages")
    rows = rows.join(counted, left_on="hash", right_on="tx_hash", how="left")
    return engines.by_row(rows, partial(unmatched, sent="sent", come="come"))


def _counted(messages: Frame) -> Frame:
    come = nw.col("direction") == "in"
    return messages.select("tx_hash", sent=one_if(~come), come=one_if(come))


def _transactions(rows: Frame) -> Frame:
    """Add up transactions by trace."""
    rows = engines.by_row(rows, _with_failures)
    return sums.add_up(rows, ["trace_id"], sums=["failures"], amounts=["total_fees"], accounts=True)


def _with_failures(rows: Frame) -> Frame:
    return rows.with_columns(failures=one_if(nw.col("aborted") & ~is_deposit() & ~is_dust()))


def _links(come: Frame, sent: Frame) -> Frame:
    """Find for each transaction the one that sent its message."""
    senders = sent.select("msg_hash", parent="tx_hash", parent_lt="tx_lt")
    links = come.select("trace_id", "tx_hash", "tx_lt", "msg_hash").join(senders, on="msg_hash")
    # A message arrives after it is sent. Rows that contradict this would make the search endless.
    links = links.filter(nw.col("parent_lt") < nw.col("tx_lt"))
    return links.select("trace_id", "tx_hash", "parent")


def _sent(messages: Frame) -> Frame:
    """Add up what all transactions sent, and what the first one sent."""
    return sums.add_up(
        engines.by_row(messages, _of_sent),
        ["trace_id"],
        sums=["sent"],
        amounts=["fwd_fees", "attached"],
        rows_as="messages",
    )


def _of_sent(messages: Frame) -> Frame:
    first = nw.col("tx_hash") == nw.col("trace_id")
    return messages.select(
        "trace_id",
        sent=one_if(~nw.col("destination").is_null()),
        fwd_fees=nw.col("fwd_fee").fill_null(0),
        attached=nw.when(first).then(nw.col("value").fill_null(0)).otherwise(nw.lit(0)),
    )


def _excesses(come: Frame) -> Frame:
    """Add up the excesses that came to each account of a trace."""
    signed = EXCESSES - 2**32  # as in the public lake
    excesses = come.filter(nw.col("opcode").is_in([EXCESSES, signed]))
    excesses = excesses.select("trace_id", "destination", excesses="value")
    return sums.add_up(
        excesses, ["trace_id", "destination"], amounts=["excesses"], rows_as="excesses_count"
    )


def _completed(traces: Frame) -> Frame:
    """Add `complete` and `cost`, and fill in 0 where there are no rows."""
    known = ~nw.col("started_by").is_null()
    fees = sums.parts_of(traces, ["fwd_fees"])
    traces = traces.with_columns(
        nw.col("sent", "linked", *fees).fill_null(0),
        *(
            nw.when(known).then(nw.col(part).fill_null(0)).alias(part)
            for part in sums.parts_of(traces, ["attached", "excesses"])
        ),
        depth=nw.col("depth").fill_null(1),
    )
    others = nw.col("transactions") - 1
    return traces.with_columns(
        *sums.combined(traces, "cost", ["total_fees", "fwd_fees"]),
        complete=known & (nw.col("linked") == others) & (nw.col("sent") == others),
    )
