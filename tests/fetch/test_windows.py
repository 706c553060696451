"""Reading through windows: what comes is what comes block by block, with few requests."""

from __future__ import annotations

import time
from bisect import bisect_left
from functools import cache

import pytest
from chain import synthetic_blocks
from fake_service import Chain, FakeService, Troubles, apart, displaced
from fault_server import raw
from faulty_service import digests
from slow import SEEDS, slow, slow_after

import tonframes as tf
from tonframes.client import Client
from tonframes.fetch import block
from tonframes.fetch.network import lacks_windows
from tonframes.store import Store

FIRST = 90_000_150
SEQNOS = range(FIRST + 12, FIRST + 90)  # across a border of files, a split and a merge


@cache
def bodies(count: int = 100, transactions: int = 8) -> list[dict]:
    """Make a chain whose shards lie among each other in time and in logical time."""
    made = synthetic_blocks(count, seed=1, first_seqno=FIRST, transactions_per_block=transactions)
    return displaced(made, by=9_000_000, seconds=6)


@cache
def chain() -> Chain:
    return Chain.of(bodies())


@cache
def one_by_one() -> tuple[dict, dict]:
    """What a fetch of one masterchain block at a time gives: tables, and the address book."""
    with FakeService(chain()) as service, Client(service.url) as client:
        lacks_windows(client)
        fetched = tf.fetch_blocks(SEQNOS, client=client, store=None)
        assert service.answered["blocks", 200] == 0
    return digests(fetched), book(fetched)


def digests_of(seqno: int) -> str:
    with FakeService(chain()) as service, Client(service.url) as client:
        lacks_windows(client)
        return digests(tf.fetch_blocks(seqno, client=client, store=None))["transactions"]


def book(fetched: tf.Blocks) -> dict:
    entries = fetched.arrow("address_book").to_pylist()
    return {entry["address"]: entry["entry"] for entry in entries}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(block, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block, "LONGEST_WAIT", 0.02)


def fetch(service: FakeService, store=None, **options) -> tf.Blocks:
    with Client(service.url, **options) as client:
        return tf.fetch_blocks(SEQNOS, client=client, store=store, progress=False)


# ── few requests ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1000, 100])
def test_it_takes_few_requests_and_the_address_book_is_that_of_the_blocks(limit):
    with FakeService(chain(), Troubles(max_limit=limit)) as service:
        fetched = fetch(service)
    assert digests(fetched) == one_by_one()[0]
    assert book(fetched) == one_by_one()[1]
    rows = len(fetched.arrow("transactions")) + len(fetched.arrow("blocks"))
    assert service.requests <= 1.15 * rows / limit + 10


def test_the_store_holds_the_same_with_the_same_proof(tmp_path):
    with FakeService(chain()) as service:
        fetched = fetch(service, tmp_path)
    assert digests(fetched) == one_by_one()[0]
    store = Store(tmp_path)
    assert store.held() == (SEQNOS,)
    proofs = {store.footer(file).proof for file in store.files("transactions").values()}
    assert proofs == {"chain"}


# ── the service's troubles ───────────────────────────────────────────────────────────────────────

#: A window that is absent ends the reading through windows, and it may be the first.
ABSENT = "lists that are absent"

TROUBLES = {
    "rows of one lt and of one second on several pages": {"max_limit": 3},
    "pages that are too slow": {"slow_over": 60},
    "lists that are cut short": {"max_limit": 60, "cut": 0.3},
    "replicas that lag": {"max_limit": 60, "lag": 0.3, "behind": 30},
    "lists that are null": {"max_limit": 60, "null": 0.2},
    ABSENT: {"max_limit": 60, "refused": 0.2},
    "rows of another masterchain block": {"max_limit": 60, "stray": 0.1},
    "all of it": {"max_limit": 60, "slow_over": 40, "cut": 0.15, "lag": 0.15},
}


#: The last case has these as well.
IN_ALL = ["pages that are too slow", "lists that are cut short", "replicas that lag"]


@pytest.mark.parametrize(
    "name", [*(name for name in TROUBLES if name not in IN_ALL), *slow(*IN_ALL)]
)
@pytest.mark.parametrize("seed", slow_after(1, SEEDS))
def test_whatever_happens_the_same_comes(name, seed):
    with FakeService(chain(), Troubles(seed=seed, **TROUBLES[name])) as service:
        assert digests(fetch(service)) == one_by_one()[0]
    if name != ABSENT:
        assert service.answered["transactions", 200]


#: This service mixes the blocks of a masterchain block anew for every page.
PAGED = "rows of one lt and of one second on several pages"


@pytest.mark.parametrize("name", slow_after(2, (name for name in TROUBLES if name != PAGED)))
def test_whatever_happens_the_same_comes_block_by_block(name):
    troubles = Troubles(**TROUBLES[name])
    with FakeService(chain(), troubles) as service, Client(service.url) as client:
        lacks_windows(client)
        fetched = tf.fetch_blocks(SEQNOS, client=client, store=None, progress=False)
        assert digests(fetched) == one_by_one()[0]
    assert not service.answered["transactions", 200]


def test_pages_that_do_not_come_in_time_become_smaller():
    troubles = Troubles(slow_over=100, silent=True)
    with FakeService(chain(), troubles) as service, Client(service.url, timeout=0.3) as client:
        fetched = tf.fetch_blocks(SEQNOS, client=client, store=None)
        assert client.page_limit.rows <= 125
    assert digests(fetched) == one_by_one()[0]


@pytest.mark.parametrize(
    ("absent", "limit"),
    [(("blocks",), 1000), (("transactions",), 100), (("blocks", "transactions"), 7)],
)
def test_a_service_without_the_operations_is_asked_block_by_block(absent, limit):
    with FakeService(chain(), Troubles(max_limit=limit, absent=absent)) as service:
        assert digests(fetch(service)) == one_by_one()[0]
    unknown = [count for (name, status), count in service.answered.items() if status == 500]
    assert sum(unknown) <= 16, "it is not tried again and again"


