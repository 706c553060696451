"""A store in a bucket: what it holds, two writers, damage, and services that refuse."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path

import pyarrow.compute as pc
import pytest
from bucket_server import moto, serving
from chain import synthetic_blocks
from pandas.testing import assert_frame_equal
from slow import slow, slow_after
from stores import tables_from

import tonframes as tf
from tonframes.bucket import BucketPath
from tonframes.cli import main
from tonframes.store import BucketStore, Store
from tonframes.store.bucket_reader import BucketReader
from tonframes.store.identity import StoreInfo, encoded
from tonframes.wire import schema

FIRST = 90_000_000
SPAN = range(FIRST, FIRST + 100)
REST = range(FIRST + 100, FIRST + 120)
EVERYTHING = range(FIRST, FIRST + 120)
NAME = f"{FIRST:011d}-{FIRST + 100:011d}.parquet"
TABLES = ("transactions", "messages", "blocks")
KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI"
OF_SPAN = [f"{name}/{NAME}" for name in ("blocks", "messages", "transactions")]


@pytest.fixture(autouse=True)
def computer(tmp_path, monkeypatch):
    """Return a function that sets the folder of the user's cache, as on another computer."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "TONFRAMES_STORE"):
        monkeypatch.delenv(name, raising=False)

    def use(name):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return tmp_path / name

    use("here")
    return use


@pytest.fixture
def bucket():
    with serving() as bucket:
        yield bucket


@pytest.fixture(params=["ours", pytest.param("moto", marks=pytest.mark.s3)])
def service(request):
    """Return a service of S3: the one of these tests, and another one."""
    with serving() if request.param == "ours" else moto() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """Return a local store with few transactions in a span and a part of the next one."""
    store = Store(tmp_path_factory.mktemp("local") / "store")
    bodies = synthetic_blocks(120, first_seqno=FIRST, transactions_per_block=4)
    store.claim("-217", "synthetic")
    store.write_blocks(tables_from(bodies), [EVERYTHING], proof="chain")
    return store.path


@pytest.fixture(scope="module")
def sample(held):
    return tf.read_blocks(held)


@pytest.fixture(scope="module")
def online(held):
    with tf.serve(held) as url, tf.Client(url) as client:
        yield client


@pytest.fixture(scope="module")
def fetched(online):
    """Return the span as a fetch without a store returns it."""
    return tf.fetch_blocks(SPAN, client=online, store=None)


def part_of(blocks, seqnos):
    """Return some of these masterchain blocks."""
    return tf.read_blocks(blocks.source, seqnos)


def tables_of(blocks, seqnos):
    """Return the tables of some of these masterchain blocks, as a fetch passes them to a store."""
    some = part_of(blocks, seqnos)
    return {name: some.arrow(name) for name in (*TABLES, "address_book")}


def written(bucket, sample, seqnos=EVERYTHING, pieces=1, network="-217"):
    """Write masterchain blocks of the sample into a bucket, in some pieces."""
    store = BucketStore(bucket.url())
    store.prepare()
    store.claim(network, "http://service")
    size = len(seqnos) // pieces
    for start in range(seqnos.start, seqnos.stop, size):
        part = range(start, min(start + size, seqnos.stop))
        store.write_blocks(tables_of(sample, part), [part], proof="chain")
    return store


def same(blocks, others):
    for name in TABLES:
        assert blocks.arrow(name).equals(others.arrow(name)), name


def in_pandas(result):
    """Return what an engine has computed."""
    for collect in ("collect", "compute", "df"):
        if hasattr(result, collect):
            result = getattr(result, collect)()
    return result.to_pandas() if hasattr(result, "to_pandas") else result


# ── what is where ────────────────────────────────────────────────────────────────────────────────


