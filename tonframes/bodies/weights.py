"""Count the cells and bits of a message, and compute the fee for importing it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from tonframes.bodies.boc import read_root, require_pytoniq

if TYPE_CHECKING:
    from collections.abc import Iterable


#: The network lets no account grow beyond this (configuration parameter 43, `max_acc_state_cells`).
MAX_STATE_CELLS = 1 << 16


def possible_weights(
    body: str | bytes, init_state: str | bytes | None = None
) -> tuple[tuple[int, int], ...]:
    """Count the cells and bits that a message may have below its root cell: at most four pairs.

    The service shows the body and the initial state of a message. It does not show whether each
    of them was in the root cell or in a separate cell, and the fee depends on that. Some pairs may
    be impossible because the parts do not fit the root cell: not all its other fields are known.
    """
    require_pytoniq("possible_weights")
    from pytoniq_core.boc.cell import Cell  # noqa: PLC0415 - an extra

    parts = [read_root(part, Cell) for part in (body, init_state) if part is not None]
    # A part in the root cell adds the cells that it refers to; a separate part adds itself as well.
    places = ((part.refs, [part]) for part in parts)
    choices = ([cell for place in choice for cell in place] for choice in product(*places))
    return tuple(dict.fromkeys(map(_weight, choices)))


def state_weight(code: str | None, data: str | None) -> tuple[int, int]:
    """Count the distinct cells of a contract's code and data together, and the bits in them."""
    require_pytoniq("state_weight")
    from pytoniq_core.boc.cell import Cell  # noqa: PLC0415 - an extra

    parts = (part for part in (code, data) if part is not None)
    return _weight([read_root(part, Cell, most=MAX_STATE_CELLS) for part in parts])


def _weight(cells: Iterable[Any]) -> tuple[int, int]:
    seen: dict[bytes, int] = {}
    stack = list(cells)
    while stack:
        cell = stack.pop()
        if cell.hash not in seen:
            seen[cell.hash] = len(cell.bits)
            stack += cell.refs
    return len(seen), sum(seen.values())


def import_fees(
    body: str | bytes,
    init_state: str | bytes | None = None,
    *,
    lump_price: int,
    bit_price: int,
    cell_price: int,
) -> frozenset[int]:
    """Compute what it may cost to import an external message, a fee for each possible weight.

    ``lump_price + ceil((bit_price * bits + cell_price * cells) / 2^16)``, in integers: `MsgPrices`
    in block/mc-config.h of the TON monorepo.
    """
    require_pytoniq("import_fees")
    return frozenset(
        lump_price - (-(bit_price * bits + cell_price * cells) >> 16)
        for cells, bits in possible_weights(body, init_state)
    )
