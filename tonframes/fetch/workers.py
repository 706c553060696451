"""Who does the work of a fetch: threads for requests, and processes for tasks.

loky starts the processes: unlike `multiprocessing`, it does not run the user's script in each of
them, so a script needs no `if __name__ == "__main__"`, and a notebook works.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakSet

from tonframes.client import until
from tonframes.errors import StoreError
from tonframes.fetch.network import observed
from tonframes.store import store_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor
    from multiprocessing.synchronize import Semaphore
    from pathlib import Path
    from types import FrameType

    from tonframes.client import Client, ClientSettings, Recent, Statistics
    from tonframes.errors import TonframesError
    from tonframes.fetch.network import Known
    from tonframes.store import AnyStore

#: Seconds between two looks of a worker at whether the process that it works for is alive.
LOOK = 0.5


class Crew:
    """Runs calls in threads, each as soon as it is given.

    The threads are daemons, unlike those of an executor: whoever interrupts a fetch, or ends the
    program, does not wait for the requests that are under way. When the crew is closed, they end
    within a fifth of a second, and no further ones are sent.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._threads = self._idle = 0

    def run(self, call: Callable[[], None]) -> None:
        """Run a call, which must not raise, in a thread that is idle or a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, name="tonframes", daemon=True).start()
        self._calls.put(call)

    def close(self) -> None:
        """End the threads, and the requests that they wait for."""
        self._closed.set()
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        with until(self._closed):
            while (call := self._calls.get()) is not None:
                call()
                with self._lock:
                    self._idle += 1


# ── tasks, as a worker of an executor does them: in a thread, a process, or elsewhere ────────────


class Result(Protocol):
    @property
    def error(self) -> TonframesError | None: ...

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it, which the terminal sends to all its processes."""


R_co = TypeVar("R_co", bound=Result, covariant=True)


class Task(Protocol[R_co]):
    """A share of a fetch, which a worker can do; it can be pickled."""

    @property
    def name(self) -> str: ...

    @property
    def missing(self) -> tuple[object, ...]: ...

    def __call__(self, client: Client) -> R_co: ...


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of another process."""

    text: str
    kind: type[Warning]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Report(Generic[R_co]):
    """What a worker tells after a task: its result, and what the client did and learned."""

    result: R_co
    statistics: Statistics
    recent: Recent
    known: Known
    warned: tuple[Warned, ...]


#: The clients of the tasks of this process.
_running: WeakSet[Client] = WeakSet()
_ended = threading.Event()


def work(task: Task[R_co], settings: ClientSettings, known: Known) -> Report[R_co]:
    """Do a task with a client of its own."""
    with _recorded_warnings() as recorded:
        with settings.client() as client:
            observed(client).learn(known)
            _running.add(client)
            if _ended.is_set():
                client.close()
            result = task(client)
        warned = tuple(
            Warned(str(one.message), one.category, one.filename, one.lineno) for one in recorded
        )
        return Report(result, client.statistics, client.recent, observed(client).known, warned)


@contextmanager
def _recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Take the warnings of a process that does one task at a time; nobody sees what it prints."""
    is_alone = threading.current_thread() is threading.main_thread()
    if not is_alone or multiprocessing.parent_process() is None:
        yield []
        return
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        yield recorded


def open_store(path: Path, network: str | None) -> AnyStore:
    """Return the store that tasks were made for, as a worker sees it."""
    store = store_at(path)
    if not path.exists() or store.network != network:
        raise StoreError(
            f"a worker does not see the store {path} of the network {network}: all workers must "
            "have it at the same path, on a file system that they share",
            path=path,
        )
    return store


# ── processes of our own ─────────────────────────────────────────────────────────────────────────


def cores() -> int:
    """Return how many cores this process may use: by its affinity, and by the limits of Linux."""
    from loky import cpu_count  # noqa: PLC0415 - small fetches do not need it

    return int(cpu_count())


def processes_pay(client: Client) -> bool:
    """Whether a large fetch is faster in processes than in threads.

    It is if decoding takes the time, which holds the interpreter's lock, and not the rate limit.
    A worker of something else starts no processes: a daemon must not, and a cluster counts cores.
    """
    return (
        client.requests_per_second == inf
        and multiprocessing.parent_process() is None
        and cores() > 1
    )


def is_daemon() -> bool:
    """Whether this process must not start others."""
    return multiprocessing.current_process().daemon


class Processes:
    """Workers that end with this process, and that Ctrl-C in a terminal does not reach."""

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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(stop, parent), daemon=True).start()


def _watch(stop: Semaphore, parent: int) -> None:
    """Wait until the tasks are to end; end this process if the one that it works for is gone."""
    while not stop.acquire(timeout=LOOK):
        if _is_orphan(parent):
            os._exit(1)
    # The tasks commit what is proven, and ask for nothing more.
    _ended.set()
    for client in list(_running):
        client.close()
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
    frames: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: frames.append(frame))
    try:
        yield
    finally:
        # None is a handler that was not installed from Python, and cannot be put back.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
        if frames and callable(before):
            before(signal.SIGINT, frames[0])


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that do not get Ctrl-C, not even before their first line of Python runs.

    The terminal sends it to all its processes. A process has the signal mask of the thread that
    starts it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 - Windows has none

    # loky starts the resource tracker of `multiprocessing` if it does not run. Python 3.11 then
    # ends with SIGINT unblocked (`ResourceTracker.ensure_running`), so it is started before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
