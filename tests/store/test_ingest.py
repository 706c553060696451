"""JSON that somebody saved becomes rows of a store, marked unproven."""

import importlib
import json
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pandas.testing import assert_frame_equal
from peaks import Repeated, peak_of
from slow import slow
from stores import flip, tables_of

import tonframes as tf
from tonframes.analysis import undo_gas_exchange
from tonframes.cli import main
from tonframes.errors import TonframesWarning
from tonframes.store import Store
from tonframes.store.ingested import Ingested

#: The module; the package has the function of the same name.
ingesting = importlib.import_module("tonframes.store.ingest")

FIRST = 90_000_000
SOME = range(FIRST, FIRST + 4)


@pytest.fixture(scope="module")
def sample():
    return tf.read_blocks(tf.sample(), SOME)


def same(one, other, tables=("transactions", "messages", "blocks")):
    for name in tables:
        assert one.arrow(name).equals(other.arrow(name)), name


def rows(store, name):
    return ds.dataset(Ingested(store).path / name).count_rows()


def test_what_was_ingested_is_read_as_it_was_saved(tmp_path, sample):
    added = tf.ingest(sample.to_json(), store=tmp_path)
    assert added["transactions"] == len(sample.transactions)
    read = tf.read_blocks(tmp_path, unproven=True)
    same(read, sample)
    assert read.unproven == read.seqnos == (SOME,)
    assert set(read.address_book["address"]) == set(sample.address_book["address"])
    assert "unproven  masterchain blocks 90000000:90000004: ingested" in repr(read)


@pytest.mark.parametrize("dialect", ["service", *slow("specification")])
def test_files_lines_bytes_dicts_and_records_are_the_same(tmp_path, sample, dialect):
    document = json.loads(sample.to_json(dialect=dialect))
    records = document["transactions"]
    whole, lines, listed = (tmp_path / name for name in ("whole.json", "lines.jsonl", "list.json"))
    whole.write_text("\n" + json.dumps(document).replace("}, {", "},\n{"), "utf-8-sig")
    lines.write_text("\n\n".join(map(json.dumps, records)))
    listed.write_text(json.dumps(records))
    given = [whole, str(lines), listed.read_bytes(), document, listed.read_text(), records]
    with lines.open("rb") as opened:
        for i, one in enumerate([*given, opened, [whole]]):
            tf.ingest(one, store=tmp_path / str(i))
            read = tf.read_blocks(tmp_path / str(i), unproven=True)
            same(read, sample, ("transactions", "messages"))


def test_overlapping_answers_in_both_dialects_are_held_once(tmp_path, sample):
    service, specification = sample.to_json(), sample.to_json(dialect="specification")
    tf.ingest([service, specification], store=tmp_path)
    assert tf.ingest([specification], store=tmp_path) == {}
    assert tf.ingest(service, store=tmp_path) == {}
    same(tf.read_blocks(tmp_path, unproven=True), sample)
    for name in ("transactions", "messages", "blocks"):
        assert rows(tmp_path, name) == len(sample.arrow(name))


def test_account_states_are_ingested_and_the_last_one_counts(tmp_path):
    states = tf.read_accounts(tf.sample())
    document = json.loads(states.to_json())
    older = json.loads(states.to_json())["accounts"][0]
    older |= {"last_transaction_lt": "1", "balance": "5"}
    tf.ingest([document, {"accounts": [older]}], store=tmp_path)
    assert tf.ingest(json.dumps(older), store=tmp_path) == {}
    read = tf.read_accounts(tmp_path, unproven=True).accounts.set_index("address")
    expected = states.accounts.set_index("address").loc[read.index]
    assert_frame_equal(read[["balance", "status"]], expected[["balance", "status"]])
    assert read.fetched_at.isna().all()
    address = older["address"]
    assert tf.read_accounts(tmp_path, [address], unproven=True).accounts.shape[0] == 1
    assert tf.read_accounts(tmp_path).accounts.empty
    with pytest.raises(tf.MissingError, match="does not hold"):
        tf.read_accounts(tmp_path, [address])
    with pytest.raises(ValueError, match="as_of"):
        tf.read_accounts(tmp_path, unproven=True, as_of="2026-01-01")


