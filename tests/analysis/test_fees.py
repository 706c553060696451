"""Fee arithmetic."""

from __future__ import annotations

import pandas as pd
import parity
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal
from parity import TWO_ENGINES, lake, rows_of, synthetic

from tonframes.analysis import undo_gas_exchange
from tonframes.analysis.fees import COMPONENTS, fee_breakdown, fee_summary
from tonframes.wire.schema import TRANSACTIONS


def gas_rows(**columns):
    dtypes = {"compute_gas_used": "Int64", "compute_gas_fees": "Int64", "compute_vm_steps": "Int64"}
    return pd.DataFrame(columns).astype(dtypes)


def test_the_gas_exchange_is_undone():
    frame = gas_rows(
        block_workchain=[-1, -1, -1, 0, -1],
        compute_gas_used=[0, 0, 6464, 0, None],
        compute_gas_fees=[6464, 1_000_000, 0, 40_000, None],
        compute_vm_steps=[99, 0, 99, 99, None],
    )
    # Row 1 is an active account without code: flat price and no step.
    true = undo_gas_exchange(frame.assign(more="kept"))
    assert true.compute_gas_used.to_list() == [6464, 0, 6464, 0, pd.NA]
    assert true.compute_gas_fees.to_list() == [0, 1_000_000, 0, 40_000, pd.NA]
    assert true.columns.to_list() == [*frame.columns, "more"]
    assert frame.compute_gas_fees[0] == 6464


AT = 1_764_000_000  # in November 2025
DECEMBER_2023 = 1_700_000_000
BEFORE_VERSION_10 = 1_740_000_000

#: An ordinary transaction: 5 of rent, 40 of gas, 3 of action fees.
USUAL = {
    "hash": "h",
    "now": AT,
    "total_fees": 48,
    "storage_fees_collected": 5,
    "credit_due_fees_collected": None,
    "compute_skipped": False,
    "compute_success": True,
    "compute_gas_fees": 40,
    "compute_gas_used": 10,
    "compute_gas_credit": None,
    "compute_vm_steps": 7,
    "action_success": True,
    "action_result_code": 0,
    "action_total_action_fees": 3,
    "bounce": None,
    "bounce_msg_fees": None,
    "block_workchain": 0,
}
NO_ACTION = {"action_success": None, "action_result_code": None, "action_total_action_fees": None}
NO_RUN = {
    "compute_success": None,
    "compute_gas_fees": None,
    "compute_gas_used": None,
    "compute_vm_steps": None,
    **NO_ACTION,
}


def frame_of(*rows):
    kinds = {column.name: column.kind for column in TRANSACTIONS.columns}
    dtypes = {
        name: {"int64": "Int64", "bool": "boolean", "string": "str"}[str(kinds[name].arrow)]
        for name in USUAL
    }
    return pd.DataFrame([USUAL | row for row in rows]).astype(dtypes)


def parts_of(**row):
    fees = fee_breakdown(frame_of(row)).iloc[0]
    return {name: None if pd.isna(fees[name]) else int(fees[name]) for name in PARTS_SHOWN}


PARTS_SHOWN = [*COMPONENTS, "residual"]


def parts(**known):
    return dict.fromkeys(PARTS_SHOWN, 0) | {"storage": 5, "gas": 40, "action": 3} | known