def without(condition) -> Chain:
    """Take rows out of a chain, which the service then never shows through windows."""
    made = Chain.of(bodies())
    made.blocks = [row for row in made.blocks if not condition(row)]
    made.transactions = [row for row in made.transactions if not condition(row)]
    made.utimes = [int(row["gen_utime"]) for row in made.blocks]
    made.lts = [int(row["lt"]) for row in made.transactions]
    return made


HIT = FIRST + 77


@pytest.mark.parametrize("kind", ["blocks", "transactions"])
def test_what_windows_never_show_is_read_by_itself(kind):
    def hidden(row):
        ref = row.get("masterchain_block_ref", {"seqno": row.get("mc_block_seqno")})
        return ref["seqno"] == HIT and ("gen_utime" in row) == (kind == "blocks")

    with FakeService(without(hidden)) as service:
        assert digests(fetch(service)) == one_by_one()[0]
    assert service.answered["masterchainBlockShards", 200] < 20


def test_rows_that_windows_show_of_another_block_are_read_by_themselves():
    made = Chain.of(bodies())
    made.transactions = [
        row | {"mc_block_seqno": HIT + 1} if row["mc_block_seqno"] == HIT else row
        for row in made.transactions
    ]
    with FakeService(made) as service:
        assert digests(fetch(service)) == one_by_one()[0]
    assert service.answered["masterchainBlockShards", 200] < 40


def test_windows_show_which_dialect_the_service_speaks():
    """What comes for a single masterchain block then is a part of its transactions."""
    with FakeService(chain()) as service, Client(service.url) as client:
        tf.fetch_blocks(SEQNOS[:9], client=client, store=None)
        assert service.answered["blocks", 200]
        shards, left = service.operations["masterchainBlockShards"], [True] * 3

        def transactions(query, last):
            by_masterchain_block = service.operations["transactionsByMasterchainBlock"]
            if left and left.pop():
                return by_masterchain_block(query | {"limit": ["2"]}, last)
            return shards(query, last)

        service.operations["masterchainBlockShards"] = transactions
        fetched = tf.fetch_blocks(HIT, client=client, store=None)
    assert digests(fetched)["transactions"] == digests_of(HIT)


def test_a_hole_is_named_and_the_rest_is_kept(tmp_path):
    def hidden(row):
        ref = row.get("masterchain_block_ref", {"seqno": row.get("mc_block_seqno")})
        return ref["seqno"] == HIT

    made = without(hidden)
    made.by_mc[HIT] = ([], [])
    with FakeService(made) as service:
        with pytest.raises(
            tf.IncompleteError, match=f"masterchain block {HIT} .*does not have it"
        ) as caught:
            fetch(service, tmp_path, deadline=1)
        assert caught.value.missing == (range(HIT, HIT + 1),)
    assert sum(map(len, Store(tmp_path).held())) == len(SEQNOS) - 1


def test_a_fetch_past_the_last_block_keeps_what_there_is(tmp_path):
    wanted = range(FIRST + 80, FIRST + 110)
    with FakeService(chain()) as service, Client(service.url) as client:
        with pytest.raises(tf.RequestError, match=r"available yet|indexed yet") as caught:
            tf.fetch_blocks(wanted, client=client, store=tmp_path)
        assert caught.value.status == 404
    assert Store(tmp_path).held() == (range(FIRST + 80, FIRST + 100),)


# ── manners ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answered", [0, 1, 4])
def test_a_service_that_falls_silent_is_given_up_at_the_deadline(answered):
    with FakeService(chain(), Troubles(max_limit=50)) as service:
        reply, stall = service.otherwise, raw(end="stall")
        service.otherwise = lambda handler: (
            stall(handler) if service.requests >= answered else reply(handler)
        )
        start = time.monotonic()
        with pytest.raises(tf.RequestError):
            fetch(service, deadline=1.5)
        assert time.monotonic() - start < 15  # a silent answer would come after 20 s


def test_the_bar_counts_the_time_of_the_clock(capsys):
    with FakeService(chain()) as service, Client(service.url, requests_per_second=5) as client:
        start = time.monotonic()
        tf.fetch_blocks(SEQNOS, client=client, store=None, progress=True)
        assert client.statistics.seconds_paused <= time.monotonic() - start
        # Threads may wait at the same time. Reading the clock takes a moment too.
        assert client.statistics.seconds_paced >= 0.99 * client.statistics.seconds_paused
    assert "paused" in capsys.readouterr().err


# ── as fast as the quota allows ──────────────────────────────────────────────────────────────────


def most_in(seconds, times):
    """Return the most requests within so many seconds."""
    return max(bisect_left(times, start + seconds) - i for i, start in enumerate(times))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("rate", "limit"), [(10, 60), (25, 30), (100, 6)])
def test_the_rate_limit_is_used_and_kept(rate, limit):
    troubles = Troubles(latency=0.1, max_limit=limit)
    kept = 0.0
    # Other programs may take the processor away, so five seconds of one of three fetches must keep
    # up the rate. None of them may exceed it.
    for _ in range(3):
        with apart(bodies(1000), troubles) as (url, seen):
            with Client(url, requests_per_second=rate) as client:
                tf.fetch_blocks(range(FIRST + 10, FIRST + 990), client=client, store=None)
            times = sorted(seen())
        assert times[-1] - times[0] > 10
        assert most_in(1, times) <= rate
        kept = max(kept, (most_in(5, times) - 1) / 5 / rate)
        if kept >= 0.95:
            break
    assert kept >= 0.95
