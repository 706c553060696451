"""Gas: what groups used, and which calls used far more than usual."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from calls import CODE, calls
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from parity import TWO_ENGINES, assert_same, collected, frame_of

import tonframes as tf
from tonframes.analysis.gas import gas_outliers, gas_summary, price_of
from tonframes.network.prices import BASECHAIN, GAS_LIMIT, MASTERCHAIN, PRICES, gas_fee

OLD, MIDDLE, NEW = BASECHAIN
MASTER = MASTERCHAIN[0]


def nullable(table):
    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def one(table, **options):
    """Return the summary of one group as a dict."""
    (row,) = gas_summary(table, **options).to_pylist()
    return row


def nearest_rank(values, percent):
    values = sorted(values)
    return values[-(-len(values) * percent // 100) - 1]


# ── gas_summary ──────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.none() | st.integers(0, 1_000_000) | st.sampled_from([62, 3308]), min_size=1))
def test_a_summary_agrees_with_plain_python(gas):
    ran = [used for used in gas if used is not None]
    known = bool(ran)  # the compute phase of the others is missing
    fees, steps = sum(map(gas_fee, ran)), sum(used // 40 for used in ran)
    assert one(calls(gas)) == {
        "transactions": len(gas),
        "calls": len(ran),
        "skipped": 0,
        "free": 0,
        "gas_used": sum(ran) if known else None,
        "gas_mean": pytest.approx(sum(ran) / len(ran)) if ran else None,
        "gas_median": nearest_rank(ran, 50) if ran else None,
        "gas_p95": nearest_rank(ran, 95) if ran else None,
        "gas_max": max(ran) if ran else None,
        "gas_fees": fees if known else None,
        "price_per_gas": pytest.approx(fees / sum(ran)) if sum(ran) else None,
        "limit_use_max": pytest.approx(max(ran) / 1_000_000) if ran else None,
        "vm_steps": steps if known else None,
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


@pytest.mark.parametrize("engine", [*TWO_ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
def test_gas_of_missing_phases_is_unknown_on_every_engine(engine, tmp_path):
    table = calls(
        [100, None, None, None, 100],
        account=["some", "some", "none", "skipped", "no fees"],
        compute_skipped=[False, None, None, True, False],
        compute_gas_fees=[40_000, None, None, None, None],
        compute_vm_steps=[2, None, None, None, 2],
    )
    table = pa.Table.from_pandas(nullable(table), preserve_index=False)  # says Int64 to pandas
    prices = pd.Series([2.0], index=pd.to_datetime([0], unit="s"))
    frame = frame_of(engine, table, tmp_path)
    found = collected(engine, gas_summary(frame, by="account", prices=prices)).to_pylist()
    sums = {row["account"]: (row["gas_used"], row["gas_fees"], row["vm_steps"]) for row in found}
    assert sums == {
        "some": (100, 40_000, 2),
        "none": (None, None, None),
        "skipped": (0, 0, 0),
        "no fees": (100, None, 2),
    }
    priced = {row["account"]: row["gas_fees_usd"] for row in found}
    dollars = pytest.approx(40_000 * 2e-9)
    assert priced == {"some": dollars, "none": None, "skipped": 0, "no fees": None}


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


KIND = (CODE, "compute_gas_credit")


def test_a_call_that_ran_into_the_limit_is_found_among_all_calls(blocks):
    found = gas_outliers(blocks)
    assert found.gas_used.to_list() == [GAS_LIMIT] * 2
    every = gas_summary(blocks).iloc[0]
    assert set(found.gas_median) == {every.gas_median}
    assert set(found.calls) == {every.calls}
    assert_frame_equal(found, gas_outliers(blocks.transactions))


def test_calls_of_frequent_kinds_are_not_outliers(recorded):
    held = tf.read_transactions(tf.sample("histories"))
    for transactions in (held.transactions, recorded.frames[0].drop_duplicates("hash")):
        assert gas_outliers(transactions).empty
        assert len(transactions) > 100


def test_outliers_are_found():
    gas = [100] * 20 + [301, 300, 5_000] + [9_000] * 20
    table = calls(gas, **{CODE: ["C"] * 23 + ["D"] * 20})
    found = gas_outliers(table, by=KIND, factor=3)
    assert found.select(["hash", "gas_used", "gas_median", "ratio", "calls"]).to_pylist() == [
        {"hash": "0022", "gas_used": 5_000, "gas_median": 100, "ratio": 50.0, "calls": 23},
        {"hash": "0020", "gas_used": 301, "gas_median": 100, "ratio": 3.01, "calls": 23},
    ]
    assert gas_outliers(table, by=KIND, factor=3.01).num_rows == 1
    assert gas_outliers(table, by=KIND).num_rows == 1
    assert gas_outliers(table, by=KIND, min_calls=24).num_rows == 0
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
    table = calls(gas, **{CODE: codes})
    found = gas_outliers(table, by=KIND, factor=factor, min_calls=min_calls)
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
    table = calls(gas, compute_gas_credit=[None] * 30 + [10_000] * 20)
    assert gas_outliers(table, by=KIND).num_rows == 0


def test_unknown_code_has_no_outliers():
    gas = [62] * 30 + [3_308]
    table = calls(gas, **{CODE: [None] * 31})
    assert gas_outliers(table, by=KIND).num_rows == 0
    assert gas_outliers(table).num_rows == 1
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


# ── recorded transactions, the public lake, wrong frames ──────────────────────────────────────────


@pytest.fixture
def transactions(recorded):
    """Return all recorded transactions."""
    return recorded.frames[0].drop_duplicates("hash")


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


@pytest.mark.parametrize("call", [gas_summary, gas_outliers, price_of])
def test_wrong_frames_are_named(call, blocks):
    name = call.__name__
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
