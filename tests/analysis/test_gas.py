"""Gas: what groups used, what stands out, and by which prices it was paid for."""

from __future__ import annotations

import dataclasses
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from parity import MOST_ENGINES, assert_same, collected, frame_of

import tonframes as tf
from tonframes.analysis.gas import gas_outliers, gas_summary, price_of
from tonframes.network.prices import BASECHAIN, GAS_LIMIT, MASTERCHAIN, PRICES
from tonframes.network.pricing import gas_fee

OLD, MIDDLE, NEW = BASECHAIN
MASTER = MASTERCHAIN[0]
LAST = 2**63 - 1
CODE = "account_state_code_hash_before"


def calls(gas, **columns):
    """Make transactions of the basechain that used so much gas; columns override."""
    gas = list(gas)
    count = range(len(gas))
    made = {
        "hash": [f"{place:04}" for place in count],
        "account": ["0:A" for _ in count],
        "lt": list(count),
        "now": [1_780_000_000 for _ in count],
        "block_workchain": [0 for _ in count],
        "compute_skipped": [None if used is None else False for used in gas],
        "compute_gas_used": gas,
        "compute_gas_fees": [None if used is None else gas_fee(used) for used in gas],
        "compute_vm_steps": [None if used is None else used // 40 for used in gas],
        "compute_gas_credit": [None for _ in count],
        CODE: ["C" for _ in count],
        **columns,
    }
    texts = ("hash", "account", CODE)
    kinds = {name: pa.string() if name in texts else pa.int64() for name in made}
    kinds["compute_skipped"] = pa.bool_()
    return pa.table({name: pa.array(made[name], kinds[name]) for name in made})


def nullable(table):
    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def one(table, **options):
    """Give the summary of one group as a dict."""
    (row,) = gas_summary(table, **options).to_pylist()
    return row


def nearest_rank(values, percent):
    values = sorted(values)
    return values[-(-len(values) * percent // 100) - 1]


# ── gas_summary ──────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.none() | st.integers(0, 1_000_000) | st.sampled_from([62, 3308]), min_size=1))
def test_a_summary_agrees_with_plain_python(gas):
    ran = [used for used in gas if used is not None]
    fees, steps = sum(map(gas_fee, ran)), sum(used // 40 for used in ran)
    assert one(calls(gas)) == {
        "transactions": len(gas),
        "calls": len(ran),
        "skipped": 0,
        "free": 0,
        "gas_used": sum(ran),
        "gas_mean": pytest.approx(sum(ran) / len(ran)) if ran else None,
        "gas_median": nearest_rank(ran, 50) if ran else None,
        "gas_p95": nearest_rank(ran, 95) if ran else None,
        "gas_max": max(ran) if ran else None,
        "gas_fees": fees,
        "price_per_gas": pytest.approx(fees / sum(ran)) if sum(ran) else None,
        "limit_use_max": pytest.approx(max(ran) / 1_000_000) if ran else None,
        "vm_steps": steps,
        "gas_per_step": pytest.approx(sum(ran) / steps) if steps else None,
    }


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 50)), min_size=1))
def test_quantiles_are_per_group_and_null_is_a_group(rows):
    codes, gas = zip(*rows, strict=True)
    summary = gas_summary(calls(gas, **{CODE: codes}), by=CODE)
    groups = {}
    for code, used in rows:
        groups.setdefault(code, []).append(used)
    found = {row[CODE]: (row["gas_median"], row["gas_p95"]) for row in summary.to_pylist()}
    expected = {
        code: (nearest_rank(used, 50), nearest_rank(used, 95)) for code, used in groups.items()
    }
    assert found == expected
    assert summary["gas_median"].type == summary["gas_p95"].type == pa.int64()


def test_skipped_and_missing_phases_are_not_calls():
    table = calls([100, None, None], compute_skipped=[False, True, None])
    row = one(table)
    assert (row["transactions"], row["calls"], row["skipped"]) == (3, 1, 1)
    # The oldest services say otherwise whether it was skipped, and had gas where it was not.
    old = one(calls([100], compute_skipped=[None]))
    assert (old["calls"], old["skipped"], old["gas_used"]) == (1, 0, 100)


