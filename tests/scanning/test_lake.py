"""The public lake: its files come out as our frames, and to_lake writes its form."""

from __future__ import annotations

import base64
import os
import re
import shutil
import stat

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from chains import store_of_files
from killed import killed_at_each_rename
from parity import PARITY, collected, spark_session
from pyarrow import fs
from slow import slow

import tonframes as tf
from tonframes.export import to_lake
from tonframes.scanning import lake
from tonframes.scanning.form import LakeForm, LakeRows

EVERY = ["pyarrow", "duckdb", *slow("polars", "dask")]
EVERY += [pytest.param("spark", marks=pytest.mark.spark)]
NAMES = ("transactions", "messages", "blocks")
ACCOUNT = f"0:{'A' * 64}"
LONG = bytes(range(200))  # base64 of it is longer than a line of MIME

#: Messages as the lake has them, by the types of Athena's declaration.
MESSAGES = pa.table(
    {
        "tx_hash": ["t1", "t1", "t2"],
        "tx_lt": pa.array([2**62, 2**62, 7], pa.int64()),
        "tx_now": pa.array([1_780_012_799, 1_780_012_799, 1_780_012_800], pa.int32()),
        "msg_hash": ["m1", "m2", "m3"],
        "direction": ["in", "out", "in"],
        "trace_id": [None, None, "t3"],
        "source": [None, ACCOUNT, f"0:{'B' * 64}"],
        "destination": [ACCOUNT, f"0:{'B' * 64}", f"-1:{'C' * 64}"],
        "value": pa.array([None, 2**62 + 1, 0], pa.int64()),
        "fwd_fee": pa.array([None, 400_000, 1], pa.int64()),
        "created_at": pa.array([1_780_012_799, 1_780_012_799, 1_780_012_798], pa.int64()),
        "opcode": pa.array([-1, 0x0F8A7EA5, -(2**31)], pa.int32()),
        "bounce": [None, True, False],
        "body_boc": pa.array([LONG, b"", None], pa.binary()),
        "comment": [None, "hello", ""],
    }
)


def collect(engine, place, name, **options):
    if engine == "spark":
        spark_session()
    frame = tf.scan(place, name, engine=engine, **options)
    table = collected(PARITY[engine], frame.to_table() if engine == "pyarrow" else frame)
    keys = ["mc_block_seqno", "lt", "account", "tx_lt", "tx_hash", "direction", "msg_hash"]
    keys += ["workchain", "shard", "seqno"]
    here = [(key, "ascending") for key in keys if key in table.column_names]
    return table.sort_by(here)


def write(folder, name, rows, partition, file="20260601_000000_00007_abcde-1.snappy.parquet"):
    place = folder / name / partition
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, place / file, compression="snappy")
    return folder


@pytest.fixture
def messages(tmp_path):
    """Return a folder with files of two days, as Athena writes them: without a suffix."""
    write(tmp_path, "messages_with_data", MESSAGES[:2], "date=2026-05-28", "20260601_00007_abc")
    write(tmp_path, "messages_with_data", MESSAGES[2:], "date=2026-05-29")
    (tmp_path / "messages_with_data" / "date=2026-05-28" / "_SUCCESS").touch()
    (tmp_path / "messages_with_data" / "date=2026-05-28" / ".part.crc").write_bytes(b"rubbish")
    return tmp_path


