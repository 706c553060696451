"""The table of opcodes: what is in it, and what is left out."""

import re
import zlib
from collections import Counter, defaultdict

import pandas as pd
import pytest

import tonframes as tf
from tonframes.bodies.schemes import SCHEMES
from tonframes.network.lookup import read_table
from tonframes.network.opcodes import OPCODES, opcode_name

ROWS = read_table("opcodes.csv")


def test_every_opcode_has_one_row():
    assert Counter(row["opcode"] for row in ROWS).most_common(1)[0][1] == 1
    assert len(OPCODES) == len(ROWS) == 505
    assert all(re.fullmatch("0x[0-9a-f]{8}", row["opcode"]) for row in ROWS)
    assert all(row["name"] and row["family"] and row["source"] for row in ROWS)


# Types and constructors of schemes.tlb (ton-indexer, commit 43f04ee1) where the rules decide about
# the name: opcodes of several types, of forward payloads and logs, and of types that
# get_opcode_name does not ask.
CONSTRUCTORS = """
    f2ef6c1b 0 bidask_swap, Forward bidask_swap_forward_payload
    96feef7b 0 bidask_provide, Forward bidask_provide_forward_payload
    3ea0bafc Forward bidask_provide_both_forward_payload
    1bba3896 1 bidask_swap_fallback, 0 bidask_swap_fallback_v2
    87d36990 0 bidask_internal_swap_v2, 1 bidask_swap_v2, Forward bidask_swap_v2_forward_payload
    d1b02ea5 0 bidask_internal_provide, 1 bidask_internal_provide
    2114702d External cron_trigger
    4eb1f0f9 0 change_dns_record, 1 delete_dns_record
    7aa23eb5 0 invoice_payload, Forward invoice_payload_forward_payload
    eed236d3 JettonForceAction set_status, 1 jetton_set_status
    595f07bc JettonForceAction burn, 0 jetton_burn
    0f8a7ea5 JettonForceAction transfer, 0 jetton_transfer
    178d4519 0 jetton_internal_transfer, 1 jetton_internal_transfer
    fb88e119 JettonMinterMsg jetton_claim_admin
    235caf52 JettonMinterMsg jetton_call_to
    2508d66a JettonMinterMsg jetton_upgrade
    cb862902 JettonMinterMsg jetton_change_metadata
    00000000 1 text_comment, 2 text_comment
    2167da4b 1 encrypted_text_comment, Forward encrypted_text_comment_forward_payload
    7362d09c 1 jetton_notify, External megaton_swap
    56a8e920 External megaton_update_mining_params
    b37a900b 2 moon_swap, Forward moon_swap_forward_payload
    cb7f38d6 2 moon_swap_succeed, Forward moon_swap_succeed_forward_payload
    c47c1f57 2 moon_swap_failed, Forward moon_swap_failed_forward_payload
    b31db781 2 moon_deposit_liquidity, Forward moon_deposit_liquidity_forward_payload
    96aa1586 2 moon_boost_pool, Forward moon_boost_pool_forward_payload
    da067c19 2 moon_create_order, Forward moon_create_order_forward_payload
    99b49842 2 moon_fill_order, Forward moon_fill_order_forward_payload
    25938561 2 stonfi_swap, Forward stonfi_swap_forward_payload
    fcf9e58f Forward stonfi_provide_liquidity_forward_payload
    c64370e5 Forward stonfi_swap_ok_forward_payload
    45078540 Forward stonfi_swap_ok_ref_forward_payload
    6664de2a 3 stonfi_swap_v2, Forward stonfi_swap_v2_forward_payload
    37c096df 3 stonfi_provide_lp_v2, Forward stonfi_provide_lp_v2_forward_payload
    0a9577f0 4 coffee_staking_update_rewards, External coffee_staking_rewards_updated
    b30c7310 4 coffee_staking_claim_rewards, External coffee_staking_rewards_claimed
    c0ffee30 External coffee_swap_succeeded
    c0ffee31 External coffee_swap_failed
    c0ffee33 External coffee_deposit_liquidity_succeeded
    c0ffee34 External coffee_deposit_liquidity_failed
    c0ffee35 External coffee_withdraw_liquidity_succeeded
    ee51ce51 4 coffee_mev_protect_failed_swap, \
             Forward coffee_mev_protect_failed_swap_forward_payload
    4ee9b106 Forward coffee_cross_dex_resend_forward_payload
    b902e61a 4 coffee_cross_dex_failure, Forward coffee_cross_dex_failure_forward_payload
    c0ffede Forward coffee_staking_lock_forward_payload
    c0ffee10 Forward coffee_swap_forward_payload
    c0ffee11 Forward coffee_create_pool_forward_payload
    c0ffee12 Forward coffee_deposit_liquidity_forward_payload
    c0ffee36 5 coffee_notification, Forward coffee_notification_forward_payload
    287e167a Forward tegro_add_liquidity_forward_payload
    01fb7a25 Forward tegro_jetton_swap_forward_payload
    299a3e15 5 teleitem_msg_deploy, 6 teleitem_msg_deploy_head
    4468de77 5 tonco_pool_fund_account, Forward tonco_pool_fund_account_payload
    3ebe5431 5 tonco_account_add_liquidity
    bf3f447 5 tonco_account_refund_me
    42a0fb43 5 tonco_reset_gas
    a1daa96d 4 tonco_router_pay_to_normal, 5 tonco_router_pay_to_exit_code_201
    878da6e3 Forward tonkeeper_relayer_fee_forward_payload
    ccc2c823 External nerd_qr_verify
    77a80ef3 External tgbtc_mint_event
    ca444ce6 External tgbtc_burn_event
    27756729 External tgbtc_new_key_event
    453443a6 External tgbtc_dkg_completed_event
    d55e4686 0 dedust_deposit_liquidity, 9 dedust_deposit_liquidity
    40e108d6 Forward dedust_deposit_liquidity
    e3a0d482 Forward dedust_swap
    b544f4a4 ExtOutMsgBody dedust_deposit
    3aa870a6 ExtOutMsgBody dedust_withdrawal
    9c610de3 ExtOutMsgBody dedust_swap
    ad83913f InternalMsgBody dedust_provide_current_quote
    a420458 InternalMsgBody dedust_take_current_quote
    eba19948 External tg_wallet_key_changed
    04c52fd2 External storm_execute_orders_bundle
    5f40f1ec 10 storm_execute_orders_bundle
    012e8f40 External logs
    34d2e9f9 External storm_change_hot_key
    558e804a External storm_self_deposit_native
    01d81ebc External storm_self_deposit_jetton
    ac392598 External scaled_ui_display_multiplier_changed
"""
#: get_opcode_name in logic.cpp asks InternalMsgBody0 to 11, ExternalMsgBody and ForwardPayload, in
#: this order, and takes the first constructor with the opcode.
ASKED = [*map(str, range(12)), "External", "Forward"]