def test_special_accounts_have_gas_and_no_limit():
    row = one(
        calls(
            [6_464, 0, 3_308],  # plain, exchanged, and an ordinary account of the masterchain
            block_workchain=[-1, -1, -1],
            compute_gas_fees=[0, 2_911, 33_080_000],
            compute_vm_steps=[144, 65, 74],
        )
    )
    assert (row["calls"], row["free"], row["gas_used"]) == (3, 2, 6_464 + 2_911 + 3_308)
    assert (row["gas_fees"], row["limit_use_max"]) == (33_080_000, 0.003308)
    free = one(calls([5_000_000], block_workchain=[-1], compute_gas_fees=[0]))
    assert (free["limit_use_max"], free["price_per_gas"]) == (None, 0.0)


def test_the_limit_is_that_of_every_row_of_prices():
    assert {row.gas_limit for row in PRICES} == {GAS_LIMIT}


def test_groups_are_sorted_by_cost(blocks):
    summary = gas_summary(blocks.transactions, blocks.messages, by=["opcode", "block_workchain"])
    assert summary.gas_fees.is_monotonic_decreasing
    assert list(summary.columns[:3]) == ["opcode", "block_workchain", "transactions"]


def test_groups_add_up_to_the_whole(blocks):
    sums = ["transactions", "calls", "skipped", "free", "gas_used", "gas_fees", "vm_steps"]
    whole = gas_summary(blocks.transactions)
    for by in ("account", "day", ["compute_exit_code", "descr"]):
        groups = gas_summary(blocks.transactions, by=by)
        assert groups[sums].sum().to_list() == whole[sums].iloc[0].to_list()
        assert groups.gas_max.max() == whole.gas_max[0]


def test_empty_input_has_the_same_columns(blocks):
    for call in (gas_summary, gas_outliers, price_of):
        full, empty = call(blocks.transactions), call(blocks.transactions.iloc[:0])
        assert_frame_equal(empty, full.iloc[:0].reset_index(drop=True), check_index_type=False)


# ── gas_outliers ─────────────────────────────────────────────────────────────────────────────────


def test_outliers_are_found():
    gas = [100] * 20 + [301, 300, 5_000] + [9_000] * 20
    table = calls(gas, **{CODE: ["C"] * 23 + ["D"] * 20})
    found = gas_outliers(table)
    assert found.select(["hash", "gas_used", "gas_median", "ratio", "calls"]).to_pylist() == [
        {"hash": "0022", "gas_used": 5_000, "gas_median": 100, "ratio": 50.0, "calls": 23},
        {"hash": "0020", "gas_used": 301, "gas_median": 100, "ratio": 3.01, "calls": 23},
    ]
    assert gas_outliers(table, factor=3.01).num_rows == 1
    assert gas_outliers(table, min_calls=24).num_rows == 0
    together = gas_outliers(table, by="account", factor=1.5)
    assert together.num_rows == 21
    assert together["gas_median"].unique().to_pylist() == [301]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 30)), min_size=1),
    st.sampled_from([1, 1.5, 3]),
    st.integers(1, 5),
)
def test_outliers_are_those_that_plain_python_finds(rows, factor, min_calls):
    codes, gas = zip(*rows, strict=True)
    found = gas_outliers(calls(gas, **{CODE: codes}), factor=factor, min_calls=min_calls)
    groups = {code: [used for other, used in rows if other == code] for code in codes}
    expected = {
        f"{place:04}": (used, nearest_rank(groups[code], 50), len(groups[code]))
        for place, (code, used) in enumerate(rows)
        if len(groups[code]) >= min_calls and used > factor * nearest_rank(groups[code], 50)
    }
    assert expected == {
        row["hash"]: (row["gas_used"], row["gas_median"], row["calls"]) for row in found.to_pylist()
    }
    assert all((row["ratio"] is None) == (row["gas_median"] == 0) for row in found.to_pylist())


def test_external_and_internal_calls_are_compared_apart():
    gas = [62] * 30 + [3_308] * 20
    assert gas_outliers(calls(gas), by=CODE).num_rows == 20
    assert gas_outliers(calls(gas, compute_gas_credit=[None] * 30 + [10_000] * 20)).num_rows == 0


def test_unknown_code_has_no_outliers():
    gas = [62] * 30 + [3_308]
    table = calls(gas, **{CODE: [None] * 31})
    assert gas_outliers(table).num_rows == 0
    assert gas_outliers(table, by=[]).num_rows == 1
    assert gas_outliers(table, by="compute_gas_credit").num_rows == 1  # null is a value there


