"""Fetch all pages of one masterchain block, until they are consistent."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from tonframes.client import MOST_ROWS, TooManyRowsError
from tonframes.errors import DecodeError, IncompleteError, RequestError, TonframesError
from tonframes.fetch.network import last_shown, masterchain_info, observed, or_absent
from tonframes.fetch.proof import (
    BrokenError,
    Key,
    Link,
    Shard,
    Tips,
    imbalance,
    lack,
    links,
    prefix_of,
    tips,
    uncounted,
)
from tonframes.fetch.rows import by_block
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.wire.pages import Page

T = TypeVar("T")

#: Attempts at pages that are not consistent.
ATTEMPTS = 12

#: Most pages of a masterchain block, which has a few hundred rows; with more, paging never ends.
MOST_PAGES = 100

#: First and longest wait between attempts, in seconds; it doubles each time.
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class BlockPages:
    """All pages of one masterchain block; its links are None if the service shows no blocks."""

    seqno: int
    pages: Sequence[Page]
    links: Sequence[Link] | None

    @property
    def transactions(self) -> int:
        return sum(len(page.answer.transactions or ()) for page in self.pages)


class _InconsistentError(Exception):
    """The pages contradict one another, or what the service has shown before."""


def fetch_block(client: Client, seqno: int) -> BlockPages:
    """Fetch all pages of one masterchain block; repeat while they are not consistent."""
    fault = ""
    waited = 0.0
    for attempt in range(ATTEMPTS):
        try:
            fetched = _fetch(client, seqno)
        except _InconsistentError as error:
            fault = str(error)
        else:
            fault = _fault(fetched)
            if not fault:
                observed(client).note_last(seqno)
                return fetched
        waited += wait_before(client, attempt)
        if waited > client.deadline:
            break
    raise _incomplete(client, seqno, fault)


def wait_until_indexed(client: Client, seqno: int, ask: Callable[[], T]) -> T:
    """Return an answer about a masterchain block; wait while the service has it only elsewhere.

    Services index several masterchain blocks at the same time, replicas may lag, and deployed
    services also answer 404 if a database query is interrupted. So a 404 for a seqno that the
    service has shown, in its info or as part of a later block, is waited out.
    """
    waited = 0.0
    for attempt in count():
        try:
            return ask()
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            fault = _why_absent(client, seqno, error)
        if waited > client.deadline:
            break
        waited += wait_before(client, attempt)
    raise _incomplete(client, seqno, fault)


def _incomplete(client: Client, seqno: int, fault: str) -> IncompleteError:
    return IncompleteError(
        f"masterchain block {seqno} from {client.base_url}: {fault}, in every attempt; nothing "
        "of it was kept: try again later, or another service",
        missing=[range(seqno, seqno + 1)],
    )


@dataclass(frozen=True, slots=True)
class State:
    """The last block of every shard as of a masterchain block."""

    tips: Tips
    #: Those of them that this masterchain block commits; an earlier one commits the others.
    committed: frozenset[Key]
    #: The least and the greatest unix second of these blocks; None where one has none.
    first: int | None
    last: int | None


def fetch_state(client: Client, seqno: int) -> State:
    """Fetch the last block of every shard as of a masterchain block."""

    def parse(answer: bytes) -> State:
        page = pages.read(schema.BLOCKS_ANSWER, answer)
        try:
            of_shards = tips([page], seqno)
        except BrokenError as broken:
            raise DecodeError("$.blocks", "the last block of every shard", str(broken)) from None
        rows = page.answer.blocks or ()
        committed = frozenset(
            (Shard(row.workchain, prefix_of(row.shard)), row.seqno)
            for row in rows
            if row.masterchain_block_ref.seqno == seqno
        )
        times = [row.gen_utime for row in rows]
        if None in times:
            return State(of_shards, committed, None, None)
        return State(of_shards, committed, min(map(int, times)), max(map(int, times)))

    state = client.masterchain_block_shard_state(seqno, parse)
    observed(client).note_last(seqno)
    return state


def wait_before(client: Client, attempt: int) -> float:
    """Wait before another attempt, longer each time; return the seconds."""
    bound = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
    seconds = random.uniform(bound / 2, bound)  # noqa: S311 - jitter, not a secret
    client.wait(seconds)
    return seconds


def _fault(fetched: BlockPages) -> str:
    """Return what is inconsistent in one masterchain block, "" if nothing is."""
    try:
        pages.check_doubles(fetched.pages)
    except DecodeError as error:
        return str(error)
    rows = [row for page in fetched.pages for row in page.answer.transactions or ()]
    missing = next(filter(None, map(lack, rows)), "") or uncounted(fetched.pages)
    if missing or fetched.links is None:
        return missing
    if fault := imbalance(fetched.links, (row.hash for row in rows), fetched.seqno):
        return fault
    hashes = by_block(rows)
    for link in fetched.links:
        count = len(set(hashes.get((link.shard, link.seqno), ())))
        if count != link.transactions:
            name = f"({link.shard.workchain}, {link.shard.prefix:016X}, {link.seqno})"
            return f"block {name} counts {link.transactions} transactions, and {count} came"
    return ""


def _fetch(client: Client, seqno: int) -> BlockPages:
    """Fetch all pages; the first answer with rows decides whether the service shows blocks."""
    first = list(_pages(client, client.masterchain_block_shards, seqno, "transactions", "blocks"))
    answer = first[0].answer
    if not answer.blocks and not answer.transactions:
        # No masterchain block is empty: each commits itself, with its tick-tock transactions.
        raise _InconsistentError("the answer is empty, and no masterchain block is")
    blocks = bool(answer.blocks)
    if observed(client).note_blocks(blocks=blocks) != blocks:
        names = ("transactions", "blocks")
        raise _InconsistentError(
            f"the answer shows {names[blocks]}, and the service has shown {names[not blocks]} "
            "before"
        )
    if not blocks:
        return BlockPages(seqno, first, None)
    others = _pages(client, client.transactions_by_masterchain_block, seqno, "transactions")
    return BlockPages(seqno, [*first, *others], list(links(first).values()))


def _pages(client: Client, operation: Any, seqno: int, *lists: str) -> Iterator[Page]:

    def parse(answer: bytes) -> Page:
        return pages.read(schema.BLOCKS_ANSWER, answer)

    def count_rows(page: Page) -> int:
        return max(len(getattr(page.answer, name) or ()) for name in lists)

    ends = time.monotonic() + client.deadline
    offset = 0
    seen: set[object] = set()
    while True:
        limit = min(MOST_ROWS, client.page_limit.rows)
        ask = partial(operation, seqno, parse, limit=limit, offset=offset, divisible=True)
        try:
            page = or_absent(ask) if offset else wait_until_indexed(client, seqno, ask)
        except TooManyRowsError:
            if time.monotonic() >= ends:
                raise
            continue
        rows = 0 if page is None else count_rows(page)
        if page is None or (offset and not rows):
            # After the last full page deployed services answer 404, or with no rows. But so does
            # an interrupted query, or a gateway: the row before must be the last one.
            probe = or_absent(partial(ask, limit=2, offset=offset - 1))
            if probe is None or count_rows(probe) != 1:
                raise _InconsistentError(f"it is not sure that the list ends at offset {offset}")
            return
        _check_seqno(page, seqno)
        yield page
        if rows < limit:
            return
        known = len(seen)
        of_page: list[set[object]] = [
            {row.hash for row in page.answer.transactions or ()},
            {(row.workchain, row.shard, row.seqno) for row in page.answer.blocks or ()},
        ]
        seen.update(*of_page)
        if len(seen) == known or offset >= MOST_PAGES * MOST_ROWS:
            raise _InconsistentError(f"a full page at offset {offset} has no new rows")
        # A row that comes twice must not hide another one: a page may rather begin too early.
        offset += min(limit, max(map(len, of_page)))


def _check_seqno(page: Page, seqno: int) -> None:
    """Refuse rows of another masterchain block: deployed services wrap seqnos from 2^31 on."""
    for name, key in (
        ("transactions", "mc_block_seqno"),
        ("blocks", "masterchain_block_ref.seqno"),
    ):
        for i, number in enumerate(map(attrgetter(key), getattr(page.answer, name) or ())):
            if number != seqno:
                raise _InconsistentError(
                    f"$.{name}[{i}].{key}: expected {seqno}, as asked, found {number}"
                )


def _why_absent(client: Client, seqno: int, error: RequestError) -> str:
    """Return why a 404 may be temporary; raise an error if it is not."""
    known = observed(client)
    try:
        if not known.has(seqno):
            last_shown(client, seqno)
        elif known.first is None:
            masterchain_info(client)
    except TonframesError:
        if not known.has(seqno):
            raise error from None
    if not known.has(seqno):
        last = f"the last one is {known.last}" if known.last else "it has no masterchain blocks"
        raise RequestError(
            f"masterchain block {seqno} is not indexed yet by {client.base_url}: {last}",
            status=error.status,
            retryable=True,
        ) from None
    if known.first is not None and seqno < known.first:
        raise RequestError(
            f"masterchain block {seqno} is not available from {client.base_url}: the first one is "
            f"{known.first}",
            status=error.status,
        ) from None
    return f"the service does not have it, but it has {known.last}"
