"""Files of transactions that are gone are noticed where the result depends on what is held."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tonframes as tf
from tonframes.store import Store, damage
from tonframes.store.ranges import RANGED

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_000
RUNS = (range(FIRST, FIRST + 2), range(FIRST + 2, FIRST + 4), range(FIRST + 4, FIRST + 6))


def write(store: Store, *runs: range) -> None:
    blocks = tf.read_blocks(tf.sample(), range(FIRST, FIRST + 6))
    tables = {name: blocks.arrow(name) for name in blocks.names}
    for run in runs:
        store.write_blocks(tables, [run], proof="chain")


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    store.claim("-217", "a test")
    write(store, *RUNS)
    return store


def file_of(store: Store, folder: str, run: range = RUNS[1]) -> Path:
    return store.path / folder / f"{run.start:011d}-{run.stop:011d}.parquet"


@pytest.mark.parametrize("left", [("messages", "blocks"), ("messages",), ("blocks",)])
def test_a_lost_file_of_transactions_is_told(store, left):
    file = file_of(store, "transactions")
    for name in {"messages", "blocks", "transactions"} - set(left):
        file_of(store, name).unlink()

    def serve() -> None:
        with tf.serve(store.path):
            pass

    for read in (lambda: tf.read_blocks(store.path), serve):
        with pytest.raises(tf.StoreError, match=r"is gone, but .* put back what is gone") as caught:
            read()
        assert caught.value.path == file
        assert str(file_of(store, left[0])) in str(caught.value)
    # What was asked for is held, or missing.
    assert tf.read_blocks(store.path, RUNS[0]).seqnos == (RUNS[0],)
    with pytest.raises(tf.MissingError) as missing:
        tf.read_blocks(store.path, range(FIRST, FIRST + 6))
    assert missing.value.missing == (RUNS[1],)


def test_blocks_that_are_fetched_again_are_no_loss(store):
    file_of(store, "transactions").unlink()
    write(store, RUNS[1])
    assert tf.read_blocks(store.path).seqnos == (range(FIRST, FIRST + 6),)


def test_other_ranges_with_the_same_blocks_are_no_loss(store):
    file_of(store, "transactions").unlink()
    with pytest.warns(tf.TonframesWarning, match="without those in transactions"):
        write(store, RUNS[1][:1], RUNS[1][1:])
    assert tf.read_blocks(store.path).seqnos == (range(FIRST, FIRST + 6),)


def test_a_store_whose_last_file_is_lost_is_told_too(store):
    for run in RUNS[:2]:
        for name in RANGED:
            file_of(store, name, run).unlink()
    file_of(store, "transactions", RUNS[2]).unlink()
    with pytest.raises(tf.StoreError, match="is gone"):
        tf.read_blocks(store.path)


def test_a_range_that_was_removed_with_all_of_its_files_is_not_held(store):
    for name in RANGED:
        file_of(store, name).unlink()
    assert tf.read_blocks(store.path).seqnos == (RUNS[0], RUNS[2])


def test_a_lost_file_of_messages_is_told_on_opening(store):
    file = file_of(store, "messages")
    file.unlink()
    with pytest.raises(tf.StoreError, match="is gone") as caught:
        tf.read_blocks(store.path)
    assert caught.value.path == file


@pytest.mark.parametrize("mark", [".", "_"])
def test_files_of_a_killed_process_are_no_loss_and_are_set_aside_later(store, monkeypatch, mark):
    """Temporary names of older versions begin with a dot."""
    file = file_of(store, "transactions")
    begun = file.with_name(f"{mark}{file.name}.1.0123abcd.tmp")
    file.rename(begun)
    assert tf.read_blocks(store.path).seqnos == (RUNS[0], RUNS[2])
    store.prepare()
    assert begun.exists()
    assert tf.read_blocks(store.path).seqnos == (RUNS[0], RUNS[2])
    monkeypatch.setattr(damage, "ORPHANED", -1.0)
    with pytest.warns(tf.TonframesWarning, match="without those in transactions"):
        store.prepare()
    assert not begun.exists()
    assert tf.read_blocks(store.path).seqnos == (RUNS[0], RUNS[2])


@pytest.mark.parametrize("mark", [".", "_"])
def test_what_a_killed_process_has_left_is_replaced(store, mark):
    file = file_of(store, "transactions")
    begun = file.with_name(f"{mark}{file.name}.1.0123abcd.tmp")
    file.rename(begun)
    write(store, RUNS[1])
    assert not begun.exists()
    assert tf.read_blocks(store.path).seqnos == (range(FIRST, FIRST + 6),)


def test_a_copy_without_temporary_files_has_lost_nothing(store, tmp_path):
    copy = shutil.copytree(store.path, tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))
    assert tf.read_blocks(copy).seqnos == (range(FIRST, FIRST + 6),)


#: Writes a range, and is killed before the second of three files, or the third, gets its name.
KILLED = """
import os, pathlib, signal, sys
import tonframes as tf
from tonframes.store import Store

blocks = tf.read_blocks(tf.sample(), range(90_000_006, 90_000_008))
replace, left = pathlib.Path.replace, [int(sys.argv[2])]

def killed(file, target):
    if file.parent.name in ("messages", "blocks", "transactions"):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    return replace(file, target)

pathlib.Path.replace = killed
tables = {name: blocks.arrow(name) for name in blocks.names}
Store(sys.argv[1]).write_blocks(tables, blocks.seqnos, proof="chain")
"""


@pytest.mark.parametrize("count", [2, 3])
def test_a_copy_without_dot_files_of_what_a_killed_process_left_has_lost_nothing(
    store, tmp_path, count
):
    code = subprocess.run([sys.executable, "-c", KILLED, store.path, str(count)], check=False)
    assert code.returncode == -signal.SIGKILL
    killed = range(FIRST + 6, FIRST + 8)
    assert file_of(store, "messages", killed).exists()
    assert not file_of(store, "transactions", killed).exists()
    copy = Store(
        shutil.copytree(store.path, tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))
    )
    for there in (store, copy):
        assert tf.read_blocks(there.path).seqnos == (range(FIRST, FIRST + 6),)
        assert tf.verify_store(there.path) == {}
        there.prepare()
        assert tf.read_blocks(there.path).seqnos == (range(FIRST, FIRST + 6),)
    file_of(copy, "transactions").unlink()  # a real loss is told all the same
    with pytest.raises(tf.StoreError, match="is gone, but"):
        tf.read_blocks(copy.path)


# ── what is no regular file ──────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_with_the_name_of_a_file_is_one_error(store, make):
    kind = "a pipe" if make is os.mkfifo else "a folder"
    file = file_of(store, "blocks")
    content = file.read_bytes()
    file.unlink()
    make(file)
    with pytest.raises(tf.StoreError, match=f"is {kind}.*, not a file") as caught:
        tf.read_blocks(store.path).arrow("blocks")
    assert caught.value.path == file
    with pytest.warns(tf.TonframesWarning, match=f"is {kind}"):
        assert store.verify([RUNS[1]]) == (RUNS[1],)
    write(store, RUNS[1])
    assert file.read_bytes() == content
    network = store.path / "network.json"
    network.unlink()
    make(network)
    for attempt in (lambda: tf.read_blocks(store.path), store.prepare):
        with pytest.raises(tf.StoreError, match=f"is {kind}.*, not a file: move it elsewhere"):
            attempt()
