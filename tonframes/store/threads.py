"""Files are read in threads, a few at a time: pyarrow reads without the lock of the interpreter."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")

#: How many results of each thread may wait until they are used.
_AHEAD = 4


def in_threads(
    read: Callable[[T], R], items: Sequence[T], threads: int | None = None
) -> Iterator[R]:
    """Call a function for each item, and list the results in the order of the items.

    Few results are in memory that the caller has not used yet. After an error or Ctrl-C nothing
    new is begun.

    Parameters
    ----------
    threads
        None is as many as pyarrow uses.
    """
    threads = min(threads or pa.cpu_count(), len(items))
    if threads < 2:  # noqa: PLR2004 - with one item a thread is of no use
        yield from map(read, items)
        return
    pool = ThreadPoolExecutor(threads)
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(read, item))
            if len(begun) > threads * _AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
