"""Plans of histories: as many requests as the fetch then makes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from chain import synthetic_blocks
from fake_service import FakeService
from slow import slow, slow_after

import tonframes as tf


@pytest.fixture(scope="module")
def rows():
    """Make one account with a transaction every second."""
    [template] = [
        row for row in synthetic_blocks(1)[0]["transactions"] if row["account"].startswith("0:")
    ][:1]
    made = []
    for i in range(2000):
        lt = 10**6 * (i + 1)
        made.append(
            template
            | {
                "lt": str(lt),
                "hash": f"{i:043d}=",
                "now": 1_780_000_000 + i,
                "prev_trans_lt": str(lt - 10**6),
                "prev_trans_hash": f"{i - 1:043d}=" if i else "A" * 43 + "=",
            }
        )
    return made


@pytest.mark.parametrize(
    "bounds", slow_after(1, [{"since": 300, "until": 1500}, {"since": 300}, {}])
)
def test_requests_and_transactions_are_about_those_of_the_fetch(rows, bounds):
    account = rows[0]["account"]
    moments = {k: datetime.fromtimestamp(1_780_000_000 + n, UTC) for k, n in bounds.items()}
    with FakeService(rows) as service, tf.Client(service.url) as client:
        client.page_limit.allow(100)
        plan = tf.plan_transactions(account, **moments, client=client, store=None)
        before = service.requests
        history = tf.fetch_transactions(account, **moments, client=client, store=None)
        made = service.requests - before
    assert plan.transactions == pytest.approx(len(history.transactions), rel=0.05)
    assert plan.requests == pytest.approx(made, rel=0.1)


def test_what_is_held_needs_no_requests(rows, tmp_path):
    account = rows[0]["account"]
    until = datetime.fromtimestamp(1_780_000_900, UTC)
    with FakeService(rows) as service, tf.Client(service.url) as client:
        tf.fetch_transactions(account, until=until, client=client, store=tmp_path)
        plan = tf.plan_transactions(account, until=until, client=client, store=tmp_path)
    assert (plan.requests, plan.held) == (0, 1)
    assert "holds all transactions" in str(plan)


@pytest.mark.parametrize("until", [1800, *slow(None)])
def test_after_an_interruption_what_is_held_is_told_and_not_counted(rows, tmp_path, until):
    account = rows[0]["account"]
    ends = [datetime.fromtimestamp(1_780_000_000 + n, UTC) for n in (1100, until or 0)]
    bounds = {"since": "2026-01-01", "until": ends[1] if until else None}
    with FakeService(rows) as service, tf.Client(service.url) as client:
        part = bounds | {"until": ends[0]}
        came = tf.fetch_transactions(account, **part, client=client, store=tmp_path)
        plan = tf.plan_transactions(account, **bounds, client=client, store=tmp_path)
        whole = tf.fetch_transactions(account, **bounds, client=client, store=tmp_path)
    assert (plan.held, plan.rows_held) == (0, pytest.approx(len(came.transactions), abs=1))
    rest = len(whole.transactions) - len(came.transactions)
    assert plan.transactions == pytest.approx(rest, rel=0.05)
    assert f"0 of them held, and {plan.rows_held:,} transactions of the others" in str(plan)


def test_a_damaged_file_does_not_stop_the_plan(rows, tmp_path):
    account = rows[0]["account"]
    with FakeService(rows) as service, tf.Client(service.url) as client:
        tf.fetch_transactions(account, client=client, store=tmp_path)
        for file in (tmp_path / "account_transactions").iterdir():  # a slow fetch commits often
            file.write_bytes(file.read_bytes()[:-200])
        plan = tf.plan_transactions(account, client=client, store=tmp_path)
    assert plan.rows_held == 0


def test_offline_nothing_is_measured():
    plan = tf.plan_transactions(["0:" + "0" * 64], since="2026-01-01", client="offline", store=None)
    assert plan.transactions is None
    assert "at least" in str(plan)
