"""The audit: what adds up is ok, what does not is found, what cannot be known is unknown."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from chain import Chain
from parity import assert_same, collected, frame_of, lake, synthetic
from slow import slow

import tonframes as tf
from tonframes.analysis.audit import check_balances, check_fees
from tonframes.network.prices import BASECHAIN, MASTERCHAIN
from tonframes.wire.tables import with_columns

#: Unix seconds in 2023, 2025 and 2026: each of another price era.
START_OF_ERA = (1_690_000_000, 1_740_000_000, 1_780_000_000)

INCOMPLETE = "messages or their fees are missing, or messages are repeated"

_LAZY = ["polars-lazy", "duckdb", *slow("dask"), pytest.param("spark", marks=pytest.mark.spark)]


def tables_of(chain):
    blocks = tf.parse_blocks(chain.next_block())
    return blocks.transactions, blocks.messages


@pytest.fixture(scope="module")
def chain():
    return [table.to_pandas() for table in synthetic(30, seed=5)]


def verdicts(frame):
    return frame.verdict.value_counts().to_dict()


def test_fees_of_every_recorded_transaction_add_up(recorded):
    transactions, messages = recorded.frames
    assert verdicts(check_fees(transactions)) == {"ok": 103, "unknown": 37}
    # The fee for importing each of the 37 external messages, computed from its cells.
    assert verdicts(check_fees(transactions, messages)) == {"ok": 140}


#: One wrong cell each: in the first row of a condition, in a column, what to add or to put there.
WRONG_CELLS = [
    ("action_success", "action_total_fwd_fees", 1),
    ("action_success and action_msgs_created > 1", "action_total_fwd_fees", -1),
    ("action_msgs_created == 0", "action_total_fwd_fees", 400_000),
    ("bounce == 'ok'", "bounce_fwd_fees", 1),
    ("credit > 0 and credit_first", "credit", 1),
    ("bounce == 'ok' and compute_skipped", "credit", -1),
    ("descr == 'tick_tock'", "aborted", True),
    ("compute_exit_code == 406", "aborted", False),
    ("compute_skipped and bounce != bounce", "aborted", False),
    ("compute_success and orig_status == 'nonexist'", "end_status", "uninit"),
    ("compute_skipped and orig_status == 'nonexist'", "end_status", "nonexist"),
    ("compute_skipped and orig_status == 'active'", "end_status", "frozen"),
]

#: Further cells of which each is at odds with the rest of its row.
WRONG_PHASES = [
    ("action_success", "action_success", False),
    ("action_success", "action_result_code", 37),
    ("action_success", "action_status_change", "deleted"),
    ("compute_exit_code == 406", "action_success", False),
    ("compute_success", "compute_success", False),
    ("compute_exit_code == 406", "compute_exit_code", 0),
    ("compute_exit_code == 406", "bounce", None),
    ("action_success and credit_first", "bounce", "nofunds"),
    ("bounce == 'nofunds'", "credit_first", True),
    ("compute_success", "destroyed", True),
    ("compute_success", "orig_status", "nonexist"),
    ("compute_skipped and orig_status == 'uninit'", "orig_status", "active"),
    ("compute_skipped and orig_status == 'active'", "storage_status_change", "frozen"),
    ("compute_skipped and orig_status == 'active'", "storage_status_change", "deleted"),
]


@pytest.mark.parametrize(("rows", "column", "wrong"), [*WRONG_CELLS, *WRONG_PHASES])
def test_one_wrong_cell_is_found(recorded, rows, column, wrong):
    transactions, messages = recorded.frames
    row = transactions.query(rows).index[0]
    changed = transactions.copy()
    amount = column.endswith("fees") or column == "credit"
    was = changed[column].fillna(0)[row] if amount else 0
    changed.loc[row, column] = was + wrong if amount else wrong
    audit = check_fees(changed, messages)
    assert audit.index[audit.verdict == "violated"].tolist() == [row]
    assert column in audit.why[row]
    if amount:
        assert audit.difference[row] == wrong


@pytest.mark.parametrize(
    ("rows", "column", "value"),
    [
        ("compute_success", "compute_exit_code", 137),  # COMMIT, and then an exception
        ("compute_gas_credit > 0", "credit", 14_424_983_580_017_492),  # services of July 2024
        ("credit > 0", "account", "-1:" + "F" * 64),  # burns what it receives
    ],
)
def test_what_only_looks_wrong_is_ok(recorded, rows, column, value):
    transactions, messages = recorded.frames
    changed = transactions.copy()
    changed.loc[transactions.query(rows).index[0], column] = value
    if column == "account":
        changed["credit"] = changed.credit.mask(changed.account == value, 0)
    assert verdicts(check_fees(changed, messages)) == {"ok": len(changed)}


#: Columns that the audit compares, of transactions and of messages.
COMPARED = [
    "aborted",
    "destroyed",
    "credit_first",
    "credit",
    "descr",
    "orig_status",
    "end_status",
    "storage_status_change",
    "compute_skipped",
    "compute_success",
    "compute_exit_code",
    "action_success",
    "action_result_code",
    "action_status_change",
    "action_total_fwd_fees",
    "action_tot_actions",
    "action_spec_actions",
    "action_msgs_created",
    "bounce_fwd_fees",
    "account_state_hash_before",
    "account_state_hash_after",
    "source",
    "value",
    "fwd_fee",
]


@pytest.mark.parametrize("column", COMPARED)
def test_what_is_unknown_is_no_violation(recorded, column):
    frames = [frame.copy() for frame in recorded.frames]
    for frame in frames:
        if column in frame:
            frame[column] = pd.Series(pd.NA, frame.index, frame[column].dtype)
    assert "violated" not in set(check_fees(*frames).verdict)
    assert "violated" not in set(check_balances(*frames).verdict)


@pytest.mark.parametrize("column", ["action_total_fwd_fees", "bounce_fwd_fees", "fwd_fee"])
def test_a_forwarding_fee_that_is_missing_leaves_it_unknown(recorded, column):
    frames = [frame.copy() for frame in recorded.frames]
    for frame in frames:
        if column in frame:
            frame[column] = pd.Series(pd.NA, frame.index, frame[column].dtype)
    audit = check_fees(*frames)
    unknown = audit[audit.verdict == "unknown"]
    assert len(unknown)
    assert unknown.why.unique().tolist() == [INCOMPLETE]
    assert unknown.difference.isna().all()


@pytest.mark.parametrize("name", ["blocks", "histories"])
def test_samples_pass(name):
    read = tf.read_blocks if name == "blocks" else tf.read_transactions
    held = read(tf.sample(name))
    assert set(check_fees(held).verdict) == {"ok"}
    assert set(check_fees(held.transactions).verdict) == {"ok", "unknown"}
    assert set(check_balances(held).verdict) == {"ok"}


def test_balances_of_recorded_transactions_add_up(recorded):
    # The nine are parts of a block: the balance before or after is that of another transaction.
    audit = check_balances(*recorded.frames)
    assert verdicts(audit) == {"ok": 131, "unknown": 9}
    assert audit[audit.verdict == "unknown"].why.unique() == "no balance is known before or after"


def test_a_synthetic_chain_passes(chain):
    transactions, messages = chain
    assert verdicts(check_fees(transactions, messages)) == {"ok": len(transactions)}
    audit = check_balances(transactions, messages)
    assert verdicts(audit) == {"ok": len(transactions)}
    assert audit.chain.max() > 1


@pytest.mark.parametrize(
    "column",
    [
        "total_fees",
        "storage_fees_collected",
        "compute_gas_fees",
        "action_total_action_fees",
        "bounce_msg_fees",
    ],
)
def test_a_nanoton_more_is_found(chain, column):
    transactions, messages = chain
    row = transactions[transactions[column].fillna(0) > 0].index[0]
    wrong = transactions.copy()
    wrong.loc[row, column] += 1
    audit = check_fees(wrong, messages)
    assert verdicts(audit)["violated"] == 1
    assert audit.loc[row, "verdict"] == "violated"
    assert audit.loc[row, "difference"] == (1 if column == "total_fees" else -1)
    assert audit.loc[row, "why"] == "the parts do not add up to total_fees"


def test_an_import_fee_that_no_price_gives_is_found(chain):
    transactions, messages = chain
    wrong = replace(BASECHAIN[2], lump_price=66_666)
    audit = check_fees(transactions, messages, prices=(wrong, *MASTERCHAIN))
    assert verdicts(audit).keys() == {"ok", "violated"}
    violated = audit[audit.verdict == "violated"]
    assert set(violated.hash) < set(messages.query("direction == 'in' and source.isna()").tx_hash)


@pytest.mark.parametrize("era", [0, 1])
def test_an_import_fee_of_another_era_is_a_violation(era):
    """The fees of 2023 or 2025, in transactions that say they are of 2026."""
    chain = Chain(seed=5, start=START_OF_ERA[era])
    transactions, messages = tables_of(chain)
    externals = len(check_fees(transactions).query("verdict == 'unknown'"))
    assert verdicts(check_fees(transactions, messages)) == {"ok": len(transactions)}
    moved = transactions.assign(now=transactions.now - START_OF_ERA[era] + START_OF_ERA[2])
    assert verdicts(check_fees(moved, messages))["violated"] == externals > 0


def test_between_two_price_rows_the_fee_of_either_is_ok(chain):
    transactions, messages = chain
    early = transactions.assign(now=BASECHAIN[2].valid_from - 1)
    assert verdicts(check_fees(early, messages)) == {"ok": len(transactions)}
    still_old = transactions.assign(now=BASECHAIN[1].valid_until)
    assert verdicts(check_fees(still_old, messages))["violated"] > 0


def test_without_a_price_of_its_time_an_import_fee_is_unknown(chain):
    transactions, messages = chain
    audit = check_fees(transactions, messages, prices=BASECHAIN[:1] + MASTERCHAIN)
    assert verdicts(audit).keys() == {"ok", "unknown"}
    assert audit[audit.verdict == "unknown"].why.unique().tolist() == [
        "the body of the message, or a price in force at its time, is missing"
    ]


def test_prices_may_be_given_by_a_generator(chain):
    transactions, messages = chain
    audit = check_fees(transactions, messages, prices=(row for row in BASECHAIN + MASTERCHAIN))
    assert verdicts(audit) == {"ok": len(transactions)}


@pytest.mark.parametrize("wrong", [["a"], [], 5])
def test_prices_are_checked_with_messages_and_without(chain, wrong):
    for frames in (chain, chain[:1]):
        with pytest.raises((TypeError, ValueError), match=r"tonframes\.network\.prices\.Prices"):
            check_fees(*frames, prices=wrong)


def test_a_negative_import_fee_is_a_violation(chain):
    transactions, _ = chain
    external = transactions[transactions.compute_gas_credit.fillna(0) > 0][:1].copy()
    external["total_fees"] = 1
    assert verdicts(check_fees(external)) == {"violated": 1}


def test_bodies_that_cannot_be_read_leave_it_unknown(chain):
    transactions, messages = chain
    audit = check_fees(transactions, messages.assign(body="AAAA"))
    assert verdicts(audit) == verdicts(check_fees(transactions))


def test_phases_that_are_missing_leave_it_unknown(chain):
    transactions, _ = chain
    column = transactions.storage_fees_collected.where(transactions.index != 3)
    audit = check_fees(transactions.assign(storage_fees_collected=column))
    assert audit.loc[3, ["verdict", "why"]].to_list() == ["unknown", "phases are missing"]
    assert pd.isna(audit.loc[3, "difference"])


@pytest.mark.parametrize("engine", ["pandas", "pandas-pyarrow", "polars", "pyarrow"])
def test_an_external_transaction_without_phases_is_unknown(engine, tmp_path):
    document = Chain(seed=5).next_block()
    cut = next(
        t for t in document["transactions"] if t.get("in_msg") and not t["in_msg"].get("source")
    )
    del cut["description"]["compute_ph"]
    blocks = tf.parse_blocks(document)
    frames = [
        frame_of(engine, blocks.arrow(name), tmp_path) for name in ("transactions", "messages")
    ]
    audit = collected(engine, check_fees(*frames)).to_pylist()
    assert [(row["verdict"], row["why"]) for row in audit if row["hash"] == cut["hash"]] == [
        ("unknown", "phases are missing")
    ]
    assert {row["verdict"] for row in audit if row["hash"] != cut["hash"]} == {"ok"}


@pytest.mark.parametrize("engine", ["pandas", "polars", "polars-lazy", "pyarrow"])
def test_rows_keep_their_order(engine, tmp_path):
    transactions, messages = synthetic(10, seed=5)
    order = np.random.default_rng(5).permutation(len(transactions))
    transactions = transactions.take(pa.array(order))
    frames = [frame_of(engine, table, tmp_path) for table in (transactions, messages)]
    for audit in (check_fees(frames[0]), check_fees(*frames), check_balances(*frames)):
        assert collected(engine, audit)["hash"].to_pylist() == transactions["hash"].to_pylist()


def test_fees_have_the_index_of_the_transactions(chain):
    transactions, messages = chain
    moved = transactions.set_axis(transactions.index[::-1])
    for audit in (check_fees(moved), check_fees(moved, messages)):
        assert audit.index.equals(moved.index)


def test_a_message_that_comes_twice_does_not_repeat_its_transaction(chain):
    transactions, messages = chain
    audit = check_fees(transactions, pd.concat([messages, messages]))
    assert len(audit) == len(transactions)
    assert audit.why.dropna().unique().tolist() == [INCOMPLETE]
    assert set(audit.verdict) == {"ok", "unknown"}  # without a message, none can be there twice


@pytest.mark.parametrize("form", [lambda table: table, lake], ids=["ours", "lake"])
@pytest.mark.parametrize("engine", _LAZY)
def test_import_fees_are_compared_on_lazy_engines(engine, form, tmp_path):
    transactions, messages = synthetic(10, seed=5)
    states = [s and b64decode(s) for s in messages["init_state_body"].to_pylist()]
    tables = [
        form(transactions),
        form(messages.append_column("init_state_boc", pa.array(states, pa.binary()))),
    ]
    tables[1] = pa.concat_tables([tables[1], tables[1][:5]])  # some messages come twice
    frames = [frame_of(engine, table, tmp_path) for table in tables]
    found = collected(engine, check_fees(*frames))
    expected = collected("pyarrow", check_fees(*tables))
    assert_same(expected, found)
    externals = collected("pyarrow", check_fees(tables[0])).column("verdict").to_pylist()
    assert "unknown" in externals
    twice = set(tables[1]["tx_hash"][:5].to_pylist())
    for row in expected.to_pylist():
        assert row["verdict"] == ("unknown" if row["hash"] in twice else "ok")


@pytest.mark.parametrize(
    "engine",
    [
        "pandas",
        "polars-lazy",
        "duckdb",
        *slow("dask"),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
)
def test_every_engine_finds_the_same(engine, tmp_path):
    # Values move to other rows, each column by another number of rows: few rows make sense.
    tables = [
        with_columns(
            table,
            **{
                name: table[name]
                .combine_chunks()
                .take(pa.array(np.roll(np.arange(len(table)), step)))
                for step, name in enumerate(COMPARED)
                if name in table.column_names
            },
        )
        for table in synthetic(10, seed=5)
    ]
    frames = [frame_of(engine, table, tmp_path) for table in tables]
    expected = collected("pyarrow", check_fees(*tables))
    assert_same(expected, collected(engine, check_fees(*frames)))
    assert len(set(expected["why"].to_pylist())) > 10


@pytest.mark.parametrize("column", ["value", "fwd_fee"])
def test_a_nanoton_that_appears_is_found(chain, column):
    transactions, messages = chain
    row = messages[(messages.direction == "out") & (messages[column].fillna(0) > 0)].index[0]
    wrong = messages.copy()
    wrong.loc[row, column] -= 1
    audit = check_balances(transactions, wrong).set_index("hash")
    assert audit.loc[messages.tx_hash[row], "verdict"] == "violated"
    assert audit.loc[messages.tx_hash[row], "difference"] == -1
    violated = audit[audit.verdict == "violated"]
    assert len(violated) == violated.chain.max()


def test_a_message_that_is_missing_leaves_it_unknown(chain):
    transactions, messages = chain
    row = messages[messages.direction == "out"].index[0]
    for check, why in ((check_balances, "messages are missing"), (check_fees, INCOMPLETE)):
        audit = check(transactions, messages.drop(row)).set_index("hash")
        assert audit.loc[messages.tx_hash[row], "verdict"] == "unknown"
        assert audit.loc[messages.tx_hash[row], "why"] == why
        assert "violated" not in set(audit.verdict)


def test_a_missing_transaction_is_no_violation(chain):
    transactions, messages = chain
    for row in range(0, 200, 20):
        audit = check_balances(transactions.drop(row), messages)
        assert "violated" not in set(audit.verdict)


def test_the_black_hole_burns_what_it_receives(chain):
    transactions, messages = chain
    incoming = messages[(messages.direction == "in") & (messages.value.fillna(0) > 0)].tx_hash
    incoming = incoming[~incoming.isin(messages[messages.direction == "out"].tx_hash)]
    alone = check_balances(transactions, messages).query("chain == 1").hash
    row = transactions[transactions.hash.isin(incoming) & transactions.hash.isin(alone)][:1].copy()
    value = messages[(messages.tx_hash == row.hash.item()) & (messages.direction == "in")].value
    row["account"] = "-1:" + "F" * 64
    row["account_state_balance_after"] = row.account_state_balance_after - value.item()
    assert verdicts(check_balances(row, messages)) == {"ok": 1}


def test_messages_that_are_the_same_are_read_once(chain, monkeypatch):
    transactions, messages = chain
    body = messages.query("direction == 'in' and source.isna()").body.iloc[0]
    read = Counter()

    def import_fees(body, _, **__):
        read[body] += 1
        return frozenset()

    monkeypatch.setattr("tonframes.analysis.audit.import_fees", import_fees)
    check_fees(transactions, messages.assign(body=body, init_state_body=None))
    assert read == {body: 2}  # at the prices of the basechain and of the masterchain
