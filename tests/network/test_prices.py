"""The price history, and arithmetic with it: known results, and properties."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonframes.network.prices import (
    BASECHAIN,
    MASTERCHAIN,
    PRICES,
    STORAGE,
    Prices,
    checked_prices,
    forward_fee,
    gas_bought,
    gas_fee,
    possible_prices,
    prices_at,
)

OLD, MIDDLE, NEW = BASECHAIN
MASTER = MASTERCHAIN[0]
WITHIN = {OLD: "2024-01-01", MIDDLE: "2025-01-01", NEW: "2026-06-01", MASTER: "2025-01-01"}
prices = st.sampled_from(PRICES)
gas = st.integers(0, 2_000_000)


def by(row):
    """Return the arguments that select a row of the history."""
    return {"workchain": row.workchain, "at": WITHIN[row]}


@pytest.mark.parametrize(
    ("row", "used", "fee"),
    [
        # Recorded transactions, and examples of the node's formula.
        (OLD, 3_308, 3_308_000),
        (MIDDLE, 3_308, 1_323_200),
        (NEW, 3_308, 220_534),  # 220 533 if rounded down
        (NEW, 1_000, 66_668),
        (MASTER, 3_308, 33_080_000),
        (OLD, 0, 100_000),
        (MIDDLE, 62, 40_000),
        (NEW, 100, 6_667),
        (NEW, 101, 6_734),
        (MIDDLE, 101, 40_400),
        (MASTER, 100, 1_000_000),
        (NEW, 1_000_000, 66_666_673),
        (OLD, 225_000_000, 225_000_000_000),
    ],
)
def test_known_gas_fees(row, used, fee):
    assert gas_fee(used, **by(row)) == fee
    assert gas_fee(used, workchain=row.workchain, prices=[row]) == fee


@pytest.mark.parametrize(
    ("row", "amount", "bought"),
    [
        (MIDDLE, 39_999, 0),
        (MIDDLE, 40_000, 100),
        (MIDDLE, 40_399, 100),
        (MIDDLE, 40_400, 101),
        (MIDDLE, 399_999_999, 999_999),
        (MIDDLE, 400_000_000, 1_000_000),
        (MIDDLE, 10**18, 1_000_000),
        (NEW, 0, 0),
        (NEW, 6_667, 100),
        (NEW, 66_668, 1_000),
        (NEW, 66_667, 999),
        (MASTER, 10**9, 100_000),
    ],
)
def test_known_gas_bought(row, amount, bought):
    assert gas_bought(amount, **by(row)) == bought


@pytest.mark.parametrize(
    ("row", "size", "fee", "collected"),
    [
        (OLD, (0, 0), 1_000_000, 333_328),
        (MIDDLE, (0, 0), 400_000, 133_331),
        (NEW, (0, 0), 66_667, 22_221),
        (MASTER, (0, 0), 10_000_000, 3_333_282),
        (MIDDLE, (1, 100), 480_000, 159_997),
        (NEW, (1, 100), 80_001, 26_666),
    ],
)
def test_known_forwarding_fees(row, size, fee, collected):
    assert forward_fee(*size, **by(row)) == fee
    assert fee * row.first_frac // 2**16 == collected


@given(prices, gas)
def test_a_gas_fee_buys_its_gas(row, used):
    bought = gas_bought(gas_fee(used, **by(row)), **by(row))
    assert bought == min(max(used, row.flat_gas_limit), row.gas_limit)


@given(prices, st.integers(0, 10**12))
def test_gas_bought_is_the_most_that_the_amount_pays(row, amount):
    bought = gas_bought(amount, **by(row))
    assert bought == 0 or gas_fee(bought, **by(row)) <= amount
    if bought < row.gas_limit:
        assert gas_fee(max(bought, row.flat_gas_limit) + 1, **by(row)) > amount


@given(prices, gas, gas)
def test_more_gas_never_costs_less(row, one, other):
    low, high = sorted((one, other))
    assert gas_fee(low, **by(row)) <= gas_fee(high, **by(row))
    assert gas_bought(low, **by(row)) <= gas_bought(high, **by(row))


@given(prices, st.integers(0, 8192), st.integers(0, 2**21))
def test_a_larger_message_never_costs_less(row, cells, bits):
    fee = forward_fee(cells, bits, **by(row))
    assert fee <= forward_fee(cells + 1, bits, **by(row))
    assert fee <= forward_fee(cells, bits + 1, **by(row))


def test_any_integer_type_is_accepted_and_python_ints_are_returned():
    assert type(gas_fee(np.int32(3_308))) is int
    assert type(gas_bought(pd.Series([220_534], dtype="Int64")[0])) is int


# ── when ─────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_moment_the_newest_prices_hold():
    assert prices_at() is NEW
    assert prices_at(workchain=-1) is MASTER
    assert prices_at(prices=reversed(PRICES)) is NEW


@pytest.mark.parametrize(
    ("at", "row"),
    [
        (OLD.valid_until, OLD),
        (MIDDLE.valid_from, MIDDLE),
        (MIDDLE.valid_until, MIDDLE),
        (NEW.valid_from, NEW),
        (0, OLD),
        (np.int64(1_780_000_000), NEW),
        ("2024-04-15T13:57:18Z", OLD),
        ("2024-04-15 13:57:18.900", OLD),
        ("2024-04-15T16:57:18+03:00", OLD),
        ("2025-01-01", MIDDLE),
        ("2024-04", OLD),
        (date(2025, 1, 1), MIDDLE),
        (datetime(2024, 4, 15, 13, 57, 18, tzinfo=UTC), OLD),
        (datetime(2024, 4, 15, 16, 57, 18, tzinfo=timezone(timedelta(hours=3))), OLD),
        (pd.Timestamp("2026-05-04", tz="UTC"), NEW),
        ("2026-04-23T09:17:47Z", MIDDLE),
        ("2026-05-03T13:00:38Z", NEW),
    ],
)
def test_a_moment_in_any_accepted_form(at, row):
    assert prices_at(at) is row


@pytest.mark.parametrize(
    "at",
    [
        OLD.valid_until + 1,
        MIDDLE.valid_from - 1,
        "2024-04-15T13:57:19Z",
        "2026-04-23T09:17:48Z",
        datetime(2026, 4, 29, 22, tzinfo=UTC),
        "2026-05-03T13:00:37Z",
        NEW.valid_from - 1,
    ],
)
def test_a_moment_between_rows_is_refused(at):
    for ask in (gas_fee, gas_bought):
        with pytest.raises(ValueError, match="no known price fits workchain 0 at 202"):
            ask(1_000, at=at)
    with pytest.raises(ValueError, match="no known price fits"):
        forward_fee(0, 0, at=at)
    assert gas_fee(1_000, workchain=-1, at=at) == 10_000_000


@pytest.mark.parametrize("workchain", [1, -2, "0", None])
def test_an_unknown_workchain_is_refused(workchain):
    with pytest.raises(ValueError, match=r"no known price fits workchain .* has no rows for"):
        gas_fee(1_000, workchain=workchain)


def test_possible_prices_are_both_neighbours_between_two_rows():
    ask = functools.partial(possible_prices, workchain=0, prices=PRICES)
    assert ask(MIDDLE.valid_until) == [MIDDLE]
    assert ask(MIDDLE.valid_until + 1) == ask(NEW.valid_from - 1) == [MIDDLE, NEW]
    assert ask(OLD.valid_until + 1) == [OLD, MIDDLE]
    assert ask(0) == [OLD]
    assert possible_prices(0, workchain=-1, prices=PRICES) == [MASTER]
    assert possible_prices(NEW.valid_from, workchain=0, prices=[OLD]) == []
    assert possible_prices(0, workchain=0, prices=[NEW]) == []


def test_prices_of_the_user():
    later = dataclasses.replace(
        NEW, name="later", valid_from=1_900_000_000, gas_price=2**16, flat_gas_price=100
    )
    mine = (*PRICES, later)
    assert gas_fee(3_308, prices=mine) == 3_308
    assert (
        gas_fee(3_308, prices=mine, at=1_900_000_000) == 3_308
    )  # the newest of two rows that cover it
    assert gas_fee(3_308, prices=mine, at=1_899_999_999) == 220_534
    gap = dataclasses.replace(MIDDLE, valid_from=OLD.valid_until + 1)
    assert gas_fee(3_308, prices=(OLD, gap, NEW), at="2024-04-20") == 1_323_200


@pytest.mark.parametrize(
    ("at", "error", "says"),
    [
        (datetime(2025, 1, 1), ValueError, "no time zone"),  # noqa: DTZ001 - refused for it
        (pd.Timestamp("2025-01-01"), ValueError, "no time zone"),
        ("yesterday", ValueError, "at is a datetime .* not 'yesterday'"),
        (1_780_000_000_000, ValueError, "unix seconds"),
        (10**30, ValueError, "unix seconds"),
        (1.78e9, TypeError, "at is a datetime"),
        (True, TypeError, "at is a datetime"),
    ],
)
def test_invalid_moments_are_refused(at, error, says):
    with pytest.raises(error, match=says):
        gas_fee(1_000, at=at)


@pytest.mark.parametrize("wrong", [1.0, "1", True, None])
@pytest.mark.parametrize("ask", [gas_fee, gas_bought])
def test_other_values_than_natural_numbers_are_refused(ask, wrong):
    with pytest.raises(TypeError, match="must be an int, not"):
        ask(wrong)
    with pytest.raises(ValueError, match="must not be negative: it is -1"):
        ask(-1)


def test_sizes_and_histories_are_checked():
    with pytest.raises(ValueError, match="bits must not be negative"):
        forward_fee(0, -1)
    with pytest.raises(TypeError, match="cells must be an int"):
        forward_fee(0.5, 0)
    for wrong in (["a"], 7, [None]):
        with pytest.raises(TypeError, match=r"rows of tonframes\.network\.prices\.Prices"):
            gas_fee(1, prices=wrong)
    with pytest.raises(ValueError, match="at least one row"):
        gas_fee(1, prices=[])


def test_a_generator_of_prices_is_a_history():
    assert checked_prices(row for row in PRICES) == PRICES
    assert checked_prices(NEW) == (NEW,)
    assert checked_prices() is PRICES
    for ask in (gas_fee, gas_bought):
        assert ask(70_000, prices=(row for row in PRICES)) == ask(70_000)
    assert forward_fee(1, 100, prices=(row for row in PRICES)) == forward_fee(1, 100)
    with pytest.raises(ValueError, match="at least one row"):
        gas_fee(1, prices=(row for row in ()))


@pytest.mark.parametrize("ask", [gas_fee, gas_bought, forward_fee, prices_at])
def test_help_begins_with_a_short_signature(ask):
    assert inspect.signature(ask).parameters["prices"].default is None
    assert len(str(inspect.signature(ask))) < 200


# ── the history ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("row", "flat", "gas", "message", "one_cell_of_100_bits"),
    [
        (BASECHAIN[0], 100_000, 3_308_000, 1_000_000, 1_200_000),
        (BASECHAIN[1], 40_000, 1_323_200, 400_000, 480_000),
        (BASECHAIN[2], 6_667, 220_534, 66_667, 80_001),
        (MASTERCHAIN[0], 1_000_000, 33_080_000, 10_000_000, 12_000_000),
    ],
    ids=lambda value: value.name if isinstance(value, Prices) else "",
)
def test_known_fees(row, flat, gas, message, one_cell_of_100_bits):
    assert row.flat_gas_price == flat
    assert flat + -(-(3_308 - row.flat_gas_limit) * row.gas_price // 65_536) == gas
    assert row.lump_price == message
    size = row.cell_price + 100 * row.bit_price
    assert message + -(-size // 65_536) == one_cell_of_100_bits


def test_rows_follow_each_other():
    assert PRICES == BASECHAIN + MASTERCHAIN
    assert {row.workchain for row in BASECHAIN} == {0}
    assert {row.workchain for row in MASTERCHAIN} == {-1}
    assert BASECHAIN[0].valid_from is None
    assert BASECHAIN[-1].valid_until is None
    for row, following in pairwise(BASECHAIN):
        assert row.valid_until < following.valid_from
    assert [entry.valid_from for entry in STORAGE] == sorted(entry.valid_from for entry in STORAGE)
    assert datetime.fromtimestamp(STORAGE[1].valid_from, UTC) == datetime(
        2026, 4, 29, 22, tzinfo=UTC
    )


def test_rows_are_integers_and_cannot_be_changed():
    for row in PRICES:
        for field in dataclasses.fields(row):
            value = getattr(row, field.name)
            assert value is None or type(value) is (str if field.name == "name" else int)
    with pytest.raises(AttributeError):
        PRICES[0].gas_price = 1
