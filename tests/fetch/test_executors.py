"""Fetching with the workers of executors: the same files, errors and limits as in one process."""

from __future__ import annotations

import _thread
import logging
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import loky
import pytest
from chain import synthetic_blocks
from fake_service import Chain, FakeService, Troubles, apart
from fault_server import answer
from slow import slow
from workers import children, killing, pool, pressing, slowed, until

import tonframes as tf
from tonframes.client import Client, ClientSettings
from tonframes.client.rate import Recent
from tonframes.fetch import blocks, missing, spread, workers
from tonframes.fetch.missing import BlockTask
from tonframes.fetch.proof import Shard
from tonframes.fetch.workers import processes_pay
from tonframes.store import Store

FIRST = 90_000_180
SEQNOS = range(FIRST + 10, FIRST + 230)  # four spans, the first and the last in part
FOLDERS = ("transactions", "messages", "blocks")


@cache
def bodies() -> list[dict]:
    return synthetic_blocks(240, seed=3, first_seqno=FIRST, transactions_per_block=4)


@cache
def chain() -> Chain:
    return Chain.of(bodies())


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")


@pytest.fixture
def service():
    with FakeService(chain()) as service:
        yield service


def fetch(url: str, store, executor, seqnos=SEQNOS, **options) -> tf.Blocks:
    with Client(url, **options) as client:
        return tf.fetch_blocks(
            seqnos, client=client, store=store, executor=executor, progress=False
        )


def contents(store: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(store)): file.read_bytes()
        for folder in FOLDERS
        for file in sorted((store / folder).iterdir())
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Path:
    """What one process fetches. A footer names the service, so its address is the same."""
    path = tmp_path_factory.mktemp("expected") / "store"
    with FakeService(chain()) as service:
        fetch(service.url, path, 1)
    return path


def rows(store: Path) -> dict[str, object]:
    held = Store(store)
    return {name: held.read(name, held.held()).to_pylist() for name in FOLDERS}


# ── the same result ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["threads", *slow("processes", "fork")])
def test_files_are_those_of_one_process(service, tmp_path, kind):
    fetch(service.url, tmp_path / "here", 1)
    with pool(kind) as executor:
        fetch(service.url, tmp_path / "there", executor)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert not any(tf.verify_store(tmp_path / "there").values())


@pytest.mark.parametrize("kind", ["threads", *slow("processes")])
def test_without_a_store_the_rows_come_back(service, expected, kind):
    with pool(kind) as executor:
        blocks = fetch(service.url, None, executor)
    held = rows(expected)
    for name in FOLDERS:
        assert blocks.arrow(name).to_pylist() == held[name]
    assert blocks.seqnos == (SEQNOS,)


def test_only_gaps_are_fetched(service, tmp_path, expected):
    fetch(service.url, tmp_path, 1, SEQNOS[50:150])
    before = service.requests
    with ThreadPoolExecutor(2) as executor:
        fetch(service.url, tmp_path, executor)
        again = service.requests
        fetch(service.url, tmp_path, executor)
    assert rows(tmp_path) == rows(expected)
    assert again > before
    assert service.requests == again


# ── workers that are lost ────────────────────────────────────────────────────────────────────────


def test_what_a_lost_worker_had_is_done_again(service, tmp_path, expected):
    killed = killing(
        service, lambda path: "transactions" in path and service.requests > 12 and not killed
    )
    fetch(service.url, tmp_path, 2)
    assert killed
    assert rows(tmp_path) == rows(expected)
    assert not children()


@pytest.mark.slow
def test_a_pool_that_broke_is_replaced(service, tmp_path, expected):
    with pool("processes") as executor:
        killed = killing(
            service,
            lambda path: "transactions" in path and not killed,
            lambda: list(executor._processes),
        )
        fetch(service.url, tmp_path, executor)
    assert killed
    assert rows(tmp_path) == rows(expected)


@pytest.mark.slow
def test_a_task_that_loses_every_worker_is_named(tmp_path):
    with FakeService(chain(), Troubles(absent=("blocks", "transactions"))) as service:
        killed = killing(service, lambda path: "Shards?" in path and "seqno=90000350" in path)
        with pytest.raises(tf.IncompleteError, match="90000300:90000400: 3 workers") as caught:
            fetch(service.url, tmp_path, 2)
    assert len(killed) >= 3
    (missing,) = caught.value.missing
    # A worker that is slow commits some blocks before the one at which it is killed.
    assert 90_000_300 <= missing.start <= 90_000_350
    assert missing.stop == 90_000_400
    assert caught.value.partial.seqnos == (
        range(SEQNOS.start, missing.start),
        range(missing.stop, SEQNOS.stop),
    )
    assert not children()


