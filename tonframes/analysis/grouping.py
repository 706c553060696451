"""Groups of transactions: by columns of theirs, of the message they were run by, or by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import narwhals as nw

from tonframes.analysis import engines
from tonframes.errors import shorten
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

_ALL = "all_rows"


def take_grouped(
    helper: str,
    transactions: object,
    messages: object | None,
    needs: Iterable[str],
    by: str | Sequence[str],
    *,
    figures: Iterable[str] = (),
) -> tuple[Frame, list[str]]:
    """Take transactions in, with the columns to group by.

    Parameters
    ----------
    helper
        The function that the user called, for messages.
    transactions, messages
        What the user gave.
    needs
        Columns of transactions that the helper reads.
    by
        Columns of transactions; or of messages, then those of the message that each transaction
        was run by; or "hour" and "day", UTC. None at all is one group.
    figures
        Columns of the result, which no group may be called.

    Returns
    -------
    The rows, and the names of the columns to group by. Opcodes are unsigned.
    """
    keys = [by] if isinstance(by, str) else by
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise TypeError(f"{helper} groups by names of columns, not by {shorten(by)}")
    keys = list(dict.fromkeys(keys))
    if taken := next((key for key in keys if key in figures), None):
        raise ValueError(f"{helper} cannot group by {taken!r}: it is a figure of the result")
    periods = [key for key in keys if key in engines.PERIODS]
    ours = set(engines.names(transactions, helper, TRANSACTIONS))
    own = [key for key in keys if key in ours and key not in periods]
    theirs = [key for key in keys if key not in ours and key not in periods]
    if theirs and messages is None:
        raise ValueError(
            f"{helper} cannot group by {theirs[0]!r}: transactions have no such column. Those of "
            "messages can be had with messages=, and hour and day are made of now"
        )
    rows = engines.take(
        transactions, helper, TRANSACTIONS, [*needs, "hash", *["now"] * bool(periods)], also=own
    )
    if theirs:
        rows = _with_in_message(rows, helper, messages, theirs)
    for period in periods:
        rows = engines.with_period(rows, period, "now")
    return rows, keys


def _with_in_message(rows: Frame, helper: str, messages: object, names: list[str]) -> Frame:
    known = [name for name in names if name in MESSAGES.schema.names]
    incoming = engines.take(
        messages, helper, MESSAGES, ["tx_hash", "direction", *known], also=names
    ).filter(nw.col("direction") == "in")
    engines.same_engine(helper, rows, incoming)
    if "opcode" in names:
        signed = nw.col("opcode")
        unsigned = nw.when(signed < 0).then(signed + 2**32).otherwise(signed)
        incoming = engines.by_row(incoming, lambda frame: frame.with_columns(opcode=unsigned))
    return rows.join(
        incoming.select("tx_hash", *names), left_on="hash", right_on="tx_hash", how="left"
    )


def add_up(rows: Frame, keys: list[str], *sums: str) -> Frame:
    """Count the rows of each group as `transactions`, and add up columns as int64."""
    rows = engines.by_row(rows, lambda frame: frame.with_columns(transactions=nw.lit(1)))
    grouping = keys
    if not keys:
        rows = rows.with_columns(nw.lit(0).alias(_ALL))
        grouping = [_ALL]
    groups = rows.group_by(grouping, drop_null_keys=False).agg(
        nw.col("transactions").sum(),
        *(nw.col(name).sum() for name in sums),
    )
    groups = engines.integers(groups, "transactions", *sums)
    return groups.select(*keys, "transactions", *sums)
