"""What is promised when the service, the way to it, the disk or the process fails.

`FAULTS.md` lists the faults, what must follow, and where each is shown. Most are shown here, by
fetching from a service that has the fault and comparing the digest of each table with that of an
undisturbed run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chain import synthetic_blocks
from fault_server import answer, error, raw
from faulty_service import (
    EMPTY,
    HEAD,
    INFO,
    LYING,
    NO_PAGE,
    PAGE,
    PASSING,
    SHARDS,
    STATE,
    TRANSACTIONS,
    FakeClock,
    Faulty,
    absent,
    append,
    changed,
    connect,
    digests,
    empty,
    first_page_again,
    lose,
    lose_if,
    moved,
    of_another,
    of_no_block,
    of_the_next,
    prefix,
    saying,
    shuffled,
    sized,
    telling,
    twice,
    twice_otherwise,
)
from slow import slow

import tonframes as tf
from tonframes.fetch import block as block_pages
from tonframes.seqnos import spell, subtract
from tonframes.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonframes.client import Client

FIRST = 90_000_080
LAST = FIRST + 39
#: Crosses a border of files at ….100; a shard splits after ….104.
SEQNOS = range(FIRST + 18, FIRST + 28)
#: The masterchain block that faults fall upon: of five blocks, one without transactions.
HIT = FIRST + 26
KEY = "SECRET_key-0123456789abcdef"


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "truth"
    append(path, synthetic_blocks(40, seed=2, first_seqno=FIRST, transactions_per_block=6))
    return path


@cache
def truth(chain: Path, runs: tuple[range, ...]) -> dict[str, str]:
    return digests(tf.read_blocks(chain, [seqno for run in runs for seqno in run]))


@dataclass
class Lab:
    """A service with faults, a client of it whose waits take no time, and a store."""

    chain: Path
    service: Faulty
    client: Client
    clock: FakeClock
    store: Path

    def fetch(self, seqnos=SEQNOS, **options) -> tf.Blocks:
        given = {"client": self.client, "store": self.store, "progress": False} | options
        return tf.fetch_blocks(seqnos, **given)

    def truth(self, *runs: range) -> dict[str, str]:
        return truth(self.chain, runs)

    def comes_whole(self, seqnos=SEQNOS, *, store: Path | None = None, **options) -> None:
        assert digests(self.fetch(seqnos, store=store, **options)) == self.truth(seqnos)

    def fails(self, kind: type[tf.TonframesError], match: str, *missing: range):
        """Fail as promised, keep the rest, and come whole once the fault is over."""
        with pytest.raises(kind, match=match) as caught:
            self.fetch()
        there = subtract([SEQNOS], missing)
        failure = caught.value
        assert type(failure) is kind
        assert failure.missing == missing
        assert Store(self.store).held() == there
        if there:
            assert failure.partial.seqnos == there
            assert digests(failure.partial) == self.truth(*there)
        told = " ".join([*failure.__notes__])
        assert f"missing: {spell(missing)}. To continue, call fetch_blocks again" in told
        assert self.service.met
        self.service.injecting = False
        self.comes_whole(store=self.store)
        return failure


@pytest.fixture
def lab(chain, tmp_path):
    clock = FakeClock()
    with Faulty(chain) as service, connect(service, clock) as client:
        yield Lab(chain, service, client, clock, tmp_path / "store")


# ── the cases ────────────────────────────────────────────────────────────────────────────────────

CASES: dict[str, Callable[[Lab], object]] = {}


def case(*names: str):
    def register(function):
        CASES.update(dict.fromkeys(names, function))
        return function

    return register


def passes(row: str, lab: Lab) -> None:
    """What fails, in every operation, ends in the whole."""
    faults = [fault for name, fault in PASSING.items() if name.startswith(row)]
    for seqno, fault in zip(SEQNOS, faults, strict=False):
        for operation in (SHARDS, TRANSACTIONS):
            lab.service.inject(fault, operation, times=2, seqno=seqno)
        for operation in (STATE, INFO):
            lab.service.inject(fault, operation, times=1)
    lab.comes_whole(store=lab.store)
    assert lab.service.met == 6 * len(faults)


CASES |= {f"{row} passes": partial(passes, row) for row in sorted({name[:3] for name in PASSING})}


def is_seen_through(fault, lab: Lab) -> None:
    """What is not whole under status 200 is asked for again, though it be the same twice."""
    lab.service.inject(fault, SHARDS, seqno=HIT, times=2)
    lab.service.inject(fault, TRANSACTIONS, seqno=HIT - 8, times=2)
    lab.comes_whole()
    assert lab.service.met == 4


def is_seen_through_in_the_state(fault, lab: Lab) -> None:
    lab.service.inject(fault, STATE, times=2)
    lab.comes_whole()
    assert lab.service.met == 2


for name, fault in LYING.items():
    if "F18" not in name:
        CASES[f"{name}, then told"] = partial(is_seen_through, fault)
    if "F16" in name:
        CASES[f"{name} in the state, then told"] = partial(is_seen_through_in_the_state, fault)


@case("F21 rows in any order")
def any_order(lab):
    lab.service.inject(shuffled)
    lab.comes_whole()
    assert lab.service.met > 15


TIP, EDGE = range(SEQNOS.start, HIT), range(HIT, SEQNOS.stop)
ALONE = range(HIT, HIT + 1)


def for_ever(reply, kind: type[tf.TonframesError], match: str, lab: Lab) -> None:
    """An answer that never comes ends the run; what is before it is kept."""
    lab.service.inject(saying(reply), SHARDS, seqno=HIT)
    lab.fails(kind, match, EDGE)


NAMED = f"{SHARDS} of seqno {HIT} "
CASES |= {
    name: partial(for_ever, reply, kind, match)
    for name, reply, kind, match in [
        (
            "F04 429 for ever",
            error("Ratelimit exceed", 429),
            tf.RequestError,
            rf"{NAMED}.*status 429, Ratelimit exceed; \d+ attempts in .* waiting; pass api_key",
        ),
        ("F07 500 for ever", answer(PAGE, 500), tf.RequestError, f"{NAMED}.*500, We are ill; "),
        (
            "F08 a limit that is not allowed",
            error("limit is not allowed: 1001 > 1000", 500),
            tf.RequestError,
            f"{NAMED}.*; 1 attempt in",
        ),
        ("F11 401", error("no such key", 401), tf.RequestError, f"{NAMED}.*; 1 attempt .*the key"),
        ("F11 403", error("no", 403), tf.RequestError, f"{NAMED}.*; 1 attempt .*network"),
        ("F27 resets for ever", raw(end="reset"), tf.RequestError, f"{NAMED}.*reset by peer"),
        ("F31 HTML for ever", answer(PAGE), tf.RequestError, f"{NAMED}.*an HTML page: We are ill"),
        (
            "F36 a redirect",
            answer(b"", 302, Location="https://other.example/x"),
            tf.RequestError,
            f"{NAMED}.*other.example",
        ),
    ]
}


@case("F31 {} for ever", "F32 no JSON for ever")
def no_rows_for_ever(lab):
    lab.service.inject(saying(answer(b"{}")), SHARDS, seqno=HIT)
    failure = lab.fails(tf.DecodeError, '"transactions" or "blocks"', EDGE)
    assert NAMED in failure.__notes__[0]


@case("F02 Retry-After is waited for")
def retry_after(lab):
    lab.service.inject(saying(error("x", 429, Retry_After="7")), TRANSACTIONS, seqno=HIT, times=1)
    lab.comes_whole()
    assert max(lab.clock.slept, default=0) >= 7


@case("F13 a hole for ever", "F58 a replica that stays behind ends it at the deadline")
def hole(lab):
    lab.service.inject(absent, SHARDS, seqno=HIT)
    began = lab.clock.time
    lab.fails(tf.IncompleteError, f"{HIT} .*the service does not have it, but it has {LAST}", ALONE)
    assert 120 < lab.clock.time - began < 2 * 120


@case("F13 a hole among transactions for ever")
def hole_of_transactions(lab):
    lab.service.inject(absent, TRANSACTIONS, seqno=HIT)
    lab.fails(tf.IncompleteError, f"masterchain block {HIT} .*the service does not have it", ALONE)


@case("F13 two holes for ever")
def holes(lab):
    edges = (SEQNOS[0], SEQNOS[-1])
    for seqno in edges:
        lab.service.inject(absent, SHARDS, seqno=seqno)
    lab.fails(tf.IncompleteError, "and 1 more", *(range(n, n + 1) for n in edges))


@case("F13 the state of the shards is absent at first")
def no_state(lab):
    lab.service.inject(absent, STATE, times=3)
    lab.comes_whole(store=lab.store)
    assert lab.service.met == 3
    proofs = {
        Store(lab.store).footer(f).proof for f in Store(lab.store).files("transactions").values()
    }
    assert proofs == {"chain"}


@case("F13 the state before is absent at first, and the first block is never whole")
def no_state_before(lab):
    first = SEQNOS[0]
    lab.service.inject(absent, STATE, seqno=first - 1, times=1)
    lab.service.inject(lose(2), SHARDS, seqno=first)
    lab.fails(tf.IncompleteError, f"masterchain block {first} ", range(first, first + 1))


@case("F13 the state before is absent for ever")
def never_a_state_before(lab):
    # A hole before the range: its first block cannot be held against anything, all others can.
    first = SEQNOS[0]
    lab.service.inject(absent, STATE, seqno=first - 1)
    lab.fails(tf.IncompleteError, f"masterchain block {first} ", range(first, first + 1))


@case("F13 a hole that has no state either")
def hole_without_a_state(lab):
    for operation in (SHARDS, TRANSACTIONS, STATE):
        lab.service.inject(absent, operation, seqno=HIT)
    lab.fails(tf.IncompleteError, f"{HIT} .*the service does not have it", range(HIT, HIT + 2))


@case("F16 every row of every list is lost once")
def every_row(lab):
    for place in range(6):
        for seqno in SEQNOS:
            lab.service.inject(lose(place), SHARDS, seqno=seqno, times=1)
        lab.comes_whole()
        assert lab.service.met == (place + 1) * len(SEQNOS)


@case("F16 every transaction is lost once")
def every_transaction(lab):
    for place in range(6):
        for seqno in SEQNOS:
            lab.service.inject(lose(place), TRANSACTIONS, seqno=seqno, times=1)
        lab.comes_whole()
        assert lab.service.met == (place + 1) * len(SEQNOS)


def row_lost_for_ever(condition, lab: Lab) -> None:
    lab.service.inject(lose_if(condition), SHARDS, seqno=HIT)
    lab.fails(tf.IncompleteError, rf"masterchain block {HIT} ", ALONE)


CASES |= {
    f"F16 {name} lost for ever": partial(row_lost_for_ever, condition)
    for name, condition in {
        "the masterchain's row": lambda row: row["workchain"] == -1,
        "a row with transactions": lambda row: row["workchain"] == 0 and row["tx_count"],
        "a row without transactions": lambda row: row["workchain"] == 0 and not row["tx_count"],
    }.items()
}


@case("F17 the same list five times")
def the_same_list(lab):
    lab.service.inject(lose(-1), SHARDS, seqno=HIT, times=5)
    lab.comes_whole()
    assert lab.service.met == 5


@contextmanager
def small_pages(rows: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_pages, "MOST_ROWS", rows)
        yield


@case("F14 the end of a list is a 404")
def end_of_list(lab):
    # Pages of one row are all full: each list ends in "blocks not found" or in an empty page. That
    # this is the end is seen from another page, which begins with the last row.
    with small_pages(1):
        lab.comes_whole(range(HIT, HIT + 2))
    assert lab.service.injecting
    turned = [seen for seen in lab.service.seen if int(seen.query.get("offset", ["0"])[0])]
    assert len(turned) == 6 + 5 + 7 + 7


def in_small_pages(fault, operation, lab: Lab) -> None:
    times = 1 if fault is shuffled else 2
    lab.service.inject(fault, operation, times=times, seqno=HIT, offset=2)
    with small_pages(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", tf.TonframesWarning)  # rows that came twice
        lab.comes_whole()
    assert lab.service.met == times


CASES |= {
    f"{name} of {operation}": partial(in_small_pages, fault, operation)
    for operation in (SHARDS, TRANSACTIONS)
    for name, fault in {
        "F18 rows moved between pages": moved,
        "F18 page 2 is page 1": first_page_again,
        "F19 a page shrinks": prefix(1),
        "F19 an empty page in the middle": empty,
        "F19 404 in the middle": absent,
        "F21 a page out of order": shuffled,
    }.items()
}


@case("F19 pages without an end")
def endless(lab):
    def fault(truth):
        if truth.asked("offset") > 100:
            return error("there is no end", 401)
        return first_page_again(truth)

    lab.service.inject(fault, TRANSACTIONS, seqno=HIT)
    with small_pages(2):
        lab.fails(tf.IncompleteError, f"masterchain block {HIT} ", ALONE)


@case("F20 rows that come twice with the same content")
def same_twice(lab):
    for operation in (SHARDS, TRANSACTIONS):
        lab.service.inject(twice, operation, seqno=HIT, times=1)
    with pytest.warns(tf.TonframesWarning, match="came twice with the same content"):
        lab.comes_whole()
    assert lab.service.met == 2


def conflict(operation, lab: Lab) -> None:
    lab.service.inject(twice_otherwise, operation, seqno=HIT, times=2)
    lab.comes_whole()
    assert lab.service.met == 2


def conflict_for_ever(operation, lab: Lab) -> None:
    lab.service.inject(twice_otherwise, operation, seqno=HIT)
    lab.fails(tf.IncompleteError, f"masterchain block {HIT} .*different content", ALONE)


CASES |= {
    f"F20 {name} of {operation}": partial(run, operation)
    for name, run in {"a conflict": conflict, "a conflict for ever": conflict_for_ever}.items()
    for operation in (SHARDS, TRANSACTIONS)
}


def of_another_for_ever(operation, lab: Lab) -> None:
    lab.service.inject(of_another(1), operation, seqno=HIT)
    lab.fails(tf.IncompleteError, f"expected {HIT}, as asked, found {HIT + 1}", ALONE)


CASES |= {
    f"F22 {operation} of another for ever": partial(of_another_for_ever, operation)
    for operation in (SHARDS, TRANSACTIONS)
}


@case("F22 the state of the shards after another block")
def state_of_another(lab):
    def fault(truth):
        return telling(truth.other(seqno=truth.asked("seqno") + 1).read())

    lab.service.inject(fault, STATE, times=2)
    lab.comes_whole()
    assert lab.service.met == 2


@case("F29 silence", "F29 a stall in the content")
def stalls(lab):
    half = raw(sized(b"{", 999, HEAD), end="stall")
    for seqno, reply in {HIT: raw(end="stall"), HIT + 1: half}.items():
        lab.service.inject(saying(reply), TRANSACTIONS, seqno=seqno, times=1)
    with connect(lab.service, lab.clock, timeout=0.2, deadline=2) as client:
        lab.comes_whole(client=client)
    assert lab.service.met == 2


@case("F33 a field that the schema does not know")
def unknown_field(lab):
    lab.service.inject(
        changed(lambda rows, _: [row | {"new": 7} for row in rows]), TRANSACTIONS, seqno=HIT
    )
    with pytest.warns(tf.TonframesWarning, match=r"no place for /new \(6 times\)"):
        fetched = lab.fetch()
    kept = fetched.arrow("transactions")
    assert set(kept["extra"].to_pylist()) == {None, '{"/new":7}'}
    truth = tf.read_blocks(lab.chain, SEQNOS).arrow("transactions")
    assert kept.drop_columns("extra").equals(truth.drop_columns("extra"))


@case("F34 a value of a wrong type")
def wrong_type(lab):
    lab.service.inject(
        changed(lambda rows, _: [rows[0], rows[1] | {"seqno": None}, *rows[2:]]), SHARDS, seqno=HIT
    )
    lab.fails(tf.DecodeError, r"\$\.blocks\[1\]\.seqno", EDGE)


@case("F53 the key")
def secret(lab):
    lab.service.inject(saying(error(f"no {KEY}", 401)), SHARDS, seqno=HIT)
    with connect(lab.service, lab.clock, api_key=KEY) as client:
        with pytest.raises(tf.RequestError) as caught:
            lab.fetch(client=client)
        told = [str(tf.plan_blocks(SEQNOS, client=client, store=lab.store))]
    told += [str(caught.value), repr(caught.value), *caught.value.__notes__]
    assert not any(KEY in text for text in told)
    files = [file for file in lab.store.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert not any(KEY.encode() in file.read_bytes() for file in files)
    assert {seen.headers["X-API-Key"] for seen in lab.service.seen} == {KEY}


EDGES = (SEQNOS[0], HIT, SEQNOS[-1])


def empty_at_first(fault, lab: Lab) -> None:
    for seqno in EDGES:
        lab.service.inject(fault, SHARDS, seqno=seqno, times=3)
        lab.service.inject(fault, TRANSACTIONS, seqno=seqno, times=2)
    lab.comes_whole()
    assert lab.service.met == 5 * len(EDGES)


def empty_for_ever(fault, lab: Lab) -> None:
    lab.service.inject(fault, SHARDS, seqno=HIT)
    lab.fails(tf.IncompleteError, f"masterchain block {HIT} .*the answer is empty", ALONE)


for name, fault in EMPTY.items():
    CASES[f"F55 {name}, then told"] = partial(empty_at_first, fault)
    CASES[f"F55 {name} for ever"] = partial(empty_for_ever, fault)


@case("F55 transactions where blocks were shown before")
def another_dialect(lab):
    """As an answer of the specification it would be believed, and it has a part of the rows."""

    def fault(truth):
        url = f"/api/v3/{TRANSACTIONS}?seqno={truth.asked('seqno')}&limit=2"
        return telling(lab.service.truth(url).read() | {"blocks": None})

    lab.service.inject(fault, SHARDS, seqno=HIT, times=3)
    lab.comes_whole(range(HIT - 2, HIT - 1))
    lab.comes_whole(ALONE)
    assert lab.service.met == 3


@case("F55 the first answer has transactions of another masterchain block")
def of_another_and_of_another_dialect(lab):
    other = lab.service.truth(f"/api/v3/{TRANSACTIONS}?seqno={HIT - 1}&limit=1000")
    lab.service.inject(saying(telling(other.read())), SHARDS, seqno=HIT, times=3)
    lab.comes_whole(ALONE)
    assert lab.service.met == 3


@case("F58 the last blocks, of a replica that is behind")
def behind(lab):
    """The service has shown its last block once; all else is of a replica that lacks it."""
    last = range(LAST - 5, LAST + 1)

    def stale(truth):
        told = truth.read()
        return telling(told | {"last": told["last"] | {"seqno": LAST - 3}})

    tf.fetch_blocks(last[:1], client=lab.client, store=lab.store)  # asks for the network
    lab.service.inject(stale, INFO)
    for operation, times in {SHARDS: 15, TRANSACTIONS: 15, STATE: 3}.items():
        lab.service.inject(absent, operation, seqno=LAST, times=times)
    lab.comes_whole(last, store=lab.store)
    assert lab.service.met == 34


def stray_at_first(fault, operation, lab: Lab) -> None:
    for seqno in EDGES:
        lab.service.inject(fault, operation, seqno=seqno, times=8)
    lab.comes_whole()
    assert lab.service.met == 8 * len(EDGES)


def stray_for_ever(fault, match, operation, lab: Lab) -> None:
    lab.service.inject(fault, operation, seqno=HIT)
    lab.fails(tf.IncompleteError, f"masterchain block {HIT} .*{match}", ALONE)


for name, fault, operation, match in [
    ("a block", of_the_next, SHARDS, f"{HIT}, as asked, found {HIT + 1}"),
    ("a transaction", of_the_next, TRANSACTIONS, f"{HIT}, as asked, found {HIT + 1}"),
    ("a transaction of an unknown block", of_no_block, TRANSACTIONS, "counts .* transactions, and"),
]:
    CASES[f"F59 {name}, then told"] = partial(stray_at_first, fault, operation)
    CASES[f"F59 {name} for ever"] = partial(stray_for_ever, fault, match, operation)


# ── run them ─────────────────────────────────────────────────────────────────────────────────────


#: Faults of the list of transactions are in the slow run, where the list of blocks has them too,
#: and all but one of the empty answers that never end.
SLOW = [name for name in CASES if name.endswith(f"of {TRANSACTIONS}")]
SLOW += [f"F55 {name} for ever" for name in list(EMPTY)[1:]]


@pytest.mark.parametrize("name", [*(name for name in CASES if name not in SLOW), *slow(*SLOW)])
def test_what_must_follow_a_fault_follows(lab, name):
    CASES[name](lab)


# ── what is no answer ────────────────────────────────────────────────────────────────────────────


def test_f12_blocks_before_the_end_of_the_chain_are_kept(lab):
    wanted = range(LAST - 3, LAST + 3)
    with pytest.raises(tf.RequestError, match=f"{LAST + 1} is not indexed yet .*{LAST}") as caught:
        lab.fetch(wanted)
    assert (caught.value.status, caught.value.retryable) == (404, True)
    assert caught.value.missing == (range(LAST + 1, LAST + 3),)
    assert digests(caught.value.partial) == lab.truth(range(LAST - 3, LAST + 1))
    assert Store(lab.store).held() == caught.value.partial.seqnos


def test_f12_blocks_before_the_first_are_reported(lab):
    with pytest.raises(tf.RequestError, match=f"the first one is {FIRST}") as caught:
        lab.fetch(range(FIRST - 5, FIRST + 5))
    assert (caught.value.status, caught.value.retryable) == (404, False)


def test_f13_the_end_of_the_chain_is_absent_at_first(lab):
    lab.service.inject(absent, SHARDS, seqno=HIT, times=2)
    lab.service.inject(absent, INFO, times=2)
    lab.comes_whole()
    assert lab.service.met == 4


def test_f13_the_network_is_absent_at_first(lab):
    lab.service.inject(absent, INFO, times=2)
    lab.comes_whole(store=lab.store)
    assert lab.service.met == 2
    assert Store(lab.store).network == "-217"


def press(number: signal.Signals):
    """A fault that presses Ctrl-C, and stalls."""

    def fault(_):
        os.kill(os.getpid(), number)
        return raw(end="stall")

    return fault


@pytest.fixture
def interrupting():
    """Make a signal that nothing else uses do as Ctrl-C does."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