@pytest.fixture
def dask():
    """A cluster of two processes, and its client."""
    from distributed import Client as DaskClient
    from distributed import LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        DaskClient(cluster) as client,
    ):
        yield cluster, client


@pytest.mark.slow
def test_a_dask_worker_is_killed_in_the_middle(service, tmp_path, expected, dask):
    cluster, client = dask
    killed = killing(
        service,
        lambda path: "transactions" in path and service.requests > 12 and not killed,
        lambda: [nanny.pid for nanny in cluster.workers.values()],
    )
    fetch(service.url, tmp_path, client.get_executor())
    assert killed
    assert rows(tmp_path) == rows(expected)
    assert not any(tf.verify_store(tmp_path).values())


@pytest.mark.slow
def test_dask_gives_up_a_task_that_loses_its_workers(service, tmp_path, dask):
    cluster, client = dask
    cluster.scheduler.allowed_failures = 0
    lost = killing(
        service,
        lambda path: "ShardState?seqno=90000299" in path,
        lambda: [nanny.pid for nanny in cluster.workers.values() if nanny.pid],
    )
    with pytest.raises(tf.IncompleteError, match="3 workers were lost with it"):
        fetch(service.url, tmp_path, client.get_executor())
    assert lost


@pytest.mark.spark
def test_spark_fetches_each_range_by_itself(service, tmp_path, expected):
    from parity import spark_session

    url, store = service.url, str(tmp_path / "store")

    def fetch_part(part):
        with tf.Client(url) as client:
            tf.fetch_blocks(part, client=client, store=store, executor=1, progress=False)

    begin = SEQNOS.start // 100 * 100
    parts = [
        range(max(SEQNOS.start, start), min(SEQNOS.stop, start + 100))
        for start in range(begin, SEQNOS.stop, 100)
    ]
    spark_session().sparkContext.parallelize(parts, len(parts)).foreach(fetch_part)
    assert rows(Path(store)) == rows(expected)
    assert tf.read_blocks(store, SEQNOS).seqnos == (SEQNOS,)


# ── errors are those of one process ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("executor", [1, *slow(2)])
def test_a_service_without_the_last_blocks(service, tmp_path, executor):
    beyond = range(SEQNOS.start, FIRST + 340)
    with pytest.raises(tf.RequestError, match="not indexed yet") as caught:
        fetch(service.url, tmp_path, executor, beyond, deadline=2.0)
    assert caught.value.missing[-1].stop == beyond.stop
    assert f"missing: {caught.value.missing[0].start}" in caught.value.__notes__[-1]
    held = Store(tmp_path).held()
    assert caught.value.partial.seqnos == held
    assert sum(map(len, held)) + sum(map(len, caught.value.missing)) == len(beyond)


class Pending(Executor):
    """Does not tell that a task has begun, so that it can be cancelled later, as Dask's does."""

    def __init__(self) -> None:
        self.begun = 0
        self.threads = ThreadPoolExecutor(2)

    def submit(self, call, /, *arguments):
        self.begun += 1
        given: Future = Future()

        def done(future):
            if not given.cancelled():
                given.set_result(future.result())

        self.threads.submit(call, *arguments).add_done_callback(done)
        return given


def test_after_an_error_what_is_under_way_ends_and_no_more_begins(tmp_path):
    with FakeService(chain()) as service:
        usual = service.otherwise

        def reply(handler) -> None:
            if "seqno=90000189" in handler.path:  # before the first span
                answer(b'{"error":"bad seqno"}', 422)(handler)
                return
            if "seqno=90000199" in handler.path:  # before the second
                time.sleep(0.5)
            usual(handler)

        service.otherwise = reply
        executor = Pending()
        with executor.threads, pytest.raises(tf.RequestError, match="bad seqno") as caught:
            fetch(service.url, tmp_path, executor)
        after = service.requests
        time.sleep(0.5)
        assert service.requests == after
    assert executor.begun == 2
    assert Store(tmp_path).held() == caught.value.partial.seqnos == (range(90_000_200, 90_000_300),)


