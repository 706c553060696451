"""Fetching over real sockets: what comes is what the service's store holds."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from chain import synthetic_blocks
from fault_server import FaultServer, answer
from pandas.testing import assert_frame_equal
from peaks import peak_of
from slow import slow

import tonframes as tf
from tonframes.addresses import to_friendly
from tonframes.analysis import undo_gas_exchange
from tonframes.fetch import block as block_pages
from tonframes.fetch import default_store
from tonframes.fetch.accounts import ATTEMPTS
from tonframes.fetch.missing import fetch_missing
from tonframes.fetch.network import Network, lacks_windows
from tonframes.service.scanned import scanned
from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order

FIRST = 90_000_000
SEQNOS = range(FIRST + 55, FIRST + 65)
NOBODY = "0:" + "0" * 63 + "1"
#: For tests of what differs between the dialects; the others run with both in the slow run.
DIALECTS = pytest.mark.parametrize("service", ["service", "specification"], indirect=True)
#: These tests are not about the warning.
UNKNOWN = pytest.mark.filterwarnings("ignore:.* knows no state of")


@pytest.fixture(params=["service", *slow("specification")])
def service(request):
    with tf.serve(tf.sample(), dialect=request.param) as url:
        yield url, request.param


@pytest.fixture
def client(service):
    with tf.Client(service[0]) as client:
        yield client


@pytest.fixture(scope="module")
def addresses():
    return list(tf.read_accounts(tf.sample()).accounts.address)


def shown(blocks, dialect):
    """Return the transactions and messages that a service shows of these blocks."""
    rows = blocks.arrow("transactions")
    return {
        "transactions": scanned(rows) if dialect == "service" else rows,
        "messages": blocks.arrow("messages"),
    }


def entries(blocks):
    """Address book entries that both sides have: which they are depends on the question."""
    return dict(zip(blocks.address_book.address, blocks.address_book.entry, strict=True))


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_fetching_gives_the_same_with_and_without_a_store(service, client, tmp_path, kept):
    fetched = tf.fetch_blocks(SEQNOS, client=client, store=tmp_path / "s" if kept else None)
    held = tf.read_blocks(tf.sample(), SEQNOS)
    for name, table in shown(held, service[1]).items():
        assert fetched.arrow(name).equals(table), name
    assert_frame_equal(undo_gas_exchange(fetched), undo_gas_exchange(held))
    assert_frame_equal(fetched.messages, held.messages)
    if service[1] == "service":
        assert_frame_equal(fetched.blocks, held.blocks)
    assert fetched.seqnos == held.seqnos == (SEQNOS,)
    book = entries(fetched)
    assert book
    assert book.items() <= entries(held).items()


def test_the_whole_sample_comes_back(service, client, tmp_path):
    everything = range(FIRST, FIRST + 120)
    fetched = tf.fetch_blocks(everything, client=client, store=tmp_path)
    for name, table in shown(tf.read_blocks(tf.sample()), service[1]).items():
        assert fetched.arrow(name).equals(table), name


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (FIRST + 3, [FIRST + 3]),
        (f"{FIRST + 3}", [FIRST + 3]),
        (f"{FIRST + 3}:{FIRST + 6}", range(FIRST + 3, FIRST + 6)),
        ("2026-05-28T20:26:50/2026-05-28T20:27", range(FIRST + 5, FIRST + 15)),
    ],
)
def test_seqnos_as_on_the_command_line(client, asked, expected):
    fetched = tf.fetch_blocks(asked, client=client, store=None)
    assert [seqno for run in fetched.seqnos for seqno in run] == list(expected)


def test_seqnos_in_any_order_and_twice_are_two_and_the_bar_shows_two(client, capsys):
    asked = (FIRST + 99, FIRST + 3, FIRST + 99)
    fetched = tf.fetch_blocks(asked, client=client, store=None, progress=True)
    assert fetched.seqnos == (range(FIRST + 3, FIRST + 4), range(FIRST + 99, FIRST + 100))
    assert "2 of 2 masterchain blocks" in capsys.readouterr().err


def test_a_client_may_be_a_url(service, tmp_path):
    fetched = tf.fetch_blocks(FIRST + 3, client=service[0], store=tmp_path)
    assert fetched.source == str(tmp_path)
    assert len(fetched.transactions) == 25


@pytest.mark.parametrize(
    ("seqnos", "error"),
    [
        (range(0), ValueError),
        ([], ValueError),
        ([0], ValueError),
        ([2**31], ValueError),
        ([1.0], TypeError),
        ([True], TypeError),
        (0, ValueError),
        ("", ValueError),
        ("0:5", ValueError),
        ("7:7", ValueError),
        ("2026-05-29/2026-05-28", ValueError),
        ("nonsense", ValueError),
    ],
)
def test_wrong_seqnos_are_refused_before_anything_is_sent(client, seqnos, error):
    with pytest.raises(error):
        tf.fetch_blocks(seqnos, client=client, store=None)
    assert client.statistics.requests == 0


def test_wrong_clients_are_refused():
    with pytest.raises(TypeError, match="client is a Client"):
        tf.fetch_blocks([5], client="online", store=None)


# ── answers that are not about the question, or do not add up ────────────────────────────────────


@contextmanager
def answering(respond):
    """Give a client of a service that answers each path as `respond` says."""
    with FaultServer() as server, tf.Client(server.url) as client:
        server.otherwise = lambda handler: answer(json.dumps(respond(handler.path)).encode())(
            handler
        )
        yield client


# ── accounts ─────────────────────────────────────────────────────────────────────────────────────


@UNKNOWN
def test_accounts_come_in_the_order_asked_with_what_nobody_knows(client, addresses):
    asked = [addresses[7], NOBODY, addresses[3]]
    accounts = tf.fetch_accounts(asked, client=client, store=None).accounts
    assert list(accounts.address) == asked
    assert list(accounts.found) == [True, False, True]
    assert accounts.balance.isna().to_list() == [False, True, False]
    assert accounts.fetched_at.notna().all()


def test_states_are_those_that_the_store_holds(client, addresses):
    fetched = tf.fetch_accounts(addresses, client=client, store=None)
    held = tf.read_accounts(tf.sample(), addresses)
    for name in ("accounts", "address_book", "metadata"):
        mine = fetched.frame(name).drop(columns="fetched_at").sort_values("address")
        theirs = held.frame(name).drop(columns="fetched_at").sort_values("address")
        theirs = theirs[theirs.address.isin(mine.address)]
        assert_frame_equal(mine.reset_index(drop=True), theirs.reset_index(drop=True))
    assert len(fetched.accounts) == 300
    assert client.statistics.requests == 4


def test_spellings_of_one_account_are_one_row(client, addresses):
    raw = addresses[5]
    asked = [to_friendly(raw), raw.lower(), to_friendly(raw, bounceable=False), raw]
    assert list(tf.fetch_accounts(asked, client=client, store=None).accounts.address) == [raw]


def test_states_are_taken_from_the_store_while_they_are_young(client, addresses, tmp_path):
    def ask(n, **options):
        before = client.statistics.requests
        states = tf.fetch_accounts(addresses[:n], client=client, store=tmp_path, **options)
        assert list(states.accounts.address) == addresses[:n]
        assert states.accounts.found.all()
        assert len(states.address_book) >= n
        return client.statistics.requests - before

    assert ask(3, include_boc=False) == 2  # and which network it is
    assert ask(3, include_boc=False, max_age="1h") == 0
    assert ask(5, include_boc=False, max_age=timedelta(hours=1)) == 2
    assert ask(3, max_age="1h") == 2  # now with code and data
    assert ask(3, max_age="1h") == 0
    assert ask(3, max_age="0s") == 2
    assert ask(3) == 2


def test_code_and_data_only_if_asked_for(client, addresses):
    states = tf.fetch_accounts(addresses[:9], include_boc=False, client=client, store=None)
    assert states.accounts.code_boc.isna().all()
    assert not states.accounts.with_boc.any()
    states = tf.fetch_accounts(addresses[:9], client=client, store=None)
    assert states.accounts.code_boc.notna().any()


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ([], ValueError, "addresses is empty"),
        ([""], ValueError, "position 0"),
        (["0:" + "A" * 64, "nonsense"], ValueError, "position 1"),
        ("0:" + "A" * 64, TypeError, "list"),
    ],
)
def test_wrong_addresses_are_named_before_anything_is_sent(client, asked, error, text):
    with pytest.raises(error, match=text):
        tf.fetch_accounts(asked, client=client, store=None)
    assert client.statistics.requests == 0


def test_an_account_that_nobody_asked_for_is_refused(addresses):
    stranger = {"accounts": [{"address": NOBODY}], "address_book": {}, "metadata": {}}
    with answering(lambda _: stranger) as c:  # noqa: SIM117
        with pytest.raises(tf.DecodeError, match=r"\$.accounts\[0\].address: expected one of"):
            tf.fetch_accounts(addresses[:1], client=c, store=None)


def test_a_service_that_spells_addresses_in_lower_case(addresses):
    state = {"address": addresses[0].lower(), "balance": "5", "status": "active"}
    lower = {"accounts": [state], "address_book": {}, "metadata": {}}
    with answering(lambda _: lower) as c:
        accounts = tf.fetch_accounts(addresses[:1], client=c, store=None).accounts
    assert list(accounts.address) == addresses[:1]
    assert list(accounts.balance) == [5]


def test_states_that_came_before_an_error_are_kept(addresses, tmp_path, monkeypatch):
    monkeypatch.setattr("tonframes.fetch.accounts.BATCH", 100)
    answers = iter(range(3))

    def respond(path):
        if "masterchainInfo" in path:
            return {"last": {"seqno": 5, "global_id": -217}}
        if next(answers, None) is None:
            return {"accounts": 5}
        asked = parse_qs(urlsplit(path).query)["address"]
        return {"accounts": [{"address": a, "balance": "7"} for a in asked]}

    with answering(respond) as c, pytest.raises(tf.DecodeError) as caught:
        tf.fetch_accounts(addresses, client=c, store=tmp_path)
    assert len(caught.value.partial.accounts) == 270
    assert caught.value.missing == tuple(addresses[270:])
    assert list(tf.read_accounts(tmp_path, addresses[:270]).accounts.balance) == [7] * 270


def test_an_answer_to_another_question_is_asked_for_again(addresses):
    asked = []

    def respond(path):
        asked.append(parse_qs(urlsplit(path).query)["address"])
        mixed_up = asked[0] if len(asked) == 2 else asked[-1]
        return {"accounts": [{"address": a, "balance": "7"} for a in mixed_up]}

    with answering(respond) as c:
        states = tf.fetch_accounts(addresses[:150], client=c, store=None).accounts
    assert states.found.all()
    assert len(asked) == 3


class States:
    """A service of account states whose answers a function changes, one after the other."""

    def __init__(self, *changes):
        self.changes, self.asked = list(changes), []

    def __call__(self, path):
        if "masterchainInfo" in path:
            return {"last": {"seqno": 5, "global_id": -217}}
        asked = parse_qs(urlsplit(path).query)["address"]
        self.asked.append(asked)
        states = [{"address": a, "balance": "7"} for a in asked if a != NOBODY]
        change = self.changes.pop(0) if self.changes else lambda states: states
        return {"accounts": change(states), "address_book": {}, "metadata": {}}


@pytest.fixture
def no_waits(monkeypatch):
    monkeypatch.setattr(block_pages, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block_pages, "LONGEST_WAIT", 0.001)


@pytest.mark.usefixtures("no_waits")
def test_transactions_that_blocks_do_not_count_are_missed():
    made = synthetic_blocks(1, first_seqno=5)[0]

    def respond(path):
        if "masterchainBlockShards" in path:
            return {"blocks": made["blocks"]}
        return {"transactions": made["transactions"][1:], "address_book": {}}

    with answering(respond) as c:
        with pytest.raises(
            tf.IncompleteError, match="count 25 transactions, and 24 came"
        ) as caught:
            tf.fetch_blocks([5], client=c, store=None)
        assert caught.value.missing == (range(5, 6),)
        assert c.statistics.requests == 2 * block_pages.ATTEMPTS


def nothing(_):
    return None


def none(_):
    return []


def all_but_first(states):
    return states[1:]


@UNKNOWN
@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("kept", [True, False], ids=["by the store", "by an earlier answer"])
@pytest.mark.parametrize("change", [nothing, none, all_but_first])
def test_an_account_that_was_known_is_asked_for_again(addresses, tmp_path, kept, change):
    wanted = [*addresses[:3], NOBODY]
    respond = States(list, *[change] * 3)
    store = tmp_path if kept else None
    with answering(respond) as c, tf.Client(c.base_url) as other:
        tf.fetch_accounts(wanted[:3], client=other if kept else c, store=store)
        states = tf.fetch_accounts(wanted, client=c, store=store).accounts
    assert list(states.found) == [True, True, True, False]
    assert len(respond.asked) == 1 + 5
    if change is all_but_first:
        first = addresses[:1]
        assert respond.asked[2:] == [[*first, NOBODY], first, first, [NOBODY]]


@UNKNOWN
@pytest.mark.usefixtures("no_waits")
def test_an_account_that_stays_missing_is_told(addresses, tmp_path):
    respond = States(list, *[all_but_first] * 99)
    with answering(respond) as c:
        tf.fetch_accounts(addresses[:2], client=c, store=tmp_path)
        with pytest.warns(tf.TonframesWarning, match=f"no longer knows 1 .*{addresses[0]}"):
            states = tf.fetch_accounts(addresses[:2], client=c, store=tmp_path).accounts
        assert list(states.found) == [False, True]
        asked = len(respond.asked)
        tf.fetch_accounts(addresses[:2], client=c, store=tmp_path)
    assert asked == 2 + ATTEMPTS


def test_null_for_ever_is_no_list_of_accounts(addresses, tmp_path):
    with answering(States(*[nothing] * 99)) as c:
        with pytest.raises(tf.DecodeError, match=r"\$.accounts: expected a list"):
            tf.fetch_accounts(addresses[:2], client=c, store=tmp_path)
        assert c.statistics.requests == 1 + 6
    assert not list((tmp_path / "accounts").glob("*.parquet"))


def spelt(spell, **changed):
    """Add the first account in another spelling."""
    return lambda states: [*states, states[0] | {"address": spell(states[0]["address"])} | changed]


SPELLINGS = [str, str.lower, to_friendly, partial(to_friendly, bounceable=False)]


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("spell", SPELLINGS[1:3])
def test_one_account_with_two_contents_is_a_conflict(addresses, spell):
    conflict = spelt(spell, balance="8")
    respond = States(*[conflict] * 2)
    with answering(respond) as c:
        states = tf.fetch_accounts(addresses[:2], client=c, store=None).accounts
        assert list(states.balance) == [7, 7]
        assert len(respond.asked) == 3
        respond.changes = [conflict] * 99
        with pytest.raises(tf.DecodeError, match=r"\$.accounts\[2\].* the same account"):
            tf.fetch_accounts(addresses[:2], client=c, store=None)


@pytest.mark.parametrize("spell", SPELLINGS)
def test_one_account_twice_with_the_same_content_is_one_row(addresses, spell):
    with answering(States(spelt(spell))) as c, pytest.warns(tf.TonframesWarning, match="twice"):
        states = tf.fetch_accounts(addresses[:2], client=c, store=None).accounts
    assert list(states.address) == addresses[:2]


@pytest.mark.parametrize("age", ["banana", "-1h", 5, "nat"])
def test_wrong_ages_are_refused(client, addresses, tmp_path, age):
    for store in (tmp_path, None):
        with pytest.raises(ValueError, match=f'a duration such as "1h", not {age!r}'):
            tf.fetch_accounts(addresses[:1], max_age=age, client=client, store=store)


def test_a_part_is_committed_when_it_is_old(client, monkeypatch):
    monkeypatch.setattr("tonframes.fetch.missing.FEWEST", 1)
    monkeypatch.setattr("tonframes.fetch.missing.OLDEST", 0.0)
    lacks_windows(client)
    network = Network(client, None)
    parts = fetch_missing(client, None, (SEQNOS[:3],), network, progress=False)
    assert [part.seqnos for part in parts] == [SEQNOS[i : i + 1] for i in range(3)]


# ── offline, and which store ─────────────────────────────────────────────────────────────────────


def test_offline_reads_the_store_and_opens_no_socket(client, addresses, tmp_path, monkeypatch):
    tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    tf.fetch_accounts(addresses[:2], client=client, store=tmp_path)
    monkeypatch.setattr("socket.socket", None)
    assert tf.fetch_blocks(SEQNOS, client="offline", store=tmp_path).seqnos == (SEQNOS,)
    states = tf.fetch_accounts(addresses[:2], client="offline", store=tmp_path, max_age="0s")
    assert states.accounts.found.all()
    with pytest.raises(tf.MissingError) as blocks:
        tf.fetch_blocks(range(FIRST + 60, FIRST + 70), client="offline", store=tmp_path)
    assert blocks.value.missing == (range(FIRST + 65, FIRST + 70),)
    with pytest.raises(tf.MissingError) as accounts:
        tf.fetch_accounts([addresses[0], NOBODY], client="offline", store=tmp_path)
    assert accounts.value.missing == (NOBODY,)
    with pytest.raises(tf.MissingError):
        tf.fetch_blocks(SEQNOS, client="offline", store=None)


def test_a_service_that_lacks_blocks_before_a_past_moment_is_told(client):
    told = rf"is behind: .* is {FIRST + 119} of 2026-05-28 20:.*until 2026-06-01 00:00:00 UTC"
    with pytest.warns(tf.TonframesWarning, match=told):
        fetched = tf.fetch_blocks("2026-05-28T20:30/2026-06-01", client=client, store=None)
    assert fetched.seqnos[-1].stop == FIRST + 120


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("call", ["fetch_blocks", *slow("plan_blocks")])
def test_millions_of_blocks_take_no_memory_offline(call):
    offline = 'client="offline", store=tf.sample()'
    setup = f"""
