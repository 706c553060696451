"""The tables of codes: complete, and the same for single codes, columns and frames."""

import functools
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_series_equal

from tonframes.network.exit_codes import (
    CONTRACT_DEFINED,
    CONTRACT_DEFINED_NAME,
    EXIT_CODE_NAMES,
    EXIT_CODES,
    SKIP_REASONS,
    exit_code_name,
)
from tonframes.network.opcodes import OPCODE_NAMES, OPCODES, opcode_name
from tonframes.network.result_codes import (
    BOUNCES,
    RESULT_CODE_NAMES,
    RESULT_CODES,
    result_code_name,
)

STR = pd.StringDtype(na_value=np.nan)
TABLES = [EXIT_CODES, RESULT_CODES, OPCODES]
tables = pytest.mark.parametrize("table", TABLES, ids=["exit codes", "result codes", "opcodes"])
CODES = [None, *range(-100, 70_001)]
SIGNED = [code - 2**32 for code in OPCODES if code >= 2**31]
ASKED = {
    exit_code_name: CODES,
    result_code_name: CODES,
    opcode_name: [*CODES, *OPCODES, *SIGNED],
}
lookups = pytest.mark.parametrize("one", ASKED, ids=["exit codes", "result codes", "opcodes"])


# ── the tables are complete ──────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def section(reference):
    """Return a function that cuts a section out of the reference by its number."""
    text = (reference / "fees-and-gas.md").read_text()

    def cut(number):
        heading = rf"^#+ {re.escape(number)}\.? .*$"
        return re.split(
            r"^(?:#|---)", re.split(heading, text, flags=re.MULTILINE)[1], flags=re.MULTILINE
        )[0]

    return cut


def numbered(text, number):
    """Find the codes at the beginning of each entry in running text."""
    found = re.findall(
        rf"(?:^|; |: |\. |\*\*)({number})(?:\*\*)? (?=[a-z(=])", text, flags=re.MULTILINE
    )
    return {int(code.replace("\N{MINUS SIGN}", "-")) for code in found}


def test_every_exit_code_of_the_reference_is_in_the_table(section):
    # Tact reserves 131 and never throws it. The reference has no codes of Tolk and wallet v5.
    ours = set(EXIT_CODES) - {63, *range(139, 148)}
    assert numbered(section("7.1"), "\N{MINUS SIGN}?[0-9]+") - {131} == ours
    assert len(ours) == 15 + 2 + 10 + 1  # the machine, the network, Tact, the convention


def test_every_result_code_of_the_reference_is_in_the_table(section):
    assert numbered(section("7.2"), "[0-9]+") == set(RESULT_CODES)
    assert {44, 45, 46, 47} < set(RESULT_CODES)


def opcode_cells(text):
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| 0x")]


def test_every_opcode_of_the_reference_is_in_the_table(section):
    found = re.findall("0x[0-9a-f]{8}", " ".join(opcode_cells(section("7.3"))))
    assert len(found) > 50
    assert {int(code, 16) for code in found} <= set(OPCODES)


# If the names of the service and of the standard or contract differ, we use the service's.
SERVICE_NAMES = {
    "transfer_notification": "jetton_notify",
    "excesses": "excess",
    "accepted": "elector_new_stake_confirmation",
    "rejected": "elector_new_stake_error",
    "recover_stake": "elector_recover_stake_request",
    "extension": "w5_extension_action_request",
}


def test_opcodes_are_named_as_the_reference_names_them(section):
    cells = "\n".join(opcode_cells(section("7.3")))
    named = re.findall(r"(0x[0-9a-f]{8}) (\w+)(?=,| $)", cells, flags=re.MULTILINE)
    ours = [(name, OPCODE_NAMES[int(code, 16)]) for code, name in named]
    assert len(ours) > 35
    assert {name: our for name, our in ours if not our.endswith(name)} == SERVICE_NAMES


def values(text, field):
    row = next(line for line in text.splitlines() if line.startswith(f"| {field} |"))
    return re.findall("`([^`]+)`", row.split("|")[2])


def test_skip_reasons_and_bounces_are_those_of_the_reference(section):
    assert list(SKIP_REASONS) == values(section("6"), "compute_ph.reason")
    assert list(BOUNCES) == values(section("6"), "bounce.type")


@tables
def test_rows_are_keyed_by_code_and_have_a_source(table):
    for code, row in table.items():
        assert row.code == code
        assert row.name
        assert row.source


@pytest.mark.parametrize("table", [EXIT_CODES, RESULT_CODES], ids=["exit codes", "result codes"])
def test_no_two_codes_have_the_same_name(table):
    names = [row.name for row in table.values()]
    assert len(set(names)) == len(names)


