"""What was verified is not read again by another process, and no damage stays hidden by this."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from stores import claimed, flip

import tonframes as tf
from tonframes.store import Store, damage, verified
from tonframes.store.files import HeldFile
from tonframes.wire.tables import Tables, with_columns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST = 90_000_000
SEQNOS = range(FIRST, FIRST + 3)
FAR = range(FIRST + 10_000, FIRST + 10_001)


def tables_at(seqnos: range) -> Tables:
    """Return the rows of masterchain blocks, as if they had other seqnos."""
    blocks = tf.read_blocks(tf.sample(), range(FIRST, FIRST + len(seqnos)))
    tables = {name: blocks.arrow(name) for name in ("transactions", "messages", "blocks")}
    if seqnos[0] != FIRST:
        tables = {n: with_columns(rows, mc_block_seqno=seqnos[0]) for n, rows in tables.items()}
    return tables | {"address_book": blocks.arrow("address_book")}


def settle(path: Path) -> None:
    """Let the files be old."""
    for file in path.rglob("*.parquet"):
        os.utime(file, (1, 1))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = claimed(tmp_path / "store")
    for seqno in SEQNOS:
        run = range(seqno, seqno + 1)
        store.write_blocks(tables_at(run), [run], proof="chain")
    store.write_blocks(tables_at(FAR), [FAR], proof="chain")
    settle(store.path)
    return store


@contextmanager
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have nothing verified in this process, and list the files that are read wholly."""
    found: list[str] = []
    check = HeldFile.check

    def checking(file: HeldFile) -> object:
        found.append(f"{file.path.parent.name}/{file.path.name}")
        return check(file)

    with monkeypatch.context() as patched:
        patched.setattr(verified, "good", {})
        for function in (damage.check, damage.find_fault):
            patched.setattr(function, "__defaults__", (verified.good,))
        patched.setattr(HeldFile, "check", checking)
        yield found


def file_of(store: Store, name: str = "transactions") -> Path:
    return store.files(name)[range(FIRST + 1, FIRST + 2)]


def test_another_process_reads_nothing_again(store, monkeypatch):
    with another_process(monkeypatch) as read:
        assert store.verify(store.held()) == ()
    assert len(read) == len(set(read)) > 12
    with another_process(monkeypatch) as read:
        assert store.verify(store.held()) == ()
        assert store.verify([SEQNOS[1:2]]) == ()
    assert read == []


@pytest.mark.parametrize("name", ["transactions", "messages", "blocks"])
def test_a_file_that_has_changed_is_read_again_with_those_of_its_unit(store, monkeypatch, name):
    store.verify(store.held())
    file = file_of(store, name)
    flip(file, 100)
    os.utime(file, (2, 2))
    with (
        another_process(monkeypatch) as read,
        pytest.warns(tf.TonframesWarning, match="checksum that it was written with"),
    ):
        assert store.verify(store.held()) == (SEQNOS[1:2],)
    assert not any(f"{FAR.start:011d}" in one for one in read)


def test_a_new_file_is_read(store, monkeypatch):
    store.verify(store.held())
    run = range(FIRST + 3, FIRST + 4)
    store.write_blocks(tables_at(run), [run], proof="chain")
    settle(store.path)
    with another_process(monkeypatch) as read:
        assert store.verify(store.held()) == ()
    assert f"transactions/{run.start:011d}-{run.stop:011d}.parquet" in read


def test_a_flipped_bit_that_changes_no_time_is_noticed_when_the_file_is_read(store, monkeypatch):
    """As when a disk forgets: the file system says the same of the file as before."""
    stamps: dict[Path, tuple[int, ...] | None] = {}
    stamp = verified.stamp
    monkeypatch.setattr(verified, "stamp", lambda file: stamps.setdefault(file, stamp(file)))
    assert store.verify(store.held()) == ()
    file = file_of(store)
    content = bytearray(file.read_bytes())
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    # The last byte of its pages: a bit in the head of a page may change nothing that is read.
    start = column.dictionary_page_offset or column.data_page_offset
    content[start + column.total_compressed_size - 1] ^= 1
    file.write_bytes(content)
    assert store.verify(store.held()) == ()
    with pytest.raises(tf.StoreError, match="fetching into the store again"):
        tf.read_blocks(store.path).arrow("transactions")
    with pytest.warns(tf.TonframesWarning, match="checksum"):
        assert store.verify(store.held()) == (SEQNOS[1:2],)


def test_verify_store_reads_every_byte_whatever_is_noted(store, monkeypatch):
    store.verify(store.held())
    for _ in range(2):
        with another_process(monkeypatch) as read:
            assert tf.verify_store(store.path) == {}
        assert len(set(read)) == len(store.all_files())


def test_files_that_were_changed_a_moment_ago_are_not_noted(store, monkeypatch):
    file_of(store).touch()
    store.verify(store.held())
    with another_process(monkeypatch) as read:
        store.verify(store.held())
    assert len([one for one in read if one.startswith("transactions/")]) == len(SEQNOS)


def test_a_part_of_a_unit_is_not_noted(store, monkeypatch):
    store.verify([SEQNOS[:2]])
    with another_process(monkeypatch) as read:
        store.verify([SEQNOS[:2]])
    assert len([one for one in read if one.startswith("transactions/")]) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"units": []}', b'{"units": {"a": 1}}'])
def test_a_damaged_note_is_none(store, monkeypatch, content):
    store.verify(store.held())
    note = store.path / verified.NOTE
    good = note.read_bytes()
    note.write_bytes(content)
    with another_process(monkeypatch) as read:
        assert store.verify(store.held()) == ()
    assert len(read) == len(store.all_files())
    assert note.read_bytes() == good


def test_a_hash_in_the_note_that_was_changed_does_not_count(store):
    store.verify(store.held())
    note = store.path / verified.NOTE
    said = json.loads(note.read_bytes())
    assert verified.noted(store.path) == said["units"]
    said["units"] = dict.fromkeys(said["units"], "0" * 32)
    note.write_text(json.dumps(said))
    assert verified.noted(store.path) == {}


def test_snapshots_are_noted_by_the_minute(store, monkeypatch):
    store.verify_snapshots()
    with another_process(monkeypatch) as read:
        assert store.verify_snapshots() == ()
    assert read == []
    assert {unit.partition("/")[0] for unit in verified.noted(store.path)} == {"address_book"}


def test_a_copy_is_verified_anew(store, tmp_path, monkeypatch):
    store.verify(store.held())
    copy = Store(shutil.copytree(store.path, tmp_path / "copy"))
    with another_process(monkeypatch) as read:
        assert copy.verify(copy.held()) == ()
    assert len(read) == len(copy.all_files())


def test_merged_files_that_wait_for_their_places_are_not_noted(tmp_path):
    store = claimed(tmp_path / "store")
    whole = range(FIRST, FIRST + 1000)
    for part in range(whole.start, whole.stop, 100):
        run = range(part, part + 100)
        store.write_blocks(tables_at(run[:1]), [run], proof="chain")
    assert tf.compact_store(store.path) == [whole]
    settle(store.path)
    assert store.verify([whole]) == ()
    assert not (store.path / "merging" / verified.NOTE).exists()
    assert store.held() == (whole,)
