"""Processes of our own for a fetch: when they pay, how they begin, and how they end.

loky starts them: unlike `multiprocessing`, it does not run the user's script in each of them, so a
script needs no `if __name__ == "__main__"`, and a notebook works.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

from tonframes.fetch.work import end_work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from multiprocessing.synchronize import Semaphore
    from types import FrameType

    from tonframes.client import Client

#: Seconds between two looks of a worker at whether the process that it works for is alive.
LOOK = 0.5


def cores() -> int:
    """Return how many cores this process may use: by its affinity, and by the limits of Linux."""
    from loky import cpu_count  # noqa: PLC0415 - small fetches do not need it

    return int(cpu_count())


def processes_pay(client: Client) -> bool:
    """Return whether a large fetch is faster in processes than in threads.

    It is if decoding takes the time, which holds the interpreter's lock, and not the rate limit.
    A worker of something else starts no processes: a daemon must not, and a cluster counts cores.
    """
    return (
        client.requests_per_second == inf
        and multiprocessing.parent_process() is None
        and cores() > 1
    )


def is_daemon() -> bool:
    """Return whether this process must not start others."""
    return multiprocessing.current_process().daemon


class Processes:
    """Workers that end with this process, and that Ctrl-C in a terminal does not reach.

    Parameters
    ----------
    count
        How many.
    """

    def __init__(self, count: int) -> None:
        from loky import ProcessPoolExecutor  # noqa: PLC0415 - as above
        from loky.backend import get_context  # noqa: PLC0415

        # A semaphore, because a worker that is killed cannot hold one, as it could a lock.
        self._stop: Semaphore = get_context("loky").Semaphore(0)
        self._count = count
        self.executor: Executor = ProcessPoolExecutor(
            count, initializer=_begin, initargs=(self._stop, os.getpid())
        )

    def start(self) -> None:
        """Start the workers."""
        with _interrupts_later(), _without_interrupts():
            self.executor.submit(os.getpid)

    def stop(self) -> None:
        """End the tasks under way; they commit what is proven."""
        for _ in range(self._count):
            self._stop.release()

    def close(self, *, kill: bool) -> None:
        """End the workers, and wait until they are gone."""
        with _interrupts_later():
            self.executor.shutdown(wait=True, kill_workers=kill)  # type: ignore[call-arg]


def _begin(stop: Semaphore, parent: int) -> None:
    """Begin a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(stop, parent), daemon=True).start()


def _watch(stop: Semaphore, parent: int) -> None:
    """Wait until the tasks are to end; end this process if the one that it works for is gone."""
    while not stop.acquire(timeout=LOOK):
        if _is_orphan(parent):
            os._exit(1)
    end_work()
    while not _is_orphan(parent):
        threading.Event().wait(LOOK)
    os._exit(1)


def _is_orphan(parent: int) -> bool:
    if sys.platform == "win32":  # there a process keeps the number of its parent
        process = multiprocessing.parent_process()
        return process is not None and not process.is_alive()
    return os.getppid() != parent


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Let Ctrl-C have its effect at the end of the block: within it, processes would be left.

    Only the main thread is interrupted by it. Masking the signal is not enough: another thread
    may get it, and the main thread handles it all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        # None is a handler that was not installed from Python, and cannot be put back.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
        if came and callable(before):
            before(signal.SIGINT, came[0])


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that do not get Ctrl-C, not even before their first line of Python runs.

    The terminal sends it to all its processes. A process has the signal mask of the thread that
    starts it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
