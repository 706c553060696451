"""What a client has done so far: counts, and times of all its threads."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client.rate import Clock


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

    def __add__(self, other: Statistics) -> Statistics:
        own = asdict(self)
        return Statistics(**{name: own[name] + value for name, value in asdict(other).items()})


class Counter:
    """Counts what threads do, and how long none of them has a request under way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._statistics = Statistics()
        self._waiting = self._sending = 0
        self._since = clock.now()

    @property
    def statistics(self) -> Statistics:
        """What has been done until now."""
        self._change()
        return self._statistics

    def add(self, done: Statistics) -> None:
        """Count what was done."""
        with self._lock:
            self._statistics += done

    @contextmanager
    def during(self, *, waiting: int = 0, sending: int = 0) -> Iterator[None]:
        """Count the time as that of a thread that waits, or of a request under way."""
        self._change(waiting, sending)
        try:
            yield
        finally:
            self._change(-waiting, -sending)

    def _change(self, waiting: int = 0, sending: int = 0) -> None:
        with self._lock:
            now = self._clock.now()
            if self._waiting and not self._sending:
                paused = self._statistics.seconds_paused + now - self._since
                self._statistics = replace(self._statistics, seconds_paused=paused)
            self._since = now
            self._waiting += waiting
            self._sending += sending
