"""Activity has hours, weekends and trends."""

from collections import Counter
from random import Random

import pytest

from chain.rhythm import DAY, HOUR, HOURS, Rhythm, fading

MONDAY = 1_774_224_000  # 2026-03-23 00:00:00Z


def drawn(rhythm, days=70, seed=1):
    return list(rhythm.moments(Random(seed), MONDAY, MONDAY + days * DAY))


def test_moments_come_in_order_and_only_in_the_period():
    moments = drawn(Rhythm(per_day=30))
    assert moments == sorted(moments)
    assert MONDAY <= moments[0] < moments[-1] < MONDAY + 70 * DAY


def test_the_same_seed_draws_the_same():
    assert drawn(Rhythm(per_day=5), seed=3) == drawn(Rhythm(per_day=5), seed=3)
    assert drawn(Rhythm(per_day=5), seed=3) != drawn(Rhythm(per_day=5), seed=4)


def test_working_days_have_as_many_as_asked_for_and_weekends_fewer():
    days = Counter((second - MONDAY) // DAY % 7 for second in drawn(Rhythm(per_day=100)))
    working = [days[day] / 10 for day in range(5)]
    assert working == pytest.approx([100] * 5, rel=0.15)
    assert (days[5] + days[6]) / 20 == pytest.approx(50, rel=0.2)


def test_hours_have_their_weights():
    hours = Counter(second % DAY // HOUR for second in drawn(Rhythm(per_day=200, weekend=1)))
    share = {hour: hours[hour] / hours.total() for hour in range(24)}
    assert share == pytest.approx(
        {hour: weight / sum(HOURS) for hour, weight in enumerate(HOURS)}, abs=0.01
    )


def test_a_fading_trend_halves():
    moments = drawn(Rhythm(per_day=400, weekend=1, trend=fading(10)))
    tens = Counter((second - MONDAY) // DAY // 10 for second in moments)
    assert [tens[n + 1] / tens[n] for n in range(3)] == pytest.approx([0.5] * 3, rel=0.15)
