"""Nothing right gets lost: files left over, files of others, a damaged network.json."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from stores import claimed

import tonframes as tf
from tonframes.store import Store, damage, files
from tonframes.store.identity import NETWORK

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_000
RUNS = (range(FIRST, FIRST + 2), range(FIRST + 2, FIRST + 4), range(FIRST + 100, FIRST + 103))
NAMES = ("transactions", "messages", "blocks")


def tables_of(*seqnos: range) -> dict[str, pa.Table]:
    blocks = tf.read_blocks(tf.sample(), [seqno for run in seqnos for seqno in run])
    return {name: blocks.arrow(name) for name in blocks.names}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    store = claimed(tmp_path_factory.mktemp("written") / "store")
    for run in RUNS:
        store.write_blocks(tables_of(run), [run], proof="chain")
    accounts = tf.read_accounts(tf.sample())
    store.write_accounts({name: accounts.arrow(name) for name in accounts.names})
    return store.path


@pytest.fixture
def store(written, tmp_path):
    return Store(shutil.copytree(written, tmp_path / "store"))


def contents(path: Path) -> dict[Path, bytes]:
    """Return the files of a store, apart from locks."""
    files = (file for file in path.rglob("*") if file.is_file() and ".lock" not in file.name)
    return {file.relative_to(path): file.read_bytes() for file in files}


def is_whole(store: Store) -> bool:
    read, expected = tf.read_blocks(store.path), tables_of(*RUNS)
    return all(read.arrow(name).equals(expected[name]) for name in NAMES)


def nothing() -> dict[str, pa.Table]:
    accounts = tf.read_accounts(tf.sample(), columns=None)
    return {name: accounts.arrow(name).slice(0, 1) for name in accounts.names}


# ── files left over ──────────────────────────────────────────────────────────────────────────────


def orphaned(store: Store, name: str = "messages") -> Path:
    """Move away the transactions of a range, as a killed process may leave it."""
    run = RUNS[-1]
    for other in {"transactions", "blocks", "messages"} - {name}:
        (store.path / other / f"{run.start:011d}-{run.stop:011d}.parquet").unlink()
    return store.path / name / f"{run.start:011d}-{run.stop:011d}.parquet"


@pytest.mark.parametrize("name", ["messages", "blocks"])
def test_old_files_without_their_transactions_are_set_aside_and_young_ones_stay(
    store, monkeypatch, name
):
    file = orphaned(store, name)
    content = file.read_bytes()
    os.utime(file, (1, 1))  # a copy may keep the times of the original
    store.prepare()
    assert file.read_bytes() == content
    assert store.held() == (range(FIRST, FIRST + 4),)
    monkeypatch.setattr(damage, "ORPHANED", -1.0)
    with pytest.warns(tf.TonframesWarning, match=f"files in {name} without those in transactions"):
        store.prepare()
    assert not file.exists()
    [aside] = (store.path / files.ASIDE).iterdir()
    assert aside.read_bytes() == content


def test_a_young_file_left_over_makes_room_for_a_new_range_that_overlaps_it(store):
    file = orphaned(store)
    run = RUNS[-1][1:]
    with pytest.warns(tf.TonframesWarning, match="files in messages without"):
        store.write_blocks(tables_of(run), [run], proof="chain")
    assert not file.exists()
    assert store.held() == (range(FIRST, FIRST + 4), run)
    store.write_blocks(tables_of(RUNS[-1]), [RUNS[-1]], proof="chain")
    assert is_whole(store)


def test_files_of_a_commit_that_fails_are_removed(store):
    run = range(FIRST + 50, FIRST + 52)
    tables = tables_of(run)
    before = contents(store.path)
    with pytest.raises(ValueError, match="schema"):
        store.write_blocks(
            tables | {"transactions": pa.table({"mc_block_seqno": [1]})}, [run], proof=""
        )
    # Entries of the address book are snapshots: they stay, as no block depends on them.
    after = contents(store.path)
    assert {name.parts[0] for name in after.keys() - before.keys()} == {"address_book"}
    assert before.items() <= after.items()


def test_a_damaged_merged_file_does_not_take_the_place_of_the_small_ones(store, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_finish_merging", lambda _: None)
        store.merge(range(FIRST, FIRST + 4))
    [file] = (store.path / "merging" / "blocks").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(tf.TonframesWarning, match="only a part of one"):
        store.prepare()
    assert is_whole(store)
    assert not (store.path / "merging").exists()
    store.merge(range(FIRST, FIRST + 4))
    assert is_whole(store)


# ── files of other programs ──────────────────────────────────────────────────────────────────────


def test_names_that_begin_with_a_dot_are_ignored_and_stay(store):
    """MacOS leaves such files beside others on many file systems."""
    store.write_histories(tables_of(RUNS[0]), {})
    foreign = []
    for file in list(store.path.rglob("*.parquet")):
        foreign.append(file.with_name(f"._{file.name}"))
        foreign[-1].write_bytes(b"\0\5\x16\7")
    for folder in NAMES:  # one without a file beside it
        foreign.append(store.path / folder / "._00090000050-00090000052.parquet")
        foreign[-1].write_bytes(b"")
    assert is_whole(store)
    store.prepare()
    assert tf.verify_store(store.path) == {}
    store.merge(range(FIRST, FIRST + 4))
    store.write_accounts(nothing())
    run = range(FIRST + 50, FIRST + 52)
    store.write_blocks(tables_of(run), [run], proof="chain")
    assert tf.read_blocks(store.path).seqnos == (range(FIRST, FIRST + 4), run, RUNS[-1])
    assert len(tf.read_transactions(store.path).arrow("transactions"))
    assert store.verify(store.held()) == ()
    assert store.verify_snapshots() == ()
    with tf.serve(store.path) as url, tf.Client(url) as client:
        assert tf.fetch_blocks(RUNS[0], client=client, store=None).seqnos == (RUNS[0],)
    assert all(file.exists() for file in foreign)


# ── network.json ─────────────────────────────────────────────────────────────────────────────────


def test_every_flip_in_network_json_is_told_and_what_to_do(store):
    file = store.path / NETWORK
    good = file.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        if json.loads(good) == _read(bad):
            continue
        file.write_bytes(bad)
        for attempt in (lambda: tf.read_blocks(store.path), store.prepare):
            with pytest.raises(tf.StoreError, match="does not say which network"):
                attempt()
    file.unlink()
    store.claim("-217", "a test")
    assert is_whole(store)


def _read(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_two_stores_in_one_folder_are_refused(store):
    copied = store.path / "transactions" / f"{FIRST + 1:011d}-{FIRST + 3:011d}.parquet"
    shutil.copy(next(iter(store.files("transactions").values())), copied)
    for attempt in (
        store.held,
        lambda: tf.read_blocks(store.path),
        lambda: tf.verify_store(store.path),
    ):
        with pytest.raises(tf.StoreError, match="another store was copied into this one"):
            attempt()