#: Ctrl-C between the opening of a file and the `with` that closes it: the garbage collector does.
UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@UNCLOSED
@pytest.mark.parametrize("operation", [SHARDS, TRANSACTIONS, STATE, INFO])
def test_f39_ctrl_c_interrupts_and_the_next_call_works(lab, interrupting, operation):
    asked = {SHARDS: {"seqno": HIT}, TRANSACTIONS: {"seqno": HIT}}.get(operation, {})
    lab.service.inject(press(interrupting), operation, times=1, **asked)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        lab.fetch()
    assert time.monotonic() - start < 15  # the answer would come after 20 s
    while not lab.service.met:  # counted by the thread that pressed, once it goes on
        time.sleep(0.01)
    lab.comes_whole(store=lab.store)


PROGRAMS = {
    "the command": "from tonframes.cli import main; import sys; sys.exit(main(sys.argv[1:]))",
    "a script": """
import sys
import tonframes as tf
_, _, seqnos, _, store, _, url = sys.argv[1:]
start, stop = map(int, seqnos.split(":"))
tf.fetch_blocks(range(start, stop), client=tf.Client(url), store=store)
""",
}


def ended(lab, command, number):
    """End a fetch that waits for an answer of 20 seconds; return its messages."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            # Of what it does it only waits for the answer that does not come.
            while not lab.service.met or not Store(lab.store).held():
                time.sleep(0.02)
            time.sleep(0.3)  # the commit that was seen is over
            process.send_signal(number)
            told = process.communicate(timeout=15)[1]
        finally:
            process.kill()
    assert process.returncode in {130, -number}, told
    return told


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("the command", signal.SIGINT),
        ("a script", signal.SIGTERM),
        pytest.param("the command", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("a script", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_f39_f40_a_signal_ends_the_process_before_the_answer_comes(lab, program, number):
    lab.service.inject(saying(raw(end="stall")), TRANSACTIONS, seqno=HIT)
    arguments = ["fetch", "blocks", f"{SEQNOS.start}:{SEQNOS.stop}", "--store", str(lab.store)]
    command = [sys.executable, "-c", PROGRAMS[program], *arguments, "--url", lab.service.url]
    told = ended(lab, command, number)
    if program == "the command" and number == signal.SIGINT:
        kept = sum(map(len, Store(lab.store).held()))
        last = told.splitlines()[-1]
        assert f"interrupted. {kept} of {len(SEQNOS)} masterchain blocks are kept" in last
    [held] = Store(lab.store).held()
    assert held.start == SEQNOS.start
    assert FIRST + 20 <= held.stop <= HIT
    lab.service.injecting = False
    lab.comes_whole(store=lab.store)


def test_f43_f49_threads_on_one_client_and_one_store(lab):
    ranges = [SEQNOS, range(SEQNOS.start + 3, SEQNOS.stop + 5), range(HIT, HIT + 2), SEQNOS]
    with ThreadPoolExecutor(4) as pool:
        fetched = list(pool.map(lab.fetch, ranges))
    assert [digests(blocks) for blocks in fetched] == [lab.truth(run) for run in ranges]
    assert digests(tf.read_blocks(lab.store)) == lab.truth(range(SEQNOS.start, SEQNOS.stop + 5))


FIRST_BODIES = """
import os
import sys
import threading
import time
from tonframes.wire import pages, schema

