"""Message bodies, read from the bags of cells that they travel in.

- `decode_bodies`: what comments, jetton and NFT messages say, as columns;
- `layouts` and `import_fees`: what a message weighs, and what importing it may cost.

A body is written by anybody, about anything. Reading one ends soon whatever is in it: a bag of
more than `MAX_CELLS` cells or `MAX_BYTES` bytes is refused, and nothing here recurses.
"""

from tonframes.bodies.boc import MAX_BYTES, MAX_CELLS
from tonframes.bodies.decode import decode_bodies
from tonframes.bodies.weights import import_fees, layouts

__all__ = ["MAX_BYTES", "MAX_CELLS", "decode_bodies", "import_fees", "layouts"]
