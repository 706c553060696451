"""The operation of a message or transaction: one name for what it does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake
from tonframes.analysis.doubts import TICKS, tell_unstarted
from tonframes.analysis.expressions import first_match, given
from tonframes.batches import left_join
from tonframes.network.opcodes import OPCODE_NAMES, unsigned_opcodes
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks
    from tonframes.wire.record import Table

#: What `by` may name in addition to columns and periods.
OPERATION = "operation"

#: What the operation of a message depends on. `decoded_opcode` is used if the frame has it.
OF_MESSAGES = ("source", "destination", "bounced", "opcode")
#: What the operation of a transaction depends on, in addition to its in-message.
OF_TRANSACTIONS = ("hash", "descr")

TICK_TOCK, EXTERNAL, EVENT = "tick-tock", "external", "event"
BOUNCED, COMMENT, DEPOSIT = "bounced", "comment", "deposit"

_HELPER, _DECODED = "with_operation", "decoded_opcode"
_OPCODE = "unsigned opcode"


@overload
def with_operation(frame: Blocks, messages: None = None) -> pd.DataFrame: ...
@overload
def with_operation(frame: AnyFrame, messages: AnyFrame | None = ...) -> AnyFrame: ...
def with_operation(frame: AnyFrame, messages: AnyFrame | None = None) -> AnyFrame:
    """Add the operation of each transaction or message: one name for what it does.

    The operation is what to group by. The opcode is less suitable: external messages have none,
    and the first 32 bits of their bodies are mostly a part of a signature. All functions with `by`
    compute the operation themselves with ``by="operation"``.

    Parameters
    ----------
    frame
        Transactions, with their `messages` as the second argument; or messages alone. A frame of
        any engine, of our tables or of the public lake; or a `Blocks` in place of transactions and
        messages.
    messages
        The messages of the transactions, a frame of the same engine. The operation of a transaction
        is that of the message that started it.

    Returns
    -------
    A frame of the same engine with the same rows and one more column. The order stays the same if
    the engine keeps one, and on pandas the index as well.

    - operation: the first of these that applies:

      1. tick-tock: no message started the transaction. The network itself runs some contracts of
         the masterchain at the start and at the end of each block.
      2. external: the message came from outside the chain. Most are signed requests to a wallet.
         The opcode and its name (`decoded_opcode`) are not used.
      3. event: the message goes out of the chain, as a log of its contract. Its opcode is not used.
      4. bounced: the message came back, because its receiver failed.
      5. comment: the opcode is 0, which means that a text follows.
      6. The name of the opcode: `decoded_opcode`, if the frame has this column and the service
         gave a name, or else as `opcode_name` gives it.
      7. The opcode in hex, such as 0x6ec9dc65, if it has no name.
      8. deposit: the body has fewer than 32 bits, mostly none at all. Only coins are transferred.

      Null if the in-message of a transaction is not in `messages`.

    Raises
    ------
    TypeError
        The frames are of different engines, or are not frames.
    ValueError
        A column is missing, or the frame already has a column `operation`.

    Notes
    -----
    One operation may be several messages: bounced messages are one, and external ones as well.
    Four names stand for several opcodes: `dedust_swap` for three, `dedust_deposit_liquidity`,
    `storm_execute_orders_bundle` and `storm_provide_position` for two. To keep them apart, group by
    ``["operation", "opcode"]``.

    Names are not facts. A contract may use an opcode for something else. The names of opcodes may
    change with the version of tonframes and of the service, so no store has this column.

    If a frame has a column `operation`, ``by="operation"`` uses this column, so it can be changed
    beforehand.

    To divide external messages by the kind of wallet, group by ``["operation",
    "account_state_code_hash_before"]``. `code_name` gives the names.

    `failures` uses the word deposit for fewer transactions: those that came to an address without
    a contract.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> with_operation(blocks).operation.value_counts().head(4).to_dict()
    {'external': 777, 'comment': 582, 'tick-tock': 360, 'excess': 241}
    >>> sent = blocks.messages[blocks.messages.direction == "out"]
    >>> sorted(set(with_operation(sent).operation))[:4]
    ['0x5a17c0de', '0x6ec9dc65', 'bounced', 'comment']
    """
    messages = intake.paired(_HELPER, frame, messages)
    if messages is None:
        reads = read_of(frame, _HELPER)
        rows = _without_operation(frame, MESSAGES, reads)
        rows = engines.replace(rows, to_messages, reads=reads, writes=[OPERATION])
        return cast("AnyFrame", rows.to_native())
    rows = _without_operation(frame, TRANSACTIONS, OF_TRANSACTIONS)
    incoming = _incoming(messages)
    intake.same_engine(_HELPER, transactions=frame, messages=messages)
    tell_unstarted(_HELPER, frame, rows.lazy(), incoming)
    step = partial(_joined, incoming=incoming)
    rows = engines.beside(rows, step, reads=OF_TRANSACTIONS, writes=[OPERATION])
    return cast("AnyFrame", rows.to_native())


def read_of(messages: object, helper: str) -> list[str]:
    """List the columns that the operation of a message depends on, as far as the frame has them."""
    found = intake.columns_of(messages, helper, MESSAGES)
    return [*OF_MESSAGES, *(name for name in found if name == _DECODED)]


def to_messages(rows: Frame) -> Frame:
    """Add the operation to messages with the columns of `read_of`. Looks at single rows."""
    # A column, because most engines evaluate an expression as often as it is written.
    rows = rows.with_columns(unsigned_opcodes(nw.col("opcode")).alias(_OPCODE))
    rows = engines.named(rows, _OPCODE, OPCODE_NAMES, OPERATION)
    opcode, name = nw.col(_OPCODE), nw.col(OPERATION)
    if _DECODED in rows.collect_schema().names():
        name = nw.coalesce(given(_DECODED), name)
    operation = first_match(
        (nw.col("source").is_null(), nw.lit(EXTERNAL)),
        (nw.col("destination").is_null(), nw.lit(EVENT)),
        (nw.col("bounced"), nw.lit(BOUNCED)),
        (opcode == 0, nw.lit(COMMENT)),
        (opcode.is_null(), nw.lit(DEPOSIT)),
        (~opcode.is_null(), name),
    )
    return rows.with_columns(operation.alias(OPERATION)).drop(_OPCODE)


def to_transactions(rows: Frame) -> Frame:
    """Add the operation to transactions that have that of their in-message, if there is one."""
    operation = nw.when(nw.col("descr") == TICKS).then(nw.lit(TICK_TOCK))
    return rows.with_columns(operation.otherwise(nw.col(OPERATION)).alias(OPERATION))


def _without_operation(
    frame: object, table: Table, reads: Sequence[str]
) -> nw.DataFrame[Any] | Frame:
    """Return a frame with all its columns, and check that none is called operation."""
    rows = intake.take_whole(frame, _HELPER, table, reads)
    if OPERATION in rows.collect_schema().names():
        raise ValueError(f"{_HELPER} would add the column {OPERATION!r}, which the frame has")
    return rows


def _incoming(messages: object) -> Frame:
    """Return the operations of in-messages, by the hash of the transaction, each once."""
    reads = ["tx_hash", "direction", *read_of(messages, _HELPER)]
    rows = intake.take(messages, _HELPER, MESSAGES, reads).filter(nw.col("direction") == "in")
    named = engines.by_row(rows, to_messages).select("tx_hash", OPERATION)
    return engines.once(named, "tx_hash")


def _joined(rows: Frame, incoming: Frame) -> Frame:
    rows = left_join(rows, incoming, left_on="hash", right_on="tx_hash")
    return cast(
        "Frame",
        engines.replace(rows, to_transactions, reads=["descr", OPERATION], writes=[OPERATION]),
    )
