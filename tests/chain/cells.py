"""Write ordinary cells and bags of cells (BOC).

The chain fills message bodies, code and data with real bags of cells. It must work in the base
install, so this does not use pytoniq-core (extra `boc`).

Format: the TVM white paper, chapter 3 (representation hash), and `boc.tlb` of the TON monorepo
(`serialized_boc#b5ee9c72`). The service sends bags with one root and a CRC-32C; in base64 they
begin with "te6cck".
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Self

#: The most bits and references of one cell.
MAX_BITS, MAX_REFS = 1023, 4


def _crc32c_table() -> tuple[int, ...]:
    def entry(remainder: int) -> int:
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)  # reversed Castagnoli
        return remainder

    return tuple(entry(byte) for byte in range(256))


_CRC32C = _crc32c_table()


def _crc32c(data: bytes) -> bytes:
    """Compute the CRC-32C that ends a bag of cells, little-endian."""
    table, crc = _CRC32C, 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


class Cell:
    """An ordinary cell: up to 1023 bits and up to 4 references."""

    __slots__ = ("bits", "depth", "hash", "refs", "serial", "value")

    def __init__(self, value: int = 0, bits: int = 0, refs: tuple[Cell, ...] = ()) -> None:
        if bits > MAX_BITS or len(refs) > MAX_REFS or value >> bits:
            raise ValueError(
                f"a cell has at most {MAX_BITS} bits and {MAX_REFS} references, and its value fits "
                f"its bits; here are {bits} bits and {len(refs)} references"
            )
        self.value, self.bits, self.refs = value, bits, refs
        padded = value
        if bits % 8:  # padded to whole bytes with a one and zeros
            padded = (value << 1 | 1) << (7 - bits % 8)
        #: Descriptors and data: part of both the hash and the bag.
        self.serial = bytes((len(refs), bits // 8 + (bits + 7) // 8)) + padded.to_bytes(
            (bits + 7) // 8
        )
        self.depth: int = 1 + max(ref.depth for ref in refs) if refs else 0
        depths = b"".join(ref.depth.to_bytes(2) for ref in refs)
        self.hash: bytes = sha256(
            self.serial + depths + b"".join(ref.hash for ref in refs)
        ).digest()

    def to_base64(self) -> str:
        """Return the cell and everything below it as a bag with one root, in base64."""
        order = _parents_first(self)
        place = {cell.hash: number for number, cell in enumerate(order)}
        size = (len(order).bit_length() + 7) // 8
        data = b"".join(
            cell.serial + b"".join(place[ref.hash].to_bytes(size) for ref in cell.refs)
            for cell in order
        )
        width = (len(data).bit_length() + 7) // 8
        counts = (len(order), 1, 0)  # cells, roots, absent cells
        bag = (
            bytes.fromhex("b5ee9c72")
            + bytes((0x40 | size, width))  # 0x40: with a CRC-32C, without an index
            + b"".join(count.to_bytes(size) for count in counts)
            + len(data).to_bytes(width)
            + (0).to_bytes(size)  # the root is the first cell
            + data
        )
        return b64encode(bag + _crc32c(bag)).decode()


def _parents_first(root: Cell) -> list[Cell]:
    """Order the distinct cells so that references only point forwards, as a bag requires."""
    done: dict[bytes, Cell] = {}

    def visit(cell: Cell) -> None:
        if cell.hash not in done:
            for ref in cell.refs:
                visit(ref)
            done[cell.hash] = cell

    visit(root)
    return list(done.values())[::-1]


def usage(*roots: Cell) -> tuple[int, int]:
    """Count the distinct cells under some roots, including the roots, and the bits in them.

    Cells with the same hash count once, over all roots together: fees for storing and forwarding
    are charged by this size.
    """
    seen: dict[bytes, int] = {}
    stack = list(roots)
    while stack:
        cell = stack.pop()
        if cell.hash not in seen:
            seen[cell.hash] = cell.bits
            stack += cell.refs
    return len(seen), sum(seen.values())


class Builder:
    """Collects bits and references for a cell. Each method returns the builder."""

    __slots__ = ("bits", "refs", "value")

    def __init__(self) -> None:
        self.value, self.bits = 0, 0
        self.refs: list[Cell] = []

    def uint(self, number: int, bits: int) -> Self:
        """Append an unsigned number with this number of bits."""
        self.value = self.value << bits | number
        self.bits += bits
        return self

    def raw(self, data: bytes) -> Self:
        """Append whole bytes."""
        return self.uint(int.from_bytes(data), 8 * len(data))

    def coins(self, amount: int) -> Self:
        """Append an amount (`VarUInteger 16`): its length in bytes, in 4 bits, then the number."""
        length = (amount.bit_length() + 7) // 8
        return self.uint(length, 4).uint(amount, 8 * length)

    def address(self, raw: str | None) -> Self:
        """Append a raw address as `addr_std` without anycast, None as `addr_none`."""
        if raw is None:
            return self.uint(0, 2)
        workchain, _, account = raw.partition(":")
        return self.uint(0b100, 3).uint(int(workchain) & 0xFF, 8).uint(int(account, 16), 256)

    def ref(self, cell: Cell) -> Self:
        """Append a reference."""
        self.refs.append(cell)
        return self

    def inline(self, cell: Cell) -> Self:
        """Append the bits and references of another cell."""
        self.refs += cell.refs
        return self.uint(cell.value, cell.bits)

    def cell(self) -> Cell:
        """Return the cell."""
        return Cell(self.value, self.bits, tuple(self.refs))
