"""Histories of accounts over real sockets: what comes is what the service has."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from history_service import HistoryService, Troubles
from hypothesis import given
from hypothesis import strategies as st

import tonframes as tf
from tonframes.fetch import block
from tonframes.store import Period, Store, digest, transactions_in
from tonframes.synthetic import synthetic_blocks
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order

NOBODY = "0:" + "0" * 63 + "1"
TABLES = ("transactions", "messages")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(block, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block, "LONGEST_WAIT", 0.002)


def whole_histories(blocks=60, seed=0):
    """Make rows of which each account's first one is its first ever."""
    rows = [row for body in synthetic_blocks(blocks, seed=seed) for row in body["transactions"]]
    rows.sort(key=lambda row: int(row["lt"]))
    begun = set()
    for row in rows:
        if row["account"] not in begun:
            begun.add(row["account"])
            row["prev_trans_lt"] = "0"
    return rows


@pytest.fixture(scope="module")
def rows():
    return whole_histories()


@pytest.fixture(scope="module")
def truth(rows):
    content = json.dumps({"transactions": rows, "address_book": {}}).encode()
    return in_order(pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, content)]))


@pytest.fixture(scope="module")
def accounts(rows):
    """Return accounts, those with the most transactions first."""
    counts = {}
    for row in rows:
        counts[row["account"]] = counts.get(row["account"], 0) + 1
    return sorted(counts, key=lambda account: (-counts[account], account))


def check(history, truth, accounts, period=Period()):
    expected = transactions_in(truth, accounts, period)
    for name in TABLES:
        assert history.arrow(name).equals(expected[name]), name


def moment(second):
    return datetime.fromtimestamp(second, UTC)


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_all_transactions_of_all_accounts_come(rows, truth, accounts, tmp_path, kept):
    with HistoryService(rows) as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(
            accounts, client=client, store=tmp_path / "s" if kept else None
        )
    check(history, truth, accounts)
    assert history.accounts == tuple(accounts)
    assert not history.unknown


def test_what_is_fetched_from_a_served_store_is_what_the_store_holds(tmp_path):
    held = tf.read_blocks(tf.sample())
    accounts = sorted(set(held.transactions.account) & known_states())
    start = int(held.blocks["start_lt"].min())
    with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
        history = tf.fetch_transactions(accounts, since=start, client=client, store=tmp_path)
    tables = {name: held.arrow(name) for name in (*TABLES, "address_book")}
    check(history, tables, accounts)
    entries = dict(zip(held.address_book.address, held.address_book.entry, strict=True))
    book = history.address_book
    assert len(book)
    assert all(entries[row.address] == row.entry for row in book.itertuples())


def known_states():
    return set(tf.read_accounts(tf.sample()).accounts.address)


# ── periods ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def service(rows):
    with HistoryService(rows) as service:
        yield service


@pytest.fixture
def client(service):
    with tf.Client(service.url) as client:
        yield client


@given(st.data())
def test_periods_are_those_of_a_filter_of_all_rows(
    service, truth, accounts, tmp_path_factory, data
):
    unit = data.draw(st.sampled_from(["lt", "utime"]))
    numbers = sorted(set(truth["transactions"]["lt" if unit == "lt" else "now"].to_pylist()))
    bound = st.sampled_from(numbers).flatmap(lambda n: st.integers(n - 1, n + 1)) | st.none()
    some = data.draw(st.lists(st.sampled_from(accounts), min_size=1, max_size=5, unique=True))
    store = tmp_path_factory.mktemp("store") / "s"
    with tf.Client(service.url) as client:
        for _ in range(3):
            since, until = data.draw(bound), data.draw(bound)
            if since is not None and until is not None and since >= until:
                since, until = until, since + 1
            period = Period(unit, since or 0, until)
            ends = (
                (since, until)
                if unit == "lt"
                else (since and moment(since), until and moment(until))
            )
            fetched = tf.fetch_transactions(
                some, since=ends[0], until=ends[1], client=client, store=store, progress=False
            )
            check(fetched, truth, some, period)
    check_files(store, truth)


