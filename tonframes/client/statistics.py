"""What a client has done so far: counts, and times of all its threads."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client.rate import Clock

#: Share of the newest attempt in the average of the seconds that attempts take.
NEWEST = 0.1


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a client has done so far.

    Attributes
    ----------
    requests
        Requests sent.
    retries
        Requests among them that repeated another one.
    seconds_paced
        Seconds waited for the rate limit, summed over threads.
    seconds_waited
        Seconds waited after failures, summed over threads.
    seconds_paused
        Seconds in which threads waited, for either, and no request was under way.
    """

    requests: int = 0
    retries: int = 0
    seconds_paced: float = 0.0
    seconds_waited: float = 0.0
    seconds_paused: float = 0.0


class Counter:
    """Counts what threads do.

    Attributes
    ----------
    seconds
        What an attempt takes on average, from its turn to its value; None before the first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._statistics = Statistics()
        self._waiting = self._sending = 0
        self._since = clock.now()
        self.seconds: float | None = None

    @property
    def statistics(self) -> Statistics:
        """What has been done until now."""
        with self._lock:
            self._advance()
            return self._statistics

    def count(self, **more: float) -> None:
        """Add to counts and seconds, by the names of `Statistics`."""
        with self._lock:
            sums = {name: getattr(self._statistics, name) + value for name, value in more.items()}
            self._statistics = replace(self._statistics, **sums)

    def take_over(self, done: Statistics) -> None:
        """Add what was done elsewhere."""
        with self._lock:
            sums = {
                f.name: getattr(self._statistics, f.name) + getattr(done, f.name)
                for f in fields(Statistics)
            }
            self._statistics = Statistics(**sums)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time as that of a thread that waits."""
        self._change(waiting=1)
        try:
            yield
        finally:
            self._change(waiting=-1)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Count the time as that of a request under way."""
        self._change(sending=1)
        began = self._clock.now()
        try:
            yield
        finally:
            self._change(sending=-1)
            took = self._clock.now() - began
            before = self.seconds
            self.seconds = took if before is None else before + NEWEST * (took - before)

    def _change(self, *, waiting: int = 0, sending: int = 0) -> None:
        with self._lock:
            self._advance()
            self._waiting += waiting
            self._sending += sending

    def _advance(self) -> None:
        now = self._clock.now()
        if self._waiting and not self._sending:
            paused = self._statistics.seconds_paused + now - self._since
            self._statistics = replace(self._statistics, seconds_paused=paused)
        self._since = now
