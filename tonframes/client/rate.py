"""Limit the rate of requests: one limit for all threads of a client, on a monotonic clock."""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A wait is split into slices of this many seconds. Ctrl-C does not interrupt a wait on Windows,
#: so it takes effect between two slices; the same holds for closing a client in another thread.
SLICE = 0.2
#: Requests are spaced this much wider than the limit requires. The difference makes up for turns
#: that come late.
MARGIN = 1.025
#: As many requests as a second may have are spread over at least so many seconds, because two
#: requests may arrive closer together than they were sent.
SECOND = 1.015
#: Turns that come late by up to so many seconds, because a thread woke up late, are made up for.
LATE = 0.1
#: Requests of a second that are remembered at most.
MOST = 10_000
#: Seconds between two looks at whether a request was sent, while none of the last second was.
LOOK = 0.005
#: Repeated answers of 429 widen the spacing to at most this many times that of the limit.
SLOWEST = 8.0


class StoppedError(Exception):
    """The clock was stopped, or the work of this thread was given up, during a wait."""


_given_up: ContextVar[Event | None] = ContextVar("given up, when set", default=None)


@contextmanager
def until(given_up: Event) -> Iterator[None]:
    """End waits and requests of this context, and send no more, as soon as an event is set."""
    token = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(token)


class Clock:
    """Monotonic seconds: changing the computer's clock does not change a wait."""

    def __init__(self) -> None:
        self._stopped = Event()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called, or the work of this thread was given up."""
        given_up = _given_up.get()
        return self._stopped.is_set() or (given_up is not None and given_up.is_set())

    def now(self) -> float:
        """Return the seconds since an arbitrary moment in the past."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, or raise `StoppedError` as soon as `stopped` is true."""
        ends = self.now() + seconds
        while not self.stopped and (left := ends - self.now()) > 0:
            self._stopped.wait(min(SLICE, left))
        if self.stopped:
            raise StoppedError

    def stop(self) -> None:
        """End all waits, now and from now on."""
        self._stopped.set()


@dataclass(frozen=True, slots=True)
class Recent:
    """What a rate limit must know of the requests before, to be continued in another process.

    It has no moments, but seconds until now: the clocks of two computers differ.

    Attributes
    ----------
    sent
        How long ago each of the newest requests was sent, in seconds.
    slowness
        How many times as wide as the limit requires requests are spaced, after answers of 429.
    pause
        Seconds in which nothing may be sent.
    """

    sent: tuple[float, ...] = ()
    slowness: float = 1.0
    pause: float = 0.0

    def after(self, seconds: float) -> Recent:
        """Return what is to be known some seconds later."""
        sent = tuple(age + seconds for age in self.sent)
        return Recent(sent, self.slowness, max(0.0, self.pause - seconds))


class Rate:
    """Let requests through one by one, evenly spaced, and at most `rate` in any second.

    A request counts from its turn until a second after it was sent, so it does not matter how long
    it takes to connect. A 429 doubles the spacing, and a success reduces it again.
    """

    def __init__(self, rate: float, clock: Clock) -> None:
        self._clock = clock
        # As many as are allowed in a second, or 1 if that is not even one.
        self._most = max(1, int(min(rate, MOST)))
        self._spacing, self._second = MARGIN / rate, SECOND * self._most / rate
        self._unsent = 0
        self._sent: deque[float] = deque()
        self._slowness = 1.0
        self._due = self._resumes = clock.now()
        self._turn, self._state = Lock(), Lock()

    def take_turn(self) -> Turn:
        """Wait until a request may be sent."""
        asked = self._clock.now()
        # The next thread waits while it holds the lock; the others queue for the lock. If turns
        # were assigned in advance, a thread that wakes up late could send too close to the next.
        with self._turn:
            if self._clock.stopped:
                raise StoppedError
            while (left := self._left()) > 0:
                self._clock.sleep(left)
            with self._state:
                now = self._clock.now()
                self._unsent += 1
                self._due = max(self._due, now - LATE) + self._spacing * self._slowness
        return Turn(self, now - asked)

    def _left(self) -> float:
        """Return the seconds to wait until the next request may be sent, or until the next look."""
        with self._state:
            now = self._clock.now()
            while self._sent and self._sent[0] + self._second <= now:
                self._sent.popleft()
            left = max(self._due, self._resumes) - now
            if self._unsent + len(self._sent) < self._most:
                return left
            return max(left, self._sent[0] + self._second - now if self._sent else LOOK)

    def note_sent(self) -> None:
        """Note that a request that had its turn was sent, now at the latest."""
        with self._state:
            self._unsent -= 1
            self._sent.append(self._clock.now())

    def slow_down(self, seconds: float = 0.0) -> None:
        """Double the spacing, and send nothing for a number of seconds."""
        with self._state:
            self._slowness = min(2 * self._slowness, SLOWEST)
            self._resumes = max(self._resumes, self._clock.now() + seconds)

    def recover(self) -> None:
        """Reduce the spacing by a tenth, down to that of the limit."""
        with self._state:
            self._slowness = max(0.9 * self._slowness, 1.0)

    @property
    def recent(self) -> Recent:
        """What must be known to continue this limit elsewhere."""
        with self._state:
            now = self._clock.now()
            ages = [now - moment for moment in self._sent if now - moment < self._second]
            # What has its turn may be sent at any moment.
            sent = (*ages, *[0.0] * self._unsent)
            return Recent(sent, self._slowness, max(0.0, self._resumes - now))

    def take_over(self, recent: Recent) -> None:
        """Count requests that were sent elsewhere."""
        with self._state:
            now = self._clock.now()
            self._sent = deque(sorted([*self._sent, *(now - age for age in recent.sent)]))
            self._slowness = recent.slowness
            self._resumes = max(self._resumes, now + recent.pause)


@dataclass(slots=True)
class Turn:
    """Permission to send one request, and the seconds waited for it."""

    rate: Rate
    seconds: float
    is_sent: bool = False

    def sent(self) -> None:
        """Note that the request was sent; only the first call counts."""
        if not self.is_sent:
            self.is_sent = True
            self.rate.note_sent()
