"""Fetch all pages of one masterchain block, until they are consistent."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tonframes.client import MOST_ROWS, TooManyRowsError
from tonframes.errors import DecodeError, IncompleteError, RequestError, TonframesError, shorten
from tonframes.fetch.network import info_as_of
from tonframes.fetch.proof import (
    BrokenError,
    Link,
    Tips,
    imbalance,
    lack,
    links,
    tips,
    uncounted,
)
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonframes.client import Client
    from tonframes.wire.pages import Page

#: Attempts at pages that are not consistent.
ATTEMPTS = 12

#: Most pages of a masterchain block, which has a few hundred rows; with more, paging never ends.
MOST_PAGES = 100

#: First and longest wait between attempts, in seconds; it doubles each time.
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class BlockPages:
    """All pages of one masterchain block.

    Attributes
    ----------
    seqno
        Seqno of the masterchain block.
    pages
        The pages as decoded.
    links
        The blocks that it commits; None if the service shows no blocks.
    """

    seqno: int
    pages: Sequence[Page]
    links: Sequence[Link] | None

    @property
    def transactions(self) -> int:
        """Number of transactions on the pages."""
        return sum(len(page.answer.transactions or ()) for page in self.pages)


class _EndlessError(Exception):
    """Further pages have no new rows."""


def fetch_block(client: Client, seqno: int) -> BlockPages:
    """Fetch all pages of one masterchain block; repeat while they are not consistent.

    Raises
    ------
    IncompleteError
        No attempt returned consistent pages, or the service has later blocks but not this one.
    RequestError
        The service does not have the block yet, or does not answer.
    """
    fault = ""
    waited = 0.0
    for attempt in range(ATTEMPTS):
        try:
            fetched = _fetch(client, seqno)
        except _EndlessError as error:
            fault = str(error)
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            fault = _absence(client, seqno, error)
        else:
            fault = _fault(fetched)
            if not fault:
                return fetched
        waited += wait_before(client, attempt)
        if waited > client.deadline:
            break
    raise IncompleteError(
        f"masterchain block {seqno} from {client.base_url}: {fault}, in every attempt; nothing "
        "of it was kept: try again later, or another service",
        missing=[range(seqno, seqno + 1)],
    )


@dataclass(frozen=True, slots=True)
class State:
    """The last block of every shard as of a masterchain block.

    Attributes
    ----------
    first, last
        The least and the greatest unix second of these blocks; None where one has none.
    """

    tips: Tips
    first: int | None
    last: int | None


def fetch_state(client: Client, seqno: int) -> State:
    """Fetch the last block of every shard as of a masterchain block."""

    def parse(answer: bytes) -> State:
        page = pages.read(schema.BLOCKS_ANSWER, answer)
        try:
            found = tips([page], seqno)
        except BrokenError as broken:
            raise DecodeError("$.blocks", "the last block of every shard", str(broken)) from None
        times = [row.gen_utime for row in page.answer.blocks or ()]
        if None in times:
            return State(found, None, None)
        return State(found, min(map(int, times)), max(map(int, times)))

    return client.masterchain_block_shard_state(seqno, parse)


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
    return imbalance(fetched.links, (row.hash for row in rows), fetched.seqno)


def _fetch(client: Client, seqno: int) -> BlockPages:
    first = list(_pages(client, client.masterchain_block_shards, seqno, "transactions", "blocks"))
    if first[0].answer.blocks is None:
        return BlockPages(seqno, first, None)
    rest = _pages(client, client.transactions_by_masterchain_block, seqno, "transactions")
    return BlockPages(seqno, [*first, *rest], list(links(first).values()))


def _pages(client: Client, operation: Any, seqno: int, *lists: str) -> Iterator[Page]:
    """Fetch pages until one is not full; after the last page deployed services answer 404."""

    def parse(answer: bytes) -> Page:
        page = pages.read(schema.BLOCKS_ANSWER, answer)
        _check_seqno(page, seqno)
        return page

    ends = time.monotonic() + client.deadline
    offset = 0
    seen: set[object] = set()
    while True:
        limit = min(MOST_ROWS, client.page_limit.rows)
        try:
            page = operation(seqno, parse, limit=limit, offset=offset, divisible=True)
        except TooManyRowsError:
            if time.monotonic() >= ends:
                raise
            continue
        except RequestError as error:
            if error.status == HTTPStatus.NOT_FOUND and offset:
                return
            raise
        yield page
        rows = max(len(getattr(page.answer, name) or ()) for name in lists)
        if rows < limit:
            return
        known = len(seen)
        seen.update(row.hash for row in page.answer.transactions or ())
        seen.update((row.workchain, row.shard, row.seqno) for row in page.answer.blocks or ())
        if len(seen) == known or offset >= MOST_PAGES * MOST_ROWS:
            raise _EndlessError(f"a full page at offset {offset} has no new rows")
        offset += rows


def _check_seqno(page: Page, seqno: int) -> None:
    """Refuse rows of another masterchain block: deployed services wrap seqnos from 2^31 on."""
    for i, row in enumerate(page.answer.transactions or ()):
        if row.mc_block_seqno != seqno:
            path = f"$.transactions[{i}].mc_block_seqno"
            raise DecodeError(path, f"{seqno}, as asked", shorten(row.mc_block_seqno))
    for i, row in enumerate(page.answer.blocks or ()):
        if row.masterchain_block_ref.seqno != seqno:
            path = f"$.blocks[{i}].masterchain_block_ref.seqno"
            raise DecodeError(path, f"{seqno}, as asked", shorten(row.masterchain_block_ref.seqno))


def _absence(client: Client, seqno: int, error: RequestError) -> str:
    """Return why a 404 may be temporary; raise an error if it is not.

    A service indexes several blocks at the same time: it may have later ones before this one.
    """
    try:
        info = info_as_of(client, seqno)
    except TonframesError:
        raise error from None
    if seqno > info.last.seqno:
        raise RequestError(
            f"masterchain block {seqno} is not indexed yet by {client.base_url}: the last one is "
            f"{info.last.seqno}",
            status=error.status,
            retryable=True,
        ) from None
    if info.first is not None and seqno < info.first.seqno:
        raise RequestError(
            f"masterchain block {seqno} is not available from {client.base_url}: the first one is "
            f"{info.first.seqno}",
            status=error.status,
        ) from None
    return f"the service does not have it, but it has {info.last.seqno}"