from contextlib import suppress
def call(seqnos):
    with suppress(tf.MissingError):
        str(tf.{call}(seqnos, {offline}))
call(range(90_000_000, 90_000_001))"""
    assert peak_of("call(range(1, 20_000_001))", setup) < 10_000_000


def test_the_default_store_is_one_per_service(client, addresses, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TONFRAMES_STORE", raising=False)
    tf.fetch_blocks(SEQNOS[:1], client=client)
    place = default_store(client.base_url)
    assert place.parent == tmp_path / "tonframes"
    assert Store(place).held() == (SEQNOS[:1],)
    monkeypatch.setenv("TONFRAMES_STORE", str(tmp_path / "elsewhere"))
    tf.fetch_accounts(addresses[:1], client=client)
    assert Store(tmp_path / "elsewhere").network == "-217"


def test_a_store_of_another_network_is_refused_before_blocks_are_asked_for(client, tmp_path):
    Store(tmp_path).claim("mainnet", "https://toncenter.com")
    with pytest.raises(tf.StoreError, match="of the network mainnet, and http"):
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert client.statistics.requests == 1


def test_a_store_that_speaks_no_blocks_cannot_speak_as_a_deployed_service(tmp_path):
    read = [
        pages.read(schema.BLOCKS_ANSWER, json.dumps({"transactions": b["transactions"]}).encode())
        for b in synthetic_blocks(1, first_seqno=5)
    ]
    tables = in_order(pages.blocks_tables(read))
    assert isinstance(tables["transactions"], pa.Table)
    store = Store(tmp_path)
    store.claim("-217", "a test")
    store.write_blocks(tables, [range(5, 6)], proof="")
    with pytest.raises(tf.StoreError, match="blocks"), tf.serve(tmp_path):
        pass
    with tf.serve(tmp_path, dialect="specification") as url, tf.Client(url) as client:
        fetched = tf.fetch_blocks([5], client=client, store=None)
    assert fetched.arrow("transactions").equals(tables["transactions"])
