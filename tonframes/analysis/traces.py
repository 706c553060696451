"""What traces cost: all that one message, or one tick of the network, has set going."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.analysis import engines
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tonframes.analysis.engines import AnyFrame, Frame

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

_SHOWN = (
    "trace_id",
    "started_by",
    "started_at",
    "complete",
    "transactions",
    "accounts",
    "depth",
    "failures",
    "total_fees",
    "fwd_fees",
    "cost",
    "attached",
    "excesses",
)
_ROWS = ("transactions", "failures", "total_fees")


def trace_costs(transactions: AnyFrame, messages: AnyFrame) -> AnyFrame:
    """Add up what each trace cost, and what came of it.

    A trace is a first transaction and all that came of the messages it sent. The service names it
    by the hash of that transaction.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, of any; the lake's as well as ours. `TRACES` and `TRACE_MESSAGES`
        name the columns. The messages of all the transactions must be there. What has no trace_id
        (services before 2024 gave none) is left out.

    Returns
    -------
    A frame of the same engine, a row a trace, the dearest first; amounts in nanoton:

    - trace_id: hash of the first transaction.
    - started_by, started_at: its account and unix second; null where it is not in the frame.
    - complete: the frame holds all of the trace: the first transaction, the sender of every other
      one, and the receiver of every message to an account. Where not, the other columns are
      about the part that is there: most often the trace is cut by an end of the range.
    - transactions, accounts: how many.
    - depth: transactions one after the other, from the first to the last of the longest chain: 1
      of a lone one.
    - failures: aborted transactions, but for plain deposits to addresses without a contract: those
      that `failures` lists as neither deposit, committed nor ignored.
    - total_fees: what validators collected in these transactions.
    - fwd_fees: what left with the messages that they sent. Each message counts where it is sent,
      and so once.
    - cost: total_fees and fwd_fees. The accounts of a complete trace have together lost just
      this, but for what the first message brought along if it came from outside of the trace.
    - attached: value of the messages that the first transaction sent; null where that is not in
      the frame. decimal128(38, 0), for a sum may be more than int64 holds.
    - excesses: value of the excesses (opcode 0xd53276db) that arrived at `started_by`; the same.

    Notes
    -----
    Most traces begin with an external message, or a tick or tock. The first transaction of some
    ran by an internal message that no account sent: the validators' fees, that the masterchain
    brings to the elector.

    Polars, Dask and Spark find the depth in Python: Polars with the links of all traces in memory,
    Spark and Dask with those of a partition, so that tonframes must be installed where their
    workers run.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> traces = trace_costs(blocks.transactions, blocks.messages)
    >>> traces[["complete", "transactions", "depth", "cost", "attached"]].head(2)
       complete  transactions  depth       cost    attached
    0      True             2      2  341082023  1000000000
    1      True             2      2  208936059  1000000000
    """
    rows = engines.take(transactions, "trace_costs", TRANSACTIONS, TRACES)
    rows = rows.filter(~nw.col("trace_id").is_null())
    told = engines.take(messages, "trace_costs", MESSAGES, TRACE_MESSAGES)
    told = told.filter(~nw.col("trace_id").is_null())
    engines.same_engine("trace_costs", rows, told)
    starts = rows.filter(nw.col("hash") == nw.col("trace_id")).select(
        "trace_id", started_by="account", started_at="now"
    )
    sent = told.filter(nw.col("direction") == "out")
    come = told.filter((nw.col("direction") == "in") & ~nw.col("source").is_null())
    links = _links(come, sent)
    parts = (
        starts,
        _sent(sent),
        _sums(engines.by_row(links, _counted), ["trace_id"], ("linked",)),
        _depths(links),
        _excesses(come, starts),
    )
    traces = _transactions(rows)
    for part in parts:
        traces = _joined(traces, part)
    traces = engines.by_row(traces, _completed)
    traces = engines.whole(traces, "attached", "excesses").select(_SHOWN)
    return engines.give(engines.largest_first(traces, "cost", ["trace_id"]), transactions)


def _joined(left: Frame, right: Frame) -> Frame:
    return left.join(right, on="trace_id", how="left")


def _sums(rows: Frame, keys: Sequence[str], names: Iterable[str]) -> Frame:
    names = list(names)
    return engines.integers(rows.group_by(keys).agg(nw.col(name).sum() for name in names), *names)


def _counted(links: Frame) -> Frame:
    return links.with_columns(linked=nw.lit(1))


def _transactions(rows: Frame) -> Frame:
    """Add up transactions by trace."""
    # First by account too: what is left to count are rows, which every engine adds up alike.
    accounts = _sums(engines.by_row(rows, _of_transactions), ["trace_id", "account"], _ROWS)
    accounts = engines.by_row(accounts, lambda frame: frame.with_columns(accounts=nw.lit(1)))
    return _sums(accounts, ["trace_id"], (*_ROWS, "accounts"))


def _of_transactions(rows: Frame) -> Frame:
    deposit = (
        nw.col("compute_skipped")
        & (nw.col("skipped_reason") == "no_state")
        & nw.col("orig_status").is_in(["nonexist", "uninit"])
        & nw.col("bounce").is_null()
    ).fill_null(value=False)
    failed = nw.col("aborted").fill_null(value=False) & ~deposit
    return rows.select(
        "trace_id",
        "account",
        "total_fees",
        transactions=nw.lit(1),
        failures=nw.when(failed).then(nw.lit(1)).otherwise(nw.lit(0)),
    )


def _links(come: Frame, sent: Frame) -> Frame:
    """Find of each transaction the one that sent the message it was run by."""
    senders = sent.select("msg_hash", parent="tx_hash", parent_lt="tx_lt")
    links = come.select("trace_id", "tx_hash", "tx_lt", "msg_hash").join(senders, on="msg_hash")
    # Nothing is sent after it has come: what says so would send the search round in a circle.
    links = links.filter(nw.col("parent_lt") < nw.col("tx_lt"))
    return links.select("trace_id", "tx_hash", "parent")


def _sent(messages: Frame) -> Frame:
    """Add up what transactions sent, and apart from it what the first one sent."""
    sums = ("sent", "fwd_fees", "attached_high", "attached_low")
    return _sums(engines.by_row(messages, _of_sent), ["trace_id"], sums)


def _of_sent(messages: Frame) -> Frame:
    internal = ~nw.col("destination").is_null()
    first = (nw.col("tx_hash") == nw.col("trace_id")) & ~nw.col("value").is_null()
    messages = messages.with_columns(
        attached=nw.when(first).then(nw.col("value")).otherwise(nw.lit(0)),
    )
    return messages.select(
        "trace_id",
        *engines.halves("attached"),
        sent=nw.when(internal).then(nw.lit(1)).otherwise(nw.lit(0)),
        fwd_fees=nw.col("fwd_fee").fill_null(0),
    )


def _excesses(come: Frame, starts: Frame) -> Frame:
    """Add up the excesses that came to the account that had begun."""
    signed = EXCESSES - 2**32  # in the lake
    excesses = come.filter(nw.col("opcode").is_in([EXCESSES, signed]))
    excesses = excesses.select("trace_id", "destination", "value").join(starts, on="trace_id")
    excesses = excesses.filter(nw.col("destination") == nw.col("started_by"))
    excesses = engines.by_row(
        excesses.select("trace_id", excesses=nw.col("value")),
        lambda frame: frame.select("trace_id", *engines.halves("excesses")),
    )
    return _sums(excesses, ["trace_id"], ("excesses_high", "excesses_low"))


def _completed(traces: Frame) -> Frame:
    """Say what is whole, and that there is nothing where nothing was found."""
    known = ~nw.col("started_by").is_null()
    amounts = [f"{name}_{half}" for name in ("attached", "excesses") for half in ("high", "low")]
    traces = traces.with_columns(
        nw.col("fwd_fees", "sent", "linked").fill_null(0), depth=nw.col("depth").fill_null(1)
    )
    others = nw.col("transactions") - 1
    return traces.with_columns(
        *(nw.when(known).then(nw.col(name).fill_null(0)).alias(name) for name in amounts),
        cost=nw.col("total_fees") + nw.col("fwd_fees"),
        complete=known & (nw.col("linked") == others) & (nw.col("sent") == others),
    )


def _depths(links: Frame) -> Frame:
    """Count the transactions of the longest chain of each trace that has links.

    No number of joins does it for every trace, and plans of lazy engines double with each: so here
    engines differ. DuckDB has recursive queries; the others let Python see the rows.
    """
    native: Any = links.to_native()
    match links.implementation:
        case nw.Implementation.DUCKDB:
            native = native.query("edges", _RECURSION)
        case nw.Implementation.POLARS:
            native = _depths_on_polars(native)
        case nw.Implementation.PYARROW:
            shape = pa.schema([native.schema.field("trace_id"), ("depth", pa.int64())])
            native = pa.Table.from_pandas(_depths_on_pandas(native.to_pandas()), shape)
        case nw.Implementation.DASK:
            empty = _depths_on_pandas(native._meta)  # noqa: SLF001 - Dask has no other name for it
            native = native.shuffle(on="trace_id").map_partitions(_depths_on_pandas, meta=empty)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            columns = "trace_id string, depth bigint"
            native = native.repartition("trace_id").mapInArrow(_depths_of_partition, columns)
        case _:
            native = _depths_on_pandas(native)
    result: Frame = nw.from_native(native).lazy()
    return result


_RECURSION = """
WITH RECURSIVE
links AS MATERIALIZED (FROM edges),
levels AS (
    SELECT links.trace_id, links.tx_hash, 2 AS depth
    FROM links ANTI JOIN links AS others ON links.parent = others.tx_hash
    UNION ALL
    SELECT links.trace_id, links.tx_hash, depth + 1
    FROM levels JOIN links ON links.parent = levels.tx_hash
)
SELECT trace_id, max(depth)::BIGINT AS depth FROM levels GROUP BY trace_id
"""


def _depths_on_polars(links: Any) -> Any:
    import polars as pl  # noqa: PLC0415 - there where a frame of it is

    def work(frame: Any) -> Any:
        return pl.from_pandas(_depths_on_pandas(frame.to_pandas()), schema_overrides=shape)

    shape = {"trace_id": pl.String, "depth": pl.Int64}
    # A filter on the result must not be done before: half a trace is another one.
    return links.map_batches(
        work,
        schema=shape,
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
    )


def _depths_of_partition(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = list(parts)
    if batches:
        depths = _depths_on_pandas(pa.Table.from_batches(batches).to_pandas())
        yield from pa.Table.from_pandas(depths, preserve_index=False).to_batches()


def _depths_on_pandas(links: pd.DataFrame) -> pd.DataFrame:
    hashes = pd.Index(links["tx_hash"])
    links, hashes = links[~hashes.duplicated()], hashes.unique()
    # The row of the parent, -1 of a first transaction; and how many links are between. Each turn
    # takes the parent's own: links jump by 1, 2, 4, 8, …
    ahead, jumped = hashes.get_indexer(pd.Index(links["parent"])), np.ones(len(links), "int64")
    going = np.flatnonzero(ahead >= 0)
    while len(going):
        at = ahead[going]
        jumped[going] += jumped[at]
        ahead[going] = ahead[at]
        going = going[ahead[going] >= 0]
    depth = pd.Series(jumped + 1, index=links.index, dtype="Int64")
    longest = depth.groupby(links["trace_id"]).max()
    return longest.rename("depth").reset_index()
