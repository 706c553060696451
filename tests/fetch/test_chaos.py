"""F54: a third of all answers is faulty, the process is killed again and again, nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from random import Random
from threading import Timer

import pytest
from chain import synthetic_blocks
from faulty_service import STORM, Faulty, append, digests, fetch_in_a_hurry
from slow import slow_after

import tonframes as tf
from tonframes.store import Store

SEEDS = range(int(os.environ.get("SOAK_SEEDS", "8")))
FIRST = 90_000_150
SEQNOS = range(FIRST, FIRST + 100)  # a split and a merge, of two or three shards
SHARE = 0.35
#: Answers after which the process may be killed, block by block and through windows of twenty
#: rows; undisturbed it takes some 225 and some 65.
KILLS = {False: range(30, 250), True: range(20, 60)}

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tonframes"])


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "truth"
    append(path, synthetic_blocks(101, seed=1, first_seqno=FIRST, transactions_per_block=5))
    return path, digests(tf.read_blocks(path, SEQNOS))


@pytest.fixture(scope="module", params=[False, True], ids=["block by block", "windows"])
def windows(request):
    return request.param


@pytest.fixture(scope="module")
def service(chain, windows):
    with Faulty(chain[0], windows=windows) as service:
        yield service


@pytest.mark.parametrize("seed", slow_after(1, SEEDS))
def test_nothing_is_lost_or_doubled(service, chain, tmp_path, seed, windows):
    rng = Random(seed)
    service.storm(seed, SHARE, STORM["service"])
    page = 20 if windows else 1000 if seed % 5 else 4
    processes = []

    def kill() -> None:
        # Some time after an answer, so that decoding and committing are hit as well.
        Timer(rng.uniform(0, 0.1), processes[-1].kill).start()

    service.alarms = dict.fromkeys(rng.sample(KILLS[windows], rng.randint(1, 3)), kill)
    while not processes or processes[-1].exitcode:
        assert len(processes) < 20
        arguments = (service.url, tmp_path / "store", SEQNOS, page)
        processes.append(context.Process(target=fetch_in_a_hurry, args=arguments))
        processes[-1].start()
        processes[-1].join()
    assert -signal.SIGKILL in [process.exitcode for process in processes]
    assert service.met > SHARE / 2 * service.answered
    assert Store(tmp_path / "store").held() == (SEQNOS,)
    assert digests(tf.read_blocks(tmp_path / "store")) == chain[1]
