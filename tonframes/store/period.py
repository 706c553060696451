"""The period of a history: from one moment, or logical time, until another."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import shorten
from tonframes.moments import parse_moment

if TYPE_CHECKING:
    from typing import Self

#: A moment, or a logical time: an int, or text such as "lt:1777593600".
Bound = datetime | date | str | int

Unit = Literal["lt", "utime"]

#: The column of transactions with the numbers of a unit, and the end of its numbers.
COLUMNS = {"lt": "lt", "utime": "now"}
ENDS = {"lt": 2**63 - 1, "utime": 2**31 - 1}

#: Before the first block of mainnet (2019-11-15), in unix seconds.
_FIRST_YEAR = 1_546_300_800

_EPOCH = datetime.fromtimestamp(0, tz=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """Logical times, or unix seconds, from `start` on and before `stop`.

    Attributes
    ----------
    unit
        "lt", or "utime" for unix seconds.
    start
        The first number.
    stop
        The number after the last one; None if the period has no end.
    """

    unit: Unit = "lt"
    start: int = 0
    stop: int | None = None

    @classmethod
    def parse(cls, since: Bound | None, until: Bound | None) -> Self:
        """Check the bounds that a user passes, and return the period between them.

        An int that reads as a moment is refused: a unix time from 2019 to 2038 in seconds, milli-,
        micro- or nanoseconds, or a year, month or date from 2019 to 2099, such as 2026, 202605 or
        20260501. As logical times, which grow by about 10^6 a masterchain block, they are of the
        first hours or months of a network, or later than any that exists (mainnet had about 10^14
        in August 2026). Text such as "lt:1777593600" is always a logical time.

        Examples
        --------
        >>> Period.parse("2026-05-28T20:26", None)
        Period(unit='utime', start=1779999960, stop=None)
        >>> Period.parse(65_000_000_000_000, None) == Period.parse("lt:65000000000000", None)
        True
        >>> Period.parse(20260501, None)
        Traceback (most recent call last):
        ValueError: since is 20260501, which looks like a moment: write the moment as ...
        >>> Period.parse(7, 7)
        Traceback (most recent call last):
        ValueError: since is not before until, which is not included: 7 and 7
        """
        bounds = {"since": since, "until": until}
        numbers = {n: _number(bound, n) for n, bound in bounds.items() if bound is not None}
        units = {unit for unit, _ in numbers.values()}
        if len(units) > 1:
            raise ValueError(
                "since and until are either both moments or both logical times, not "
                f"{shorten(since)} and {shorten(until)}"
            )
        unit: Unit = "utime" if units == {"utime"} else "lt"
        start = numbers["since"][1] if "since" in numbers else 0
        stop = numbers["until"][1] if "until" in numbers else None
        if stop is not None and start >= stop:
            raise ValueError(
                f"since is not before until, which is not included: {shorten(since)} and "
                f"{shorten(until)}"
            )
        return cls(unit, start, stop)

    @property
    def end(self) -> int:
        """The number after the last one, which is that of the unit if the period has no end."""
        return ENDS[self.unit] if self.stop is None else self.stop

    def of(self, transactions: pa.Table) -> pa.Table:
        """Return the transactions of the period."""
        return transactions.filter(self.mask(transactions, COLUMNS[self.unit]))

    def mask(self, rows: pa.Table, column: str) -> pa.ChunkedArray:
        """Return which rows are of the period, by the column that has the unit's numbers."""
        since = pc.greater_equal(rows[column], self.start)
        return since if self.stop is None else pc.and_(since, pc.less(rows[column], self.stop))

    def __str__(self) -> str:
        first = self.spell(self.start) if self.start else "the first one"
        last = "the last one" if self.stop is None else self.spell(self.stop)
        return f"{first} to {last}"

    def held(self) -> str:
        """Return the period as text, where a side without a bound ends with what is held."""
        first = self.spell(self.start) if self.start else "the first one held"
        last = "the last one held" if self.stop is None else self.spell(self.stop)
        return f"{first} to {last}"

    def held_until(self, second: int) -> str:
        """Return the period as text, where it is held until a unix second; 0 is unknown."""
        first = self.spell(self.start) if self.start else "the first one"
        last = _moment(second) if second else "the last one known"
        return f"{first}, held until {last}"

    def spell(self, number: int) -> str:
        """Return a number of the unit as text."""
        return f"lt {number}" if self.unit == "lt" else _moment(number)


def _moment(second: int) -> str:
    return f"{datetime.fromtimestamp(second, tz=UTC):%Y-%m-%d %H:%M:%S}"


def _number(bound: Bound, name: str) -> tuple[Unit, int]:
    """Return the number of a logical time, or the first unix second at or after a moment."""
    if isinstance(bound, bool):
        raise TypeError(f"{name} is a moment or a logical time, not {bound}")
    value = bound
    if isinstance(value, str) and value.startswith("lt:"):
        value = int(value[3:]) if re.fullmatch("lt:[0-9]{1,19}", value) else -1
    if isinstance(value, int):
        if not 0 <= value < ENDS["lt"]:
            raise ValueError(
                f"{name} is a logical time of 63 bits, such as 65000000000000 or "
                f"'lt:65000000000000', not {shorten(bound)}"
            )
        if value is bound and (moment := _moment_of(value)):
            raise ValueError(
                f"{name} is {value}, which looks like a moment: write the moment as '{moment}', "
                f"or the logical time as 'lt:{value}'"
            )
        return "lt", value
    seconds = -((_EPOCH - parse_moment(value, name)) // timedelta(seconds=1))
    if not 0 <= seconds < ENDS["utime"]:
        raise ValueError(f"{name} is a moment from 1970 to 2038, not {shorten(bound)}")
    return "utime", seconds


def _moment_of(number: int) -> str | None:
    """Return as text the moment that a number reads as; None if it reads as none."""
    for part in (1, 10**3, 10**6, 10**9):
        if _FIRST_YEAR <= number // part <= ENDS["utime"]:
            return f"{datetime.fromtimestamp(number // part, tz=UTC):%Y-%m-%dT%H:%M:%S}"
    if found := re.fullmatch(r"(2019|20[2-9]\d)(\d\d)?(\d\d)?", str(number)):
        year, month, day = found.groups()
        written = "-".join(filter(None, (year, month or "01", day)))
        with suppress(ValueError):  # a month 13
            parse_moment(written, "")
            return written
    return None
