"""Activity and flows: everything is counted, and once."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa
import pytest
from calls import calls
from chains import frames
from pandas.testing import assert_frame_equal
from parity import MOST_ENGINES, collected, frame_of

from tonframes.analysis.activity import ACTIVITY, ACTIVITY_MESSAGES, FLOWS, activity, flows
from tonframes.network.opcodes import opcode_name

# Some recorded answers contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")

FIGURES = (
    "transactions",
    "accounts",
    "messages_in",
    "messages_out",
    "external",
    "internal",
    "value",
    "gas_used",
    "total_fees",
)


def plain(found, keys):
    rows = pa.Table.from_pandas(found, preserve_index=False).to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


def internal(message):
    return bool(message["source"] and message["destination"])


def amount(record, key):
    return int((record or {}).get(key) or 0)


def gas(row):
    """Return the gas that a transaction used; special accounts show it as fees."""
    phase = row["description"].get("compute_ph") or {}
    used, fees = amount(phase, "gas_used"), amount(phase, "gas_fees")
    special = row["block_ref"]["workchain"] == -1 and not used and amount(phase, "vm_steps")
    return fees if special else used


def recomputed(answers, key_of):
    """Do what `activity` does, from what the service shows."""
    groups = defaultdict(Counter)
    accounts = defaultdict(set)
    for body in answers:
        for row in body["transactions"]:
            key = key_of(row)
            # A tick has no message; an older service says so by an empty one.
            come = [row["in_msg"]] if (row["in_msg"] or {}).get("hash") else []
            out = row["out_msgs"] or []
            accounts[key].add(row["account"])
            groups[key].update(
                transactions=1,
                messages_in=len(come),
                messages_out=len(out),
                external=sum(not internal(message) for message in come + out),
                internal=sum(internal(message) for message in come),
                value=sum(amount(message, "value") for message in come if internal(message)),
                gas_used=gas(row),
                total_fees=int(row["total_fees"]),
            )
    return {
        key: {name: group[name] for name in FIGURES} | {"accounts": len(accounts[key])}
        for key, group in groups.items()
    }


def hour(row):
    return (datetime.fromtimestamp(row["now"] // 3600 * 3600, UTC),)


def opcode(row):
    message = row["in_msg"] or {}
    text = message.get("opcode")
    return (None if text is None or message["source"] is None else int(text, 16),)


def operation(row):
    """Name what a transaction does, from its JSON."""
    message = row["in_msg"]
    if message is None:
        return ("tick-tock",)
    if message["source"] is None:
        return ("external",)
    if message["bounced"]:
        return ("bounced",)
    if message["opcode"] is None:
        return ("deposit",)
    code = int(message["opcode"], 16)
    if code == 0:
        return ("comment",)
    return (message.get("decoded_opcode") or opcode_name(code) or f"0x{code:08x}",)


@pytest.mark.parametrize(
    ("by", "key_of"),
    [
        ("hour", hour),
        ("opcode", opcode),
        ("operation", operation),
        (["operation", "opcode"], lambda row: operation(row) + opcode(row)),
        ("mc_block_seqno", lambda row: (row["mc_block_seqno"],)),
        (
            ["block_workchain", "account"],
            lambda row: (row["block_ref"]["workchain"], row["account"]),
        ),
        ((), lambda _: ()),
    ],
)
def test_groups_agree_with_the_answers(answers, by, key_of):
    keys = [by] if isinstance(by, str) else list(by)
    found = activity(*frames(answers), by=by)
    assert list(found) == [*keys, *FIGURES]
    rows = plain(found, keys)
    expected = recomputed(answers, key_of)
    assert {key: {name: row[name] for name in FIGURES} for key, row in rows.items()} == expected
    assert found.index.equals(pd.RangeIndex(len(found)))
    order = found[keys].dropna()
    assert_frame_equal(order, order.sort_values(keys) if keys else order)


def test_shards_are_groups(made):
    found = activity(*frames(made), by=["block_workchain", "block_shard"])
    assert len(found) > 3
    assert found.transactions.sum() == sum(len(body["transactions"]) for body in made)


def test_without_messages_their_columns_are_null(made):
    transactions, messages = frames(made)
    known = activity(transactions, messages)
    found = activity(transactions)
    unknown = ["messages_in", "messages_out", "external", "internal", "value"]
    assert found[unknown].isna().all().all()
    assert_frame_equal(found.drop(columns=unknown), known.drop(columns=unknown))
    assert list(found.dtypes) == list(known.dtypes)


# Flows


def distinct(answers):
    """Return every message from account to account of which the frame has at least one row."""
    return {
        message["hash"]: message
        for body in answers
        for row in body["transactions"]
        for message in [row["in_msg"] or {}, *(row["out_msgs"] or ())]
        if message.get("source") and message.get("destination")
    }


@pytest.mark.parametrize(
    ("by", "key_of"),
    [
        (("source", "destination"), lambda m: (m["source"], m["destination"])),
        ("opcode", lambda m: (m["opcode"] and int(m["opcode"], 16),)),
        ("operation", lambda m: operation({"in_msg": m})),
        (
            ["source", "day"],
            lambda m: (
                m["source"],
                datetime.fromtimestamp(int(m["created_at"]) // 86400 * 86400, UTC),
            ),
        ),
        ((), lambda _: ()),
    ],
)
def test_every_message_flows_once(answers, by, key_of):
    keys = [by] if isinstance(by, str) else list(by)
    expected = defaultdict(Counter)
    for message in distinct(answers).values():
        names = ("bounced", "bounced_value") if message["bounced"] else ("messages", "value")
        expected[key_of(message)].update(dict(zip(names, (1, int(message["value"])), strict=True)))
    found = flows(frames(answers)[1], by=by)
    figures = ["messages", "value", "bounced", "bounced_value"]
    assert list(found) == [*keys, *figures]
    rows = plain(found, keys)
    assert {key: {name: row[name] for name in figures} for key, row in rows.items()} == {
        key: {name: group[name] for name in figures} for key, group in expected.items()
    }
    assert found.value.is_monotonic_decreasing


def test_flows_need_only_one_end_of_a_message(made):
    _, messages = frames(made)
    whole = flows(messages, by=()).iloc[0]
    come, out = messages[messages.direction == "in"], messages[messages.direction == "out"]
    assert flows(pd.concat([messages, come]), by=()).iloc[0].to_list() == whole.to_list()
    for part in (come, out):
        assert flows(part, by=()).messages[0] + flows(part, by=()).bounced[0] == len(
            part.dropna(subset=["source", "destination"])
        )


def test_sums_that_int64_does_not_hold_are_refused_or_wide(made):
    transactions, messages = frames(made)
    rich = messages[messages.source.notna() & messages.destination.notna()].copy()
    rich["value"] = 2**63 - 1
    rich["bounced"] = False
    count = rich.msg_hash.nunique()
    assert int(flows(rich, by=(), wide=True).value[0]) == count * (2**63 - 1)
    arrived = int((rich.direction == "in").sum())
    found = activity(transactions, rich, by=(), wide=True)
    assert int(found.value[0]) == arrived * (2**63 - 1)
    for call in (lambda: flows(rich, by=()), lambda: activity(transactions, rich, by=())):
        with pytest.raises(OverflowError, match=r"cannot add up value of all rows: .*wide=True"):
            call()


def test_values_are_ordinary_numbers(made, tmp_path):
    pairs = flows(frames(made)[1])
    assert (pairs.value / 10**9).dtype == "Float64"
    assert len(pairs.nlargest(3, "value")) == 3
    assert pairs.describe().loc["max", "value"] == pairs.value.max()
    pairs.to_parquet(tmp_path / "pairs.parquet")
    assert_frame_equal(pd.read_parquet(tmp_path / "pairs.parquet"), pairs)


# Frames


def test_arguments_are_not_changed(made):
    transactions, messages = frames(made[:3])
    before = transactions.copy(), messages.copy()
    activity(transactions, messages)
    flows(messages)
    assert_frame_equal(transactions, before[0])
    assert_frame_equal(messages, before[1])


def test_wrong_frames_are_refused(made):
    transactions, messages = frames(made[:2])
    for column in (*ACTIVITY, "hash", "now"):
        with pytest.raises(ValueError, match=f"activity needs the column '{column}'"):
            activity(transactions.drop(columns=column), messages)
    for column in ACTIVITY_MESSAGES:
        with pytest.raises(ValueError, match=f"activity needs the column '{column}'"):
            activity(transactions, messages.drop(columns=column))
    for column in FLOWS:
        with pytest.raises(ValueError, match=f"flows needs the column '{column}'"):
            flows(messages.drop(columns=column))
    with pytest.raises(ValueError, match="looks like transactions"):
        flows(transactions)
    with pytest.raises(ValueError, match="cannot group by 'opcode'"):
        activity(transactions, by="opcode")
    with pytest.raises(ValueError, match="flows cannot group by 'nonsense'"):
        flows(messages, by="nonsense")
    for column in ("tx_hash", "direction", "bounced"):
        with pytest.raises(ValueError, match=f"flows cannot group by '{column}'"):
            flows(messages, by=["source", column])
    with pytest.raises(TypeError, match="floats lose nanotons"):
        flows(messages.astype({"value": float}))
    with pytest.raises(TypeError, match="frames of one engine"):
        activity(transactions, pa.Table.from_pandas(messages))


@pytest.mark.parametrize("library", MOST_ENGINES[1:])
def test_gas_of_missing_phases_is_unknown(library, tmp_path):
    table = calls(
        [None, None, None, 62],
        account=["missing", "skipped", "both", "both"],
        compute_skipped=[None, True, None, False],
        total_fees=[0] * 4,
    )
    frame = frame_of(library, table, tmp_path)
    found = collected(library, activity(frame, by="account"))
    gas_used = dict(zip(found["account"].to_pylist(), found["gas_used"].to_pylist(), strict=True))
    assert gas_used == {"missing": None, "skipped": 0, "both": 62}