def test_what_is_fetched_into_a_bucket_is_what_is_read_from_it(service, online, computer):
    fetched = tf.fetch_blocks(EVERYTHING, client=online, store=service.url())
    same(fetched, tf.fetch_blocks(EVERYTHING, client=online, store=None))
    read = tf.read_blocks(service.url())
    same(read, fetched)
    assert_frame_equal(read.address_book, fetched.address_book)
    assert tf.verify_store(service.url()) == {}
    # The span is in the bucket; what is not whole is on this computer only.
    computer("there")
    assert tf.read_blocks(service.url()).seqnos == (SPAN,)
    with pytest.raises(tf.MissingError, match="90000100:90000120"):
        tf.read_blocks(service.url(), EVERYTHING)
    before = online.statistics.requests
    same(tf.fetch_blocks(SPAN, client=online, store=service.url()), tf.read_blocks(service.url()))
    assert online.statistics.requests - before <= 2, "the network only"
    same(tf.fetch_blocks(EVERYTHING, client=online, store=service.url()), fetched)


@pytest.fixture(scope="module")
def with_states():
    """Return a client of a service that has states of accounts."""
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:
        yield client


def test_states_of_accounts_are_objects(service, with_states, computer):
    addresses = list(tf.read_accounts(tf.sample()).accounts.address[:5])
    fetched = tf.fetch_accounts(addresses, client=with_states, store=service.url())
    assert fetched.accounts.found.all()
    computer("there")
    read = tf.read_accounts(service.url(), addresses)
    assert_frame_equal(read.accounts, fetched.accounts)
    held = tf.fetch_accounts(addresses, client="offline", store=service.url())
    assert_frame_equal(held.accounts, fetched.accounts)
    again = tf.fetch_accounts(addresses, client=with_states, store=service.url(), max_age="1h")
    assert_frame_equal(again.accounts, fetched.accounts)


def test_transactions_are_put_last_and_then_leave_the_local_part(bucket, sample):
    store = written(bucket, sample)
    puts = [key.removeprefix("ton/") for key, _ in bucket.puts]
    assert puts[:2] == ["columns.json", "network.json"]
    assert puts[2].startswith("address_book/")
    assert sorted(puts[3:5]) == OF_SPAN[:2]
    assert puts[5:] == OF_SPAN[2:]
    assert [path.name for path in store.local.path.rglob("0*.parquet")] == [
        f"{REST.start:011d}-{REST.stop:011d}.parquet"
    ] * 3
    assert store.held() == (EVERYTHING,)


def test_an_object_says_nothing_of_service_and_time(bucket, sample):
    written(bucket, sample)
    for name in OF_SPAN:
        assert b"http://service" not in bucket.objects[f"ton/{name}"]
        footer = BucketReader(bucket.url()).held_file(*name.split("/")).footer()
        assert (footer.service, footer.proof) == (None, "chain")
    assert set(json.loads(bucket.objects["ton/network.json"])) == {
        "network", "service", "schema", "seal",
    }  # fmt: skip
    assert json.loads(bucket.objects["ton/network.json"])["service"] is None


