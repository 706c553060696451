"""Stores merged with `cp -r`: no row is summed or served twice; differences are refused."""

from __future__ import annotations

import shutil
import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import requests
from slow import slow

import tonframes as tf
from tonframes.cli import main
from tonframes.store import Store, overlaps

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_000
WHOLE = range(FIRST, FIRST + 10)
NAMES = ("transactions", "messages", "blocks")


def made(path: Path, *runs: range, change: bool = False) -> Path:
    """Write a store that holds these masterchain seqnos; one with a wrong fee if asked."""
    blocks = tf.read_blocks(tf.sample(), WHOLE)
    tables = {name: blocks.arrow(name) for name in blocks.names}
    if change:
        rows = tables["transactions"]
        place = rows.schema.get_field_index("total_fees")
        fees = pa.compute.add(rows["total_fees"], 1)
        tables["transactions"] = rows.set_column(place, rows.schema.field(place), fees)
    store = Store(path)
    store.claim("-217", "a test")
    for run in runs:
        store.write_blocks(tables, [run], proof="chain")
    return path


def merged(*stores: Path) -> Path:
    for other in stores[1:]:
        shutil.copytree(other, stores[0], dirs_exist_ok=True)
    return stores[0]


OVERLAPS = {
    "one holds the other": ([WHOLE], [WHOLE[2:5]]),
    "one holds parts": ([WHOLE[:4], WHOLE[4:]], [WHOLE]),
    "they share some": ([WHOLE[:6]], [WHOLE[4:]]),
    "three in a row": ([WHOLE[:4], WHOLE[7:]], [WHOLE[2:8]]),
}


@pytest.fixture(
    params=["one holds the other", "three in a row", *slow("one holds parts", "they share some")]
)
def doubled(request, tmp_path):
    mine, theirs = OVERLAPS[request.param]
    return merged(made(tmp_path / "mine", *mine), made(tmp_path / "theirs", *theirs))


def is_right(path: Path) -> bool:
    blocks, expected = tf.read_blocks(path), tf.read_blocks(tf.sample(), WHOLE)
    assert blocks.seqnos == (WHOLE,)
    assert f"{len(expected.transactions):,} transactions" in repr(blocks)
    return all(blocks.arrow(name).equals(expected.arrow(name)) for name in NAMES)


def test_equal_rows_are_read_once(doubled):
    assert ds.dataset(doubled / "transactions").count_rows() > 250
    assert is_right(doubled)
    store = Store(doubled)
    assert store.count("transactions", [WHOLE]) == 250
    for start in WHOLE:
        one = tf.read_blocks(doubled, [start])
        assert one.arrow("messages").equals(tf.read_blocks(tf.sample(), [start]).arrow("messages"))
    assert len(tf.read_blocks(doubled, verify=True).transactions) == 250


def test_equal_rows_are_served_once(doubled):
    with tf.serve(doubled, dialect="service") as url:
        for seqno in WHOLE:
            address = f"{url}/api/v3/transactionsByMasterchainBlock?seqno={seqno}&limit=1000"
            hashes = [
                row["hash"] for row in requests.get(address, timeout=30).json()["transactions"]
            ]
            assert len(hashes) == len(set(hashes)) == 25
        everything = f"{url}/api/v3/transactions?limit=1000"
        assert len(requests.get(everything, timeout=30).json()["transactions"]) == 250


def test_the_next_writer_sets_doubled_files_aside(doubled):
    with pytest.warns(tf.TonframesWarning, match="overlaps other files, which have equal rows"):
        Store(doubled).prepare()
    for name in NAMES:
        assert ds.dataset(doubled / name).count_rows() == len(
            tf.read_blocks(tf.sample(), WHOLE).arrow(name)
        )
    assert is_right(doubled)
    assert list((doubled / "damaged").iterdir())
    Store(doubled).prepare()
    assert tf.verify_store(doubled) == {}


@pytest.mark.parametrize("attempt", ["read", "held", "verify", "serve", "command", "prepare"])
def test_different_rows_are_refused_in_one_sentence(tmp_path, attempt, capsys):
    mine = made(tmp_path / "mine", WHOLE[:6])
    store = merged(mine, made(tmp_path / "theirs", WHOLE[4:], change=True))
    before = sorted(file.name for file in store.rglob("*.parquet"))
    if attempt == "command":
        assert main(["verify", str(store)]) == 1
        assert "have different transactions of the masterchain seqnos" in capsys.readouterr().err
    else:
        call = {
            "read": lambda: tf.read_blocks(store),
            "held": lambda: Store(store).gaps([WHOLE]),
            "verify": lambda: tf.verify_store(store),
            "serve": lambda: tf.serve(store, dialect="service").__enter__(),
            "prepare": Store(store).prepare,
        }[attempt]
        with pytest.raises(tf.StoreError, match=r"seqnos 90000004:90000006: move one of them out"):
            call()
    assert sorted(file.name for file in store.rglob("*.parquet")) == before


def test_a_damaged_file_that_overlaps_is_never_read_as_equal(tmp_path):
    store = merged(made(tmp_path / "mine", WHOLE), made(tmp_path / "theirs", WHOLE[2:5]))
    file = store / "messages" / "00090000002-00090000005.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(tf.StoreError, match="only a part of one"):
        tf.read_blocks(store)


def test_histories_of_two_stores_are_read_once(tmp_path):
    blocks = tf.read_blocks(tf.sample(), WHOLE)
    tables = {name: blocks.arrow(name) for name in blocks.names}
    rows = tables["transactions"]
    parts = {"mine": (0, 60), "theirs": (40, 60), "both": (0, 100)}
    for name, (start, count) in parts.items():
        store = Store(tmp_path / name)
        store.claim("-217", "a test")
        store.write_histories(tables | {"transactions": rows.slice(start, count)}, {})
    store = merged(tmp_path / "mine", tmp_path / "theirs")
    assert len(list((store / "account_transactions").iterdir())) == 2
    again, expected = tf.read_transactions(store), tf.read_transactions(tmp_path / "both")
    for name in ("transactions", "messages"):
        assert again.arrow(name).equals(expected.arrow(name))
    assert len(again.transactions) == 100


def test_ingested_rows_of_two_stores_are_read_once(tmp_path):
    saved = tf.read_blocks(tf.sample(), WHOLE[:2]).to_json()
    for store in (tmp_path / "mine", tmp_path / "theirs"):
        tf.ingest(saved, store=store)
    store = merged(tmp_path / "mine", tmp_path / "theirs")
    blocks = tf.read_blocks(store, unproven=True)
    assert len(blocks.transactions) == 50
    assert len(blocks.messages) == len(tf.read_blocks(tf.sample(), WHOLE[:2]).messages)


@pytest.mark.parametrize("other", ["a", None])
def test_rows_of_one_key_that_differ_are_refused(tmp_path, other):
    rows = pa.table({"lt": [1, 2, 1, 3], "comment": ["x", None, "x", "y"]})
    assert overlaps.once(rows, ["lt"], tmp_path).to_pydict() == {
        "lt": [1, 2, 3],
        "comment": ["x", None, "y"],
    }
    rows = pa.table({"lt": [1, 1], "comment": ["x", other]})
    with pytest.raises(tf.StoreError, match="have different rows of the same lt"):
        overlaps.once(rows, ["lt"], tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert overlaps.once(rows.slice(1), ["lt"], tmp_path).equals(rows.slice(1))
