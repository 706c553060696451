"""What is known of the histories of some accounts, and what to ask for next. No network here.

`Chains.absence` says what is proven not to exist, by the rule in `tonframes.fetch.proof`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tonframes.fetch.network import LAG
from tonframes.store import (
    COLUMNS,
    Span,
    contradict,
    differ,
    gaps_of,
    joined_spans,
    new_rows,
    spans_of,
    with_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tonframes.store import Link, Period, Spans, Unit

#: A service that begins before this logical time has everything: it grows by 10^6 with each
#: masterchain block, and public services begin with the first or the third one.
GENESIS = 10**8
#: Answers that must lack an account, of which one comes after the other.
AGREEING = 2


@dataclass(frozen=True, slots=True)
class Service:
    """The first and the last masterchain block that a service has."""

    #: Where the first one begins; 0 if the service has everything.
    first_lt: int
    first_utime: int
    #: Where the last one begins, and its second; 0 if the service does not tell it.
    last_lt: int
    last_utime: int
    #: A logical time of `surely_until` or before; 0 if it was not asked for.
    until_lt: int = 0

    @property
    def surely_until(self) -> int:
        """The second until which a replica that has the last block surely has everything."""
        return max(0, self.last_utime - LAG)

    def begins_after(self, lt: int) -> bool:
        """Whether a transaction is older than the first masterchain block."""
        return lt < self.first_lt


@dataclass(frozen=True, slots=True)
class After:
    """The first transaction at or after the end of the period is unknown."""


@dataclass(frozen=True, slots=True)
class Named:
    """A transaction that another one, or the account's state, names is unknown."""

    lt: int
    #: Transactions before this logical time are not needed, or known.
    floor: int


@dataclass(frozen=True, slots=True)
class Disputed:
    """A transaction has another hash than the next one, or the account's state, names."""

    lt: int


@dataclass(frozen=True, slots=True)
class Created:
    """An account was created, maybe again: whether it has transactions before that is unknown."""

    #: The logical time from which on they are known.
    lt: int
    #: Where the others would be, in the unit of the period; those from `stop` on are known.
    start: int
    stop: int


Step = After | Named | Disputed | Created


class Last(NamedTuple):
    lt: int
    hash: str | None


class _Row(NamedTuple):
    """What a transaction says of its place in the account's chain, and its position in a table."""

    account: str
    lt: int
    hash: str
    prev_lt: int
    prev_hash: str | None
    end_status: str
    now: int
    position: int

    @property
    def links(self) -> tuple[Link, Link]:
        return (self.prev_lt, self.prev_hash), (self.lt, self.hash)


