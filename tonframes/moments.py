"""Read moments that users pass as arguments."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

import pandas as pd

from tonframes.errors import shorten

#: ISO 8601 with hyphens and colons. pandas reads other forms too, and 01.05.2026 as 5 January.
_ISO = re.compile(
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?)?", re.ASCII
)


def parse_moment(moment: datetime | date | str, name: str) -> datetime:
    """Return a moment in UTC, to the microsecond; `name` is that of the argument, for errors.

    A date begins at midnight in UTC, and text without a time zone is in UTC. A datetime without a
    time zone is refused, and so are numbers, because their unit is unknown.
    """
    expected = (
        f"{name} is a datetime with a time zone, a date, or text in the form of ISO 8601 such "
        f"as 2026-05-28 or 2026-05-28T20:28, not {shorten(moment)}"
    )
    if not isinstance(moment, date | str):  # a datetime is a date
        raise TypeError(expected)
    if isinstance(moment, str) and not _ISO.fullmatch(moment):
        raise ValueError(expected)
    if isinstance(moment, date) and not isinstance(moment, datetime):
        return datetime.combine(moment, time(), UTC)
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
        raise ValueError(
            f"{name} has no time zone: {shorten(moment)}. Pass one with a time zone, such as "
            f'pd.Timestamp("{read:%Y-%m-%d %H:%M}", tz="UTC"), or text, which is in UTC'
        )
    try:
        return read.astimezone(UTC)
    except OverflowError:  # a year before 1 or after 9999
        raise ValueError(expected) from None
