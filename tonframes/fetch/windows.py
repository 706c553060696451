"""Consecutive masterchain blocks, read through windows of time and of logical time.

Services that know more operations than the specification answer 1000 blocks or transactions with
one request, whichever masterchain blocks commit them. Blocks are read by time (`headers`); they
tell which transactions there must be, and at which logical times (`rows`). What comes is put
together by masterchain blocks, and given as soon as it is whole.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from http import HTTPStatus
from threading import Condition
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from tonframes.client import LAST_LT, MOST_ROWS, TooManyRowsError, UnknownOperationError
from tonframes.errors import DecodeError, RequestError
from tonframes.fetch import headers, rows
from tonframes.fetch.block import fetch_state, wait_before
from tonframes.fetch.headers import Ends
from tonframes.fetch.network import lacks_windows, last_shown, observed, or_absent
from tonframes.fetch.proving import Stretch
from tonframes.fetch.workers import Crew
from tonframes.seqnos import SPAN
from tonframes.store import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.fetch.block import State
    from tonframes.fetch.headers import BlockPage, BlockRows, Slice
    from tonframes.fetch.proof import Link
    from tonframes.fetch.rows import RowPage, RowRequest

P = TypeVar("P")

#: How often what does not come, though it should, is asked for.
ATTEMPTS = 8
#: Rows that may be held beside those under way, until what lies before them has come.
HELD = 16_000
#: Seconds after which finished masterchain blocks are handed out, though they are few.
SOONEST = 1.0
#: Seconds between looks at whether Ctrl-C was pressed.
LOOK = 0.2


# ── the ends of a range ──────────────────────────────────────────────────────────────────────────


def find_ends(client: Client, run: range) -> Ends | None:
    """Ask for the ends of a run, or of what the service has of it; None if they are unknown."""
    if not observed(client).windows:
        return None
    try:
        before = _state(client, run.start - 1)
        after = None if before is None else _state(client, run.stop - 1)
        if before is not None and after is None:
            last = last_shown(client, run.stop - 1)
            run = range(run.start, min(run.stop, last + 1))
            after = _state(client, run.stop - 1) if run else None
    except UnknownOperationError:
        lacks_windows(client)
        return None
    if before is None or after is None or after.last is None:
        return None
    first = before.first
    if first is None:  # a service names the blocks before its first one, and knows no more of them
        first = _first_time(client, run.start)
    return None if first is None else Ends(run, before.tips, after.tips, first, after.last)


def _state(client: Client, seqno: int) -> State | None:
    if not seqno:
        return None
    try:
        return fetch_state(client, seqno)
    except UnknownOperationError:
        raise
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def _first_time(client: Client, seqno: int) -> int | None:
    """Return the second of the oldest block that a masterchain block commits."""
    ask = partial(client.masterchain_block_shards, seqno, headers.page_parser(0, 2**63))
    try:
        page = or_absent(ask)
    except DecodeError:
        return None
    return min((header.utime for header in page.headers), default=None) if page else None


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


def read_page(client: Client, ask: Callable[..., P], most: int = MOST_ROWS) -> tuple[P, int]:
    """Return a page of as many rows as the service manages, and how many were asked for."""
    ends = time.monotonic() + client.deadline
    while True:
        limit = min(most, client.page_limit.rows)
        try:
            return ask(limit=limit), limit
        except TooManyRowsError:
            if time.monotonic() >= ends:
                raise


def read_second(
    client: Client, second: int, page: BlockPage, first_lt: int, last_lt: int
) -> list[BlockPage]:
    """Read further blocks of a second that has more than a page of them, by logical times."""
    parse = headers.page_parser(second, second)
    ask = partial(client.blocks, parse, start_utime=second, end_utime=second)
    pages: list[BlockPage] = []
    if first_lt == last_lt:
        offset = len(page.headers)
        while page.headers:
            page, _ = read_page(
                client, partial(ask, start_lt=first_lt, end_lt=last_lt, offset=offset)
            )
            offset += len(page.headers)
            pages.append(page)
        return pages
    lts = sorted(header.start_lt for header in page.headers)
    middle = max(first_lt, min(lts[len(lts) // 2], last_lt - 1))
    for start, end in ((first_lt, middle), (middle + 1, last_lt)):
        half, limit = read_page(client, partial(ask, start_lt=start, end_lt=end))
        pages.append(half)
        if len(half.headers) >= limit:
            pages += read_second(client, second, half, start, end)
    return pages


# ── masterchain blocks ───────────────────────────────────────────────────────────────────────────


def read_windows(client: Client, run: range) -> Iterator[Stretch]:
    """Yield consecutive masterchain blocks from the first one on, as far as windows show them."""
    ends = find_ends(client, run)
    if ends is None:
        return
    windows = _Windows(client, ends)
    try:
        yield from windows.stretches()
    finally:
        windows.close()


class _Windows:
    """Threads read blocks and transactions; one thread takes finished masterchain blocks."""

    def __init__(self, client: Client, ends: Ends) -> None:
        self._client = client
        self._ends = ends
        self._run = run = ends.run
        self._blocks = headers.Headers(ends, ATTEMPTS)
        self._transactions = rows.WindowTransactions(ATTEMPTS)
        self._position = run.start  # before it, all was handed out
        self._whole = run.start  # before it, everything has come
        self._crew = Crew()
        # Decoding holds the interpreter lock: many threads are no faster. But each would keep the
        # memory that it once needed: malloc and Arrow's allocator keep it by thread.
        self._decoder = ThreadPoolExecutor(1, "tonframes-decoder")
        self._changed = Condition()
        self._under_way = 0
        self._handed_out = time.monotonic()
        self._over = False
        self._error: BaseException | None = None

    def stretches(self) -> Iterator[Stretch]:
        """Yield finished masterchain blocks, in order."""
        while self._position < self._run.stop:
            with self._changed:
                self._start()
                while not self._is_enough(seqnos := self._finished()):
                    self._changed.wait(LOOK)
                    self._start()
                block_rows, pages_read = self._blocks.rows, self._transactions.pages
                self._blocks.rows, self._transactions.pages = [], []
            if not seqnos:
                break
            try:
                block_rows = list(headers.decoded(block_rows))
                pages_read = list(rows.decoded(pages_read))
                stretch = self._stretch(seqnos, block_rows, pages_read)
            except DecodeError:  # pages contradict one another, or the counts of the blocks
                return
            yield stretch
            with self._changed:
                self._blocks.rows += block_rows
                self._transactions.pages += pages_read
                by_mc = self._blocks.by_mc
                past = [header for seqno in seqnos for header in by_mc[seqno]]
                self._position = seqnos.stop
                self._handed_out = time.monotonic()
                self._transactions.forget(seqnos.stop, past)
                self._blocks.forget(seqnos.stop)
        if self._error is not None and self._position < self._run.stop:
            raise self._error

    def close(self) -> None:
        with self._changed:
            self._over = True
        self._crew.close()
        self._decoder.shutdown(wait=False)

    @property
    def _end_of_file(self) -> int:
        return (self._position // SPAN + 1) * SPAN

    def _finished(self) -> range:
        """Return the masterchain seqnos of which all has come, up to the end of a file."""
        stop = self._blocks.whole_until()
        while self._whole < stop and all(
            self._transactions.has(header) for header in self._blocks.by_mc.get(self._whole, ())
        ):
            self._whole += 1
        return range(self._position, min(self._whole, self._end_of_file))

    def _is_enough(self, seqnos: range) -> bool:
        """Decide whether to hand out the finished masterchain blocks now."""
        if self._over or not self._under_way or seqnos.stop in (self._run.stop, self._end_of_file):
            return True
        if not seqnos:
            return False
        if time.monotonic() >= self._handed_out + SOONEST:
            return True
        of_seqnos = (header for seqno in seqnos for header in self._blocks.by_mc[seqno])
        return sum(header.link.transactions for header in of_seqnos) >= MOST_ROWS

    def _stretch(
        self, seqnos: range, block_rows: Sequence[BlockRows], pages_read: Sequence[RowPage]
    ) -> Stretch:
        by_mc = self._blocks.by_mc
        tables = rows.tables_of(pages_read, seqnos, self._run)
        rows.check_counts(
            tables["transactions"], (header for seqno in seqnos for header in by_mc[seqno])
        )
        tables["blocks"] = pa.concat_tables(
            [within(one.table, [seqnos]) for one in block_rows if one.table is not None]
        )
        return Stretch(
            seqnos,
            {seqno: [header.link for header in by_mc[seqno]] for seqno in seqnos},
            tables,
            len(tables["transactions"]),
            partial(self._later, seqnos.stop),
            before=self._ends.before if seqnos.start == self._run.start else None,
            after=self._ends.after if seqnos.stop == self._run.stop else None,
        )

    def _later(self, start: int) -> list[Link]:
        with self._changed:
            known = sorted(seqno for seqno in self._blocks.by_mc if seqno >= start)
            return [header.link for seqno in known for header in self._blocks.by_mc[seqno]]

    def _start(self) -> None:
        """Begin as many requests as keep up the rate limit."""
        while not self._over and self._under_way < self._client.in_flight:
            call = self._next()
            if call is None:
                break
            self._under_way += 1
            self._crew.run(partial(self._work, call))
        if not self._under_way and not self._finished():
            self._over = True

    def _next(self) -> Callable[[], None] | None:
        """Return the next request: what is missing first, transactions before blocks."""
        seconds = self._blocks.repair()
        if seconds is None:
            if wanted := self._repair_of_rows():
                return partial(self._read_rows, wanted)
            limit = self._client.page_limit.rows
            if self._under_way and self._transactions.held > self._client.in_flight * limit + HELD:
                return None
            wanted = self._transactions.next()
            if wanted is None:
                start = self._transactions.start or 0
                self._transactions.plan(
                    self._blocks.from_lt(start), self._run, limit, final=self._blocks.complete
                )
                wanted = self._transactions.next()
            if wanted is not None:
                return partial(self._read_rows, wanted)
            seconds = self._blocks.slice()
            if seconds is None:
                return None
        seconds.busy = True
        return partial(self._read_blocks, seconds)

    def _repair_of_rows(self) -> RowRequest | None:
        """Return transactions to read again, if the masterchain block that is next lacks some."""
        self._finished()
        stop = self._blocks.whole_until()
        blocks = self._blocks.by_mc
        if self._whole >= stop or not self._transactions.lacks(blocks.get(self._whole, ())):
            return self._transactions.repair((), 0)
        lacking = (h for seqno in range(self._whole, stop) for h in blocks.get(seqno, ()))
        return self._transactions.repair(lacking, self._client.page_limit.rows)

    def _work(self, call: Callable[[], None]) -> None:
        ended = True
        failure: BaseException | None = None
        try:
            call()
            ended = False
        except UnknownOperationError:
            lacks_windows(self._client)
        except DecodeError:
            pass  # the service does not answer as it should; asked in another way it may
        except RequestError as error:
            # No window is absent: a 404 is of an interrupted query, or of a gateway.
            passing = error.retryable and error.status != HTTPStatus.NOT_FOUND
            failure = error if passing else None
        except BaseException as error:  # noqa: BLE001 - raised where the blocks are taken
            failure = error
        with self._changed:
            self._error = self._error or failure
            self._under_way -= 1
            if ended or self._blocks.failed or self._transactions.failed:
                self._over = True
            self._start()
            self._changed.notify_all()

    def _decoding(self, parse: Callable[[bytes], P]) -> Callable[[bytes], P]:
        """Return a function that decodes in the thread for it, in the context of its caller."""
        return lambda content: self._decoder.submit(copy_context().run, parse, content).result()

    def _read_blocks(self, seconds: Slice) -> None:
        client = self._client
        if seconds.attempt is not None:
            wait_before(client, seconds.attempt)
        first, last = seconds.next, seconds.end
        parse = self._decoding(headers.page_parser(first, last))
        page, limit = read_page(
            client, partial(client.blocks, parse, start_utime=first, end_utime=last)
        )
        pages, following = [page], last + 1
        if len(page.headers) >= limit:
            following = max(header.utime for header in page.headers)
            if following == first:
                pages += read_second(client, first, page, 0, LAST_LT)
                following += 1
        if page.headers:
            observed(client).note_blocks(blocks=True)
        with self._changed:
            self._blocks.take(seconds, pages, following, limit)
            seconds.busy = False

    def _read_rows(self, wanted: RowRequest | None) -> None:
        """Read rows, and those after them while there are any."""
        client = self._client
        if wanted is not None and wanted.attempt is not None:
            wait_before(client, wanted.attempt)
        while wanted is not None:
            ended, count = False, 0
            start, end = wanted.of.start, wanted.of.end
            parse = self._decoding(rows.page_parser(start, end))
            while count < wanted.count and not ended:
                offset, most = wanted.offset + count, wanted.count - count
                ask = partial(client.transactions, parse, start_lt=start, end_lt=end, offset=offset)
                page, limit = read_page(client, ask, most)
                count += page.count
                ended = page.count < limit
                with self._changed:
                    self._transactions.take(page)
            with self._changed:
                wanted = self._transactions.done(wanted, ended=ended)
