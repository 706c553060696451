"""Nothing is said not to exist because one answer lacks it, or because one row is wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import islice, product
from random import Random

import pytest
from fake_service import NONE, WRONG, FakeService, Troubles, whole_histories
from slow import SEEDS, slow, slow_after

import tonframes as tf
from tonframes.fetch import block
from tonframes.fetch import follow as blocks_follow
from tonframes.fetch.histories import transactions as follow
from tonframes.store import Period, Store, transactions_in
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order

NOBODY = "0:" + "0" * 63 + "1"
TABLES = ("transactions", "messages")
ROWS = whole_histories()
LAST = max(row["now"] for row in ROWS)
COUNTS: dict[str, int] = {}
for row in ROWS:
    COUNTS[row["account"]] = COUNTS.get(row["account"], 0) + 1
#: Accounts, those with the most transactions first.
ACCOUNTS = sorted(COUNTS, key=lambda account: (-COUNTS[account], account))
#: Accounts of the basechain that have several transactions, the last of them long before the end.
QUIET = [
    account
    for account in ACCOUNTS
    if COUNTS[account] > 2
    and max(row["now"] for row in ROWS if row["account"] == account) < LAST - 15
]

UNKNOWN = pytest.mark.filterwarnings("ignore:.* knows no (state|transactions) of")
REPLACED = pytest.mark.filterwarnings("ignore:.* had another hash than their neighbours")
TROUBLED = pytest.mark.filterwarnings("ignore:.* is behind. it may not have")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(block, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block, "LONGEST_WAIT", 0.002)
    monkeypatch.setattr(follow, "POLL", 0.001)
    monkeypatch.setattr(blocks_follow, "POLL", 0.001)


@pytest.fixture(scope="module")
def truth():
    content = json.dumps({"transactions": ROWS, "address_book": {}}).encode()
    return in_order(pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, content)]))


def check(history, truth, accounts, period=None):
    expected = transactions_in(truth, accounts, period or Period())
    for name in TABLES:
        assert history.arrow(name).equals(expected[name]), name


def moment(second):
    return datetime.fromtimestamp(second, UTC)


class Scripted(FakeService):
    """A service of which single answers are ill.

    Parameters
    ----------
    ill
        What becomes of the first answers, by operation: a function of the rows each, or None.
    """

    def __init__(self, rows, troubles=None, **ill):
        super().__init__(rows, troubles)
        self.ill = {name: list(answers) for name, answers in ill.items()}

    def _next(self, operation, rows):
        answers = self.ill.get(operation)
        change = answers.pop(0) if answers else None
        return rows if change is None else change(rows)

    def _states(self, addresses, last):
        return self._next("accountStates", super()._states(addresses, last))

    def _search(self, query, last):
        return self._next("transactions", super()._search(query, last))


def nothing(_rows):
    return []


def created_again(account):
    """Return rows in which an account was deleted and created again, and where."""
    own = [row for row in ROWS if row["account"] == account]
    deleted, created = own[len(own) // 2 - 1 :][:2]
    changed = {
        deleted["lt"]: {"end_status": "nonexist"},
        created["lt"]: {
            "prev_trans_lt": "0",
            "prev_trans_hash": NONE,
            "orig_status": "nonexist",
        },
    }
    rows = [row | (changed.get(row["lt"], {}) if row["account"] == account else {}) for row in ROWS]
    return rows, deleted, created


def read(rows):
    content = json.dumps({"transactions": rows, "address_book": {}}).encode()
    return in_order(pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, content)]))


# ── an account without a history ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_one_cut_answer_of_each_kind_is_not_an_account_without_transactions(truth, tmp_path, kept):
    account = QUIET[0]
    store = tmp_path if kept else None
    with (
        Scripted(ROWS, accountStates=[nothing], transactions=[nothing]) as service,
        tf.Client(service.url) as client,
    ):
        history = tf.fetch_transactions(account, client=client, store=store)
        assert not history.unknown
        check(history, truth, [account])


@UNKNOWN
def test_an_account_is_unknown_after_two_answers_of_a_service_that_has_passed_its_end(tmp_path):
    until = moment(LAST - 70)
    with Scripted(ROWS) as service, tf.Client(service.url) as client:
        for asked in (2, 0):
            before = service.answered["accountStates", 200]
            history = tf.fetch_transactions(NOBODY, until=until, client=client, store=tmp_path)
            assert history.unknown == (NOBODY,)
            assert service.answered["accountStates", 200] - before == asked


@TROUBLED
@REPLACED
@pytest.mark.parametrize("seed", slow_after(2, SEEDS))
def test_nothing_is_lost_where_states_are_cut_and_rows_are_spoilt(truth, tmp_path, seed):
    troubles = Troubles(cut=0.1, cut_states=0.1, lag=0.1, behind=70, spoil=0.1, seed=seed)
    some = ACCOUNTS[seed % 7 :: 7]
    ends = (LAST - 90, LAST - 62, LAST - 30)
    with FakeService(ROWS, troubles) as service, tf.Client(service.url) as client:
        for end in ends:
            tf.fetch_transactions(some, until=moment(end), client=client, store=tmp_path)
    with FakeService(ROWS) as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(
            some, until=moment(LAST - 30), client=client, store=tmp_path
        )
    check(history, truth, some, Period("utime", 0, LAST - 30))


@TROUBLED
@REPLACED
@UNKNOWN
@pytest.mark.parametrize("seed", slow_after(1, SEEDS))
def test_what_is_called_held_is_there(tmp_path, seed):
    """Periods of all kinds, one after the other, from a service with all troubles at once."""
    rng = Random(seed)
    rows, _, _ = created_again(ACCOUNTS[3])
    truth = read(rows)
    for turn in range(6):
        troubles = Troubles(
            max_limit=rng.choice([5, 50, 1000]),
            cut=0.1,
            cut_states=0.03,
            lag=rng.choice([0, 0.3, 1]),
            behind=rng.randint(30, 110),
            lagging=rng.choice([frozenset({"accountStates", "transactions"}), frozenset()]),
            spoil=0.1,
            seed=rng.randrange(2**32),
        )
        some = [*rng.sample(ACCOUNTS, 8), ACCOUNTS[3], NOBODY]
        unit = rng.choice(["lt", "utime"])
        numbers = sorted({int(row["lt" if unit == "lt" else "now"]) for row in rows})
        start, stop = sorted(rng.sample(numbers, 2))
        period = Period(unit, start * rng.choice([0, 1]), rng.choice([stop, None]))
        bounds = [period.start or None, period.stop]
        if unit == "utime":
            bounds = [bound and moment(bound) for bound in bounds]
        elif bounds == [None, None]:
            period = Period()
        with FakeService(rows, troubles) as service, tf.Client(service.url) as client:
            store = tmp_path if turn % 2 else None
            try:
                history = tf.fetch_transactions(
                    some, since=bounds[0], until=bounds[1], client=client, store=store
                )
            except tf.TonframesError:
                continue
        whole = transactions_in(truth, some, period)
        until = re.search("held until (2026-.{14}|the last one known)", repr(history))
        if until:
            held = (
                0 if "last" in until[1] else int(datetime.fromisoformat(f"{until[1]}Z").timestamp())
            )
            whole = transactions_in(whole, some, Period("utime", 0, held))
        expected = set(whole["transactions"]["hash"].to_pylist())
        came = set(history.transactions["hash"])
        assert expected <= came <= set(truth["transactions"]["hash"].to_pylist())
        if not until:
            check(history, truth, some, period)


# ── a replica that is behind ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("behind", [110, *slow(65)])
def test_a_replica_that_is_behind_does_not_end_a_history(truth, tmp_path, behind):
    """The service tells its last block; states and transactions come from a replica."""
    troubles = Troubles(lag=1, behind=behind, lagging=frozenset({"accountStates", "transactions"}))
    until = moment(LAST - 61)
    with FakeService(ROWS, troubles) as service, tf.Client(service.url) as client:
        with pytest.warns(tf.TonframesWarning, match="is behind"):
            history = tf.fetch_transactions(ACCOUNTS, until=until, client=client, store=tmp_path)
        assert "held until" in repr(history)
        with pytest.raises(tf.MissingError):
            tf.read_transactions(tmp_path, ACCOUNTS, until=until)
        service.troubles = Troubles()
        healthy = tf.fetch_transactions(ACCOUNTS, until=until, client=client, store=tmp_path)
    assert "held until" not in repr(healthy)
    check(healthy, truth, ACCOUNTS, Period("utime", 0, LAST - 61))


def test_a_replica_that_was_behind_is_asked_again(truth, tmp_path):
    lags = frozenset({"accountStates"})
    service = FakeService(ROWS, Troubles(lag=0.5, behind=80, lagging=lags, seed=3))
    with service, tf.Client(service.url) as client:
        for account in QUIET[:6]:
            history = tf.fetch_transactions(
                account, until=moment(LAST - 61), client=client, store=tmp_path
            )
            assert "held until" not in repr(history)
            check(history, truth, [account], Period("utime", 0, LAST - 61))


@pytest.mark.parametrize("bounded", [True, False], ids=["until a logical time", "without an end"])
@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_logical_times_and_no_end_say_until_when_they_are_held(truth, tmp_path, bounded, kept):
    """A history is not whole until a logical time that the service has not reached."""
    account, store = QUIET[0], tmp_path if kept else None
    end = int(ROWS[-1]["lt"]) + 10**9 if bounded else None
    told = pytest.warns(tf.TonframesWarning, match="is behind")
    lagging = Troubles(lag=1, behind=110, lagging=frozenset({"accountStates", "transactions"}))
    with FakeService(ROWS, lagging) as service, tf.Client(service.url) as client:
        with told:
            short = tf.fetch_transactions(account, until=end, client=client, store=store)
        service.troubles = Troubles()
        if bounded:
            with told:
                history = tf.fetch_transactions(account, until=end, client=client, store=store)
        else:
            history = tf.fetch_transactions(account, until=end, client=client, store=store)
        reached = int(ROWS[len(ROWS) // 4]["lt"])
        whole = tf.fetch_transactions(account, until=reached, client=client, store=store)
    assert "held until" in repr(short)
    last = max(row["now"] for row in ROWS if row["account"] == account)
    assert f"held until {moment(max(LAST - 60, last)):%Y-%m-%d %H:%M:%S}" in repr(history)
    assert "held until" not in repr(whole)
    check(history, truth, [account])
    check(whole, truth, [account], Period("lt", 0, reached))


def test_a_gap_before_what_is_held_is_told_while_a_replica_is_behind(truth, tmp_path):
    """The store holds a later part; states and rows come from a replica that ends before it."""
    account = ACCOUNTS[2]
    lts = [int(row["lt"]) for row in ROWS if row["account"] == account]
    third = len(lts) // 3
    behind = LAST - next(row["now"] for row in ROWS if int(row["lt"]) >= lts[third])
    lags = frozenset({"accountStates", "transactions"})
    whole = Period("lt", 0, lts[-1])
    with FakeService(ROWS) as service, tf.Client(service.url) as client:
        tf.fetch_transactions(
            account, since=lts[2 * third], until=lts[-1], client=client, store=tmp_path
        )
        service.troubles = Troubles(lag=1, behind=behind, lagging=lags)
        for until in (lts[-1], None):
            with pytest.raises(tf.IncompleteError, match=f"lt {lts[2 * third - 1]}"):
                tf.fetch_transactions(account, until=until, client=client, store=tmp_path)
        service.troubles = Troubles()
        history = tf.fetch_transactions(account, until=lts[-1], client=client, store=tmp_path)
    check(history, truth, [account], whole)


# ── states ───────────────────────────────────────────────────────────────────────────────────────


@UNKNOWN
def test_accounts_that_two_lists_lack_are_not_found():
    with FakeService(ROWS) as service, tf.Client(service.url) as client:
        states = tf.fetch_accounts([ACCOUNTS[0], NOBODY], client=client, store=None)
        assert states.accounts.found.to_list() == [True, False]
        assert service.answered["accountStates", 200] == 2


def test_a_list_that_is_cut_again_and_again_is_asked_for_until_nothing_new_comes():
    some = ACCOUNTS[:12]
    cuts = [lambda rows: rows[:5], lambda rows: rows[:3], lambda rows: rows[:1]]
    with Scripted(ROWS, accountStates=cuts) as service, tf.Client(service.url) as client:
        states = tf.fetch_accounts(some, client=client, store=None)
    assert states.accounts.found.all()


# ── following ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_what_a_look_saw_and_did_not_come_stays_wanted(tmp_path, kept):
    """The look sees new transactions; a replica that is behind answers for their rows."""
    first = next(row["now"] for row in ROWS if int(row["lt"]) > int(ROWS[len(ROWS) // 2]["lt"]))
    before = [row for row in ROWS if row["now"] < first]
    some = ACCOUNTS[2:22]

    class Replicas(FakeService):
        """States alternate between all rows and those of before; rows are old for a while."""

        answers = 0

        def _states(self, addresses, last):
            self.answers += 1
            return super()._states(addresses, last if self.answers % 2 or self.calm else first - 1)

        def _search(self, query, last):
            return super()._search(query, last if self.calm else first - 1)

        @property
        def calm(self):
            return self.answers > 6

    with Replicas(before) as service, tf.Client(service.url) as client:
        following = tf.follow_transactions(
            some, since=moment(first), client=client, store=tmp_path if kept else None
        )
        service.set_rows(ROWS)
        expected = {
            (row["account"], int(row["lt"]))
            for row in ROWS
            if row["account"] in some and row["now"] >= first
        }
        came: set[tuple[str, int]] = set()
        for part in islice(following, 10):
            keys = zip(part.transactions["account"], part.transactions["lt"], strict=True)
            came |= {(account, int(lt)) for account, lt in keys}
            if came == expected:
                break
    assert came == expected


# ── an account that was deleted and created again ────────────────────────────────────────────────


@pytest.mark.parametrize("unit", ["now", *slow("lt")])
@pytest.mark.parametrize("later_first", [True, False])
@pytest.mark.parametrize("limit", [2, *slow(1000)])
def test_what_was_before_an_account_was_created_again_comes(tmp_path, unit, later_first, limit):
    account = ACCOUNTS[3]
    rows, _, created = created_again(account)
    truth = read(rows)
    border = int(created["lt"]) if unit == "lt" else moment(created["now"])
    periods = [{"until": border}, {"since": border}]
    with FakeService(rows, Troubles(max_limit=limit)) as service:
        with tf.Client(service.url) as client:
            for bounds in periods[:: -1 if later_first else 1]:
                history = tf.fetch_transactions(account, **bounds, client=client, store=tmp_path)
                number = int(created[unit])
                period = Period("lt" if unit == "lt" else "utime", 0, number)
                if "since" in bounds:
                    period = Period(period.unit, number)
                check(history, truth, [account], period)
            check(tf.fetch_transactions(account, client=client, store=tmp_path), truth, [account])
            before = service.requests
            again = {"since": "2020-01-01", "until": moment(LAST - 61)}
            for _ in range(2):
                tf.fetch_transactions(account, **again, client=client, store=tmp_path)
                before, made = service.requests, service.requests - before
        assert made == 0
    assert len(tf.read_transactions(tmp_path, account).transactions) == COUNTS[account]


@pytest.mark.parametrize("key", ["hash", "prev_trans_hash", "in_msg"])
@pytest.mark.parametrize("unit", ["lt", *slow("now")])
def test_rows_that_came_and_were_not_kept_are_not_absent(tmp_path, key, unit):
    """The only two rows before the account was created again are dropped, once."""
    account = ACCOUNTS[3]
    rows, deleted, _ = created_again(account)
    own = [row for row in rows if row["account"] == account]
    place = [row["lt"] for row in own].index(deleted["lt"]) - 1
    first, deleted = own[place : place + 2]
    wrong = {"in_msg": None, "out_msgs": []} if key == "in_msg" else {key: WRONG}
    ill = {row["lt"]: row | wrong for row in ([first, deleted] if key == "in_msg" else [deleted])}

    def spoil(came):
        return [ill.get(row["lt"], row) if row["account"] == account else row for row in came]

    since = int(first["lt"]) if unit == "lt" else moment(first["now"])
    period = Period("lt" if unit == "lt" else "utime", int(first[unit]))
    with Scripted(rows, transactions=[spoil]) as service, tf.Client(service.url) as client:
        for _ in range(2):
            history = tf.fetch_transactions(account, since=since, client=client, store=tmp_path)
            if key != "hash":  # no other row names the hash of one that deletes its account
                check(history, read(rows), [account], period)
            assert len(history.transactions) == len(own) - place


def test_a_service_that_begins_after_the_deletion_does_not_show_what_was_before(tmp_path):
    account = ACCOUNTS[3]
    rows, deleted, created = created_again(account)

    class Pruned(FakeService):
        def _answer(self, operation, query, length):
            answer = super()._answer(operation, query, length)
            if operation == "masterchainInfo":
                answer["first"]["start_lt"] = str(int(created["lt"]) - 1)
            return answer

    later = [row for row in rows if int(row["lt"]) > int(deleted["lt"])]
    with (
        Pruned(later) as service,
        tf.Client(service.url) as client,
        pytest.raises(tf.IncompleteError, match="an earlier life is not known"),
    ):
        tf.fetch_transactions(account, client=client, store=tmp_path)
    with FakeService(rows) as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(account, client=client, store=tmp_path)
    check(history, read(rows), [account])


def test_periods_before_the_first_transaction_add_up(truth, tmp_path):
    """What is known not to exist since a logical time is joined with what is, since a moment."""
    account = next(a for a in QUIET if 10 < first_of(a)["now"] - ROWS[0]["now"] < 60)
    first = first_of(account)
    lt, second = int(first["lt"]), first["now"]
    bounds = [
        (moment(second + 1), None),
        (lt - 10**7, lt + 10**6),
        (moment(second - 9), moment(second + 5)),
        (None, moment(second + 5)),
    ]
    with FakeService(ROWS) as service, tf.Client(service.url) as client:
        for since, until in bounds:
            history = tf.fetch_transactions(
                account, since=since, until=until, client=client, store=tmp_path
            )
            if since == moment(second - 9):
                check(history, truth, [account], Period("utime", second - 9, second + 5))


def first_of(account):
    return next(row for row in ROWS if row["account"] == account)


def test_transactions_that_are_missing_before_a_deletion_are_missed(tmp_path):
    account = ACCOUNTS[3]
    rows, deleted, created = created_again(account)
    troubles = Troubles(gone=frozenset([deleted["hash"]]))
    with FakeService(rows, troubles) as service, tf.Client(service.url) as client:
        with pytest.raises(tf.IncompleteError, match=f"before lt {created['lt']}"):
            tf.fetch_transactions(account, client=client, store=tmp_path)
        service.troubles = Troubles()
        history = tf.fetch_transactions(account, client=client, store=tmp_path)
    check(history, read(rows), [account])


# ── one wrong row ────────────────────────────────────────────────────────────────────────────────


def spoilt(account, place, key):
    """Return a function that spoils one row of a list, if it is there."""
    lts = [row["lt"] for row in ROWS if row["account"] == account]

    def change(rows):
        return [
            row | {key: WRONG} if (row["account"], row["lt"]) == (account, lts[place]) else row
            for row in rows
        ]

    return change


@TROUBLED
@REPLACED
@pytest.mark.parametrize("way", ["onwards", "backwards"])
@pytest.mark.parametrize("key", ["hash", "prev_trans_hash"])
def test_a_wrong_row_at_the_end_of_what_is_held_is_replaced(truth, tmp_path, key, way):
    """Nothing contradicts the row when it comes: its neighbour comes with a later fetch."""
    account = ACCOUNTS[3]
    lts = [int(row["lt"]) for row in ROWS if row["account"] == account]
    middle = len(lts) // 2
    place = middle - 1 if way == "onwards" else middle
    periods = [(None, lts[middle]), (lts[middle], None)]
    bad = spoilt(account, place, key)
    with Scripted(ROWS, transactions=[bad] * 9) as service, tf.Client(service.url) as client:
        for since, until in periods if way == "onwards" else periods[::-1]:
            tf.fetch_transactions(account, since=since, until=until, client=client, store=tmp_path)
            service.ill.clear()
        held = tf.read_transactions(tmp_path, account)
        check(held, truth, [account])
        whole = tf.fetch_transactions(account, client=client, store=tmp_path)
        check(whole, truth, [account])
    assert tf.verify_store(tmp_path) == {}


@pytest.mark.parametrize("side", [0, 1])
def test_rows_that_contradict_each_other_in_a_store_are_found_and_replaced(truth, tmp_path, side):
    """One of them is wrong; nothing tells which, so both are asked for again."""
    account = ACCOUNTS[3]
    tables = transactions_in(truth, [account], Period())
    store = Store(tmp_path)
    store.claim("-217", "made by a test")
    middle = len(tables["transactions"]) // 2
    for i, part in enumerate((slice(0, middle), slice(middle, None))):
        rows = tables["transactions"].slice(part.start, middle if part.stop else None)
        if i == side:
            name, place = ("prev_trans_hash", 0) if side else ("hash", len(rows) - 1)
            values = rows[name].to_pylist()
            values[place] = WRONG
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, rows.schema.field(index), [values])
        store.write_histories(tables | {"transactions": rows}, {})
    assert "is not the one that the next one names" in str(tf.verify_store(tmp_path))
    with (
        FakeService(ROWS) as service,
        tf.Client(service.url) as client,
        pytest.warns(tf.TonframesWarning, match="were fetched again, and replaced"),
    ):
        history = tf.fetch_transactions(account, client=client, store=tmp_path)
    check(history, truth, [account])
    assert tf.verify_store(tmp_path) == {}


CHANGES = [
    {"hash": WRONG},
    {"prev_trans_hash": WRONG},
    {"prev_trans_lt": "0"},
    {"prev_trans_lt": str(int(ROWS[0]["lt"]) + 1)},
    {"prev_trans_lt": "its own"},
    {"lt": -1},
    {"now": 2**31 - 2},
]
#: Every change within a history that comes row by row, and one at each place and in each way.
ONCE = sorted(
    product(range(len(CHANGES)), (1, 4, -2), (1, 1000)),
    key=lambda case: case[1:] != (4, 1) and case[0] != 1,
)


@REPLACED
@pytest.mark.parametrize(
    ("change", "place", "limit"),
    [*ONCE[:12], *(pytest.param(*case, marks=pytest.mark.slow) for case in ONCE[12:])],
)
def test_a_row_that_is_wrong_once_is_mended(truth, tmp_path, change, place, limit):
    account, change = ACCOUNTS[3], CHANGES[change]
    lts = [row["lt"] for row in ROWS if row["account"] == account]
    left = [1]

    def once(rows):
        spoiled = []
        for row in rows:
            if left and (row["account"], row["lt"]) == (account, lts[place]):
                left.pop()
                wrong = {"lt": str(int(row["lt"]) - 1)} if "lt" in change else change
                if change.get("prev_trans_lt") == "its own":
                    wrong = {"prev_trans_lt": row["lt"]}
                spoiled.append(row | wrong)
            else:
                spoiled.append(row)
        return spoiled

    ill = Scripted(ROWS, Troubles(max_limit=limit), transactions=[once] * 99)
    with ill as service, tf.Client(service.url) as client:
        history = tf.fetch_transactions(account, client=client, store=tmp_path)
    check(history, truth, [account])
    assert tf.verify_store(tmp_path) == {}
