"""Prove that nothing is missing; a status of 200 does not prove it.

If a database query is interrupted, deployed services answer 200 with some of the rows
(ton-indexer, crud_blocks.go does not read `rows.Err()`), or 404 if there was no row yet.

- "chain", if the service shows blocks: every block names the blocks before it (`prev_blocks`). The
  chain of every shard must lead from its tip before a range, through splits and merges, to its
  tip at the end of the range. The masterchain block before the range and the last one of it tell
  the tips (`masterchainBlockShardState`); those must cover the masterchain and workchain 0. Before
  the first masterchain block of a service there are no tips: it must commit those of the tips at
  its end that name it as the masterchain block which commits them. A missing block breaks the
  chain. Every block must tell its `tx_count`; in each masterchain block their sum must be the
  number of transactions. The proof "links" must hold as well.
- "links", if it shows transactions only: every transaction names the previous one of its account
  (`prev_trans_hash`, `prev_trans_lt`). A missing transaction between two others that are committed
  together breaks these links. If it is the first or the last of its account there, it is not
  noticed. What is committed together ends with a file of the store, or earlier.

With both proofs, every transaction must have its messages, where the transaction itself states
how many there are: see `lack`.

Absence is proven like presence, by answers and not by waiting:

- An account has nothing after its last transaction, until a moment, if the answer that names this
  transaction comes from a replica which has passed the moment. Its states are one query of one
  replica. The elector is asked for with them: it runs in every masterchain block. If a state in the
  answer names a transaction with a logical time of the service's last masterchain block, or a
  later one, this replica has that block. What the answer says then holds until `LAG` seconds before
  the block: a block of a shard may be committed later than others of the same second, and blocks
  may be indexed out of order. If no answer proves it, the history is held until the last
  transaction that came.
- An account has no transactions if two answers about states lack it, of replicas that have passed
  the moment, and so do two answers about transactions. A state is not found if two answers in a
  row lack it, and the second one has nothing new.
- An account that was created has nothing before that, back to its deletion, if an answer has both,
  oldest first: a list that is cut lacks its end. Back to the beginning of a period, if the list of
  all its transactions from there on has the one that created it.
- A transaction that contradicts the one before or after it is not kept: both are asked for again.
  If one of them is held already, and an answer that has both agrees with itself, it replaces what
  is held.

A service whose answers all agree can still lie. These proofs do not notice

- a shard that is shown as standing still: none of its blocks in the range, and the same tip before
  and after it;
- a transaction that is left out as the first or the last one of its account in what is committed
  together, if the `tx_count` of its block is lowered as well, or if the proof is "links"; or
  between the deletion of an account and its next creation;
- a block without transactions that the first masterchain block of the service commits, if another
  block of its shard follows it there;
- a message that is left out, if the phases of its transaction are changed as well, or do not tell
  the number of messages;
- other content of a row, such as the second of the last one of an account, the hash of one that
  deleted its account, which no other one names, or a logical time that is much too late, of the
  last one of a page. Hashes are compared with each other, and not computed: the answers do not hold
  what they are the hashes of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire.kinds import REFUSALS, SHARD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tonframes.wire.pages import Page
    from tonframes.wire.transactions import Outline

MASTERCHAIN, BASECHAIN = -1, 0
#: What a transaction names as the hash of the one before it, if there is none.
NONE = "A" * 43 + "="


class Shard(NamedTuple):
    """A shard: its workchain and its prefix with the tag bit, unsigned."""

    workchain: int
    prefix: int

    @property
    def parent(self) -> Shard:
        bit = self.prefix & -self.prefix
        return Shard(self.workchain, (self.prefix - bit) | (bit << 1))

    @property
    def sibling(self) -> Shard:
        return Shard(self.workchain, self.prefix ^ ((self.prefix & -self.prefix) << 1))

    @property
    def width(self) -> int:
        """How many of the 2^64 account prefixes the shard has."""
        return (self.prefix & -self.prefix) << 1

    def contains(self, account: str) -> bool:
        """Whether an account, in raw form, is in the shard; no other text is in any."""
        raw = _RAW.fullmatch(account)
        if raw is None or int(raw[1]) != self.workchain:
            return False
        first = self.prefix - self.width // 2
        return first <= int(raw[2], 16) < first + self.width

    def overlaps(self, other: Shard) -> bool:
        distance = abs(self.prefix - other.prefix)
        near = 2 * distance < max(self.width, other.width)
        return self.workchain == other.workchain and near


#: The columns by which `unlinked` finds gaps.
LINKED = [
    "account", "lt", "hash", "prev_trans_lt", "prev_trans_hash", "orig_status", "end_status",
    "mc_block_seqno",
]  # fmt: skip

#: A raw address: the workchain, and the first 64 bits of the account.
_RAW = re.compile(r"(-?[0-9]{1,10}):([0-9A-Fa-f]{16})[0-9A-Fa-f]{48}")

#: What identifies a block: its shard and its seqno.
Key = tuple[Shard, int]

#: The tips: seqno of the last block of each shard as of a masterchain block.
Tips = dict[Shard, int]


@dataclass(frozen=True, slots=True)
class Link:
    """A block as a link of its shard's chain."""

    shard: Shard
    seqno: int
    #: The blocks before it: two after a merge.
    parents: tuple[Key, ...]
    #: How many it has; 0 if the block does not tell it, see `uncounted`.
    transactions: int


