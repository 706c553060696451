"""Moments as arguments: every form gives the same moment, anything else one clear error."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonframes.moments import parse_moment

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001
)
def test_a_datetime_and_its_text_are_the_same_moment(moment):
    assert parse_moment(moment, "time") == moment
    assert parse_moment(moment.isoformat(), "time") == moment
    assert parse_moment(pd.Timestamp(moment), "time") == moment
    assert parse_moment(moment, "time").tzinfo is UTC


def test_text_without_a_time_zone_is_in_utc():
    expected = datetime(2026, 5, 28, 20, 28, tzinfo=UTC)
    for text in ("2026-05-28T20:28", "2026-05-28 20:28:00", "2026-05-28T20:28Z"):
        assert parse_moment(text, "time") == expected
    assert parse_moment("2026-05-28", "time") == expected.replace(hour=0, minute=0)


def test_nanoseconds_are_dropped():
    stamp = pd.Timestamp("2026-05-28T20:28:00.123456789Z")
    assert parse_moment(stamp, "time").microsecond == 123456


@pytest.mark.parametrize(
    ("moment", "error", "match"),
    [
        ("soon", ValueError, r"as_of is a datetime .*, not 'soon'$"),
        ("", ValueError, "not ''$"),
        ("2026-13-01", ValueError, "not '2026-13-01'$"),
        ("9" * 500, ValueError, "…'$"),
        (pd.NaT, ValueError, "not NaT$"),
        (datetime(2026, 5, 28), ValueError, "as_of has no time zone"),  # noqa: DTZ001
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), ValueError, "not datetime"),
        (1_780_000_000, TypeError, "not 1780000000$"),
        (date(2026, 5, 28), TypeError, "not datetime.date"),
        (None, TypeError, "not None$"),
    ],
)
def test_other_values_are_refused(moment, error, match):
    with pytest.raises(error, match=match):
        parse_moment(moment, "as_of")
