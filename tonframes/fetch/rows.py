"""The transactions of blocks, read through windows of logical time.

How many transactions each block has is known from its header. So a list that lacks some is
noticed, and what is missing is asked for again. Logical time is cut where no block is open, as far
as there are such places, and where the transactions before the cut fill whole pages.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, shorten
from tonframes.fetch.proof import Shard, lack, prefix_of
from tonframes.store import within
from tonframes.wire import pages, schema
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tonframes.fetch.headers import Header
    from tonframes.fetch.proof import Key
    from tonframes.wire.pages import Page
    from tonframes.wire.tables import Tables

#: Pages of an interval at most. They are asked for at once, by offset, and only the last of them
#: is not full.
PAGES = 8
#: Rows of a page that is decoded into tables when it comes.
MANY = 250


# ── pages, and the tables that are made of them ──────────────────────────────────────────────────


@dataclass(slots=True)
class RowPage:
    """A page of transactions; those whose messages did not all come count as missing."""

    #: Rows of the answer.
    count: int
    page: Page | None
    #: The rows as tables; None for a few rows that are not decoded yet: decoding many at once is
    #: faster.
    tables: Tables | None
    #: The transactions by their blocks.
    hashes: Mapping[Key, Sequence[str]]
    #: From the first to the last masterchain block that commits one of them.
    seqnos: range


def page_parser(start: int, end: int) -> Callable[[bytes], RowPage]:
    """Return a function that reads a page of transactions, and refuses other logical times."""

    def parse(content: bytes) -> RowPage:
        page = pages.read(schema.BLOCKS_ANSWER, content)
        if page.answer.transactions is None:
            raise DecodeError("$", 'an object with "transactions"', "one without")
        rows = page.answer.transactions
        for i, row in enumerate(rows):
            if not start <= int(row.lt) <= end:
                path = f"$.transactions[{i}].lt"
                raise DecodeError(path, f"{start} to {end}, as asked", shorten(row.lt))
        pages.check_doubles([page])
        whole = [row for row in rows if not lack(row)]
        tables = None
        if len(rows) >= MANY or len(whole) < len(rows):
            tables = _only(pages.blocks_tables([page]), whole)
        kept = page if tables is None else None
        seqnos = [row.mc_block_seqno for row in rows]
        run = range(min(seqnos), max(seqnos) + 1) if seqnos else range(0)
        return RowPage(len(rows), kept, tables, by_block(whole), run)

    return parse


def _only(tables: Tables, rows: Sequence[Any]) -> Tables:
    if len(rows) == len(tables["transactions"]):
        return tables
    hashes = pa.array([row.hash for row in rows], pa.string())
    kept = {
        name: tables[name].filter(pc.is_in(tables[name][column], value_set=hashes))
        for name, column in (("transactions", "hash"), ("messages", "tx_hash"))
    }
    return tables | kept


def by_block(rows: Iterable[Any]) -> dict[Key, list[str]]:
    """Return the hashes of transactions by their blocks."""
    hashes: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for row in rows:
        ref = row.block_ref
        hashes[ref.workchain, ref.shard, ref.seqno].append(row.hash)
    return {
        (Shard(workchain, prefix_of(shard)), seqno): of_block
        for (workchain, shard, seqno), of_block in hashes.items()
    }


def decoded(row_pages: Sequence[RowPage]) -> Iterator[RowPage]:
    """Yield pages with their tables; those without are decoded at once, unless a row is twice."""
    yield from (page for page in row_pages if page.tables is not None)
    undecoded = [page for page in row_pages if page.page is not None]
    hashes = [tx_hash for page in undecoded for of in page.hashes.values() for tx_hash in of]
    groups = [undecoded] if len(set(hashes)) == len(hashes) else [[page] for page in undecoded]
    for group in filter(None, groups):
        tables = pages.blocks_tables([page.page for page in group if page.page is not None])
        starts, stops = zip(*((page.seqnos.start, page.seqnos.stop) for page in group), strict=True)
        count = sum(page.count for page in group)
        yield RowPage(count, None, tables, {}, range(min(starts), max(stops)))


def tables_of(row_pages: Sequence[RowPage], run: range, asked: range) -> Tables:
    """Return the transactions and messages that masterchain blocks commit, each once.

    What the address book says only of blocks that the fetch has not `asked` for is left out. Raises
    `DecodeError` if two pages say something else of one transaction.
    """
    batches: list[Tables] = []
    taken = pa.array([], pa.string())
    for page in row_pages:
        if page.tables is None or page.seqnos.start >= run.stop or page.seqnos.stop <= run.start:
            continue
        batch = {
            name: within(page.tables[name], [run]).combine_chunks()
            for name in ("transactions", "messages")
        }
        hashes = batch["transactions"]["hash"].combine_chunks()
        twice = pc.is_in(hashes, value_set=taken)
        if pc.any(twice).as_py():
            _check_same(batches, batch, hashes.filter(twice))
            batch["transactions"] = batch["transactions"].filter(pc.invert(twice))
            again = pc.is_in(batch["messages"]["tx_hash"], value_set=taken)
            batch["messages"] = batch["messages"].filter(pc.invert(again))
        taken = pa.concat_arrays([taken, hashes.filter(pc.invert(twice))])
        batch["address_book"] = _entries(page.tables, page.seqnos, asked)
        batches.append(batch)
    return concat(batches)


def check_counts(transactions: pa.Table, blocks: Iterable[Header]) -> None:
    """Raise `DecodeError` unless the transactions are those that blocks count, block by block."""
    names = ["mc_block_seqno", "block_workchain", "block_shard", "block_seqno"]
    groups = transactions.group_by(names).aggregate([([], "count_all")])
    counts = {
        (mc_seqno, workchain, shard % 2**64, seqno): count
        for mc_seqno, workchain, shard, seqno, count in zip(
            *(groups[name].to_pylist() for name in (*names, "count_all")), strict=True
        )
    }
    counted = {
        (header.mc_seqno, *header.link.shard, header.link.seqno): header.link.transactions
        for header in blocks
        if header.link.transactions
    }
    for block in sorted(counts.keys() | counted.keys()):
        if counts.get(block) != counted.get(block):
            mc_seqno, workchain, prefix, seqno = block
            raise DecodeError(
                "$.transactions",
                f"{counted.get(block, 0)} of block ({workchain}, {prefix:016X}, {seqno}) in "
                f"masterchain block {mc_seqno}",
                f"{counts.get(block, 0)}",
            )


def _check_same(earlier: Sequence[Tables], batch: Tables, hashes: pa.Array) -> None:
    """Raise `DecodeError` if transactions that have come before have another content now."""
    for name, of in (("transactions", "hash"), ("messages", "tx_hash")):
        before = pa.concat_tables([tables[name] for tables in earlier])
        order = [(of, "ascending")]
        if name == "messages":
            order += [("direction", "ascending"), ("position", "ascending")]
        first, second = (
            table.filter(pc.is_in(table[of], value_set=hashes)).sort_by(order).combine_chunks()
            for table in (before, batch[name])
        )
        if not first.equals(second):
            raise DecodeError(f"$.{name}", "what another page says of the same", "another content")


def _entries(tables: Tables, seqnos: range, asked: range) -> pa.Table:
    """Return the entries of the address book, but for those of neighbouring blocks alone."""
    book = tables["address_book"]
    if seqnos.start >= asked.start and seqnos.stop <= asked.stop:
        return book
    kept = {name: within(tables[name], [asked]) for name in ("transactions", "messages")}
    return book.filter(pc.is_in(book["address"], value_set=addresses_in(kept)))


def addresses_in(tables: Tables) -> pa.Array:
    """Return the addresses that occur in transactions and messages."""
    transactions, messages = tables["transactions"], tables["messages"]
    columns = (transactions["account"], messages["source"], messages["destination"])
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string()).unique()


# ── what to read ─────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Interval:
    """Logical times from `start` to `end`, both included."""

    start: int
    end: int
    #: Transactions of the known blocks that begin in it.
    transactions: int
    #: Whether it holds just these: no known block lies partly outside.
    exact: bool
    #: Requests of its rows.
    under_way: int = field(default=0, repr=False)


def cut(headers: Sequence[Header], start: int, limit: int) -> Interval | None:
    """Return the next interval from a logical time on, whose pages of `limit` rows come full.

    The blocks end at `start` or later, and are ordered by their first logical time. If they do not
    fill a page, there is no interval.

    Examples
    --------
    >>> from tonframes.fetch.headers import Header
    >>> from tonframes.fetch.proof import Link
    >>> shard = Shard(0, 2**63)
    >>> blocks = [Header(Link(shard, n, (), 300), n, n, 10 * n, 10 * n + 5) for n in range(9)]
    >>> cut(blocks, 0, 1000)
    Interval(start=0, end=59, transactions=1800, exact=True)
    """
    total = sum(header.link.transactions for header in headers if header.start_lt >= start)
    room = min(PAGES, total // limit) * limit
    if not room:
        return None
    fitting = list(takewhile(lambda cut: cut.transactions <= room, _cuts(headers, start)))
    if not fitting:  # the first block fills more than the room
        return next(_cuts(headers, start), all_from(headers, start))
    exact = [interval for interval in fitting if interval.exact]

    def rank(interval: Interval) -> tuple[float, int]:
        count = interval.transactions
        return count / (-(-count // limit) * limit), count

    return max(exact or fitting, key=rank)


def all_from(headers: Sequence[Header], start: int) -> Interval | None:
    """Return the interval from a logical time to the end of all blocks, None if that is passed."""
    end = max((header.end_lt for header in headers), default=-1)
    if end < start:
        return None
    begun = [header for header in headers if header.start_lt >= start]
    transactions = sum(header.link.transactions for header in begun)
    return Interval(start, end, transactions, exact=len(begun) == len(headers))


def _cuts(headers: Sequence[Header], start: int) -> Iterator[Interval]:
    """Yield the intervals that end just before a block begins and hold transactions."""
    transactions, last, open_until, carried = 0, start, start - 1, False
    for header in headers:
        if header.start_lt > last:
            if transactions:
                end = header.start_lt - 1
                yield Interval(start, end, transactions, exact=not carried and open_until <= end)
            last = header.start_lt
        if header.start_lt < start:
            carried = True
        else:
            open_until = max(open_until, header.end_lt)
            transactions += header.link.transactions


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Rows of an interval that are to be read."""

    of: Interval
    offset: int
    #: How many, from the offset on; more if `last`.
    count: int
    #: Whether the rows after them are to be read as well, if there are any.
    last: bool
    #: How often these rows were asked for before; None if they were not.
    attempt: int | None = None


