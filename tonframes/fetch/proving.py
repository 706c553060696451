"""Prove that consecutive masterchain blocks are complete; fetch again what is not."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import IncompleteError, RequestError
from tonframes.fetch.block import ATTEMPTS, BlockPages, fetch_block, fetch_state, wait_before
from tonframes.fetch.network import masterchain_info
from tonframes.fetch.proof import (
    LINKED,
    BrokenError,
    Gap,
    Key,
    Link,
    Shard,
    Tips,
    advance,
    check_first,
    committing,
    compare,
    unfollowed,
    unlinked,
)
from tonframes.fetch.rows import addresses_in
from tonframes.seqnos import SPAN, spell, subtract
from tonframes.store import within
from tonframes.wire import pages
from tonframes.wire.tables import concat, in_order, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
    """Consecutive masterchain blocks, whole as far as their headers tell."""

    seqnos: range
    #: The blocks that each masterchain block commits.
    links: dict[int, list[Link]]
    tables: Tables
    transactions: int
    #: Returns the blocks of later masterchain blocks that are known already.
    later: Callable[[], list[Link]]
    #: The last blocks of all shards before them and at their end, where the service was asked.
    before: Tips | None
    after: Tips | None


#: The proof of the service's first masterchain block: there is no state before it.
BUT_FIRST = "chain, but for the first block"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a proof of the chains begins: a masterchain block, and the tips before it."""

    seqno: int
    tips: Tips
    proof: str = "chain"
    #: The tips that the masterchain block before it commits, if that is the first one of the
    #: service and to be proven as well.
    committed: frozenset[Key] = frozenset()

    def checked_tips(self, links: Mapping[int, Sequence[Link] | None]) -> Tips:
        """Return the tips, after checking the first masterchain block of the service."""
        if self.committed:
            check_first(links[self.seqno - 1] or (), self.committed)
        return self.tips


def find_origin(client: Client, start: int) -> Origin:
    """Ask for the tips before a masterchain block; of the service's first one, for those after."""
    try:
        if start != 1:
            return Origin(start, fetch_state(client, start - 1).tips)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        first = masterchain_info(client).first
        if first is None or first.seqno != start:
            raise
    state = fetch_state(client, start)
    return Origin(start + 1, state.tips, BUT_FIRST, state.committed)


