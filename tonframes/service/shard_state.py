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
    tips: list[Block] = []
    # The accounts of each workchain that are in the shard of no tip.
    left = {MASTERCHAIN: [_accounts(WHOLE)], BASECHAIN: [_accounts(WHOLE)]}

    def add(blocks: Iterable[Block]) -> None:
        for block in blocks:
            before = left.setdefault(block.workchain, [_accounts(WHOLE)])
            left[block.workchain] = list(subtract(before, [_accounts(block.shard)]))
            if left[block.workchain] != before:
                tips.append(block)

    for earlier in range(seqno, seqno - REACH, -1):
        if not any(left.values()) or held.run(earlier) is None:
            break
        # Of two blocks with common accounts, the later one has the higher seqno.
        add(sorted(held.blocks(earlier), key=lambda block: -block.seqno))
    # Where the blocks that `seqno` commits are held, one that only later blocks name is older.
    committing = seqno if held.run(seqno) is None else seqno - 1
    for later in range(seqno + 1, seqno + 1 + REACH):
        if not any(left.values()) or held.run(later) is None:
            break
        for block in sorted(held.blocks(later), key=lambda block: block.seqno):
            add(_parents(block, committing, held.dialect))
    return sorted(tips, key=lambda block: (block.workchain, block.shard, block.seqno))


def _accounts(shard: int) -> range:
    """Return the first 64 bits of a shard's accounts; its id is a prefix, a bit 1 and zeros."""
    tagged = shard % 2**64
    half = tagged & -tagged
    return range(tagged - half, tagged + half)


def _parents(block: Block, committing: int, dialect: Dialect) -> Sequence[Block]:
    """Return the parents of a block, which a masterchain block up to `committing` commits."""
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