class WindowTransactions:
    """The transactions that have come, and the logical times that are still to be read."""

    def __init__(self, attempts: int) -> None:
        #: What has come and is not forgotten yet.
        self.pages: list[RowPage] = []
        #: The logical time from which on nothing is planned yet; None before the first.
        self.start: int | None = None
        #: What does not come, though it was asked for so many times; "" for nothing.
        self.failed = ""
        self._attempts = attempts
        self._waiting: deque[RowRequest] = deque()
        self._reading: deque[Interval] = deque()
        self._repairs: deque[RowRequest] = deque()
        self._repairing: list[Interval] = []
        self._read_until = -1
        self._hashes: dict[Key, set[str]] = defaultdict(set)
        self._tried: dict[Key, int] = {}

    @property
    def held(self) -> int:
        return sum(page.count for page in self.pages)

    def next(self) -> RowRequest | None:
        return self._waiting.popleft() if self._waiting else None

    def plan(self, headers: Sequence[Header], run: range, limit: int, *, final: bool) -> None:
        """Plan the next interval of a run if its blocks fill a page, or are `final`."""
        wanted = [header for header in headers if header.mc_seqno in run]
        if not wanted:
            return
        if self.start is None:
            self.start = wanted[0].start_lt
        end = max(header.end_lt for header in wanted)
        about = [h for h in headers if h.end_lt >= self.start and h.start_lt <= end]
        interval = cut(about, self.start, limit)
        if interval is None and final:
            interval = all_from(about, self.start)
        if interval is None:
            return
        self.start = interval.end + 1
        if interval.exact:
            full, more = divmod(interval.transactions, limit)
            counts = [limit] * full + [more] * (more > 0)
        else:
            counts = [limit] * max(1, interval.transactions // limit)
        interval.under_way = len(counts)
        self._reading.append(interval)
        for i, count in enumerate(counts):
            last = not interval.exact and i == len(counts) - 1
            self._waiting.append(RowRequest(interval, i * limit, count, last))
        self._advance()

    def repair(self, blocks: Iterable[Header], limit: int) -> RowRequest | None:
        """Return rows to read again, because blocks of the next masterchain blocks lack some."""
        if not self._repairing:
            lacking = [
                header
                for header in blocks
                if header.end_lt <= self._read_until and not self.has(header)
            ]
            if lacking:
                self._plan_repair(lacking, limit)
        return self._repairs.popleft() if self._repairs else None

    def _plan_repair(self, lacking: Sequence[Header], limit: int) -> None:
        for header in lacking:
            key, count = header.key, len(self._hashes[header.key])
            tried = self._tried[key] = self._tried.get(key, 0) + 1
            if tried > self._attempts or count > header.link.transactions:
                (shard, seqno), counted = key, header.link.transactions
                self.failed = (
                    f"block ({shard.workchain}, {shard.prefix:016X}, {seqno}) counts {counted} "
                    f"transactions, and {count} came"
                )
                return
        attempt = min(self._tried[header.key] for header in lacking) - 1
        for interval in _intervals(lacking, limit):
            interval.under_way = 1
            self._repairing.append(interval)
            self._repairs.append(RowRequest(interval, 0, limit, last=True, attempt=attempt))

    def take(self, page: RowPage) -> None:
        self.pages.append(page)
        for key, hashes in page.hashes.items():
            self._hashes[key].update(hashes)

    def done(self, request: RowRequest, *, ended: bool) -> RowRequest | None:
        """Note that rows have come; return those after them, if there may be any."""
        if request.last and not ended:
            offset = request.offset + request.count
            return RowRequest(request.of, offset, request.count, True, request.attempt)
        request.of.under_way -= 1
        self._repairing = [interval for interval in self._repairing if interval.under_way]
        self._advance()
        return None

    def _advance(self) -> None:
        while self._reading and not self._reading[0].under_way:
            self._read_until = self._reading.popleft().end

    def lacks(self, blocks: Iterable[Header]) -> bool:
        """Whether blocks lack transactions, though their logical times have been read."""
        return any(header.end_lt <= self._read_until and not self.has(header) for header in blocks)

    def has(self, header: Header) -> bool:
        """Whether all transactions of a block have come, and no others."""
        hashes = self._hashes.get(header.key)
        return (len(hashes) if hashes else 0) == header.link.transactions

    def forget(self, start: int, blocks: Iterable[Header]) -> None:
        """Forget masterchain blocks before a seqno, whose blocks are given."""
        self.pages = [page for page in self.pages if page.seqnos.stop > start]
        for header in blocks:
            self._hashes.pop(header.key, None)
            self._tried.pop(header.key, None)


def _intervals(lacking: Sequence[Header], limit: int) -> Iterator[Interval]:
    """Yield intervals around blocks, each of one page as far as these blocks tell."""
    start, end, count = -1, -1, 0
    for header in sorted(lacking, key=lambda header: header.start_lt):
        if count and count + header.link.transactions > limit:
            yield Interval(start, end, count, exact=False)
            count = 0
        if not count:
            start, end = header.start_lt, header.end_lt
        end = max(end, header.end_lt)
        count += header.link.transactions
    if count:
        yield Interval(start, end, count, exact=False)
