"""Folders of `Blocks.write`: all of a call's files or none; damage and mixtures are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow.parquet as pq
import pytest
from killed import killed_at_each_rename
from pandas.testing import assert_frame_equal

import tonframes as tf

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_000
NAMES = ("transactions", "messages", "blocks", "address_book")


def sample(count: int) -> tf.Blocks:
    return tf.read_blocks(tf.sample(), range(FIRST, FIRST + count))


def is_right(folder: Path, count: int) -> bool:
    read = tf.read_blocks(folder, verify=True)
    return all(read.arrow(name).equals(sample(count).arrow(name)) for name in NAMES)


@pytest.fixture
def folder(tmp_path):
    sample(3).write(tmp_path / "written")
    return tmp_path / "written"


def _write(folder: Path, count: int) -> None:
    sample(count).write(folder)


def test_a_process_that_is_killed_at_any_rename_leaves_no_mixture(tmp_path):
    seen = []
    sample(3).write(tmp_path)
    for moment in killed_at_each_rename(_write, tmp_path, 5):
        for file in tmp_path.glob("*.parquet"):
            pq.read_table(file, page_checksum_verification=True)
        try:
            count = len(tf.read_blocks(tmp_path).seqnos[0])
        except tf.StoreError as error:
            assert "write the blocks again" in str(error)  # noqa: PT017
            seen.append("refused")
        else:
            assert is_right(tmp_path, count)
            seen.append(count)
        sample(3).write(tmp_path)  # whatever was left there
        assert is_right(tmp_path, 3)
        assert moment < 20
    assert list(dict.fromkeys(seen)) == [3, "refused", 5]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_leaves_the_files_that_were_there(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    try:
        sample(3).write(disk)
        before = {file.name: file.read_bytes() for file in disk.iterdir()}
        with pytest.raises(OSError, match=f"No space left on device: '{disk}'"):
            sample(120).write(disk)
        assert {file.name: file.read_bytes() for file in disk.iterdir()} == before
        assert is_right(disk, 3)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_files_of_two_calls_are_refused(folder, tmp_path):
    sample(5).write(tmp_path / "other")
    for name in NAMES:
        file = folder / f"{name}.parquet"
        kept = file.read_bytes()
        shutil.copy(tmp_path / "other" / file.name, folder)
        with pytest.raises(tf.StoreError, match="was not written together with the other files"):
            tf.read_blocks(folder)
        file.write_bytes(kept)
    assert is_right(folder, 3)


def test_an_address_book_of_accounts_is_read_with_blocks(folder):
    accounts = tf.read_accounts(tf.sample())
    accounts.write(folder)
    read = tf.read_blocks(folder)
    assert read.arrow("transactions").equals(sample(3).arrow("transactions"))
    assert read.arrow("address_book").equals(accounts.arrow("address_book"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_gone_is_missed(folder, name):
    (folder / f"{name}.parquet").unlink()
    with pytest.raises(tf.StoreError, match=rf"{name}.parquet is gone: write the blocks again"):
        tf.read_blocks(folder)


def test_a_table_that_the_last_call_did_not_write_is_not_read(folder):
    blocks = tf.Blocks({name: sample(5).arrow(name) for name in NAMES if name != "blocks"})
    blocks.write(folder)
    read = tf.read_blocks(folder)
    assert len(read.blocks) == 0
    assert_frame_equal(read.transactions, sample(5).transactions)


def test_a_flip_in_a_footer_is_refused_and_others_when_verified(folder):
    file = folder / "messages.parquet"
    content = bytearray(file.read_bytes())
    for place in (len(content) - 5000, 40):
        content[place] ^= 4
        file.write_bytes(content)
        with pytest.raises(tf.StoreError, match="was written with: write the blocks again"):
            tf.read_blocks(folder, verify=True)
        content[place] ^= 4
    file.write_bytes(content)
    assert is_right(folder, 3)


def test_pandas_reads_the_files_as_the_same_frames(folder):
    for name in NAMES:
        read = pd.read_parquet(folder / f"{name}.parquet")
        assert_frame_equal(read, sample(3).frame(name))


def test_written_transactions_of_accounts_are_not_read_as_blocks(tmp_path):
    account = tf.read_blocks(tf.sample(), columns=["account"]).transactions.account.mode()[0]
    with tf.serve(tf.sample()) as url, tf.Client(url) as client:
        history = tf.fetch_transactions(
            account, since="2026-05-28T20:28", client=client, store=None
        )
    history.write(tmp_path)
    for seqnos in (None, history.seqnos):
        with pytest.raises(tf.StoreError, match=r"has transactions of accounts.*read_parquet"):
            tf.read_blocks(tmp_path, seqnos and [seqnos[0].start])
    frame = pd.read_parquet(tmp_path / "transactions.parquet")
    assert_frame_equal(frame, history.transactions)
