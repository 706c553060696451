"""Histories in a store: their spans, and the merging of small files."""

from __future__ import annotations

import json
from threading import Thread

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from fake_service import whole_histories
from hypothesis import given
from hypothesis import strategies as st
from stores import claimed, flip, tables_from

import tonframes as tf
from tonframes.store import (
    Period,
    Span,
    Store,
    gaps_of,
    held_spans,
    joined_spans,
    merging,
    spans_of,
)
from tonframes.store.files import replace_all

ROWS = whole_histories(blocks=15)
TABLES = tables_from([{"transactions": ROWS}])


def part(positions):
    """Return some of the transactions, with their messages."""
    rows = TABLES["transactions"].take(pa.array(positions, pa.int64()))
    of = pa.compute.is_in(TABLES["messages"]["tx_hash"], value_set=rows["hash"].combine_chunks())
    return TABLES | {"transactions": rows, "messages": TABLES["messages"].filter(of)}


@pytest.fixture
def store(tmp_path):
    return claimed(tmp_path / "s")


def read(store):
    history = tf.read_transactions(store.path)
    return [history.arrow(name) for name in ("transactions", "messages")]


# ── spans ────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, len(ROWS) - 1), unique=True), st.integers(1, 5))
def test_spans_do_not_depend_on_how_rows_are_parted(positions, parts):
    whole = spans_of(part(positions)["transactions"])
    found = {}
    for i in range(parts):
        for account, spans in spans_of(part(positions[i::parts])["transactions"]).items():
            found[account] = joined_spans([*found.get(account, ()), *spans])
    assert found == whole


def test_a_complete_history_is_one_span():
    spans = spans_of(TABLES["transactions"])
    assert all(len(of_account) == 1 for of_account in spans.values())
    assert all(of_account[0].begins_with_creation for of_account in spans.values())


def test_spans_with_other_hashes_do_not_join():
    first, second = Span(0, 8, 0, 100, None, "a"), Span(8, 21, 101, 200, "b", "c")
    assert joined_spans([first, second]) == [first, second]


def test_a_span_without_transactions_makes_the_one_before_longer_in_time_alone():
    spans = joined_spans([Span(0, 8, 0, 100, None, "a"), Span(8, 8, 100, 500)])
    assert spans == [Span(0, 8, 0, 500, None, "a")]
    assert spans[0].covers(Period("utime", 7, 500))
    assert not spans[0].covers(Period("lt", 7, 9))
    assert gaps_of(spans, Period("utime", 7, 600)) == [range(500, 600)]


# ── commits ──────────────────────────────────────────────────────────────────────────────────────


def test_what_is_held_is_not_written_again(store):
    store.write_histories(part(range(100)), {})
    store.write_histories(part(range(50, 150)), {})
    store.write_histories(part(range(150)), {})
    assert len(list((store.path / "account_transactions").iterdir())) == 2
    assert len(read(store)[0]) == 150


def test_two_threads_write_no_row_twice(store):
    threads = [
        Thread(target=Store(store.path).write_histories, args=(part(range(i * 40, 200)), {}))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ds.dataset(store.path / "account_transactions").to_table()) == 200


# ── merging ──────────────────────────────────────────────────────────────────────────────────────


def test_small_files_are_merged_and_nothing_changes(store, monkeypatch):
    monkeypatch.setattr(merging, "MANY", 4)
    for start in range(0, 200, 20):
        store.write_histories(part(range(start, start + 20)), {})
        assert len(read(store)[0]) == start + 20
    assert {len(list((store.path / f).iterdir())) for f in merging.HISTORY_FOLDERS} == {1}
    assert not (store.path / merging.NOTE).exists()
    assert held_spans(store) == spans_of(part(range(200))["transactions"])
    in_one = claimed(store.path.parent / "one")
    in_one.write_histories(part(range(200)), {})
    for merged, whole in zip(read(store), read(in_one), strict=True):
        assert merged.equals(whole)
    rows = ds.dataset(store.path / "account_transactions").to_table()
    assert rows.equals(rows.sort_by([("account", "ascending"), ("lt", "ascending")]))


@pytest.mark.parametrize("moment", ["before the files", "before the last file", "before the end"])
def test_an_interrupted_merge_doubles_and_loses_nothing(store, monkeypatch, moment):
    monkeypatch.setattr(merging, "MANY", 4)
    commit = Store._commit
    finished = merging.Merge.finish

    def killed(*_args, **_options):
        raise KeyboardInterrupt

    def commit_some(self, files):
        if not (self.path / merging.NOTE).exists() or moment == "before the end":
            return commit(self, files)
        if moment == "before the last file":
            replace_all(dict(list(files.items())[:-1]))
        return killed()

    for start in range(0, 60, 20):
        store.write_histories(part(range(start, start + 20)), {})
    monkeypatch.setattr(Store, "_commit", commit_some)
    if moment == "before the end":
        monkeypatch.setattr(merging.Merge, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write_histories(part(range(60, 80)), {})
    assert (store.path / merging.NOTE).exists()
    assert len(read(store)[0]) == 80
    assert held_spans(store) == spans_of(part(range(80))["transactions"])
    monkeypatch.setattr(Store, "_commit", commit)
    monkeypatch.setattr(merging.Merge, "finish", finished)
    store.write_histories(part(range(100)), {})
    assert len(read(store)[0]) == 100
    assert len(ds.dataset(store.path / "account_transactions").to_table()) == 100
    assert not (store.path / merging.NOTE).exists()


def test_a_damaged_merged_file_does_not_take_the_place_of_the_small_ones(store, monkeypatch):
    monkeypatch.setattr(merging, "MANY", 4)
    with monkeypatch.context() as patched:
        patched.setattr(merging.Merge, "finish", lambda *_: None)
        for start in range(0, 80, 20):
            store.write_histories(part(range(start, start + 20)), {})
    new = json.loads((store.path / merging.NOTE).read_text())["new"]
    file = store.path / "account_messages" / new
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(tf.TonframesWarning, match="only a part of one"):
        store.prepare()
    assert not (store.path / merging.NOTE).exists()
    assert len(read(store)[0]) == 80


def test_readers_see_every_row_once_while_files_are_merged(store, monkeypatch):
    monkeypatch.setattr(merging, "MANY", 2)
    store.write_histories(part(range(20)), {})

    def write():
        for start in range(20, 150, 10):
            Store(store.path).write_histories(part(range(start, start + 10)), {})

    writer = Thread(target=write)
    writer.start()
    counts = []
    while writer.is_alive():
        rows = read(store)[0]
        assert len(rows) == len(set(rows["hash"].to_pylist()))
        counts.append(len(rows))
    writer.join()
    assert counts == sorted(counts)
    assert len(read(store)[0]) == 150


def test_damaged_files_are_not_merged(store, monkeypatch):
    monkeypatch.setattr(merging, "MANY", 4)
    for start in range(0, 60, 20):
        store.write_histories(part(range(start, start + 20)), {})
    [file, *_] = sorted((store.path / "account_messages").iterdir())
    flip(file)
    store.write_histories(part(range(60, 80)), {})
    assert len(list((store.path / "account_transactions").iterdir())) == 4
    with pytest.warns(tf.TonframesWarning, match="not held any more"):
        store.verify_histories(set(TABLES["transactions"]["account"].to_pylist()))
    assert len(read(store)[0]) == 60
