"""The operation of a message or transaction: one name for what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake
from tonframes.analysis.doubts import TICKS, tell_unstarted
from tonframes.analysis.engines import first_match, text_of
from tonframes.analysis.intake import Given
from tonframes.batches import left_join
from tonframes.network.opcodes import OPCODE_NAMES, unsigned_opcodes
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

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
    transactions, given = intake.entered(_HELPER, frame, messages)
    if given.passed is None:
        given = Given(frame, _HELPER, MESSAGES)
        reads = reads_of(given)
        rows = engines.replace(_whole(given, reads), to_messages, reads=reads, writes=[OPERATION])
        return cast("AnyFrame", rows.to_native())
    rows = _whole(transactions, OF_TRANSACTIONS)
    incoming = given.take(["tx_hash", "direction", *reads_of(given)])
    incoming = engines.by_row(incoming.filter(nw.col("direction") == "in"), to_messages)
    incoming = engines.once(incoming.select("tx_hash", OPERATION), "tx_hash")
    intake.same_engine(transactions, given)
    tell_unstarted(transactions, rows.lazy(), incoming)

    def joined(found: Frame) -> Any:
        found = left_join(found, incoming, left_on="hash", right_on="tx_hash")
        reads = ["descr", OPERATION]
        return engines.replace(found, to_transactions, reads=reads, writes=[OPERATION])

    rows = engines.beside(rows, joined, reads=OF_TRANSACTIONS, writes=[OPERATION])
    return cast("AnyFrame", rows.to_native())


def _whole(given: Given, reads: Sequence[str]) -> nw.DataFrame[Any] | Frame:
    """Return a frame with all its columns, and check that none is called operation."""
    rows = given.whole(reads)
    if OPERATION in given.columns:
        raise ValueError(f"{_HELPER} would add the column {OPERATION!r}, which the frame has")
    return rows


def read_of(messages: object, helper: str) -> list[str]:
    """List the columns that the operation of a message depends on, as far as the frame has them."""
    return reads_of(Given(messages, helper, MESSAGES))


def reads_of(messages: Given) -> list[str]:
    """List the columns that the operation of a message depends on, as far as they are there."""
    return [*OF_MESSAGES, *(name for name in messages.columns if name == _DECODED)]


def to_messages(rows: Frame) -> Frame:
    """Add the operation to messages with the columns of `read_of`. Looks at single rows."""
    # A column, because most engines evaluate an expression as often as it is written.
    rows = rows.with_columns(unsigned_opcodes(nw.col("opcode")).alias(_OPCODE))
    rows = engines.named(rows, _OPCODE, OPCODE_NAMES, OPERATION)
    opcode, name = nw.col(_OPCODE), nw.col(OPERATION)
    if _DECODED in rows.collect_schema().names():
        name = nw.coalesce(text_of(_DECODED), name)
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
