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


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-05", "2026-05-01T00:00"),
        ("2026-05-02", "2026-05-02T00:00"),
        ("2026-05-02T10", "2026-05-02T10:00"),
        ("2026-05-02T10:00:00.5Z", "2026-05-02T10:00:00.500"),
        ("2026-05-02 10:00+02:00", "2026-05-02T08:00"),
        ("2026-05-02 10:00 -0200", "2026-05-02T12:00"),
        ("2026-05-02T10:00+02", "2026-05-02T08:00"),
    ],
)
def test_text_is_in_the_forms_of_iso_8601(text, iso):
    assert parse_moment(text, "since") == datetime.fromisoformat(iso).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("01.05.2026", "1.5.2026", "05/01/2026", "2026/05/01", "2026-5-1", "May 2026", "10:00"),
        *("now", "20260501", "2026", "2026-05-02T10:00 CET", "２０２６-05-02", "2026-05-02\n"),  # noqa: RUF001
    ],
)
def test_text_in_other_forms_is_refused_with_an_example(text):
    with pytest.raises(
        ValueError, match=r"since is .* such as 2026-05-28 or 2026-05-28T20:28, not"
    ):
        parse_moment(text, "since")


def test_a_date_is_its_midnight_in_utc():
    midnight = datetime(2026, 5, 1, tzinfo=UTC)
    assert (
        parse_moment(date(2026, 5, 1), "since") == midnight == parse_moment("2026-05-01", "since")
    )


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
        (datetime(2026, 5, 28), ValueError, r'no time zone.* pd.Timestamp\(.*tz="UTC"\)'),  # noqa: DTZ001
        (pd.Timestamp("2026-05-01"), ValueError, r'\("2026-05-01 00:00", tz="UTC"\)'),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), ValueError, "not datetime"),
        (1_780_000_000, TypeError, "not 1780000000$"),
        (None, TypeError, "not None$"),
    ],
)
def test_other_values_are_refused(moment, error, match):
    with pytest.raises(error, match=match):
        parse_moment(moment, "as_of")
