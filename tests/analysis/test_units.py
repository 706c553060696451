"""Units, and amounts in TON: what is in nanoton is converted, and nothing else."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal, assert_series_equal

import tonframes as tf
from tonframes.analysis.results import RESULTS
from tonframes.analysis.units import to_ton, unit_of
from tonframes.wire.schema import TABLES


def test_a_number_has_one_unit_over_all_tables_and_results():
    units = {}
    columns = [column for each in (*TABLES.values(), *RESULTS.values()) for column in each.columns]
    for column in columns:
        if str(column.kind.arrow) in ("int64", "double"):
            units.setdefault(column.name, set()).add(column.unit)
        elif not column.name.endswith("_exact"):  # digits as text have the unit of the number
            assert column.unit == "", column.name
    assert {name: found for name, found in units.items() if len(found) > 1} == {}
    assert {name: unit_of(name) for name in units} == {n: u for n, (u,) in units.items()}


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_amount_in_ton_is_the_nearest_float(nanoton):
    assert to_ton(nanoton) == nanoton / 10**9
    if abs(nanoton) < 2**53:
        assert round(to_ton(nanoton) * 10**9) == nanoton


def test_columns_keep_nulls_index_and_name():
    amounts = pd.Series([1_500_000_000, None], dtype="Int64", name="balance", index=["a", "b"])
    expected = pd.Series([1.5, None], dtype="Float64", name="balance", index=["a", "b"])
    assert_series_equal(to_ton(amounts), expected)


def test_columns_of_nanoton_are_converted_and_no_others():
    blocks = tf.read_blocks(tf.sample())
    summary = tf.fee_summary(blocks, by="opcode")
    found = to_ton(summary)
    assert_frame_equal(found[["opcode", "transactions"]], summary[["opcode", "transactions"]])
    assert_series_equal(found.cost, summary.cost / 10**9)
    for name in ("transactions", "messages"):
        units = tf.describe(name).set_index("column").unit
        frame = blocks.frame(name)
        dtypes = to_ton(frame).dtypes
        assert set(units.index[units == "nanoton"]) == set(dtypes.index[dtypes != frame.dtypes])


def test_of_other_frames_the_columns_are_named():
    frame = pd.DataFrame({"mine": [10**9], "source": ["x"], "cost": [5]})
    before = frame.copy()
    assert to_ton(frame, columns=["mine"]).to_dict("list") == {
        "mine": [1.0],
        "source": ["x"],
        "cost": [5],
    }
    assert_frame_equal(frame, before)
    with pytest.raises(ValueError, match=r"no column 'mein'. Did you mean 'mine'\?"):
        to_ton(frame, columns=["mein"])
    with pytest.raises(ValueError, match="knows no column of this frame"):
        to_ton(frame[["mine", "source"]])
    with pytest.raises(TypeError, match="put a single one into a list"):
        to_ton(frame, columns="mine")
    with pytest.raises(TypeError, match="columns= names columns of a frame"):
        to_ton(5, columns=["mine"])


def test_what_is_in_ton_is_not_converted_again():
    blocks = tf.read_blocks(tf.sample())
    with pytest.raises(TypeError, match="Is it in TON already"):
        to_ton(to_ton(tf.fee_breakdown(blocks)))


@pytest.mark.parametrize("wrong", [1.0, "1", True, None, pd.Series([1.0]), pd.Series(["1"])])
def test_what_is_no_amount_is_refused(wrong):
    with pytest.raises(TypeError, match="nanoton"):
        to_ton(wrong)


def test_amounts_of_every_engine_become_floats():
    import polars as pl

    expected = [1.5, None]
    amounts = [1_500_000_000, None]
    assert to_ton(pl.Series("a", amounts)).to_list() == expected
    assert to_ton(pa.chunked_array([amounts])).to_pylist() == expected
    assert to_ton(pa.chunked_array([[2**62 + 1]])).to_pylist() == [(2**62 + 1) / 10**9]
    assert to_ton(pl.LazyFrame({"cost": amounts})).collect()["cost"].to_list() == expected
    big = to_ton(pa.table({"cost": [2**62 + 1], "b": ["x"]}))
    assert big.to_pylist() == [{"cost": (2**62 + 1) / 10**9, "b": "x"}]
    decimals = pd.Series(amounts, dtype=pd.ArrowDtype(pa.decimal128(38, 0)))
    assert to_ton(decimals).to_list() == [1.5, pd.NA]
