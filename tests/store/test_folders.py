"""Nothing right gets lost: folders that are away, files left over, a damaged network.json."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tonframes as tf
from tonframes.store import Store, damage, files, merging
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
    store = Store(tmp_path_factory.mktemp("written") / "store")
    store.claim("-217", "a test")
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


# ── a folder is away ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["transactions", "messages", "blocks", "accounts"])
@pytest.mark.parametrize("mounted", [True, False])
def test_a_store_of_which_a_folder_is_away_is_refused_and_left_alone(
    store, tmp_path, name, mounted
):
    """A folder that is not mounted is empty."""
    (store.path / name).rename(tmp_path / name)
    if mounted:
        (store.path / name).mkdir()
    before = contents(store.path)
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:
        for attempt in (
            lambda: tf.read_blocks(store.path),
            lambda: tf.fetch_blocks(range(FIRST, FIRST + 9), client=client, store=store.path),
            lambda: tf.fetch_accounts(["0:" + "0" * 64], client=client, store=store.path),
            lambda: store.write_accounts(nothing()),
            store.prepare,
            lambda: tf.verify_store(store.path),
        ):
            with pytest.raises(tf.StoreError, match="put the folder back, mount it") as caught:
                attempt()
            assert caught.value.path == store.path / name
        assert client.statistics.requests == 0
    assert contents(store.path) == before
    if mounted:
        (store.path / name).rmdir()
    (tmp_path / name).rename(store.path / name)
    store.prepare()
    assert is_whole(store)


@pytest.mark.parametrize("mounted", [True, False])
@pytest.mark.parametrize(
    ("name", "left"),
    [("address_book", "accounts"), ("metadata", "accounts"), ("metadata", "blocks")],
)
def test_a_folder_of_snapshots_that_is_away_is_told_by_other_files(store, name, left, mounted):
    """They say which folders of snapshots had files when they were written."""
    run = range(FIRST + 110, FIRST + 112)
    store.write_blocks(tables_of(run), [run], proof="chain")
    for folder in {name, *(NAMES if left == "accounts" else ())}:
        shutil.rmtree(store.path / folder)
    if mounted:
        (store.path / name).mkdir()
    before = contents(store.path)
    for attempt in (lambda: tf.read_accounts(store.path), store.prepare):
        with pytest.raises(tf.StoreError, match="put the folder back, mount it") as caught:
            attempt()
        assert caught.value.path == store.path / name
    assert contents(store.path) == before


@pytest.mark.parametrize("name", ["metadata", "address_book", "accounts"])
def test_the_files_of_one_call_tell_of_each_other(tmp_path, name):
    store = Store(tmp_path / "store")
    store.claim("-217", "a test")
    store.write_accounts(nothing())
    for file in (store.path / name).iterdir():
        file.unlink()
    for attempt in (lambda: tf.read_accounts(store.path), store.prepare):
        with pytest.raises(tf.StoreError, match="put the folder back, mount it") as caught:
            attempt()
        assert caught.value.path == store.path / name


def test_a_process_that_is_killed_before_it_writes_accounts_has_lost_none(tmp_path, monkeypatch):
    store = Store(tmp_path / "store")
    store.claim("-217", "a test")

    def append(store: Store, name: str, rows: pa.Table) -> None:
        if name == "accounts":
            raise KeyboardInterrupt
        plain(store, name, rows)

    plain = Store._append
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_append", append)
        with pytest.raises(KeyboardInterrupt):
            store.write_accounts(nothing())
    assert len(tf.read_accounts(store.path).arrow("accounts")) == 0
    store.write_accounts(nothing())
    assert len(tf.read_accounts(store.path).arrow("accounts")) == 1


@pytest.mark.parametrize("sample", ["blocks", "histories"])
@pytest.mark.parametrize(
    "names",
    [("metadata",), ("address_book",), ("accounts",), ("metadata", "address_book", "accounts")],
)
def test_no_folder_of_a_sample_can_be_emptied_unnoticed(tmp_path, sample, names):
    path = shutil.copytree(tf.sample(sample), tmp_path / "store")
    for name in names:
        for file in (path / name).iterdir():
            file.unlink()
    with pytest.raises(tf.StoreError, match="put the folder back, mount it") as caught:
        tf.read_accounts(path)
    assert caught.value.path == path / names[0]


def test_accounts_that_are_away_are_told_by_blocks_alone(store):
    run = range(FIRST + 110, FIRST + 112)
    store.write_blocks(tables_of(run), [run], proof="chain")
    for folder in ("accounts", "metadata"):
        shutil.rmtree(store.path / folder)
    with pytest.raises(tf.StoreError, match=r"(metadata|accounts) is away"):
        tf.read_blocks(store.path)


def test_a_folder_of_snapshots_that_never_had_files_may_be_away(tmp_path):
    store = Store(tmp_path)
    store.claim("-217", "a test")
    store.write_blocks(tables_of(*RUNS), RUNS, proof="chain")
    for folder in ("accounts", "metadata"):
        (store.path / folder).rmdir()
    assert is_whole(store)


@pytest.mark.parametrize("name", ["account_transactions", "account_messages", "histories"])
def test_histories_of_which_a_folder_is_away_are_refused_and_left_alone(store, tmp_path, name):
    tables = tables_of(*RUNS)
    for start in (0, 20):
        part = tables["transactions"].slice(start, 20)
        store.write_histories(tables | {"transactions": part}, {})
    (store.path / name).rename(tmp_path / name)
    before = contents(store.path)
    for attempt in (lambda: store.write_accounts(nothing()), store.prepare):
        with pytest.raises(tf.StoreError, match=f"{name} is away"):
            attempt()
    assert contents(store.path) == before


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


@pytest.mark.parametrize("noted", ["{", "[]", '{"new": "../x", "old": ["../../x"]}'])
def test_a_damaged_note_of_a_merge_removes_nothing(store, noted):
    tables = tables_of(*RUNS)
    store.write_histories(tables, {})
    (store.path / merging.NOTE).write_text(noted)
    before = contents(store.path)
    store.prepare()
    after = contents(store.path)
    assert {name for name in before if name.suffix == ".parquet"} <= after.keys()


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
    (store.path / NETWORK).unlink()
    with pytest.warns(tf.TonframesWarning, match="read from the footers"):
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


def test_a_folder_that_has_only_names_with_a_dot_is_empty(store, tmp_path):
    (store.path / "messages").rename(tmp_path / "messages")
    (store.path / "messages").mkdir()
    (store.path / "messages" / "._00090000000-00090000002.parquet").touch()
    with pytest.raises(tf.StoreError, match="messages is empty"):
        tf.read_blocks(store.path)


# ── network.json ─────────────────────────────────────────────────────────────────────────────────


def test_every_flip_in_network_json_is_healed_from_the_footers(store):
    file = store.path / NETWORK
    good = file.read_bytes()
    info = store.info()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        file.write_bytes(bad)
        try:
            with pytest.warns(tf.TonframesWarning, match="read from the footers"):
                assert store.info() == info
        except pytest.fail.Exception:  # white space may become other white space
            assert json.loads(bad) == json.loads(good)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"network": "mainnet"}', b"\xff", None])
def test_network_json_is_written_again_and_no_file_is_set_aside(store, content):
    file = store.path / NETWORK
    good = file.read_bytes()
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.warns(tf.TonframesWarning, match="is gone or damaged"):
        assert is_whole(store)
    store.claim("-217", "a test")
    assert file.read_bytes() == good
    assert store.verify(store.held()) == ()
    assert not (store.path / files.ASIDE).exists()


def test_another_network_in_a_file_without_a_seal_is_healed(store):
    """Older versions wrote no seal."""
    file = store.path / NETWORK
    said = json.loads(file.read_bytes())
    del said["seal"]
    file.write_text(json.dumps(said))
    assert is_whole(store)
    file.write_text(json.dumps(said | {"network": "-216"}))
    with pytest.warns(tf.TonframesWarning, match="is gone or damaged"):
        assert store.network == "-217"


def test_files_of_two_networks_are_not_guessed_about(store, tmp_path):
    other = Store(tmp_path / "other")
    other.claim("mainnet", "a test")
    other.write_blocks(
        tables_of(range(FIRST + 9, FIRST + 10)), [range(FIRST + 9, FIRST + 10)], proof=""
    )
    shutil.copytree(other.path, store.path, dirs_exist_ok=True)
    (store.path / NETWORK).write_text("{")
    with pytest.raises(tf.StoreError, match="of the networks '-217' and 'mainnet': move those"):
        tf.read_blocks(store.path)


def test_a_damaged_network_json_without_files_is_an_error(tmp_path):
    (tmp_path / NETWORK).write_text("{")
    with pytest.raises(tf.StoreError, match="does not say which network"):
        tf.read_blocks(tmp_path)