class Unproven:
    """Consecutive masterchain blocks that are not proven yet."""

    def __init__(self, client: Client, start: int, before: Tips | None = None) -> None:
        self.client = client
        self._start = self._stop = start
        self._origin = None if before is None else Origin(start, before)
        self._links: dict[int, list[Link] | None] = {}
        self._stretch: Stretch | None = None  # the last one, if these blocks end with it
        self._undecoded: list[BlockPages] = []
        self._batches: list[Tables] = []
        self._proof = ""
        self._tips: dict[int, Tips] = {}  # before a seqno, as far as the chains are whole
        self._last: pa.Table | None = None  # each account's last transaction, of those given away
        self.began = self.tried = time.monotonic()
        self.transactions = 0
        self.after: Tips | None = None

    @property
    def seqnos(self) -> range:
        return range(self._start, self._stop)

    @property
    def before(self) -> Tips | None:
        """The last blocks of all shards before them, where the proof begins."""
        origin = self._origin
        return origin.tips if origin is not None and origin.seqno == self._start else None

    def add(self, fetched: BlockPages) -> None:
        self._append(fetched)
        self._stretch = None
        self._stop = fetched.seqno + 1  # an interruption before leaves it out
        self.transactions += fetched.transactions
        if sum(one.transactions for one in self._undecoded) >= BATCH:
            self._decode()

    def add_stretch(self, stretch: Stretch) -> None:
        self._decode()
        if self._start == self._stop and self._origin is None and stretch.before is not None:
            self._origin = Origin(self._start, stretch.before)
        tables = stamped(stretch.tables, datetime.now(UTC))
        self._links |= stretch.links
        self._batches = [*self._batches, tables]
        self._stretch = stretch
        self._stop = stretch.seqnos.stop
        self.transactions += stretch.transactions

    def begin(self) -> None:
        """Ask for the tips before the first block, so that `proven` can prove at any moment."""
        if self._origin is None and self._links.get(self._start) is not None:
            try:
                self._origin = find_origin(self.client, self._start)
            except RequestError as error:  # they are asked for again when all is to be proven
                if error.status != HTTPStatus.NOT_FOUND:
                    raise

    def _append(self, fetched: BlockPages) -> None:
        self._links[fetched.seqno] = None if fetched.links is None else list(fetched.links)
        self._undecoded.append(fetched)

    def _decode(self) -> None:
        if self._undecoded:
            read = [page for fetched in self._undecoded for page in fetched.pages]
            tables = stamped(pages.blocks_tables(read), datetime.now(UTC))
            # Nothing is called between these: an interruption comes before or after both.
            self._batches = [*self._batches, tables]
            self._undecoded = []

    def _replace(self, seqnos: range) -> None:
        fresh = [fetch_block(self.client, seqno) for seqno in seqnos]
        self._decode()
        others = subtract([self.seqnos], [seqnos])
        for seqno in seqnos:
            del self._links[seqno]
        self._batches = [_rows_of(batch, others) for batch in self._batches]
        for fetched in fresh:
            self._append(fetched)

    def proven(self) -> Proven | None:
        """Return the first masterchain blocks, as far as they are proven without a request."""
        self.tried = time.monotonic()
        if self._start == self._stop:
            return None
        self._decode()
        tables = concat(self._batches)
        stop, proof = self._provable(tables)
        run = range(self._start, stop)
        if not run:
            return None
        rows = in_order(_rows_of(tables, (run,)))
        counted = sum(link.transactions for seqno in run for link in self._links[seqno] or ())
        if proof != "links" and counted != len(rows["transactions"]):
            return None  # an interruption came while rows were replaced
        book = rows["address_book"]
        rows["address_book"] = book.filter(pc.is_in(book["address"], value_set=addresses_in(rows)))
        return Proven(run, rows, proof)

    def drop(self, proven: Proven) -> None:
        """Forget the first masterchain blocks, which `proven` has returned."""
        stop = proven.seqnos.stop
        kept, dropped = range(stop, self._stop), proven.tables["address_book"]["address"]
        batches = [_rows_of(batch, (kept,)) for batch in self._batches]
        for batch in batches:
            book = batch["address_book"]
            known = pc.is_in(book["address"], value_set=dropped.combine_chunks())
            batch["address_book"] = book.filter(pc.invert(known))
        links = {seqno: self._links[seqno] for seqno in kept}
        last = self._last_transactions(proven)
        origin = Origin(stop, self._tips[stop]) if stop in self._tips else None
        # Nothing is called between these: an interruption comes before or after all.
        self._batches = batches
        self._links = links
        self._last = last
        self._origin = origin
        self._start = stop
        self.transactions = sum(len(batch["transactions"]) for batch in batches)
        self.began = time.monotonic()

    def _provable(self, tables: Tables) -> tuple[int, str]:
        """Return the seqno before which all is proven, and by what."""
        gaps = self._gaps(tables)
        linked = min([self._stop, *(max(gap.seqnos.start, self._start) for gap in gaps)])
        if all(links is None for links in self._links.values()):
            return linked, "links"
        if self._origin is None:
            return self._start, ""
        self._follow(self._origin)
        stretch, last = self._stretch, self._tips.get(self._stop)
        ends = last is not None and (last == self.after or (stretch and last == stretch.after))
        if ends and linked == self._stop:
            return self._stop, self._origin.proof
        followed = {
            parent for link in (stretch.later() if stretch else ()) for parent in link.parents
        }
        for seqno in reversed(range(self._start + 1, self._stop + 1)):
            tips = self._tips.get(seqno)
            if tips is not None and seqno <= linked and tips.items() <= followed:
                return seqno, self._origin.proof
            followed.update(p for link in self._links.get(seqno - 1) or () for p in link.parents)
        return self._start, ""

    def _follow(self, origin: Origin) -> None:
        """Follow the chains of all shards as far as they are whole."""
        self._tips = {}
        with suppress(BrokenError):
            self._tips[origin.seqno] = tips = origin.checked_tips(self._links)
            for seqno in range(origin.seqno, self._stop):
                links = self._links.get(seqno)
                if links is None:
                    return
                self._tips[seqno + 1] = tips = advance(tips, links)

    def _gaps(self, tables: Tables) -> list[Gap]:
        """Find gaps between the transactions of each account, those given away included."""
        rows = tables["transactions"].select(LINKED)
        return unlinked(rows if self._last is None else pa.concat_tables([self._last, rows]))

    def _last_transactions(self, proven: Proven) -> pa.Table | None:
        """Return the last transaction of each account; none at the end of a file of the store."""
        if proven.seqnos.stop % SPAN == 0:
            return None
        rows = proven.tables["transactions"].select(LINKED)
        if self._last is not None:
            rows = pa.concat_tables([self._last, rows])
        last = {account: i for i, account in enumerate(rows["account"].to_pylist())}
        return rows.take(pa.array(last.values(), pa.int64()))

    def prove(
        self, failures: list[IncompleteError], *, attempts: int = ATTEMPTS
    ) -> Iterator[Proven]:
        """Prove the blocks, fetching again what is incomplete; yield those that are proven."""
        if self._start == self._stop:
            return
        fault = None
        for attempt in range(attempts):
            fault = self._find_fault()
            if fault is None:
                self._decode()
                tables = in_order(concat(self._batches))
                yield Proven(self.seqnos, tables, self._proof)
                return
            wait_before(self.client, attempt)
            try:
                self._replace(fault.again or fault.seqnos)
            except IncompleteError:
                break
        if fault is None:
            return
        # If several blocks are suspects of a broken chain, each can be proven separately.
        narrowed = fault.again is not None or len(fault.seqnos) == 1
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
        self._decode()
        others = Unproven(self.client, seqnos.start)
        others._stop = seqnos.stop
        others._links = {seqno: self._links[seqno] for seqno in seqnos}
        others._batches = [_rows_of(batch, (seqnos,)) for batch in self._batches]
        return others

    def _find_fault(self) -> _Fault | None:
        """Return the first fault that shows something is missing; None if the blocks are proven."""
        bare = [seqno for seqno, links in self._links.items() if links is None]
        if bare and (self._origin or len(bare) < len(self._links)):
            # A service that shows blocks shows them for every masterchain block.
            return _Fault(
                "its blocks are not shown, those of others are", range(bare[0], bare[0] + 1)
            )
        if bare:
            self._proof = "links"
            return self._find_gap()
        self._proof = "chain"
        seqno = self._start
        try:
            if self._origin is None:
                self._origin = find_origin(self.client, self._start)
            self._proof, tips = self._origin.proof, self._origin.checked_tips(self._links)
            for seqno in range(self._origin.seqno, self._stop):
                tips = advance(tips, self._links[seqno] or ())
            self._close(tips)
        except BrokenError as broken:
            self._origin = self._stretch = None
            return _Fault(str(broken), self._suspects(broken.shard, seqno))
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            # Deployed services also send this when a database query is interrupted.
            return _Fault(str(error), range(seqno, seqno + 1))
        self.after = tips
        return self._find_gap()

    def _find_gap(self) -> _Fault | None:
        """Return the first gap between the transactions of an account."""
        self._decode()
        tables = concat(self._batches)
        gaps = self._gaps(tables)
        if not gaps:
            return None
        gap = gaps[0]
        again = committing(gap, tables["blocks"]) if "blocks" in tables else gap.seqnos
        seqnos, again = (
            range(max(run.start, self._start), run.stop) for run in (gap.seqnos, again)
        )
        reason = (
            f"the transactions of account {gap.account} do not follow one another: the one with "
            f"lt {gap.lt} is missing, or has another hash"
        )
        return _Fault(reason, seqnos, again)

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

    def _suspects(self, shard: Shard, seqno: int) -> range:
        """Return the masterchain blocks that may lack the block of a shard missing at `seqno`."""
        for earlier in range(seqno - 1, self._start, -1):
            if any(link.shard.overlaps(shard) for link in self._links[earlier] or ()):
                return range(earlier, seqno + 1)
        return range(self._start, seqno + 1)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why something is missing, and which masterchain blocks may lack it."""

    reason: str
    seqnos: range
    #: For a gap between transactions, those of the blocks to fetch again; None is all. None of
    #: `seqnos` can be proven without the others then: each would look whole by itself.
    again: range | None = None


def _rows_of(tables: Tables, seqnos: tuple[range, ...]) -> Tables:
    """Return the rows of some masterchain blocks, and the whole address book."""
    return {
        name: table if name == "address_book" else within(table, seqnos)
        for name, table in tables.items()
    }