def test_an_opcode_has_the_name_that_the_service_finds_first():
    expected = {}
    for line in CONSTRUCTORS.strip().splitlines():
        opcode, constructors = line.split(maxsplit=1)
        found = dict(each.split() for each in constructors.split(", "))
        # Where the service has no name, ours is that of the contract.
        first = min(found, key=lambda kind: ASKED.index(kind) if kind in ASKED else len(ASKED))
        expected[f"0x{opcode:>08}"] = found[first]
    assert {code: opcode_name(int(code, 16)) for code in expected} == expected


#: Names of several opcodes: they are one operation, as in the names of the service.
SEVERAL = {
    "dedust_swap": 3,
    "dedust_deposit_liquidity": 2,
    "storm_execute_orders_bundle": 2,
    "storm_provide_position": 2,
}


def test_names_of_several_opcodes_are_few_and_documented():
    opcodes = defaultdict(list)
    for row in ROWS:
        opcodes[row["name"]].append(row["opcode"])
    assert {name: len(found) for name, found in opcodes.items() if len(found) > 1} == SEVERAL
    assert all(f"`{name}`" in tf.with_operation.__doc__ for name in SEVERAL)


def test_describe_says_that_an_operation_may_be_several_messages():
    for result in ("fee_summary", "gas_summary", "gas_outliers", "failure_summary", "flows"):
        (meaning,) = tf.describe(result).query("column == 'by'").meaning
        assert "An operation may have several opcodes" in meaning
    (meaning,) = tf.describe("with_operation").query("column == 'operation'").meaning
    assert "several opcodes" in meaning


# The service names one of two messages: of the same contract, or of the contract that it knows. A
# log message has the number of an internal message: an account never receives it.
ALSO = {
    "tonco_account_add_liquidity": "stonfi_add_liquidity",
    "tonco_account_refund_me": "stonfi_refund_me",
    "tonco_reset_gas": "stonfi_reset_gas",
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
    "storm_vamm_init,storm_vault_init",
}


def test_no_opcode_has_two_unmarked_meanings():
    assert {row["name"]: row["also"] for row in ROWS if row["also"]} == ALSO
    assert {row["name"] for row in ROWS if "," in row["name"]} == TWO_CONTRACTS
    named = [name for row in ROWS for name in row["name"].split(",")]
    assert not set(ALSO.values()) & set(named)


def test_small_numbers_have_no_name():
    assert [code for code in OPCODES if code < 2**16] == [0, 0x15]
    assert [opcode_name(code) for code in range(1, 8)] == [None] * 7


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        (0xAC392598, "scaled_ui_display_multiplier_changed"),
        (0x3EBE5431, "tonco_account_add_liquidity"),
        (0xEA06185D, "dedust_swap"),
        (0x6664DE2A, "stonfi_swap_v2"),
        (0x47D54391, "tonstake_pool_deposit"),
        # The event code of the service names these; schemes.tlb does not.
        (0xE33B9873, "layerzero_event"),
        (0x5DE68393, "layerzero_uln_send"),
        (0x3F781D24, "tgbtc_mint_head"),
        (0xBE44E7A6, "tgbtc_payout"),
        (0x1A84C0E0, "tgbtc_payout_notify"),
    ],
)
def test_opcodes_of_well_known_contracts(opcode, name):
    assert opcode_name(opcode) == name


# dex-core writes an opcode as a word, which its compiler replaces by the CRC32.
WORDS = {
    "swap": "stonfi_swap",
    "provide_lp": "stonfi_provide_liquidity_forward_payload",
    "pay_to": "stonfi_payment_request",
    "swap_ok": "stonfi_swap_ok_forward_payload",
    "swap_ok_ref": "stonfi_swap_ok_ref_forward_payload",
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
    found = OPCODES[zlib.crc32(word.encode())]
    assert WORDS[word] in (found.name, found.also)


def test_opcodes_of_layerzero_are_the_checksums_of_their_names():
    assert opcode_name(zlib.crc32(b"BaseInterface::OP::EVENT")) == "layerzero_event"
    assert opcode_name(zlib.crc32(b"Uln::OP::ULN_SEND")) == "layerzero_uln_send"


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