@pytest.mark.slow
def test_a_full_disk_is_told_by_its_worker(service, tmp_path):
    with (
        ProcessPoolExecutor(
            2,
            mp_context=get_context("forkserver"),
            initializer=resource.setrlimit,
            initargs=(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        ) as executor,
        pytest.raises(tf.StoreError, match=r"cannot write|too large") as caught,
    ):
        fetch(service.url, tmp_path, executor)
    assert caught.value.path.is_relative_to(tmp_path)
    assert caught.value.missing


def test_a_worker_that_does_not_see_the_store(service, tmp_path):
    with Client(service.url) as client:
        fetched = BlockTask(SEQNOS[:10], tmp_path / "elsewhere", "-217")(client)
    assert isinstance(fetched.error, tf.StoreError)
    assert "does not see the store" in str(fetched.error)
    assert not (tmp_path / "elsewhere").exists()


def test_what_workers_write_elsewhere_is_missed(service, tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "write_blocks", lambda *_, **__: None)
    with ThreadPoolExecutor(2) as executor, pytest.raises(tf.StoreError, match="share"):
        fetch(service.url, tmp_path, executor)


def test_tasks_that_contradict_each_other_are_not_kept(service, tmp_path):
    fetch(service.url, tmp_path, 1)
    store, border = Store(tmp_path), 90_000_300
    tips = [{Shard(-1, 2**63): 7}, {Shard(-1, 2**63): 8}]
    with Client(service.url) as client, pytest.warns(tf.TonframesWarning, match="contradicts"):
        [error] = missing._contradictions(client, store, {border: tips}, [SEQNOS])
    assert error.missing == (range(border - 100, border + 100),)
    assert store.held() == (range(SEQNOS.start, border - 100), range(border + 100, SEQNOS.stop))


@pytest.mark.parametrize(
    ("executor", "error"), [("four", TypeError), (True, TypeError), (0, ValueError)]
)
def test_what_cannot_be_an_executor(tmp_path, executor, error):
    with pytest.raises(error, match="executor is"):
        tf.fetch_blocks(5, store=tmp_path, executor=executor)
    assert not any(tmp_path.iterdir())


class Useless(Executor):
    """Does nothing that is asked of it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def submit(self, _call, /, *_arguments):
        if self.how == "refuses":
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future = Future()
        if self.how == "cancels":
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.how == "raises":
            future.set_exception(OSError("no such host"))
        else:
            future.set_result(None)
        return future


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("refuses", "failed with RuntimeError: 'cannot schedule new futures"),
        ("cancels", "is it shut down"),
        ("raises", "failed with OSError: 'no such host"),
        ("answers", "failed with TypeError: 'a task returned None"),
    ],
)
def test_an_executor_that_does_not_work_is_told(service, tmp_path, how, text):
    with pytest.raises(tf.IncompleteError, match=text) as caught:
        fetch(service.url, tmp_path / "store", Useless(how))
    assert caught.value.missing == (SEQNOS,)


# ── the rate limit ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["threads", *slow("processes")])
def test_workers_share_the_rate_limit(tmp_path, kind):
    rate = 12
    with apart(bodies(), Troubles(max_limit=100)) as (url, seen), pool(kind, 3) as executor:
        fetch(url, tmp_path, executor, requests_per_second=rate)
        times = sorted(seen())
    assert len(times) > 2 * rate
    most = max(bisect_left(times, time + 1) - i for i, time in enumerate(times))
    assert most <= rate


def test_a_share_passes_on_with_its_last_second():
    with Client("https://example.org", requests_per_second=4) as client:
        shares = spread._Shares(client, 2)
        share = shares.take()
        shares.give(share, Recent(sent=(0.5, 0.1), slowness=2.0))
        again = shares.take()
        recent = shares.settings(again).recent
        assert again is share
        assert [round(age, 1) for age in recent.sent] == [0.5, 0.1]
        other = shares.settings(shares.take()).recent
        assert other.sent == ()
        assert other.slowness == 2.0


def test_a_lost_worker_may_have_sent_all_it_could():
    with Client("https://example.org", requests_per_second=4) as client:
        shares = spread._Shares(client, 2)
        share = shares.take()
        shares.lose(share)
        assert len(share.recent.sent) == 2


def test_a_new_client_goes_on_with_the_limit(service):
    with Client(service.url, requests_per_second=2) as client:
        settings = ClientSettings(
            client.base_url, None, 2, 15, 60, 4, 1000, recent=Recent(sent=(0.2, 0.1))
        )
    start = time.monotonic()
    with settings.client() as client:
        client.masterchain_info(len)
    assert time.monotonic() - start > 0.7


# ── the key ──────────────────────────────────────────────────────────────────────────────────────

KEY = "0123456789abcdef-secret"


def test_settings_carry_the_key_and_do_not_show_it():
    with Client("https://example.org", api_key=KEY) as client:
        settings = client.settings
    assert KEY not in repr(settings)
    again = pickle.loads(pickle.dumps(settings))
    assert again.key.reveal() == KEY
    assert KEY not in repr(again)
    assert again.key.mask(f"it is {KEY}") == "it is ***"


@pytest.mark.parametrize("kind", ["threads", *slow("processes")])
def test_workers_send_the_key(service, tmp_path, kind):
    with pool(kind) as executor:
        fetch(service.url, tmp_path, executor, api_key=KEY)
    assert {seen.headers.get("X-API-Key") for seen in service.seen} == {KEY}
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


# ── when, and how it ends ────────────────────────────────────────────────────────────────────────


def test_processes_are_for_large_fetches_without_a_limit(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 4)
    with Client("http://127.0.0.1:1") as client:
        assert processes_pay(client)
        monkeypatch.setattr(workers, "cores", lambda: 1)
        assert not processes_pay(client)
    monkeypatch.setattr(workers, "cores", lambda: 4)
    with Client("https://example.org", requests_per_second=1000) as client:
        assert not processes_pay(client)


def test_a_worker_of_something_else_starts_none(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 4)
    monkeypatch.setattr("multiprocessing.parent_process", object)
    with Client("http://127.0.0.1:1") as client:
        assert not processes_pay(client)


def in_a_daemon(url: str, store: Path, pipe) -> None:
    fetch(url, store, 2, SEQNOS[:60])
    pipe.send(len(children()))


@pytest.mark.slow
def test_a_daemon_fetches_alone(service, tmp_path):
    ours, theirs = get_context("fork").Pipe()
    arguments = (service.url, tmp_path / "store", theirs)
    process = get_context("forkserver").Process(target=in_a_daemon, args=arguments, daemon=True)
    process.start()
    assert ours.poll(60)
    process.join()
    assert Store(tmp_path / "store").held() == (SEQNOS[:60],)


@pytest.mark.slow
def test_large_fetches_use_processes_by_default(service, tmp_path, monkeypatch, expected):
    monkeypatch.setattr(blocks, "LARGE", 100)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    fetch(service.url, tmp_path, None)
    assert rows(tmp_path) == rows(expected)
    assert len({seen.peer for seen in service.seen}) > 4


SCRIPT = """
import sys
import tonframes as tf
print("script", flush=True)
with tf.Client({url!r}) as client:
    tf.fetch_blocks(range({start}, {stop}), client=client, store={store!r}, executor=2)
print("done")
"""


def script(service, path: Path) -> subprocess.Popen:
    file = path / "script.py"
    text = SCRIPT.format(
        url=service.url, start=SEQNOS.start, stop=SEQNOS.stop, store=str(path / "store")
    )
    file.write_text(text)
    return subprocess.Popen(
        [sys.executable, file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def group(pid: int) -> list[int]:
    """Return the processes of a session that are alive."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def test_a_plain_script_runs_once(service, tmp_path, expected):
    with script(service, tmp_path) as process:
        out, err = process.communicate(timeout=100)
    assert (out, err) == ("script\ndone\n", "")
    assert rows(tmp_path / "store") == rows(expected)
    assert not group(process.pid)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_all(service, tmp_path):
    slowed(service, 14)
    with script(service, tmp_path) as process:
        until(lambda: service.requests > 16)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == "script\n"
    assert err.count("Traceback") == 1
    assert "KeyboardInterrupt" in err
    assert "masterchain blocks are kept" in err
    until(lambda: not group(process.pid), 10)


@pytest.mark.slow
def test_no_worker_outlives_a_killed_process(service, tmp_path):
    slowed(service, 14)
    with script(service, tmp_path) as process:
        until(lambda: service.requests > 16)
        process.kill()
        until(lambda: not group(process.pid), 10)


@pytest.mark.slow
def test_an_interrupted_fetch_goes_on(service, tmp_path, expected):
    slowed(service, 8)
    pressed = pressing(service, 10)  # of 18
    with pytest.raises(KeyboardInterrupt) as caught:
        fetch(service.url, tmp_path, 2)
    assert pressed
    assert "To continue" in caught.value.__notes__[0]
    assert not children()
    service.otherwise = service._reply
    fetch(service.url, tmp_path, 1)
    assert rows(tmp_path) == rows(expected)


@pytest.mark.parametrize("moment", ["shutdown", *slow("submit")])
def test_ctrl_c_while_processes_start_or_end_leaves_none(service, tmp_path, monkeypatch, moment):
    usual = getattr(loky.ProcessPoolExecutor, moment)
    pressed: list[str] = []

    def press(self, *arguments, **options):
        if moment == "submit":  # processes are there before anybody knows of them
            given = usual(self, *arguments, **options)
        if not pressed:
            pressed.append(moment)
            _thread.interrupt_main()
        return given if moment == "submit" else usual(self, *arguments, **options)

    monkeypatch.setattr(loky.ProcessPoolExecutor, moment, press)
    with pytest.raises(KeyboardInterrupt) as caught:
        fetch(service.url, tmp_path, 2)
    assert pressed
    assert "To continue" in caught.value.__notes__[0]
    assert not children()
    whole = moment == "shutdown"
    assert Store(tmp_path).held() == ((SEQNOS,) if whole else ())
