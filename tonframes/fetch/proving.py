"""Consecutive masterchain blocks as they come, until they are proven to be whole."""

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

#: How often what is taken out of a part that cannot be proven is tried by itself.
FEWER_ATTEMPTS = 3

#: Transactions that are decoded at once: fewer cost a pass over columns more often.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Proven:
    """Consecutive masterchain blocks that are proven to be whole."""

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
    """A part that is not proven yet.

    Blocks are kept as links of their chains; rows become tables in batches, so that of no
    transaction more than its Arrow columns is kept.
    """

    def __init__(self, client: Client, start: int, before: Tips | None = None) -> None:
        self._client = client
        self._start = self._stop = start
        self._before = before
        self._links: dict[int, list[Link] | None] = {}
        self._stretch: Stretch | None = None  # what came last, if it ends the part
        self._waiting: list[BlockPages] = []
        self._batches: list[Tables] = []
        self._proof = ""
        self.began = time.monotonic()
        self.transactions = 0
        self.after: Tips | None = None

    def add(self, fetched: BlockPages) -> None:
        """Take the next masterchain block."""
        self._stop = fetched.seqno + 1
        self._stretch = None
        self._take(fetched)
        self.transactions += fetched.transactions
        if sum(one.transactions for one in self._waiting) >= BATCH:
            self._decode()

    def add_stretch(self, stretch: Stretch) -> None:
        """Take the masterchain blocks that are next."""
        self._decode()
        if self._start == self._stop and self._before is None:
            self._before = stretch.before
        self._stop = stretch.seqnos.stop
        self._links |= stretch.links
        self._batches.append(stamped(stretch.tables, datetime.now(UTC)))
        self._stretch = stretch
        self.transactions += stretch.transactions

    def _take(self, fetched: BlockPages) -> None:
        self._links[fetched.seqno] = None if fetched.blocks is None else list(fetched.blocks)
        self._waiting.append(fetched)

    def _decode(self) -> None:
        if self._waiting:
            read = [page for fetched in self._waiting for page in fetched.pages]
            self._batches.append(stamped(pages.blocks_tables(read), datetime.now(UTC)))
            self._waiting = []

    def _replace(self, seqnos: range) -> None:
        """Fetch some of the masterchain blocks again."""
        fresh = [fetch_block(self._client, seqno) for seqno in seqnos]
        self._decode()
        others = subtract([range(self._start, self._stop)], [seqnos])
        self._batches = [_only(batch, others) for batch in self._batches]
        for fetched in fresh:
            self._take(fetched)

    def prove(
        self, failures: list[IncompleteError], *, attempts: int = ATTEMPTS
    ) -> Iterator[Proven]:
        """Prove the part, fetching again what does not fit; give what is proven of it."""
        if self._start == self._stop:
            return
        doubt = None
        for attempt in range(attempts):
            doubt = self._doubt()
            if doubt is None:
                self._decode()
                tables = in_order(concat(self._batches))
                yield Proven(range(self._start, self._stop), tables, self._proof)
                return
            wait_before(self._client, attempt)
            try:
                self._replace(doubt.seqnos)
            except IncompleteError:
                break
        if doubt is None:
            return
        # A broken chain tells which of a few blocks is not whole when each is held against its
        # ends by itself. A gap between transactions is somewhere among all of them.
        alone = self._proof == "links" or len(doubt.seqnos) == 1
        if alone:
            failures.append(
                IncompleteError(
                    f"masterchain block {spell([doubt.seqnos])} from {self._client.base_url}: "
                    f"{doubt.fault}, again and again; nothing of it was kept: ask again later, or "
                    "another service",
                    missing=[doubt.seqnos],
                )
            )
        suspects = [] if alone else [range(seqno, seqno + 1) for seqno in doubt.seqnos]
        sides = (range(self._start, doubt.seqnos.start), range(doubt.seqnos.stop, self._stop))
        for seqnos in (sides[0], *suspects, sides[1]):
            yield from self._taken_out(seqnos).prove(failures, attempts=FEWER_ATTEMPTS)

    def _taken_out(self, seqnos: range) -> Unproven:
        """Take some of the masterchain blocks out, to be proven by themselves."""
        self._decode()
        taken = Unproven(self._client, seqnos.start)
        taken._stop = seqnos.stop
        taken._links = {seqno: self._links[seqno] for seqno in seqnos}
        taken._batches = [_only(batch, (seqnos,)) for batch in self._batches]
        return taken

    def _doubt(self) -> _Doubt | None:
        """Look for what shows that something is missing; None if the part is proven."""
        unshown = [seqno for seqno, links in self._links.items() if links is None]
        if unshown and (self._before or len(unshown) < len(self._links)):
            # A service that shows blocks has not ceased to.
            return _Doubt(
                "its blocks are not shown, unlike others", range(unshown[0], unshown[0] + 1)
            )
        if unshown:
            self._proof = "links"
            self._decode()
            gaps = unlinked(concat(self._batches)["transactions"])
            fault = "the transactions of an account do not follow one another"
            return _Doubt(fault, gaps[0]) if gaps else None
        self._proof = "chain"
        seqno = self._start
        try:
            start, tips = self._begin()
            for seqno in range(start, self._stop):
                tips = advance(tips, self._links[seqno] or ())
            self._close(tips)
        except BrokenError as broken:
            self._before = self._stretch = None
            return _Doubt(str(broken), self._since(broken.shard, seqno))
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            # Deployed services also answer so when their database interrupts them.
            return _Doubt(str(error), range(seqno, seqno + 1))
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
            compare(tips, fetch_state(self._client, self._stop - 1).tips)

    def _begin(self) -> tuple[int, Tips]:
        """Give the first block to prove, and the last blocks of all shards before it."""
        if self._start == 1:  # nothing is before the first of all
            self._proof = "chain, but for the first block"
            return 2, fetch_state(self._client, 1).tips
        if self._before is None:
            try:
                self._before = fetch_state(self._client, self._start - 1).tips
            except RequestError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                first = masterchain_info(self._client).first
                if first is None or first.seqno != self._start:
                    raise
                # Where a service begins there is nothing to hold its first block against.
                self._proof = "chain, but for the first block"
                return self._start + 1, fetch_state(self._client, self._start).tips
        return self._start, self._before

    def _since(self, shard: Shard, seqno: int) -> range:
        """Name the masterchain blocks that may lack a block of a shard missed at `seqno`.

        From the one before in which the shard had a block: that one may have had another.
        """
        for earlier in range(seqno - 1, self._start, -1):
            if any(link.shard.overlaps(shard) for link in self._links[earlier] or ()):
                return range(earlier, seqno + 1)
        return range(self._start, seqno + 1)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What shows that something is missing, and the masterchain blocks it may be missing from."""

    fault: str
    seqnos: range


def _only(tables: Tables, seqnos: tuple[range, ...]) -> Tables:
    """Keep the rows of some masterchain blocks; the address book stays."""
    return {
        name: table if name == "address_book" else within(table, seqnos)
        for name, table in tables.items()
    }
