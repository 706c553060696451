"""A fetch that ends at any moment has kept what was proven, and goes on where it was."""

import _thread
import gc
import multiprocessing
import os
import signal
import time
from random import Random

import pyarrow.dataset as ds
import pytest
from chain import synthetic_blocks
from faulty_service import FakeClock, Faulty, append, connect, digests
from slow import SEEDS, slow, slow_after

import tonframes as tf
from tonframes.fetch import missing, progress
from tonframes.fetch.missing import fetch_missing
from tonframes.fetch.network import Network, lacks_windows
from tonframes.seqnos import SPAN
from tonframes.store import Store

FIRST = 90_000_150
SEQNOS = range(FIRST, FIRST + 150)
# Ctrl-C while urllib3 connects: it leaves the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
#: What may be lost: masterchain blocks, or seconds of fetching.
BLOCKS, SECONDS = 20, 5.0

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tonframes"])


@pytest.fixture(autouse=True)
def sockets_are_collected():
    """Collect sockets that are left open within the test that ignores the warning."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "truth"
    append(path, synthetic_blocks(151, seed=1, first_seqno=FIRST, transactions_per_block=5))
    return path, digests(tf.read_blocks(path, SEQNOS))


@pytest.fixture(scope="module", params=["service", *slow("specification")])
def service(request, chain):
    with Faulty(chain[0], request.param) as service:
        yield service


def fetch(url, store, seqnos, log, *, windows, rate):
    """Fetch in a process of its own, and log how many masterchain blocks have come, and when."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(log, os.O_WRONLY | os.O_APPEND)
    add = progress.Counted.add

    def logged(self, blocks, transactions):
        os.write(log, f"{time.monotonic()} {blocks}\n".encode())
        add(self, blocks, transactions)

    progress.Counted.add = logged
    with tf.Client(url, requests_per_second=rate) as client:
        if not windows:
            lacks_windows(client)
        tf.fetch_blocks(seqnos, client=client, store=store, progress=False)


def came(log):
    return [
        (float(when), int(count)) for when, count in map(str.split, log.read_text().splitlines())
    ]


def whole(store, truth, folders=("transactions", "messages")):
    """Check that a store has no row twice, whichever engine reads it, and none that is not true."""
    held = store.held()
    for name in folders:
        rows = len(tf.read_blocks(store.path).arrow(name))
        assert (ds.dataset(store.path / name).count_rows() if held else 0) == rows
    expected = tf.read_blocks(truth, [seqno for run in held for seqno in run])
    names = [name for name in ("transactions", "messages") if held]
    assert digests(tf.read_blocks(store.path), names) == digests(expected, names)


def end(process, log, seconds, number):
    """End a process some seconds after the first masterchain blocks have come."""
    while process.is_alive() and not log.stat().st_size:
        time.sleep(0.01)
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid, number)
    when = time.monotonic()
    process.join()
    return when


@pytest.mark.parametrize("seed", slow_after(1, SEEDS))
def test_a_process_that_ends_at_a_random_moment_loses_little(service, chain, tmp_path, seed):
    rng = Random(seed)
    store = Store(tmp_path / "store")
    log = tmp_path / "log"
    number = rng.choice([signal.SIGKILL, signal.SIGINT])
    options = {"windows": seed % 3 == 0, "rate": rng.choice([20, 60, 200, None])}
    for _ in range(2):
        log.write_text("")
        before = sum(map(len, store.held()))
        arguments = (service.url, store.path, SEQNOS, log)
        process = context.Process(target=fetch, args=arguments, kwargs=options)
        process.start()
        when = end(process, log, rng.uniform(0, 3), number)
        held = sum(map(len, store.held()))
        lines = came(log)
        total = before + sum(count for _, count in lines)
        old = before + sum(count for moment, count in lines if moment < when - SECONDS)
        assert total - held <= BLOCKS or held >= old, (total, held, old)
        # Messages of a range that is not held are removed by the next writer.
        merging = (store.path / "merging").exists()
        whole(store, chain[0], () if merging else ["transactions"])
        if not process.exitcode:
            break
    with tf.Client(service.url) as client:
        tf.fetch_blocks(SEQNOS, client=client, store=store.path, progress=False)
    assert store.held() == (SEQNOS,)
    whole(store, chain[0])


