"""Contracts by the hash of their code."""

import base64
import json
from hashlib import sha256

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_series_equal

from tonframes.bodies.boc import read_root
from tonframes.network.contracts import CONTRACTS, code_name
from tonframes.network.lookup import read_table

STR = pd.StringDtype(na_value=np.nan)
W5 = "IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8="
OTHER = "A" * 43 + "="


def test_every_code_hash_has_one_row_and_every_row_one_name():
    rows = read_table("contracts.csv")
    assert len(CONTRACTS) == len(rows) == len({row["name"] for row in rows}) == 129
    assert all(len(bytes.fromhex(row["code_hash"])) == 32 for row in rows)
    assert all(row["code_hash"] == row["code_hash"].lower() for row in rows)
    assert {row["source"] for row in rows} == {
        *("docs", "abis", "acton", "tongo", "Tokens.cpp", "opentonapi"),
    }
    assert {row["kind"] for row in rows} == {
        *("wallet", "wallet v5", "highload wallet", "special wallet"),
        *("jetton wallet", "jetton minter", "nft item", "nft collection", "nft sale"),
        *("exchange", "staking", "other"),
    }


def library(code_hash):
    """Return the hash of a library cell: an exotic cell of type 2 with the hash of the code."""
    return sha256(bytes([8, 66, 2]) + bytes.fromhex(code_hash)).hexdigest()


def test_a_library_has_the_name_of_its_code():
    found = {
        library(code_hash): row.name
        for code_hash, row in CONTRACTS.items()
        if library(code_hash) in CONTRACTS
    }
    assert len(found) == 3
    assert {code_hash: f"{name} (library)" for code_hash, name in found.items()} == {
        code_hash: CONTRACTS[code_hash].name for code_hash in found
    }


# wallet/models.go of https://github.com/tonkeeper/tongo
CODES = {
    "wallet v1 r1": (
        "te6cckEBAQEARAAAhP8AIN2k8mCBAgDXGCDXCx/tRNDTH9P/0VESuvKhIvkBVBBE+RDyovgAAdMfMSDXSpbTB9QC+w"
        "De0aTIyx/L/8ntVEH98Ik="
    ),
    "wallet v3 r2": (
        "te6cckEBAQEAcQAA3v8AIN0gggFMl7ohggEznLqxn3Gw7UTQ0x/THzHXC//jBOCk8mCDCNcYINMf0x/TH/gjE7vyY+"
        "1E0NMf0x/T/9FRMrryoVFEuvKiBPkBVBBV+RDyo/gAkyDXSpbTB9QC+wDo0QGkyMsfyx/L/8ntVBC9ba0="
    ),
    "highload wallet v2 r2": (
        "te6ccgEBCQEA6QABFP8A9KQT9LzyyAsBAgEgAgMCAUgEBQHu8oMI1xgg0x/TP/gjqh9TILnyY+1E0NMf0z/T//QE0V"
        "NggED0Dm+hMfJgUXO68qIH+QFUEIf5EPKjAvQE0fgAf44YIYAQ9HhvoW+hIJgC0wfUMAH7AJEy4gGz5luDJaHIQDSA"
        "QPRDiuYxyBLLHxPLP8v/9ADJ7VQIAATQMAIBIAYHABe9nOdqJoaa+Y64X/wAQb5fl2omhpj5jpn+n/mPoCaKkQQCB6"
        "BzfQmMktv8ld0fFAA4IIBA9JZvoW+hMlEQlDBTA7neIJMzNgGSMjDisw=="
    ),
}


def hash_of(code):
    core = pytest.importorskip("pytoniq_core")
    return base64.b64encode(read_root(code, core.Cell).hash).decode()


@pytest.mark.parametrize("name", CODES)
def test_the_hash_is_that_of_the_code(name):
    assert code_name(hash_of(CODES[name])) == name


@pytest.mark.parametrize(
    ("code_hash", "name"),
    [
        (W5, "wallet v5 r1"),
        (base64.b64decode(W5).hex(), "wallet v5 r1"),
        (base64.b64decode(W5).hex().upper(), "wallet v5 r1"),
        (OTHER, None),
        ("", None),
        (None, None),
        (pd.NA, None),
        (float("nan"), None),
    ],
)
def test_one_code_hash(code_hash, name):
    assert code_name(code_hash) == name


COLUMNS = {
    "pandas": lambda hashes: pd.Series(hashes, dtype="str"),
    "object": lambda hashes: pd.Series(hashes, dtype=object),
    "category": lambda hashes: pd.Series(hashes, dtype="category"),
    "pandas of Arrow": lambda hashes: pd.Series(hashes, dtype=pd.ArrowDtype(pa.string())),
    "polars": lambda hashes: pl.Series(hashes, dtype=pl.String),
    "ChunkedArray": lambda hashes: pa.chunked_array([hashes], pa.string()),
    "Array": lambda hashes: pa.array(hashes, pa.dictionary(pa.int32(), pa.string())),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize(
    "hashes", [[W5, base64.b64decode(W5).hex().upper(), OTHER, None], [None], []]
)
def test_a_column_gets_the_names_of_its_contracts(column, hashes):
    names = code_name(column(hashes))
    assert pa.array(names, pa.string()).to_pylist() == [code_name(one) for one in hashes]
    if isinstance(names, pd.Series):
        assert names.dtype == STR


def test_pandas_keeps_index_and_name():
    hashes = pd.Series([W5, None], index=["b", "a"], name="code_hash", dtype="str")
    expected = pd.Series(["wallet v5 r1", None], index=["b", "a"], name="code_hash", dtype=STR)
    assert_series_equal(code_name(hashes), expected)


def test_a_column_with_nulls_can_be_mapped():
    hashes = pd.Series([W5, None], dtype="str")
    assert hashes.map(code_name).dropna().to_dict() == {0: "wallet v5 r1"}


@pytest.mark.parametrize("wrong", [1, 1.5, b"x", [W5]])
def test_other_values_than_text_are_refused(wrong):
    with pytest.raises(TypeError, match="a code hash is text or a column of text, not"):
        code_name(wrong)


def test_columns_without_text_are_refused():
    with pytest.raises(TypeError, match="a code hash is text: the column 'x' is Int64"):
        code_name(pd.Series([1], name="x"))


# ── real data ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def states(real):
    """Return the account states that were recorded."""
    paths = sorted((real / "accountStates").glob("*.json"))
    return [account for path in paths for account in json.loads(path.read_bytes())["accounts"]]


def test_recorded_code_has_the_hash_under_which_it_is_named(states):
    with_code = [state for state in states if state.get("code_boc")]
    names = [code_name(hash_of(state["code_boc"])) for state in with_code]
    assert [hash_of(state["code_boc"]) for state in with_code] == [
        state["code_hash"] for state in with_code
    ]
    assert "Getgems sale v3 r3" in names


def test_most_recorded_accounts_have_a_name(states):
    names = code_name(pd.Series([state.get("code_hash") for state in states], dtype="str"))
    assert names.notna().sum() >= 51
    assert {"wallet v3 r1", "wallet v5 r1", "highload wallet v3"} <= set(names)


def test_nearly_all_recorded_external_messages_go_to_wallets(recorded):
    transactions, messages = recorded.frames[:2]
    external = messages[messages.source.isna() & (messages.direction == "in")]
    called = transactions[transactions.hash.isin(external.tx_hash)]
    names = code_name(called.account_state_code_hash_before)
    assert len(names) > 30
    assert names.str.contains("wallet").sum() == names.notna().sum() >= len(names) - 2
