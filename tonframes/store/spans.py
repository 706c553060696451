"""Spans: consecutive transactions of an account, proven by the account's own chain.

Each transaction names the one before it, `prev_trans_lt` and `prev_trans_hash`, so rows show by
themselves which of them follow one another. Nothing is between a transaction and the one before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tonframes.seqnos import subtract

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from tonframes.store.period import Period, Unit

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
    """Join spans of one account that follow one another or overlap, in order.

    Examples
    --------
    >>> joined_spans([Span(8, 21, 101, 200), Span(0, 8, 0, 100)])
    [Span(start_lt=0, stop_lt=21, start_utime=0, stop_utime=200, start_hash=None, stop_hash=None)]
    """
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
    """Return spans in which a transaction is `last`, and the one before it is `before`.

    Examples
    --------
    >>> with_row([Span(8, 21, 101, 200, "a", "b")], (7, "a"), (20, "c"))
    [Span(start_lt=8, stop_lt=21, start_utime=101, stop_utime=200, start_hash='a', stop_hash='c')]
    """
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
    """Return whether two spans, of which the second starts later, cannot both be right.

    The transaction before the second one is not the last one of the first, or is followed by it.
    """
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