@pytest.mark.parametrize("engine", EVERY)
def test_messages_of_the_lake_come_out_as_ours(engine, messages):
    found = collect(engine, messages, "messages")
    assert found.column_names == tf.describe("messages")["column"].tolist()
    assert found.select(
        ["tx_lt", "tx_now", "opcode", "created_at", "value", "body", "bounce", "comment"]
    ).to_pylist() == [
        {
            "tx_lt": 7,
            "tx_now": 1_780_012_800,
            "opcode": 2**31,
            "created_at": 1_780_012_798,
            "value": 0,
            "body": None,
            "bounce": False,
            "comment": "",
        },
        {
            "tx_lt": 2**62,
            "tx_now": 1_780_012_799,
            "opcode": 2**32 - 1,
            "created_at": None,  # the lake writes the transaction's: the message has none
            "value": None,
            "body": base64.b64encode(LONG).decode(),
            "bounce": None,
            "comment": None,
        },
        {
            "tx_lt": 2**62,
            "tx_now": 1_780_012_799,
            "opcode": 0x0F8A7EA5,
            "created_at": 1_780_012_799,
            "value": 2**62 + 1,
            "body": "",
            "bounce": True,
            "comment": "hello",
        },
    ]
    assert (
        found["block_time"].to_pylist()
        == pd.to_datetime(found["tx_now"].to_pandas(), unit="s", utc=True).to_list()
    )
    # Columns that the lake does not have, and one that the files do not have.
    for name in ("mc_block_seqno", "position", "has_init_state", "extra", "decoded", "ihr_fee"):
        assert found[name].null_count == 3
    ours = {
        field.name: field.type for field in tf.read_blocks(tf.sample()).arrow("messages").schema
    }
    assert {field.name: field.type for field in found.schema} == ours


def test_dtypes_are_ours_with_nulls_where_the_lake_knows_less(messages):
    found = tf.scan(messages, "messages", engine="dask").compute()
    described = tf.describe("messages").set_index("column")["dtype"]
    changed = found.dtypes.astype(str) != described
    # Dask has its own text.
    assert {name for name in found if changed[name] and found[name].dtype != "string"} == {
        "mc_block_seqno",
        "has_message_content",
        "has_init_state",
    }
    assert found["mc_block_seqno"].dtype == "Int64"
    table = tf.scan(messages, "messages").to_table()
    assert table.to_pandas()["tx_lt"].dtype == "int64"


@pytest.mark.parametrize("engine", EVERY)
def test_days_that_are_not_asked_for_are_not_opened(engine, messages):
    for file in (messages / "messages_with_data" / "date=2026-05-29").iterdir():
        file.write_bytes(b"rubbish")
    chosen = {"since": "2026-05-28T23:59:59", "until": "2026-05-29"}
    assert collect(engine, messages, "messages", **chosen).num_rows == 2
    assert collect(engine, messages, "messages", since="2026-01", until="2026-02").num_rows == 0


@pytest.mark.parametrize("engine", EVERY)
def test_accounts_are_chosen(engine, messages):
    assert collect(engine, messages, "messages", accounts=ACCOUNT)["msg_hash"].to_pylist() == [
        "m1",
        "m2",
    ]
    with pytest.raises(ValueError, match="messages of the lake have no mc_block_seqno"):
        tf.scan(messages, "messages", seqnos="1:5")


@pytest.mark.parametrize("partition", ["date=2026-05-28", "block_date=20260528"])
@pytest.mark.parametrize("folder", ["messages", "messages_with_data"])
def test_partitions_in_both_forms(tmp_path, folder, partition):
    write(tmp_path, folder, MESSAGES[:2], partition)
    assert tf.scan(tmp_path, "messages").count_rows() == 2
    with pytest.raises(ValueError, match="has no table 'transactions': there are messages"):
        tf.scan(tmp_path, "transactions")
    with pytest.raises(ValueError, match="has no table 'accounts'"):
        tf.scan(tmp_path, "accounts")


def test_a_query_reads_only_the_columns_that_it_needs(messages):
    for file in (messages / "messages_with_data").glob("*/2*"):
        pq.write_table(MESSAGES.append_column("body_boc_", MESSAGES["body_boc"]), file)
    rows = tf.scan(messages, "messages")
    assert isinstance(rows, LakeRows)
    assert rows.to_table(["opcode"]).column_names == ["opcode"]
    [*batches] = rows.to_batches(["msg_hash", "body"])
    assert pa.Table.from_batches(batches).equals(
        rows.to_table(["msg_hash", "body"]).replace_schema_metadata(batches[0].schema.metadata)
    )


# ── to_lake ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_of_files(tmp_path_factory.mktemp("lake") / "store")


