"""What a fetch would cost, held against what it does cost."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache

import pandas as pd
import pytest
from chain import synthetic_blocks
from fake_service import Chain, FakeService, Troubles, displaced
from slow import slow, slow_after

import tonframes as tf
from tonframes.fetch.network import lacks_windows
from tonframes.store import Store

FIRST = 90_000_000


@contextmanager
def sample(dialect):
    with tf.serve(tf.sample(), dialect=dialect) as url, tf.Client(url) as client:
        yield client


@pytest.fixture
def deployed():
    with sample("service") as client:
        yield client


def cost(client, seqnos, store):
    before = client.statistics.requests
    tf.fetch_blocks(seqnos, client=client, store=store, progress=False)
    return client.statistics.requests - before


WANTED = [
    [FIRST + 3],
    range(FIRST + 3, FIRST + 9),
    range(FIRST + 95, FIRST + 105),
    range(FIRST + 1, FIRST + 60),
    range(FIRST + 80, FIRST + 120),
    [FIRST + 3, FIRST + 5, FIRST + 6, FIRST + 110],
]


@pytest.mark.parametrize("kept", [True, *slow(False)], ids=["through a store", "without a store"])
@pytest.mark.parametrize("seqnos", WANTED, ids=map(str, range(len(WANTED))))
def test_one_block_at_a_time_takes_just_the_requests_that_were_planned(
    deployed, tmp_path, seqnos, kept
):
    store = tmp_path / "store" if kept else None
    lacks_windows(deployed)
    plan = tf.plan_blocks(seqnos, client=deployed, store=store)
    assert plan.requests_by_windows is None
    assert cost(deployed, seqnos, store) == plan.requests == plan.requests_by_block


@pytest.mark.parametrize("seqnos", [*WANTED[:4], *slow(*WANTED[4:])])
def test_through_windows_it_takes_about_the_requests_that_were_planned(deployed, tmp_path, seqnos):
    plan = tf.plan_blocks(seqnos, client=deployed, store=tmp_path / "store")
    assert plan.requests == plan.requests_by_windows
    assert abs(cost(deployed, seqnos, tmp_path / "store") - plan.requests) <= 1


def test_the_first_block_of_a_service_takes_a_few_requests_more(deployed, tmp_path):
    seqnos = range(FIRST, FIRST + 100)
    plan = tf.plan_blocks(seqnos, client=deployed, store=tmp_path / "store")
    assert plan.requests == plan.requests_by_windows < 10
    assert plan.requests < cost(deployed, seqnos, tmp_path / "store") <= plan.requests + 6


@cache
def long_chain():
    bodies = synthetic_blocks(301, seed=4, first_seqno=FIRST, transactions_per_block=12)
    return Chain.of(displaced(bodies, by=9_000_000, seconds=6))


#: The most rows of a page, and the most requests that a plan takes.
@pytest.mark.parametrize("limits", slow_after(1, [(100, 15), (30, 25), (1000, 15)]))
def test_a_plan_is_within_a_tenth_of_what_the_fetch_takes(limits):
    max_limit, most = limits
    seqnos = range(FIRST + 10, FIRST + 290)
    troubles = Troubles(max_limit=max_limit)
    with FakeService(long_chain(), troubles) as service, tf.Client(service.url) as client:
        plan = tf.plan_blocks(seqnos, client=client, store=None)
        assert client.statistics.requests <= most
        taken = cost(client, seqnos, None)
        assert abs(plan.requests - taken) <= max(1, taken / 10)
        assert plan.transactions == pytest.approx(12 * len(seqnos), rel=0.05)
        assert plan.requests_by_block == 2 * len(seqnos) + 4
        assert list(plan.ways.requests) == [plan.requests_by_windows, plan.requests_by_block]


def test_full_pages_take_more(deployed, monkeypatch):
    monkeypatch.setattr("tonframes.fetch.block.MOST_ROWS", 10)
    lacks_windows(deployed)
    plan = tf.plan_blocks(WANTED[1], client=deployed, store=None)
    assert cost(deployed, WANTED[1], None) == plan.requests + 2 * 6  # 25 transactions each


def test_a_service_that_shows_no_blocks_takes_one_request_each():
    with sample("specification") as client:
        plan = tf.plan_blocks(WANTED[3], client=client, store=None)
        assert cost(client, WANTED[3], None) == plan.requests == 59


def test_held_seqnos_need_no_requests(deployed, tmp_path):
    tf.fetch_blocks(range(FIRST + 10, FIRST + 20), client=deployed, store=tmp_path)
    wanted = range(FIRST + 5, FIRST + 25)
    plan = tf.plan_blocks(wanted, client=deployed, store=tmp_path)
    assert plan.wanted == (wanted,)
    assert plan.held == (range(FIRST + 10, FIRST + 20),)
    assert plan.missing == (range(FIRST + 5, FIRST + 10), range(FIRST + 20, FIRST + 25))
    assert plan.store == tmp_path
    assert abs(cost(deployed, wanted, tmp_path) - plan.requests) <= 1
    plan = tf.plan_blocks(wanted, client=deployed, store=tmp_path)
    assert (plan.held, plan.missing, plan.requests) == (plan.wanted, (), 0)
    assert str(plan) == f"20 masterchain blocks: {tmp_path} holds all of them"
    assert cost(deployed, wanted, tmp_path) == 0


def test_planning_sends_little_and_writes_nothing(deployed, tmp_path):
    tf.plan_blocks(range(FIRST, FIRST + 50), client=deployed, store=tmp_path / "store")
    assert deployed.statistics.requests <= 4
    assert not (tmp_path / "store").exists()


def test_planning_works_offline(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.socket", None)
    plan = tf.plan_blocks(range(FIRST, FIRST + 50), client="offline", store=tmp_path)
    assert plan.missing == (range(FIRST, FIRST + 50),)


def test_seconds_are_those_of_the_plans():
    plan = tf.plan_blocks(range(FIRST, FIRST + 100), client="offline", store=None)
    assert isinstance(plan.seconds, pd.Series)
    assert dict(plan.seconds) == {
        "without a key": plan.requests,
        "free": plan.requests / 10,
        "plus": plan.requests / 25,
        "advanced": plan.requests / 100,
    }


def test_a_plan_is_shown_as_text_and_html(tmp_path):
    (tmp_path / "a<b").mkdir()
    store = Store(tmp_path / "a<b")
    plan = tf.plan_blocks(range(FIRST, FIRST + 3), client="offline", store=store.path)
    assert str(plan).startswith("3 masterchain blocks, 0 of them held; to fetch: 90000000:90000003")
    assert plan._repr_html_() == f'<div class="tex2jax_ignore mathjax_ignore">{plan}</div>'


def test_ten_thousand_files_are_planned_in_no_time(tmp_path):
    store = Store(tmp_path)
    store.claim("-217", "a test")
    folder = tmp_path / "transactions"
    for start in range(FIRST, FIRST + 2_000_000, 200):
        (folder / f"{start:011d}-{start + 100:011d}.parquet").touch()
    plan = tf.plan_blocks(range(FIRST, FIRST + 2_000_000), client="offline", store=tmp_path)
    assert sum(map(len, plan.missing)) == 1_000_000
