"""Warn of input that would give a wrong number: rows that are missing, or there more than once.

Only frames that are `in_doubt` are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.analysis.engines import one_if
from tonframes.errors import warn

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame
    from tonframes.analysis.intake import Given

#: `descr` of the transactions that no message starts.
TICKS = "tick_tock"
#: What `unmatched` reads of transactions.
SENDING = ("action_success", "action_msgs_created", "bounce")
#: The columns that `unmatched` adds.
UNMATCHED = ("without_messages", "with_repeated_messages")

_FRIENDLY = r"^[\w+/-]{48}$"  # base64 of 36 bytes, in either alphabet


def tell_repeated(given: Given, transactions: Frame) -> None:
    """Warn if a transaction is in the frame more than once: sums count it as often."""
    if not given.in_doubt:
        return
    hashes = transactions.select("hash").collect()["hash"]
    # 64 bits for each text are counted in less time. If all of them differ, so do the texts.
    if hashes.to_native().hash().n_unique() == len(hashes):
        return
    if repeated := len(hashes) - hashes.n_unique():
        warn(
            f"{given.helper}: {repeated} of {len(hashes)} rows are of transactions that are in the "
            "frame before them, and are counted again. After concatenating frames, keep each row "
            'once, on pandas with transactions.drop_duplicates("hash") and '
            'messages.drop_duplicates(["tx_hash", "direction", "position"])'
        )


def tell_friendly(helper: str, rows: object, column: str) -> None:
    """Warn if a column of a frame in memory has user-friendly addresses: none would match."""
    if not isinstance(rows, nw.DataFrame):
        return
    addresses = rows[column].cast(nw.String).drop_nulls()
    if others := int(addresses.str.contains(_FRIENDLY).sum()):
        warn(
            f"{helper}: {others} of {len(addresses)} addresses in {column} are user-friendly, so "
            f"they match no address of a table, which are raw (0:…). to_raw(frame[{column!r}]) "
            "converts them"
        )


def sending(given: Given) -> tuple[str, ...]:
    """List what `unmatched` reads of transactions in doubt; nothing if the frame lacks a column."""
    return SENDING if given.in_doubt and set(SENDING) <= set(given.columns) else ()


def tell_unstarted(given: Given, transactions: Frame, incoming: Frame) -> None:
    """Warn if in-messages (`tx_hash`) of transactions are missing: what depends on them is null.

    Without descr, nothing is known to be missing: ticks and tocks have no in-message.
    """
    if not given.in_doubt or "descr" not in transactions.collect_schema().names():
        return
    hashes, started = (
        pa.chunked_array(frame.collect()[name].to_arrow()).cast(pa.large_string()).combine_chunks()
        for frame, name in (
            (transactions.filter(nw.col("descr") != TICKS).select("hash"), "hash"),
            (incoming.select("tx_hash"), "tx_hash"),
        )
    )
    if missing := len(hashes) - pc.is_in(hashes, value_set=started).true_count:
        warn(
            f"{given.helper}: the in-messages of {missing} of {len(hashes)} transactions are "
            "missing in the frame of messages, and what depends on them is null. Pass the messages "
            "of all the transactions, in both directions"
        )


def unmatched(rows: Frame, sent: str, come: str | None = None) -> Frame:
    """Add whether messages of a transaction are missing, and whether some are there twice.

    A transaction sends the messages that its action phase created, if the phase succeeded, and one
    if it bounces. `sent` and `come` count those in the frame of messages.
    """
    if not set(SENDING) <= set(rows.collect_schema().names()):
        return rows.with_columns(nw.lit(0).alias(name) for name in UNMATCHED)
    acted = nw.col("action_success").fill_null(value=False)
    # Null if the number is unknown: then neither is known.
    created = nw.when(acted).then(nw.col("action_msgs_created")).otherwise(nw.lit(0))
    wanted, found = created + one_if(nw.col("bounce") == "ok"), nw.col(sent).fill_null(0)
    repeated = acted & (found > wanted)
    if come is not None:
        repeated = repeated | (nw.col(come) > 1)
    conditions = (found < wanted, repeated)
    return rows.with_columns(
        one_if(holds).alias(name) for holds, name in zip(conditions, UNMATCHED, strict=True)
    )


def tell_unmatched(helper: str, groups: Frame) -> Frame:
    """Warn by the columns of `unmatched`, or their sums; return the same, computed."""
    computed = groups.collect()
    missing, repeated = (int(computed[name].sum() or 0) for name in UNMATCHED)
    if missing:
        warn(
            f"{helper}: messages of {missing} transactions are missing in the frame of messages, "
            "and what they carried is not counted. Pass the messages of all the transactions"
        )
    if repeated:
        warn(
            f"{helper}: messages of {repeated} transactions are more than once in the frame of "
            "messages, and are counted as often: keep each tx_hash, direction and position once"
        )
    return computed.lazy()
