"""Messages of the synthetic chain: their cells, their sizes, and how the service shows them.

A message is a cell (`Message` in block.tlb). Its hash, and the cells and bits that forwarding is
charged for, are computed from the cell that is built here.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chain.cells import Builder, Cell, usage

if TYPE_CHECKING:
    from chain.bodies import Body

#: A body is put into the root cell of the message if it has no references and at most this number
#: of bits: then it fits beside the longest header and an inline StateInit (1023 - 887 - 2 - 6).
INLINE_BITS = 128
#: From this value on, which takes eight bytes, a bounced body does not fit into the root cell.
ROOM_FOR_BOUNCED = 1 << 56


def base64(data: bytes) -> str:
    """Return bytes in padded base64, as the service writes them."""
    return b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class StateInit:
    """The initial state of an account, which a message may bring."""

    code: Cell
    data: Cell
    memory: dict[str, Any]

    @property
    def cell(self) -> Cell:
        """`StateInit` of block.tlb with nothing but code and data."""
        return Cell(0b00110, 5, (self.code, self.data))

    def address(self, workchain: int = 0) -> str:
        """Return the raw address of the account: the hash of this cell."""
        return f"{workchain}:{self.cell.hash.hex().upper()}"


def workchain_of(address: str) -> int:
    """Return the workchain of a raw address."""
    return int(address.partition(":")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A message that a contract asks the action phase to send.

    Attributes
    ----------
    destination
        A raw address; None for an event to the outside.
    mode
        +1 pays the fees in addition to the value, +2 skips the action if it fails, +16 bounces if
        it fails, +32 destroys the account if its balance is 0 afterwards, 64 adds the rest of the
        incoming value, 128 sends the whole balance.
    """

    destination: str | None
    value: int = 0
    mode: int = 0
    body: Body
    init: StateInit | None = None
    bounce: bool = True


@dataclass(kw_only=True)
class Message:
    """A message that was sent."""

    source: str | None
    destination: str | None
    body: Body
    init: StateInit | None = None
    value: int = 0
    bounce: bool = False
    bounced: bool = False
    fwd_fee: int = 0
    created_lt: int = 0
    created_at: int = 0
    orders: tuple[Send, ...] = ()
    trace: str | None = None

    @property
    def internal(self) -> bool:
        """Whether both ends are accounts."""
        return self.source is not None and self.destination is not None

    @cached_property
    def cell(self) -> Cell:
        """The cell of the message."""
        cell = Builder()
        if self.source is None:  # ext_in_msg_info$10
            cell.uint(0b10, 2).address(None).address(self.destination).coins(0)
        elif self.destination is None:  # ext_out_msg_info$11
            cell.uint(0b11, 2).address(self.source).address(None)
            cell.uint(self.created_lt, 64).uint(self.created_at, 32)
        else:  # int_msg_info$0, always with ihr_disabled
            cell.uint(0b01, 2).uint(self.bounce, 1).uint(self.bounced, 1)
            cell.address(self.source).address(self.destination)
            cell.coins(self.value).uint(0, 1).coins(0).coins(self.fwd_fee)
            cell.uint(self.created_lt, 64).uint(self.created_at, 32)
        if self.init is None:
            cell.uint(0, 1)
        else:
            cell.uint(0b10, 2).inline(self.init.cell)
        if self.body_apart:
            return cell.uint(1, 1).ref(self.body.cell).cell()
        return cell.uint(0, 1).inline(self.body.cell).cell()

    @property
    def body_apart(self) -> bool:
        """Whether the body has its own cell.

        A bounced body has 288 bits and is in the root cell if there is room beside the value
        (transaction.cpp prepare_bounce_phase).
        """
        if self.bounced:
            return self.value >= ROOM_FOR_BOUNCED
        return bool(self.body.cell.refs) or self.body.cell.bits > INLINE_BITS

    @cached_property
    def size(self) -> tuple[int, int]:
        """Cells and bits below the root cell, which forwarding is charged for."""
        below = self.init.cell.refs if self.init else ()
        return usage(*below, self.body.cell) if self.body_apart else usage(*below)

    @cached_property
    def hash(self) -> str:
        """Hash of the message."""
        return base64(self.cell.hash)

    @property
    def hash_norm(self) -> str:
        """Hash of an external-in message without the parts that a relay may change (TEP-467)."""
        plain = Builder().uint(0b10, 2).address(None).address(self.destination).coins(0)
        return base64(plain.uint(0, 1).uint(1, 1).ref(self.body.cell).cell().hash)

    @cached_property
    def wire(self) -> dict[str, Any]:
        """The message as the service shows it, the same for sender and receiver."""
        inside = self.internal
        opcode = self.body.opcode
        shown = {
            "hash": self.hash,
            "source": self.source,
            "destination": self.destination,
            "value": str(self.value) if inside else None,
            "value_extra_currencies": {} if inside else None,
            "fwd_fee": str(self.fwd_fee) if inside else None,
            "ihr_fee": "0" if inside else None,
            "extra_flags": "0" if inside else None,
            "created_lt": str(self.created_lt) if self.source else None,
            "created_at": str(self.created_at) if self.source else None,
            "opcode": None if opcode is None else f"0x{opcode:08x}",
            "decoded_opcode": self.body.decoded_opcode,
            "ihr_disabled": True if inside else None,
            "bounce": self.bounce if inside else None,
            "bounced": self.bounced if inside else None,
            "import_fee": "0" if self.source is None else None,
            "message_content": {
                "hash": base64(self.body.cell.hash),
                "body": self.body.cell.to_base64(),
                "decoded": self.body.decoded,
            },
            "init_state": None
            if self.init is None
            else {
                "hash": base64(self.init.cell.hash),
                "body": self.init.cell.to_base64(),
                "decoded": None,
            },
        }
        if self.source is None:
            shown["hash_norm"] = self.hash_norm
        return shown


def request_cell(order: Send) -> tuple[Cell, dict[str, Any]]:
    """Return an order as wallets take it, a message without source, and as the service shows it."""
    cell = Builder().uint(0b01, 2).uint(order.bounce, 1).uint(0, 1).address(None)
    cell.address(order.destination).coins(order.value).uint(0, 1 + 4 + 4 + 64 + 32)
    if order.init is None:
        cell.uint(0, 1)
    else:
        cell.uint(0b11, 2).ref(order.init.cell)
    decoded = {
        "@type": "message",
        "info": {
            "@type": "int_msg_info",
            "ihr_disabled": True,
            "bounce": order.bounce,
            "bounced": False,
            "dest": order.destination,
            "value": str(order.value),
        },
        "body": order.body.decoded,
    }
    return cell.uint(1, 1).ref(order.body.cell).cell(), decoded
