"""Exit codes whose meaning depends on the contract."""

import base64

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_series_equal

from tonframes.network import exit_codes
from tonframes.network.contracts import CONTRACTS
from tonframes.network.exit_codes import EXIT_CODES, exit_code_name

STR = pd.StringDtype(na_value=np.nan)
W5 = "IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8="
W4 = "/rX/aCDi/w2Ug+fg1iyBfYRniftK5YDIeIZtlZ2r1cA="
W5_BETA = base64.b64encode(
    bytes.fromhex(next(h for h, row in CONTRACTS.items() if row.name == "wallet v5 beta"))
).decode()
OTHER = "A" * 43 + "="

CODES = [137, 137, 137, 137, 139, 139, 138, 138, 0, 406, 131, None, 130, 132, 135, 63, 9]
HASHES = [W5, W4, OTHER, None, W5, W4, W5, None, W5, W4, W5, W5, W5_BETA, W4, W5_BETA, W4, W4]
NAMES = [
    "errors not ignored (wallet v5)",
    None,  # the code is known not to be a wallet v5, and not known to be of Tact
    "wallet v5: errors not ignored, or Tact: masterchain support off",
    "wallet v5: errors not ignored, or Tact: masterchain support off",
    "extension not added (wallet v5)",
    None,
    "not a signed request (wallet v5)",
    "not a basechain address (Tact)",
    "success",
    "contract-defined",
    None,
    None,
    None,
    None,
    None,
    "contract-defined",
    "cell underflow",
]


def test_no_code_has_two_unmarked_meanings():
    tact, v5 = exit_codes._TACT_CODES, exit_codes._WALLET_V5_CODES
    shared = set(tact) & set(v5)
    assert shared == set(range(132, 139))
    for code in shared - set(exit_codes._NO_TRANSACTION):
        expected = f"wallet v5: {v5[code].name}, or Tact: {tact[code].name}"
        assert EXIT_CODES[code].name == expected
        assert v5[code].meaning in EXIT_CODES[code].meaning
        assert tact[code].meaning in EXIT_CODES[code].meaning
    for code in [*range(128, 148)]:
        if code in EXIT_CODES:
            assert "wallet v5" in exit_code_name(code) or "(Tact)" in exit_code_name(code)
    assert not (set(tact) | set(v5)) & set(exit_codes._GENERAL)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (131, None),  # Tact reserves it and never throws it
        (132, "wallet v5: signature disabled, or Tact: access denied"),
        (135, "code not found (Tact)"),  # a wallet v5 accepts no message with such a signature
        (139, "extension not added (wallet v5)"),
        (147, "invalid actions (wallet v5)"),
        (63, "opcode mismatch (Tolk)"),
        (64, "contract-defined"),
    ],
)
def test_the_name_says_which_contracts_throw_the_code(code, name):
    assert exit_code_name(code) == name


@pytest.mark.parametrize(
    ("code", "code_hash", "name"), list(zip(CODES, HASHES, NAMES, strict=True))
)
def test_the_code_hash_decides_between_meanings(code, code_hash, name):
    assert exit_code_name(code, code_hashes=code_hash) == name


COLUMNS = {
    "pandas": lambda values, kind: pd.Series(values, dtype={"code": "Int64", "hash": "str"}[kind]),
    "polars": lambda values, kind: pl.Series(
        values, dtype={"code": pl.Int64, "hash": pl.String}[kind]
    ),
    "Array": lambda values, kind: pa.array(
        values, {"code": pa.int64(), "hash": pa.dictionary(pa.int32(), pa.string())}[kind]
    ),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_codes_and_hashes_are_named_row_by_row(column):
    named = exit_code_name(column(CODES, "code"), code_hashes=column(HASHES, "hash"))
    assert pa.array(named, pa.string()).to_pylist() == NAMES


def test_one_hash_applies_to_a_whole_column():
    named = exit_code_name(pl.Series([137, 139, 4]), code_hashes=W5)
    assert named.to_list() == [NAMES[0], NAMES[4], "integer overflow"]


@pytest.mark.parametrize("code_hash", [None, pd.NA, float("nan")])
def test_a_null_hash_is_an_unknown_contract(code_hash):
    assert exit_code_name(137, code_hashes=code_hash) == exit_code_name(137)
    assert exit_code_name(pl.Series([137]), code_hashes=code_hash)[0] == exit_code_name(137)


@pytest.mark.parametrize("code_hash", [W4, W5_BETA])
def test_a_known_contract_gets_no_names_of_compilers(code_hash):
    general = {*exit_codes._GENERAL, *(c for codes in exit_codes.CONTRACT_DEFINED for c in codes)}
    named = {code for code in range(-20, 300) if exit_code_name(code, code_hashes=code_hash)}
    assert named == {code for code in general if code < 300}


def test_pandas_columns_keep_their_index():
    codes = pd.Series([137, 137], index=["b", "a"], name="compute_exit_code")
    hashes = pd.Series([W5, W4], index=["b", "a"], dtype="str")
    expected = pd.Series(NAMES[:2], index=["b", "a"], name=codes.name, dtype=STR)
    assert_series_equal(exit_code_name(codes, code_hashes=hashes), expected)


@pytest.mark.parametrize(
    ("code", "hashes", "error", "message"),
    [
        (137, pd.Series([W5]), TypeError, "code hash of one code is text, not Series"),
        (pd.Series([137]), 5, TypeError, "a column like the codes: Series, not int"),
        (pd.Series([137]), pl.Series([W5]), TypeError, "a column like the codes"),
        (pd.Series([137]), pd.Series([5]), TypeError, "a code hash is text: the column"),
        (pd.Series([137]), pd.Series([W5, W4]), ValueError, "has 2 rows, and there are 1 codes"),
        (
            pd.Series([137, 0], index=["b", "a"]),
            pd.Series([W4, W5], index=["a", "b"]),
            ValueError,
            r"another index than the codes: .*reindex\(codes.index\)",
        ),
    ],
)
def test_wrong_code_hashes_are_refused(code, hashes, error, message):
    with pytest.raises(error, match=message):
        exit_code_name(code, code_hashes=hashes)