def test_ingested_rows_are_never_taken_for_fetched(tmp_path, sample):
    part = json.loads(sample.to_json())
    del part["transactions"][::2]
    tf.ingest(part, store=tmp_path)
    assert not Store(tmp_path).held()
    assert tf.read_blocks(tmp_path).transactions.empty
    assert "ingested transactions are not proven" in repr(tf.read_blocks(tmp_path))
    with pytest.raises(tf.MissingError):
        tf.read_blocks(tmp_path, SOME)
    half = range(FIRST, FIRST + 2)
    with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
        fetched = tf.fetch_blocks(half, client=client, store=tmp_path)
    theirs = tf.read_blocks(tf.sample(), half)
    same(fetched, theirs, ("messages", "blocks"))
    assert_frame_equal(undo_gas_exchange(fetched), undo_gas_exchange(theirs))
    transactions = ds.dataset(tmp_path / "transactions").to_table(["hash"])["hash"].to_pylist()
    assert len(transactions) == len(set(transactions)) == len(fetched.transactions)
    both = tf.read_blocks(tmp_path, unproven=True)
    assert both.unproven == (range(FIRST + 2, FIRST + 4),)
    same(tf.read_blocks(tmp_path, half, unproven=True), fetched)
    kept = {record["hash"] for record in part["transactions"]} | set(fetched.transactions["hash"])
    expected = undo_gas_exchange(sample)
    expected = expected[expected["hash"].isin(kept)].reset_index(drop=True)
    assert_frame_equal(undo_gas_exchange(both), expected)
    assert both.messages["tx_hash"].isin(kept).all()
    assert list(tf.read_blocks(tmp_path, columns=["lt"], unproven=True).transactions) == ["lt"]


def test_a_masterchain_block_that_was_not_ingested_is_missing(tmp_path, sample):
    tf.ingest(sample.to_json(), store=tmp_path)
    with pytest.raises(tf.MissingError, match="90000004") as caught:
        tf.read_blocks(tmp_path, range(FIRST + 3, FIRST + 5), unproven=True)
    assert caught.value.missing == (range(FIRST + 4, FIRST + 5),)


def test_another_content_for_the_same_transaction_is_refused(tmp_path, sample):
    tf.ingest(sample.to_json(), store=tmp_path)
    forged = json.loads(sample.to_json())["transactions"][0]
    forged["total_fees"] = "1"
    with pytest.raises(tf.DecodeError, match="total_fees"):
        tf.ingest([forged], store=tmp_path)


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (b'{"ok": true}', "saved.json: $"),
        (b'[{"transactions": []}, 5]', r"saved.json: $[1]"),
        (b"not JSON", "saved.json: $"),
        (b"", "saved.json: $"),
        (b'{"transactions": []}\n{"transactions"', "saved.json, line 2: $"),
        (
            b'{"transactions": []}\n{"transactions": [{}]}',
            "saved.json, line 2: $.transactions[0].account",
        ),
        (b'{"hash": 5, "account": "0:0", "lt": "1"}', "saved.json: $.hash"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_file_and_line(tmp_path, content, path):
    file = tmp_path / "saved.json"
    file.write_bytes(content)
    with pytest.raises(tf.DecodeError) as caught:
        tf.ingest(file, store=tmp_path / "store")
    assert caught.value.path == f"{tmp_path}/{path}"


def test_files_that_are_not_there_and_other_things_are_refused(tmp_path):
    with pytest.raises(tf.StoreError, match="No such file"):
        tf.ingest(tmp_path / "nothing.json", store=tmp_path)
    with pytest.raises(tf.StoreError, match="Is a directory"):
        tf.ingest(tmp_path, store=tmp_path)
    with pytest.raises(TypeError, match="JSON, a file or a list"):
        tf.ingest(5, store=tmp_path)


# ── sources without an end ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text", [b"\0", b"{}", b"[", b"{}\n", b"\n", b"y\n", b'{"transactions": []}']
)
def test_a_stream_without_end_ends_in_one_clear_error(tmp_path, text, monkeypatch):
    monkeypatch.setattr(ingesting, "LONGEST", 2**20)
    monkeypatch.setattr(ingesting, "MOST", 2**21)
    with pytest.raises(tf.DecodeError, match=r"^repeated.*: \$: expected") as caught:
        tf.ingest(Repeated(text), store=tmp_path)
    assert len(str(caught.value)) < 250
    if not text.endswith(b"}\n"):
        assert re.search("at most [0-9,]+ bytes", str(caught.value))


