"""What a message weighs, and what it costs to import it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from tonframes.bodies.boc import need_pytoniq, read_root

if TYPE_CHECKING:
    from collections.abc import Iterable


def layouts(
    body: str | bytes, init_state: str | bytes | None = None
) -> tuple[tuple[int, int], ...]:
    """Count what a message may have below its root cell.

    The service shows the body and the initial state of a message, but not whether they stood in
    the root cell or in a cell of their own, and that changes the size that is charged for.

    Parameters
    ----------
    body
        A bag of cells, in base64 (`body`) or as it is (`body_boc` of the public lake).
    init_state
        The same of the initial state that came with the message (`init_state_body`), if any did.

    Returns
    -------
    Pairs of cells and bits, at most four, no two the same. Cells are distinct by hash, over body
    and initial state together.

    Raises
    ------
    ValueError
        It is not a bag of cells, or larger than a message can be.
    ImportError
        pytoniq-core is not installed.

    Notes
    -----
    Whether the parts would fit the root is not looked at: its other fields are not all known.

    Examples
    --------
    >>> from tonframes.bodies.cells import Builder, Cell
    >>> layouts(Builder().uint(0, 32).ref(Cell(5, 3)).cell().to_base64())
    ((1, 3), (2, 35))
    """
    need_pytoniq("layouts")
    from pytoniq_core.boc.cell import Cell  # noqa: PLC0415 - an extra

    parts = [read_root(part, Cell) for part in (body, init_state) if part is not None]
    places = ((part.refs, [part]) for part in parts)
    tops = ([cell for place in choice for cell in place] for choice in product(*places))
    return tuple(dict.fromkeys(map(_usage, tops)))


def _usage(tops: Iterable[Any]) -> tuple[int, int]:
    seen: dict[bytes, int] = {}
    stack = list(tops)
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
    """Compute what an external message may cost to import.

    Parameters
    ----------
    body, init_state
        As for `layouts`.
    lump_price, bit_price, cell_price
        Of a row of `tonframes.network.prices`, of the chain of the account that the message goes
        to.

    Returns
    -------
    A fee in nanoton for each of the `layouts`.

    Notes
    -----
    ``lump_price + ceil((bit_price * bits + cell_price * cells) / 2^16)``, in integers: `MsgPrices`
    in block/mc-config.h of the TON monorepo.

    Examples
    --------
    >>> from tonframes.bodies.cells import Cell
    >>> from tonframes.network.prices import BASECHAIN
    >>> row = BASECHAIN[1]
    >>> prices = {"bit_price": row.bit_price, "cell_price": row.cell_price}
    >>> sorted(import_fees(Cell(1, 512).to_base64(), lump_price=row.lump_price, **prices))
    [400000, 644800]
    """
    need_pytoniq("import_fees")
    return frozenset(
        lump_price - (-(bit_price * bits + cell_price * cells) >> 16)
        for cells, bits in layouts(body, init_state)
    )
