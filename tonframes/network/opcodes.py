"""What opcodes mean: the first 32 bits of a message body (`opcode`).

Opcodes are conventions. A contract may use any number for anything: a name is the usual meaning of
the message, and its receiver may do something else. Numbers below 2^16 are chosen by hand, and many
contracts use them for different messages: only 0 and 0x15 of them have a name.

Opcodes have the names of the service (`decoded_opcode`), also where it misspells one. It takes the
first constructor with the opcode from InternalMsgBody0 to 11, ExternalMsgBody and ForwardPayload of
its schemes.tlb (get_opcode_name in logic.cpp). Opcodes without such a name have that of their
standard or contract. opcodes.csv has the source of each:

- schemes.tlb: ton-index-worker/ton-marker/src/schemes of https://github.com/toncenter/ton-indexer,
  commit 43f04ee1; "older schemes.tlb" is commit 0b36048a. Tags with seven digits lack a leading 0.
- layerzero.mch, tgbtc.mch: indexer/indexer/events/mch/specs of the same repository, commits
  11aa2321 and a92dc73a, which say what actions are. Their names are in snake case here.
- transaction.cpp, block.tlb, elector-code.fc, config-code.fc: https://github.com/ton-blockchain/ton
- TEP-…: https://github.com/ton-blockchain/TEPs
- dex-core: op.func of https://github.com/ston-fi/dex-core; an opcode is the CRC32 of its word there
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.network.lookup import name_codes, read_table

if TYPE_CHECKING:
    from tonframes.network.lookup import Column


@dataclass(frozen=True, slots=True)
class Opcode:
    """What an opcode means."""

    code: int
    name: str
    family: str
    source: str
    also: str


#: By opcode, unsigned. If two conventions share a number that the service has no name for, the name
#: contains both names with a comma between them.
OPCODES = {
    code: Opcode(code, **row)
    for row in read_table("opcodes.csv")
    for code in [int(row.pop("opcode"), 16)]
}

OPCODE_NAMES = {code: row.name for code, row in OPCODES.items()}

_SIGNED_OR_UNSIGNED = range(-(2**31), 2**32)


@overload
def opcode_name(opcode: int | None) -> str | None: ...
@overload
def opcode_name(opcode: Column) -> Column: ...
def opcode_name(opcode: object) -> object:
    """Return the names of opcodes of messages (`opcode`).

    Parameters
    ----------
    opcode
        An opcode or a column of them, as in `exit_code_name`. Opcodes may be unsigned, as in our
        tables, or signed, as in the public Parquet lake.

    Returns
    -------
    The name; None for opcodes that are not in `tonframes.network.opcodes.OPCODES`, and for null.
    For a column, a column as from `exit_code_name`.

    Raises
    ------
    TypeError
        As in `exit_code_name`.
    ValueError
        An opcode is outside 32 bits, signed or unsigned.

    Notes
    -----
    An external message to a wallet of version 4 or older begins with a signature. The opcode of
    such a message is random, and so is its name if it has one. `with_operation` calls all external
    messages "external".

    Examples
    --------
    >>> opcode_name(0xd53276db), opcode_name(0xd53276db - 2**32), opcode_name(12345)
    ('excess', 'excess', None)
    """
    return name_codes(opcode, "an opcode", _SIGNED_OR_UNSIGNED, _name)


def unsigned_opcodes(opcode: nw.Expr) -> nw.Expr:
    """Return opcodes as unsigned integers, as in our tables. In the public lake they are signed."""
    # The int32 of the lake would overflow, and engines differ on the remainder of negative numbers.
    opcode = opcode.cast(nw.Int64)
    return nw.when(opcode < 0).then(opcode + 2**32).otherwise(opcode)


def _name(opcode: int) -> str | None:
    return OPCODE_NAMES.get(opcode % 2**32)
