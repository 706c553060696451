"""The operations of an index service, their parameters, and how many rows a page may have."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Required, TypedDict

from tonframes.client.answers import Verdict
from tonframes.client.arguments import check_whole
from tonframes.errors import RequestError, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Most rows of one page, and most addresses of one request; the service's limits.
MOST_ROWS, MOST_ADDRESSES = 1000, 1024
#: Most bytes of the addresses in a URL. By default nginx refuses request lines over 8 kB
#: (large_client_header_buffers); this leaves room for the rest of the line.
MOST_ADDRESS_BYTES = 6800
#: The last logical time that the service's columns hold.
LAST_LT = 2**63 - 1
#: Smaller pages are not tried: if these take too long, the number of rows is not the reason.
FEWEST_ROWS = 10
#: How many pages must come before larger ones are tried again: the first number after the first
#: page that did not come, and twice as many after each further one, up to the second number.
PATIENCE, MOST_PATIENCE = 8, 512


class TooManyRowsError(RequestError):
    """The service refuses so many rows, or takes too long; `Client.page_limit` has fewer."""


class Page(TypedDict, total=False):
    """The rows of a page: how many, 1 to 1000, and how many come before them.

    With `divisible`, a page that does not come in time is not asked for again: the caller can ask
    for fewer rows.
    """

    limit: int
    offset: int
    divisible: bool


class LtWindow(Page, total=False):
    """A page of a window of logical time; both bounds are included."""

    start_lt: Required[int]
    end_lt: Required[int]


class TimeWindow(Page, total=False):
    """A page of a window of unix seconds, and of logical time; all bounds are included."""

    start_utime: Required[int]
    end_utime: Required[int]
    start_lt: int
    end_lt: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the service, by the last part of its path.

    After the failures in `final` a page is not asked for again: the caller asks for fewer rows, or
    does without the operation.
    """

    name: str
    final: frozenset[Verdict] = frozenset()


# What not every service has: a 404 that the service did not write is not asked again.
_OPTIONAL = frozenset({Verdict.SLOW, Verdict.NOT_FOUND})

ACCOUNT_STATES = Operation("accountStates")
BLOCKS = Operation("blocks", final=_OPTIONAL)
MASTERCHAIN_BLOCK_SHARDS = Operation("masterchainBlockShards")
MASTERCHAIN_BLOCK_SHARD_STATE = Operation("masterchainBlockShardState")
MASTERCHAIN_INFO = Operation("masterchainInfo")
TRANSACTIONS = Operation("transactions", final=_OPTIONAL)
TRANSACTIONS_BY_MASTERCHAIN_BLOCK = Operation("transactionsByMasterchainBlock")

#: The parameters that are whole numbers, and the least and the most of each.
BOUNDS = {
    # The deployed service wraps larger ones, and answers for another block (crud_blocks.go).
    "seqno": range(1, 2**31),
    "start_utime": range(2**31),
    "end_utime": range(2**31),
    "start_lt": range(2**63),
    "end_lt": range(2**63),
    "limit": range(1, MOST_ROWS + 1),
    "offset": range(2**31),
}
#: How messages name what was asked for, by the first of the parameters that they need.
_WORDS = {
    "seqno": " of seqno {seqno}",
    "start_utime": ", utime from {start_utime} to {end_utime}",
    "start_lt": ", lt from {start_lt} to {end_lt}",
    "limit": " (limit {limit}, offset {offset})",
}


def check(parameters: Mapping[str, object]) -> None:
    """Check the parameters that are whole numbers."""
    for name in BOUNDS.keys() & parameters.keys():
        check_whole(parameters[name], name, BOUNDS[name])


def in_words(operation: Operation, parameters: Mapping[str, object]) -> str:
    """Return a question for a message."""
    words = operation.name
    for name in ("address", "account"):
        if isinstance(addresses := parameters.get(name), list):
            more = len(addresses) - 1
            words += f" of {shorten(addresses[0])}" + f" and {more} more" * (more > 0)
    texts = (text for name, text in _WORDS.items() if name in parameters)
    return words + "".join(texts).format(**parameters)


class PageLimit:
    """How many rows a page may have: what the service allows, and what it answers in time.

    The deployed service cancels a query after 3 s, so that pages of 1000 rows may fail where those
    of 250 do not. So a page that does not come halves the limit, and pages that come raise it
    again, by a quarter. What the service does not allow, `most`, is not asked for again. Threads
    share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.most = self.rows = MOST_ROWS
        self._patience = PATIENCE
        self._came = 0

    def allow(self, most: int) -> None:
        """Ask for no more rows than the service says that it allows."""
        with self._lock:
            self.most = max(1, min(self.most, most))
            self.rows = min(self.rows, self.most)

    def too_slow(self, rows: int) -> None:
        """Ask for fewer rows: a page of so many did not come in time."""
        with self._lock:
            if rows <= self.rows:
                self.rows = max(1, rows // 2)
                self._came = 0
                self._patience = min(2 * self._patience, MOST_PATIENCE)

    def came(self, rows: int) -> None:
        """Take note of a page for which so many rows were asked."""
        with self._lock:
            self._came += rows >= self.rows
            if self._came >= self._patience:
                self.rows = min(self.most, max(self.rows + 1, self.rows * 5 // 4))
                self._came = 0
