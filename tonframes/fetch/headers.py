"""The blocks of a range of masterchain blocks, read through windows of time.

The chain of every shard shows what is missing: every block names the blocks before it, and the
last blocks of all shards at the end of the range are known from the beginning. So a list that was
cut short is noticed, and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tonframes.errors import DecodeError, shorten
from tonframes.fetch.proof import MASTERCHAIN, Key, Link, Shard, Tips, links
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from tonframes.wire.pages import Page

#: Pages of a slice of time, by the density of the first page. A slice is read page after page, as
#: blocks of one second come in no order; several are read at the same time.
PAGES = 6
#: Masterchain blocks before the last known one of which further blocks may still come.
MARGIN = 12


@dataclass(frozen=True, slots=True)
class Header:
    """What a block's header says of its place: in its chain, in time, and in logical time."""

    link: Link
    mc_seqno: int
    utime: int
    start_lt: int
    end_lt: int

    @property
    def key(self) -> tuple[Shard, int]:
        return self.link.shard, self.link.seqno


@dataclass(frozen=True, slots=True)
class BlockPage:
    """A page of blocks, and what their headers say, in the same order."""

    headers: Sequence[Header]
    page: Page


def page_parser(first: int, last: int) -> Callable[[bytes], BlockPage]:
    """Return a function that reads a page of blocks, and refuses those of other seconds."""

    def parse(content: bytes) -> BlockPage:
        page = pages.read(schema.BLOCKS_ANSWER, content)
        if page.answer.blocks is None:
            raise DecodeError("$", 'an object with "blocks"', "one without")
        pages.check_doubles([page])
        rows = {(row.workchain, row.shard, row.seqno): row for row in page.answer.blocks}
        page = _with_rows(page, rows.values())
        headers = list(_headers(page))
        for i, header in enumerate(headers):
            if not first <= header.utime <= last:
                path = f"$.blocks[{i}].gen_utime"
                raise DecodeError(path, f"{first} to {last}, as asked", shorten(header.utime))
        return BlockPage(headers, page)

    return parse


def _headers(page: Page) -> Iterator[Header]:
    of_key = links([page])
    for row, link in zip(page.answer.blocks, of_key.values(), strict=True):
        times = (row.gen_utime, row.start_lt, row.end_lt)
        if None in (*times, row.tx_count):
            raise DecodeError("$.blocks", "times, logical times and tx_count", "a block without")
        if row.workchain == MASTERCHAIN and row.tx_count == 0:
            raise DecodeError("$.blocks", "masterchain blocks with transactions", "one without")
        yield Header(link, row.masterchain_block_ref.seqno, *map(int, times))