class Chains:
    """The chains of transactions of some accounts, as far as they are known."""

    def __init__(
        self, periods: Mapping[str, Period], spans: Mapping[str, Sequence[Span]], service: Service
    ) -> None:
        self.periods = periods
        self.spans: Spans = {account: list(spans.get(account, ())) for account in periods}
        self._service = service
        self._last: dict[str, Last] = dict.fromkeys(periods, Last(0, None))
        self._passed: set[str] = set()
        self._absent: Counter[str] = Counter()
        #: The accounts whose transactions after the period have been asked for.
        self.asked_after: set[str] = set()
        self._disputes: dict[str, set[int]] = defaultdict(set)
        self._newest: dict[str, _Row] = {}

    def gaps(self, account: str) -> list[range]:
        """Return where the period is unknown, in its unit."""
        period, top = self.periods[account], self._top(account)
        if top == 0 or (period.unit == "lt" and top < period.start):
            return []
        known = gaps_of(self.spans[account], period)
        reached = self._reaching(account)
        if reached is not None and period.stop is None:
            known = [gap for gap in known if gap.start < reached.start(period.unit)]
        return known

    @property
    def unknown(self) -> list[str]:
        """The accounts that have no transactions: enough answers lack them."""
        return [
            a
            for a, last in self._last.items()
            if not last.lt
            and self._absent[a] >= AGREEING
            and not any(s.stop_lt for s in self.spans[a])
        ]

    def note_states(
        self, accounts: Iterable[str], states: Mapping[str, Last], stateless: Mapping[str, Last]
    ) -> None:
        """Take the states of one answer, and the last transactions of accounts without a state."""
        # Whether the replica that answered has the last block, see `tonframes.fetch.proof`.
        newest = max((last.lt for last in states.values()), default=0)
        passed = 0 < self._service.last_lt <= newest
        for account in accounts:
            last = states.get(account) or stateless.get(account)
            if last is not None:
                self._last[account] = max(self._last[account], last, key=lambda last: last.lt)
                if last.lt == self._last[account].lt and last.hash:
                    self._last[account] = last
            elif passed or not self._service.last_lt:
                self._absent[account] += 1
            if passed and (account in states or self._absent[account] >= AGREEING):
                self._passed.add(account)

    def correct(self, transactions: pa.Table) -> list[int]:
        """Correct what is known where an answer contradicts it, and agrees with itself.

        A transaction is believed if the one before it has the hash that it names, and the one after
        it, or the state, names its own hash. Returns the positions of the transactions that are
        known with other hashes.
        """
        replaced: list[int] = []
        rows: list[_Row | None] = [None, *_by_place(transactions), None]
        for before, row, later in zip(rows, rows[1:], rows[2:], strict=False):
            if row is None or not (self._follows(row, before) and self._is_named(row, later)):
                continue
            settled = range(row.prev_lt + 1, row.lt + 1)
            self._disputes[row.account].difference_update(
                [lt for lt in self._disputes[row.account] if lt in settled]
            )
            spans = self.spans[row.account]
            if any(
                differ(*both) for span in spans for both in zip(span.links, row.links, strict=True)
            ):
                replaced.append(row.position)
                self.spans[row.account] = with_row(spans, *row.links)
        return replaced

    def _follows(self, row: _Row, before: _Row | None) -> bool:
        """Whether the transaction before one is the named one, or there is none."""
        if before and before.account == row.account and before.links[1] == row.links[0]:
            return True
        known = [span.links[1] for span in self.spans[row.account]]
        return not row.prev_lt or self._service.begins_after(row.prev_lt) or row.links[0] in known

    def _is_named(self, row: _Row, later: _Row | None) -> bool:
        """Whether the transaction after one, or the state, names it."""
        if later and later.account == row.account and later.links[0] == row.links[1]:
            return True
        known = [span.links[0] for span in self.spans[row.account]]
        return row.links[1] in (self._last[row.account], *known)

    def dispute(self, transactions: pa.Table) -> set[int]:
        """Return the positions of transactions that contradict what is known, and note where."""
        positions = set()
        last = self._service
        for row in _by_place(transactions):
            if row.lt < last.last_lt and row.now > last.last_utime + LAG:
                positions.add(row.position)  # it is before the last block, and at a later second
            known: list[Link] = [link for span in self.spans[row.account] for link in span.links]
            for link in row.links:
                if any(differ(link, other) for other in (*known, self._last[row.account])):
                    self._disputes[row.account].add(link[0])
                    positions.add(row.position)
        return positions

    def add(self, transactions: pa.Table) -> list[int]:
        """Add transactions; return the positions of those that were unknown."""
        fresh = new_rows(transactions, self.spans)
        rows = transactions.take(pa.array(fresh, pa.int64()))
        for account, spans in spans_of(rows).items():
            self.spans[account] = joined_spans([*self.spans[account], *spans])
        return fresh

    def note_created(
        self, transactions: pa.Table, start: int, unit: Unit, incomplete: Collection[str]
    ) -> Spans:
        """Note that nothing comes between a transaction that created its account and those before.

        An answer that has the transactions from a number on, oldest first, and this one among them,
        has all of those before it: a list that is cut lacks its end. The transaction before it must
        have deleted the account. Nothing is said of accounts of which not all rows were kept.
        """
        absence: Spans = {}
        for row in _by_place(transactions):
            before, self._newest[row.account] = self._newest.get(row.account), row
            if row.prev_lt or row.account in incomplete:
                continue
            period = self.periods[row.account]
            earlier = [s for s in self.spans[row.account] if s.start_lt < s.stop_lt <= row.lt]
            if earlier:
                if before is None or before.lt + 1 != earlier[-1].stop_lt:
                    continue
                if before.end_status != "nonexist":
                    continue
                nothing = Span(before.lt + 1, row.lt, before.now + 1, row.now)
            elif before is not None and before.lt < row.lt:
                continue  # it came, and was not kept
            elif unit == period.unit and start <= period.start and self._is_in_service(period):
                if unit == "lt" or not period.start:
                    first_utime = row.now if period.start else 0
                    nothing = Span(period.start, row.lt, first_utime, row.now)
                else:
                    # The transactions before may be known not to exist since an earlier lt.
                    of = [s.start_lt for s in self.spans[row.account] if s.start_lt <= row.lt]
                    since_lt = max(of, default=row.lt)
                    nothing = Span(since_lt, since_lt, period.start, row.now)
            else:
                continue
            absence.setdefault(row.account, []).append(nothing)
            self.spans[row.account] = joined_spans([*self.spans[row.account], nothing])
        return absence

    def needed_before(self, transactions: pa.Table, last: Mapping[str, int]) -> list[int]:
        """Return the positions of rows, newest first, of the period, or the last one before it."""
        kept: list[int] = []
        done: set[str] = set()
        accounts = transactions["account"].to_pylist()
        numbers = {unit: transactions[name].to_pylist() for unit, name in COLUMNS.items()}
        for i, account in enumerate(accounts):
            if account in done or numbers["lt"][i] > last[account]:
                continue
            kept.append(i)
            period = self.periods[account]
            if numbers[period.unit][i] < period.start:
                done.add(account)
        return kept

    def is_before_service(self, account: str, step: Named | Disputed | Created) -> bool:
        """Whether what is missing may be older than the service's first block."""
        if isinstance(step, Created):
            return not self._is_in_service(self.periods[account])
        return self._service.begins_after(step.lt)

    def _is_in_service(self, period: Period) -> bool:
        """Whether the service has all transactions since the beginning of a period."""
        service = self._service
        least = service.first_lt if period.unit == "lt" else service.first_utime + LAG
        return service.first_lt <= GENESIS or period.start >= least

    def step(self, account: str) -> Step | None:
        """Return what to ask for next; None if the period is complete."""
        period, top = self.periods[account], self._top(account)
        if (disputed := self._disputed(account)) is not None:
            return Disputed(disputed)
        if top <= 0:
            return None
        if (period.unit == "lt" and top < period.start) or self._precedes(top, period):
            return None
        end = self._reaching(account)
        if end is None or end.start(period.unit) >= period.end:
            in_period = period.stop is None or (period.unit == "lt" and top < period.stop)
            if not in_period and account not in self.asked_after:
                return After()
            if end is None:
                return Named(top, self._floor(account, top))
        if end.start(period.unit) <= period.start or self._precedes(end.start_lt - 1, period):
            return None
        if not end.begins_with_creation:
            lt = end.start_lt - 1
            return Named(lt, self._floor(account, lt))
        known = [s for s in self.spans[account] if s.start_lt < s.stop_lt <= end.start_lt]
        start = period.start
        if known:
            start = known[-1].stop_lt - 1 if period.unit == "lt" else known[-1].stop_utime
        return Created(end.start_lt, start, end.start(period.unit))

    def absence(self, account: str) -> list[Span]:
        """Return spans without transactions, before or after those that came.

        After the last transaction there is none until `LAG` before the service's last block, if the
        replica that told the last transaction has that block. For a period without an end nothing
        is said after it: each call would add a span.
        """
        period, top = self.periods[account], self._last[account].lt
        if period.unit == "lt":
            return []
        spans = []
        until = self._service.surely_until if account in self._passed else 0
        stop = 0 if period.stop is None else min(period.stop, until)
        last = next((s for s in self.spans[account] if s.stop_lt == top + 1), None)
        if account in self.unknown and stop > 0:
            spans.append(Span(0, 0, 0, until))
        if last is not None and last.stop_utime < stop:
            spans.append(Span(last.stop_lt, last.stop_lt, last.stop_utime, until))
        end = self._reaching(account)
        start = self._service.first_utime + LAG
        if end is not None and self._precedes(end.start_lt - 1, period):
            spans.append(Span(end.start_lt, end.start_lt, start, end.start_utime))
        if end is None and top and self._precedes(top, period) and start < stop:
            spans.append(Span(top + 1, top + 1, start, until))
        return spans

    def held_until(self, account: str) -> int | None:
        """Return until when a complete period is held, 0 if unknown; None if to its end."""
        period, passed = self.periods[account], account in self._passed
        known = joined_spans([*self.spans[account], *self.absence(account)])
        first = [span for span in known if span.start(period.unit) <= period.start]
        if period.stop is not None:
            if any(span.stop(period.unit) >= period.stop for span in first):
                return None
            if period.unit == "lt" and passed and period.stop <= self._service.until_lt:
                return None
        reached = max((span.stop_utime for span in first), default=0)
        return max(reached, self._service.surely_until) if passed else reached

    def is_unproven(self, account: str) -> bool:
        """Whether the states must be asked for again.

        They must if the replica that answered may lack transactions before the end of the period,
        or one answer only lacks the account.
        """
        if account in self._passed or self.held_until(account) is None:
            return False
        once = not self._last[account].lt and self._absent[account] < AGREEING
        return once or self._service.last_lt > 0

    def _disputed(self, account: str) -> int | None:
        """Return a disputed transaction of the period, or next to it; None if there is none."""
        if disputes := self._disputes[account]:
            return min(disputes)
        period = self.periods[account]
        for span, later in zip_longest(spans := self.spans[account], spans[1:]):
            if span.stop(period.unit) < period.start or span.start(period.unit) > period.end:
                continue
            if differ(span.links[1], self._last[account]) or (later and contradict(span, later)):
                return span.stop_lt - 1
        return None

    def _top(self, account: str) -> int:
        """Return the logical time of the last one; the state may be older than what came."""
        known = self.spans[account]
        return max(self._last[account].lt, known[-1].stop_lt - 1 if known else 0)

    def _reaching(self, account: str) -> Span | None:
        """Return the first span that reaches the end of the period, or the last transaction."""
        period, top = self.periods[account], self._top(account)
        for span in self.spans[account]:
            if period.stop is not None and span.stop(period.unit) >= period.stop:
                return span
            if span.start_lt <= top < span.stop_lt:
                return span
        return None

    def _precedes(self, lt: int, period: Period) -> bool:
        """Whether a transaction is older than all blocks of the service."""
        return (
            period.unit == "utime"
            and self._service.begins_after(lt)
            and self._service.first_utime + LAG <= period.start
        )

    def _floor(self, account: str, lt: int) -> int:
        before = list(takewhile(lambda span: span.stop_lt <= lt, self.spans[account]))
        period = self.periods[account]
        least = period.start if period.unit == "lt" else 0
        return max(least, before[-1].stop_lt if before else 0)


def _by_place(transactions: pa.Table) -> list[_Row]:
    """Return the transactions in the order of their accounts and logical times."""
    names = ("account", "lt", "hash", "prev_trans_lt", "prev_trans_hash", "end_status", "now")
    columns = (transactions[name].to_pylist() for name in names)
    rows = map(_Row, *columns, range(len(transactions)))
    return sorted(rows, key=lambda row: (row.account, row.lt))
