"""Sums: exact near the ends of int64, and refused beyond them, on every engine."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import ENGINES, collected, frame_of, stepped

from tonframes.analysis import engines, sums

EVERY_ENGINE = [*ENGINES, pytest.param("spark", marks=pytest.mark.spark)]
SMALLEST, LARGEST = -(2**63), 2**63 - 1
AMOUNTS = st.integers(SMALLEST, LARGEST)


def table(*groups):
    rows = [(group, amount) for group, amounts in groups for amount in amounts]
    names, amounts = zip(*rows, strict=True)
    return pa.table({"group": pa.array(names), "amount": pa.array(amounts, pa.int64())})


def added_up(frame, *, wide=False, keys=("group",)):
    groups = sums.add_up(frame, keys, amounts=["amount"])
    groups = sums.whole(groups, ["amount"], helper="a helper", keys=keys, wide=wide)
    return groups.select(*keys, "transactions", "amount")


def on_engine(engine, rows, folder, **options):
    """Return the result as an Arrow table; lazy engines compute here, and no sooner."""
    result = stepped(partial(added_up, **options), frame_of(engine, rows, folder))
    return collected(engine, result).sort_by("transactions")


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_sums_are_exact_up_to_the_ends_of_int64(engine, tmp_path):
    rows = table(
        ("a", [LARGEST]),
        ("b", [SMALLEST, 0]),
        ("c", [LARGEST, LARGEST, -LARGEST]),
        ("d", [LARGEST - 10, 4, 3, 2]),
        ("e", [SMALLEST, SMALLEST, LARGEST, LARGEST, 2]),
    )
    found = on_engine(engine, rows, tmp_path)
    assert found.schema.field("amount").type == pa.int64()
    assert found["amount"].to_pylist() == [LARGEST, SMALLEST, LARGEST, LARGEST - 1, 0]


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_a_sum_that_does_not_fit_is_refused_by_the_name_of_its_group(engine, tmp_path):
    rows = table(("a", [5]), ("it's", [LARGEST, 1]))
    says = re.escape("a helper cannot add up amount of group=") + ".it's.: 9223372036854775808 does"
    says = says if engine not in ("duckdb", "spark") else says.replace(".it's.", "it's")
    with pytest.raises(Exception, match=says) as caught:
        on_engine(engine, rows, tmp_path)
    assert "Pass wide=True for sums as decimals" in str(caught.value)
    if engine not in ("duckdb", "spark"):
        assert caught.type is OverflowError
    with pytest.raises(Exception, match="cannot add up amount of all rows: -9223372036854775809"):
        on_engine(engine, table(("a", [SMALLEST, -1])), tmp_path, keys=())


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_wide_sums_hold_any(engine, tmp_path):
    rows = table(("a", [LARGEST] * 3), ("b", [SMALLEST] * 5))
    found = on_engine(engine, rows, tmp_path, wide=True)
    assert pa.types.is_decimal(found.schema.field("amount").type)
    assert [int(amount) for amount in found["amount"].to_pylist()] == [3 * LARGEST, 5 * SMALLEST]


@given(st.lists(AMOUNTS, min_size=1, max_size=6))
def test_a_sum_is_exact_or_refused(amounts):
    frame = engines.lazy(table(("a", amounts)))
    total = sum(amounts)
    if SMALLEST <= total <= LARGEST:
        assert added_up(frame).collect()["amount"].to_list() == [total]
    else:
        with pytest.raises(OverflowError, match=f"group='a': {total} does not fit int64"):
            added_up(frame).collect()
    assert added_up(frame, wide=True).collect()["amount"].to_list() == [total]


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_sums_are_those_of_python(engine, tmp_path):
    drawn = random.Random(7)
    limits = [10**3, 10**18, LARGEST]
    rows = [
        (drawn.choice("abc"), drawn.randint(-limit, limit))
        for limit in limits
        for _ in range(100 + limits.index(limit))
    ]
    expected = defaultdict(int)
    for group, amount in [*rows, ("none", SMALLEST), ("none", SMALLEST)]:
        expected[group] += amount
    frame = table(*((group, [amount]) for group, amount in rows), ("none", [SMALLEST] * 2))
    found = on_engine(engine, frame, tmp_path, wide=True).to_pylist()
    assert {row["group"]: int(row["amount"]) for row in found} == expected


def test_without_keys_all_rows_are_one_group():
    frame = table(("a", [1, 2]), ("b", [3]))
    found = stepped(lambda rows: sums.add_up(rows, [], sums=["amount"]), frame)
    assert found.select(["transactions", "amount"]).to_pylist() == [
        {"transactions": 3, "amount": 6}
    ]


def test_accounts_are_counted_once_a_group():
    rows = {"group": ["a", "a", "a", "b"], "account": ["x", "x", "y", "x"], "fee": [1, 2, 3, 4]}
    added = partial(sums.add_up, keys=["group"], sums=["fee"], accounts=True)
    assert stepped(added, pa.table(rows)).sort_by("group").to_pylist() == [
        {"group": "a", "transactions": 3, "fee": 6, "accounts": 2},
        {"group": "b", "transactions": 1, "fee": 4, "accounts": 1},
    ]
