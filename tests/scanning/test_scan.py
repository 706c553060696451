"""scan on stores: which rows, which files, and what is refused."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from chain import synthetic_blocks
from chains import store_of_files
from parity import PARITY, collected, spark_session
from pyarrow import fs
from slow import slow

import tonframes as tf
from tonframes.scanning import asked, engines
from tonframes.seqnos import joined
from tonframes.store import Store, identity
from tonframes.store.files import HeldFile
from tonframes.wire import schema
from tonframes.wire.tables import with_columns

FIRST, START = 90_000_000, 1_780_000_000
NAMES = ("transactions", "messages", "blocks")

EVERY = ["pyarrow", "duckdb", *slow("polars", "dask")]
EVERY += [pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    # Engines take paths for patterns, partitions and escapes.
    return store_of_files(tmp_path_factory.mktemp("date=1 [a] {b,c} 'é' %41 #") / "store")


def rows(engine, frame):
    """Return the rows of a lazy frame, in the order of `read_blocks`."""
    if engine == "spark":
        spark_session()
    table = frame.to_table() if engine == "pyarrow" else frame
    found = collected(PARITY[engine], table)
    return in_order(found)


def in_order(table):
    keys = ["mc_block_seqno", "lt", "account", "tx_lt", "tx_hash", "direction", "position"]
    keys += ["workchain", "shard", "seqno"]
    here = [(name, "ascending") for name in keys if name in table.column_names]
    return table.sort_by(here).replace_schema_metadata(None)


def scanned(engine, *arguments, **options):
    if engine == "spark":
        spark_session()
    return rows(engine, tf.scan(*arguments, engine=engine, **options))


def same(found, expected):
    expected = in_order(expected)
    assert found.column_names == expected.column_names
    nullable = pa.schema([field.with_nullable(True).remove_metadata() for field in expected.schema])
    assert found.cast(nullable).equals(expected.cast(nullable))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", EVERY)
def test_a_table_has_the_rows_and_columns_of_read_blocks(engine, name, store):
    same(scanned(engine, store, name), tf.read_blocks(store).arrow(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(
    "seqnos", ["90000095:90000317", [FIRST + 10, FIRST + 540, FIRST + 541], FIRST]
)
def test_seqnos_are_chosen(engine, name, seqnos, store):
    found = scanned(engine, store, name, seqnos=seqnos)
    same(found, tf.read_blocks(store, seqnos).arrow(name))
    assert found.num_rows


@pytest.mark.parametrize("engine", EVERY)
def test_accounts_are_chosen_with_the_messages_of_their_transactions(engine, store):
    blocks = tf.read_blocks(store)
    accounts = blocks.transactions["account"].value_counts().index[[0, 7]].tolist()
    friendly = [tf.to_friendly(account) for account in accounts]
    transactions = blocks.transactions.query("account in @accounts")
    messages = blocks.messages[blocks.messages["tx_hash"].isin(transactions["hash"])]
    chosen = {"accounts": friendly, "seqnos": "90000000:90001000"}
    found = scanned(engine, store, "transactions", **chosen)
    assert set(found["hash"].to_pylist()) == set(
        transactions.query("mc_block_seqno < 90001000")["hash"]
    )
    found = scanned(engine, store, "messages", **chosen)
    expected = messages.query("mc_block_seqno < 90001000")
    assert sorted(found["msg_hash"].to_pylist()) == sorted(expected["msg_hash"])
    assert set(found["direction"].to_pylist()) == {"in", "out"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", EVERY)
def test_moments_are_chosen_by_the_time_of_the_block(engine, name, store):
    expected = tf.read_blocks(store).arrow(name)
    times = expected["block_time"].to_pylist()
    since, until = sorted(set(times))[20], sorted(set(times))[70]
    inside = pa.array([since <= time < until for time in times])
    same(scanned(engine, store, name, since=since, until=until), expected.filter(inside))
    same(
        scanned(engine, store, name, until=until),
        expected.filter(pa.array([t < until for t in times])),
    )


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("nothing", [{"seqnos": []}, {"accounts": []}, {"until": "2020-01"}])
def test_nothing_asked_for_has_all_columns(engine, nothing, store):
    found = scanned(engine, store, "transactions", **nothing)
    assert found.num_rows == 0
    assert found.column_names == tf.describe("transactions")["column"].tolist()


@pytest.mark.parametrize("engine", EVERY)
def test_snapshots_have_the_newest_row_of_each_address(engine):
    expected = tf.read_accounts(tf.sample())
    if engine == "spark":
        spark_session()
    for name in ("accounts", "address_book", "metadata"):
        found = tf.scan(tf.sample(), name, engine=engine)
        table = found.to_table() if engine == "pyarrow" else found
        table = collected(PARITY[engine], table).sort_by("address")
        assert table["address"].equals(expected.arrow(name).sort_by("address")["address"])
    some = expected.accounts["address"][:3].tolist()
    found = tf.scan(tf.sample(), "accounts", accounts=some, engine=engine)
    found = found.to_table() if engine == "pyarrow" else found
    assert sorted(collected(PARITY[engine], found)["address"].to_pylist()) == sorted(some)


def test_a_scan_is_taken_like_blocks_and_says_what_it_is(store):
    found = tf.scan(store, engine="polars", seqnos="90000000:90000100", since="2026-05-28")
    assert repr(found) == (
        f"<Scan of the store {store} with polars: 100 masterchain seqnos, 90000000:90000100; "
        "2026-05-28 00:00:00 to the last one>"
    )
    expected = tf.fee_summary(tf.read_blocks(store, "90000000:90000100"), by="operation")
    costs = tf.fee_summary(found, by="operation").collect()
    assert costs["cost"].to_list() == expected["cost"].tolist()
    assert isinstance(tf.fee_summary(tf.scan(store)), pa.Table)


def test_helpers_read_only_the_columns_that_they_need(store):
    read = []

    class Recording:
        schema = tf.scan(store, "transactions").schema

        def to_table(self, columns=None):
            read.append(columns)
            return tf.scan(store, "transactions").to_table(columns=columns)

    assert tf.fee_breakdown(Recording()).num_rows == 3000
    [columns] = read
    assert set(columns) < set(Recording.schema.names)
    with pytest.raises(ValueError, match="It looks like transactions"):
        tf.flows(Recording())
    assert len(read) == 1


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def spoil(store, name, keep=()):
    """Overwrite the files of a table with rubbish, except for some."""
    for file in (store / name).iterdir():
        if int(file.name[:11]) not in keep:
            file.write_bytes(b"rubbish")


@pytest.fixture
def copied(store, tmp_path):
    return shutil.copytree(store, tmp_path / "copy")


@pytest.mark.parametrize("engine", EVERY)
def test_files_without_the_seqnos_are_not_opened(engine, copied):
    for name in NAMES:
        spoil(copied, name, keep=[FIRST + 300])
    found = scanned(engine, copied, "messages", seqnos="90000310:90000400")
    assert set(found["mc_block_seqno"].to_pylist()) <= set(range(FIRST + 310, FIRST + 400))
    assert found.num_rows


@pytest.mark.slow
def test_ten_thousand_files_open_in_a_second(copied):
    for name in NAMES:
        for number in range(20, 10_000):
            start = FIRST + number * 100
            (copied / name / f"{start:011d}-{start + 100:011d}.parquet").write_bytes(b"rubbish")
    started = time.process_time()
    found = tf.scan(copied, "messages", seqnos="90000310:90000400")
    assert time.process_time() - started < 1
    assert found.count_rows()


def test_files_of_other_moments_are_not_opened(tmp_path, monkeypatch):
    # Twelve days in 60 files.
    path = days_apart(tmp_path / "store")
    opened = []
    monkeypatch.setattr(HeldFile, "times", counted(HeldFile.times, opened))
    monkeypatch.setattr(HeldFile, "footer", counted(HeldFile.footer, opened))
    day = {"since": "2026-06-03", "until": "2026-06-04"}
    found = tf.scan(path, "transactions", **day)
    assert len(found.files) < 20
    assert len(set(opened)) < 30
    expected = tf.scan(path, "transactions").to_table()
    inside = [time.isoformat()[:10] == "2026-06-03" for time in expected["block_time"].to_pylist()]
    assert found.to_table().equals(expected.filter(pa.array(inside)))
    assert sum(inside)


def test_files_without_rows_hide_no_later_rows(tmp_path):
    """The last rows of a moment are thousands of masterchain blocks later, with those of others."""
    blocks = tf.read_blocks(tf.sample(), range(FIRST, FIRST + 3))
    rows = blocks.arrow("transactions")
    place = pc.subtract(rows["mc_block_seqno"].combine_chunks(), FIRST)
    seqnos = pc.take(pa.array([FIRST, FIRST + 5000, FIRST + 5001]), place)
    seconds = pc.take(pa.array([START, START + 100, START + 10_000]), place)
    path = written(tmp_path / "store", blocks, seqnos, seconds, 5100)
    found = tf.scan(path, "transactions", until=datetime.fromtimestamp(START + 200, UTC))
    assert found.count_rows() == pc.sum(pc.less(place, 2)).as_py()


def days_apart(path):
    """Write a store with a file every five hours; half of the rows are late by some minutes."""
    hours = 5 * 3600
    blocks = tf.read_blocks(tf.sample(), range(FIRST, FIRST + 60))
    rows = blocks.arrow("transactions")
    after = pc.subtract(rows["mc_block_seqno"].combine_chunks(), FIRST)
    late = pc.multiply(pc.bit_wise_and(pa.array(range(len(after))), 1), 200)
    seconds = pc.subtract(pc.add(pc.multiply(after, hours), START), late)
    return written(path, blocks, pc.add(pc.multiply(after, 100), FIRST), seconds, 6000)


def written(path, blocks, seqnos, seconds, count):
    """Write a store with the transactions of some blocks at other masterchain seqnos and times."""
    moments = pc.multiply(seconds, 10**6).cast(pa.timestamp("us", "UTC"))
    rows = blocks.arrow("transactions")
    rows = with_columns(rows, mc_block_seqno=seqnos, now=seconds, block_time=moments)
    made = Store(path)
    made.claim("-217", "a test")
    tables = {"transactions": rows, "address_book": blocks.arrow("address_book")}
    made.write_blocks(tables, [range(FIRST, FIRST + count)], proof="chain")
    return path


def counted(method, calls):
    def call(self):
        calls.append(self.path)
        return method(self)

    return call


@pytest.mark.parametrize(("limit", "count"), [(1, 20), (1 << 30, 1)])
def test_partitions_of_dask_join_small_files_and_divide_large_ones(
    limit, count, copied, monkeypatch
):
    monkeypatch.setattr(engines, "_PARTITION", limit)
    paths = [str(path) for path in sorted((copied / "transactions").iterdir())]
    for path in paths[:2]:  # have several row groups
        pq.write_table(pq.read_table(path, partitioning=None), path, row_group_size=50)
    files = engines.Files(
        tuple(paths),
        tuple(Path(path).stat().st_size for path in paths),
        schema.TRANSACTIONS.schema,
        [],
    )
    frame = engines.frame_of("dask", files)
    assert frame.npartitions == count
    hashes = frame["hash"].compute().tolist()
    assert hashes == engines.frame_of("pyarrow", files).to_table(["hash"])["hash"].to_pylist()


@pytest.mark.parametrize("engine", ["pyarrow", "polars", "duckdb", *slow("dask")])
def test_files_of_another_file_system(engine, store):
    names = sorted(f"transactions/{file.name}" for file in (store / "transactions").iterdir())
    files = engines.Files(
        paths=tuple(names),
        sizes=tuple((store / name).stat().st_size for name in names),
        schema=schema.TRANSACTIONS.schema,
        chosen=[[("mc_block_seqno", ">=", FIRST + 1100)]],
        filesystem=fs.SubTreeFileSystem(str(store), fs.LocalFileSystem()),
    )
    expected = tf.read_blocks(store, range(FIRST + 1100, FIRST + 1200)).arrow("transactions")
    same(rows(engine, engines.frame_of(engine, files)), expected)


@pytest.mark.spark
def test_spark_reads_local_files_only(store):
    spark_session()
    other = fs.SubTreeFileSystem(str(store), fs.LocalFileSystem())
    files = engines.Files(("a.parquet",), (1,), schema.TRANSACTIONS.schema, [], other)
    with pytest.raises(ValueError, match="reads local files only"):
        engines.frame_of("spark", files)


def test_a_flipped_bit_in_a_page_is_noticed(copied):
    file = sorted((copied / "transactions").iterdir())[3]
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"CRC|checksum"):
        tf.scan(copied, "transactions").to_table()


def test_a_file_that_is_gone_is_named_and_a_scan_lists_files_anew(copied):
    frame, tables = tf.scan(copied, "transactions"), tf.scan(copied)
    count = frame.count_rows()
    file = min((copied / "transactions").iterdir())
    for name in NAMES:
        (copied / name / file.name).unlink()
    with pytest.raises(FileNotFoundError, match=file.name):
        frame.to_table()
    assert 0 < tables.transactions.count_rows() < count


@pytest.mark.parametrize("engine", EVERY)
def test_a_frame_that_was_made_before_a_compaction_is_complete(engine, copied):
    expected = {name: tf.read_blocks(copied).arrow(name) for name in NAMES}
    if engine == "spark":
        spark_session()
    before = {name: tf.scan(copied, name, engine=engine) for name in NAMES}
    assert tf.compact_store(copied) == [range(FIRST, FIRST + 1000)]
    for name in NAMES:
        same(rows(engine, before[name]), expected[name])
        after = tf.scan(copied, name, engine=engine)
        same(rows(engine, after), expected[name])
    # Those that were made before the compacted files took their places name them there.
    tf.compact_store(copied, grace="1h")
    same(rows(engine, after), expected[name])


def test_scans_while_files_are_compacted_are_complete(copied):
    expected = tf.read_blocks(copied).arrow("transactions").sort_by("hash")["hash"]
    done = threading.Event()

    def compact():
        tf.compact_store(copied, grace="1s")
        time.sleep(1.1)
        tf.compact_store(copied, grace="1s")
        done.set()

    thread = threading.Thread(target=compact)
    thread.start()
    scans = 0
    while not done.is_set() or not scans:
        found = tf.scan(copied, "transactions", engine="duckdb")
        assert found.order("hash").to_arrow_table()["hash"].cast("string").equals(expected)
        scans += 1
    thread.join()
    assert not (copied / "transactions" / f"{FIRST:011d}-{FIRST + 100:011d}.parquet").exists()


@pytest.mark.parametrize("engine", ["pyarrow", *slow("polars", "duckdb", "dask")])
def test_transactions_of_accounts_are_read_from_the_copies_by_account(engine, copied):
    tf.compact_store(copied, by_account=True)
    blocks = tf.read_blocks(copied)
    account = blocks.transactions["account"].mode()[0]
    found = tf.scan(copied, "transactions", accounts=account)
    assert sum("by_account" in file for file in found.files) == 1
    expected = blocks.transactions.query("account == @account")
    table = scanned(engine, copied, "transactions", accounts=account)
    assert table["lt"].to_pylist() == expected["lt"].tolist()


def test_ingested_rows_are_not_among_the_others(copied):
    before = tf.scan(copied, "transactions").count_rows()
    tf.ingest(tf.read_blocks(tf.sample(), FIRST).to_json(), store=copied)
    other = synthetic_blocks(2, first_seqno=FIRST + 5000)
    assert tf.ingest(other, store=copied)["transactions"]
    for name in NAMES:
        same(scanned("pyarrow", copied, name), tf.read_blocks(copied).arrow(name))
    assert tf.scan(copied, "transactions").count_rows() == before
    assert len(tf.read_blocks(copied, unproven=True).transactions) > before
    with pytest.raises(tf.MissingError):
        tf.scan(copied, seqnos=FIRST + 5000)


def test_a_store_of_ingested_rows_alone_is_refused(tmp_path):
    tf.ingest(tf.read_blocks(tf.sample(), FIRST).to_json(), store=tmp_path)
    with pytest.raises(tf.StoreError, match="only ingested rows, which are not proven"):
        tf.scan(tmp_path)


# ── histories ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def owner():
    return tf.read_transactions(tf.sample("histories")).accounts[2]


@pytest.mark.parametrize("engine", EVERY)
def test_histories_of_accounts(engine, owner):
    chosen = {"accounts": owner, "since": "2026-05-01", "until": "2026-06-01"}
    path = tf.sample("histories")
    if engine == "spark":
        spark_session()
    expected = tf.read_transactions(path, owner, since="2026-05-01", until="2026-06-01")
    found = tf.scan(path, engine=engine, **chosen).histories
    for name in ("transactions", "messages"):
        table = rows(engine, getattr(found, name))
        key = "hash" if name == "transactions" else "msg_hash"
        assert sorted(table[key].to_pylist()) == sorted(expected.arrow(name)[key].to_pylist())
        assert table.num_rows
    costs = collected(PARITY[engine], tf.fee_summary(found))
    assert costs["cost"].to_pylist() == tf.fee_summary(expected)["cost"].tolist()


def test_a_store_of_histories_alone_says_where_they_are():
    with pytest.warns(tf.TonframesWarning, match=r"holds no masterchain blocks.*`\.histories`"):
        assert not tf.scan(tf.sample("histories"), "transactions").count_rows()


def test_histories_that_are_not_held_are_an_error(owner):
    path = tf.sample("histories")
    with pytest.raises(tf.MissingError, match="does not hold all transactions"):
        _ = tf.scan(path, accounts=owner, since="2026-05-01", until="2027-01-01").histories
    with pytest.raises(ValueError, match="histories are chosen by accounts"):
        _ = tf.scan(path, seqnos=[]).histories


def test_histories_that_came_in_twice_are_refused(tmp_path):
    path = shutil.copytree(tf.sample("histories"), tmp_path / "copy")
    for folder in ("account_transactions", "account_messages", "histories"):
        first = min((path / folder).iterdir())
        shutil.copy(first, first.with_name(first.name.replace("Z-", "Z-f", 1)[:-9] + ".parquet"))
    with pytest.raises(tf.StoreError, match="may have the same transactions"):
        _ = tf.scan(path).histories.transactions


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_seqnos_that_are_not_held_are_an_error(store):
    with pytest.raises(tf.MissingError, match="does not hold the masterchain seqnos") as caught:
        tf.scan(store, "blocks", seqnos=range(FIRST + 1100, FIRST + 1300))
    assert joined(caught.value.missing) == (range(FIRST + 1200, FIRST + 1300),)
    with pytest.raises(tf.MissingError):
        tf.scan(store, seqnos=1)


WRONG = {
    "unknown engine": ({"engine": "pandas"}, ValueError, "scan knows no engine 'pandas'"),
    "near engine": ({"engine": "polar"}, ValueError, "Did you mean 'polars'"),
    "unknown table": ({"table": "message"}, ValueError, "Did you mean 'messages'"),
    "accounts of blocks": (
        {"table": "blocks", "accounts": ["Ef8zMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzM0vF"]},
        ValueError,
        "the table blocks has no column with an account",
    ),
    "no address": ({"accounts": "nobody"}, ValueError, "nobody"),
    "a number": ({"since": 1_780_000_000}, TypeError, "since is a moment such as 2026-05-01"),
    "a logical time": ({"until": "lt:7"}, TypeError, "until is a moment such as 2026-05-01"),
    "backwards": ({"since": "2026-06", "until": "2026-05"}, ValueError, "is not before until"),
    "time as seqnos": ({"seqnos": "2026-05-28"}, ValueError, "with since and until"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case, store):
    options, error, text = WRONG[case]
    with pytest.raises(error, match=re.escape(text)):
        tf.scan(store, **options)


def test_no_store_is_refused(tmp_path):
    with pytest.raises(tf.StoreError, match="there is no store at"):
        tf.scan(tmp_path)


def test_an_engine_that_is_not_installed_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"needs DuckDB: pip install 'tonframes\[engines\]'"):
        tf.scan(store, engine="duckdb")


def test_a_newer_store_is_refused(copied):
    newer = replace(identity.read_info(copied), schema=schema.VERSION + 1)
    (copied / "network.json").write_bytes(identity.encoded(newer))
    with pytest.raises(tf.StoreError, match="use a newer tonframes"):
        tf.scan(copied)


def test_a_file_of_another_network_is_refused(copied, tmp_path):
    blocks = tf.read_blocks(copied, range(FIRST, FIRST + 100))
    other = Store(tmp_path / "other")
    other.claim("mainnet", "a test")
    other.write_blocks(
        {name: blocks.arrow(name) for name in blocks.names}, blocks.seqnos, proof="chain"
    )
    for name in NAMES:
        [file] = (other.path / name).iterdir()
        shutil.copy(file, copied / name / file.name)
    with pytest.raises(tf.StoreError, match="is of the network 'mainnet' in a store of -217"):
        tf.scan(copied, "transactions")


def test_a_damaged_footer_is_refused(copied):
    spoil(copied, "messages", keep=[FIRST])
    with pytest.raises(tf.StoreError, match="is no Parquet file, or only a part of one"):
        tf.scan(copied, "messages")


def test_a_file_of_messages_that_is_gone_is_an_error(copied):
    min((copied / "messages").iterdir()).unlink()
    with pytest.raises(tf.StoreError, match="is gone"):
        tf.scan(copied, "messages")


def test_blocks_that_the_service_did_not_show_are_warned_of(tmp_path, store):
    blocks = tf.read_blocks(store, range(FIRST, FIRST + 100))
    tables = {name: blocks.arrow(name) for name in blocks.names if name != "blocks"}
    made = Store(tmp_path / "store")
    made.claim("-217", "a test")
    made.write_blocks(tables, blocks.seqnos, proof="links")
    with pytest.warns(tf.TonframesWarning, match="holds no rows of blocks for 90000000:90000100"):
        found = tf.scan(made.path, "blocks")
    assert found.count_rows() == 0


def test_a_filter_of_many_ranges_is_not_nested_deeply():
    rows = pl.LazyFrame({"mc_block_seqno": range(2_000)})
    chosen = asked.filter_of("blocks", asked.Asked.parse(range(1, 2_000, 2), None, None, None))
    condition = asked.expression(chosen)
    assert (
        nw.from_native(rows).filter(condition).to_native().collect().height == len(chosen) == 1000
    )
