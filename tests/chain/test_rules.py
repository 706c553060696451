"""The synthetic chain follows the rules of the real one.

Every rule is computed again from the answers alone, with prices written here and cells read by
pytoniq-core.
"""

import json
from base64 import b64decode
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import pytest

from chain import Chain, synthetic_blocks

pytoniq = pytest.importorskip("pytoniq_core")

BLOCKS = 120
# Flat price, gas price, lump, bit, cell. The flat limit is 100, the gas limit a million.
NOW = (6_667, 4_369_067, 66_667, 4_369_067, 436_906_667)
MASTERCHAIN = (1_000_000, 655_360_000, 10_000_000, 655_360_000, 65_536_000_000)
UNTIL_2024 = (100_000, 65_536_000, 1_000_000, 65_536_000, 6_553_600_000)
UNTIL_2026 = (40_000, 26_214_400, 400_000, 26_214_400, 2_621_440_000)
SPECIAL = {"-1:" + "3" * 64, "-1:" + "5" * 64}
EMPTY = "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c="
TRANSACTION = [
    *("account", "hash", "lt", "now", "mc_block_seqno", "trace_id"),
    *("prev_trans_hash", "prev_trans_lt", "orig_status", "end_status"),
    *("total_fees", "total_fees_extra_currencies", "description", "block_ref"),
    *("in_msg", "out_msgs", "account_state_before", "account_state_after"),
    *("emulated", "finality"),
]
MESSAGE = [
    *("hash", "source", "destination", "value", "value_extra_currencies"),
    *("fwd_fee", "ihr_fee", "extra_flags", "created_lt", "created_at"),
    *("opcode", "decoded_opcode", "ihr_disabled", "bounce", "bounced"),
    *("import_fee", "message_content", "init_state"),
]


@pytest.fixture(scope="module")
def chain():
    return Chain()


@pytest.fixture(scope="module")
def answers(chain):
    return [chain.next_block() for _ in range(BLOCKS)]


@pytest.fixture(scope="module")
def transactions(answers):
    return [row for answer in answers for row in answer["transactions"]]


@pytest.fixture(scope="module")
def headers(answers):
    return [block for answer in answers for block in answer["blocks"]]


@pytest.fixture(scope="module")
def states(answers, chain):
    assert answers
    return chain.account_states()


