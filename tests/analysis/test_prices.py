"""The prices at which transactions paid for gas."""

from __future__ import annotations

import dataclasses
import json

import pandas as pd
import pytest
from calls import LAST, calls
from chain import synthetic_blocks
from hypothesis import given
from hypothesis import strategies as st
from parity import TWO_ENGINES, collected, frame_of
from slow import FEW

import tonframes as tf
from tonframes.analysis import price_of
from tonframes.network.prices import BASECHAIN, MASTERCHAIN, PRICES, gas_fee

OLD, MIDDLE, NEW = BASECHAIN
MASTER = MASTERCHAIN[0]


def priced(gas, fees, **columns):
    """Return price and reason of each transaction."""
    found = price_of(calls(gas, compute_gas_fees=fees, **columns))
    return [(row["price"], row["reason"]) for row in found.to_pylist()]


@given(
    st.sampled_from(PRICES),
    st.integers(0, 2_000_000) | st.integers(0, 225_000_000),
    st.integers(0, 2_000_000_000),
)
@FEW
def test_the_price_of_a_fee_is_found_at_any_time(row, used, now):
    fee = gas_fee(used, workchain=row.workchain, prices=[row])
    here = {"block_workchain": [row.workchain] * 3, "now": [now] * 3}
    found = priced([used] * 3, [fee - 1, fee, fee + 1], **here)
    assert found == [(None, "none"), (row.name, None), (None, "none")]


def test_the_reason_is_given_where_there_is_no_price():
    table = calls(
        [None, None, 5, 0, 1_000, 1_000, None],
        compute_skipped=[True, None, False, False, False, False, False],
        compute_gas_fees=[None, None, 0, 777, 0, None, None],
        compute_vm_steps=[None, None, 1, 9, 1, 1, None],
        block_workchain=[0, 0, -1, -1, 0, 0, 0],
    )
    reasons = price_of(table)["reason"].to_pylist()
    assert reasons == ["skipped", "unknown", "free", "free", "none", "unknown", "unknown"]
    assert price_of(table)["price"].null_count == len(reasons)


def test_the_price_in_force_is_preferred():
    then = dataclasses.replace(NEW, name="then", valid_from=0, valid_until=999)
    again = dataclasses.replace(NEW, name="again", valid_from=2_000)
    at = {"now": [0, 999, 1_500, 2_000]}
    table = calls([3_308] * 4, **at)
    found = price_of(table, prices=(then, again)).to_pylist()
    expected = [("then", None), ("then", None), (None, "several"), ("again", None)]
    assert [(row["price"], row["reason"]) for row in found] == expected
    both = price_of(table, prices=(NEW, dataclasses.replace(NEW, name="twin"), MIDDLE))
    assert both["reason"].to_pylist() == ["several"] * 4


def test_prices_are_rows_of_a_history():
    for wrong in ([], ["a"], 7):
        with pytest.raises((TypeError, ValueError), match=r"tonframes\.network\.prices\.Prices"):
            price_of(calls([1]), prices=wrong)
    mine = dataclasses.replace(NEW, workchain=5, name="mine")
    assert price_of(calls([1], block_workchain=[5]), prices=iter([mine]))["price"][0].as_py() == (
        "mine"
    )


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_very_large_numbers_are_handled(engine, tmp_path):
    gas = [0, 100, 3_308, LAST, 2**50, 1, 1, -5]
    fees = [6_667, 6_667, 220_534, LAST, 6_667, LAST, 2**60, 6_667]
    table = calls([1] * 8, compute_gas_used=gas, compute_gas_fees=fees)
    found = collected(engine, price_of(frame_of(engine, table, tmp_path)))
    names = dict(zip(found["hash"].to_pylist(), found["price"].to_pylist(), strict=True))
    assert [names[f"{place:04}"] for place in range(8)] == [NEW.name] * 3 + [None] * 5


@pytest.mark.parametrize("start", [1_704_067_200, 1_735_689_600, 1_780_000_000])
def test_the_synthetic_chain_has_the_prices_of_its_time(start):
    names = {1_704_067_200: OLD.name, 1_735_689_600: MIDDLE.name, 1_780_000_000: NEW.name}
    answers = synthetic_blocks(8, transactions_per_block=150, start=start)
    frames = [tf.parse_blocks(json.dumps(answer).encode()).transactions for answer in answers]
    transactions = pd.concat(frames, ignore_index=True)
    found = price_of(transactions)
    assert set(found.reason.dropna()) <= {"free", "skipped"}
    ran = transactions.compute_skipped.eq(False)
    assert (found.reason == "skipped").equals(transactions.compute_skipped.astype(bool))
    by_chain = {0: {names[start]}, -1: {MASTER.name}}
    for workchain, expected in by_chain.items():
        own = found[ran & (transactions.block_workchain == workchain)]
        assert set(own.price.dropna()) <= expected
    assert found.price.notna().sum() > 800


@pytest.fixture
def transactions(recorded):
    """Return all recorded transactions."""
    return recorded.frames[0].drop_duplicates("hash")


def test_every_recorded_transaction_paid_by_a_known_price(transactions):
    assert len(transactions) == 140
    found = price_of(transactions)
    ran = ~transactions.compute_gas_used.isna()
    basechain = transactions.block_workchain == 0
    assert found.price[ran & basechain].notna().all()
    assert set(found.reason[~ran]) == {"skipped"}
    special = transactions.block_workchain == -1
    assert special.sum() == 3
    assert set(found.reason[special]) == {"free"}
    assert found.price.value_counts().to_dict() == {MIDDLE.name: 97, OLD.name: 16}
    assert (transactions.now[found.price == OLD.name] <= OLD.valid_until).all()
    assert (transactions.now[found.price == MIDDLE.name] >= MIDDLE.valid_from).all()
