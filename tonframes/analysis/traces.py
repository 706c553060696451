"""What traces cost. A trace is all transactions that one message or one tick has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import UNMATCHED, sending, tell_repeated, tell_unmatched, unmatched
from tonframes.analysis.engines import one_if
from tonframes.analysis.failures import is_deposit, is_dust

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

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
    given, theirs = intake.entered("trace_costs", transactions, messages)
    rows = given.take((*TRACES, *sending(given)))
    tell_repeated(given, rows)
    rows = rows.filter(~nw.col("trace_id").is_null())
    ends = theirs.take(TRACE_MESSAGES)
    ends = ends.filter(~nw.col("trace_id").is_null())
    intake.same_engine(given, theirs)
    if given.in_doubt:
        _tell_unmatched(rows, ends)
    starts = rows.filter(nw.col("hash") == nw.col("trace_id")).select(
        "trace_id", started_by="account", started_at="now"
    )
    sent = ends.filter(nw.col("direction") == "out")
    come = ends.filter((nw.col("direction") == "in") & ~nw.col("source").is_null())
    failed = one_if(nw.col("aborted") & ~is_deposit() & ~is_dust())
    traces = sums.add_up(
        engines.by_row(rows, lambda frame: frame.with_columns(failures=failed)),
        ["trace_id"],
        sums=["failures"],
        amounts=["total_fees"],
        accounts=True,
    )
    for added in (starts, _sent(sent), _depths(_links(come, sent))):
        traces = traces.join(added, on="trace_id", how="left")
    traces = traces.join(
        _excesses(come),
        left_on=["trace_id", "started_by"],
        right_on=["trace_id", "destination"],
        how="left",
    )
    traces = engines.by_row(traces, _completed)
    traces = sums.whole(
        traces,
        results.TRACE_COSTS.amounts,
        helper="trace_costs",
        keys=["trace_id"],
        wide=wide,
    )
    traces = traces.select(results.TRACE_COSTS.names())
    return cast("AnyFrame", given.give(engines.largest_first(traces, "cost", ["trace_id"])))


def _tell_unmatched(rows: Frame, messages: Frame) -> None:
    """Warn if the number of the messages of a transaction is not the right one."""
    come = nw.col("direction") == "in"
    counted = messages.select("tx_hash", sent=one_if(~come), come=one_if(come))
    counted = sums.add_up(counted, ["tx_hash"], sums=["sent", "come"], rows_as="messages")
    rows = rows.join(counted, left_on="hash", right_on="tx_hash", how="left")
    tell_unmatched("trace_costs", unmatched(rows, "sent", "come").select(UNMATCHED))


def _links(come: Frame, sent: Frame) -> Frame:
    """Find for each transaction the one that sent its message."""
    senders = sent.select("msg_hash", parent="tx_hash", parent_lt="tx_lt")
    links = come.select("trace_id", "tx_hash", "tx_lt", "msg_hash").join(senders, on="msg_hash")
    # A message arrives after it is sent. Rows that contradict this would make the search endless.
    links = links.filter(nw.col("parent_lt") < nw.col("tx_lt"))
    return links.select("trace_id", "tx_hash", "parent")


def _sent(messages: Frame) -> Frame:
    """Add up what all transactions sent, and what the first one sent."""
    first = nw.col("tx_hash") == nw.col("trace_id")
    sent = engines.by_row(
        messages,
        lambda frame: frame.select(
            "trace_id",
            sent=one_if(~nw.col("destination").is_null()),
            fwd_fees=nw.col("fwd_fee"),
            attached=nw.when(first).then(nw.col("value")),
        ),
    )
    amounts = ["fwd_fees", "attached"]
    return sums.add_up(sent, ["trace_id"], sums=["sent"], amounts=amounts, rows_as="messages")


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
    traces = traces.with_columns(
        nw.col("sent", "linked", "fwd_fees").fill_null(0),
        nw.when(known).then(nw.col("attached").fill_null(0)).alias("attached"),
        nw.when(known).then(nw.col("excesses").fill_null(0)).alias("excesses"),
        depth=nw.col("depth").fill_null(1),
    )
    others = nw.col("transactions") - 1
    return traces.with_columns(
        cost=nw.col("total_fees") + nw.col("fwd_fees"),
        complete=known & (nw.col("linked") == others) & (nw.col("sent") == others),
    )


# ── how deep traces are ──────────────────────────────────────────────────────────────────────────


def _depths(links: Frame) -> Frame:
    """Count the links of each trace, and the transactions of its longest chain.

    No fixed number of joins is enough for every trace, and each join doubles the plan of a lazy
    engine. So DuckDB runs a recursive query, and all other engines pass the rows to Python: polars
    all of them, Spark and Dask those of one partition at a time.

    `links` has one row per transaction whose sender is known: trace_id, tx_hash, parent. The result
    has one row per trace that has links: trace_id, depth and linked, the number of links.
    """
    native: Any = links.to_native()
    match links.implementation:
        case nw.Implementation.DUCKDB:
            return engines.lazy(native.query("edges", _RECURSION))
        case nw.Implementation.DASK:
            return engines.by_partition(native.shuffle(on="trace_id"), _on_pandas)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            columns = "trace_id string, depth bigint, linked bigint"
            return engines.lazy(native.repartition("trace_id").mapInArrow(_on_spark, columns))
    return _on_polars(native)


# A recursion holds its rows in memory, so these are numbers, and not hashes. A link has a level for
# each way that leads to it: more than one if a transaction is in the frame more than once.
_RECURSION = """
WITH RECURSIVE
numbered AS MATERIALIZED (SELECT *, row_number() OVER () AS link FROM edges),
pairs AS MATERIALIZED (
    SELECT numbered.link, before.link AS previous
    FROM numbered LEFT JOIN numbered AS before ON numbered.parent = before.tx_hash
),
levels AS (
    SELECT link, 2 AS depth FROM pairs WHERE previous IS NULL
    UNION ALL
    SELECT pairs.link, depth + 1 FROM levels JOIN pairs ON pairs.previous = levels.link
),
deepest AS (SELECT link, max(depth) AS depth FROM levels GROUP BY link)
SELECT trace_id, max(depth)::BIGINT AS depth, count(*) AS linked
FROM numbered LEFT JOIN deepest USING (link) GROUP BY trace_id
"""


def _on_polars(links: Any) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    def work(frame: Any) -> Any:
        once = frame.select("tx_hash").unique("tx_hash", keep="first", maintain_order=True)
        places = once.with_row_index("place")
        first = frame.unique("tx_hash", keep="first", maintain_order=True)
        ahead = first.select("parent").join(
            places, left_on="parent", right_on="tx_hash", how="left", maintain_order="left"
        )
        depth = _lengths(ahead["place"].cast(pl.Int64).fill_null(-1).to_numpy(writable=True))
        deepest = first.select("trace_id", depth=pl.Series(depth)).group_by("trace_id").max()
        linked = frame.group_by("trace_id").agg(linked=pl.len().cast(pl.Int64))
        return deepest.join(linked, on="trace_id")

    shape = {"trace_id": pl.String, "depth": pl.Int64, "linked": pl.Int64}
    return engines.on_polars(links, work, shape)


def _on_spark(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = list(parts)
    if batches:
        depths = _on_pandas(pa.Table.from_batches(batches).to_pandas())
        yield from pa.Table.from_pandas(depths, preserve_index=False).to_batches()


def _on_pandas(links: pd.DataFrame) -> pd.DataFrame:
    hashes = pd.Index(links["tx_hash"])
    first, hashes = links[~hashes.duplicated()], hashes.unique()
    ahead = hashes.get_indexer(pd.Index(first["parent"]))
    depth = pd.Series(_lengths(ahead), index=first.index, dtype="Int64")
    deepest = depth.groupby(first["trace_id"]).max().rename("depth")
    linked = links.groupby("trace_id").size().rename("linked").astype("Int64")
    return pd.concat([deepest, linked], axis="columns").reset_index()


def _lengths(ahead: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Count the transactions of the chain that ends with each link.

    `ahead` has, for each link, the place of the link of its sender, or -1. It is changed.
    """
    # `ahead` becomes the place of an ancestor, and `jumped` the number of links to it. Each pass
    # replaces the ancestor by its own ancestor, so the distance doubles: 1, 2, 4, 8, …
    jumped = np.ones(len(ahead), "int64")
    going = np.flatnonzero(ahead >= 0)
    while len(going):
        at = ahead[going]
        jumped[going] += jumped[at]
        ahead[going] = ahead[at]
        going = going[ahead[going] >= 0]
    return jumped + 1