# ── one code ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "success"),
        (-14, "out of gas"),
        (-13, "no code"),
        (2, "stack underflow"),
        (135, "code not found (Tact)"),
        (63, "opcode mismatch (Tolk)"),
        (65535, "unknown opcode"),
        # As an exit code, 37 does not mean "not enough TON".
        *((code, CONTRACT_DEFINED_NAME) for code in (32, 37, 127, 256, 406, 65534)),
        *((code, None) for code in (-1, 15, 31, 131, 148, 255, 65536, 2**31 - 1, -(2**31))),
    ],
)
def test_exit_codes(code, name):
    assert exit_code_name(code) == name
    assert exit_code_name(np.int64(code)) == name


def test_the_same_number_differs_between_tables():
    assert result_code_name(37) == "not enough TON"
    assert result_code_name(0) == "success"
    assert result_code_name(36) != exit_code_name(36)
    assert result_code_name(2) is None
    assert exit_code_name(45) == CONTRACT_DEFINED_NAME


def test_opcodes():
    assert opcode_name(0) == "text_comment"
    assert opcode_name(0xD53276DB) == "excess"
    assert opcode_name(-1) == "bounce"
    assert opcode_name(7) is None


@given(st.sampled_from(sorted(OPCODES)) | st.integers(0, 2**32 - 1))
def test_signed_and_unsigned_opcodes_are_the_same(opcode):
    signed = int(np.uint32(opcode).view(np.int32))
    assert opcode_name(signed) == opcode_name(opcode) == OPCODE_NAMES.get(opcode)


@lookups
@pytest.mark.parametrize("nothing", [None, pd.NA, np.nan, np.float32("nan")])
def test_null_has_no_name(one, nothing):
    assert one(nothing) is None


@lookups
@pytest.mark.parametrize("wrong", [1.0, np.inf, True, np.True_, "1", b"1", [1], {1}])
def test_other_values_than_integers_are_refused(one, wrong):
    with pytest.raises(TypeError, match=r"an? .*code is an int or a column of integers, not"):
        one(wrong)


@pytest.mark.parametrize("far", [2**32, -(2**31) - 1, 10**30])
def test_integers_outside_of_32_bits_are_refused_as_opcodes(far):
    with pytest.raises(ValueError, match=rf"integer from -2147483648 to 4294967295, not {far}"):
        opcode_name(far)


@pytest.mark.parametrize("one", [exit_code_name, result_code_name])
def test_exit_and_result_codes_are_signed_32_bits(one):
    with pytest.raises(ValueError, match="integer from -2147483648 to 2147483647, not 2147483648"):
        one(2**31)


# ── a column of codes ────────────────────────────────────────────────────────────────────────────

PANDAS = {
    "pandas": lambda codes: pd.Series(codes, dtype="Int64"),
    "pandas of Arrow": lambda codes: pd.Series(codes, dtype=pd.ArrowDtype(pa.int64())),
}
COLUMNS = PANDAS | {
    "polars": lambda codes: pl.Series(codes, dtype=pl.Int64),
    "ChunkedArray": lambda codes: pa.chunked_array([codes[:3], codes[3:]], pa.int64()),
    "Array": lambda codes: pa.array(codes, pa.int64()),
}
columns = pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)


def as_list(names):
    if isinstance(names, pd.Series):
        return names.astype(object).where(names.notna(), None).to_list()
    return names.to_pylist() if isinstance(names, pa.Array | pa.ChunkedArray) else names.to_list()


@functools.cache
def one_by_one(one):
    return [one(code) for code in ASKED[one]]


def assert_same(names, expected):
    # Compared in Arrow: pytest takes minutes to explain how two long lists differ.
    names, expected = pa.array(names, pa.string()), pa.array(expected, pa.string())
    assert names.equals(expected), names.diff(expected).slice(0, 20)


def dtype(names):
    return names.type if isinstance(names, pa.Array | pa.ChunkedArray) else names.dtype


@lookups
@columns
def test_a_column_gets_the_names_of_its_codes(one, column):
    codes = column(ASKED[one])
    names = one(codes)
    assert isinstance(names, pa.Array if isinstance(codes, pa.Array) else type(codes))
    assert_same(as_list(names), one_by_one(one))
    assert len(set(as_list(names))) > 10


@lookups
@columns
@pytest.mark.parametrize("codes", [[], [None, None], [7777777]], ids=["none", "nulls", "unknown"])
def test_the_dtype_does_not_depend_on_the_rows(one, column, codes):
    names = one(column(codes))
    assert dtype(names) == dtype(one(column([0])))
    assert as_list(names) == [None] * len(codes)


@pytest.mark.parametrize(
    "untyped", [pl.Series([None, None]), pa.nulls(2), pa.chunked_array([pa.nulls(2)])]
)
def test_a_column_of_nulls_needs_no_dtype(untyped):
    assert as_list(exit_code_name(untyped)) == [None, None]
    assert type(exit_code_name(untyped)) in (pl.Series, pa.StringArray, pa.ChunkedArray)


