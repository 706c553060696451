"""When people act: by the hour, by the day of the week, and over weeks."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

HOUR, DAY = 3_600, 86_400
#: 1 January 1970 was a Thursday, day 3 of its week.
FIRST_WEEKDAY, WEEK, SATURDAY = 3, 7, 5
#: How much happens in each hour of a day, UTC: least before dawn in Europe, most in its afternoon,
#: when America is awake too.
HOURS = (14, 9, 6, 5, 5, 7, 12, 22, 36, 48, 55, 57, 54, 60, 68, 74, 76, 72, 64, 58, 52, 44, 32, 22)


def steady(_day: float) -> float:
    """Return the same for every day."""
    return 1.0


def fading(half_life: float) -> Callable[[float], float]:
    """Return a trend that halves every so many days."""
    return lambda day: 0.5 ** (day / half_life)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often something happens, and when."""

    per_day: float
    weekend: float = 0.5
    hours: tuple[int, ...] = HOURS
    trend: Callable[[float], float] = steady

    def moments(self, rng: Random, start: int, stop: int) -> Iterator[int]:
        """Draw unix seconds from `start` on and before `stop`, in order, as a Poisson process.

        Both are multiples of an hour.
        """
        for hour in range(start, stop, HOUR):
            share = self.hours[hour % DAY // HOUR] / sum(self.hours)
            weekday = (hour // DAY + FIRST_WEEKDAY) % WEEK
            week = self.weekend if weekday >= SATURDAY else 1.0
            expected = self.per_day * share * week * self.trend((hour - start) / DAY)
            yield from sorted(hour + rng.randrange(HOUR) for _ in range(_poisson(rng, expected)))


def _poisson(rng: Random, expected: float) -> int:
    """Draw how often something happens that is expected so often (Knuth's method)."""
    limit, product, count = exp(-expected), rng.random(), 0
    while product > limit:
        product, count = product * rng.random(), count + 1
    return count
