"""Warn of input that would give a wrong number: rows that are missing, or there more than once.

Only frames in memory are looked at: a look at a lazy frame would compute it. What a `Blocks` reads
from answers or a store is whole, so it is not looked at either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.analysis import intake
from tonframes.analysis.expressions import one_if
from tonframes.errors import warn
from tonframes.tableset import TableSet
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

#: `descr` of the transactions that no message starts.
TICKS = "tick_tock"
#: What `unmatched` reads of transactions.
SENDING = ("action_success", "action_msgs_created", "bounce")
#: The columns that `unmatched` adds.
UNMATCHED = ("without_messages", "with_repeated_messages")

_FRIENDLY = r"^[\w+/-]{48}$"  # base64 of 36 bytes, in either alphabet


def in_doubt(given: object) -> bool:
    """Return whether the rows of what the user passed are looked at."""
    return not isinstance(given, TableSet) and intake.in_memory(given)


def tell_repeated(helper: str, given: object, transactions: Frame) -> None:
    """Warn if a transaction is in the frame more than once: sums count it as often."""
    if not in_doubt(given):
        return
    hashes = transactions.select("hash").collect()["hash"]
    # 64 bits for each text are counted in less time. If all of them differ, so do the texts.
    if hashes.to_native().hash().n_unique() == len(hashes):
        return
    if repeated := len(hashes) - hashes.n_unique():
        warn(
            f"{helper}: {repeated} of {len(hashes)} rows are of transactions that are in the frame "
            "before them, and are counted again. After concatenating frames, keep each row once, "
            'on pandas with transactions.drop_duplicates("hash") and '
            'messages.drop_duplicates(["tx_hash", "direction", "position"])'
        )


def _texts(column: nw.Series[Any]) -> Any:
    return pa.chunked_array(column.to_arrow()).cast(pa.large_string()).combine_chunks()


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


def sending(helper: str, transactions: object) -> tuple[str, ...]:
    """List the columns that `unmatched` reads; none of them if the frame lacks one."""
    here = set(intake.columns_of(transactions, helper, TRANSACTIONS))
    return SENDING if here.issuperset(SENDING) else ()


def tell_unstarted(helper: str, given: object, transactions: Frame, incoming: Frame) -> None:
    """Warn if in-messages of transactions are missing: what depends on them is null.

    Parameters
    ----------
    helper
        Name of the function that the user called, for messages.
    given
        The transactions that the user passed.
    transactions
        The same with the column hash. Without descr, nothing is known to be missing: ticks and
        tocks have no in-message.
    incoming
        The in-messages, with the column tx_hash.
    """
    if not in_doubt(given) or "descr" not in transactions.collect_schema().names():
        return
    rows = transactions.filter(nw.col("descr") != TICKS).select("hash").collect()
    started = _texts(incoming.select("tx_hash").collect()["tx_hash"])
    found = pc.is_in(_texts(rows["hash"]), value_set=started)
    if missing := len(rows) - found.true_count:
        warn(
            f"{helper}: the in-messages of {missing} of {len(rows)} transactions are missing in "
            "the frame of messages, and what depends on them is null. Pass the messages of all "
            "the transactions, in both directions"
        )


def unmatched(rows: Frame, sent: str, come: str | None = None) -> Frame:
    """Add whether messages of a transaction are missing, and whether some are there twice.

    A transaction sends the messages that its action phase created, if the phase succeeded, and one
    if it bounces.

    Parameters
    ----------
    rows
        Transactions. Without the columns of `SENDING`, nothing is known to be missing.
    sent
        The column that counts the messages that a transaction sent, in the frame of messages.
    come
        The column that counts its in-messages there, if they are counted. There is at most one.

    Returns
    -------
    The rows, with the columns `UNMATCHED`: 1 or 0.
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
    """Warn if messages are missing, or there more than once.

    Parameters
    ----------
    helper
        Name of the function that the user called, for messages.
    groups
        Transactions with `UNMATCHED`, or groups of them with the sums; of a frame that is
        `in_doubt`.

    Returns
    -------
    The same, computed.
    """
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
