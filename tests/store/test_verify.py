"""Verifying a store: every damaged file is named, and nothing is changed."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from stores import claimed, flip, tables_of

import tonframes as tf
from tonframes.cli import main
from tonframes.store import Store, verify

SEQNOS = range(90_000_000, 90_000_060)


@pytest.fixture
def store(tmp_path):
    return Path(shutil.copytree(tf.sample(), tmp_path / "store"))


def test_a_whole_store_has_no_damaged_files(store, capsys):
    assert tf.verify_store(store) == {}
    assert main(["verify", str(store)]) == 0
    assert capsys.readouterr().out == f"{store}: all files are as they were written\n"


@pytest.mark.parametrize("name", ["messages", "accounts", "address_book"])
def test_damaged_files_are_named_and_stay(store, capsys, name):
    file = min((store / name).iterdir())
    flip(file, 100)
    damaged = file.read_bytes()
    reason = "does not have the checksum that it was written with"
    assert tf.verify_store(store) == {file: reason}
    assert main(["verify", str(store)]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{file} {reason}\n"
    assert "tonframes: 1 damaged files in" in printed.err
    assert file.read_bytes() == damaged


def test_files_without_their_transactions_are_named(store):
    file = min((store / "transactions").iterdir())
    file.unlink()
    found = tf.verify_store(store)
    assert set(found) == {store / name / file.name for name in ("messages", "blocks")}
    assert all("has no file of transactions" in reason for reason in found.values())


def test_reading_verifies_all_bytes_of_the_files_that_it_needs_if_asked(store):
    file = min((store / "messages").iterdir())
    flip(file, 100)
    assert len(tf.read_blocks(store, SEQNOS).transactions)  # needs no other file
    with pytest.raises(tf.StoreError, match="does not have the checksum") as caught:
        tf.read_blocks(store, SEQNOS, verify=True)
    assert caught.value.path == file
    assert tf.read_blocks(store, [SEQNOS.stop], verify=True).seqnos


def test_ingested_rows_are_verified_too(tmp_path):
    tf.ingest(tf.read_blocks(tf.sample(), SEQNOS[:1]).to_json(), store=tmp_path)
    [file] = (tmp_path / "ingested" / "messages").iterdir()
    flip(file, 100)
    assert set(tf.verify_store(tmp_path)) == {file}
    with pytest.raises(tf.StoreError, match="does not have the checksum"):
        tf.read_blocks(tmp_path, unproven=True, verify=True)


def test_there_must_be_a_store(tmp_path):
    with pytest.raises(tf.StoreError, match="there is no store"):
        tf.verify_store(tmp_path)


# ── another process writes to the store ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [("transactions",), ("transactions", "messages"), ("messages",)])
def test_files_that_another_process_moves_are_no_damage(store, tmp_path, monkeypatch, names):
    """They are away when the store is looked at first, and back a moment later."""
    moved = {file: tmp_path / f"{name}.parquet" for name in names for file in [first(store, name)]}
    for file, away in moved.items():
        file.rename(away)

    def put_back(_: float) -> None:
        for file, away in moved.items():
            if away.exists():
                away.rename(file)

    monkeypatch.setattr(verify, "time", SimpleNamespace(sleep=put_back))
    assert tf.verify_store(store) == {}
    assert not any(away.exists() for away in moved.values())


def test_damage_beside_files_that_another_process_moves_is_told(store, tmp_path, monkeypatch):
    file = first(store, "accounts")
    flip(file, 100)
    other = first(store, "transactions")
    other.rename(tmp_path / "away")
    monkeypatch.setattr(
        verify,
        "time",
        SimpleNamespace(sleep=lambda _: other.exists() or (tmp_path / "away").rename(other)),
    )
    assert set(tf.verify_store(store)) == {file}


def test_a_store_that_is_written_to_meanwhile_has_no_damage(tmp_path):
    few = SEQNOS[:20]
    blocks = tf.read_blocks(tf.sample(), few)
    tables = tables_of(blocks)
    store = claimed(tmp_path / "store")

    def write() -> None:
        for start in range(0, len(few), 2):
            store.write_blocks(tables, [few[start : start + 2]], proof="chain")
            if start % 10 == 8:
                store.merge(few)

    writer = threading.Thread(target=write)
    writer.start()
    looks = [tf.verify_store(store.path)]
    while writer.is_alive():
        looks.append(tf.verify_store(store.path))
    writer.join()
    assert looks == [{}] * len(looks)
    assert store.held() == (few,)


def test_merged_files_that_a_killed_process_has_not_moved_are_no_damage(tmp_path, monkeypatch):
    blocks = tf.read_blocks(tf.sample(), SEQNOS[:4])
    tables = tables_of(blocks)
    store = claimed(tmp_path / "store")
    for start in (0, 2):
        store.write_blocks(tables, [SEQNOS[start : start + 2]], proof="chain")
    monkeypatch.setattr(Store, "_finish_merging", lambda _: None)
    store.merge(SEQNOS)
    for file in (store.path / "transactions").iterdir():
        file.unlink()  # the first thing that merging does then
    assert store.held() == (SEQNOS[:4],)
    assert tf.verify_store(store.path) == {}


def first(store: Path, name: str) -> Path:
    return min((store / name).iterdir())


# ── fetching sets damaged snapshots aside ────────────────────────────────────────────────────────


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize("damage", [flip, truncate])
@pytest.mark.parametrize("more", [0, 5])
def test_fetching_blocks_sets_a_damaged_address_book_aside(tmp_path, damage, more):
    """Also if all blocks are held."""
    store = tmp_path / "store"
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:
        tf.fetch_blocks(SEQNOS[:5], store=store, client=client)
        file = first(store, "address_book")
        damage(file)
        with pytest.raises(tf.StoreError, match="; fetching into the store again, with the net"):
            tf.read_blocks(store).arrow("address_book")
        with pytest.warns(tf.TonframesWarning, match=r"address_book/.*: moved to "):
            blocks = tf.fetch_blocks(SEQNOS[: 5 + more], store=store, client=client)
        assert len(blocks.arrow("transactions"))
        assert len(blocks.arrow("address_book")) or not more
    assert not file.exists()
    assert tf.verify_store(store) == {}


def test_fetching_transactions_sets_a_damaged_address_book_aside(tmp_path):
    account = tf.read_accounts(tf.sample()).arrow("accounts")["address"][0].as_py()
    store = tmp_path / "store"
    with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
        fetch = {"since": "2026-05-28T20:28", "store": store, "client": client}
        tf.fetch_transactions(account, **fetch)
        truncate(first(store, "address_book"))
        with pytest.warns(tf.TonframesWarning, match=r"address_book/.*: moved to "):
            history = tf.fetch_transactions(account, **fetch)
        assert len(history.arrow("transactions"))
        history.arrow("address_book")
    assert tf.verify_store(store) == {}


@pytest.mark.parametrize("name", ["accounts", "metadata"])
def test_fetching_accounts_sets_damaged_states_aside_as_the_error_says(store, name):
    addresses = tf.read_accounts(store).arrow("accounts")["address"].to_pylist()[:3]
    file = max((store / name).iterdir())
    truncate(file)
    with pytest.raises(tf.StoreError, match="; fetching accounts into the store again, with the"):
        tf.read_accounts(store).arrow(name)
    with (
        tf.serve(tf.sample()) as url,
        tf.Client(url) as client,
        pytest.warns(tf.TonframesWarning, match=f"{name}/.*: moved to "),
    ):
        tf.fetch_accounts(addresses, store=store, client=client)
    assert tf.read_accounts(store).arrow(name).num_rows
    assert tf.verify_store(store) == {}