def _with_rows(page: Page, rows: Iterable[Any]) -> Page:
    return replace(page, answer=msgspec.structs.replace(page.answer, blocks=list(rows)))


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows of blocks, and which masterchain blocks commit them; their table once it was made."""

    seqnos: range
    page: Page
    table: pa.Table | None = None


@dataclass(slots=True)
class Slice:
    """Seconds from `next` to `end` of which the blocks are still to be read."""

    next: int
    end: int
    #: How often its blocks were asked for before; None if it is no repetition.
    attempt: int | None = None
    busy: bool = False

    @property
    def done(self) -> bool:
        return self.next > self.end


@dataclass(frozen=True, slots=True)
class Ends:
    """A run that can be read: the last blocks of all shards around it, and its seconds."""

    run: range
    before: Tips
    after: Tips
    first: int
    last: int


class Headers:
    """The blocks that have come, and the seconds that are still to be read."""

    def __init__(self, ends: Ends, attempts: int) -> None:
        #: The masterchain seqnos whose blocks are wanted; they are fewer when some are forgotten.
        self.run = self._asked = ends.run
        #: The blocks by the masterchain blocks that commit them.
        self.by_mc: dict[int, list[Header]] = {}
        self.rows: list[BlockRows] = []
        #: What does not come, though it was asked for so many times; "" for nothing.
        self.failed = ""
        self._attempts = attempts
        self._before, self._first, self._last = ends.before, ends.first, ends.last
        #: All blocks up to this second have come, as far as can be seen.
        self.known_until = self._first - 1
        self._slices = [Slice(self._first, self._last)]
        self._next, self._length = self._last + 1, self._last - self._first + 1
        self._measured = False
        self._repairs: list[Slice] = []
        self._neighbours: dict[Key, Header] = {}
        self._known: dict[Key, Header] = {}
        self._followed: set[Key] = set(self._before.items())
        self._tried: dict[Key, int] = {}
        self._unmet: dict[Key, Header | None] = {
            tip: None for tip in ends.after.items() if tip not in self._followed
        }
        self._top = self.run.start - 1

    @property
    def complete(self) -> bool:
        return not self._slices and self._next > self._last

    def repair(self) -> Slice | None:
        """Return the seconds to read again, because blocks of them are missing."""
        if self._repairs:
            return next((one for one in self._repairs if not one.busy and not one.done), None)
        missing = list(self._missing())
        if not missing:
            return None
        tried = 1 + max(self._tried.get(key, 0) for key, _ in missing)
        if tried > self._attempts:
            (shard, seqno), _ = missing[0]
            self.failed = f"block ({shard.workchain}, {shard.prefix:016X}, {seqno}) is missing"
            return None
        for key, _ in missing:
            self._tried[key] = self._tried.get(key, 0) + 1
        first = min(self._since(key)[1] for key, _ in missing)
        last = max(self._last if child is None else child.utime for _, child in missing)
        attempt = min(self._tried[key] for key, _ in missing) - 1
        self._repairs = [Slice(first, last, attempt=attempt)]
        return self._repairs[0]

    def slice(self) -> Slice | None:
        for one in self._slices:
            if not one.busy and not one.done:
                return one
        if not self._measured or self._next > self._last:
            return None
        new = Slice(self._next, min(self._last, self._next + self._length - 1))
        self._next = new.end + 1
        self._slices.append(new)
        return new

    def take(self, seconds: Slice, pages: Sequence[BlockPage], following: int, limit: int) -> None:
        """Take pages, of `limit` rows, of a slice, which goes on with the second `following`."""
        if not self._measured and seconds.attempt is None:
            self._measured = True
            if following <= seconds.end:
                length = max(1, following - seconds.next)
                count = sum(len(page.headers) for page in pages)
                self._length = max(1, PAGES * limit * length // max(1, count))
                seconds.end = min(seconds.end, max(following, seconds.next + self._length - 1))
                self._next = seconds.end + 1
        seconds.next = following
        for page in pages:
            of_page = zip(page.headers, page.page.answer.blocks, strict=True)
            new = [(header, row) for header, row in of_page if self._add(header)]
            if new:
                # Those of the last second of a page come again with the next one.
                new_rows = _with_rows(page.page, [row for _, row in new])
                seqnos = [header.mc_seqno for header, _ in new]
                self.rows.append(BlockRows(range(min(seqnos), max(seqnos) + 1), new_rows))
        self._repairs = [one for one in self._repairs if not one.done]
        while self._slices and self._slices[0].done:
            self.known_until = self._slices.pop(0).end
        if self._slices:
            self.known_until = self._slices[0].next - 1
        seqno = self._top + 1
        while seqno in self.by_mc:
            for header in self.by_mc[seqno]:
                if header.link.shard.workchain == MASTERCHAIN and header.utime <= self.known_until:
                    self._top = seqno
            seqno += 1

    def _add(self, header: Header) -> bool:
        key = header.key
        if header.mc_seqno not in self._asked:
            self._neighbours[key] = header
            return False
        if header.mc_seqno not in self.run or key in self._known:
            return False
        self._known[key] = header
        self.by_mc.setdefault(header.mc_seqno, []).append(header)
        if self._unmet.pop(key, None) is not None:
            self._followed.add(key)
        for parent in header.link.parents:
            self._followed.add(parent)
            if parent not in self._known and parent not in self._before.items():
                self._unmet[parent] = header
        return True

    def _missing(self) -> Iterator[tuple[Key, Header | None]]:
        """Yield the blocks that should have come, each with one that names it."""
        for key, child in self._unmet.items():
            if self.complete if child is None else child.utime <= self.known_until:
                yield key, child

    def _since(self, key: Key) -> tuple[int, int]:
        """Return from which masterchain seqno and second on a missing block may be."""
        shard, seqno = key
        earlier = [
            header
            for header in self._known.values()
            if header.link.shard.overlaps(shard) and header.link.seqno < seqno
        ]
        if not earlier:
            return self.run.start, self._first
        nearest = max(earlier, key=lambda header: header.link.seqno)
        return nearest.mc_seqno, nearest.utime

    def whole_until(self) -> int:
        """Return the masterchain seqno before which no block is missing, as far as can be seen."""
        stop = self.run.stop if self.complete else max(self.run.start, self._top + 1 - MARGIN)
        return min([stop, *(self._since(key)[0] for key, _ in self._missing())])

    def from_lt(self, start: int) -> list[Header]:
        """Return the known blocks that end at a logical time or later, ordered by their first."""
        known = (header for headers in self.by_mc.values() for header in headers)
        later = [
            header
            for header in (*known, *self._neighbours.values())
            if header.end_lt >= start and header.utime <= self.known_until
        ]
        return sorted(later, key=lambda header: header.start_lt)

    def forget(self, start: int) -> None:
        """Forget blocks of masterchain blocks before a seqno, but for the ends of their chains."""
        self.run = range(start, self.run.stop)
        for seqno in [seqno for seqno in self.by_mc if seqno < start]:
            for header in self.by_mc.pop(seqno):
                if header.key in self._followed:
                    del self._known[header.key]
                    self._followed.discard(header.key)
        self.rows = [rows for rows in self.rows if rows.seqnos.stop > start]


def decoded(block_rows: Sequence[BlockRows]) -> Iterator[BlockRows]:
    """Yield rows with their table: those that have none are decoded at once, which is faster."""
    undecoded = [rows for rows in block_rows if rows.table is None]
    yield from (rows for rows in block_rows if rows.table is not None)
    if undecoded:
        table = pages.blocks_tables([rows.page for rows in undecoded])["blocks"]
        starts, stops = zip(
            *((rows.seqnos.start, rows.seqnos.stop) for rows in undecoded), strict=True
        )
        yield BlockRows(range(min(starts), max(stops)), undecoded[0].page, table)