@pytest.mark.parametrize("integers", ["int64", "Int64", "int32", "uint16", "int64[pyarrow]"])
def test_pandas_keeps_index_and_name_and_gives_text(integers):
    codes = pd.Series([0, 37, 0], dtype=integers, index=["a", "b", "b"], name="compute_exit_code")
    before = codes.copy()
    expected = pd.Series(
        ["success", CONTRACT_DEFINED_NAME, "success"], dtype=STR, index=codes.index, name=codes.name
    )
    assert_series_equal(exit_code_name(codes), expected)
    assert_series_equal(codes, before)


def test_narrow_integers_are_accepted():
    assert exit_code_name(pl.Series([-14, 40], dtype=pl.Int8)).to_list() == [
        "out of gas",
        CONTRACT_DEFINED_NAME,
    ]
    assert opcode_name(pa.array([0xFFFFFFFF, 0], pa.uint32())).to_pylist() == [
        "bounce",
        "text_comment",
    ]
    assert opcode_name(pa.array([-1, 0], pa.int32())).to_pylist() == ["bounce", "text_comment"]


@given(st.lists(st.none() | st.sampled_from(sorted(OPCODES)), max_size=20))
def test_columns_of_signed_opcodes_are_named_alike(opcodes):
    unsigned = pl.Series("opcode", opcodes, dtype=pl.UInt32)
    signed = pl.Series(
        "opcode", [None if o is None else (o + 2**31) % 2**32 - 2**31 for o in opcodes], pl.Int32
    )
    assert opcode_name(signed).to_list() == opcode_name(unsigned).to_list()


WRONG_COLUMNS = [
    pd.Series([1.0, np.nan], name="x"),
    pd.Series([True], name="x"),
    pd.Series(["1"], name="x"),
    pd.Series([None], dtype=object, name="x"),
    pl.Series("x", [1.0]),
    pl.Series("x", [True]),
    pa.array(["1"]),
    pa.chunked_array([[1.0]]),
]


@lookups
@pytest.mark.parametrize("wrong", WRONG_COLUMNS, ids=lambda column: f"{type(column).__name__}")
def test_a_column_without_integers_is_refused(one, wrong):
    with pytest.raises(TypeError, match=r"is an integer: the column .* is (\w|\()+"):
        one(wrong)


def test_a_column_of_floats_gets_a_hint():
    with pytest.raises(TypeError, match=r"'x' is Float64; .*astype\('Int64'\)"):
        exit_code_name(pd.Series([1.0, np.nan], name="x"))


@columns
@pytest.mark.parametrize("far", [2**32, -(2**31) - 1])
def test_a_column_with_an_invalid_opcode_is_refused(column, far):
    with pytest.raises(ValueError, match=f"an opcode is an integer from .*, not {far}"):
        opcode_name(column([0, None, far]))


def test_a_column_beyond_int64_is_refused():
    with pytest.raises(ValueError, match=f"an exit code is an integer from .*, not {2**63}"):
        exit_code_name(pl.Series([2**63], dtype=pl.UInt64))


@pytest.mark.parametrize("frame", [pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1]})])
def test_a_frame_is_refused(frame):
    with pytest.raises(TypeError, match="column of integers, not DataFrame"):
        exit_code_name(frame)


DEFINED = dict.fromkeys((c for codes in CONTRACT_DEFINED for c in codes), CONTRACT_DEFINED_NAME)
PLAIN = {
    exit_code_name: DEFINED | EXIT_CODE_NAMES,
    result_code_name: RESULT_CODE_NAMES,
    opcode_name: OPCODE_NAMES | {code: OPCODE_NAMES[code % 2**32] for code in SIGNED},
}


@lookups
def test_the_plain_dicts_agree(one):
    assert_same([PLAIN[one].get(code) for code in ASKED[one]], one_by_one(one))


# ── real data ────────────────────────────────────────────────────────────────────────────────────


def test_every_code_in_real_data_has_a_name(recorded):
    rows = recorded.frames[0]
    assert exit_code_name(rows.compute_exit_code.dropna()).notna().all()
    assert result_code_name(rows.action_result_code.dropna()).notna().all()
    assert set(rows.skipped_reason.dropna()) <= set(SKIP_REASONS)
    assert set(rows.bounce.dropna()) <= set(BOUNCES)
    assert rows.compute_exit_code.nunique() > 2


def test_opcodes_have_the_names_that_the_service_gives_them(recorded):
    rows = recorded.frames[1].dropna(subset="decoded_opcode")
    assert_series_equal(
        opcode_name(rows.opcode), rows.decoded_opcode, check_names=False, check_index=True
    )
    assert rows.decoded_opcode.nunique() > 9
