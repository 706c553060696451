"""Message bodies, read from bags of cells.

- `decode_bodies`: comments, jetton and NFT messages as columns;
- `possible_weights` and `import_fees`: the cells and bits of a message, and the fee for importing
  it.

Anyone can write anything into a body. Reading is always fast: a bag with more than `MAX_CELLS`
cells or `MAX_BYTES` bytes is refused, and nothing here is recursive.

The modules::

    decode        bodies become `columns`
    schemes       known bodies, and how a row is read from one
    weights       the cells and bits of a message, and its import fee
    boc           bags of cells and cells are read
"""

from tonframes.bodies.boc import MAX_BYTES, MAX_CELLS
from tonframes.bodies.decode import decode_bodies
from tonframes.bodies.weights import import_fees, possible_weights

__all__ = ["MAX_BYTES", "MAX_CELLS", "decode_bodies", "import_fees", "possible_weights"]
