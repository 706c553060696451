"""Periods of a history, and spans: consecutive transactions, proven by the account's own chain.

Each transaction names the one before it, `prev_trans_lt` and `prev_trans_hash`, so rows show by
themselves which of them follow one another. Nothing is between a transaction and the one before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import shorten
from tonframes.moments import parse_moment
from tonframes.seqnos import subtract

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
    """Logical times (`lt`) or unix seconds (`utime`), from `start` on and before `stop`.

    A period without `stop` has no end.
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


# ── spans ─────────────────────────────────────────────────────────────────────────────────────────

#: What a span is made of.
_CHAIN = ("account", "lt", "now", "hash", "prev_trans_lt", "prev_trans_hash")


#: Logical time and hash of a transaction; None if the hash is unknown.
Link = tuple[int, str | None]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of an account's history that is complete.

    Logical times and seconds are two measures of the same part. A span without transactions says
    that there are none in these seconds; then both logical times are equal.

    Attributes
    ----------
    start_lt, stop_lt
        Logical times, from `start_lt` on and before `stop_lt`. `start_lt - 1` is the transaction
        before; `stop_lt - 1` is the last one.
    start_utime, stop_utime
        Unix seconds, from `start_utime` on and before `stop_utime`. There are none if `stop_utime`
        is not greater: other transactions may have the second of the first or last one.
    start_hash, stop_hash
        Hash of the transaction before, and of the last one; None if unknown, or if there is none.
        If the first transaction created the account, the span begins with it and has no
        `start_hash`.
    """

    start_lt: int
    stop_lt: int
    start_utime: int
    stop_utime: int
    start_hash: str | None = None
    stop_hash: str | None = None

    @property
    def begins_with_creation(self) -> bool:
        """Whether the first transaction names none before it, and earlier ones are not known."""
        return 0 < self.start_lt < self.stop_lt and self.start_hash is None

    @property
    def links(self) -> tuple[Link, Link]:
        """The transaction before, and the last one."""
        return (self.start_lt - 1, self.start_hash), (self.stop_lt - 1, self.stop_hash)

    def start(self, unit: Unit) -> int:
        """Return the first number of a unit."""
        return self.start_lt if unit == "lt" else self.start_utime

    def stop(self, unit: Unit) -> int:
        """Return the number of a unit after the last one."""
        return self.stop_lt if unit == "lt" else self.stop_utime

    def of(self, unit: Unit) -> range:
        """Return the numbers of a unit."""
        return range(self.start(unit), self.stop(unit))

    def covers(self, period: Period) -> bool:
        """Return whether all transactions of a period are in the span; it must have an end."""
        return (
            period.stop is not None
            and self.start(period.unit) <= period.start
            and self.stop(period.unit) >= period.stop
        )


Spans = dict[str, list[Span]]


def spans_of(transactions: pa.Table) -> Spans:
    """Return the spans that transactions make up, by account; rows may come in any order."""
    found: Spans = defaultdict(list)
    columns = (transactions[name].to_pylist() for name in _CHAIN)
    rows = sorted(zip(*columns, strict=True), key=lambda row: row[:2])
    for account, lt, now, tx_hash, prev_lt, prev_hash in rows:
        span = Span(
            # A transaction that names none before it may follow others: the account was deleted.
            start_lt=prev_lt + 1 if prev_lt else lt,
            stop_lt=lt + 1,
            start_utime=now + 1,
            stop_utime=now,
            start_hash=prev_hash if prev_lt else None,
            stop_hash=tx_hash,
        )
        spans = found[account]
        if spans and _follows(spans[-1], span):
            spans[-1] = _join(spans[-1], span)
        else:
            spans.append(span)
    return dict(found)


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """Join spans of one account that follow one another or overlap, in order."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start_lt, span.stop_lt)):
        if joined and _follows(joined[-1], span):
            joined[-1] = _join(joined[-1], span)
        else:
            joined.append(span)
    return joined


def differ(first: Link, second: Link) -> bool:
    """Return whether two statements about a transaction contradict each other.

    They do if they have the same logical time and not the same hash, or the other way round.

    Examples
    --------
    >>> differ((7, "a"), (7, "b")), differ((7, "a"), (8, "a")), differ((7, "a"), (8, "b"))
    (True, True, False)
    """
    known = first[1] is not None and second[1] is not None
    return known and (first[0] == second[0]) != (first[1] == second[1])


def with_row(spans: Iterable[Span], before: Link, last: Link) -> list[Span]:
    """Return spans in which a transaction is `last`, and the one before it is `before`."""
    changed = []
    for span in spans:
        start, stop = span.links
        start = before if differ(start, before) else start
        stop = last if differ(stop, last) else stop
        changed.append(
            replace(
                span,
                start_lt=start[0] + 1,
                start_hash=start[1],
                stop_lt=stop[0] + 1,
                stop_hash=stop[1],
            )
        )
    return joined_spans(changed)


def contradict(first: Span, second: Span) -> bool:
    """Return whether two spans, of which the second starts later, cannot both be right."""
    known = second.start_hash is not None and first.stop_hash is not None
    parted = second.start_lt < first.stop_lt < second.stop_lt
    return (known and parted) or differ(second.links[0], first.links[1])


def _follows(first: Span, second: Span) -> bool:
    """Return whether nothing can be between two spans, of which the second starts later."""
    return second.start_lt <= first.stop_lt and not contradict(first, second)


def _join(first: Span, second: Span) -> Span:
    start = first.start_utime
    if second.start_lt == first.start_lt:
        start = min(start, second.start_utime)
    later = max(first, second, key=lambda span: span.stop_lt)
    stop = later.stop_utime
    if first.stop_lt == second.stop_lt:
        stop = max(first.stop_utime, second.stop_utime)
    return Span(
        first.start_lt,
        later.stop_lt,
        start,
        stop,
        first.start_hash or (second.start_hash if second.start_lt == first.start_lt else None),
        later.stop_hash or (first.stop_hash if second.stop_lt == first.stop_lt else None),
    )


def gaps_of(spans: Sequence[Span], period: Period) -> list[range]:
    """Return the parts of a period that no span covers, in its unit."""
    wanted = range(period.start, period.end)
    return list(subtract([wanted], [span.of(period.unit) for span in spans]))


def new_rows(transactions: pa.Table, held: Mapping[str, Sequence[Span]]) -> list[int]:
    """Return the positions of the transactions that are in no span, each once, by (account, lt)."""
    accounts, lts = transactions["account"].to_pylist(), transactions["lt"].to_pylist()
    order = sorted(range(len(lts)), key=lambda i: (accounts[i], lts[i]))
    fresh = [
        i
        for i in order
        if not any(s.start_lt <= lts[i] < s.stop_lt for s in held.get(accounts[i], ()))
    ]
    twice = {j for i, j in pairwise(fresh) if (accounts[i], lts[i]) == (accounts[j], lts[j])}
    return [i for i in fresh if i not in twice]