body = sys.stdin.buffer.read()
sys.setswitchinterval(1e-5)


def read(together, i):
    together.wait()
    time.sleep(i / 500)
    pages.read(schema.BLOCKS_ANSWER, body)


for _ in range(20):
    child = os.fork()
    if child == 0:
        together = threading.Barrier(8)
        threads = [threading.Thread(target=read, args=(together, i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_f49_threads_may_read_their_first_answers_at_once():
    """While one thread makes a decoder of msgspec, another that uses it half made crashes."""
    body = json.dumps(synthetic_blocks(1, transactions_per_block=6)[0]).encode()
    told = subprocess.run(
        [sys.executable, "-c", FIRST_BODIES], input=body, capture_output=True, check=True
    )
    assert told.stdout.split() == [b"0"] * 20


def test_f49_within_a_running_event_loop(lab):
    async def cell():
        return lab.fetch()

    assert digests(asyncio.run(cell())) == lab.truth(SEQNOS)


# ── the specification's dialect ──────────────────────────────────────────────────────────────────


@pytest.fixture
def specified(chain, tmp_path):
    clock = FakeClock()
    with Faulty(chain, "specification") as service, connect(service, clock) as client:
        yield Lab(chain, service, client, clock, tmp_path / "store")


def rows_of(blocks: tf.Blocks) -> dict[str, str]:
    return digests(blocks, ("transactions", "messages"))


def comes_whole_without_blocks(lab: Lab) -> None:
    held = tf.read_blocks(lab.chain, SEQNOS)
    assert rows_of(lab.fetch()) == rows_of(held)


@pytest.mark.parametrize("seqno", [HIT, *slow(SEQNOS[0], SEQNOS[-1])])
@pytest.mark.parametrize("name", EMPTY)
def test_f55_an_empty_answer_is_never_proof(specified, name, seqno):
    specified.service.inject(EMPTY[name], SHARDS, seqno=seqno, times=3)
    comes_whole_without_blocks(specified)
    assert specified.service.met == 3


@pytest.mark.parametrize("seqno", EDGES)
def test_f55_an_empty_answer_for_ever_is_reported(specified, seqno):
    specified.service.inject(empty, SHARDS, seqno=seqno)
    with pytest.raises(tf.IncompleteError, match=f"{seqno} .*the answer is empty") as caught:
        specified.fetch()
    assert caught.value.missing == (range(seqno, seqno + 1),)
    assert Store(specified.store).held() == subtract([SEQNOS], caught.value.missing)


@pytest.mark.parametrize("name", NO_PAGE)
@pytest.mark.parametrize("offset", [2, *slow(4)])
def test_f56_a_page_that_does_not_come_is_no_end(specified, name, offset):
    # What the pages from there on have is the last of its accounts: no link shows that it is lost.
    last = SEQNOS[-1]
    specified.service.inject(NO_PAGE[name], SHARDS, seqno=last, offset=offset, times=3)
    with small_pages(2):
        comes_whole_without_blocks(specified)
    assert specified.service.met == 3


@pytest.mark.parametrize("name", ["404 of the service", "an empty page"])
def test_f56_for_ever_it_is_reported(specified, name):
    last = SEQNOS[-1]
    specified.service.inject(NO_PAGE[name], SHARDS, seqno=last, offset=2)
    with (
        small_pages(2),
        pytest.raises(tf.IncompleteError, match=rf"{last} .*list ends at offset 2") as caught,
    ):
        specified.fetch()
    assert caught.value.missing == (range(last, last + 1),)


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_f56_the_end_after_a_full_page_is_found(specified, rows):
    with small_pages(rows):
        comes_whole_without_blocks(specified)


@pytest.mark.filterwarnings("ignore:.*came twice with the same content")
@pytest.mark.parametrize("rows", [2, 3])
def test_f20_a_row_that_comes_twice_hides_no_other(specified, rows):
    # A page with one row more than it may have: the next one must not begin one row too late.
    specified.service.inject(twice, SHARDS, offset=0)
    with small_pages(rows):
        comes_whole_without_blocks(specified)
    assert specified.service.met


# ── the list of faults ───────────────────────────────────────────────────────────────────────────

LISTED = re.findall(
    r"^\| (F\d\d) \| [^|]+ \| [^|]+ \| ([^|]+) \|$",
    (Path(__file__).parent / "FAULTS.md").read_text("utf-8"),
    re.MULTILINE,
)


@cache
def names_in(name: str) -> set[str]:
    files = Path(__file__).parents[1].rglob(f"test_{name}.py")
    text = "".join(file.read_text("utf-8") for file in files)
    return set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))


def test_every_listed_fault_is_shown():
    named = {code.upper() for test in names_in("matrix") for code in re.findall(r"f\d\d", test)}
    shown_here = named | {name[:3] for name in CASES}
    assert {code for code, shown_by in LISTED if "here" in shown_by.split()} == shown_here
    for code, shown_by in LISTED:
        for name, test in re.findall(r"`(\w+)::(\w+)`", shown_by):
            assert test in names_in(name), code


def test_the_list_begins_with_that_of_the_reference(reference):
    matrix = (reference / "faults.md").read_text("utf-8")
    codes = re.findall(r"^\| (F\d\d) \|", matrix, re.MULTILINE)
    listed = [code for code, _ in LISTED]
    assert listed[: len(codes)] == codes, "what was found later follows"
    assert listed == sorted(set(listed))
