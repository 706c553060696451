"""Nothing grows with the files that are not asked for.

The stores here have hundreds of files that are empty: whoever opens one of them fails.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from interrupts import interrupt
from stores import claimed

import tonframes as tf
from tonframes import sealed
from tonframes.seqnos import SPAN
from tonframes.store import Store, files, views
from tonframes.store.files import in_threads, range_name
from tonframes.wire.tables import Tables, with_columns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, MANY = 90_000_000, 500
LAST = FIRST + SPAN * (MANY + 1)


def tables_at(seqno: int) -> Tables:
    """Return the rows of a masterchain block, as if it had another seqno."""
    blocks = tf.read_blocks(tf.sample(), FIRST)
    ranged = ("transactions", "messages", "blocks")
    moved = {name: with_columns(blocks.arrow(name), mc_block_seqno=seqno) for name in ranged}
    return moved | {"address_book": blocks.arrow("address_book").slice(0, 0)}


def commit(store: Store, seqno: int) -> None:
    store.write_blocks(tables_at(seqno), [range(seqno, seqno + 1)], proof="chain")


@pytest.fixture
def small(tmp_path: Path) -> Store:
    """Make a store with two masterchain blocks, far apart."""
    store = claimed(tmp_path / "store")
    commit(store, FIRST)
    commit(store, LAST)
    return store


@pytest.fixture
def large(small: Store) -> Store:
    """Put hundreds of empty files between them."""
    for part in range(FIRST + SPAN, LAST, SPAN):
        for name in ("transactions", "messages", "blocks"):
            (small.path / name / range_name(range(part, part + SPAN))).touch()
    return small


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> Iterator[list[object]]:
    """List the first arguments of the calls of a function."""
    calls: list[object] = []
    function = getattr(place, name)

    def counting(*args: object, **options: object) -> object:
        calls.append(args[0])
        return function(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(place, name, counting)
        yield calls


def calls_of(function: object, *args: object) -> int:
    """Count the functions that a call calls, those in C included."""
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


# ── opening, reading and a card ──────────────────────────────────────────────────────────────────


def test_files_that_are_not_asked_for_are_not_opened(large):
    blocks = tf.read_blocks(large.path, [FIRST, LAST])
    assert set(blocks.transactions.mc_block_seqno) == {FIRST, LAST}
    assert len(blocks.messages)
    assert len(blocks.address_book) == 0
    assert large.verify([range(LAST, LAST + 1)]) == ()
    assert large.held() == (
        range(FIRST, FIRST + 1),
        range(FIRST + SPAN, LAST + 1),
    )
    with pytest.raises(tf.MissingError, match=f"seqnos {FIRST + 1}:{FIRST + SPAN}"):
        tf.read_blocks(large.path, range(FIRST, LAST))


def test_reading_a_few_seqnos_does_nothing_for_each_file(small, large):
    def read() -> None:
        tf.read_blocks(large.path, FIRST, columns=["lt"]).arrow("transactions")

    read()
    with_many = calls_of(read)
    for name in ("transactions", "messages", "blocks"):
        for file in (small.path / name).iterdir():
            if not file.stat().st_size:
                file.unlink()
    assert with_many - calls_of(read) < MANY // 2


def test_a_card_opens_a_few_files(large, monkeypatch):
    blocks = tf.read_blocks(large.path)
    with counted(monkeypatch, sealed, "opened") as opened, counted(monkeypatch, os, "stat") as seen:
        text = repr(blocks)
    assert text.startswith(f"<masterchain blocks {FIRST}, {FIRST + SPAN}:{LAST + 1}: transactions")
    assert "2026-05-28" in text
    assert len(opened) <= 8
    assert len(seen) < 300


def test_a_card_of_few_files_counts_all_of_them(small):
    blocks = tf.read_blocks(small.path)
    rows = 2 * len(tables_at(FIRST)["transactions"])
    assert views.FEW > 2
    assert f": {rows} transactions, " in repr(blocks)
    assert "on disk" in repr(blocks)


# ── commits ──────────────────────────────────────────────────────────────────────────────────────


def test_a_commit_does_nothing_for_each_file(large):
    few = claimed(large.path.parent / "few")
    numbers = {}
    for store in (few, large):
        store.prepare()
        commit(store, FIRST + 10)  # the first one imports and caches
        numbers[store] = calls_of(commit, store, FIRST + 20)
    assert numbers[large] - numbers[few] < MANY // 2


def test_what_another_process_has_left_is_put_in_order_before_the_next_commit(small):
    left = small.path / "messages" / f"_{range_name(range(FIRST + 50, FIRST + 60))}.1.0123abcd.tmp"
    commit(small, FIRST + 10)
    time.sleep(0.02)  # the times of folders have the resolution of the system's clock
    left.touch()
    commit(small, FIRST + 11)
    assert not left.exists()


def test_after_an_error_the_next_commit_puts_the_store_in_order(small, monkeypatch):
    commit(small, FIRST + 10)
    swept = []

    def sweep(store: Store) -> None:
        swept.append(store)

    monkeypatch.setattr(Store, "_sweep", sweep)
    commit(small, FIRST + 11)
    assert not swept
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_content", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            commit(small, FIRST + 12)
    commit(small, FIRST + 12)
    assert swept == [small]


# ── threads ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_keep_the_order_of_the_files(small):
    for seqno in range(FIRST + 1, FIRST + 6):
        commit(small, seqno)
    for name in ("transactions", "messages", "blocks"):
        held = small.held_files(name, small.held())
        columns = held[0][1].table.schema.names
        alone = pa.concat_tables([file.read(columns) for _, file in held])
        assert small.read(name, small.held()).equals(alone)
    seqnos = small.read("transactions", small.held(), ["mc_block_seqno"])["mc_block_seqno"]
    assert seqnos.unique().to_pylist() == [*range(FIRST, FIRST + 6), LAST]


def test_files_are_read_side_by_side(small, monkeypatch):
    together, read = threading.Barrier(2), files.HeldFile.read

    def waiting(file: files.HeldFile, columns: list[str]) -> pa.Table:
        together.wait(30)
        return read(file, columns)

    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    monkeypatch.setattr(files.HeldFile, "read", waiting)
    assert len(small.read("transactions", small.held(), ["lt"])) > 0


def test_ctrl_c_ends_reading_soon():
    begun = []

    def slow(item: int) -> None:
        begun.append(item)
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt), interrupt(0.2):
        list(in_threads(slow, range(1_000), 2))
    assert len(begun) < 100


def test_few_results_wait_to_be_used():
    begun = []
    results = in_threads(begun.append, range(1_000), 2)
    for _ in range(10):
        next(results)
    time.sleep(0.05)
    assert len(begun) <= 10 + 2 * files._AHEAD + 2
    results.close()
    assert len(begun) < 50
