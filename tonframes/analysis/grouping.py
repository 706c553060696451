"""Group transactions: by their columns, by the message that started them, or by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import narwhals as nw

from tonframes.analysis import engines, intake
from tonframes.analysis.doubts import tell_repeated, tell_unstarted
from tonframes.analysis.operations import OPERATION, read_of, to_messages, to_transactions
from tonframes.analysis.periods import PERIODS, with_period
from tonframes.analysis.sums import ALL
from tonframes.errors import did_you_mean, shorten
from tonframes.network.opcodes import unsigned_opcodes
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame
    from tonframes.wire.record import Table

#: What `by` may name in addition to columns.
COMPUTED = (*PERIODS, OPERATION)


def keys_of(helper: str, by: str | Sequence[str]) -> list[str]:
    """Return what to group by as a list of names, each once.

    Parameters
    ----------
    helper
        Name of the function that the user called, for error messages.
    by
        One name, or a list of names.

    Raises
    ------
    TypeError
        `by` is something else.
    """
    keys = [by] if isinstance(by, str) else by
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise TypeError(f"{helper} groups by names of columns, not by {shorten(by)}")
    return list(dict.fromkeys(keys))


def take_grouped(
    helper: str,
    transactions: object,
    messages: object | None,
    needs: Iterable[str],
    by: str | Sequence[str],
    *,
    figures: Iterable[str] = (),
) -> tuple[Frame, list[str]]:
    """Return transactions with the columns to group by.

    Parameters
    ----------
    helper
        Name of the function that the user called, for error messages.
    transactions, messages
        What the user passed.
    needs
        Columns of transactions that the helper reads.
    by
        Columns of transactions; columns of messages, which means of the message that started the
        transaction; `OPERATION`; or `PERIODS`, in UTC. With no name, all rows are one group. If a
        frame has a column `OPERATION`, this column is used.
    figures
        Columns of the result, and of the steps towards it: `by` cannot contain them.

    Returns
    -------
    The rows, and the names of the columns to group by. Opcodes are unsigned, and null for external
    messages.

    Raises
    ------
    ValueError
        There is no such column, or a frame has a column with the name of a period or figure.
    """
    keys = keys_of(helper, by)
    refuse_figures(helper, keys, figures)
    periods = [key for key in keys if key in PERIODS]
    refuse_ambiguous(helper, periods, transactions, messages)
    ours = intake.columns_of(transactions, helper, TRANSACTIONS)
    own = [key for key in keys if key in ours and key not in periods]
    others = [key for key in keys if key not in ours and key not in periods]
    if others and messages is None:
        if others[0] in (*MESSAGES.schema.names, OPERATION):
            raise ValueError(
                f"{helper} cannot group by {others[0]!r} without messages: pass messages=, or a "
                "Blocks"
            )
        near = did_you_mean(others[0], [*ours, *MESSAGES.schema.names, *COMPUTED])
        raise ValueError(
            f"{helper} cannot group by {others[0]!r}: transactions have no such column. Pass "
            f"messages= for {OPERATION} and columns of messages; {', '.join(PERIODS)} are computed "
            f"from now{near}"
        )
    typed = OPERATION in others or (bool(others) and "descr" in ours)
    needs = [*needs, "hash", *["now"] * bool(periods), *["descr"] * typed]
    rows = intake.take(transactions, helper, TRANSACTIONS, needs, also=own)
    tell_repeated(helper, transactions, rows)
    if others:
        theirs = intake.columns_of(messages, helper, MESSAGES)
        refuse_unknown(helper, others, theirs, [*ours, *theirs])
        incoming = _in_messages(helper, messages, others)
        intake.same_engine(helper, transactions=transactions, messages=messages)
        tell_unstarted(helper, transactions, rows, incoming)
        rows = _with_in_message(rows, incoming, others)
    for period in periods:
        rows = with_period(rows, period, "now")
    return rows, keys


def in_time_or_largest_first(groups: Frame, figure: str, keys: Sequence[str]) -> Frame:
    """Sort groups: those of periods alone in the order of time, others by a figure."""
    if keys and set(keys) <= set(PERIODS):
        return engines.in_order(groups, keys)
    return engines.largest_first(groups, figure, keys)


def refuse_figures(helper: str, keys: Sequence[str], figures: Iterable[str]) -> None:
    """Raise an error if a key has the name of a column that the helper computes."""
    here = {*figures, ALL}
    if taken := next((key for key in keys if key in here), None):
        raise ValueError(
            f"{helper} cannot group by {taken!r}: it is a column of the result, or of a step "
            "towards it. To group by a column of your own, rename it"
        )


def refuse_ambiguous(
    helper: str, computed: Sequence[str], transactions: object, messages: object | None
) -> None:
    """Raise an error if transactions or messages have a column with the name of a computed key."""
    if computed:
        refuse_own(helper, computed, transactions, TRANSACTIONS)
        # A Blocks is in both places. Its messages are those of the schema: they need not be read.
        if messages is not None and messages is not transactions:
            refuse_own(helper, computed, messages, MESSAGES)


def refuse_own(helper: str, computed: Sequence[str], frame: object, table: Table) -> None:
    """Raise an error if a frame has a column with the name of a computed key."""
    here = set(intake.columns_of(frame, helper, table))
    if found := next((key for key in computed if key in here), None):
        raise ValueError(
            f"{helper} cannot group by {found!r}: the frame of {table.name} has a column of this "
            f"name, and {helper} computes {found!r} itself. Rename the column to group by it, or "
            "leave it out"
        )


def refuse_unknown(
    helper: str, keys: Sequence[str], found: Iterable[str], known: Iterable[str]
) -> None:
    """Raise an error if no frame has the column of a key."""
    here = {*found, OPERATION}
    if unknown := next((key for key in keys if key not in here), None):
        near = did_you_mean(unknown, [*known, *COMPUTED])
        raise ValueError(
            f"{helper} cannot group by {unknown!r}: there is no such column. by= takes columns of "
            f"the frames, {OPERATION}, {', '.join(PERIODS[:-1])} and {PERIODS[-1]}{near}"
        )


def _in_messages(helper: str, messages: object, names: list[str]) -> Frame:
    """Return columns of in-messages: one row for each transaction, however often it is there."""
    incoming = messages_with(
        messages, helper, names, ["tx_hash", "direction", *["source"] * ("opcode" in names)]
    ).filter(nw.col("direction") == "in")
    if "opcode" in names:
        incoming = engines.by_row(incoming, _with_internal_opcode)
    return engines.once(incoming.select("tx_hash", *names), "tx_hash")


def _with_in_message(rows: Frame, incoming: Frame, names: list[str]) -> Frame:
    rows = rows.join(incoming, left_on="hash", right_on="tx_hash", how="left")
    if OPERATION not in names:
        return rows
    return engines.by_row(rows, to_transactions)


def messages_with(messages: object, helper: str, names: list[str], needs: Sequence[str]) -> Frame:
    """Return messages with columns to group by. The operation is computed; opcodes are unsigned."""
    found = intake.columns_of(messages, helper, MESSAGES)
    own = [name for name in names if name in found]
    known = [name for name in own if name in MESSAGES.schema.names]
    computed = OPERATION in names and OPERATION not in own
    reads = read_of(messages, helper) if computed else []
    rows = intake.take(messages, helper, MESSAGES, [*needs, *known, *reads], also=own)
    if computed:
        rows = engines.by_row(rows, to_messages)
    return engines.by_row(rows, _with_unsigned_opcode) if "opcode" in names else rows


def _with_unsigned_opcode(rows: Frame) -> Frame:
    return rows.with_columns(opcode=unsigned_opcodes(nw.col("opcode")))


def _with_internal_opcode(rows: Frame) -> Frame:
    """Remove the opcodes of external messages, which are mostly the first bits of a signature."""
    return rows.with_columns(opcode=nw.when(~nw.col("source").is_null()).then(nw.col("opcode")))
