"""Amounts of jettons in their units: which jetton, which decimals, every digit."""

from __future__ import annotations

import json
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tonframes as tf

pytest.importorskip("pytoniq_core")

WALLET, MASTER, OTHER = (f"0:{letter * 64}" for letter in "ABC")


def metadata(decimals, **more):
    master = {"type": "jetton_masters", "symbol": "MUD", "name": "Made-up", **more}
    if decimals is not None:
        master["extra"] = {"decimals": decimals}
    wallet = {"type": "jetton_wallets", "extra": {"jetton": MASTER, "balance": "1"}}
    infos = {WALLET: [wallet], MASTER: [master], OTHER: [{"type": "nft_items"}, 5]}
    return pd.DataFrame(
        {
            "address": list(infos),
            "token_info": [json.dumps(info) for info in infos.values()],
            "fetched_at": pd.Timestamp("2026-05-28", tz="UTC"),
        }
    )


def bodies(*rows):
    columns = ["kind", "amount_exact", "source", "destination"]
    return pd.DataFrame(rows, columns=columns, dtype="str", index=range(5, 5 + len(rows)))


def transfer(amount):
    return bodies(("jetton_transfer", str(amount), OTHER, WALLET))


@given(amount=st.integers(0, 2**120 - 1), decimals=st.integers(0, 255))
def test_every_digit_is_kept(amount, decimals):
    found = tf.jetton_amounts(transfer(amount), metadata(str(decimals))).iloc[0]
    exact = found.amount_units_exact
    assert Fraction(exact) == Fraction(amount, 10**decimals)
    assert found.amount_units == float(Fraction(exact))
    assert (found.amount_exact, found.decimals) == (str(amount), decimals)
    assert (found.jetton, found.symbol, found.jetton_name) == (MASTER, "MUD", "Made-up")


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_amount_beyond_all_floats_is_exact_as_text(digits):
    found = tf.jetton_amounts(transfer("7" * digits), metadata("6"))
    assert found.amount_units_exact.to_list() == ["7" * (digits - 6) + ".777777"]
    assert found.amount_units.isna().all()


@pytest.mark.parametrize("decimals", [None, "", "x", "-1", "256", "1.5", True, 1.5, [6], "٦"])
def test_unknown_decimals_stay_unknown(decimals):
    found = tf.jetton_amounts(transfer(5), metadata(decimals))
    assert found[["decimals", "amount_units", "amount_units_exact"]].isna().all(axis=None)
    assert found.symbol.to_list() == ["MUD"]
    assert {name: str(found[name].dtype) for name in found.columns[-3:]} == {
        "decimals": "Int64",
        "amount_units": "Float64",
        "amount_units_exact": "str",
    }


def test_the_wallet_is_the_end_that_the_kind_of_body_says():
    rows = [
        ("jetton_transfer", "1", OTHER, WALLET),
        ("jetton_internal_transfer", "1", OTHER, WALLET),
        ("jetton_notify", "1", WALLET, OTHER),
        ("jetton_burn", "1", OTHER, WALLET),
        ("jetton_burn_notification", "1", WALLET, MASTER),
        ("jetton_mint", "1", OTHER, MASTER),
    ]
    found = tf.jetton_amounts(bodies(*rows), metadata(9))
    assert found.amount_units_exact.to_list() == ["0.000000001"] * len(rows)
    turned = [(kind, amount, there, here) for kind, amount, here, there in rows[:4]]
    others = [("excess", None, WALLET, WALLET), (None, "1", WALLET, WALLET)]
    found = tf.jetton_amounts(bodies(*turned, *others), metadata(9))
    assert found.jetton.isna().all()


def test_symbols_stay_as_they_were_sent():
    found = tf.jetton_amounts(transfer(5), metadata(6, symbol="a\x1b[31m\u202e"))
    assert found.symbol.to_list() == ["a\x1b[31m\u202e"]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_give_the_same(library):
    blocks, states = tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())
    expected = tf.jetton_amounts(tf.decode_bodies(blocks.messages), states.metadata)
    messages = blocks.arrow("messages")
    if library == "polars":
        messages = pytest.importorskip("polars").from_arrow(messages)
    found = tf.jetton_amounts(tf.decode_bodies(messages), states.metadata)
    table = found.to_arrow() if library == "polars" else found
    for name in ("jetton", "decimals", "amount_units", "amount_units_exact"):
        wanted = [None if pd.isna(value) else value for value in expected[name]]
        assert table[name].to_pylist() == wanted
    assert expected.amount_units.notna().sum() > 100


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="takes the eager frame that decode_bodies returns"):
        tf.jetton_amounts(5, metadata(6))
    with pytest.raises(ValueError, match="needs the column 'source': decode messages that have"):
        tf.jetton_amounts(transfer(5).drop(columns="source"), metadata(6))
    with pytest.raises(ValueError, match="would add the column 'jetton'"):
        tf.jetton_amounts(tf.jetton_amounts(transfer(5), metadata(6)), metadata(6))
