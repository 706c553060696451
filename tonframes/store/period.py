"""The period of a history: from one moment, or logical time, until another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import shorten
from tonframes.moments import parse_moment

if TYPE_CHECKING:
    from typing import Self

#: A moment, or a logical time.
Bound = datetime | date | str | int

Unit = Literal["lt", "utime"]

#: The column of transactions with the numbers of a unit, and the end of its numbers.
COLUMNS = {"lt": "lt", "utime": "now"}
ENDS = {"lt": 2**63 - 1, "utime": 2**31 - 1}

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

        Examples
        --------
        >>> Period.parse("2026-05-28T20:26", None)
        Period(unit='utime', start=1779999960, stop=None)
        >>> Period.parse(7, 7)
        Traceback (most recent call last):
        ValueError: since is not before until, which is not included: 7 and 7
        """
        bounds = {"since": since, "until": until}
        kinds = {isinstance(bound, int) for bound in bounds.values() if bound is not None}
        if len(kinds) > 1:
            raise ValueError(
                "since and until are either both moments or both logical times, not "
                f"{shorten(since)} and {shorten(until)}"
            )
        unit: Unit = "utime" if kinds == {False} else "lt"
        start, stop = (
            None if bound is None else _number(bound, name) for name, bound in bounds.items()
        )
        if stop is not None and (start or 0) >= stop:
            raise ValueError(
                f"since is not before until, which is not included: {shorten(since)} and "
                f"{shorten(until)}"
            )
        return cls(unit, start or 0, stop)

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


def _number(bound: Bound, name: str) -> int:
    """Return a logical time as it is, and the first unix second at or after a moment."""
    if isinstance(bound, bool):
        raise TypeError(f"{name} is a moment or a logical time, not {bound}")
    if isinstance(bound, int):
        if not 0 <= bound < ENDS["lt"]:
            raise ValueError(f"{name} is a logical time of 63 bits, not {shorten(bound)}")
        return bound
    moment = parse_moment(bound, name)
    seconds = -((_EPOCH - moment) // timedelta(seconds=1))
    if not 0 <= seconds < ENDS["utime"]:
        raise ValueError(f"{name} is a moment from 1970 to 2038, not {shorten(bound)}")
    return seconds
