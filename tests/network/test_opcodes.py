"""The table of opcodes: what is in it, and what is left out."""

import re
import zlib
from collections import Counter

import pandas as pd
import pytest

from tonframes.bodies.schemes import SCHEMES
from tonframes.network.lookup import read_table
from tonframes.network.opcodes import OPCODES, opcode_name

ROWS = read_table("opcodes.csv")


def test_every_opcode_has_one_row():
    assert Counter(row["opcode"] for row in ROWS).most_common(1)[0][1] == 1
    assert len(OPCODES) == len(ROWS) == 500
    assert all(re.fullmatch("0x[0-9a-f]{8}", row["opcode"]) for row in ROWS)
    assert all(row["name"] and row["family"] and row["source"] for row in ROWS)


# The service names one of two messages of the same contract. A log message has the number of an
# internal message: an account never receives it.
SAME_CONTRACT = {
    "bidask_swap_fallback_v2": "bidask_swap_fallback",
    "bidask_internal_swap_v2": "bidask_swap_v2",
    "change_dns_record": "delete_dns_record",
    "teleitem_msg_deploy": "teleitem_msg_deploy_head",
    "tonco_router_pay_to_normal": "tonco_router_pay_to_exit_code_201",
    "coffee_staking_update_rewards": "coffee_staking_rewards_updated",
    "coffee_staking_claim_rewards": "coffee_staking_rewards_claimed",
    "jetton_notify": "megaton_swap",
}
TWO_CONTRACTS = {
    "new_bounce_body,elector_recover_stake_error",
    "stonfi_add_liquidity,tonco_account_add_liquidity",
    "stonfi_refund_me,tonco_account_refund_me",
    "stonfi_reset_gas,tonco_reset_gas",
    "storm_vamm_init,storm_vault_init",
}


def test_no_opcode_has_two_unmarked_meanings():
    assert {row["name"]: row["also"] for row in ROWS if row["also"]} == SAME_CONTRACT
    assert {row["name"] for row in ROWS if "," in row["name"]} == TWO_CONTRACTS
    named = [name for row in ROWS for name in row["name"].split(",")]
    assert not set(SAME_CONTRACT.values()) & set(named)


def test_small_numbers_have_no_name():
    assert [code for code in OPCODES if code < 2**16] == [0, 0x15]
    assert [opcode_name(code) for code in range(1, 8)] == [None] * 7


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        (0xAC392598, "scaled_ui_display_multiplier_changed"),
        (0x3EBE5431, "stonfi_add_liquidity,tonco_account_add_liquidity"),
        (0xEA06185D, "dedust_swap"),
        (0x6664DE2A, "stonfi_swap_v2"),
        (0x47D54391, "tonstake_pool_deposit"),
        (0x0BF3F447, "stonfi_refund_me,tonco_account_refund_me"),  # in the scheme without its 0
    ],
)
def test_opcodes_of_well_known_contracts(opcode, name):
    assert opcode_name(opcode) == name


# dex-core writes an opcode as a word, which its compiler replaces by the CRC32.
WORDS = {
    "swap": "stonfi_swap",
    "provide_lp": "stonfi_provide_liquidity",
    "pay_to": "stonfi_payment_request",
    "swap_ok": "stonfi_swap_ok",
    "swap_ok_ref": "stonfi_swap_ok_ref",
    **{
        word: f"stonfi_{word}"
        for word in (
            "add_liquidity",
            "cb_add_liquidity",
            "direct_add_liquidity",
            "refund_me",
            "cb_refund_me",
            "reset_gas",
            "reset_pool_gas",
        )
    },
}


@pytest.mark.parametrize("word", WORDS)
def test_opcodes_of_stonfi_are_the_checksums_of_their_words(word):
    assert WORDS[word] in opcode_name(zlib.crc32(word.encode())).split(",")


def test_bodies_are_decoded_under_the_names_of_their_opcodes():
    assert {code: kind for code, (kind, _) in SCHEMES.items()} == {
        code: opcode_name(code) for code in SCHEMES
    }


def test_most_internal_messages_that_were_recorded_have_a_name(recorded):
    messages = recorded.frames[1].drop_duplicates("msg_hash")
    internal = messages[messages.source.notna() & messages.destination.notna()]
    opcodes = internal.opcode.dropna()
    named = opcode_name(opcodes).notna()
    # Without 0x1, 0x9, 0x18 and 0x3dc680ae, which the service does not name either.
    assert named.sum() >= 92
    assert set(opcodes[~named]) <= {0x1, 0x9, 0x18, 0x3DC680AE}
    assert pd.api.types.is_string_dtype(opcode_name(opcodes))
