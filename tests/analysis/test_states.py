"""Rent from account states: the size of code and data, and what transactions collected."""

from __future__ import annotations

import json
import time

import pandas as pd
import pyarrow as pa
import pytest
from chain.cells import Cell
from pandas.testing import assert_frame_equal
from parity import collected, frame_of

import tonframes as tf

pytest.importorskip("pytoniq_core")

ELECTOR_AND_CONFIG = ["-1:" + "3" * 64, "-1:" + "5" * 64]

#: A wallet v3: 888 bits of code, 320 of data.
CODE, DATA = Cell(1, 888).to_base64(), Cell(2, 320).to_base64()


def state(**more):
    row = {
        "address": "0:" + "A" * 64,
        "status": "active",
        "balance": 2**31,
        "code_boc": CODE,
        "data_boc": DATA,
        "fetched_at": pd.Timestamp("2026-04-01", tz="UTC"),
    }
    return pd.DataFrame([row | more]).astype({"balance": "Int64"})


@pytest.mark.parametrize("second", ["2026-06-01", 1_780_000_000, pd.Timestamp("2026-06-01")])
def test_moments_of_several_types_are_one_clear_error(second):
    states = pd.concat([state(), state(address="0:" + "B" * 64)], ignore_index=True)
    states["fetched_at"] = pd.Series([states.fetched_at[0], second], dtype=object)
    with pytest.raises(TypeError, match="storage_rates needs moments in the column 'fetched_at'"):
        tf.storage_rates(states)


def test_a_wallet_has_the_size_that_the_network_counts():
    # 1315 bits and 3 cells: what explorers show for a wallet v3 with a balance of 4 bytes.
    found = tf.storage_rates(state()).iloc[0]
    assert (found.cells, found.bits) == (3, 1315)
    per_day = (1315 * 1 + 3 * 500) * 86_400 / 2**16
    assert found.rent_per_day == per_day
    assert found.days_left == pytest.approx(2**31 / per_day, rel=1e-15)
    assert found.days_to_freeze == pytest.approx((2**31 + 10**8) / per_day, rel=1e-15)


def test_the_prices_are_those_of_the_time_and_the_workchain():
    later = tf.storage_rates(state(fetched_at=pd.Timestamp("2026-06-01", tz="UTC")))
    assert later.rent_per_day[0] == 3 * 135 * 86_400 / 2**16
    master = tf.storage_rates(state(address="-1:" + "A" * 64))
    assert master.rent_per_day[0] == (1315 * 1000 + 3 * 500_000) * 86_400 / 2**16


def test_cells_that_are_the_same_count_once():
    inner = Cell(7, 10)
    found = tf.storage_rates(
        state(
            code_boc=Cell(1, 3, (inner, inner)).to_base64(),
            data_boc=Cell(2, 3, (inner,)).to_base64(),
        )
    )
    assert found.cells[0] == 1 + 3
    assert found.bits[0] == 75 + 32 + 3 + 3 + 10


@pytest.mark.parametrize(
    "more", [{"code_boc": None}, {"data_boc": "x"}, {"balance": None}, {"status": None}]
)
def test_what_is_unknown_is_null(more):
    found = tf.storage_rates(state(**more))
    assert found[["rent_per_day", "days_left", "days_to_freeze", "cells"]].isna().all(axis=None)


def test_before_1970_no_prices_are_known():
    found = tf.storage_rates(state(fetched_at=pd.Timestamp("1969-12-31", tz="UTC")))
    assert found.now.to_list() == [-86_400]
    assert found[["rent_per_day", "days_left", "days_to_freeze"]].isna().all(axis=None)


def test_the_size_of_a_state_needs_no_time():
    found = tf.storage_rates(state(fetched_at=pd.NaT))
    assert found[["cells", "bits"]].to_numpy().tolist() == [[3, 1315]]
    assert found[["now", "rent_per_day", "days_left", "days_to_freeze"]].isna().all(axis=None)


def test_states_that_were_parsed_have_the_same_size_as_those_that_were_fetched():
    fetched = tf.read_accounts(tf.sample())
    accounts = json.loads(fetched.to_json())["accounts"]
    sizes = ["account", "cells", "bits"]
    found = tf.storage_rates(tf.parse_accounts({"accounts": accounts}))[sizes]
    assert found.cells.notna().sum() > 150
    expected = tf.storage_rates(fetched)[sizes]
    by_account = [each.sort_values("account", ignore_index=True) for each in (found, expected)]
    assert_frame_equal(*by_account)


def test_special_accounts_pay_no_rent_and_come_last():
    found = tf.storage_rates(tf.read_accounts(tf.sample()))
    assert found.account[found.special].to_list() == ELECTOR_AND_CONFIG
    special = found.tail(2)
    assert special.special.all()
    assert (special.rent_per_day == 0).all()
    assert special[["days_left", "days_to_freeze"]].isna().all(axis=None)
    assert special.cells.notna().all()
    assert found.rent_per_day[0] > 0
    unknown = tf.storage_rates(pd.concat([state(), state(address=ELECTOR_AND_CONFIG[0])]))
    assert unknown.special.to_list() == [False, True]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no tzset")
def test_a_moment_without_a_zone_is_in_utc(monkeypatch):
    expected = tf.storage_rates(state(fetched_at=pd.Timestamp("2026-06-01", tz="UTC")))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        found = tf.storage_rates(state(fetched_at=pd.Timestamp("2026-06-01")))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert_frame_equal(found, expected)


def test_states_without_an_address_are_left_out():
    found = tf.storage_rates(pd.concat([state(address=None), state()]))
    assert_frame_equal(found, tf.storage_rates(state()))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_newest_state_of_an_account_counts(library, tmp_path):
    times = [pd.Timestamp(day, tz="UTC") for day in ("2026-04-02", "2026-04-03", "2026-04-01")]
    frames = [state(fetched_at=at, balance=at.day * 10**9) for at in times]
    states = pa.Table.from_pandas(pd.concat(frames), preserve_index=False)
    found = collected(library, tf.storage_rates(frame_of(library, states, tmp_path)))
    assert found["balance"].to_pylist() == [3 * 10**9]


def test_the_rent_of_the_sample_is_what_its_transactions_paid():
    states = tf.storage_rates(tf.read_accounts(tf.sample()))
    paid = tf.storage_rates(tf.read_blocks(tf.sample()))
    # On the basechain only cells cost rent. The sample counts 4 bits less than the network.
    paid = paid[(paid.intervals > 0) & paid.steady & paid.account.str.startswith("0:")]
    both = paid.merge(states.dropna(subset="cells"), on="account", suffixes=("", "_of_state"))
    assert len(both) > 150
    too_high = both.rent_per_day - both.rent_per_day_of_state
    assert ((too_high >= -1e-6) & (too_high <= both.rent_error)).all()


def test_every_engine_gives_the_same():
    accounts = tf.read_accounts(tf.sample())
    expected = tf.storage_rates(accounts)
    assert_frame_equal(tf.storage_rates(accounts.accounts), expected)
    table = tf.storage_rates(accounts.arrow("accounts"))
    assert isinstance(table, pa.Table)
    pl = pytest.importorskip("polars")
    frame = pl.from_arrow(accounts.arrow("accounts"))
    assert tf.storage_rates(frame)["rent_per_day"].to_list() == table["rent_per_day"].to_pylist()
    assert table["account"].to_pylist() == expected.account.to_list()
    with pytest.raises(TypeError, match="collect the lazy frame first"):
        tf.storage_rates(frame.lazy())
