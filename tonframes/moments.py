"""Read moments that users pass as arguments."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd

from tonframes.errors import shorten


def parse_moment(moment: datetime | str, name: str) -> datetime:
    """Return a moment in UTC, to the microsecond.

    Parameters
    ----------
    moment
        A datetime with a time zone, or text that pandas reads; text without a time zone is in UTC.
    name
        Name of the argument, for error messages.

    Raises
    ------
    TypeError
        The moment is neither a datetime nor text. Numbers are refused: their unit is unknown.
    ValueError
        The text is not a date or time, or the datetime has no time zone.

    Examples
    --------
    >>> parse_moment("2026-05-28 20:28", "as_of").isoformat()
    '2026-05-28T20:28:00+00:00'
    >>> parse_moment("2026-05-28T20:28+02:00", "as_of").isoformat()
    '2026-05-28T18:28:00+00:00'
    """
    expected = (
        f"{name} is a datetime with a time zone, or text such as 2026-05-28T20:28, not "
        f"{shorten(moment)}"
    )
    if not isinstance(moment, datetime | str):
        raise TypeError(expected)
    if isinstance(moment, str) and not moment.isascii():  # pandas reads the digits of every script
        raise ValueError(expected)
    try:
        stamp = pd.Timestamp(moment)
        if isinstance(moment, str) and stamp.tzinfo is None:
            stamp = stamp.tz_localize("UTC")
        read = stamp.to_pydatetime(warn=False)
    except (ValueError, OverflowError):
        raise ValueError(expected) from None
    if pd.isna(read):
        raise ValueError(expected)
    if read.tzinfo is None:
        raise ValueError(f"{name} has no time zone: {shorten(moment)}")
    try:
        return read.astimezone(UTC)
    except OverflowError:  # a year before 1 or after 9999
        raise ValueError(expected) from None