class BrokenError(Exception):
    """The chain of a shard, `shard`, is broken; the message says where."""

    def __init__(self, message: str, shard: Shard) -> None:
        super().__init__(message)
        self.shard = shard


def links(pages: Iterable[Page]) -> dict[Key, Link]:
    """Return the blocks of pages as links, without duplicates."""
    by_key = {}
    for page in pages:
        for row in page.answer.blocks or ():
            shard = Shard(row.workchain, prefix_of(row.shard))
            try:
                ids = _decode_ids(bytes(row.prev_blocks) or b"null") or ()
                parents = tuple((Shard(i.workchain, prefix_of(i.shard)), i.seqno) for i in ids)
            except REFUSALS:
                parents = ()
            by_key[shard, row.seqno] = Link(shard, row.seqno, parents, row.tx_count or 0)
    return by_key


def tips(pages: Iterable[Page], seqno: int) -> Tips:
    """Return the tips on pages, and check that the shards cover their workchains.

    The masterchain and workchain 0 must be among them: every network has both.
    """
    state: Tips = dict(links(pages).keys())
    for workchain in sorted({shard.workchain for shard in state} | {MASTERCHAIN, BASECHAIN}):
        width = sum(shard.width for shard in state if shard.workchain == workchain)
        if width != 2**64:
            raise BrokenError(
                f"the shards as of {seqno} do not cover workchain {workchain}",
                Shard(workchain, 2**63),
            )
    master = Shard(MASTERCHAIN, 2**63)
    if state[master] != seqno:
        raise BrokenError(f"the masterchain block is {state[master]}, not {seqno}", master)
    return state


def advance(before: Tips, blocks: Iterable[Link]) -> Tips:
    """Return the tips after the blocks of one masterchain block; none may be missing."""
    after = dict(before)
    waiting = sorted(blocks, key=lambda link: (link.shard, link.seqno))
    halves: dict[Shard, int] = {}
    while waiting:
        left = [link for link in waiting if not _step(after, halves, link)]
        if len(left) == len(waiting):
            shard, seqno = left[0].parents[0] if left[0].parents else (left[0].shard, -1)
            raise BrokenError(
                f"block {_name(left[0].shard, left[0].seqno)} follows {_name(shard, seqno)}, which "
                "is missing",
                shard,
            )
        waiting = left
    for half, seqno in halves.items():
        parent = _name(half.parent, seqno)
        raise BrokenError(f"after the split of {parent} one shard is missing", half)
    return after


def check_first(blocks: Iterable[Link], committed: Collection[Key]) -> None:
    """Check the blocks of a masterchain block where the tips before it are unknown."""
    blocks = list(blocks)
    followed = {parent for link in blocks for parent in link.parents}
    last = {(link.shard, link.seqno) for link in blocks} - followed
    for shard, seqno in sorted(last.symmetric_difference(committed)):
        what = "is not a tip" if (shard, seqno) in last else "is missing"
        raise BrokenError(f"block {_name(shard, seqno)} {what} by the shard state", shard)


