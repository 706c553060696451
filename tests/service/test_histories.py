"""The local service answers `transactions` from histories that a store holds, and from blocks."""

import shutil

import pytest
import requests
from chain.samples import write_histories

import tonframes as tf
from tonframes.service import serve
from tonframes.store import Store, held_spans


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("histories") / "store"
    write_histories(Store(path), weeks=1)
    return path


def ask(url, operation, **query):
    answer = requests.get(f"{url}/api/v3/{operation}", params=query, timeout=20)
    return answer.status_code, answer.json()


def test_transactions_meet_conditions_and_come_in_pages(store):
    held = tf.read_transactions(store).transactions
    busy = held.account.value_counts().index[0]
    lts = held[held.account == busy]["lt"].tolist()
    with serve(store) as url:
        _, newest = ask(url, "transactions", account=busy, limit=3)
        _, second = ask(url, "transactions", account=busy, limit=3, offset=2, sort="asc")
        _, window = ask(url, "transactions", account=busy, start_lt=lts[4], end_lt=lts[6])
        _, one = ask(url, "transactions", hash=held.hash[7])
        _, none = ask(url, "transactions", account="0:" + "0" * 64)
    assert [int(row["lt"]) for row in newest["transactions"]] == lts[:-4:-1]
    assert [int(row["lt"]) for row in second["transactions"]] == lts[2:5]
    assert [int(row["lt"]) for row in window["transactions"]] == lts[6:3:-1]
    assert [row["hash"] for row in one["transactions"]] == [held.hash[7]]
    assert newest["address_book"][busy]["user_friendly"]
    assert none["transactions"] == []


def test_there_are_no_blocks(store):
    with serve(store) as url:
        assert ask(url, "blocks") == (200, {"blocks": []})
        assert ask(url, "masterchainBlockShards", seqno=7)[0] == 404
        assert ask(url, "transactions", mc_seqno=7)[0] == 404
        _, info = ask(url, "masterchainInfo")
    assert info["last"]["global_id"] == -217


def test_without_blocks_no_block_is_called_the_last_one(store):
    with (
        serve(store) as url,
        tf.Client(url) as client,
        pytest.raises(
            tf.RequestError, match=r"not indexed yet by .*: it has no masterchain blocks"
        ),
    ):
        tf.fetch_blocks(90_000_000, client=client, store=None)


def test_without_blocks_no_moment_has_one(store):
    with (
        serve(store) as url,
        tf.Client(url) as client,
        pytest.raises(tf.RequestError, match="has no masterchain blocks, so no moment has one"),
    ):
        tf.fetch_blocks("2026-05-01/2026-05-02", client=client, store=None)


def test_a_store_of_histories_says_what_reads_it(store):
    assert "it holds histories of accounts: read_transactions reads them" in repr(
        tf.read_blocks(store)
    )


def test_without_blocks_a_period_in_the_past_is_held_until_its_last_transaction(store):
    account = tf.read_transactions(store).transactions.account[0]
    with (
        serve(store) as url,
        tf.Client(url) as client,
        pytest.warns(tf.TonframesWarning, match="does not tell the time of its last block: it may"),
    ):
        history = tf.fetch_transactions(account, until="2026-11-01", client=client, store=None)
    last = f"{history.transactions.block_time.max():%Y-%m-%d %H:%M:%S}"
    assert f"held until {last}" in repr(history)


def test_a_transaction_of_a_block_and_of_a_history_is_answered_once(tmp_path):
    shutil.copytree(tf.sample(), tmp_path / "both")
    account = tf.read_blocks(tf.sample()).transactions.account.value_counts().index[0]
    with serve(tf.sample()) as url, tf.Client(url) as client:
        since = "2026-05-28T20:28"
        tf.fetch_transactions(account, since=since, client=client, store=tmp_path / "both")
        _, alone = ask(url, "transactions", account=account, limit=1000)
    assert held_spans(Store(tmp_path / "both"))
    with serve(tmp_path / "both") as url:
        _, both = ask(url, "transactions", account=account, limit=1000)
    assert both == alone
