"""The columns that `decode_bodies` returns, declared once.

A jetton amount may reach 2^120. No integer dtype holds it, a float rounds it, and pandas cannot
calculate with decimals. So there are two columns: `amount` for calculation, as a float, and
`amount_exact` with every digit, as text.
"""

from __future__ import annotations

import pyarrow as pa

from tonframes.wire.kinds import DIGITS, FLOAT, OPCODE, TEXT, Kind
from tonframes.wire.record import Column
from tonframes.wire.schema import MESSAGES


class Unsigned(Kind):
    """An unsigned integer of 64 bits, in results only. The service never sends one."""

    name, expected, wire, arrow = "unsigned", "an integer from 0 to 2^64 - 1", None, pa.uint64()


UNSIGNED = Unsigned()

_KEYS = ("tx_hash", "direction", "position", "msg_hash", "source", "destination")

#: Columns that are copied from the messages, if these have them.
KEYS = tuple(column for column in MESSAGES.columns if column.name in _KEYS)

#: Columns that are read from the bodies.
READ = (
    #      column                  kind      unit       meaning
    Column("opcode",               OPCODE,   "",        "First 32 bits of the body, unsigned; null in shorter bodies."),
    Column("kind",                 TEXT,     "",        "Kind of body that the opcode stands for, as in `decoded_type` of the service; null if unknown."),
    Column("bounced_opcode",       OPCODE,   "",        "Of a bounce: the opcode of the message that was returned."),
    Column("query_id",             UNSIGNED, "",        "Number that the sender chose and that answers repeat."),
    Column("amount",               FLOAT,    "jettons", "Number of jettons, in the smallest unit of the jetton; rounded above 2^53."),
    Column("amount_exact",         TEXT,     "jettons", "The same amount with every digit, as text."),
    Column("sender",               TEXT,     "",        "Raw address of the sender of the jettons, or of the previous owner of the NFT."),
    Column("recipient",            TEXT,     "",        "Raw address of the receiver of the jettons or the NFT."),
    Column("response_destination", TEXT,     "",        "Raw address of the receiver of the rest of the value."),
    Column("forward_amount",       DIGITS,   "nanoton", "Nanoton to forward to the recipient; null above 2^63 - 1."),
    Column("comment",              TEXT,     "",        "Text of a comment: the body itself, or its forward payload. Anyone can write anything."),
    Column("error",                TEXT,     "",        "Why the body, or a part of it, could not be read; null if everything was read."),
)

#: All columns, in order.
RESULT = KEYS + READ
