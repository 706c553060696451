"""Read the transactions of an answer, a hundred at a time.

A transaction and its messages have about 200 values. If all structs of an answer were kept until
the columns are made, each value would have left the processor's cache by then. So the values of a
hundred transactions go to arrays, and an `Outline` is all that is kept of each struct.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire import codec, schema
from tonframes.wire.extra import dump
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tonframes.wire.codec import Values
    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables

#: Transactions whose structs are in memory at once.
MANY = 100


class Outline(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What fetching looks at in a transaction, as it is written in the answer.

    The names are those of the columns; `block_ref` is the struct, `out_msgs` how many there are.
    """

    hash: str
    account: str
    lt: str
    now: int
    mc_block_seqno: int
    block_ref: Any
    descr: str
    action_success: bool | None
    action_msgs_created: int | None
    bounce: str | None
    has_in_msg: bool
    out_msgs: int | None


@dataclass(frozen=True, eq=False)
class Transactions:
    """The transactions of an answer and their messages, ready to become tables.

    Attributes
    ----------
    outlines
        One of each transaction.
    of_transactions, of_messages
        The values of their rows.
    parents, positions
        The place of each message's transaction, and its own among the out-messages; None for in.
    extras
        The texts of `extra`, of transactions and of messages; empty if there is none at all.
    """

    outlines: list[Outline]
    of_transactions: Values
    of_messages: Values
    parents: list[int]
    positions: list[int | None]
    extras: tuple[list[str | None], list[str | None]]


def gather(structs: Iterable[Any], extras: Mapping[int, Extra]) -> Transactions:
    """Take the values of transactions and of their messages.

    Parameters
    ----------
    structs
        The transactions. No more than a hundred of an iterator are in memory at once.
    extras
        What the schema has no place for, by the identity of the struct of a row.

    Raises
    ------
    pyarrow.ArrowInvalid, OverflowError, UnicodeDecodeError
        As `codec.gather`.
    """
    outlines: list[Outline] = []
    parents: list[int] = []
    positions: list[int | None] = []
    texts: tuple[list[str | None], list[str | None]] = ([], [])
    values: tuple[list[Values], list[Values]] = ([], [])
    rest = iter(structs)
    while rows := list(islice(rest, MANY)):
        messages: list[Any] = []
        for i, row in enumerate(rows, start=len(outlines)):
            if row.in_msg is not None:
                messages.append(row.in_msg)
                parents.append(i)
                positions.append(None)
            if row.out_msgs:
                messages += row.out_msgs
                parents += [i] * len(row.out_msgs)
                positions += range(len(row.out_msgs))
        outlines += map(outline, rows)
        values[0].append(codec.gather(schema.TRANSACTION, rows))
        values[1].append(codec.gather(schema.MESSAGE, messages))
        if extras:
            texts[0].extend(dump(extras.get(id(row), {})) for row in rows)
            texts[1].extend(dump(extras.get(id(row), {})) for row in messages)
        del rows, messages, row  # before the next ones are made
    return Transactions(
        outlines,
        codec.join(schema.TRANSACTION, values[0]),
        codec.join(schema.MESSAGE, values[1]),
        parents,
        positions,
        texts,
    )


def outline(row: Any) -> Outline:
    """Return what fetching looks at in the struct of a transaction."""
    about = row.description
    action, bounce = about.action, about.bounce
    return Outline(
        row.hash,
        row.account,
        row.lt,
        row.now,
        row.mc_block_seqno,
        row.block_ref,
        about.type,
        None if action is None else action.success,
        None if action is None else action.msgs_created,
        None if bounce is None else bounce.type,
        row.in_msg is not None,
        None if row.out_msgs is None else len(row.out_msgs),
    )


def tables(parts: Sequence[Transactions], left_out: Collection[int]) -> Tables:
    """Return the tables of transactions and messages, in the order of the answers.

    Parameters
    ----------
    parts
        Those of each answer.
    left_out
        Positions, among all of them, of transactions that are left out with their messages.

    Raises
    ------
    pyarrow.ArrowInvalid, OverflowError, UnicodeDecodeError
        As `codec.columns`.
    """
    of_transactions = _table(
        schema.TRANSACTIONS,
        [part.of_transactions for part in parts],
        [part.extras[0] for part in parts],
    )
    first, parents = 0, []
    for part in parts:
        parents.append(np.array(part.parents, np.int64) + first)
        first += len(part.outlines)
    parent = pa.array(np.concatenate([np.array([], np.int64), *parents]))
    position = pa.array(chain.from_iterable(part.positions for part in parts), pa.int64())
    added = {
        column.name: of_transactions[column.of].combine_chunks().take(parent)
        for column in schema.MESSAGES.before
        if column.of
    }
    added["position"] = position
    added["direction"] = pc.if_else(pc.is_null(position), "in", "out")
    of_messages = _table(
        schema.MESSAGES,
        [part.of_messages for part in parts],
        [part.extras[1] for part in parts],
        **added,
    )
    if left_out:
        kept = pa.array([i not in left_out for i in range(first)])
        of_transactions, of_messages = (
            of_transactions.filter(kept),
            of_messages.filter(kept.take(parent)),
        )
    return {"transactions": of_transactions, "messages": of_messages}


def _table(
    table: Table,
    parts: Sequence[Values],
    extras: Sequence[list[str | None]],
    **added: Any,
) -> pa.Table:
    values = codec.join(table.record, parts)
    columns = codec.columns(table.record, values) | added
    if any(extras):
        texts = (t or [None] * part.rows for t, part in zip(extras, parts, strict=True))
        columns["extra"] = pa.array(chain.from_iterable(texts), pa.string())
    return fit(table, columns, values.rows)
