"""Find the tips: the last block of each shard as of a masterchain block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from tonframes.seqnos import subtract
from tonframes.service.rows import Block
from tonframes.wire import schema
from tonframes.wire.kinds import SHARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tonframes.service.rows import HeldRows
    from tonframes.wire.kinds import Dialect

MASTERCHAIN, BASECHAIN = -1, 0
#: The shard of a whole workchain.
WHOLE = -(2**63)
#: Masterchain blocks that are searched in each direction. That is enough: a shard has a block at
#: least every 8 masterchain blocks, as its validators make an empty one.
REACH = 100

_refs = msgspec.json.Decoder(list[schema.BLOCK_REF.struct] | None).decode  # type: ignore[name-defined]


def shard_state(held: HeldRows, seqno: int) -> list[Block]:
    """Return the last block of each shard, as far as the store's blocks show it.

    If `seqno` commits no new block of a shard, earlier masterchain blocks are searched. If the
    store does not hold them, the parents of later blocks are the tips. So the state before a range
    that the store holds is known as well; but before its first masterchain block there is none, as
    in a service whose index begins there.
    """
    runs = held.runs()
    if not runs or seqno < runs[0].start:
        return []
    tips = _Tips()
    for before in range(seqno, seqno - REACH, -1):
        if tips.complete or held.run(before) is None:
            break
        # Of two blocks with common accounts, the later one has the higher seqno.
        tips.add(sorted(held.blocks(before), key=lambda block: -block.seqno))
    # Where the blocks that `seqno` commits are held, one that only later blocks name is older.
    committing = seqno if held.run(seqno) is None else seqno - 1
    for after in range(seqno + 1, seqno + 1 + REACH):
        if tips.complete or held.run(after) is None:
            break
        for block in sorted(held.blocks(after), key=lambda block: block.seqno):
            tips.add(_parents(block, committing, held.dialect))
    return sorted(tips.blocks, key=lambda block: (block.workchain, block.shard, block.seqno))


class _Tips:
    """Blocks, each with some accounts that no block added before has."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._left = {MASTERCHAIN: [_accounts(WHOLE)], BASECHAIN: [_accounts(WHOLE)]}

    @property
    def complete(self) -> bool:
        return not any(self._left.values())

    def add(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            left = self._left.setdefault(block.workchain, [_accounts(WHOLE)])
            rest = list(subtract(left, [_accounts(block.shard)]))
            if rest != left:
                self._left[block.workchain] = rest
                self.blocks.append(block)


def _accounts(shard: int) -> range:
    """Return the first 64 bits of a shard's accounts; its id is a prefix, a bit 1 and zeros."""
    tagged = shard % 2**64
    half = tagged & -tagged
    return range(tagged - half, tagged + half)


def _parents(block: Block, committing: int, dialect: Dialect) -> Sequence[Block]:
    """Return the parents of a block; only their workchain, shard and seqno are known.

    Parameters
    ----------
    committing
        The last masterchain block that may commit them.
    """
    refs = _refs(block.parents or "null") or ()
    shards = SHARD.decode([ref.shard for ref in refs]).to_pylist()
    parents = []
    for ref, shard in zip(refs, shards, strict=True):
        named = reference(ref.workchain, shard, ref.seqno, dialect)
        # A block must name the masterchain block that commits it, which may be an earlier one.
        committed = reference(MASTERCHAIN, WHOLE, committing, dialect)
        json = msgspec.json.encode({**named, "masterchain_block_ref": committed})
        parents.append(Block(ref.workchain, shard, ref.seqno, None, None, msgspec.Raw(json)))
    return parents


def reference(workchain: int, shard: int, seqno: int, dialect: Dialect) -> dict[str, int | str]:
    """Return the reference to a block, as a dialect writes it."""
    [text] = SHARD.encode(pa.array([shard]), dialect)
    return {"workchain": workchain, "shard": text, "seqno": seqno}
