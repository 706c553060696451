"""Read bags of cells (BOC) with pytoniq-core, and read a cell from its first bit to its last.

pytoniq-core is made for trusted cells. This module adds the checks for untrusted ones: the size of
a bag is checked before the bag is read, and missing bits are an error (`Slice.load_uint` of
pytoniq-core returns a smaller number instead).
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tonframes.errors import shorten

if TYPE_CHECKING:
    from bitarray import bitarray

#: The network accepts no message with more cells (configuration parameter 43, `max_msg_cells`).
MAX_CELLS = 1 << 13
#: It accepts no message of more than 2^21 bits either (`max_msg_bits`). With descriptors,
#: references and an index, the longest possible bag is below this number of bytes.
MAX_BYTES = 1 << 19

_MAGIC = bytes.fromhex("b5ee9c72")  # boc.tlb, serialized_boc; the service sends only this form
_FLAGS, _COUNTS = 4, 6  # offsets in a bag
_ORDINARY = -1
_MAX_REFS = 4


def require_pytoniq(helper: str) -> None:
    """Raise an error that says what to install if pytoniq-core is missing."""
    if find_spec("pytoniq_core") is None:
        raise ImportError(
            f"{helper} needs pytoniq-core to read bags of cells: pip install 'tonframes[boc]'"
        )


def read_root(boc: str | bytes, make: Any, *, most: int = MAX_CELLS) -> Any:
    """Read a bag that has one root and at most `most` cells. `make` makes a cell of its parts.

    Raises ValueError for anything else.
    """
    from pytoniq_core.boc.deserialize import Boc  # noqa: PLC0415 - an extra

    data = _decoded(boc, MAX_BYTES // MAX_CELLS * most)
    size = data[_FLAGS] & 7
    cells, roots = (
        int.from_bytes(data[start : start + size]) for start in (_COUNTS, _COUNTS + size)
    )
    if cells > most:
        raise ValueError(f"the bag has {cells} cells; it may have at most {most}")
    if roots != 1:
        raise ValueError(f"the bag has {roots} roots instead of one")
    checked: Any = partial(_checked, make)  # annotated as a class there; a function works as well
    try:
        (root,) = Boc(data).deserialize(checked)
    except Exception as error:  # noqa: BLE001 - it raises IndexError, AttributeError and Exception
        raise ValueError(f"a broken bag of cells: {shorten(str(error))}") from None
    return root


def _decoded(boc: str | bytes, most: int) -> bytes:
    # Base64 has four characters for three bytes.
    if len(boc) > (most if isinstance(boc, bytes) else most * 4 // 3 + 4):
        raise ValueError(f"the bag has more than {most} bytes, more than it may have")
    if isinstance(boc, bytes):
        data = boc
    else:
        try:
            data = b64decode(boc, validate=True)
        except (binascii.Error, ValueError):  # ValueError: not ASCII
            raise ValueError(f"not base64: {shorten(boc)}") from None
    if not data.startswith(_MAGIC) or len(data) <= _COUNTS:
        raise ValueError(f"not a bag of cells: {shorten(data)}")
    return data


def _checked(make: Any, bits: bitarray, refs: list[Any], type_: int) -> Any:
    if len(refs) > _MAX_REFS or None in refs:  # None: the cell refers to itself
        raise ValueError("a cell has impossible references")
    return make(bits, refs, type_)


class Node:
    """A cell without its hash, which would take half of the time and is not needed for reading."""

    __slots__ = ("bits", "exotic", "refs")

    def __init__(self, bits: bitarray, refs: list[Node], type_: int) -> None:
        self.bits, self.refs, self.exotic = bits, refs, type_ != _ORDINARY


class Slice:
    """The bits and references of a cell that have not been read yet."""

    __slots__ = ("_value", "bits", "refs")

    def __init__(self, node: Node) -> None:
        if node.exotic:
            raise ValueError("an exotic cell instead of an ordinary one")
        self.bits = len(node.bits)
        self.refs = list(node.refs)
        self._value = int.from_bytes(node.bits.tobytes()) >> (-self.bits % 8)

    def uint(self, bits: int) -> int:
        """Read an unsigned number."""
        if bits > self.bits:
            raise ValueError(f"{bits} bits are expected, {self.bits} are left")
        self.bits -= bits
        number = self._value >> self.bits
        self._value &= (1 << self.bits) - 1
        return number

    def coins(self) -> int:
        """Read an amount, `VarUInteger 16`."""
        return self.uint(8 * self.uint(4))

    def address(self) -> str | None:
        """Read a `MsgAddress` as a raw address; None if it is not the address of an account."""
        match self.uint(2):
            case 0b00:  # addr_none
                return None
            case 0b01:  # addr_extern
                self.uint(self.uint(9))
                return None
            case 0b11:
                raise ValueError("an addr_var; no account has such an address")
        if self.uint(1):
            raise ValueError("an address with anycast, which the network no longer supports")
        workchain = (self.uint(8) ^ 0x80) - 0x80
        return f"{workchain}:{self.uint(256):064X}"

    def ref(self) -> Slice:
        """Read a reference."""
        if not self.refs:
            raise ValueError("a reference is expected, none is left")
        return Slice(self.refs.pop(0))

    def maybe_ref(self) -> None:
        """Skip a `Maybe ^Cell`."""
        if self.uint(1):
            if not self.refs:
                raise ValueError("a reference is expected, none is left")
            del self.refs[0]

    def either(self) -> Slice | None:
        """Read an `Either Cell ^Cell`: the rest of the cell, or a cell that it refers to.

        None if no bit is left: many contracts omit an empty payload.
        """
        if not self.bits:
            return None
        return self.ref() if self.uint(1) else self

    def snake(self) -> bytes:
        """Read all remaining bytes, and those in the chain of first references ("snake" format)."""
        parts = []
        rest = self
        while True:
            if rest.bits % 8:
                raise ValueError(f"whole bytes are expected, {rest.bits} bits are left")
            length = rest.bits // 8
            parts.append(rest.uint(rest.bits).to_bytes(length))
            if not rest.refs:
                return b"".join(parts)
            rest = rest.ref()
