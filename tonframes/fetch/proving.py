"""Prove that consecutive masterchain blocks are complete; fetch again what is not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, RequestError
from tonframes.fetch.block import ATTEMPTS, BlockPages, fetch_block, fetch_state, wait_before
from tonframes.fetch.network import masterchain_info
from tonframes.fetch.proof import (
    BrokenError,
    Link,
    Shard,
    Tips,
    advance,
    compare,
    unfollowed,
    unlinked,
)
from tonframes.seqnos import spell, subtract
from tonframes.store import within
from tonframes.wire import pages
from tonframes.wire.tables import concat, in_order, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tonframes.client import Client
    from tonframes.wire.tables import Tables

#: Attempts at proving a smaller part of a range that cannot be proven.
FEWER_ATTEMPTS = 3

#: Transactions that are decoded together; smaller batches take longer.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Proven:
    """Consecutive masterchain blocks that are proven to be complete."""

    seqnos: range
    tables: Tables
    proof: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive masterchain blocks, whole as far as their headers tell.

    Attributes
    ----------
    links
        The blocks that each masterchain block commits.
    later
        Returns the blocks of later masterchain blocks that are known already.
    before, after
        The last blocks of all shards before them and at their end, where the service was asked.
    """

    seqnos: range
    links: dict[int, list[Link]]
    tables: Tables
    transactions: int
    later: Callable[[], list[Link]]
    before: Tips | None
    after: Tips | None


