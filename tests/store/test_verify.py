"""Verifying a store: every damaged file is named, and nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tonframes as tf
from tonframes.cli import main

SEQNOS = range(90_000_000, 90_000_060)


@pytest.fixture
def store(tmp_path):
    return Path(shutil.copytree(tf.sample(), tmp_path / "store"))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)


def test_a_whole_store_has_no_damaged_files(store, capsys):
    assert tf.verify_store(store) == {}
    assert main(["verify", str(store)]) == 0
    assert capsys.readouterr().out == f"{store}: all files are as they were written\n"


@pytest.mark.parametrize("name", ["messages", "accounts", "address_book"])
def test_damaged_files_are_named_and_stay(store, capsys, name):
    file = min((store / name).iterdir())
    flip(file)
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
    flip(file)
    assert len(tf.read_blocks(store, SEQNOS).transactions)  # needs no other file
    with pytest.raises(tf.StoreError, match="does not have the checksum") as caught:
        tf.read_blocks(store, SEQNOS, verify=True)
    assert caught.value.path == file
    assert tf.read_blocks(store, [SEQNOS.stop], verify=True).seqnos


def test_ingested_rows_are_verified_too(tmp_path):
    tf.ingest(tf.read_blocks(tf.sample(), SEQNOS[:1]).to_json(), store=tmp_path)
    [file] = (tmp_path / "ingested" / "messages").iterdir()
    flip(file)
    assert set(tf.verify_store(tmp_path)) == {file}
    with pytest.raises(tf.StoreError, match="does not have the checksum"):
        tf.read_blocks(tmp_path, unproven=True, verify=True)


def test_there_must_be_a_store(tmp_path):
    with pytest.raises(tf.StoreError, match="there is no store"):
        tf.verify_store(tmp_path)