def compare(chain: Tips, state: Tips) -> None:
    """Check that the tips of the chains are those that the service reports."""
    for shard in sorted(chain.keys() | state.keys()):
        if chain.get(shard) != state.get(shard):
            raise BrokenError(
                f"the last block of shard {shard.prefix:016X} is {state.get(shard)} by the shard "
                f"state, but {chain.get(shard)} was the last one fetched",
                shard,
            )


def unfollowed(tips: Tips, later: Iterable[Link]) -> Tips:
    """Return the last blocks of shards that none of the blocks of later masterchain blocks follows.

    What a later masterchain block commits as the next of a shard shows that no other block of the
    shard was committed in between.
    """
    followed = {parent for link in later for parent in link.parents}
    return {shard: seqno for shard, seqno in tips.items() if (shard, seqno) not in followed}


def _step(tips: Tips, halves: dict[Shard, int], link: Link) -> bool:
    """Make a block a tip, if the blocks before it are; return whether it was possible."""
    shard = link.shard
    if len(link.parents) == 1:
        ((before, seqno),) = link.parents
        if before == shard and tips.get(shard) == seqno:
            tips[shard] = link.seqno
            return True
        if before == shard.parent and before in tips and tips[before] == seqno:
            del tips[before]
            tips[shard], halves[shard.sibling] = link.seqno, seqno
            return True
        if before == shard.parent and halves.get(shard) == seqno:
            del halves[shard]
            tips[shard] = link.seqno
            return True
    elif len(link.parents) == 2 and all(  # noqa: PLR2004 - a merge
        before.parent == shard and tips.get(before) == seqno for before, seqno in link.parents
    ):
        for before, _ in link.parents:
            del tips[before]
        tips[shard] = link.seqno
        return True
    return False


def imbalance(blocks: Iterable[Link], hashes: Iterable[str], seqno: int) -> str:
    """Return which counts differ in one masterchain block, "" if none does."""
    blocks, count = list(blocks), len(set(hashes))
    masters = [link.seqno for link in blocks if link.shard.workchain == MASTERCHAIN]
    if masters != [seqno]:
        return f"{len(masters)} masterchain blocks came instead of 1"
    expected = sum(link.transactions for link in blocks)
    if expected != count:
        return f"its {len(blocks)} blocks count {expected} transactions, and {count} came"
    return ""


class Gap(NamedTuple):
    """A transaction of an account that is missing between two others."""

    #: The masterchain seqnos from the transaction before it to the one after it. The missing
    #: transaction is in one of these masterchain blocks.
    seqnos: range
    account: str
    #: Its logical time, as the transaction after it states.
    lt: int


def uncounted(pages: Iterable[Page]) -> str:
    """Return which block does not tell how many transactions it has, "" if all do.

    A block of the masterchain has some: those of the special accounts that each block wakes.
    """
    for page in pages:
        for row in page.answer.blocks or ():
            if row.tx_count is None or (row.workchain == MASTERCHAIN and row.tx_count == 0):
                shard = Shard(row.workchain, prefix_of(row.shard))
                what = "no tx_count" if row.tx_count is None else "a tx_count of 0"
                return f"block {_name(shard, row.seqno)} has {what}"
    return ""


def unlinked(transactions: pa.Table) -> list[Gap]:
    """Find gaps between the transactions of each account.

    If an account is deleted, the network forgets its last transaction (ton, Collator
    `combine_account_transactions` removes it from the accounts of the shard). The first
    transaction after that names none.
    """
    rows = transactions.select(LINKED).sort_by([("account", "ascending"), ("lt", "ascending")])
    rows = rows.combine_chunks()
    this, last = rows.slice(1), rows.slice(0, max(0, len(rows) - 1))
    follows = pc.and_(
        pc.equal(this["prev_trans_lt"], last["lt"]),
        pc.equal(this["prev_trans_hash"], last["hash"]),
    )
    created = pc.and_(
        pc.equal(this["prev_trans_lt"], 0),
        pc.and_(
            pc.equal(this["orig_status"], "nonexist"), pc.equal(last["end_status"], "nonexist")
        ),
    )
    linked = pc.fill_null(pc.or_kleene(follows, created), fill_value=False)
    broken = pc.and_(pc.equal(this["account"], last["account"]), pc.invert(linked))
    before = last["mc_block_seqno"].filter(broken).to_pylist()
    after = this.filter(broken).select(["mc_block_seqno", "account", "prev_trans_lt"]).to_pylist()
    return [
        Gap(range(a, row["mc_block_seqno"] + 1), row["account"], row["prev_trans_lt"] or 0)
        for a, row in zip(before, after, strict=True)
    ]


