"""Shards of the synthetic chain: their accounts, block headers, splits and merges."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from chain.accounts import digest

if TYPE_CHECKING:
    from random import Random

    from chain.messages import Message

#: The shard of a whole workchain.
WHOLE = 1 << 63
#: In every round of 96 masterchain blocks the first shard splits once, and its halves merge again.
#: Its blocks announce this 3 masterchain blocks before.
ROUND, SPLIT, MERGE, NOTICE = 96, 24, 72, 3
#: Weights of a shard adding no block, one block or two blocks to a masterchain block.
BLOCKS = {0: 6, 1: 88, 2: 6}
#: No real network has this id, so no store mixes this chain with mainnet (-239) or testnet (-3).
GLOBAL_ID = -217


@cache
def _place(address: str) -> tuple[int, int]:
    """Return the workchain of an account and the first 64 bits of its hash."""
    workchain, _, account = address.partition(":")
    return int(workchain), int(account[:16], 16)


@dataclass(slots=True, eq=False)
class Shard:
    """A shard. Its id is its tagged prefix, `(2 * prefix + 1) << (63 - length)`."""

    workchain: int
    id: int
    seqno: int
    parents: list[dict[str, Any]] = field(default_factory=list)
    after: str = ""
    queue: deque[Message] = field(default_factory=deque)

    @property
    def bit(self) -> int:
        """The tag, which is the lowest bit that is set."""
        return self.id & -self.id

    @property
    def ref(self) -> dict[str, Any]:
        """The last block; the id is in hex without leading zeros, as the service prints it."""
        return {"workchain": self.workchain, "shard": f"{self.id:X}", "seqno": self.seqno}

    def holds(self, address: str) -> bool:
        """Return whether an account belongs to the shard."""
        workchain, start = _place(address)
        if workchain != self.workchain:
            return False
        return (start ^ self.id) & -(self.bit << 1) & (2 * WHOLE - 1) == 0

    def split(self) -> tuple[Shard, Shard]:
        """Split into two halves, which follow the last block and divide the queue."""
        half = self.bit >> 1
        lower = Shard(self.workchain, self.id - half, self.seqno, [self.ref], "split")
        upper = Shard(self.workchain, self.id + half, self.seqno, [self.ref], "split")
        for message in self.queue:
            (lower if lower.holds(message.destination or "") else upper).queue.append(message)
        return lower, upper

    def merge(self, sibling: Shard) -> Shard:
        """Merge with the upper sibling; the next seqno follows the higher of the two."""
        seqno = max(self.seqno, sibling.seqno)
        merged = Shard(self.workchain, self.id + self.bit, seqno, [self.ref, sibling.ref], "merge")
        merged.queue.extend([*self.queue, *sibling.queue])
        return merged

    def block(
        self,
        rng: Random,
        *,
        mc_seqno: int,
        now: int,
        start_lt: int,
        end_lt: int,
        tx_count: int,
        key_block: int,
        wants: str = "",
        before_split: bool = False,
    ) -> dict[str, Any]:
        """Make the header of the next block."""
        self.seqno += 1
        name = (self.workchain, self.id, self.seqno, start_lt)
        masterchain = self.workchain == -1
        header = {
            **self.ref,
            "root_hash": digest("root", name, tx_count),
            "file_hash": digest("file", name, tx_count),
            "global_id": GLOBAL_ID,
            "version": 0,
            "after_merge": self.after == "merge",
            "before_split": before_split,
            "after_split": self.after == "split",
            "want_merge": wants == "merge",
            "want_split": wants == "split",
            "key_block": False,
            "vert_seqno_incr": False,
            "flags": 1,
            "gen_utime": str(now),
            "start_lt": str(start_lt),
            "end_lt": str(end_lt),
            "validator_list_hash_short": rng.getrandbits(31),
            "gen_catchain_seqno": key_block // 100,
            "min_ref_mc_seqno": max(0, mc_seqno - 8 + rng.randrange(4)),
            "prev_key_block_seqno": key_block,
            "vert_seqno": 0,
            # A shard block refers to the masterchain block before the one that includes it.
            "master_ref_seqno": 0 if masterchain else mc_seqno - 1,
            "rand_seed": digest("seed", name),
            "created_by": digest("validator", rng.randrange(30)),
            "tx_count": tx_count,
            "masterchain_block_ref": {
                "workchain": -1,
                "shard": f"{WHOLE:X}",
                "seqno": mc_seqno,
            },
            "prev_blocks": self.parents,
        }
        self.parents, self.after = [self.ref], ""
        return header


class Layout:
    """The masterchain and the shards of the basechain, two at the start."""

    def __init__(self, seqno: int, lead: int) -> None:
        self.turn = -1
        self.masterchain = Shard(-1, WHOLE, seqno)
        self.shards = [Shard(0, WHOLE // 2, seqno + lead)]
        self.shards.append(Shard(0, WHOLE // 2 + WHOLE, seqno + lead + 7))
        for shard in (self.masterchain, *self.shards):
            shard.parents = [shard.ref]

    def of(self, address: str) -> Shard:
        """Return the shard of an account."""
        return next(s for s in (self.masterchain, *self.shards) if s.holds(address))

    def advance(self, rng: Random) -> list[Shard]:
        """Advance to the next masterchain block; return the shards in the order of their blocks."""
        self.turn = (self.turn + 1) % ROUND
        if self.turn == SPLIT + 1:
            self.shards[:1] = self.shards[0].split()
        if self.turn == MERGE + 1:
            self.shards[:2] = [self.shards[0].merge(self.shards[1])]
        counts = rng.choices(list(BLOCKS), list(BLOCKS.values()), k=len(self.shards))
        if self.turn == SPLIT or not any(counts):  # the parent has to announce its split
            counts[0] = max(1, counts[0])
        if self.turn == SPLIT + 1:  # the masterchain block includes both halves
            counts[:2] = [max(1, count) for count in counts[:2]]
        return [
            shard for shard, count in zip(self.shards, counts, strict=True) for _ in range(count)
        ]

    def wants(self, shard: Shard) -> str:
        """Return "split" or "merge" if the blocks of a shard announce one, else ""."""
        if shard is self.shards[0] and SPLIT - NOTICE <= self.turn <= SPLIT:
            return "split"
        if shard in self.shards[:2] and MERGE - NOTICE <= self.turn <= MERGE:
            return "merge"
        return ""

    def splits(self, shard: Shard) -> bool:
        """Return whether the last block of a shard comes before its split."""
        return shard is self.shards[0] and self.turn == SPLIT