def test_two_writers_at_once_put_the_same_bytes(service, sample, computer):
    stores = []
    for name in ("one", "two"):
        computer(name)
        stores.append(BucketStore(service.url()))
    together = threading.Barrier(2)
    errors = []

    def write(store, pieces):
        try:
            together.wait()
            store.prepare()
            store.claim("-217", f"http://service-{pieces}")
            for start in range(FIRST, FIRST + 100, 100 // pieces):
                part = range(start, start + 100 // pieces)
                store.write_blocks(tables_of(sample, part), [part], proof="chain")
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            errors.append(error)

    threads = [threading.Thread(target=write, args=pair) for pair in zip(stores, (5, 2))]  # noqa: B905
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert stores[0].local.held() == stores[1].local.held() == ()
    first = {name: service.read(f"ton/{name}") for name in OF_SPAN}
    if hasattr(service, "puts"):
        for key, whole in service.puts:
            name = key.removeprefix("ton/")
            assert name not in first or whole == first[name], name
    # The second writer puts what the first one has put already.
    for name in OF_SPAN:
        service.delete(f"ton/{name}")
    computer("three")
    written(service, sample, SPAN, pieces=4)
    assert {name: service.read(f"ton/{name}") for name in OF_SPAN} == first


def test_what_another_computer_has_put_counts_and_leaves_the_local_part(bucket, sample, computer):
    tables = tables_of(sample, SPAN[40:])
    fees = tables["transactions"].schema.get_field_index("total_fees")
    others = pc.add(tables["transactions"]["total_fees"], 1)
    field = tables["transactions"].schema.field(fees)
    tables["transactions"] = tables["transactions"].set_column(fees, field, others)
    mine = BucketStore(bucket.url())
    mine.claim("-217", "http://another-service")
    mine.write_blocks(tables, [SPAN[40:]], proof="chain")
    assert mine.local.held() == (SPAN[40:],)
    computer("there")
    written(bucket, sample, SPAN)
    computer("here")
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))
    again = BucketStore(bucket.url())
    again.prepare()
    assert again.local.held() == ()
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))


def test_what_was_proven_of_a_span_does_not_depend_on_its_pieces(bucket, sample, computer):
    puts = []
    for name, cuts in {"one": [50], "two": [10, 60]}.items():
        computer(name)
        store = BucketStore(bucket.url())
        store.claim("-217", "http://service")
        proof = "chain, but for the first block"
        for start, stop in pairwise([0, *cuts, 100]):
            store.write_blocks(tables_of(sample, SPAN[start:stop]), [SPAN[start:stop]], proof=proof)
            proof = "chain" if name == "two" else proof
        puts.append(bucket.objects[f"ton/transactions/{NAME}"])
        bucket.delete(f"ton/transactions/{NAME}")
    assert puts[0] == puts[1]


def test_what_leaves_the_local_part_never_seems_missing(bucket, sample):
    store = written(bucket, sample, SPAN[:50])
    reader = BucketReader(bucket.url())
    assert reader.held() == (SPAN[:50],)
    store.write_blocks(tables_of(sample, SPAN[50:]), [SPAN[50:]], proof="chain")
    assert reader.held() == (SPAN,)


def test_a_listing_of_many_pages(bucket, sample):
    bucket.page = 2
    written(bucket, sample, SPAN, pieces=10)
    for i in range(5):
        bucket.put(f"ton/address_book/2026112{i}T094500.123456Z-6b1f0a2c.parquet", b"")
    assert len(BucketReader(bucket.url()).held_snapshots("address_book")) == 6


def test_few_columns_take_few_bytes_and_requests(bucket):
    written(bucket, tf.read_blocks(tf.sample()), SPAN)
    blocks = tf.read_blocks(bucket.url(), SPAN, columns=["account", "total_fees"])
    bucket.sent, before = 0, len(bucket.requests)
    assert len(blocks.arrow("transactions")) == 2500
    whole = len(bucket.objects[f"ton/transactions/{NAME}"])
    assert bucket.sent < whole / 2, "most of it is the footer"
    assert len(bucket.requests) - before <= 6


def test_a_view_of_a_bucket_goes_to_other_processes(bucket, sample):
    written(bucket, sample)
    blocks = pickle.loads(pickle.dumps(tf.read_blocks(bucket.url())))
    same(blocks, sample)


def test_a_bucket_is_served(bucket, sample):
    written(bucket, sample)
    with tf.serve(bucket.url()) as url, tf.Client(url) as client:
        served = tf.fetch_blocks(EVERYTHING[95:105], client=client, store=None)
    assert_frame_equal(served.messages, part_of(sample, EVERYTHING[95:105]).messages)


