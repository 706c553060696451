"""When to send: one pace for all threads of a client, on a clock that nobody sets."""

from __future__ import annotations

import time
from threading import Event, Lock

#: Waits are cut into slices of this many seconds, so that Ctrl-C comes through on Windows, where a
#: longer wait is not interrupted, and closing a client wakes its other threads.
SLICE = 0.2
#: Requests are spaced this much wider than the limit demands, because two requests may come
#: closer together on their way than they left.
MARGIN = 1.05
#: However often the service says 429, the pace falls no further than to this part of the limit.
SLOWEST = 8.0


class StoppedError(Exception):
    """The clock was stopped while somebody was waiting."""


class Clock:
    """Monotonic seconds: setting the computer's clock neither shortens nor lengthens a wait.

    Examples
    --------
    >>> clock = Clock()
    >>> start = clock.now()
    >>> clock.sleep(0.01)
    >>> clock.now() - start >= 0.01
    True
    """

    def __init__(self) -> None:
        self._stopped = Event()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def now(self) -> float:
        """Tell the seconds since some moment in the past."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, or raise `StoppedError` as soon as `stop` is called."""
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            if self._stopped.wait(min(SLICE, left)):
                raise StoppedError

    def stop(self) -> None:
        """Wake everybody who waits, for good."""
        self._stopped.set()


class Rate:
    """Let requests through one by one, so that no second sees more of them than `rate`.

    Requests are spaced evenly, never saved up: a pause earns no burst. `slow_down`, called when
    the service says 429, doubles the spacing (to at most `SLOWEST` times); `recover`, called
    when it answers, takes a tenth of that back.

    Parameters
    ----------
    rate
        Requests per second; infinite for no limit.
    clock
        The clock that is waited on.

    Examples
    --------
    >>> pace = Rate(50, Clock())
    >>> sum(pace.take_turn() for _ in range(3)) > 2 / 50
    True
    """

    def __init__(self, rate: float, clock: Clock) -> None:
        self._clock = clock
        self._spacing = MARGIN / rate
        self._slowness = 1.0
        self._next = self._resumes = clock.now()
        self._turn = Lock()
        self._state = Lock()

    def take_turn(self) -> float:
        """Wait until a request may be sent; return the seconds this took."""
        came = self._clock.now()
        # Whoever is next waits with the lock in hand and the others queue behind. Turns given
        # out in advance would let a thread that wakes late come too close to its successor.
        with self._turn:
            while (left := max(self._next, self._resumes) - self._clock.now()) > 0:
                self._clock.sleep(left)
            now = self._clock.now()
            self._next = now + self._spacing * self._slowness
        return now - came

    def slow_down(self, seconds: float = 0.0) -> None:
        """Send more slowly from now on, and nothing at all for so many seconds."""
        with self._state:
            self._slowness = min(2 * self._slowness, SLOWEST)
            self._resumes = max(self._resumes, self._clock.now() + seconds)

    def recover(self) -> None:
        """Come a step closer to the full pace."""
        with self._state:
            self._slowness = max(0.9 * self._slowness, 1.0)
