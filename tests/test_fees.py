"""Fee arithmetic."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal, assert_series_equal

from tonframes.fees import to_ton, undo_gas_exchange


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_amount_in_ton_is_the_nearest_float(nanoton):
    assert to_ton(nanoton) == nanoton / 10**9
    if abs(nanoton) < 2**53:
        assert round(to_ton(nanoton) * 10**9) == nanoton


def test_columns_keep_nulls_index_and_name():
    amounts = pd.Series([1_500_000_000, None], dtype="Int64", name="balance", index=["a", "b"])
    expected = pd.Series([1.5, None], dtype="Float64", name="balance", index=["a", "b"])
    assert_series_equal(to_ton(amounts), expected)


def test_of_a_frame_every_column_of_integers_is_taken():
    frame = pd.DataFrame({"value": [10**9], "source": ["x"], "bounced": [True]})
    expected = pd.DataFrame({"value": [1.0], "source": ["x"], "bounced": [True]})
    before = frame.copy()
    assert_frame_equal(to_ton(frame), expected)
    assert_frame_equal(frame, before)


@pytest.mark.parametrize("wrong", [1.0, "1", True, None, pd.Series([1.0]), pd.Series(["1"])])
def test_what_is_no_amount_is_refused(wrong):
    with pytest.raises(TypeError, match="nanoton"):
        to_ton(wrong)


def rows(**columns):
    dtypes = {"compute_gas_used": "Int64", "compute_gas_fees": "Int64", "compute_vm_steps": "Int64"}
    return pd.DataFrame(columns).astype(dtypes)


def test_the_gas_exchange_is_undone_where_it_must_have_happened():
    frame = rows(
        block_workchain=[-1, -1, -1, 0, -1],
        compute_gas_used=[0, 0, 6464, 0, None],
        compute_gas_fees=[6464, 1_000_000, 0, 40_000, None],
        compute_vm_steps=[99, 0, 99, 99, None],
    )
    # Row 1 is an active account without code: flat price and no step.
    true = undo_gas_exchange(frame)
    assert true.compute_gas_used.to_list() == [6464, 0, 6464, 0, pd.NA]
    assert true.compute_gas_fees.to_list() == [0, 1_000_000, 0, 40_000, pd.NA]
    assert frame.compute_gas_fees[0] == 6464