@pytest.mark.parametrize("engine", ["duckdb", *slow("pyarrow", "polars", "dask")])
def test_a_bucket_is_scanned_with_what_is_not_in_it_yet(service, sample, engine):
    written(service, sample)
    scanned = tf.fee_summary(tf.scan(service.url(), engine=engine))
    expected = tf.fee_summary(tf.scan(sample.source, engine=engine))
    assert_frame_equal(in_pandas(scanned), in_pandas(expected))
    rows = tf.scan(service.url(), "messages", engine="pyarrow", seqnos=EVERYTHING[90:110])
    assert rows.count_rows() == len(part_of(sample, EVERYTHING[90:110]).arrow("messages"))


def test_a_scan_opens_only_the_objects_that_are_asked_for(bucket, sample):
    written(bucket, sample)
    before = len(bucket.requests)
    assert tf.scan(bucket.url(), "transactions", seqnos=REST).count_rows() > 0
    assert not [key for method, key in bucket.requests[before:] if method == "GET" and "/0" in key]


def test_a_copy_of_the_bucket_is_a_store(bucket, sample, tmp_path):
    written(bucket, sample)
    for name in bucket.names():
        file = tmp_path / "copy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bucket.objects[f"ton/{name}"])
    same(tf.read_blocks(tmp_path / "copy"), part_of(sample, SPAN))
    assert tf.verify_store(tmp_path / "copy") == {}


def test_the_command_line_takes_a_url(bucket, online, capsys, monkeypatch):
    arguments = ["fetch", "blocks", f"{FIRST + 98}:{FIRST + 102}", "--url", online.base_url]
    assert main([*arguments, "--store", bucket.url()]) == 0
    assert main(["verify", bucket.url()]) == 0
    assert "all files are as they were written" in capsys.readouterr().out
    monkeypatch.setenv("TONFRAMES_STORE", bucket.url())
    assert main(arguments) == 0
    assert "from     s3://bucket/ton" in capsys.readouterr().out


# ── interruptions ────────────────────────────────────────────────────────────────────────────────

WRITER = """
import sys
from tonframes import read_blocks
from tonframes.store import BucketStore
store = BucketStore(sys.argv[1])
store.prepare()
store.claim("-217", "http://service")
for part in (range(90_000_000, 90_000_060), range(90_000_060, 90_000_100)):
    blocks = read_blocks(sys.argv[2], part)
    names = ("transactions", "messages", "blocks", "address_book")
    store.write_blocks({n: blocks.arrow(n) for n in names}, [part], proof="chain")
"""


@pytest.mark.parametrize(
    "case",
    slow_after(
        1,
        [
            ("after", "messages"),
            ("faults", "transactions"),
            *product(("faults", "after"), ("address_book", "blocks", "messages", "transactions")),
        ],
    ),
)
def test_a_writer_that_is_killed_leaves_the_span_where_it_was(bucket, sample, case):
    """It is killed before the service has the object, or before it is told so."""
    when, name = case

    def kill(method, key):
        if method == "PUT" and key.startswith(f"ton/{name}/"):
            process.kill()
            process.wait()

    getattr(bucket, when).append(kill)
    process = subprocess.Popen([sys.executable, "-c", WRITER, bucket.url(), sample.source])
    assert process.wait(60) == -signal.SIGKILL
    getattr(bucket, when).clear()
    # On this computer all is held, in the bucket all of the span or nothing.
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))
    BucketStore(bucket.url()).prepare()
    assert BucketStore(bucket.url()).local.held() == ()
    assert set(OF_SPAN) <= set(bucket.names())
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))
    assert tf.verify_store(bucket.url()) == {}


