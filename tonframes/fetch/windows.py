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

from tonframes.client import LAST_LT, MOST_ROWS, UnknownOperationError
from tonframes.errors import DecodeError, RequestError
from tonframes.fetch import headers, row_pages, rows
from tonframes.fetch.block import wait_before
from tonframes.fetch.crew import Crew
from tonframes.fetch.ends import find_ends, lacks_windows
from tonframes.fetch.paging import read_page, rest_of_second
from tonframes.fetch.proving import Stretch
from tonframes.fetch.shown import shown
from tonframes.seqnos import SPAN
from tonframes.store import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.fetch.ends import Ends
    from tonframes.fetch.headers import BlockRows, Slice
    from tonframes.fetch.proof import Link
    from tonframes.fetch.row_pages import RowPage
    from tonframes.fetch.rows import Rows

P = TypeVar("P")

#: How often what does not come, though it should, is asked for.
ATTEMPTS = 8
#: Rows that may be held beside those under way, until what lies before them has come.
HELD = 16_000
#: Seconds after which what is whole is given, though it is little.
SOONEST = 1.0
#: Seconds between looks at whether Ctrl-C was pressed.
LOOK = 0.2


def read_windows(client: Client, run: range) -> Iterator[Stretch]:
    """Yield consecutive masterchain blocks, from the first one on, in stretches.

    Ends early where the service cannot be read so, or does not show something that there must be:
    the next masterchain block may be read by itself.

    Raises
    ------
    RequestError
        The service does not answer; what had come before has been yielded.
    """
    ends = find_ends(client, run)
    if ends is None:
        return
    windows = _Windows(client, ends)
    try:
        yield from windows.stretches()
    finally:
        windows.close()