@pytest.fixture(scope="module")
def written(store):
    to_lake(store, store.parent / "written")
    return store.parent / "written"


def known(name):
    """List the columns that both know."""
    here = set(LakeForm(name).stored.names) | {"body", "init_state_body", "block_time"}
    return [column for column in tf.describe(name)["column"] if column in here]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", EVERY)
def test_what_is_written_is_read_back(engine, name, written, store):
    found, expected = collect(engine, written, name), collect("pyarrow", store, name)
    assert found.select(known(name)).to_pylist() == expected.select(known(name)).to_pylist()
    for column in set(found.column_names) - set(known(name)):
        assert found[column].null_count == len(found)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_have_the_form_of_the_lake(name, written):
    [file] = (written / lake.FOLDERS[name][0]).glob("date=2026-05-28/*.parquet")
    found = pq.read_schema(file)
    assert all(field.nullable for field in found)
    kinds = {field.name: str(field.type) for field in found}
    expected = {
        "transactions": {
            "lt": "int64",
            "now": "int32",
            "compute_vm_steps": "int64",
            "hash": "string",
        },
        "messages": {"opcode": "int32", "body_boc": "binary", "created_at": "int64"},
        "blocks": {"shard": "int64", "seqno": "int32", "gen_utime": "int64", "key_block": "bool"},
    }[name]
    assert kinds | expected == kinds
    assert len(kinds) == {"transactions": 71, "messages": 23, "blocks": 30}[name]


def test_an_external_message_has_the_time_of_its_transaction(written, store):
    rows = pq.read_table(written / "messages_with_data", partitioning=None)
    external = rows.filter(pc.and_(pc.is_null(rows["source"]), pc.equal(rows["direction"], "in")))
    assert external["created_at"].to_pylist() == external["tx_now"].to_pylist()
    ours = tf.scan(store, "messages").to_table()
    external = ours.filter(pc.is_null(ours["source"]))
    assert external["created_at"].null_count == len(external) > 0


