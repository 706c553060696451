"""Hours, days, weeks and months in UTC, computed from unix seconds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis import engines
from tonframes.wire.codec import FIRST, LAST

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

_DAY = 86_400

#: Length in seconds of the periods that always have the same length.
LENGTHS = {"hour": 3600, "day": _DAY, "week": 7 * _DAY}
#: What `by` may name in addition to columns. A week begins on Monday.
PERIODS = (*LENGTHS, "month")


def with_period(frame: Frame, period: str, seconds: str) -> Frame:
    """Add the start, in UTC, of the period of a unix second; null outside the years 1 to 9999."""
    return engines.by_row(frame, partial(_with_period, period=period, seconds=seconds))


def _with_period(frame: Frame, period: str, seconds: str) -> Frame:
    # With integers only: engines truncate timestamps in different time zones.
    second = nw.col(seconds)
    sane = (second >= FIRST) & (second <= LAST)
    # Seconds since the first moment, a Monday at midnight, are never negative. On DuckDB, old
    # versions that are allowed round negative quotients up.
    frame = frame.with_columns(nw.when(sane).then(second - FIRST).alias(period))
    since = nw.col(period)
    if period == "month":
        return _moments(_with_month(frame, since // _DAY), period)
    length = LENGTHS[period]
    return _moments(frame.with_columns((since // length * length + FIRST).alias(period)), period)


def _with_month(frame: Frame, day: nw.Expr) -> Frame:
    """Add the first second of the month that contains a day, counted from 0001-01-01.

    Years are counted from March, so that a leap day is the last of its year: civil_from_days of
    https://howardhinnant.github.io/date_algorithms.html.
    """
    # Columns, because most engines evaluate an expression as often as it is written.
    days, era, year, month = (nw.col(f"month_{name}") for name in ("days", "era", "year", "march"))
    frame = frame.with_columns(month_days=day + 306)  # since 0000-03-01
    frame = frame.with_columns(month_era=days - days // 146_097 * 146_097)  # day of the era
    leap_days = era // 1460 - era // 36_524 + era // 146_096
    frame = frame.with_columns(month_year=(era - leap_days) // 365)
    frame = frame.with_columns(month_year=era - (365 * year + year // 4 - year // 100))  # its day
    frame = frame.with_columns(month_march=(5 * year + 2) // 153)  # months since March
    start = days - 306 - (year - (153 * month + 2) // 5)
    frame = frame.with_columns(month=start * _DAY + FIRST)
    return frame.drop("month_days", "month_era", "month_year", "month_march")


def _moments(frame: Frame, name: str) -> Frame:
    """Turn a column of unix seconds into moments."""
    native = frame.to_native()
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            others = [f'"{other}"' for other in native.columns if other != name]
            made = native.project(", ".join([*others, f'to_timestamp("{name}") AS "{name}"']))
            return engines.lazy(made)
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

            return engines.lazy(native.withColumn(name, functions.timestamp_seconds(name)))
    return frame.with_columns((nw.col(name) * 1_000_000).cast(nw.Datetime("us", "UTC")))


def with_seconds(frame: Frame, column: str, name: str) -> Frame:
    """Add the unix seconds of a column of unix seconds, moments (without a zone: UTC) or dates."""
    return engines.by_row(frame, partial(_with_seconds, column=column, name=name))


def _with_seconds(frame: Frame, column: str, name: str) -> Frame:
    native: Any = frame.to_native()
    dtype = frame.collect_schema()[column]
    if dtype.is_integer():
        return frame.with_columns(nw.col(column).cast(nw.Int64).alias(name))
    zoned = isinstance(dtype, nw.Datetime) and dtype.time_zone is not None
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            moment = engines.quoted(column) if zoned else f"{engines.quoted(column)}::TIMESTAMP"
            return engines.lazy(native.project(f'*, epoch_us({moment}) // 1000000 AS "{name}"'))
        case nw.Implementation.PYSPARK | nw.Implementation.PYSPARK_CONNECT:
            from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

            # Spark would read moments without a zone in the zone of the session.
            moment = f"CAST(`{column}` AS TIMESTAMP_NTZ)"
            since = functions.expr(f"timestampdiff(SECOND, TIMESTAMP_NTZ'1970-01-01', {moment})")
            seconds = functions.unix_seconds(column) if zoned else since
            return engines.lazy(native.withColumn(name, seconds))
    moments = nw.col(column).cast(nw.Datetime("us")) if dtype == nw.Date else nw.col(column)
    return frame.with_columns((moments.dt.timestamp("us") // 1_000_000).alias(name))