class _Windows:
    """What is read and what is to be read next; threads read, one thread takes what is whole."""

    def __init__(self, client: Client, ends: Ends) -> None:
        self._client = client
        self._ends = ends
        self._run = run = ends.run
        self._blocks = headers.Headers(
            run, ends.before, ends.after, ends.first, ends.last, ATTEMPTS
        )
        self._transactions = rows.Transactions(ATTEMPTS)
        self._position = run.start
        self._whole = run.start  # the seqno before which everything has come
        self._crew = Crew()
        # Decoding holds the interpreter lock: many threads are no faster. But each would keep the
        # memory that it once needed: malloc and Arrow's allocator keep it by thread.
        self._decoder = ThreadPoolExecutor(1, "tonframes-decoder")
        self._changed = Condition()
        self._under_way = 0
        self._given = time.monotonic()
        self._over = False
        self._error: BaseException | None = None

    def stretches(self) -> Iterator[Stretch]:
        """Yield what is whole, in order."""
        while self._position < self._run.stop:
            with self._changed:
                self._start()
                while not self._is_enough(found := self._next_whole()):
                    self._changed.wait(LOOK)
                    self._start()
                read = self._blocks.rows, self._transactions.pages
                self._blocks.rows, self._transactions.pages = [], []
            if not found:
                break
            try:
                blocks, pages = list(headers.decoded(read[0])), list(row_pages.decoded(read[1]))
                stretch = self._stretch(found, blocks, pages)
            except DecodeError:  # pages contradict one another, or the counts of the blocks
                return
            yield stretch
            with self._changed:
                self._blocks.rows += blocks
                self._transactions.pages += pages
                self._forget(found.stop)
        if self._error is not None and self._position < self._run.stop:
            raise self._error

    def close(self) -> None:
        """Begin nothing more."""
        with self._changed:
            self._over = True
        self._crew.close()
        self._decoder.shutdown(wait=False)

    # ── what is whole ────────────────────────────────────────────────────────────────────────────

    def _next_whole(self) -> range:
        """Return the masterchain seqnos that are whole, up to the end of a file of the store."""
        stop = self._blocks.whole_until()
        while self._whole < stop and all(
            self._transactions.has(header) for header in self._blocks.by_mc.get(self._whole, ())
        ):
            self._whole += 1
        return range(self._position, min(self._whole, self._end_of_file))

    def _is_enough(self, found: range) -> bool:
        """Return whether what is whole is enough to make tables of it, or all there is."""
        if self._over or not self._under_way or found.stop in (self._run.stop, self._end_of_file):
            return True
        if not found:
            return False
        if time.monotonic() >= self._given + SOONEST:
            return True
        headers = (header for seqno in found for header in self._blocks.by_mc[seqno])
        return sum(header.link.transactions for header in headers) >= MOST_ROWS

    @property
    def _end_of_file(self) -> int:
        return (self._position // SPAN + 1) * SPAN

    def _stretch(
        self,
        seqnos: range,
        blocks: Sequence[BlockRows],
        pages: Sequence[RowPage],
    ) -> Stretch:
        by_mc = self._blocks.by_mc
        tables = row_pages.tables_of(pages, seqnos, self._run)
        row_pages.check_counts(
            tables["transactions"], (header for seqno in seqnos for header in by_mc[seqno])
        )
        tables["blocks"] = pa.concat_tables(
            [within(part.table, [seqnos]) for part in blocks if part.table is not None]
        )
        links = {seqno: [header.link for header in by_mc[seqno]] for seqno in seqnos}
        return Stretch(
            seqnos,
            links,
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

    def _forget(self, start: int) -> None:
        past = [
            header for seqno in range(self._position, start) for header in self._blocks.by_mc[seqno]
        ]
        self._position = start
        self._given = time.monotonic()
        self._transactions.forget(start, past)
        self._blocks.forget(start)

    # ── what to read next ────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        """Begin as many requests as keep up the rate limit."""
        while not self._over and self._under_way < self._client.in_flight:
            call = self._next()
            if call is None:
                break
            self._under_way += 1
            self._crew.run(partial(self._work, call))
        if not self._under_way and not self._next_whole():
            self._over = True

    def _next(self) -> Callable[[], None] | None:
        """Return the next request: what is missing first, transactions before blocks."""
        part = self._blocks.repair()
        if part is not None:
            part.busy = True
            return partial(self._read_blocks, part)
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
        part = self._blocks.slice()
        if part is None:
            return None
        part.busy = True
        return partial(self._read_blocks, part)

    def _repair_of_rows(self) -> Rows | None:
        """Return transactions to read again, if the masterchain block that is next lacks some."""
        self._next_whole()
        stop = self._blocks.whole_until()
        blocks = self._blocks.by_mc
        if self._whole >= stop or not self._transactions.lacks(blocks.get(self._whole, ())):
            return self._transactions.repair((), 0)
        lacking = (h for seqno in range(self._whole, stop) for h in blocks.get(seqno, ()))
        return self._transactions.repair(lacking, self._client.page_limit.rows)

    # ── in the threads ───────────────────────────────────────────────────────────────────────────

    def _work(self, call: Callable[[], None]) -> None:
        try:
            call()
        except UnknownOperationError:
            lacks_windows(self._client)
            self._end(None)
        except DecodeError:
            # The service does not answer as it should; asked in another way it may.
            self._end(None)
        except RequestError as error:
            # No window is absent: a 404 is of an interrupted query, or of a gateway.
            passing = error.retryable and error.status != HTTPStatus.NOT_FOUND
            self._end(error if passing else None)
        except BaseException as error:  # noqa: BLE001 - raised where the blocks are taken
            self._end(error)
        with self._changed:
            self._under_way -= 1
            if self._blocks.failed or self._transactions.failed:
                self._over = True
            self._start()
            self._changed.notify_all()

    def _end(self, error: BaseException | None) -> None:
        with self._changed:
            self._over = True
            self._error = self._error or error

    def _decoding(self, parse: Callable[[bytes], P]) -> Callable[[bytes], P]:
        """Return a function that decodes in the thread for it, in the context of its caller."""
        return lambda content: self._decoder.submit(copy_context().run, parse, content).result()

    def _read_blocks(self, part: Slice) -> None:
        """Read a page of a slice."""
        client = self._client
        if part.attempt is not None:
            wait_before(client, part.attempt)
        first, last = part.next, part.end
        parse = self._decoding(headers.reading(first, last))
        page, limit = read_page(
            client, partial(client.blocks, parse, start_utime=first, end_utime=last)
        )
        came, following = [page], last + 1
        if len(page.headers) >= limit:
            following = max(header.utime for header in page.headers)
            if following == first:
                came += rest_of_second(client, first, page, 0, LAST_LT)
                following += 1
        if page.headers:
            shown(client).note_blocks(blocks=True)
        with self._changed:
            self._blocks.take(part, came, following, limit)
            part.busy = False

    def _read_rows(self, wanted: Rows | None) -> None:
        """Read rows, and those after them while there are any."""
        client = self._client
        if wanted is not None and wanted.attempt is not None:
            wait_before(client, wanted.attempt)
        while wanted is not None:
            ended, got = False, 0
            start, end = wanted.of.interval.start, wanted.of.interval.end
            parse = self._decoding(row_pages.reading(start, end))
            while got < wanted.count and not ended:
                at, most = wanted.offset + got, wanted.count - got
                ask = partial(client.transactions, parse, start_lt=start, end_lt=end, offset=at)
                page, limit = read_page(client, ask, most)
                got += page.count
                ended = page.count < limit
                with self._changed:
                    self._transactions.take(page)
            with self._changed:
                wanted = self._transactions.done(wanted, ended=ended)
