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
    values, of_messages
        The values of their rows.
    parents, positions
        The place of each message's transaction, and its own among the out-messages; None for in.
    extras, extras_of_messages
        The texts of `extra`; empty if there is none at all.
    """

    outlines: list[Outline]
    values: Values
    of_messages: Values
    parents: list[int]
    positions: list[int | None]
    extras: list[str | None]
    extras_of_messages: list[str | None]


def gather(structs: Iterable[Any], extras: Mapping[int, Extra]) -> Transactions:
    """Take the values of transactions and of their messages; raise as `codec.gather` does.

    `extras` has what the schema has no place for, by the `id` of the struct of a row. No more than
    a hundred structs of an iterator are in memory at once.
    """
    outlines: list[Outline] = []
    parents: list[int] = []
    positions: list[int | None] = []
    texts: list[str | None] = []
    texts_of_messages: list[str | None] = []
    values: list[Values] = []
    of_messages: list[Values] = []
    remaining = iter(structs)
    while rows := list(islice(remaining, MANY)):
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
        outlines += map(_outline, rows)
        values.append(codec.gather(schema.TRANSACTION, rows))
        of_messages.append(codec.gather(schema.MESSAGE, messages))
        if extras:
            texts.extend(dump(extras.get(id(row), {})) for row in rows)
            texts_of_messages.extend(dump(extras.get(id(row), {})) for row in messages)
        del rows, messages, row  # before the next ones are made
    return Transactions(
        outlines,
        codec.join(schema.TRANSACTION, values),
        codec.join(schema.MESSAGE, of_messages),
        parents,
        positions,
        texts,
        texts_of_messages,
    )


def _outline(row: Any) -> Outline:
    description = row.description
    action, bounce = description.action, description.bounce
    return Outline(
        row.hash,
        row.account,
        row.lt,
        row.now,
        row.mc_block_seqno,
        row.block_ref,
        description.type,
        None if action is None else action.success,
        None if action is None else action.msgs_created,
        None if bounce is None else bounce.type,
        row.in_msg is not None,
        None if row.out_msgs is None else len(row.out_msgs),
    )


def tables(batches: Sequence[Transactions], left_out: Collection[int] = ()) -> Tables:
    """Return the tables of transactions and messages, in the order of the answers."""
    transactions = _table(
        schema.TRANSACTIONS, [(batch.values, batch.extras) for batch in batches], {}
    )
    parent = parents(batches)
    position = pa.array(chain.from_iterable(batch.positions for batch in batches), pa.int64())
    added = {
        column.name: transactions[column.of].combine_chunks().take(parent)
        for column in schema.MESSAGES.before
        if column.of
    }
    added["position"] = position
    added["direction"] = pc.if_else(pc.is_null(position), "in", "out")
    messages = _table(
        schema.MESSAGES,
        [(batch.of_messages, batch.extras_of_messages) for batch in batches],
        added,
    )
    if left_out:
        kept = pa.array([i not in left_out for i in range(len(transactions))])
        transactions, messages = transactions.filter(kept), messages.filter(kept.take(parent))
    return {"transactions": transactions, "messages": messages}


def parents(batches: Sequence[Transactions]) -> pa.Array:
    """Return the position of each message's transaction among those of all batches."""
    first, positions = 0, [np.array([], np.int64)]
    for batch in batches:
        positions.append(np.array(batch.parents, np.int64) + first)
        first += len(batch.outlines)
    return pa.array(np.concatenate(positions))


def _table(
    table: Table, batches: Sequence[tuple[Values, list[str | None]]], added: dict[str, Any]
) -> pa.Table:
    values = codec.join(table.record, [values for values, _ in batches])
    columns = codec.columns(table.record, values) | added
    if any(extras for _, extras in batches):
        texts = (extras or [None] * values.rows for values, extras in batches)
        columns["extra"] = pa.array(chain.from_iterable(texts), pa.string())
    return fit(table, columns, values.rows)
