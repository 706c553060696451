"""The demo tells the truth about the sample."""

from __future__ import annotations

import re

import pytest

import tonframes as tf
from tonframes.demo import demo, failures_by_code, fees_by_phase, top_gas
from tonframes.fees import undo_gas_exchange


@pytest.fixture(scope="module")
def transactions():
    return undo_gas_exchange(tf.read_blocks(tf.sample()).transactions)


def test_the_demo_does_the_main_job(tmp_path, capsys):
    picture = demo(tmp_path / "store")
    out = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    for step in (
        "1. A service",
        "2. Fetching 50 masterchain blocks and 200 accounts",
        "3. What came",
        "(1250, 100)",
        "(200, 18)",
        "4. Total fees by phase",
        "5. Who uses the most gas",
        "6. Failures by exit code",
        "7. A picture",
    ):
        assert step in out
    lines = re.search(r"Next, in Python:\n\n(.*)\n(.*)\n", out)
    scope: dict = {}
    exec(lines[1].strip(), scope)  # noqa: S102
    assert len(eval(lines[2].strip(), scope)) == 5  # noqa: S307
    demo(tmp_path / "store")
    assert "1 requests" not in capsys.readouterr().out


def test_fees_by_phase_add_up(transactions):
    fees = fees_by_phase(transactions)
    assert fees.dtype == "int64"
    assert fees.drop("total").sum() == fees["total"] == transactions.total_fees.sum()
    external = transactions.merge(
        tf.read_blocks(tf.sample()).messages.query("direction == 'in' and source.isna()"),
        left_on="hash",
        right_on="tx_hash",
    )
    parts = (
        external[
            [
                "storage_fees_collected",
                "compute_gas_fees",
                "action_total_action_fees",
                "bounce_msg_fees",
                "credit_due_fees_collected",
            ]
        ]
        .sum()
        .sum()
    )
    assert fees["import"] == external.total_fees.sum() - parts > 0


def test_top_gas(transactions):
    top = top_gas(transactions)
    assert list(top.gas_used) == sorted(top.gas_used, reverse=True)
    account = transactions[transactions.account == top.index[0]]
    assert top.gas_used.iloc[0] == account.compute_gas_used.sum()


def test_failures_count_every_aborted_transaction(transactions):
    failures = failures_by_code(transactions)
    assert failures.transactions.sum() == transactions.aborted.sum() > 0
