"""Where to cut logical time, so that pages of transactions come full.

The blocks of a range say how many transactions there are, and between which logical times. So
logical time is cut where no block is open, as far as there are such places, and where the
transactions before the cut fill whole pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from tonframes.fetch.proof import Link, Shard  # noqa: TC001 - the example of `cut` uses them

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Pages of an interval at most. They are asked for at once, by offset, and only the last of them
#: is not full.
PAGES = 8


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
        """The name of the block."""
        return self.link.shard, self.link.seqno


@dataclass(frozen=True, slots=True)
class Interval:
    """Logical times from `start` to `end`, both included.

    Attributes
    ----------
    transactions
        Those of the known blocks that begin in it.
    exact
        Whether it holds just these: no known block lies partly outside.
    """

    start: int
    end: int
    transactions: int
    exact: bool


def cut(headers: Sequence[Header], start: int, limit: int) -> Interval | None:
    """Return the next interval from a logical time on, whose pages of `limit` rows come full.

    Parameters
    ----------
    headers
        Blocks that end at `start` or later, ordered by their first logical time.
    start
        Where the interval begins.
    limit
        Rows of a page.

    Returns
    -------
    None if the blocks do not fill a page.

    Examples
    --------
    >>> shard = Shard(0, 2**63)
    >>> blocks = [Header(Link(shard, n, (), 300), n, n, 10 * n, 10 * n + 5) for n in range(9)]
    >>> cut(blocks, 0, 1000)
    Interval(start=0, end=59, transactions=1800, exact=True)
    """
    total = sum(header.link.transactions for header in headers if header.start_lt >= start)
    room = min(PAGES, total // limit) * limit
    if not room:
        return None
    found = list(takewhile(lambda cut: cut.transactions <= room, _cuts(headers, start)))
    if not found:  # the first block fills more than the room
        return next(_cuts(headers, start), rest(headers, start))
    exact = [interval for interval in found if interval.exact]
    return max(exact or found, key=lambda cut: (_fill(cut.transactions, limit), cut.transactions))


def rest(headers: Sequence[Header], start: int) -> Interval | None:
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


def _fill(rows: int, limit: int) -> float:
    """Return which share of the rows of their pages some transactions fill."""
    return rows / (-(-rows // limit) * limit)
