"""The transactions of blocks, read through windows of logical time.

How many transactions each block has is known from its header. So a list that lacks some is
noticed, and what is missing is asked for again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonframes.fetch.intervals import Interval, cut, rest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tonframes.fetch.intervals import Header
    from tonframes.fetch.proof import Key
    from tonframes.fetch.row_pages import RowPage


@dataclass(slots=True)
class Reading:
    """An interval of logical time whose rows are being read."""

    interval: Interval
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an interval that are to be read.

    Attributes
    ----------
    count
        How many, from the offset on; more if `last`.
    last
        Whether the rows after them are to be read as well, if there are any.
    attempt
        How often these rows were asked for before; None if they were not.
    """

    of: Reading
    offset: int
    count: int
    last: bool
    attempt: int | None = None


class Transactions:
    """The transactions that have come, and the logical times that are still to be read.

    Parameters
    ----------
    attempts
        How often transactions that do not come are asked for.

    Attributes
    ----------
    pages
        What has come and is not forgotten yet.
    start
        The logical time from which on nothing is planned yet; None before the first.
    failed
        What does not come, "" for nothing.
    """

    def __init__(self, attempts: int) -> None:
        self.pages: list[RowPage] = []
        self.start: int | None = None
        self.failed = ""
        self._attempts = attempts
        self._waiting: deque[Rows] = deque()
        self._readings: deque[Reading] = deque()
        self._repairs: deque[Rows] = deque()
        self._repairing: list[Reading] = []
        self._read_until = -1
        self._hashes: dict[Key, set[str]] = defaultdict(set)
        self._tried: dict[Key, int] = {}

    @property
    def held(self) -> int:
        """How many rows have come and are not forgotten yet."""
        return sum(page.count for page in self.pages)

    # ── what to read next ────────────────────────────────────────────────────────────────────────

    def next(self) -> Rows | None:
        """Return the next rows that are planned."""
        return self._waiting.popleft() if self._waiting else None

    def plan(self, headers: Sequence[Header], run: range, limit: int, *, final: bool) -> None:
        """Plan the next interval, if the blocks that are known fill a page.

        Parameters
        ----------
        headers
            Blocks that end at `start` or later, ordered by their first logical time.
        run
            The masterchain seqnos whose transactions are wanted.
        limit
            Rows of a page.
        final
            Whether no more blocks will come: then the rest is planned.
        """
        wanted = [header for header in headers if header.mc_seqno in run]
        if not wanted:
            return
        if self.start is None:
            self.start = wanted[0].start_lt
        end = max(header.end_lt for header in wanted)
        about = [h for h in headers if h.end_lt >= self.start and h.start_lt <= end]
        interval = cut(about, self.start, limit)
        if interval is None and final:
            interval = rest(about, self.start)
        if interval is None:
            return
        self.start = interval.end + 1
        reading = Reading(interval)
        self._readings.append(reading)
        if interval.exact:
            counts = _counts(interval.transactions, limit)
        else:
            counts = [limit] * max(1, interval.transactions // limit)
        for i, count in enumerate(counts):
            last = not interval.exact and i == len(counts) - 1
            self._wait(Rows(reading, i * limit, count, last))
        self._advance()

    def repair(self, blocks: Iterable[Header], limit: int) -> Rows | None:
        """Return rows to read again, because blocks lack transactions.

        Parameters
        ----------
        blocks
            All blocks of the masterchain blocks that are next.
        """
        if not self._repairing:
            self._plan_repair(blocks, limit)
        return self._repairs.popleft() if self._repairs else None

    def _plan_repair(self, blocks: Iterable[Header], limit: int) -> None:
        lacking = [
            header
            for header in blocks
            if header.end_lt <= self._read_until and not self.has(header)
        ]
        if not lacking:
            return
        for header in lacking:
            key, came = header.key, len(self._hashes[header.key])
            tried = self._tried[key] = self._tried.get(key, 0) + 1
            if tried > self._attempts or came > header.link.transactions:
                (shard, seqno), counted = key, header.link.transactions
                self.failed = (
                    f"block ({shard.workchain}, {shard.prefix:016X}, {seqno}) counts {counted} "
                    f"transactions, and {came} came"
                )
                return
        attempt = min(self._tried[header.key] for header in lacking) - 1
        for interval in _intervals(lacking, limit):
            reading = Reading(interval, under_way=1)
            self._repairing.append(reading)
            self._repairs.append(Rows(reading, 0, limit, last=True, attempt=attempt))

    def _wait(self, rows: Rows) -> None:
        rows.of.under_way += 1
        self._waiting.append(rows)

    # ── what came ────────────────────────────────────────────────────────────────────────────────

    def take(self, page: RowPage) -> None:
        """Take a page."""
        self.pages.append(page)
        for key, hashes in page.hashes.items():
            self._hashes[key].update(hashes)

    def done(self, rows: Rows, *, ended: bool) -> Rows | None:
        """Note that rows have come; return those after them, if there may be any."""
        if rows.last and not ended:
            return Rows(rows.of, rows.offset + rows.count, rows.count, True, rows.attempt)
        rows.of.under_way -= 1
        self._repairing = [reading for reading in self._repairing if reading.under_way]
        self._advance()
        return None

    def _advance(self) -> None:
        while self._readings and not self._readings[0].under_way:
            self._read_until = self._readings.popleft().interval.end

    def lacks(self, blocks: Iterable[Header]) -> bool:
        """Return whether blocks lack transactions, though their logical times have been read."""
        return any(header.end_lt <= self._read_until and not self.has(header) for header in blocks)

    def has(self, header: Header) -> bool:
        """Return whether all transactions of a block have come, and no others."""
        found = self._hashes.get(header.key)
        return (len(found) if found else 0) == header.link.transactions

    def forget(self, start: int, blocks: Iterable[Header]) -> None:
        """Forget masterchain blocks before a seqno, whose blocks are given."""
        self.pages = [page for page in self.pages if page.seqnos.stop > start]
        for header in blocks:
            self._hashes.pop(header.key, None)
            self._tried.pop(header.key, None)


def _counts(transactions: int, limit: int) -> list[int]:
    full, rest = divmod(transactions, limit)
    return [limit] * full + [rest] * (rest > 0)


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
