"""Sets of seqnos as ranges: what is true of sets is true of them."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonframes.seqnos import (
    SPAN,
    WIDTHS,
    aligned,
    checked,
    common,
    fits,
    from_text,
    intersection,
    joined,
    overlapping,
    ranges,
    span_of,
    spell,
    subtract,
)

one = st.builds(
    lambda start, length: range(start, start + length), st.integers(0, 300), st.integers(0, 40)
)
many = st.lists(one, max_size=12)


def numbers(runs):
    return {n for run in runs for n in run}


def is_canonical(runs):
    return all(runs) and all(a.stop < b.start for a, b in pairwise(runs))


@given(st.lists(st.integers(-50, 300)))
def test_ranges_are_the_numbers(some):
    assert numbers(ranges(some)) == set(some)
    assert is_canonical(ranges(some))


@given(one, st.integers(1, 3))
def test_a_range_is_taken_as_it_is(run, step):
    assert ranges(run) == ((run,) if run else ())
    assert ranges(run[::-1]) == ranges(run)
    assert numbers(ranges(run[::step])) == set(run[::step])


def test_a_long_range_is_not_listed():
    tracemalloc.start()
    assert checked(range(1, 20_000_001)) == checked(range(20_000_000, 0, -1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@given(many)
def test_joined_is_the_union(some):
    assert numbers(joined(some)) == numbers(some)
    assert is_canonical(joined(some))


@given(many, many)
def test_subtract_is_the_difference(some, taken):
    rest = subtract(some, taken)
    assert numbers(rest) == numbers(some) - numbers(taken)
    assert all(rest)


@given(one.filter(len), many)
def test_meeting_are_those_with_a_common_number(run, some):
    runs = joined(some)
    assert list(overlapping(run, runs)) == [other for other in runs if set(run) & set(other)]


@given(one, many)
def test_common_is_cut_to_the_range(run, some):
    assert common(run, joined(some)) == list(intersection([run], some))


@given(many, many)
def test_intersection_are_the_common_numbers(some, others):
    assert numbers(intersection(some, others)) == numbers(some) & numbers(others)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("100:150", range(100, 150)),
        ("100", range(100, 101)),
        ("2026-05-28", None),
        ("1:2:3", None),
        (":", None),
        ("²", None),
    ],
)
def test_seqnos_are_read_from_text(text, run):
    assert from_text(text) == run


@pytest.mark.parametrize("seqnos", [[0], [2**31], range(5), range(-3, 0)])
def test_seqnos_that_cannot_be_are_refused(seqnos):
    with pytest.raises(ValueError, match="seqnos are from 1 to 2147483647, not"):
        checked(seqnos)


def test_other_things_than_seqnos_are_refused():
    for wrong in (None, 5, "5", b"5", [5.0], [True], ["5"]):
        with pytest.raises(TypeError, match="seqnos"):
            checked(wrong)


def test_spans_are_cut_at_multiples_of_their_width():
    assert (span_of(1234, 1000), span_of(7, 100)) == (range(1000, 2000), range(1, 100))
    assert list(aligned(range(90, 210))) == [range(90, 100), range(100, 200), range(200, 210)]
    assert [fits(r) for r in (range(120, 130), range(90, 110), range(1000, 2000))] == [
        *(True, False, True)
    ]


@given(st.integers(0, 500), st.integers(1, 500))
def test_aligned_cuts_at_the_grid_and_loses_nothing(start, length):
    parts = list(aligned(range(start, start + length)))
    assert [n for part in parts for n in part] == list(range(start, start + length))
    assert all(part.start // SPAN == (part.stop - 1) // SPAN for part in parts)


def test_spelled_as_python_slices():
    assert spell(()) == ""
    assert spell([range(5), range(7, 8)]) == "0:5, 7"


@given(st.integers(1, 2**31 - 1), st.sampled_from(WIDTHS))
def test_a_file_has_a_whole_span_or_a_part_of_the_narrowest(seqno, width):
    span = span_of(seqno, width)
    assert seqno in span
    assert fits(span)
    assert all(map(fits, aligned(span)))
    assert not fits(range(span.start, span.stop + 1))
    assert fits(span[1:]) == (width == SPAN)


def test_seqnos_may_come_from_numpy():
    assert checked(np.array([5, 6, 9])) == (range(5, 7), range(9, 10))
    with pytest.raises(TypeError, match="seqnos are ints"):
        checked(np.array([5.0]))