@pytest.mark.parametrize(
    ("answers", "windows"),
    [
        (5, True),
        (60, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(5, False), (60, True), (110, True), (110, False)]
        ),
    ],
)
def test_ctrl_c_keeps_what_has_come_without_another_request(
    service, chain, tmp_path, answers, windows
):
    asked = []

    def interrupt():
        asked.append(service.answered)
        _thread.interrupt_main()

    service.answered = 0
    service.alarms = {answers: interrupt}
    with connect(service, FakeClock()) as client:
        if not windows:
            lacks_windows(client)
        try:
            tf.fetch_blocks(SEQNOS[:90], client=client, store=tmp_path)
        except KeyboardInterrupt as error:
            [note] = error.__notes__
        else:
            pytest.skip("fewer requests were needed")
        finally:
            service.alarms = {}
        # Those that were under way may still have been answered.
        assert service.answered <= asked[0] + client.in_flight + missing.WORKERS
    held = sum(map(len, Store(tmp_path).held()))
    assert f"{held} of 90 masterchain blocks are kept; missing: " in note
    assert "To continue, call fetch_blocks again with store=" in note
    if held:
        whole(Store(tmp_path), chain[0])
    if not windows:
        assert held >= answers // 2 - 16
    with tf.Client(service.url) as client:
        tf.fetch_blocks(SEQNOS[:90], client=client, store=tmp_path)
    assert Store(tmp_path).held() == (SEQNOS[:90],)
    whole(Store(tmp_path), chain[0])


def test_without_a_store_the_message_says_so(service):
    service.answered, service.alarms = 0, {5: _thread.interrupt_main}
    client = tf.Client(service.url)
    lacks_windows(client)
    with client, pytest.raises(KeyboardInterrupt) as caught:
        tf.fetch_blocks(SEQNOS[:90], client=client, store=None)
    assert caught.value.__notes__ == [
        "Without a store nothing is kept; with store= an interrupted fetch continues."
    ]


@pytest.mark.parametrize("windows", [True, False])
def test_a_caller_that_takes_no_more_commits_each_masterchain_block_once(
    service, chain, tmp_path, monkeypatch, windows
):
    committed, write = [], Store.write_blocks

    def counted(self, tables, seqnos, *, proof):
        committed.extend(seqno for run in seqnos for seqno in run)
        write(self, tables, seqnos, proof=proof)

    monkeypatch.setattr(Store, "write_blocks", counted)
    monkeypatch.setattr(missing, "OFTEN", 0.0)
    store = Store(tmp_path)
    with tf.Client(service.url) as client:
        if not windows:
            lacks_windows(client)
        network = Network(client, store)
        network.claim()
        parts = fetch_missing(client, store, (SEQNOS[:30],), network, progress=False)
        next(parts)
        parts.close()
    assert committed == list(SEQNOS[: len(committed)]) != []
    whole(store, chain[0])


def test_small_commits_become_one_file_between_multiples_of_100(
    service, chain, tmp_path, monkeypatch
):
    monkeypatch.setattr(missing, "OFTEN", 0.0)
    monkeypatch.setattr(missing, "FEWEST", 1)
    commits = []
    write = Store.write_blocks
    monkeypatch.setattr(
        Store, "write_blocks", lambda self, *a, **b: (commits.append(1), write(self, *a, **b))[1]
    )
    with tf.Client(service.url) as client:
        lacks_windows(client)
        tf.fetch_blocks(SEQNOS[40:54], client=client, store=tmp_path)
    assert len(commits) > 5
    store = Store(tmp_path)
    assert [(run.start, run.stop) for run in store.files("transactions")] == [
        (FIRST + 40, FIRST + 50),
        (FIRST + 50, FIRST + 54),
    ]
    whole(store, chain[0])
    store.verify([SEQNOS[40:54]])
    assert SPAN == 100


def test_after_ctrl_c_no_files_are_merged_and_the_next_call_does_it(
    service, chain, tmp_path, monkeypatch
):
    monkeypatch.setattr(missing, "OFTEN", 0.0)
    monkeypatch.setattr(missing, "FEWEST", 1)
    store, write, written = Store(tmp_path), Store.write_blocks, []

    def interrupted_after_three(self, *arguments, **options):
        write(self, *arguments, **options)
        written.append(len(self.files("transactions")))
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "write_blocks", interrupted_after_three)
    with tf.Client(service.url) as client:
        lacks_windows(client)
        with pytest.raises(KeyboardInterrupt):
            tf.fetch_blocks(SEQNOS[:20], client=client, store=tmp_path)
        assert len(store.files("transactions")) == written[-1] >= 3
        whole(store, chain[0])
        tf.fetch_blocks(SEQNOS[:20], client=client, store=tmp_path)
    assert len(store.files("transactions")) == 1
    whole(store, chain[0])