def ceil(fixed):
    return -(-fixed // 65_536)


def amount(record, key):
    return int((record or {}).get(key) or 0)


def prices_of(row, other=None):
    masterchain = row["account"].startswith("-1:") or (other or "").startswith("-1:")
    return MASTERCHAIN if masterchain else NOW


def gas_price(prices, gas):
    return prices[0] + ceil(max(0, gas - 100) * prices[1])


def gas_of(row):
    """Return gas fees and gas used, in the right order if the service has exchanged them."""
    phase = row["description"]["compute_ph"]
    fees, used = amount(phase, "gas_fees"), amount(phase, "gas_used")
    if row["account"].startswith("-1:") and not used and fees and phase["vm_steps"]:
        return used, fees
    return fees, used


@cache
def read(bag):
    return pytoniq.Cell.one_from_boc(b64decode(bag))


def message_cells(message):
    """Yield the possible cells of a message, with the body in the root cell or in its own."""
    body = read(message["message_content"]["body"])
    init = message["init_state"] and read(message["init_state"]["body"])
    header = pytoniq.Builder()
    if message["source"] is None:
        header.store_bits("10").store_address(None).store_address(message["destination"])
        header.store_coins(0)
    elif message["destination"] is None:
        header.store_bits("11").store_address(message["source"]).store_address(None)
        header.store_uint(int(message["created_lt"]), 64).store_uint(int(message["created_at"]), 32)
    else:
        header.store_bits("01").store_bool(message["bounce"]).store_bool(message["bounced"])
        header.store_address(message["source"]).store_address(message["destination"])
        header.store_coins(int(message["value"])).store_bit(0).store_coins(0)
        header.store_coins(int(message["fwd_fee"]))
        header.store_uint(int(message["created_lt"]), 64).store_uint(int(message["created_at"]), 32)
    if init:
        header.store_bits("10").store_cell(init)
    else:
        header.store_bit(0)
    start = header.end_cell()
    apart = pytoniq.Builder().store_cell(start).store_bit(1).store_ref(body)
    yield apart.end_cell()
    if len(start.bits) + 1 + len(body.bits) <= 1023 and len(start.refs) + len(body.refs) <= 4:
        yield pytoniq.Builder().store_cell(start).store_bit(0).store_cell(body).end_cell()


def distinct(*cells):
    found, stack = {}, list(cells)
    while stack:
        cell = stack.pop()
        if cell.hash not in found:
            found[cell.hash] = cell
            stack += cell.refs
    return list(found.values())


_sizes = {}


def size(message):
    """Return cells and bits below the root and bits in it; the hash tells where the body is."""
    if message["hash"] not in _sizes:
        root = next(c for c in message_cells(message) if c.hash == b64decode(message["hash"]))
        below = distinct(*root.refs)
        bits = sum(len(cell.bits) for cell in below)
        _sizes[message["hash"]] = len(below), bits, len(root.bits)
    return _sizes[message["hash"]]


def forward_price(prices, message):
    cells, bits, _ = size(message)
    return prices[2] + ceil(prices[3] * bits + prices[4] * cells)


def is_external(row):
    return row["in_msg"] is not None and row["in_msg"]["source"] is None


def parts_of_fee(row):
    phases = row["description"]
    imported = 0
    if is_external(row):
        imported = forward_price(prices_of(row), row["in_msg"])
    return (
        imported
        + amount(phases["storage_ph"], "storage_fees_collected")
        + amount(phases.get("credit_ph"), "due_fees_collected")
        + gas_of(row)[0]
        + amount(phases.get("action"), "total_action_fees")
        + amount(phases.get("bounce"), "msg_fees")
    )


def in_minus_out(row):
    """Return the change of the balance by a transaction."""
    came = amount(row["in_msg"], "value")
    went = sum(amount(message, "value") + amount(message, "fwd_fee") for message in row["out_msgs"])
    return came - went - int(row["total_fees"])


def balance(row, when):
    """Return the balance before or after; None if the service has only the hash of the state."""
    state = row[f"account_state_{when}"]["balance"]
    status = row["orig_status" if when == "before" else "end_status"]
    if state is None:
        return 0 if status == "nonexist" else None
    return int(state)


def histories(transactions):
    found = defaultdict(list)
    for row in sorted(transactions, key=lambda row: int(row["lt"])):
        found[row["account"]].append(row)
    return found


# Fees and money


def test_total_fees_are_the_sum_of_their_parts(transactions):
    assert [int(row["total_fees"]) for row in transactions] == [
        parts_of_fee(row) for row in transactions
    ]


def test_balances_are_conserved_in_chains(transactions):
    checked = 0
    for rows in histories(transactions).values():
        expected = None
        for row in rows:
            expected = balance(row, "before") if expected is None else expected
            assert expected is not None
            expected += in_minus_out(row)
            known = balance(row, "after")
            assert known in (None, expected)
            checked += known is None
        assert known is not None, "the last state of a block is known"
    assert checked > 100


def test_gas_fees_follow_from_gas_used(transactions):
    small = 0
    for row in transactions:
        phase = row["description"]["compute_ph"]
        if phase["skipped"]:
            assert set(phase) == {"skipped", "reason"}
            continue
        fees, used = gas_of(row)
        if row["account"] in SPECIAL:
            assert fees == 0
            assert used > 0
            continue
        assert fees == gas_price(prices_of(row), used)
        small += used < 100
        if not is_external(row):
            assert used <= int(phase["gas_limit"])
    assert small > 100


def test_forwarding_fees_follow_from_the_cells(transactions):
    for row in transactions:
        action = row["description"].get("action")
        bounce = row["description"].get("bounce", {})
        own = total = 0
        for message in row["out_msgs"]:
            prices = prices_of(row, message["destination"])
            fee = forward_price(prices, message)
            part = fee * 21_845 // 65_536 if message["destination"] else fee
            assert amount(message, "fwd_fee") == (fee - part if message["destination"] else 0)
            own, total = own + part, total + fee
        if bounce.get("type") == "ok":
            lump = prices_of(row, row["in_msg"]["source"])[2]
            assert (amount(bounce, "msg_fees"), total) == (own, lump)
            assert bounce["fwd_fees"] == row["out_msgs"][0]["fwd_fee"]
        elif action and action["success"]:
            assert amount(action, "total_fwd_fees") == total
            fine = amount(action, "total_action_fees") - own
            assert fine == 0 or (action["skipped_actions"] and fine % 1_666 == 0)
            cells = sum(size(message)[0] + 1 for message in row["out_msgs"])
            bits = sum(sum(size(message)[1:]) for message in row["out_msgs"])
            assert action["tot_msg_size"] == {"cells": str(cells), "bits": str(bits)}
            assert action["msgs_created"] == len(row["out_msgs"])
        else:
            assert row["out_msgs"] == []
        for phase, key in ((action, "total_fwd_fees"), (action, "total_action_fees")):
            assert (phase or {}).get(key) != "0", "left out where there is none"


def test_storage_fees_follow_from_cells_bits_and_time(transactions, states):
    """Check accounts whose state keeps its size: they pay per cell, bit and second."""
    cells = {}
    for row in states["accounts"]:
        if row["address"].startswith("0:") and "data_boc" in row:
            cells[row["address"]] = 1 + len(distinct(read(row["data_boc"]), read(row["code_boc"])))
    checked = 0
    for address, rows in histories(transactions).items():
        for row, following in pairwise(rows):
            statuses = {row["end_status"], following["orig_status"], following["end_status"]}
            phase = following["description"]["storage_ph"]
            if address in cells and statuses == {"active"} and "storage_fees_due" not in phase:
                if "storage_fees_due" in row["description"]["storage_ph"]:
                    continue
                seconds = following["now"] - row["now"]
                fee = ceil(135 * cells[address] * seconds)
                assert int(phase["storage_fees_collected"]) == fee
                checked += fee > 0
    assert checked > 500


# Logical time, accounts, states


def test_transactions_of_an_account_are_linked(transactions):
    for rows in histories(transactions).values():
        for row, following in pairwise(rows):
            assert following["prev_trans_hash"] == row["hash"]
            assert following["prev_trans_lt"] == row["lt"]
            assert following["orig_status"] == row["end_status"]
            before, after = following["account_state_before"], row["account_state_after"]
            assert before["hash"] == after["hash"]
            if row["block_ref"] != following["block_ref"]:
                assert before == after
            else:
                assert set(before.values()) == set(after.values()) == {before["hash"], None}
    hashes = [row["hash"] for row in transactions]
    assert len(set(hashes)) == len(hashes)
    assert all(len(b64decode(value)) == 32 for value in hashes)


# Messages


def test_messages_are_received_as_they_were_sent(transactions):
    sent = {}
    for row in transactions:
        for message in row["out_msgs"]:
            assert message["hash"] not in sent
            sent[message["hash"]] = message, row
    received = 0
    for row in transactions:
        message = row["in_msg"]
        if message is None or is_external(row):
            assert row["trace_id"] == row["hash"]
            continue
        origin, sender = sent[message["hash"]]
        assert message == origin
        assert row["trace_id"] == sender["trace_id"]
        assert message["source"] == sender["account"]
        assert message["destination"] == row["account"]
        received += 1
    assert received > 1_000


def test_bodies_have_the_hashes_of_their_cells(transactions):
    seen = {}
    for row in transactions:
        for message in (row["in_msg"], *row["out_msgs"]):
            for key in ("message_content", "init_state"):
                if message and message[key]:
                    seen[message[key]["body"]] = message[key]["hash"]
    for bag, value in seen.items():
        assert read(bag).hash == b64decode(value)
    assert len(seen) > 1_000


# Blocks and shards


def test_blocks_account_for_every_transaction(answers):
    for seqno, answer in enumerate(answers, 90_000_000):
        assert {b["masterchain_block_ref"]["seqno"] for b in answer["blocks"]} == {seqno}
        assert [b["seqno"] for b in answer["blocks"] if b["workchain"] == -1] == [seqno]
        keys = [(b["workchain"], b["shard"], b["seqno"]) for b in answer["blocks"]]
        assert len(set(keys)) == len(keys)
        counts = Counter(tuple(row["block_ref"].values()) for row in answer["transactions"])
        assert {k: b["tx_count"] for k, b in zip(keys, answer["blocks"], strict=True)} == {
            key: counts[key] for key in keys
        }
        assert sum(counts.values()) == 25
        assert {row["mc_block_seqno"] for row in answer["transactions"]} == {seqno}
        for block in answer["blocks"]:
            if block["workchain"] == 0:
                assert block["master_ref_seqno"] < seqno
            assert block["global_id"] == -217


def test_shards_are_linked_through_split_and_merge(headers):
    # (workchain, shard) to the last block; a split parent stays until both halves have a block
    tips = {}
    seen = Counter()
    for block in sorted(headers, key=lambda block: int(block["start_lt"])):
        key = block["workchain"], block["shard"]
        parents = [(parent["workchain"], parent["shard"]) for parent in block["prev_blocks"]]
        for parent, reference in zip(parents, block["prev_blocks"], strict=True):
            if parent in tips:
                assert reference["seqno"] == tips[parent]["seqno"]
        known = [tips[parent] for parent in parents if parent in tips]
        assert block["seqno"] == 1 + max(p["seqno"] for p in block["prev_blocks"])
        assert block["after_merge"] == (len(parents) == 2)
        assert block["after_split"] == (len(parents) == 1 and parents[0] != key)
        if block["after_split"]:
            assert known[0]["before_split"]
            assert known[0]["want_split"]
        else:
            assert not any(parent["before_split"] for parent in known)
        if block["after_merge"]:
            assert all(parent["want_merge"] for parent in known)
            for parent in parents:
                del tips[parent]
        assert all(int(parent["end_lt"]) <= int(block["start_lt"]) for parent in known)
        tips[key] = block
        seen["split"] += block["after_split"]
        seen["merge"] += block["after_merge"]
    assert seen == {"split": 2, "merge": 1}
    assert {block["shard"] for block in headers if block["workchain"] == 0} == {
        "4000000000000000",
        "C000000000000000",
        "2000000000000000",
        "6000000000000000",
    }


# Format


# Account states


def test_account_states_agree_with_the_last_transactions(states, transactions):
    rows = {row["address"]: row for row in states["accounts"]}
    assert len(rows) == len(states["accounts"]) >= 340
    for address, history in histories(transactions).items():
        row, last = rows[address], history[-1]
        assert row["last_transaction_hash"] == last["hash"]
        assert row["last_transaction_lt"] == last["lt"]
        assert row["account_state_hash"] == last["account_state_after"]["hash"]
        assert row["status"] == last["end_status"]
        if row["status"] != "nonexist":
            assert row["balance"] == last["account_state_after"]["balance"]
            assert row.get("code_hash") == last["account_state_after"]["code_hash"]
            assert row.get("data_hash") == last["account_state_after"]["data_hash"]
    assert {row["status"] for row in rows.values()} == {"active", "uninit", "frozen", "nonexist"}


def test_account_states_contain_code_and_data(states):
    for row in states["accounts"]:
        if row["status"] == "active":
            assert read(row["code_boc"]).hash == b64decode(row["code_hash"])
            assert read(row["data_boc"]).hash == b64decode(row["data_hash"])
            assert all(type(method) is int for method in row["contract_methods"])
            assert all(type(name) is str for name in row["interfaces"])
        else:
            assert "code_boc" not in row
            assert row["contract_methods"] is None
        assert row["extra_currencies"] == {}
    kinds = {t["type"] for entry in states["metadata"].values() for t in entry["token_info"]}
    assert kinds == {"jetton_masters", "jetton_wallets", "nft_items", "nft_collections"}


def test_account_states_of_some_accounts():
    chain = Chain(seed=3)
    known = [row["address"] for row in chain.account_states()["accounts"]]
    answer = chain.account_states(
        [known[5], "0:" + "0" * 64, known[2], known[5]], include_boc=False
    )
    assert [row["address"] for row in answer["accounts"]] == [known[5], known[2]]
    assert not any("boc" in key for row in answer["accounts"] for key in row)
    assert set(answer) == {"accounts", "address_book", "metadata"}


# Rare cases


def test_every_rare_case_occurs(transactions, states):
    seen = Counter()
    texts, decoded_forms = set(), set()
    for row in transactions:
        phases, message = row["description"], row["in_msg"]
        compute, action = phases["compute_ph"], phases.get("action") or {}
        seen[phases["type"], phases.get("is_tock")] += 1
        seen["skipped", compute.get("reason")] += 1
        seen["exit", compute.get("exit_code"), compute.get("success")] += 1
        seen["exit_arg"] += "exit_arg" in compute
        seen["result", action.get("result_code"), action.get("no_funds")] += 1
        seen["result_arg"] += "result_arg" in action
        seen["skipped action"] += action.get("skipped_actions", 0)
        seen["left out and sent"] += bool(action.get("skipped_actions") and row["out_msgs"])
        seen["in", (message or {}).get("decoded_opcode")] += 1
        spam = "example.org" in json.dumps(message and message["message_content"]["decoded"])
        seen["spam"] += spam and compute.get("reason") == "no_gas" and not message["bounce"]
        seen["fine"] += not action.get("success", True) and "total_action_fees" in action
        seen["bounce", phases.get("bounce", {}).get("type")] += 1
        seen["bounced in"] += bool(message and message["bounced"])
        seen["due"] += "storage_fees_due" in phases["storage_ph"]
        seen["storage", phases["storage_ph"]["status_change"]] += 1
        seen["destroyed", phases["destroyed"], row["end_status"]] += 1
        seen["life", row["orig_status"], row["end_status"]] += 1
        seen["credit", phases.get("credit_ph") == {}, "credit_ph" in phases] += 1
        seen["external in"] += is_external(row)
        seen["external in with init"] += is_external(row) and message["init_state"] is not None
        seen["exchanged"] += compute.get("gas_used") == "0"
        seen["hidden"] += row["account_state_after"]["account_status"] is None
        seen["huge"] += len(row["account_state_after"]["balance"] or "") == 19
        seen["masterchain"] += row["account"].startswith("-1:") and row["account"] not in SPECIAL
        for sent in row["out_msgs"]:
            seen["external out"] += sent["destination"] is None
            seen["huge value"] += len(sent["value"] or "") == 19
            seen["no opcode"] += sent["opcode"] is None
            seen["op", sent["decoded_opcode"]] += 1
            decoded = sent["message_content"]["decoded"] or {}
            decoded_forms.add(tuple(sorted({"type", "@type"} & set(decoded))))
            texts.add(decoded.get("comment"))
    wanted = {
        *(("skipped", reason) for reason in ("no_state", "bad_state", "no_gas", "suspended")),
        *(("exit", code, False) for code in (-14, 2, 4, 9, 33, 134, 406, 705, 707, 709, 65_535)),
        *(("result", code, False) for code in (33, 34, 36, 50)),
        *(("storage", change) for change in ("frozen", "deleted")),
        *(("destroyed", True, status) for status in ("nonexist", "uninit")),
        *(("life", old, "active") for old in ("nonexist", "uninit")),
        *(("op", name) for name in ("jetton_transfer", "jetton_internal_transfer")),
        *(("op", name) for name in ("jetton_notify", "excess", "nft_transfer", "text_comment")),
        *(("op", name) for name in ("nft_ownership_assigned", "bounce", "jetton_mint", None)),
        *(("bounce", kind) for kind in ("ok", "nofunds")),
        *(("tick_tock", tock) for tock in (True, False)),
        *("exit_arg", "result_arg", "skipped action", "fine", "bounced in", "due", "exchanged"),
        *("hidden", "external in", "external in with init", "external out", "masterchain"),
        *("huge", "huge value", "no opcode"),
        ("exit", 7, True),  # COMMIT, then a throw
        ("exit", 137, True),
        ("in", "wallet_signed_v4"),
        ("in", "w5_external_signed_request"),
        "spam",
        "left out and sent",
        ("result", 37, True),
        ("life", "active", "frozen"),
        ("life", "nonexist", "nonexist"),
        ("credit", True, True),
        ("credit", False, False),
    }
    missing = {case for case in wanted if not seen[case]}
    assert not missing, missing
    assert {(), ("type",), ("@type",), ("@type", "type")} <= decoded_forms
    assert any("💎" in (text or "") for text in texts)
    assert "<img src=x onerror=alert(1)>" in texts
    assert any((text or "").startswith("=1+1") for text in texts)
    assert any(row["status"] == "frozen" and row["frozen_hash"] for row in states["accounts"])


@pytest.mark.parametrize(("start", "counted"), [(1_690_000_000, False), (1_780_000_000, True)])
def test_actions_left_out_are_counted_since_version_8(start, counted):
    actions = [
        row["description"]["action"]
        for answer in synthetic_blocks(60, seed=2, start=start)
        for row in answer["transactions"]
        if row["description"].get("action", {}).get("success")
    ]
    left_out = [a["tot_actions"] - a["spec_actions"] - a["msgs_created"] for a in actions]
    assert sum(left_out) > 0
    assert [a["skipped_actions"] for a in actions] == [n * counted for n in left_out]


# Seeds


def test_the_same_seed_makes_the_same_chain(answers):
    again = synthetic_blocks(6)
    assert json.dumps(again) == json.dumps(answers[:6])
    assert json.dumps(synthetic_blocks(1, seed=1)) != json.dumps(answers[:1])


def test_other_sizes_and_places():
    for size_of_block, count in ((4, 20), (60, 5)):
        made = synthetic_blocks(
            count, seed=2, first_seqno=777, transactions_per_block=size_of_block
        )
        assert [answer["blocks"][0]["seqno"] for answer in made] == list(range(777, 777 + count))
        assert {len(answer["transactions"]) for answer in made} == {size_of_block}
    with pytest.raises(ValueError, match="at least 4"):
        synthetic_blocks(1, transactions_per_block=3)
    with pytest.raises(ValueError, match="first_seqno"):
        synthetic_blocks(1, first_seqno=0)