def committing(gap: Gap, blocks: pa.Table) -> range:
    """Return the masterchain seqnos of a gap whose blocks may contain the missing transaction."""
    near = blocks.filter(
        pc.and_(
            pc.and_(
                pc.greater_equal(blocks["mc_block_seqno"], gap.seqnos.start),
                pc.less(blocks["mc_block_seqno"], gap.seqnos.stop),
            ),
            pc.and_(
                pc.less_equal(blocks["start_lt"], gap.lt),
                pc.greater_equal(blocks["end_lt"], gap.lt),
            ),
        )
    ).select(["workchain", "shard", "mc_block_seqno"])
    seqnos = [
        row["mc_block_seqno"]
        for row in near.to_pylist()
        if Shard(row["workchain"], row["shard"] % 2**64).contains(gap.account)
    ]
    return range(min(seqnos), max(seqnos) + 1) if seqnos else gap.seqnos


def lack(transaction: Outline) -> str:
    """Return what of a transaction did not come with it, or came twice; "" if nothing did.

    An ordinary transaction has an in-message. It has `msgs_created` out-messages if its action
    phase succeeded, and none of them if it failed; one more if its bounce phase sent the value back
    (ton, block.tlb `trans_ord`; Transaction::prepare_action_phase, prepare_bounce_phase).
    """
    if transaction.descr == "ord" and not transaction.has_in_msg:
        return f"transaction {transaction.hash} is ordinary and has no in-message"
    told = transaction.action_msgs_created or 0 if transaction.action_success else 0
    told += transaction.bounce == "ok"
    count = transaction.out_msgs or 0
    if count != told:
        return f"transaction {transaction.hash} has {told} out-messages, and {count} came"
    return ""


def contradicted(transactions: pa.Table) -> set[str]:
    """Return the hashes of transactions that contradict the one before or after them.

    They are of one account, and one names the logical time and not the hash of the other one, or
    the hash and not the logical time; or a transaction before it though there is one in between; or
    it is the later one at an earlier second. Which of them is wrong is not known. One that names
    none before it has a hash of zeros for it.
    """
    names = ("account", "lt", "hash", "prev_trans_lt", "prev_trans_hash", "orig_status", "now")
    columns = (transactions[name].to_pylist() for name in names)
    rows = sorted(map(_Row, *columns), key=lambda row: (row.account, row.lt))
    wrong = {
        row.hash
        for row in rows
        if row.prev_lt >= row.lt or (row.prev_lt == 0) != (row.prev_hash == NONE)
    }
    for row, later in pairwise(rows):
        created = later.prev_lt == 0 and later.orig_status == "nonexist"
        skipped = later.prev_lt < row.lt and not created
        misnamed = (later.prev_lt == row.lt) != (later.prev_hash == row.hash)
        if row.account == later.account and (skipped or misnamed or row.now > later.now):
            wrong |= {row.hash, later.hash}
    return wrong


class _Row(NamedTuple):
    account: str
    lt: int
    hash: str
    prev_lt: int
    prev_hash: str
    orig_status: str
    now: int


class _Id(msgspec.Struct):
    workchain: int
    shard: str
    seqno: int


_decode_ids = msgspec.json.Decoder(list[_Id] | None).decode


def prefix_of(text: str) -> int:
    """Return the tagged prefix of a shard as the service spells it, unsigned."""
    return int(SHARD.decode([text])[0].as_py()) % 2**64


def _name(shard: Shard, seqno: int) -> str:
    return f"({shard.workchain}, {shard.prefix:016X}, {seqno})"