def test_skipped_calls_have_no_part_in_what_is_usual():
    gas = [None] * 30 + [62] * 20 + [3_308]
    (row,) = gas_outliers(calls(gas)).to_pylist()
    assert (row["calls"], row["gas_median"]) == (21, 62)


def test_price_of_keeps_the_index_and_changes_no_argument():
    frame = nullable(calls([100] * 20 + [5_000])).set_axis(range(7, 28))
    before = frame.copy()
    assert price_of(frame).index.equals(frame.index)
    assert gas_outliers(frame).hash.to_list() == ["0020"]
    assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"factor": 0.5}, ValueError, "at least 1, not 0.5"),
        ({"factor": float("nan")}, ValueError, "at least 1, not nan"),
        ({"factor": "3"}, TypeError, "factor is a number, not '3'"),
        ({"factor": True}, TypeError, "factor is a number"),
        ({"min_calls": 0}, ValueError, "min_calls is at least 1, not 0"),
        ({"min_calls": 2.0}, TypeError, "min_calls is an int"),
        ({"by": "opcode"}, ValueError, "gas_outliers cannot group by 'opcode'"),
    ],
)
def test_wrong_arguments_are_named(options, error, says):
    with pytest.raises(error, match=says):
        gas_outliers(calls([1]), **options)


# ── price_of ─────────────────────────────────────────────────────────────────────────────────────


def priced(gas, fees, **columns):
    """Give price and reason of each of a few transactions."""
    found = price_of(calls(gas, compute_gas_fees=fees, **columns))
    return [(row["price"], row["reason"]) for row in found.to_pylist()]


@given(
    st.sampled_from(PRICES),
    st.integers(0, 2_000_000) | st.integers(0, 225_000_000),
    st.integers(0, 2_000_000_000),
)
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


@pytest.mark.parametrize("engine", MOST_ENGINES)
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
    bodies = tf.synthetic_blocks(8, transactions_per_block=150, start=start)
    frames = [tf.parse_blocks(json.dumps(body).encode()).transactions for body in bodies]
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


def test_recorded_gas_adds_up(transactions):
    summary = gas_summary(transactions, by="block_workchain").set_index("block_workchain")
    assert summary.calls.to_dict() == {0: 113, -1: 3}
    assert summary.skipped.to_dict() == {0: 24, -1: 0}
    assert summary.gas_used.sum() == transactions.compute_gas_used.sum()
    assert summary.gas_fees[-1] == 0


# ── frames of any kind ───────────────────────────────────────────────────────────────────────────


def test_the_lake_has_narrower_columns():
    ours = calls([100] * 20 + [5_000], compute_skipped=[False] * 21)
    narrow = {"compute_vm_steps", "block_workchain", "now"}
    fields = [
        pa.field(field.name, pa.int32() if field.name in narrow else field.type)
        for field in ours.schema
    ]
    lake = ours.cast(pa.schema(fields))
    for call in (gas_summary, price_of):
        assert_same(call(ours), call(lake))
    found = gas_outliers(lake)
    assert found["gas_used"].to_pylist() == [5_000]
    assert found.schema == gas_outliers(ours).schema


def outliers_of_all(frame):
    return gas_outliers(frame, by=[])


@pytest.mark.parametrize("call", [gas_summary, outliers_of_all, price_of])
def test_wrong_frames_are_named(call, blocks):
    name = call.__name__.replace("outliers_of_all", "gas_outliers")
    with pytest.raises(ValueError, match=f"{name} needs the column 'compute_gas_used'"):
        call(nullable(calls([1]).drop("compute_gas_used")))
    with pytest.raises(TypeError, match="dtype_backend"):
        call(nullable(calls([1])).astype({"compute_gas_used": float}))
    with pytest.raises(ValueError, match="looks like messages"):
        call(blocks.messages)
    with pytest.raises(TypeError, match=f"{name} takes transactions as a frame"):
        call([1])


@pytest.mark.parametrize("call", [gas_summary, gas_outliers])
def test_frames_of_two_engines_are_refused(call, blocks):
    messages = pl.from_arrow(blocks.arrow("messages"))
    with pytest.raises(TypeError, match="one engine"):
        call(blocks.transactions, messages, by="opcode")