def test_ctrl_c_puts_an_object_whole_or_not_at_all(bucket, sample):
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)

    def press(_, key):
        if "messages" in key:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.2)

    bucket.after.append(press)
    try:
        with pytest.raises(KeyboardInterrupt):
            written(bucket, sample, SPAN)
    finally:
        signal.signal(signal.SIGUSR1, before)
    bucket.after.clear()
    assert OF_SPAN[-1] not in bucket.names()
    BucketStore(bucket.url()).prepare()
    for _, whole in bucket.puts:
        assert whole
    assert tf.verify_store(bucket.url()) == {}
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "case",
    slow_after(
        1,
        [
            ("half", "transactions"),
            ("empty", "messages"),
            *product(("half", "empty", "another"), TABLES),
        ],
    ),
)
def test_an_object_that_is_cut_or_another_one_is_put_anew(bucket, sample, online, fetched, case):
    wrong, name = case
    written(bucket, sample, SPAN)
    key = f"ton/{name}/{NAME}"
    whole = bucket.objects[key]
    bucket.put(key, {"half": whole[: len(whole) // 2], "empty": b"", "another": b"PAR1" * 9}[wrong])
    with pytest.raises(tf.StoreError, match=f"s3://bucket/ton/{name}/{NAME}.* is no Parquet file"):
        tf.read_blocks(bucket.url()).arrow(name)
    assert [path.name for path in tf.verify_store(bucket.url())] == [NAME]
    with pytest.warns(tf.TonframesWarning, match="moved to s3://bucket/ton/damaged"):
        again = tf.fetch_blocks(SPAN, client=online, store=bucket.url())
    same(again, fetched)
    assert tf.verify_store(bucket.url()) == {}
    assert len([key for key in bucket.objects if key.startswith("ton/damaged/")]) == 3


def test_wrong_bytes_are_refused_and_the_object_is_named(bucket, sample, online, fetched):
    written(bucket, sample, SPAN)
    key = f"ton/messages/{NAME}"
    whole = bytearray(bucket.objects[key])
    whole[5000] ^= 1
    bucket.put(key, bytes(whole))
    blocks = tf.read_blocks(bucket.url())
    with pytest.raises(tf.StoreError, match=f"messages/{NAME}.*delete the object.* fetch"):
        blocks.arrow("messages")
    assert [str(path) for path in tf.verify_store(bucket.url())] == [
        str(BucketPath.from_url(bucket.url()) / "messages" / NAME)
    ]
    bucket.delete(key)
    with pytest.warns(tf.TonframesWarning, match="is gone: moved"):
        again = tf.fetch_blocks(SPAN, client=online, store=bucket.url())
    same(again, fetched)


def test_an_answer_that_is_cut_is_no_damage(bucket, sample):
    written(bucket, sample, SPAN)
    bucket.cut.add(f"ton/transactions/{NAME}")
    before = dict(bucket.objects)
    with pytest.raises(tf.StoreError, match="cannot read s3://bucket/ton/transactions"):
        tf.read_blocks(bucket.url()).arrow("transactions")
    assert bucket.objects == before
    bucket.cut.clear()
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))


def test_messages_without_transactions_are_not_held(bucket, sample):
    written(bucket, sample, SPAN)
    bucket.delete(f"ton/transactions/{NAME}")
    assert tf.read_blocks(bucket.url()).seqnos == ()
    written(bucket, sample, SPAN)
    same(tf.read_blocks(bucket.url()), part_of(sample, SPAN))


# ── networks and versions ────────────────────────────────────────────────────────────────────────


def test_another_network_is_refused_and_nothing_changes(bucket, sample, computer):
    written(bucket, sample)
    before = dict(bucket.objects)
    for name in ("here", "there"):
        computer(name)
        store = BucketStore(bucket.url())
        with pytest.raises(tf.StoreError, match=r"is of the network -217, and .* is of mainnet"):
            store.claim("mainnet", "https://toncenter.com")
    assert bucket.objects == before


def test_a_network_that_came_meanwhile_is_noticed_before_a_span_is_put(bucket, sample):
    store = written(bucket, sample, SPAN[:60])
    bucket.put("ton/network.json", encoded(StoreInfo("mainnet", None, schema.VERSION)))
    with pytest.raises(tf.StoreError, match="is of the network mainnet"):
        store.write_blocks(tables_of(sample, SPAN[60:]), [SPAN[60:]], proof="chain")
    assert not set(OF_SPAN) & set(bucket.names())


def test_a_newer_version_is_refused_and_nothing_changes(bucket, sample, online):
    written(bucket, sample)
    newer = schema.VERSION + 1
    bucket.put("ton/network.json", encoded(StoreInfo("-217", None, newer)))
    before = dict(bucket.objects)
    for call in (
        lambda: tf.read_blocks(bucket.url()),
        lambda: tf.verify_store(bucket.url()),
        lambda: tf.fetch_blocks(SPAN, client=online, store=bucket.url()),
    ):
        with pytest.raises(tf.StoreError, match=f"version {newer} .*use a newer tonframes"):
            call()
    assert bucket.objects == before


def test_network_json_that_is_damaged_is_refused(bucket, sample):
    written(bucket, sample)
    bucket.put("ton/network.json", bucket.objects["ton/network.json"].replace(b"-217", b"-239"))
    with pytest.raises(tf.StoreError, match=r"network.json.* delete it"):
        tf.read_blocks(bucket.url())
    bucket.delete("ton/network.json")
    BucketStore(bucket.url()).prepare()
    assert "network.json" in bucket.names()
    same(tf.read_blocks(bucket.url()), sample)


# ── services that refuse ─────────────────────────────────────────────────────────────────────────


def denied(*_):
    return 403, "AccessDenied"


def read_only(method, _):
    return (403, "AccessDenied") if method in ("PUT", "DELETE") else None


def ill(*_):
    return 500, "InternalError"


@pytest.mark.parametrize("fault", [denied, pytest.param(ill, marks=pytest.mark.slow)])
def test_a_bucket_that_refuses_is_one_error(bucket, sample, online, fault):
    written(bucket, sample)
    before = dict(bucket.objects)
    bucket.faults.append(fault)
    calls = {
        "read": lambda: tf.read_blocks(bucket.url()),
        "accounts": lambda: tf.read_accounts(bucket.url()),
        "verify": lambda: tf.verify_store(bucket.url()),
        "fetch": lambda: tf.fetch_blocks(SPAN, client=online, store=bucket.url()),
        "states": lambda: tf.fetch_accounts(["0:" + "0" * 64], client=online, store=bucket.url()),
    }
    for call in calls.values():
        with pytest.raises(tf.StoreError, match=r"^cannot [a-z]+( at)? s3://bucket") as caught:
            call()
        told = f"{caught.value!r} {getattr(caught.value, '__notes__', '')}"
        assert KEY not in told
        assert SECRET not in told
        if fault is denied:
            assert "check the credentials" in told
    assert bucket.objects == before


def test_a_bucket_that_cannot_be_written_to_is_told_before_anything_is_asked(
    bucket, sample, online
):
    written(bucket, sample)
    bucket.faults.append(read_only)
    same(tf.read_blocks(bucket.url()), sample)
    before = online.statistics.requests
    with pytest.raises(tf.StoreError, match=r"cannot put .* s3://bucket.*check the credentials"):
        tf.fetch_blocks(SPAN, client=online, store=bucket.url())
    assert online.statistics.requests == before


def test_what_cannot_be_put_stays_on_this_computer(bucket, online, fetched):
    bucket.faults.append(lambda _, key: (403, "AccessDenied") if "transactions/" in key else None)
    with pytest.raises(tf.StoreError, match=r"cannot .*check the credentials") as caught:
        tf.fetch_blocks(SPAN, client=online, store=bucket.url())
    assert KEY not in str(caught.value)
    bucket.faults.clear()
    before = online.statistics.requests
    again = tf.fetch_blocks(SPAN, client=online, store=bucket.url())
    assert online.statistics.requests - before <= 2
    assert set(OF_SPAN) <= set(bucket.names())
    same(again, fetched)


def test_a_bucket_that_is_not_there(bucket, online):
    url = bucket.url(bucket="another")
    for call in (
        lambda: tf.read_blocks(url),
        lambda: tf.verify_store(url),
        lambda: tf.fetch_blocks(SPAN, client=online, store=url),
    ):
        with pytest.raises(tf.StoreError, match="there is no bucket s3://another"):
            call()


def test_a_bucket_without_a_store(bucket):
    with pytest.raises(tf.StoreError, match=r"there is no store at s3://bucket/ton.*fetch"):
        tf.read_blocks(bucket.url())
    assert not bucket.objects


@contextmanager
def silent():
    """Listen, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_service_that_cannot_be_reached(online):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"s3://bucket/ton?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    before = online.statistics.requests
    with pytest.raises(
        tf.StoreError, match=r"NETWORK_CONNECTION.*connect to server.*check the net"
    ):
        tf.fetch_blocks(SPAN, client=online, store=url)
    assert online.statistics.requests == before


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("scheme", "seconds"), [("s3", 90), ("gs", 200)])
def test_a_service_that_never_answers_does_not_hang(scheme, seconds):
    with silent() as port:
        url = f"{scheme}://bucket/ton?endpoint_override=127.0.0.1:{port}&scheme=http&anonymous=true"
        began = time.monotonic()
        with pytest.raises(tf.StoreError, match=f"cannot .*{scheme}://bucket"):
            tf.read_blocks(url)
        assert time.monotonic() - began < seconds


# ── names of stores ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "error", "text"),
    [
        ("s3://KEY:HIDDEN@bucket/ton", ValueError, "a name or a password before @"),
        (
            "s3://bucket/ton?endpoint_override=KEY:HIDDEN@host",
            ValueError,
            "a name or a password before @",
        ),
        ("s3://bucket/ton?access_key=KEY&secret_key=HIDDEN", ValueError, "no option 'access_key'"),
        ("s3://bucket/ton?regoin=HIDDEN", ValueError, "Did you mean 'region'"),
        ("s3://bucket/ton?scheme=ftp", ValueError, "https or http, not 'ftp'"),
        ("s3://bucket/ton?anonymous=maybe", ValueError, "true or false, not 'maybe'"),
        ("s3:///ton", ValueError, "expected s3://BUCKET/PATH"),
        ("s3://bucket/../ton", ValueError, "expected s3://BUCKET/PATH"),
        ("ftp://bucket/ton", ValueError, "begins with s3:// or gs://"),
        ("file:///ton", ValueError, "named by its path"),
        (Path("s3://bucket/ton"), TypeError, "pass it as text"),
    ],
)
def test_urls_that_name_no_store(url, error, text):
    for call in (
        lambda: tf.read_blocks(url),
        lambda: tf.fetch_blocks(SPAN, client="offline", store=url),
    ):
        with pytest.raises(error, match=text) as caught:
            call()
        assert "HIDDEN" not in str(caught.value)


def test_what_a_bucket_cannot_hold_is_refused(bucket):
    url, account = bucket.url(), "0:" + "0" * 64
    for call in (
        lambda: tf.fetch_transactions(account, client="offline", store=url),
        lambda: tf.plan_transactions(account, client="offline", store=url),
        lambda: tf.read_transactions(url),
        lambda: tf.ingest([], store=url),
        lambda: tf.compact_store(url),
        lambda: Store(url),
    ):
        with pytest.raises(ValueError, match="a folder is needed here, not a URL"):
            call()
    assert not bucket.objects


def test_a_url_says_which_file_system():
    path = BucketPath.from_url("gs://bucket//ton/?anonymous=true")
    assert str(path / "a.b") == "gs://bucket/ton/a.b?anonymous=true"
    assert ((path / "a.b").stem, (path / "a.b").name, path.parent.name) == ("a", "a.b", "bucket")
    assert BucketPath.from_url(str(path)) == path
    assert type(path.filesystem).__name__ == "GcsFileSystem"
