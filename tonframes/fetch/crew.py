"""Threads for requests: as many as are at work at once, none that anybody waits for."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from tonframes.client import until

if TYPE_CHECKING:
    from collections.abc import Callable


class Crew:
    """Runs calls in threads, each as soon as it is given.

    The threads are daemons, unlike those of an executor: whoever interrupts a fetch, or ends the
    program, does not wait for the requests that are under way. When the crew is closed, they end
    within a fifth of a second, and no further ones are sent.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._closed = Event()
        self._threads = self._idle = 0

    def run(self, call: Callable[[], None]) -> None:
        """Run a call, which must not raise, in a thread that is idle or a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                Thread(target=self._work, name="tonframes", daemon=True).start()
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