def test_lines_without_end_are_committed_until_the_bound(tmp_path, sample, monkeypatch):
    monkeypatch.setattr(ingesting, "MOST", 2**20)
    monkeypatch.setattr(ingesting, "BATCH", 1)
    line = sample.to_json() + b"\n"
    with pytest.raises(tf.DecodeError, match=r"at most 1,048,576 bytes \(split it into several"):
        tf.ingest(Repeated(line), store=tmp_path)
    same(tf.read_blocks(tmp_path, unproven=True), sample)


HUGE = """
import sys, tempfile
sys.path.insert(0, {folder!r})
from peaks import Repeated
tf.ingest(tf.read_blocks(tf.sample(), [90_000_000]).to_json(), store=tempfile.mkdtemp())
"""
READ = """
try:
    tf.ingest(Repeated({text!r}, 300 * 10**6), store=tempfile.mkdtemp())
except tf.DecodeError:
    pass
else:
    raise AssertionError
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is that of Linux")
@pytest.mark.parametrize("text", [b"{}", *slow(b"{}\n", b"{},")])
def test_300_megabytes_take_bounded_memory(text):
    setup = HUGE.format(folder=str(Path(__file__).parents[1]))
    assert peak_of(READ.format(text=text), setup) < 300 * 2**20


def test_a_text_of_too_many_values_is_refused_before_it_takes_memory(tmp_path):
    text = b"[" + b"{}," * 10**6 + b"{}]"
    with pytest.raises(tf.DecodeError, match=r"\$\[0\]: expected transactions"):
        tf.ingest(text, store=tmp_path)
    with pytest.raises(tf.DecodeError, match=r"at most 3,000,000 values .* found 6,000,005"):
        tf.ingest(b"[" + text + b"," + text + b"," + text + b"]", store=tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="needs devices")
def test_a_device_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", tmp_path / "link"):
        with pytest.raises(tf.StoreError, match=f"cannot read {path}: it is a device"):
            tf.ingest(path, store=tmp_path / "store")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
def test_a_pipe_is_read(tmp_path, sample):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_bytes, sample.to_json())
        added = tf.ingest(pipe, store=tmp_path / "store")
    assert written.result()
    assert added["transactions"] == len(sample.transactions)


def test_the_command_reads_stdin_up_to_the_bound(tmp_path, sample, capsys, monkeypatch):
    store = ["--store", str(tmp_path / "store")]
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(sample.to_json())))
    assert main(["ingest", "-", *store]) == 0
    assert f"{len(sample.transactions)} transactions" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Repeated(b"\0")))
    assert main(["ingest", "-", *store]) == 1
    told = capsys.readouterr().err
    assert "expected JSON of at most 67,108,864 bytes" in told
    assert told.count("\n") == 1


def test_blocks_of_another_network_are_refused(tmp_path, sample):
    Store(tmp_path).claim("mainnet", "a test")
    with pytest.raises(tf.StoreError, match="of the network mainnet"):
        tf.ingest(sample.to_json(), store=tmp_path)


def test_a_killed_ingest_leaves_no_messages_without_transactions(tmp_path, sample, monkeypatch):
    replace = Path.replace

    def dies(self, target):
        if self.parent.name == "transactions":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        tf.ingest(sample.to_json(), store=tmp_path)
    monkeypatch.undo()
    assert tf.read_blocks(tmp_path, unproven=True).messages.empty
    tf.ingest(sample.to_json(), store=tmp_path)
    same(tf.read_blocks(tmp_path, unproven=True), sample)
    assert rows(tmp_path, "messages") == len(sample.messages)


def test_damaged_ingested_rows_are_named_and_set_aside(tmp_path, sample):
    tf.ingest(sample.to_json(), store=tmp_path)
    [file] = (Ingested(tmp_path).path / "transactions").glob("*.parquet")
    flip(file)
    with pytest.warns(TonframesWarning, match="ingest them again"):
        added = tf.ingest(sample.to_json(), store=tmp_path)
    assert added["transactions"] == len(sample.transactions)
    same(tf.read_blocks(tmp_path, unproven=True), sample)
    assert rows(tmp_path, "messages") == len(sample.messages)


def test_recorded_answers_of_real_services_are_ingested(tmp_path, real):
    folders = [real / name for name in ("masterchainBlockShards", "accountStates")]
    files = [file for folder in folders for file in sorted(folder.glob("*.json"))]
    random.Random(5).shuffle(files)
    with pytest.warns(TonframesWarning):  # fields of older services
        added = tf.ingest([*files, real / "other" / "blocks.json"], store=tmp_path)
    with pytest.warns(TonframesWarning):
        again = tf.ingest(files, store=tmp_path)
    assert again == {}
    read = tf.read_blocks(tmp_path, unproven=True)
    assert len(read.transactions) == added["transactions"] == read.transactions["hash"].nunique()
    assert len(tf.read_accounts(tmp_path, unproven=True).accounts) <= added["accounts"]
    with pytest.raises(tf.DecodeError, match=r"404_blocks_derived.json: \$: expected transactions"):
        tf.ingest(real / "errors" / "404_blocks_derived.json", store=tmp_path)


def test_the_command_ingests_files(tmp_path, sample, capsys):
    file = tmp_path / "saved.json"
    file.write_bytes(sample.to_json())
    assert main(["ingest", str(file), "--store", str(tmp_path / "store")]) == 0
    assert f"{len(sample.transactions)} transactions" in capsys.readouterr().out
    assert main(["ingest", str(file), "--store", str(tmp_path / "store")]) == 0
    assert "nothing new" in capsys.readouterr().out


# ── folders of Blocks.write ───────────────────────────────────────────────────────────────────────


def test_a_written_folder_is_read_as_it_was(tmp_path, sample):
    sample.write(tmp_path)
    read = tf.read_blocks(tmp_path)
    same(read, sample, sample.names)
    assert (read.seqnos, read.unproven) == (sample.seqnos, ())
    assert "by the chain" not in repr(read)
    assert f"from     {tmp_path}" in repr(read)


def test_a_written_folder_keeps_empty_masterchain_blocks_and_the_proof(tmp_path, sample):
    tables = tables_of(sample)
    blocks = tf.Blocks(tables, proof="chain", seqnos=(range(1, 9), SOME), extra='{"/a":1}')
    blocks.write(tmp_path)
    read = tf.read_blocks(tmp_path)
    assert (read.seqnos, read.extra) == (blocks.seqnos, blocks.extra)
    assert "(chain)" in repr(read)
    assert read.to_json() == blocks.to_json()


def test_seqnos_and_columns_of_a_written_folder_are_chosen(tmp_path, sample):
    sample.write(tmp_path)
    chosen = tf.read_blocks(tmp_path, [FIRST + 1], columns=["lt"])
    expected = tf.read_blocks(tf.sample(), [FIRST + 1], columns=["lt"])
    assert_frame_equal(chosen.transactions, expected.transactions)
    with pytest.raises(tf.MissingError, match="does not have the masterchain seqnos 5"):
        tf.read_blocks(tmp_path, [5])


def test_a_folder_of_other_columns_is_refused(tmp_path):
    pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / "transactions.parquet")
    with pytest.raises(tf.StoreError, match="has no seal of tonframes"):
        tf.read_blocks(tmp_path)
    (tmp_path / "transactions.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        tf.StoreError, match=r"transactions\.parquet is no Parquet file, or only a part"
    ):
        tf.read_blocks(tmp_path)
