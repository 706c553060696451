"""What is known of the histories of some accounts, and what to ask for next. No network here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from tonframes.fetch.network import LAG
from tonframes.store import COLUMNS, Span, gaps_of, joined_spans, new_rows, spans_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.store import Period, Spans


@dataclass(frozen=True, slots=True)
class Service:
    """The first and the last masterchain block that a service has.

    Attributes
    ----------
    first_lt, first_utime
        Where the first one begins; 0 if the service has everything.
    last_utime
        The second of the last one; 0 if the service does not tell it.
    """

    first_lt: int
    first_utime: int
    last_utime: int

    @property
    def surely_until(self) -> int:
        """The second until which all replicas of the service surely have everything."""
        return max(0, self.last_utime - LAG)

    def begins_after(self, lt: int) -> bool:
        """Return whether a transaction is older than the first masterchain block.

        The service may have it all the same: the first masterchain block commits shard blocks that
        are a little older.
        """
        return lt < self.first_lt


@dataclass(frozen=True, slots=True)
class After:
    """The first transaction at or after the end of the period is unknown."""


@dataclass(frozen=True, slots=True)
class Named:
    """A transaction that another one, or the account's state, names is unknown.

    Attributes
    ----------
    lt
        Its logical time.
    floor
        Transactions before this logical time are not needed, or known.
    """

    lt: int
    floor: int


Step = After | Named

#: Logical time and hash of an account's last transaction; 0 if the account has none.
Last = tuple[int, str | None]


class Chains:
    """The chains of transactions of some accounts, as far as they are known.

    Parameters
    ----------
    periods
        The period wanted of each account.
    spans
        What is known already.
    service
        Which blocks the service has.
    """

    def __init__(
        self, periods: Mapping[str, Period], spans: Mapping[str, Sequence[Span]], service: Service
    ) -> None:
        self.periods = periods
        self.spans: Spans = {account: list(spans.get(account, ())) for account in periods}
        self._service = service
        self._tops: dict[str, int] = {}
        self._hashes: dict[str, str | None] = {}
        self._asked_after: set[str] = set()

    def gaps(self, account: str) -> list[range]:
        """Return the parts of the period that are unknown, in its unit."""
        period, top = self.periods[account], self._tops[account]
        if top == 0 or (period.unit == "lt" and top < period.start):
            return []
        known = gaps_of(self.spans[account], period)
        reached = self._reaching(account)
        if reached is not None and period.stop is None:
            known = [gap for gap in known if gap.start < reached.start(period.unit)]
        return known

    @property
    def unknown(self) -> list[str]:
        """The accounts that have no transactions."""
        return [
            a
            for a, top in self._tops.items()
            if not top and not any(s.stop_lt for s in self.spans[a])
        ]

    # ── what came ────────────────────────────────────────────────────────────────────────────────

    def set_last(self, account: str, last: Last) -> None:
        """Take the last transaction from the account's state."""
        self._tops[account], self._hashes[account] = last

    def set_asked_after(self, accounts: Iterable[str]) -> None:
        """Take note that the transactions after the period have been asked for."""
        self._asked_after.update(accounts)

    def add(self, transactions: pa.Table) -> list[int]:
        """Add transactions; return the positions of those that were unknown."""
        fresh = new_rows(transactions, self.spans)
        rows = transactions.take(pa.array(fresh, pa.int64()))
        for account, spans in spans_of(rows).items():
            self.spans[account] = joined_spans([*self.spans[account], *spans])
        return fresh

    def first_after(self, transactions: pa.Table) -> list[int]:
        """Return the position of each account's first transaction; rows come oldest first."""
        first: dict[str, int] = {}
        for i, account in enumerate(transactions["account"].to_pylist()):
            first.setdefault(account, i)
        return list(first.values())

    def needed_before(self, transactions: pa.Table, last: Mapping[str, int]) -> list[int]:
        """Return the positions of transactions that are in the period, or the last one before it.

        Parameters
        ----------
        transactions
            Rows of any accounts, newest first.
        last
            Logical times of the last transactions that are needed, by account.
        """
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

    def is_before_service(self, lt: int) -> bool:
        """Return whether a transaction is older than the first masterchain block of the service."""
        return self._service.begins_after(lt)

    # ── what is next ─────────────────────────────────────────────────────────────────────────────

    def step(self, account: str) -> Step | None:
        """Return what to ask for next; None if the period is complete."""
        period, top = self.periods[account], self._tops[account]
        known = self.spans[account]
        if not top and known and known[-1].stop_lt:  # the state is older than what came
            top = known[-1].stop_lt - 1
        if top <= 0:
            return None
        if (period.unit == "lt" and top < period.start) or self._precedes(top, period):
            return None
        end = self._reaching(account)
        if end is None or end.start(period.unit) >= period.end:
            in_period = period.stop is None or (period.unit == "lt" and top < period.stop)
            if not in_period and account not in self._asked_after:
                return After()
            if end is None:
                return Named(top, self._floor(account, top))
        if end.start(period.unit) <= period.start or self._precedes(end.start_lt - 1, period):
            return None
        lt = end.start_lt - 1
        return Named(lt, self._floor(account, lt))

    def claims(self, account: str) -> list[Span]:
        """Return spans without transactions: that there are none before or after those that came.

        After the last transaction there is none until `LAG` before the service's last block. For a
        period without an end nothing is said after it: each call would add a span.
        """
        period, top = self.periods[account], self._tops[account]
        if period.unit == "lt":
            return []
        found = []
        until = self._service.surely_until
        stop = 0 if period.stop is None else min(period.stop, until)
        last = next((s for s in self.spans[account] if s.stop_lt == top + 1), None)
        if account in self.unknown and stop > 0:
            found.append(Span(0, 0, 0, until))
        if last is not None and last.stop_utime < stop:
            found.append(Span(last.stop_lt, last.stop_lt, last.stop_utime, until))
        end = self._reaching(account)
        start = self._service.first_utime + LAG
        if end is not None and self._precedes(end.start_lt - 1, period):
            found.append(Span(end.start_lt, end.start_lt, start, end.start_utime))
        if end is None and top and self._precedes(top, period) and start < stop:
            found.append(Span(top + 1, top + 1, start, until))
        return found

    def lacks_end(self, account: str) -> bool:
        """Return whether transactions may still come before the end of a complete period.

        A period of logical times is not judged: it is not known when they are.
        """
        period = self.periods[account]
        if period.unit == "lt" or period.stop is None:
            return False
        known = [*self.spans[account], *self.claims(account)]
        return not any(span.stop_utime >= period.stop for span in known)

    def _reaching(self, account: str) -> Span | None:
        """Return the first span that reaches the end of the period, or the last transaction."""
        period, top = self.periods[account], self._tops.get(account)
        for span in self.spans[account]:
            if period.stop is not None and span.stop(period.unit) >= period.stop:
                return span
            if top is not None and span.start_lt <= top < span.stop_lt:
                hashes = {span.stop_hash, self._hashes[account]} - {None}
                return span if top + 1 < span.stop_lt or len(hashes) <= 1 else None
        return None

    def _precedes(self, lt: int, period: Period) -> bool:
        """Return whether a transaction is older than all blocks of the service.

        Then it is before the period too, if that begins later.
        """
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