KNOWN = {
    "the usual": ({}, parts()),
    "a residual": ({"total_fees": 50}, parts(residual=2)),
    "an external message": (
        {"compute_gas_credit": 10_000, "total_fees": 60},
        parts(**{"import": 12}),
    ),
    "a gas credit of none": ({"compute_gas_credit": 0}, parts()),
    "amounts that are none": (
        {"action_total_action_fees": None, "total_fees": 45},
        parts(action=0),
    ),
    "old debt": ({"credit_due_fees_collected": 4, "total_fees": 52}, parts(due=4)),
    "skipped": (
        {"compute_skipped": True, "total_fees": 5, **NO_RUN},
        parts(gas=0, action=0),
    ),
    "failed and bounced": (
        {
            "compute_success": False,
            "bounce": "ok",
            "bounce_msg_fees": 2,
            "total_fees": 47,
            **NO_ACTION,
        },
        parts(action=0, bounce=2),
    ),
    "failed, and nothing left to bounce": (
        {"compute_success": False, "bounce": "nofunds", "total_fees": 45, **NO_ACTION},
        parts(action=0),
    ),
    "a fine": (
        {"action_success": False, "action_result_code": 37},
        parts(),
    ),
    "a special account, exchanged": (
        {
            "block_workchain": -1,
            "compute_gas_used": 0,
            "compute_gas_fees": 6464,
            "total_fees": 8,
        },
        parts(gas=0),
    ),
    "an account without code": (
        {
            "block_workchain": -1,
            "compute_gas_used": 0,
            "compute_vm_steps": 0,
            "compute_success": False,
            "total_fees": 45,
            **NO_ACTION,
        },
        parts(action=0),
    ),
    "before version 4 nobody was fined": (
        {
            "now": DECEMBER_2023,
            "action_success": False,
            "action_result_code": 37,
            "total_fees": 45,
        },
        parts(action=0),
    ),
    "before version 4, run by an external message": (
        {
            "now": DECEMBER_2023,
            "action_success": False,
            "action_result_code": 37,
            "compute_gas_credit": 10_000,
            "total_fees": 55,
        },
        parts(action=0, **{"import": 10}),
    ),
    "before version 10, too big a state": (
        {
            "now": BEFORE_VERSION_10,
            "action_success": False,
            "action_result_code": 50,
            "total_fees": 45,
        },
        parts(action=0),
    ),
    "before version 10, another code": (
        {
            "now": BEFORE_VERSION_10,
            "action_success": False,
            "action_result_code": 37,
            "total_fees": 45,
        },
        parts(residual=-3),
    ),
    "after version 10, too big a state": (
        {"action_success": False, "action_result_code": 50, "total_fees": 45},
        parts(residual=-3),
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_known_transactions_are_taken_apart(case):
    row, expected = KNOWN[case]
    assert parts_of(**row) == expected


UNKNOWN = {
    "storage": ({"storage_fees_collected": None}, "storage"),
    "compute": ({"compute_skipped": None, **NO_RUN}, "gas"),
    "gas": ({"compute_gas_fees": None, "compute_gas_used": None}, "gas"),
    "success": ({"compute_success": None, **NO_ACTION}, "action"),
    "action": (NO_ACTION, "action"),
}


@pytest.mark.parametrize("phase", UNKNOWN)
def test_the_fee_of_a_missing_phase_is_null(phase):
    row, part = UNKNOWN[phase]
    fees = fee_breakdown(frame_of(row)).iloc[0]
    assert not fees.complete
    assert pd.isna(fees.residual)
    assert pd.isna(fees["import"])
    assert pd.isna(fees[part])
    assert fees.total == 48


def test_dtypes_and_index_do_not_depend_on_the_rows():
    frame = frame_of({}, {"compute_skipped": True, "total_fees": 5, **NO_RUN}).set_axis([7, 7])
    fees = fee_breakdown(frame)
    assert fees.index.to_list() == [7, 7]
    assert_series_equal(fee_breakdown(frame[:0]).dtypes, fees.dtypes)
    arrow = fee_breakdown(frame.convert_dtypes(dtype_backend="pyarrow"))
    assert_series_equal(arrow.dtypes.drop("hash"), fees.dtypes.drop("hash"))
    assert {str(fees[name].dtype) for name in PARTS_SHOWN} == {"Int64"}


def test_the_identity_is_exact_on_every_recorded_transaction(recorded):
    # No exception is needed: 140 transactions of 2023 to 2026, mainnet and testnet.
    count = external = 0
    for blocks in recorded.blocks:
        fees = fee_breakdown(blocks.transactions)
        assert fees.complete.all()
        assert (fees.residual == 0).all()
        incoming = blocks.messages.query("direction == 'in' and source.isna() and value.isna()")
        assert set(fees.hash[fees["import"] > 0]) == set(incoming.tx_hash)
        assert (fees["import"] >= 0).all()
        count, external = count + len(fees), external + len(incoming)
    assert (count, external) == (140, 37)


def frames(count, **options):
    return [table.to_pandas() for table in synthetic(count, **options)]


def test_the_identity_is_exact_on_a_synthetic_chain():
    transactions, _ = frames(60, seed=5)
    fees = fee_breakdown(transactions)
    assert fees.complete.all()
    assert (fees.residual == 0).all()


@pytest.mark.parametrize("by", ["account", "opcode", ["descr", "hour"], "compute_exit_code", "day"])
def test_frames_of_the_lake_give_the_same(by):
    tables = synthetic(20, seed=2)
    expected = fee_summary(*tables, by=by)
    found = fee_summary(*map(lake, tables), by=by)
    assert rows_of(found) == rows_of(expected)
    assert rows_of(fee_breakdown(lake(tables[0]))) == rows_of(fee_breakdown(tables[0]))


@pytest.mark.parametrize("by", [(), "account", ["opcode", "hour"], "trace_id", "compute_exit_code"])
def test_groups_are_a_partition_and_add_up(by):
    transactions, messages = frames(30, seed=3)
    groups = fee_summary(transactions, messages, by=by)
    parts = groups[[*COMPONENTS, "residual", "unknown"]].sum(axis=1)
    assert (parts == groups.total_fees).all()
    assert groups.transactions.sum() == len(transactions)
    assert groups.total_fees.sum() == transactions.total_fees.sum()
    sent = messages.query("direction == 'out'").fwd_fee.sum()
    assert groups.cost.sum() == transactions.total_fees.sum() + sent
    assert groups.share.sum() == pytest.approx(1)
    assert groups.cost.is_monotonic_decreasing


def test_groups_agree_with_pandas():
    transactions, messages = frames(30, seed=3)
    groups = fee_summary(transactions, messages, by="account").set_index("account")
    expected = transactions.groupby("account").total_fees.sum()
    assert_series_equal(
        groups.total_fees.sort_index().astype("int64"), expected.sort_index(), check_names=False
    )


def test_an_empty_frame_has_an_empty_summary():
    transactions, messages = frames(2, seed=3)
    groups = fee_summary(transactions[:0], messages[:0], by="account")
    full = fee_summary(transactions, messages, by="account")
    assert groups.empty
    assert_series_equal(groups.dtypes, full.dtypes)


def test_missing_phases_are_counted_as_unknown():
    transactions = frame_of({}, NO_ACTION | {"hash": "i"})
    messages = frames(1, seed=1)[1][:0]
    groups = fee_summary(transactions, messages)
    assert groups.unknown.item() == 3
    assert groups.residual.item() == 0
    assert groups.total_fees.item() == 96


@pytest.mark.parametrize("engine", [*TWO_ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
def test_parts_that_are_unknown_in_a_whole_group_are_null_on_every_engine(engine, tmp_path):
    none = NO_RUN | {"compute_skipped": None, "storage_fees_collected": None}
    rows = frame_of({}, none | {"hash": "i"}, none | {"hash": "j"})
    rows = rows.assign(account=["some", "some", "none"])
    messages = pd.DataFrame({"tx_hash": ["h"], "direction": "out", "fwd_fee": 1})[:0]
    messages = messages.astype({"tx_hash": "str", "direction": "str"})
    tables = [pa.Table.from_pandas(frame, preserve_index=False) for frame in (rows, messages)]
    frames = [parity.frame_of(engine, table, tmp_path) for table in tables]
    prices = pd.Series([2.0], index=pd.to_datetime([0], unit="s"))
    found = parity.collected(engine, fee_summary(*frames, by="account", prices=prices))
    groups = {row.pop("account"): row for row in found.to_pylist()}
    unknown = dict.fromkeys(["storage", "gas", "action", "import", "residual"])
    assert groups["none"].items() >= (unknown | {"unknown": 48, "cost": 48, "share": 1 / 3}).items()
    assert groups["some"].items() >= (parts() | {"unknown": 48, "cost": 96}).items()
    for name in unknown:
        assert groups["none"][f"{name}_usd"] is None
        assert groups["some"][f"{name}_usd"] == pytest.approx(parts()[name] * 2e-9)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ("transactions", TypeError, "fee_breakdown takes transactions as a frame of pandas"),
        (None, TypeError, "not NoneType"),
        (pd.Series([1]), TypeError, "not Series"),
        (pd.DataFrame(), ValueError, "needs the column 'hash' of transactions"),
        (frame_of({}).drop(columns="bounce"), ValueError, "column 'bounce' of transactions"),
        (
            frame_of({}).astype({"total_fees": "float64"}),
            TypeError,
            "integers in the column 'total_fees', which is Float64: pandas turns integers",
        ),
        (frame_of({}).astype({"total_fees": "str"}), TypeError, "integers in the column"),
        (
            frame_of({}).astype({"compute_success": "Int64"}),
            TypeError,
            "booleans in the column 'compute_success'",
        ),
    ],
)
def test_bad_input_is_one_error_that_names_the_column(wrong, error, says):
    with pytest.raises(error, match=says):
        fee_breakdown(wrong)


def test_columns_of_python_objects_are_read():
    frame = frame_of({}, {"compute_skipped": True, "total_fees": 5, **NO_RUN})
    plain = pd.DataFrame(
        {
            name: pd.Series([None if pd.isna(v) else v for v in frame[name]], dtype=object)
            for name in frame
        }
    )
    assert_frame_equal(fee_breakdown(plain), fee_breakdown(frame))
    with pytest.raises(TypeError, match="fee_breakdown cannot read a column of Python objects"):
        fee_breakdown(plain.assign(total_fees=pd.Series([1.5, 2], dtype=object)))


def test_a_partition_of_floats_is_refused(tmp_path):
    import dask.dataframe as dd

    # Plain Parquet says int64; pandas reads floats where there are nulls, and only there.
    for number, row in enumerate([{}, {"storage_fees_collected": None}]):
        table = pa.Table.from_pandas(frame_of(row), preserve_index=False)
        pq.write_table(table.replace_schema_metadata(None), tmp_path / f"{number}.parquet")
    fees = fee_breakdown(dd.read_parquet(tmp_path))
    with pytest.raises(
        TypeError, match=r"integers in the column .*, which is Float64: pandas turns"
    ):
        fees.compute()


def test_a_frame_of_another_table_is_recognised():
    transactions, messages = frames(2, seed=1)
    with pytest.raises(ValueError, match="looks like messages: is this the right argument"):
        fee_breakdown(messages)
    with pytest.raises(ValueError, match="looks like transactions"):
        fee_summary(transactions, transactions)


def test_frames_of_two_engines_are_not_joined():
    transactions, _ = frames(2, seed=1)
    with pytest.raises(TypeError, match="frames of one engine, not of pandas and pyarrow"):
        fee_summary(transactions, synthetic(2, seed=1)[1])


def test_unknown_groups_are_named():
    transactions, messages = frames(2, seed=1)
    with pytest.raises(ValueError, match=r"cannot group by 'colour': there is no such column"):
        fee_summary(transactions, messages, by="colour")
