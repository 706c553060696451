"""Bags of cells read through pytoniq-core, and one cell read from its first bit to its last.

pytoniq-core is built for cells of one's own. What keeps cells of strangers in bounds is here: the
size of a bag is looked at before it is read, and no bit is taken that is not there
(`Slice.load_uint` of pytoniq-core gives a smaller number where bits are missing).
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

#: The network takes no message of more cells (configuration parameter 43, `max_msg_cells`).
MAX_CELLS = 1 << 13
#: Nor of more than 2^21 bits (`max_msg_bits`): with descriptors, references and an index on top,
#: the longest bag there can be stays below this.
MAX_BYTES = 1 << 19

_MAGIC = bytes.fromhex("b5ee9c72")  # boc.tlb, serialized_boc; the service sends no other
_FLAGS, _COUNTS = 4, 6  # where these stand in a bag
_ORDINARY = -1
_MAX_REFS = 4


def need_pytoniq(helper: str) -> None:
    """Tell what to install if the package that reads bags is not there."""
    if find_spec("pytoniq_core") is None:
        raise ImportError(f"{helper} reads bags of cells: pip install 'tonframes[boc]'")


def read_root(bag: str | bytes, make: Any) -> Any:
    """Read a bag with one root.

    Parameters
    ----------
    bag
        The bag, in base64 or as it is.
    make
        Makes a cell of its bits, its references and its type: `Node`, or pytoniq-core's `Cell`.

    Raises
    ------
    ValueError
        It is not such a bag, or larger than a message can be.
    """
    from pytoniq_core.boc.deserialize import Boc  # noqa: PLC0415 - an extra

    data = _decoded(bag)
    size = data[_FLAGS] & 7
    cells, roots = (
        int.from_bytes(data[start : start + size]) for start in (_COUNTS, _COUNTS + size)
    )
    if cells > MAX_CELLS:
        raise ValueError(f"a bag of {cells} cells: a message has at most {MAX_CELLS}")
    if roots != 1:
        raise ValueError(f"a bag of {roots} roots, not one")
    checked: Any = partial(_checked, make)  # declared as a class; a function does as well
    try:
        (root,) = Boc(data).deserialize(checked)
    except Exception as error:  # noqa: BLE001 - it raises IndexError, AttributeError and Exception
        raise ValueError(f"a broken bag of cells: {shorten(str(error))}") from None
    return root


def _decoded(bag: str | bytes) -> bytes:
    # Base64 has four characters for three bytes.
    if len(bag) > (MAX_BYTES if isinstance(bag, bytes) else MAX_BYTES * 4 // 3 + 4):
        raise ValueError(f"a bag of more than {MAX_BYTES} bytes: no message is as large")
    if isinstance(bag, bytes):
        data = bag
    else:
        try:
            data = b64decode(bag, validate=True)
        except (binascii.Error, ValueError):  # ValueError: not ASCII
            raise ValueError(f"not base64: {shorten(bag)}") from None
    if not data.startswith(_MAGIC) or len(data) <= _COUNTS:
        raise ValueError(f"not a bag of cells: {shorten(data)}")
    return data


def _checked(make: Any, bits: bitarray, refs: list[Any], type_: int) -> Any:
    if len(refs) > _MAX_REFS or None in refs:  # None: the cell refers to itself
        raise ValueError("a cell with references that cannot be")
    return make(bits, refs, type_)


class Node:
    """A cell without its hash, which costs as much as all the rest and is not needed to read."""

    __slots__ = ("bits", "exotic", "refs")

    def __init__(self, bits: bitarray, refs: list[Node], type_: int) -> None:
        self.bits, self.refs, self.exotic = bits, refs, type_ != _ORDINARY


class Slice:
    """What is left to read of a cell."""

    __slots__ = ("_value", "bits", "refs")

    def __init__(self, node: Node) -> None:
        if node.exotic:
            raise ValueError("an exotic cell where an ordinary one belongs")
        self.bits = len(node.bits)
        self.refs = list(node.refs)
        self._value = int.from_bytes(node.bits.tobytes()) >> (-self.bits % 8)

    def uint(self, bits: int) -> int:
        """Read an unsigned number."""
        if bits > self.bits:
            raise ValueError(f"{bits} bits belong where {self.bits} are left")
        self.bits -= bits
        number = self._value >> self.bits
        self._value &= (1 << self.bits) - 1
        return number

    def coins(self) -> int:
        """Read an amount, `VarUInteger 16`."""
        return self.uint(8 * self.uint(4))

    def address(self) -> str | None:
        """Read a `MsgAddress` as raw address; None where it is not that of an account."""
        match self.uint(2):
            case 0b00:  # addr_none
                return None
            case 0b01:  # addr_extern
                self.uint(self.uint(9))
                return None
            case 0b11:
                raise ValueError("an addr_var, which no account has")
        if self.uint(1):
            raise ValueError("an address with anycast, which the network has given up")
        workchain = (self.uint(8) ^ 0x80) - 0x80
        return f"{workchain}:{self.uint(256):064X}"

    def ref(self) -> Slice:
        """Read a reference."""
        if not self.refs:
            raise ValueError("a reference belongs where none is left")
        return Slice(self.refs.pop(0))

    def maybe_ref(self) -> None:
        """Pass over a `Maybe ^Cell`."""
        if self.uint(1):
            if not self.refs:
                raise ValueError("a reference belongs where none is left")
            del self.refs[0]

    def either(self) -> Slice | None:
        """Read an `Either Cell ^Cell`: the rest, or what a reference leads to.

        None where the rest is nothing at all: many contracts leave an empty payload out.
        """
        if not self.bits:
            return None
        return self.ref() if self.uint(1) else self

    def snake(self) -> bytes:
        """Read bytes to the end, and on in the chain of first references."""
        parts = []
        rest = self
        while True:
            if rest.bits % 8:
                raise ValueError(f"{rest.bits} bits where whole bytes belong")
            length = rest.bits // 8
            parts.append(rest.uint(rest.bits).to_bytes(length))
            if not rest.refs:
                return b"".join(parts)
            rest = rest.ref()
