"""Histories of accounts over real sockets: what comes is what the service has."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from random import Random

import pytest
from fake_service import FakeService, Troubles, whole_histories
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from slow import FEW, SEEDS

import tonframes as tf
from tonframes.fetch import block
from tonframes.fetch.histories.batch import ATTEMPTS
from tonframes.service.scanned import scanned
from tonframes.store import Period, Store, held_spans, histories, merging, transactions_in
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order

NOBODY = "0:" + "0" * 63 + "1"
TABLES = ("transactions", "messages")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(block, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block, "LONGEST_WAIT", 0.002)


@pytest.fixture(scope="module")
def rows():
    return whole_histories(60)


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


EVER = Period()
#: The rows are of the past: a fetch until the last of them finds the service behind.
BEHIND = pytest.mark.filterwarnings("ignore:.* is behind. it may not have")
UNKNOWN = pytest.mark.filterwarnings("ignore:.* knows no transactions of")
#: What the `repr` of a result says is proven.
WHOLE, WHOLE_SPANS = (re.compile(rf"\n  proven +{text}") for text in ("whole", "each span whole"))


def check(history, truth, accounts, period=EVER):
    expected = transactions_in(truth, accounts, period)
    for name in TABLES:
        assert history.arrow(name).equals(expected[name]), name


def moment(second):
    return datetime.fromtimestamp(second, UTC)


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_all_transactions_of_all_accounts_come(rows, truth, accounts, tmp_path, kept):
    with FakeService(rows) as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(
            accounts, client=client, store=tmp_path / "s" if kept else None
        )
    check(history, truth, accounts)
    assert history.accounts == tuple(accounts)
    assert not history.unknown


def test_what_is_fetched_from_a_served_store_is_what_the_store_holds(tmp_path):
    held = tf.read_blocks(tf.sample())
    accounts = sorted(set(held.transactions.account) & known_states())
    start = int(held.blocks["start_lt"][held.blocks["workchain"] == -1].min())
    with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
        history = tf.fetch_transactions(accounts, since=start, client=client, store=tmp_path)
    tables = {name: held.arrow(name) for name in (*TABLES, "address_book")}
    tables["transactions"] = scanned(tables["transactions"])
    check(history, tables, accounts, Period("lt", start))
    entries = dict(zip(held.address_book.address, held.address_book.entry, strict=True))
    book = history.address_book
    assert len(book)
    assert all(entries[row.address] == row.entry for row in book.itertuples())


def known_states():
    return set(tf.read_accounts(tf.sample()).accounts.address)


# ── periods ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def service(rows):
    with FakeService(rows) as service:
        yield service


@pytest.fixture
def client(service):
    with tf.Client(service.url) as client:
        yield client


def drawn_period(data, truth):
    """Draw a period whose ends are next to transactions, with its bounds as users pass them."""
    unit = data.draw(st.sampled_from(["lt", "utime"]))
    numbers = sorted(set(truth["transactions"]["lt" if unit == "lt" else "now"].to_pylist()))
    bound = st.sampled_from(numbers).flatmap(lambda n: st.integers(n - 1, n + 1)) | st.none()
    since, until = data.draw(bound), data.draw(bound)
    if since is not None and until is not None and since >= until:
        since, until = until, since + 1
    bounds = {"since": since, "until": until}
    if unit == "utime":
        bounds = {name: n and moment(n) for name, n in bounds.items()}
    return Period(unit, since or 0, until), bounds


@BEHIND
@FEW
@given(st.data())
def test_periods_are_those_of_a_filter_of_all_rows(service, truth, accounts, data):
    some = data.draw(st.lists(st.sampled_from(accounts), min_size=1, max_size=5, unique=True))
    period, bounds = drawn_period(data, truth)
    with tf.Client(service.url) as client:
        fetched = tf.fetch_transactions(some, **bounds, client=client, store=None)
    check(fetched, truth, some, period)


@BEHIND
@pytest.mark.parametrize("unit", ["lt", "utime"])
def test_overlapping_periods_in_a_store_add_up(client, truth, accounts, tmp_path, unit):
    numbers = sorted(truth["transactions"]["lt" if unit == "lt" else "now"].to_pylist())
    middle = [numbers[len(numbers) * i // 6] for i in range(6)]
    for start, stop in ((1, 2), (3, 4), (2, 5), (0, 3)):
        ends = [middle[start], middle[stop]]
        since, until = ends if unit == "lt" else map(moment, ends)
        history = tf.fetch_transactions(
            accounts[:20], since=since, until=until, client=client, store=tmp_path
        )
        check(history, truth, accounts[:20], Period(unit, *ends))
    check_files(tmp_path, truth)


def check_files(store, truth, *, killed=False):
    """No transaction is in two files, and the spans are those of the rows."""
    import pyarrow.dataset as ds

    held = ds.dataset(store / "account_transactions").to_table()
    hashes = held["hash"].to_pylist()
    assert len(hashes) == len(set(hashes)) <= len(truth["transactions"])
    if killed:  # what the process left is swept away by the next one that writes
        return
    messages = ds.dataset(store / "account_messages").to_table()
    assert set(messages["tx_hash"].to_pylist()) <= set(hashes)


def test_a_moment_within_a_second_is_rounded_up(client, truth, accounts):
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
        ("lt:soon", None, ValueError, "lt:65000000000000"),
        ("lt:\u0661", None, ValueError, "lt:65000000000000"),
        ("lt:9223372036854775808", None, ValueError, "63 bits"),
        ("lt:8", "lt:7", ValueError, "since is not before until"),
        ("lt:8", "2026-05-01", ValueError, "either both moments or both logical times"),
    ],
)
def test_wrong_bounds_are_refused_before_anything_is_asked(since, until, error, text):
    with pytest.raises(error, match=text):
        tf.fetch_transactions([NOBODY], since=since, until=until, client="offline", store=None)


EXCHANGE = "EQCY4OB8o30-PZxFjHLLNKqpW4DE6tdzd8eGMRggNDBrraU8"


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1_777_593_600, "2026-05-01T00:00:00"),
        (1_777_593_600_000, "2026-05-01T00:00:00"),
        (1_777_593_600_123_456, "2026-05-01T00:00:00"),
        (1_777_593_600_123_456_789, "2026-05-01T00:00:00"),
        (1_546_300_800, "2019-01-01T00:00:00"),
        (2**31 - 1, "2038-01-19T03:14:07"),
        (2026, "2026-01"),
        (202605, "2026-05"),
        (20260501, "2026-05-01"),
        (20191115, "2019-11-15"),
    ],
)
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_moment_written_as_a_number_is_refused_and_the_error_says_how_to_write_it(
    number, written, name
):
    text = re.escape(f"write the moment as '{written}', or the logical time as 'lt:{number}'")
    for call in (
        partial(tf.fetch_transactions, EXCHANGE, client="offline", store=None),
        partial(tf.plan_transactions, EXCHANGE, client="offline", store=None),
        partial(tf.read_transactions, tf.sample("histories"), EXCHANGE),
    ):
        with pytest.raises(ValueError, match=f"{name} is {number}, which .*{text}"):
            call(**{name: number})
    with pytest.raises(ValueError, match=text):
        next(tf.follow_transactions(EXCHANGE, since=number, client="offline", store=None))


@pytest.mark.parametrize(
    "number",
    [
        7,
        2018,
        202613,
        20261301,
        20260231,
        1_546_300_799,
        2**31,
        65_000_000_000_000,
        355_000_000_000_000,
    ],
)
def test_other_numbers_are_logical_times(number):
    plan = partial(tf.plan_transactions, EXCHANGE, client="offline", store=None)
    assert plan(since=number).period == Period("lt", number)
    assert plan(since=f"lt:{number}").period == Period("lt", number)


def test_a_logical_time_that_looks_like_a_moment_is_written_as_text():
    held = partial(tf.read_transactions, tf.sample("histories"), EXCHANGE)
    lts = held().transactions["lt"]
    assert len(held(since="lt:1777593600", until=f"lt:{lts[9]}").transactions) == 9
    with pytest.raises(ValueError, match="'lt:1777593600'"):
        held(since=1777593600, until=1780272000)
    may = held(since="2026-05-01", until="2026-06-01")
    assert len(may.transactions) == 433


@pytest.mark.parametrize("accounts", [[], "", ["0:zz"], [3]])
def test_wrong_accounts_are_refused(accounts):
    with pytest.raises((ValueError, TypeError)):
        tf.fetch_transactions(accounts, client="offline", store=None)


@UNKNOWN
def test_an_account_that_never_existed_has_an_empty_result_that_says_so(client, tmp_path):
    for _ in range(2):
        history = tf.fetch_transactions(NOBODY, client=client, store=tmp_path)
        assert history.transactions.shape == (0, 100)
        assert history.unknown == (NOBODY,)
        assert "unknown to the service" in repr(history)


class WithoutStates(FakeService):
    """A service whose answers lack the states of accounts."""

    def _states(self, _addresses, _last):
        return []


def test_accounts_whose_states_are_missing_have_their_transactions(rows, truth, accounts):
    some = [*accounts[:3], *accounts[-40:]]
    with WithoutStates(rows) as service, tf.Client(service.url) as client:
        with pytest.warns(tf.TonframesWarning, match="is behind"):
            history = tf.fetch_transactions([*some, NOBODY], client=client, store=None)
        assert "held until" in repr(history)
        check(history, truth, some)
        assert not history.unknown


@UNKNOWN
def test_an_account_that_begins_later_is_not_unknown_any_more(rows, truth, accounts, tmp_path):
    now = sorted(truth["transactions"]["now"].to_pylist())
    account = next(
        account
        for account in accounts
        if min(row["now"] for row in rows if row["account"] == account) > now[0] + 10
    )
    for until, unknown in ((now[0] + 5, (account,)), (None, ())):
        with FakeService(rows, Troubles(gone=frozenset())) as service:
            if until:
                service.set_rows([row for row in rows if row["account"] != account])
            with tf.Client(service.url) as client:
                bound = until and moment(until)
                history = tf.fetch_transactions(account, until=bound, client=client, store=tmp_path)
        assert history.unknown == unknown
    check(history, truth, [account])


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


@UNKNOWN
@BEHIND
def test_a_fetch_until_now_is_held_until_a_minute_before(client, truth, accounts, tmp_path):
    last = max(truth["transactions"]["now"].to_pylist())
    quiet = [
        account
        for account in accounts
        if max(transactions_in(truth, [account], EVER)["transactions"]["now"].to_pylist())
        < last - 120
    ][:3]
    quiet.append(NOBODY)
    tf.fetch_transactions(quiet, until=moment(last - 5), client=client, store=tmp_path)
    for seconds in (119, 61, 60):
        until = moment(last - seconds)
        check(tf.read_transactions(tmp_path, quiet, until=until), truth, quiet)
    for seconds in (59, 5):
        with pytest.raises(tf.MissingError) as missing:
            tf.read_transactions(tmp_path, quiet, until=moment(last - seconds))
        assert missing.value.missing == tuple(quiet)


@UNKNOWN
@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_a_service_that_is_behind_is_told_and_nothing_is_called_whole_that_it_lacks(
    client, truth, accounts, tmp_path, kept
):
    last = max(truth["transactions"]["now"].to_pylist())
    few, until = [*accounts[:3], NOBODY], moment(last + 3600)
    store = tmp_path if kept else None
    held = f"held until {moment(last - 60):%Y-%m-%d %H:%M:%S}"
    told = rf"is behind: .* before {until:%Y-%m-%d %H:%M:%S}. The result is .*, {held}; fetch"
    for since, whole in ((moment(last - 90), WHOLE), (moment(last + 60), WHOLE_SPANS)):
        with pytest.warns(tf.TonframesWarning, match=told):
            history = tf.fetch_transactions(
                few, since=since, until=until, client=client, store=store
            )
        shown = repr(history)
        assert f", {since:%Y-%m-%d %H:%M:%S}, {held}" in shown
        assert f"{until:%Y-%m-%d %H:%M:%S}" not in shown
        assert whole.search(shown)
        assert history.unknown == (NOBODY,)
    if kept:
        with pytest.raises(tf.MissingError):
            tf.read_transactions(store, few, since=moment(last - 90), until=until)


def test_a_period_that_ends_now_is_no_warning_and_says_until_when_it_is_held(rows, accounts):
    now = int(time.time())
    late = now - max(row["now"] for row in rows)
    recent = [row | {"now": row["now"] + late} for row in rows]
    with FakeService(recent) as service, tf.Client(service.url) as client:
        for until in (moment(now), moment(now + 10**6)):
            history = tf.fetch_transactions(accounts[:3], until=until, client=client, store=None)
            last = min(
                max(row["now"] for row in recent if row["account"] == account)
                for account in accounts[:3]
            )
            assert f"held until {moment(max(now - 60, last)):%Y-%m-%d %H:%M:%S}" in repr(history)
            assert WHOLE.search(repr(history))
        history = tf.fetch_transactions(
            accounts[:3], until=moment(now - 60), client=client, store=None
        )
        assert f"to {moment(now - 60):%Y-%m-%d %H:%M:%S}" in repr(history)


def test_offline_the_store_answers(client, truth, accounts, tmp_path):
    tf.fetch_transactions(accounts[:9], client=client, store=tmp_path)
    offline = tf.fetch_transactions(accounts[:9], client="offline", store=tmp_path)
    check(offline, truth, accounts[:9])
    with pytest.raises(tf.MissingError) as missing:
        tf.fetch_transactions(accounts[8:11], client="offline", store=tmp_path)
    assert missing.value.missing == tuple(accounts[9:11])


@pytest.mark.parametrize("unit", ["lt", "utime"])
def test_a_gap_between_what_is_held_is_missing_or_named(client, truth, accounts, tmp_path, unit):
    account = accounts[0]
    own = transactions_in(truth, [account], EVER)["transactions"]
    numbers = own["lt" if unit == "lt" else "now"].to_pylist()
    ends = [numbers[len(numbers) * i // 5] for i in range(1, 5)]
    a, b, c, d = ends if unit == "lt" else map(moment, ends)
    for since, until in ((a, b), (c, d)):
        tf.fetch_transactions(account, since=since, until=until, client=client, store=tmp_path)
    first, second = held_spans(Store(tmp_path))[account]
    gap = Period(unit, first.stop(unit), second.start(unit))
    for bounds in ({"since": a}, {"until": d}, {"since": a, "until": d}):
        with pytest.raises(tf.MissingError, match="does not hold all") as error:
            tf.read_transactions(tmp_path, account, **bounds)
        assert error.value.missing == (account,)
        assert str(gap) in str(error.value)
        with pytest.raises(tf.MissingError):
            tf.read_transactions(tmp_path, **bounds)
    for some in (None, account):
        shown = repr(tf.read_transactions(tmp_path, some))
        assert "first one held to the last one held, in 2 spans with gaps between:" in shown
        assert WHOLE_SPANS.search(shown)
    later = tf.read_transactions(tmp_path, account, since=c)
    assert "to the last one held:" in repr(later)
    assert WHOLE.search(repr(later))
    earlier = tf.read_transactions(tmp_path, account, until=b)
    assert "the first one held to" in repr(earlier)
    assert 0 < len(earlier.transactions) < len(own)
    tf.fetch_transactions(account, since=b, until=c, client=client, store=tmp_path)
    joined = repr(tf.read_transactions(tmp_path))
    assert "first one held to the last one held:" in joined
    assert WHOLE.search(joined)


def test_requests_are_few_for_many_accounts(service, client, truth, accounts):
    made = asked(service, lambda: tf.fetch_transactions(accounts, client=client, store=None))
    batches = -(-len(accounts) // 89)
    assert made[0] == batches
    assert made[1] <= len(truth["transactions"]) / 1000 + batches


# ── troubles ─────────────────────────────────────────────────────────────────────────────────────


TROUBLES = {
    "ties longer than a page": Troubles(max_limit=3),
    "slow pages": Troubles(slow_over=40),
    "short URLs": Troubles(longest_url=1000),
    "answers cut short": Troubles(cut=0.3),
    "replicas that lag": Troubles(lag=0.3, behind=20),
    "all of them": Troubles(100, 40, 2000, cut=0.2, lag=0.2, behind=20),
}


def under_troubles(rows, truth, accounts, troubles, store):
    now = sorted(truth["transactions"]["now"].to_pylist())
    with FakeService(rows, troubles) as service, tf.Client(service.url) as client:
        for since, until in ((now[-1] - 60, now[-1] - 25), (now[0] + 20, now[-1] - 25)):
            bounds = {"since": moment(since), "until": moment(until)}
            history = tf.fetch_transactions(accounts, **bounds, client=client, store=store)
            check(history, truth, accounts, Period("utime", since, until))
    check_files(store, truth)


@BEHIND
@pytest.mark.parametrize("name", TROUBLES)
def test_nothing_is_lost_under_troubles(rows, truth, accounts, tmp_path, name):
    some = accounts[:6] if "ties" in name else accounts[:60]
    under_troubles(rows, truth, some, TROUBLES[name], tmp_path)


def test_a_hole_that_is_never_filled_is_an_error_and_the_rest_is_kept(
    rows, truth, accounts, tmp_path
):
    chain = [row for row in rows if row["account"] == accounts[0]]
    gone = chain[len(chain) // 2]
    with FakeService(rows) as service, tf.Client(service.url) as client:
        service.troubles.gone = frozenset([gone["hash"]])
        with pytest.raises(tf.IncompleteError, match=f"lt {gone['lt']}.* did not come") as error:
            tf.fetch_transactions(accounts[0], client=client, store=tmp_path)
        lt = int(gone["lt"])
        before = int(chain[len(chain) // 2 - 1]["lt"])
        assert error.value.missing == ((accounts[0], Period("lt", before + 1, lt + 1)),)
        kept = error.value.partial.transactions
        assert len(kept) == len(chain) - 1
        assert gone["hash"] not in set(kept["hash"])
        shown = repr(error.value.partial)
        assert f"{accounts[0]}, part of the period the first one to the last one:" in shown
        assert WHOLE_SPANS.search(shown)
        held = repr(tf.read_transactions(tmp_path))
        assert "the first one held to the last one held, in 2 spans with gaps between:" in held
        assert WHOLE_SPANS.search(held)
        after = tf.fetch_transactions(accounts[0], since=lt + 1, client="offline", store=tmp_path)
        assert len(after.transactions) == len(chain) - len(chain) // 2 - 1
        service.troubles.gone = frozenset()
        sent = service.rows_sent
        whole = tf.fetch_transactions(accounts[0], client=client, store=tmp_path)
        check(whole, truth, accounts[:1])
        assert service.rows_sent - sent <= 20
    check_files(tmp_path, truth)


def test_a_period_before_the_first_block_of_the_service_says_where_it_begins(tmp_path):
    account = tf.read_blocks(tf.sample(), columns=["account"]).transactions.account.mode()[0]
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:

        def fetch(**bounds):
            return tf.fetch_transactions(account, **bounds, client=client, store=tmp_path)

        for bounds in ({"since": "2026-05-28T20:20"}, {"since": 5}, {}):
            before = client.statistics.requests
            with pytest.raises(tf.IncompleteError, match="the service begins at 2026-05") as error:
                fetch(**bounds)
            assert client.statistics.requests - before < ATTEMPTS
            least = re.search(r"use since='(.+)', or", str(error.value))[1]
            assert least.startswith("lt:") == (bounds == {"since": 5})
            assert len(fetch(since=least).transactions)


def test_a_state_that_names_another_last_transaction_is_an_error(rows, accounts):
    class Forked(FakeService):
        def _states(self, addresses, last):
            return [
                row | {"last_transaction_hash": "A" * 43 + "="}
                for row in super()._states(addresses, last)
            ]

    with (
        Forked(rows) as service,
        tf.Client(service.url) as client,
        pytest.raises(tf.IncompleteError, match="did not come in any attempt"),
    ):
        tf.fetch_transactions(accounts[0], client=client, store=None)


def test_rows_that_name_another_predecessor_are_an_error(rows, accounts):
    chain = [row for row in rows if row["account"] == accounts[0]]
    other = chain[5] | {"prev_trans_hash": "A" * 43 + "="}
    forked = [other if row is chain[5] else row for row in rows]
    with (
        FakeService(forked) as service,
        tf.Client(service.url) as client,
        pytest.raises(tf.IncompleteError, match=f"lt {chain[5]['lt']}.* not with the hash"),
    ):
        tf.fetch_transactions(accounts[0], client=client, store=None)


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_a_service_that_does_not_answer_is_told(tmp_path, kept):
    with (
        tf.Client("http://127.0.0.1:9", deadline=0.2) as client,
        pytest.raises(tf.RequestError, match=r"127\.0\.0\.1:9") as error,
    ):
        tf.fetch_transactions(NOBODY, client=client, store=tmp_path if kept else None)
    assert kept or not len(error.value.partial.transactions)


def test_a_service_without_the_operation_says_so(tmp_path):
    with (
        tf.serve(tf.sample(), dialect="specification") as url,
        tf.Client(url) as client,
        pytest.raises(tf.RequestError) as error,
    ):
        tf.fetch_transactions(min(known_states()), client=client, store=tmp_path)
    assert "api/v3/transactions" in " ".join(error.value.__notes__)


def test_transactions_of_others_are_refused(rows, accounts):
    class Confused(FakeService):
        def _search(self, query, last):
            return super()._search(query | {"account": [accounts[1]]}, last)

    with Confused(rows) as service, tf.Client(service.url, deadline=0.5) as client:
        with pytest.raises(tf.DecodeError, match="transactions of the accounts asked for") as error:
            tf.fetch_transactions(accounts[0], client=client, store=None)
        assert error.value.missing == ((accounts[0], Period()),)


# ── interruptions and damage ─────────────────────────────────────────────────────────────────────


def test_an_interruption_keeps_what_came(rows, truth, accounts, tmp_path, monkeypatch):
    from tonframes.fetch.histories import tasks

    came = 0
    add = tasks.Histories._add

    def interrupted(self, item):
        nonlocal came
        before = came
        add(self, item)
        came = self.result.transactions
        if before < 300 <= came:
            raise KeyboardInterrupt

    monkeypatch.setattr(tasks.Histories, "_add", interrupted)
    monkeypatch.setattr(merging, "MANY", 1)  # every commit would merge
    before = histories.merged_rows
    merged = []
    monkeypatch.setattr(
        histories, "merged_rows", lambda files: (merged.append(1), before(files))[1]
    )
    with FakeService(rows, Troubles(max_limit=50)) as service:
        with tf.Client(service.url) as client, pytest.raises(KeyboardInterrupt):
            tf.fetch_transactions(accounts, client=client, store=tmp_path)
        held = tf.read_transactions(tmp_path)
        assert len(held.transactions) >= 300
        assert not merged
        monkeypatch.undo()
        with tf.Client(service.url) as client:
            sent = service.rows_sent
            history = tf.fetch_transactions(accounts, client=client, store=tmp_path)
        assert service.rows_sent - sent < len(rows)
    check(history, truth, accounts)
    check_files(tmp_path, truth)


@pytest.mark.parametrize("folder", ["account_transactions", "account_messages", "histories"])
def test_damaged_files_are_set_aside_and_fetched_again(client, truth, accounts, tmp_path, folder):
    tf.fetch_transactions(accounts[:5], client=client, store=tmp_path)
    [file] = (tmp_path / folder).iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    with pytest.warns(tf.TonframesWarning, match="not held any more"):
        history = tf.fetch_transactions(accounts[:5], client=client, store=tmp_path)
    check(history, truth, accounts[:5])
    check_files(tmp_path, truth)
    assert len(list((tmp_path / "damaged").iterdir())) == 3


def test_files_without_their_transactions_are_swept_away(client, truth, accounts, tmp_path):
    tf.fetch_transactions(accounts[:5], client=client, store=tmp_path)
    [last] = (tmp_path / "account_transactions").iterdir()
    last.unlink()
    history = tf.fetch_transactions(accounts[:5], client=client, store=tmp_path)
    check(history, truth, accounts[:5])
    check_files(tmp_path, truth)


def fetch_in_a_hurry(url, store, accounts):
    """Fetch in a process of its own, with waits of milliseconds and many commits."""
    from tonframes.fetch.histories import tasks
    from tonframes.store import merging

    block.FIRST_WAIT, block.LONGEST_WAIT = 0.001, 0.01
    tasks.LARGEST, merging.MANY = 100, 4
    with tf.Client(url) as client:
        tf.fetch_transactions(accounts, client=client, store=store, progress=False)


def end_at_a_random_moment(url, store, accounts, seed, number):
    """Begin a fetch in a process, and end it by a signal after some commits."""
    process = get_context("spawn").Process(
        target=fetch_in_a_hurry, args=(url, store, accounts), daemon=True
    )
    process.start()
    goal = files_in(store) + seed % 3
    while process.is_alive() and files_in(store) < goal:
        time.sleep(0.001)
    time.sleep(Random(seed).uniform(0, 0.1))
    with suppress(ProcessLookupError):  # it may have come to its end
        os.kill(process.pid, number)
    process.join()


def files_in(store):
    return len(list((store / "account_transactions").glob("*.parquet")))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="kill"),
        pytest.param(signal.SIGINT, id="interrupt", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "times", [2, pytest.param(len(SEEDS), marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_no_transaction_is_lost_or_doubled_at_any_end(
    rows, truth, accounts, tmp_path, *, number, times
):
    with FakeService(rows, Troubles(max_limit=40)) as service:
        for seed in range(times):
            store = tmp_path / str(seed // 8)
            held = len(tf.read_transactions(store).transactions) if files_in(store) else 0
            end_at_a_random_moment(service.url, store, accounts, seed, number)
            if files_in(store):
                if not (store / "merging.json").exists():
                    check_files(store, truth, killed=True)
                lts = tf.read_transactions(store).transactions
                assert not lts.duplicated(["account", "lt"]).any()
                assert len(tf.read_transactions(store).transactions) >= held
    with FakeService(rows) as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(accounts, client=client, store=store)
    check(history, truth, accounts)
    check_files(store, truth)


def test_what_was_fetched_since_a_moment_is_held(tmp_path):
    """The transaction before that moment may be older than all blocks of the service."""
    since = "2026-05-28T20:28"
    counts = tf.read_blocks(tf.sample()).transactions.account.value_counts()
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:
        for account in counts.index[-5:]:
            fetched = tf.fetch_transactions(account, since=since, client=client, store=tmp_path)
            if len(fetched.transactions):
                held = tf.read_transactions(tmp_path, account, since=since)
                assert_frame_equal(held.transactions, fetched.transactions)
