"""Sets of masterchain seqnos, as half-open ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Ranges are cut at the multiples of this number: each part is fetched and committed as one.
SPAN = 100
#: A file has whole spans of one of the wider widths, or a part of one span of the first.
WIDTHS = (SPAN, 1_000, 10_000)


def ranges(numbers: Iterable[int]) -> tuple[range, ...]:
    """Return a set of integers as the fewest ranges, in order."""
    if isinstance(numbers, range) and numbers.step in (1, -1):
        return (numbers[:: numbers.step],) if numbers else ()
    runs: list[range] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return tuple(runs)


def checked(seqnos: range | Iterable[int]) -> tuple[range, ...]:
    """Check masterchain seqnos that a user has given, and return them as ranges."""
    if isinstance(seqnos, str | bytes) or not isinstance(seqnos, Iterable):
        raise TypeError(f"seqnos is a range or a list of ints, not {shorten(seqnos)}")
    if hasattr(seqnos, "tolist"):  # of numpy, whose integers are no ints
        seqnos = seqnos.tolist()
    numbers = seqnos if isinstance(seqnos, range) else list(seqnos)
    if not isinstance(numbers, range) and any(type(number) is not int for number in numbers):
        raise TypeError("seqnos are ints")
    if numbers and not 1 <= min(numbers[0], numbers[-1]) <= max(numbers[0], numbers[-1]) < 2**31:
        raise ValueError(f"seqnos are from 1 to {2**31 - 1}, not {shorten(seqnos)}")
    wanted = ranges(numbers)
    if wanted and (wanted[0].start < 1 or wanted[-1].stop > 2**31):
        raise ValueError(f"seqnos are from 1 to {2**31 - 1}, not {spell(wanted)}")
    return wanted


def from_text(text: str) -> range | None:
    """Return the seqnos that `100` or `100:150` names; None if a text is neither."""
    start, colon, stop = text.partition(":")
    ends = [start, stop] if colon else [start]
    if not all(end.isascii() and end.isdecimal() for end in ends):
        return None
    first = int(start)
    return range(first, int(stop) if colon else first + 1)


def spell(runs: Iterable[range]) -> str:
    """Return ranges as text: `100:150, 153`, half-open as in Python."""
    return ", ".join(str(r.start) if r.stop - r.start == 1 else f"{r.start}:{r.stop}" for r in runs)


def joined(runs: Iterable[range]) -> tuple[range, ...]:
    """Join ranges that touch or overlap; the result is in order."""
    rest: list[range] = []
    for run in sorted((run for run in runs if run), key=lambda run: run.start):
        if rest and rest[-1].stop >= run.start:
            rest[-1] = range(rest[-1].start, max(run.stop, rest[-1].stop))
        else:
            rest.append(run)
    return tuple(rest)


def overlapping(run: range, runs: Sequence[range]) -> Sequence[range]:
    """Return those of joined ranges that have a number in common with a range."""
    first = bisect_right(runs, run.start, key=lambda other: other.stop)
    last = bisect_left(runs, run.stop, key=lambda other: other.start)
    return runs[first:last]


def common(run: range, runs: Sequence[range]) -> list[range]:
    """Return what a range has in common with joined ranges."""
    return [
        range(max(run.start, other.start), min(run.stop, other.stop))
        for other in overlapping(run, runs)
    ]


def subtract(runs: Iterable[range], taken: Iterable[range]) -> tuple[range, ...]:
    """Remove ranges from ranges; the result is in order."""
    cuts = joined(taken)
    rest = []
    for run in sorted(runs, key=lambda run: run.start):
        start = run.start
        for cut in overlapping(run, cuts):
            rest.append(range(start, cut.start))
            start = cut.stop
        rest.append(range(start, run.stop))
    return tuple(run for run in rest if run)


def intersection(runs: Iterable[range], others: Iterable[range]) -> tuple[range, ...]:
    """Return what two sets of ranges have in common, in order."""
    runs = joined(runs)
    return subtract(runs, subtract(runs, others))


def span_of(seqno: int, width: int) -> range:
    """Return the span of a width that a seqno is in; the first seqno is 1."""
    start = seqno // width * width
    return range(max(start, 1), start + width)


def fits(run: range) -> bool:
    """Return whether a file may have these seqnos: a part of a span, or a whole wider one."""
    return bool(run) and (
        run[-1] // SPAN == run[0] // SPAN
        or any(run == span_of(run.start, width) for width in WIDTHS[1:])
    )


def aligned(run: range) -> Iterator[range]:
    """Cut a range at the multiples of `SPAN`."""
    start = run.start
    while start < run.stop:
        stop = min(run.stop, (start // SPAN + 1) * SPAN)
        yield range(start, stop)
        start = stop