class Unproven:
    """Consecutive masterchain blocks that are not proven yet.

    Pages are decoded into tables in batches, so that only Arrow columns and the links of the
    chains stay in memory.
    """

    def __init__(self, client: Client, start: int, before: Tips | None = None) -> None:
        self.client = client
        self._start = self._stop = start
        self._before = before
        self._links: dict[int, list[Link] | None] = {}
        self._stretch: Stretch | None = None  # what came last, if it ends the part
        self._undecoded: list[BlockPages] = []
        self._batches: list[Tables] = []
        self._proof = ""
        self.began = time.monotonic()
        self.transactions = 0
        self.after: Tips | None = None

    def add(self, fetched: BlockPages) -> None:
        """Add the next masterchain block."""
        self._stop = fetched.seqno + 1
        self._stretch = None
        self._append(fetched)
        self.transactions += fetched.transactions
        if sum(one.transactions for one in self._undecoded) >= BATCH:
            self._decode()

    def add_stretch(self, stretch: Stretch) -> None:
        """Add the masterchain blocks that are next."""
        self._decode()
        if self._start == self._stop and self._before is None:
            self._before = stretch.before
        self._stop = stretch.seqnos.stop
        self._links |= stretch.links
        self._batches.append(stamped(stretch.tables, datetime.now(UTC)))
        self._stretch = stretch
        self.transactions += stretch.transactions

    def _append(self, fetched: BlockPages) -> None:
        self._links[fetched.seqno] = None if fetched.links is None else list(fetched.links)
        self._undecoded.append(fetched)

    def _decode(self) -> None:
        if self._undecoded:
            read = [page for fetched in self._undecoded for page in fetched.pages]
            self._batches.append(stamped(pages.blocks_tables(read), datetime.now(UTC)))
            self._undecoded = []

    def _replace(self, seqnos: range) -> None:
        """Fetch some of the masterchain blocks again."""
        fresh = [fetch_block(self.client, seqno) for seqno in seqnos]
        self._decode()
        others = subtract([range(self._start, self._stop)], [seqnos])
        self._batches = [_rows_of(batch, others) for batch in self._batches]
        for fetched in fresh:
            self._append(fetched)

    def prove(
        self, failures: list[IncompleteError], *, attempts: int = ATTEMPTS
    ) -> Iterator[Proven]:
        """Prove the blocks, fetching again what is incomplete; yield the parts that are proven."""
        if self._start == self._stop:
            return
        fault = None
        for attempt in range(attempts):
            fault = self._find_fault()
            if fault is None:
                self._decode()
                tables = in_order(concat(self._batches))
                yield Proven(range(self._start, self._stop), tables, self._proof)
                return
            wait_before(self.client, attempt)
            try:
                self._replace(fault.seqnos)
            except IncompleteError:
                break
        if fault is None:
            return
        # If several blocks are suspects of a broken chain, each can be proven separately. A gap
        # between transactions cannot be narrowed down.
        narrowed = self._proof == "links" or len(fault.seqnos) == 1
        if narrowed:
            failures.append(
                IncompleteError(
                    f"masterchain block {spell([fault.seqnos])} from {self.client.base_url}: "
                    f"{fault.reason}, in every attempt; nothing of it was kept: try again "
                    "later, or another service",
                    missing=[fault.seqnos],
                )
            )
        suspects = [] if narrowed else [range(seqno, seqno + 1) for seqno in fault.seqnos]
        sides = (range(self._start, fault.seqnos.start), range(fault.seqnos.stop, self._stop))
        for seqnos in (sides[0], *suspects, sides[1]):
            yield from self._split_off(seqnos).prove(failures, attempts=FEWER_ATTEMPTS)

    def _split_off(self, seqnos: range) -> Unproven:
        """Return some of the masterchain blocks, to be proven separately."""
        self._decode()
        part = Unproven(self.client, seqnos.start)
        part._stop = seqnos.stop
        part._links = {seqno: self._links[seqno] for seqno in seqnos}
        part._batches = [_rows_of(batch, (seqnos,)) for batch in self._batches]
        return part

    def _find_fault(self) -> _Fault | None:
        """Return the first fault that shows something is missing; None if the blocks are proven."""
        unshown = [seqno for seqno, links in self._links.items() if links is None]
        if unshown and (self._before or len(unshown) < len(self._links)):
            # A service that shows blocks shows them for every masterchain block.
            return _Fault(
                "its blocks are not shown, those of others are", range(unshown[0], unshown[0] + 1)
            )
        if unshown:
            self._proof = "links"
            self._decode()
            gaps = unlinked(concat(self._batches)["transactions"])
            reason = "the transactions of an account do not follow one another"
            return _Fault(reason, gaps[0]) if gaps else None
        self._proof = "chain"
        seqno = self._start
        try:
            start, tips = self._start_of_chain()
            for seqno in range(start, self._stop):
                tips = advance(tips, self._links[seqno] or ())
            self._close(tips)
        except BrokenError as broken:
            self._before = self._stretch = None
            return _Fault(str(broken), self._suspects(broken.shard, seqno))
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            # Deployed services also send this when a database query is interrupted.
            return _Fault(str(error), range(seqno, seqno + 1))
        self.after = tips
        return None

    def _close(self, tips: Tips) -> None:
        """See that the chain of every shard ends where it should.

        It does where a later masterchain block commits the block that follows: no other can be
        between. Where that has not come, the service is asked for the last blocks of all shards.
        """
        stretch = self._stretch
        if stretch is not None and stretch.after is not None:
            compare(tips, stretch.after)
        elif stretch is None or unfollowed(tips, stretch.later()):
            compare(tips, fetch_state(self.client, self._stop - 1).tips)

    def _start_of_chain(self) -> tuple[int, Tips]:
        """Return the first block to prove, and the tips before it."""
        if self._start == 1:  # there is no block before it
            self._proof = "chain, but for the first block"
            return 2, fetch_state(self.client, 1).tips
        if self._before is None:
            try:
                self._before = fetch_state(self.client, self._start - 1).tips
            except RequestError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                first = masterchain_info(self.client).first
                if first is None or first.seqno != self._start:
                    raise
                # There is nothing to compare the service's first block with.
                self._proof = "chain, but for the first block"
                return self._start + 1, fetch_state(self.client, self._start).tips
        return self._start, self._before

    def _suspects(self, shard: Shard, seqno: int) -> range:
        """Return the masterchain blocks that may lack the block of a shard missing at `seqno`.

        The range begins with the last one in which the shard had a block: it may lack another.
        """
        for earlier in range(seqno - 1, self._start, -1):
            if any(link.shard.overlaps(shard) for link in self._links[earlier] or ()):
                return range(earlier, seqno + 1)
        return range(self._start, seqno + 1)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why something is missing, and the masterchain blocks that may lack it."""

    reason: str
    seqnos: range


def _rows_of(tables: Tables, seqnos: tuple[range, ...]) -> Tables:
    """Return the rows of some masterchain blocks, and the whole address book."""
    return {
        name: table if name == "address_book" else within(table, seqnos)
        for name, table in tables.items()
    }