SOURCES = {
    "a store": lambda store: store,
    "text": str,
    "blocks": tf.read_blocks,
    "a scan": tf.scan,
    "pandas": lambda store: {name: tf.read_blocks(store).frame(name) for name in NAMES},
    "polars": lambda store: {
        name: pl.from_arrow(tf.read_blocks(store).arrow(name)) for name in NAMES
    },
    "pyarrow": lambda store: {name: tf.read_blocks(store).arrow(name) for name in NAMES},
    "a lake": lambda store: store.parent / "written",
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_files(source, store, written, tmp_path):
    to_lake(SOURCES[source](store), tmp_path / "lake")
    for name in NAMES:
        found, expected = (
            collect("pyarrow", tmp_path / "lake", name),
            collect("pyarrow", written, name),
        )
        assert found.equals(expected)


def test_histories_are_written(tmp_path):
    histories = tf.scan(tf.sample("histories")).histories
    to_lake(histories, tmp_path / "lake")
    days = {path.name for path in (tmp_path / "lake" / "transactions").iterdir()}
    assert {"date=2026-03-23", "date=2026-06-20"} <= days
    some = {"since": "2026-05-01", "until": "2026-05-02"}
    found = tf.scan(tmp_path / "lake", "transactions", **some)
    assert (
        found.count_rows()
        == tf.scan(tf.sample("histories"), **some).histories.transactions.count_rows()
    )


def small(**columns):
    """Return one transaction or block of the sample, with other values."""
    rows = tf.read_blocks(tf.sample(), 90_000_000)
    name = (
        "blocks" if "gen_utime" in columns else "messages" if "body" in columns else "transactions"
    )
    return {name: rows.frame(name)[:1].assign(**columns)}


REFUSED = {
    "wide": (
        small(mc_block_seqno=2**31),
        "the column mc_block_seqno of transactions, which is int32",
    ),
    "no base64": (small(body="no!"), "the column body of messages, which is binary"),
    "no time": (small(gen_utime=pd.NA), "cannot write blocks without a time"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_the_lake_cannot_have_are_refused_and_nothing_is_left(case, tmp_path):
    frames, text = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(text)):
        to_lake(frames, tmp_path / "lake")
    assert not any(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, store):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "mine").touch()
    with pytest.raises(ValueError, match="there is something at"):
        to_lake(store, tmp_path / "lake")
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["mine"]
    (tmp_path / "lake" / "mine").unlink()
    to_lake(store, tmp_path / "lake")
    assert tf.scan(tmp_path / "lake", "blocks").count_rows()


@pytest.mark.skipif(os.name != "posix", reason="needs links and modes")
def test_an_empty_folder_keeps_its_mode_and_a_link_to_one_its_target(tmp_path, store):
    (tmp_path / "private").mkdir(0o700)
    (tmp_path / "lake").symlink_to("private")
    _write(store, tmp_path / "lake")
    assert (tmp_path / "lake").is_symlink()
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700
    assert tf.scan(tmp_path / "lake", "blocks").count_rows()
    _write(store, tmp_path / "new" / "lake")
    umask = os.umask(0o22)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new" / "lake").stat().st_mode) == 0o777 & ~umask
    with pytest.raises(ValueError, match="there is something at"):
        to_lake(store, "/dev/null")


def _write(place, path):
    to_lake(tf.read_blocks(place, range(90_000_000, 90_000_003)), path)


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False])
def test_a_process_that_is_killed_at_any_rename_leaves_a_whole_lake_or_none(there, store, tmp_path):
    path, seen = tmp_path / "lake", []
    expected = tf.read_blocks(store, range(90_000_000, 90_000_003)).arrow("messages")
    for _ in killed_at_each_rename(_write, store, path):
        try:
            found = tf.scan(path, "messages").to_table(["msg_hash"])
        except tf.StoreError as error:
            assert "there is no store" in str(error)  # noqa: PT017
            seen.append(False)
            assert not path.exists() or not any(path.iterdir())
            if there:
                path.mkdir(exist_ok=True)
        else:
            assert found.column("msg_hash").equals(expected["msg_hash"])
            seen.append(True)
            shutil.rmtree(path)
    assert len(seen) > 2
    assert seen == [*[False] * (len(seen) - 1), True]


def test_lazy_frames_are_refused(tmp_path, store):
    with pytest.raises(TypeError, match="frames of pandas, polars or pyarrow, not LazyFrame"):
        to_lake({"blocks": tf.scan(store, "blocks", engine="polars")}, tmp_path / "lake")
    with pytest.raises(TypeError, match="takes a Scan with engine='pyarrow'"):
        to_lake(tf.scan(store, engine="polars"), tmp_path / "lake")


# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["pyarrow", "polars", "duckdb", *slow("dask")])
def test_a_url_is_read_through_its_file_system(engine, written):
    found = collect(engine, written.as_uri(), "messages", since="2026-05-28")
    assert found.equals(collect(engine, written, "messages"))


@pytest.mark.spark
def test_spark_reads_no_url(written):
    spark_session()
    with pytest.raises(ValueError, match="reads local files only"):
        tf.scan(written.as_uri(), "messages", engine="spark")


def test_the_public_bucket_is_read_without_credentials():
    filesystem, root = lake._opened("s3://aws-public-blockchain/v1.1/ton/")
    assert isinstance(filesystem, fs.S3FileSystem)
    assert filesystem.region == "us-east-2"
    assert root == "aws-public-blockchain/v1.1/ton/"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("s3://key:secret@bucket/lake", "a name or a password before @"),
        ("ftp://host/lake", "scan cannot open 'ftp://host/lake'"),
    ],
)
def test_wrong_urls_are_refused(url, text):
    with pytest.raises(ValueError, match=text) as caught:
        tf.scan(url)
    assert "secret" not in str(caught.value)


def test_a_url_without_a_lake_is_refused(tmp_path):
    with pytest.raises(tf.StoreError, match="there is neither a store nor a lake at file://"):
        tf.scan(tmp_path.as_uri())
