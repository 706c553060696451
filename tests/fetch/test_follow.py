"""The chain as it grows, and as it was at a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random

import pandas as pd
import pytest
from chain import synthetic_blocks
from fault_server import error
from faulty_service import (
    INFO,
    SHARDS,
    FakeClock,
    Faulty,
    absent,
    append,
    connect,
    lose,
    saying,
    tables_of,
    telling,
)
from slow import slow

import tonframes as tf
from tonframes.fetch import follow
from tonframes.fetch.follow import LONGEST
from tonframes.store import Store
from tonframes.wire.tables import concat

FIRST = 90_000_090
BODIES = synthetic_blocks(24, first_seqno=FIRST, transactions_per_block=6)
ALL = range(FIRST, FIRST + 24)  # crosses a border of files at ….100


class Growing:
    """A service whose chain grows by some blocks whenever the client waits."""

    def __init__(self, path, count):
        self.path = path
        self.count = 0
        self.grow(count)
        self.clock = FakeClock()

    def grow(self, more):
        if more:
            append(self.path, BODIES[self.count : self.count + more])
        self.count += more

    def by(self, *steps):
        """Grow by these numbers at the next waits."""
        left = list(steps)
        self.clock.passed = lambda: self.grow(left.pop(0)) if left else None


@pytest.fixture
def growing(tmp_path):
    return Growing(tmp_path / "truth", 4)


@pytest.fixture
def service(growing):
    with Faulty(growing.path) as service:
        yield service


@pytest.fixture
def client(service, growing):
    with connect(service, growing.clock) as client:
        yield client


@pytest.fixture(params=[True, *slow(False)], ids=["with a store", "without a store"])
def store(request, tmp_path):
    return tmp_path / "store" if request.param else None


def take(following, stop=ALL.stop):
    """Collect what is given up to a seqno."""
    taken = []
    for blocks in following:
        taken.append(blocks)
        if blocks.seqnos[-1].stop >= stop:
            return taken
    raise AssertionError("following ended")


@cache
def truth(seqnos):
    return tables_of(BODIES[seqno - FIRST] for seqno in seqnos)


def is_the_chain(taken, seqnos=ALL):
    """Consecutive, without a gap, each row once."""
    runs = [run for blocks in taken for run in blocks.seqnos]
    assert runs[0].start == seqnos.start
    assert all(one.stop == other.start for one, other in pairwise(runs))
    assert runs[-1].stop == seqnos.stop
    names = ("transactions", "messages", "blocks", "address_book")
    joined = concat([{name: blocks.arrow(name) for name in names} for blocks in taken])
    for name in ("transactions", "messages", "blocks"):
        assert joined[name].equals(truth(seqnos)[name]), name


# ── following ────────────────────────────────────────────────────────────────────────────────────


def test_present_blocks_come_at_once_and_new_ones_as_they_appear(growing, client, store):
    growing.by(1, 0, 2, 0, 0, 9, 1, 7)
    taken = take(tf.follow_blocks(FIRST, client=client, store=store))
    is_the_chain(taken)
    assert len(taken) >= 6
    assert len(growing.clock.slept) == 8
    assert all(run.start // 100 == (run.stop - 1) // 100 for b in taken for run in b.seqnos)
    if store is not None:
        assert Store(store).held() == (ALL,)


def test_a_block_of_the_future_is_waited_for(growing, client, store):
    growing.by(0, 0, 20)
    taken = take(tf.follow_blocks(FIRST + 7, client=client, store=store))
    is_the_chain(taken, ALL[7:])


def test_a_long_wait_is_told_with_its_reason(growing, client, caplog, monkeypatch):
    monkeypatch.setattr(follow, "monotonic", growing.clock.now)
    growing.by(*[0] * 25, 1)
    next(tf.follow_blocks(FIRST + 4, client=client, store=None))
    # After 10 seconds, and each time twice as many have passed.
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4
    told = f"waiting for masterchain block {FIRST + 4} since 20"
    for message in caplog.messages:
        assert message.startswith(told)
        assert f"UTC: the last one of {client.base_url} is {FIRST + 3}" in message


def test_without_a_start_it_begins_with_the_last_block(growing, client, store):
    growing.by(20)
    taken = take(tf.follow_blocks(client=client, store=store))
    is_the_chain(taken, ALL[3:])


def test_nothing_beyond_a_hole_is_given_before_it_is_filled(growing, service, client, store):
    growing.by(8)
    service.inject(absent, SHARDS, seqno=FIRST + 6)
    following = tf.follow_blocks(FIRST, client=client, store=store)
    is_the_chain(take(following, FIRST + 6), ALL[:6])

    waits = len(growing.clock.slept)

    def fill():
        if len(growing.clock.slept) > waits + 30:
            service.injecting = False
            growing.by(12)

    growing.clock.passed = fill
    is_the_chain(take(following), ALL[6:])
    assert service.met > 12


def test_a_block_that_is_not_whole_is_waited_for(growing, service, client, store):
    growing.by(20)
    service.inject(lose(1), SHARDS, seqno=FIRST + 14, times=20)
    is_the_chain(take(tf.follow_blocks(FIRST, client=client, store=store)))
    assert service.met == 20


def test_following_again_goes_on_from_the_store(growing, service, client, tmp_path):
    growing.by(20)
    following = tf.follow_blocks(FIRST, client=client, store=tmp_path / "store")
    first = next(following)
    following.close()
    asked = len(service.seen)
    taken = take(tf.follow_blocks(FIRST, client=client, store=tmp_path / "store"))
    is_the_chain(taken)
    assert taken[0].seqnos == first.seqnos
    of_held = {str(seqno) for run in first.seqnos for seqno in run}
    again = [
        seen
        for seen in service.seen[asked:]
        if seen.path.endswith("Shards") and seen.query["seqno"][0] in of_held
    ]
    assert again == []


def as_time_passes(growing):
    """Let each block appear when it was made."""
    begins = int(BODIES[growing.count - 1]["blocks"][0]["gen_utime"]) - growing.clock.time

    def grow():
        made = sum(int(b["blocks"][0]["gen_utime"]) <= begins + growing.clock.time for b in BODIES)
        growing.grow(max(0, made - growing.count))

    growing.clock.passed = grow


def asked(service, *operations):
    return sum(seen.path.rpartition("/")[2] in operations for seen in service.seen)


def test_it_asks_no_more_often_than_blocks_come(growing, service, client, store):
    as_time_passes(growing)
    is_the_chain(take(tf.follow_blocks(FIRST, client=client, store=store)))
    assert asked(service, INFO) <= 1 + 20
    assert len(service.seen) <= 6 * 24


def test_it_asks_less_often_while_no_block_comes(growing, client, store):
    growing.by(*[0] * 60, 20)
    is_the_chain(take(tf.follow_blocks(FIRST, client=client, store=store)))
    slept = growing.clock.slept
    assert len(slept) == 61
    assert slept[:4] == [1, 2, 4, 8]
    assert set(slept[4:]) == {LONGEST}


def test_a_replica_that_is_behind_is_waited_for(growing, service, client, store):
    """Every other answer, at random, is of a replica that lacks the last three blocks."""
    rng = Random(5)

    def lagging(truth):
        last = FIRST + growing.count - 4
        if rng.random() < 0.5:
            return None
        if truth.operation == INFO:
            return telling(truth.read() | {"last": BODIES[last - FIRST]["blocks"][0]})
        return absent(truth) if truth.asked("seqno") > last else None

    as_time_passes(growing)
    service.inject(lagging)
    is_the_chain(take(tf.follow_blocks(FIRST, client=client, store=store)))
    assert service.met > 20
    assert len(service.seen) <= 12 * 24


def test_an_error_of_the_service_ends_it(service, client, store):
    service.inject(saying(error("no such key", 401)), SHARDS, seqno=FIRST + 2)
    following = tf.follow_blocks(FIRST, client=client, store=store)
    with pytest.raises(tf.RequestError, match="no such key"):
        take(following)
    if store is not None:
        assert Store(store).held() == (ALL[:2],)


@pytest.mark.parametrize("start", [[5], True, 1.0])
def test_wrong_starts_are_refused(client, start):
    with pytest.raises(TypeError, match="a seqno is an int"):
        next(tf.follow_blocks(start, client=client, store=None))


def test_there_is_nothing_to_follow_offline():
    with pytest.raises(tf.MissingError, match="offline"):
        next(tf.follow_blocks(5, client="offline", store=None))


# ── the seqno of a moment ────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def times():
    """The second of every masterchain block of the sample."""
    blocks = tf.read_blocks(tf.sample()).blocks
    return blocks[blocks.workchain == -1].set_index("seqno").gen_utime.sort_index()


@pytest.fixture(params=["service", "specification"])
def sample(request):
    with tf.serve(tf.sample(), dialect=request.param) as url, tf.Client(url) as client:
        yield client


def test_it_is_the_first_block_that_is_not_before_a_moment(sample, times):
    for second in range(times.iloc[0], times.iloc[-1] + 3, 7):
        moment = datetime.fromtimestamp(second, UTC)
        expected = times.index[times >= second].min()
        expected = times.index[-1] + 1 if pd.isna(expected) else expected
        assert tf.seqno_at(moment, client=sample) == expected


def test_finding_a_moment_takes_few_requests(sample, times):
    before = sample.statistics.requests
    tf.seqno_at(datetime.fromtimestamp(int(times.iloc[77]), UTC), client=sample)
    assert sample.statistics.requests - before <= 3 + 7


def test_between_two_seconds_the_later_one_counts(sample, times):
    second = int(times.iloc[60])
    moment = datetime.fromtimestamp(second, UTC) + timedelta(milliseconds=1)
    assert tf.seqno_at(moment, client=sample) == times.index[times > second].min()


def test_before_the_first_block_and_at_it(sample, times):
    first = datetime.fromtimestamp(int(times.iloc[0]), UTC)
    assert tf.seqno_at(first, client=sample) == times.index[0]
    with pytest.raises(tf.RequestError, match=f"has masterchain blocks from {times.index[0]} on"):
        tf.seqno_at(first - timedelta(seconds=1), client=sample)


def test_after_the_last_block_is_the_one_to_come(sample, times):
    last = datetime.fromtimestamp(int(times.iloc[-1]), UTC)
    assert tf.seqno_at(last, client=sample) <= times.index[-1]
    assert tf.seqno_at(last + timedelta(seconds=1), client=sample) == times.index[-1] + 1


@pytest.mark.parametrize(
    ("time", "match"),
    [
        (datetime(2026, 5, 28), "no time zone"),  # noqa: DTZ001
        (pd.Timestamp("2026-05-28"), "no time zone"),
        ("nonsense", "not 'nonsense'"),
        (pd.NaT, "not NaT"),
        ("", "not ''"),
        (datetime(2999, 1, 1, tzinfo=UTC), "in the future"),
    ],
)
def test_wrong_moments_are_refused_before_a_request(sample, time, match):
    with pytest.raises(ValueError, match=match):
        tf.seqno_at(time, client=sample)
    assert sample.statistics.requests == 0


def test_offline_knows_no_moments():
    with pytest.raises(tf.MissingError):
        tf.seqno_at("2026-05-28", client="offline")


def test_a_chain_of_one_block(tmp_path):
    append(tmp_path, BODIES[:1])
    with Faulty(tmp_path) as service, connect(service, FakeClock()) as client:
        second = int(BODIES[0]["blocks"][0]["gen_utime"])
        moment = datetime.fromtimestamp(second, UTC)
        assert tf.seqno_at(moment, client=client) == FIRST
        assert tf.seqno_at(moment + timedelta(seconds=1), client=client) == FIRST + 1


def test_a_moment_is_found_although_blocks_are_absent_at_first(tmp_path):
    append(tmp_path, BODIES)
    moment = datetime.fromtimestamp(int(BODIES[9]["blocks"][0]["gen_utime"]), UTC)
    with Faulty(tmp_path) as service, connect(service, FakeClock()) as client:
        expected = tf.seqno_at(moment, client=client)
        service.inject(absent, SHARDS, times=20)
        service.inject(lose(0), SHARDS, times=4)  # the masterchain's row
        assert tf.seqno_at(moment, client=client) == expected
        assert service.met == 24
        service.inject(absent, SHARDS)
        with pytest.raises(tf.IncompleteError, match="does not have it, but it has"):
            tf.seqno_at(moment, client=client)
