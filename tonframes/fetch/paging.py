"""Pages of a window, with as many rows as the service manages."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from tonframes.client import MOST_ROWS, TooManyRowsError
from tonframes.fetch import headers

if TYPE_CHECKING:
    from tonframes.client import Client
    from tonframes.fetch.headers import BlockPage

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class _Ask(Protocol[P_co]):
    """Asks for a page of so many rows."""

    def __call__(self, *, limit: int) -> P_co: ...


def read_page(client: Client, ask: _Ask[P], most: int = MOST_ROWS) -> tuple[P, int]:
    """Return a page of as many rows as the service manages, and how many were asked for."""
    ends = time.monotonic() + client.deadline
    while True:
        limit = min(most, client.page_limit.rows)
        try:
            return ask(limit=limit), limit
        except TooManyRowsError:
            if time.monotonic() >= ends:
                raise


def rest_of_second(
    client: Client, second: int, page: BlockPage, low: int, high: int
) -> list[BlockPage]:
    """Read the blocks of a second that has more than a page of them, by logical times.

    Parameters
    ----------
    page
        The blocks between two logical times that have come.
    low, high
        The logical times.
    """
    parse = headers.reading(second, second)
    ask = partial(client.blocks, parse, start_utime=second, end_utime=second)
    read: list[BlockPage] = []
    if low == high:
        offset = len(page.headers)
        while page.headers:
            page, _ = read_page(client, partial(ask, start_lt=low, end_lt=high, offset=offset))
            offset += len(page.headers)
            read.append(page)
        return read
    lts = sorted(header.start_lt for header in page.headers)
    middle = max(low, min(lts[len(lts) // 2], high - 1))
    for first, last in ((low, middle), (middle + 1, high)):
        half, limit = read_page(client, partial(ask, start_lt=first, end_lt=last))
        read.append(half)
        if len(half.headers) >= limit:
            read += rest_of_second(client, second, half, first, last)
    return read