def check_files(store, truth):
    """No transaction is in two files, and the spans are those of the rows."""
    import pyarrow.dataset as ds

    held = ds.dataset(store / "account_transactions").to_table()
    hashes = held["hash"].to_pylist()
    assert len(hashes) == len(set(hashes)) <= len(truth["transactions"])
    messages = ds.dataset(store / "account_messages").to_table()
    assert set(messages["tx_hash"].to_pylist()) <= set(hashes)


def test_a_moment_within_a_second_is_rounded_up(service, client, truth, accounts):
    now = truth["transactions"]["now"].to_pylist()[len(truth["transactions"]) // 2]
    since = moment(now).replace(microsecond=1)
    history = tf.fetch_transactions(accounts[:3], since=since, client=client, store=None)
    check(history, truth, accounts[:3], Period("utime", now + 1))


@pytest.mark.parametrize(
    ("since", "until", "error", "text"),
    [
        ("2026-05-02", "2026-05-01", ValueError, "since is not before until"),
        ("2026-05-01", "2026-05-01", ValueError, "since is not before until"),
        (8, 7, ValueError, "since is not before until"),
        (8, "2026-05-01", ValueError, "either both moments or both logical times"),
        (True, None, TypeError, "a moment or a logical time"),
        (-1, None, ValueError, "63 bits"),
        (2**63, None, ValueError, "63 bits"),
        ("yesterday-ish", None, ValueError, "since is a datetime"),
        (datetime(2026, 5, 1), None, ValueError, "no time zone"),  # noqa: DTZ001 - the point
        ("2200-01-01", None, ValueError, "from 1970 to 2038"),
    ],
)
def test_wrong_bounds_are_refused_before_anything_is_asked(since, until, error, text):
    with pytest.raises(error, match=text):
        tf.fetch_transactions([NOBODY], since=since, until=until, client="offline", store=None)


@pytest.mark.parametrize("accounts", [[], "", ["0:zz"], [3]])
def test_wrong_accounts_are_refused(accounts):
    with pytest.raises((ValueError, TypeError)):
        tf.fetch_transactions(accounts, client="offline", store=None)


def test_an_account_that_never_existed_has_an_empty_result_that_says_so(service, client, tmp_path):
    for _ in range(2):
        history = tf.fetch_transactions(NOBODY, client=client, store=tmp_path)
        assert history.transactions.shape == (0, 100)
        assert history.unknown == (NOBODY,)
        assert "unknown to the service" in repr(history)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def asked(service, call):
    """Count the requests for states and for transactions that a call makes."""
    before = service.answered.copy()
    call()
    made = service.answered - before
    return made["accountStates", 200], made["transactions", 200]


def test_what_is_held_is_not_asked_for(service, client, truth, accounts, tmp_path):
    now = sorted(truth["transactions"]["now"].to_pylist())
    since, until = moment(now[0]), moment(now[-1] - 65)
    few = accounts[:50]

    def fetch(until=until, since=since):
        return tf.fetch_transactions(few, since=since, until=until, client=client, store=tmp_path)

    assert asked(service, fetch) == (1, pytest.approx(3, abs=2))
    assert asked(service, fetch) == (0, 0)
    assert asked(service, lambda: fetch(moment(now[-1] - 70), moment(now[0] + 1))) == (0, 0)
    sent = service.rows_sent
    fetch(None)
    assert service.rows_sent - sent < len(truth["transactions"]) / 2
    check(fetch(None, None), truth, few)


def test_offline_the_store_answers(service, client, truth, accounts, tmp_path):
    tf.fetch_transactions(accounts[:9], client=client, store=tmp_path)
    offline = tf.fetch_transactions(accounts[:9], client="offline", store=tmp_path)
    check(offline, truth, accounts[:9])
    with pytest.raises(tf.MissingError) as missing:
        tf.fetch_transactions(accounts[8:11], client="offline", store=tmp_path)
    assert missing.value.missing == tuple(accounts[9:11])


def test_requests_are_few_for_many_accounts(service, client, truth, accounts):
    made = asked(service, lambda: tf.fetch_transactions(accounts, client=client, store=None))
    batches = -(-len(accounts) // 89)
    assert made[0] == batches
    assert made[1] <= len(truth["transactions"]) / 1000 + batches
