"""Files of whole spans become one: no row is lost or doubled, and readers go on."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from slow import slow, slow_after
from stores import claimed, flip

import tonframes as tf
from tonframes.cli import main
from tonframes.store import Store, compaction, damage, ranges
from tonframes.store.files import RANGED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree"}

FIRST = 90_000_000
WHOLE = range(FIRST, FIRST + 1000)
HELD = range(FIRST, FIRST + 1150)


@cache
def tables(held: range = HELD) -> dict[str, pa.Table]:
    """Return the rows of the sample under other seqnos."""
    sample = tf.read_blocks(tf.sample())
    return {name: spread(sample.arrow(name), held) for name in (*RANGED, "address_book")}


def spread(rows: pa.Table, held: range) -> pa.Table:
    place = rows.schema.get_field_index("mc_block_seqno")
    if place < 0:
        return rows
    seqnos = held.start + np.arange(len(rows)) * len(held) // len(rows)
    return rows.set_column(place, rows.schema.field(place), pa.array(seqnos))


def made(path: Path, *runs: range) -> Store:
    store = claimed(path)
    store.write_blocks(tables(), runs or [HELD], proof="chain")
    return store


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return made(tmp_path_factory.mktemp("written") / "store").path


@pytest.fixture
def store(written, tmp_path):
    return Store(shutil.copytree(written, tmp_path / "store"))


def is_whole(store: Store) -> bool:
    """Say whether tonframes, and another engine, read each row once."""
    assert store.held() == (HELD,)
    blocks = tf.read_blocks(store.path)
    for name in RANGED:
        expected = tables()[name]
        assert blocks.arrow(name).equals(expected)
        assert ds.dataset(store.path / name).count_rows() == len(expected)
    return True


def names(store: Store, folder: str = "transactions") -> list[str]:
    return sorted(file.name for file in (store.path / folder).iterdir())


WIDE = "00090000000-00090001000.parquet"


def test_a_whole_span_becomes_one_file(store):
    assert tf.compact_store(store.path, grace="0s") == [WHOLE]
    assert is_whole(store)
    for name in RANGED:
        assert names(store, name)[0] == WIDE
        assert len(names(store, name)) == 3
    footer = store.footer(store.files("transactions")[WHOLE])
    assert (footer.start, footer.stop, footer.proof) == (WHOLE.start, WHOLE.stop, "chain")
    assert not (store.path / "merging").exists()
    assert not (store.path / "compacting").exists()
    assert tf.verify_store(store.path) == {}
    assert store.verify([HELD]) == ()
    assert tf.compact_store(store.path) == []


def test_only_the_row_groups_of_the_seqnos_are_read(store, monkeypatch):
    monkeypatch.setattr(compaction, "GROUP", 100)
    tf.compact_store(store.path, grace="0s")
    read = []
    group_of = pq.ParquetFile.read_row_group

    def counted(self, group, *args, **options):
        read.append(group)
        return group_of(self, group, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    found = tf.read_blocks(store.path, range(FIRST + 500, FIRST + 505)).arrow("transactions")
    assert found.equals(store.read("transactions", [range(FIRST + 500, FIRST + 505)]))
    assert found["mc_block_seqno"].unique().to_pylist() == list(range(FIRST + 500, FIRST + 505))
    assert 0 < len(set(read)) <= 2
    assert store.count("transactions", [range(FIRST, FIRST + 10)]) == len(
        tables()["transactions"].filter(pa.compute.field("mc_block_seqno") < FIRST + 10)
    )


@pytest.mark.slow
def test_the_same_rows_become_the_same_bytes(store, tmp_path):
    parts = [range(start, start + 50) for start in WHOLE[::50]]
    other = made(tmp_path / "other", *parts)
    assert len(names(other)) == 20
    contents = []
    for each in (store, other):
        tf.compact_store(each.path, grace="0s")
        contents.append([(each.path / name / WIDE).read_bytes() for name in RANGED])
    assert contents[0] == contents[1]


def test_spans_that_are_not_whole_stay(tmp_path):
    store = made(tmp_path / "store", WHOLE[:400], WHOLE[401:])
    before = names(store)
    assert tf.compact_store(store.path, grace="0s") == []
    assert names(store) == before


def test_the_first_span_begins_with_the_first_seqno(tmp_path):
    first = range(1, 1000)
    store = claimed(tmp_path / "store")
    store.write_blocks(tables(first), [first], proof="chain")
    assert tf.compact_store(store.path, grace="0s") == [first]
    assert names(store) == ["00000000001-00000001000.parquet"]
    assert store.held() == (first,)


@pytest.mark.slow
def test_files_with_and_without_blocks_stay_apart(tmp_path):
    store = made(tmp_path / "store", WHOLE[:500])
    rest = {name: rows for name, rows in tables().items() if name != "blocks"}
    store.write_blocks(rest, [WHOLE[500:]], proof="chain")
    assert tf.compact_store(store.path, grace="0s") == []
    assert len(names(store)) == 10


@pytest.mark.slow
def test_ten_thousand_seqnos_become_one_file(tmp_path):
    held = range(FIRST, FIRST + 11_000)
    store = claimed(tmp_path / "store")
    store.write_blocks(tables(held), [held[1000:]], proof="chain")
    assert len(tf.compact_store(store.path, grace="0s")) == 10
    store.write_blocks(tables(held), [held], proof="chain")
    spans = [held[:10_000]]
    assert tf.compact_store(store.path, grace="0s") == spans
    assert list(store.files("transactions")) == [*spans, held[10_000:]]
    assert tf.read_blocks(store.path).arrow("messages").equals(tables(held)["messages"])


def test_the_command(store, capsys):
    assert main(["compact", str(store.path), "--grace", "0s", "--by-account"]) == 0
    out = capsys.readouterr().out
    assert out == (
        "joined the files of 90000000:90001000\n"
        f"1 span joined now; {store.path} has the same rows as before"
        "; files of 1,000 seqnos and more have a copy by account\n"
    )
    assert copies(store) == [WIDE]


# ── readers ──────────────────────────────────────────────────────────────────────────────────────


def listed(store: Store) -> list[str]:
    """List the files that a reader is given."""
    return [str(path) for path in store.files("transactions").values()]


def hashes(files: list[str] | str) -> int:
    return (
        duckdb.connect()
        .execute("select count(distinct hash) from read_parquet(?)", [files])
        .fetchone()[0]
    )


def counted(frame: object) -> int:
    """Count the rows of the frame of any engine."""
    if hasattr(frame, "count_rows"):  # pyarrow
        return frame.count_rows()
    if hasattr(frame, "compute"):  # Dask
        return len(frame.compute())
    if hasattr(frame, "collect_schema"):  # polars
        return frame.collect().height
    if hasattr(frame, "fetchall"):  # DuckDB
        return len(frame.fetchall())
    return frame.count()


@pytest.mark.parametrize(
    "engine",
    ["pyarrow", *slow("duckdb", "polars", "dask"), pytest.param("spark", marks=pytest.mark.spark)],
)
def test_frames_that_were_made_before_stay_complete(store, engine):
    if engine == "spark":
        from parity import spark_session

        spark_session()
    before = tf.scan(store.path, "transactions", engine=engine)
    tf.compact_store(store.path)
    Store(store.path).prepare()  # another writer, before the grace is over
    meanwhile = tf.scan(store.path, "transactions", engine=engine)
    assert counted(before) == counted(meanwhile) == 3000


def test_after_the_grace_the_next_writer_removes_them(store, monkeypatch):
    tf.compact_store(store.path)
    given = listed(store)
    count = hashes(given)
    monkeypatch.setattr(damage, "time", Later(3601))
    with monkeypatch.context() as patched:  # files that have just been put in place are not old
        patched.setattr(Store, "_remove_second_names", lambda *_: None)
        store.prepare()
    assert names(store)[0] == WIDE
    assert len(names(store)) == 3
    assert is_whole(store)
    assert hashes(given) == count  # paths that readers were given in the meantime
    assert set(map(os.path.dirname, listed(store))) == {str(store.path / "transactions")}
    store.prepare()
    assert not (store.path / "merging").exists()
    assert is_whole(store)


class Later:
    """A clock that is ahead."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def time(self) -> float:
        return time.time() + self.seconds


@pytest.mark.parametrize("grace", ["1h", "0s"])
def test_queries_meanwhile_are_complete_and_equal(store, grace):
    """With no grace, a file that was listed may be gone, and then the query fails."""
    count = hashes(listed(store))
    done, wrong, right = threading.Event(), [], []

    def query() -> None:
        while not done.is_set():
            try:
                found = [hashes(f"{store.path}/transactions/*.parquet"), hashes(listed(store))]
                found.append(len(ds.dataset(store.path / "transactions").to_table(["hash"])))
                found.append(len(tf.read_blocks(store.path).arrow("transactions")))
            except (duckdb.Error, FileNotFoundError) as error:
                if grace == "1h":
                    wrong.append(error)
                continue
            (right if found == [count, count, 3000, 3000] else wrong).append(found)

    reader = threading.Thread(target=query)
    reader.start()
    assert tf.compact_store(store.path, grace=grace) == [WHOLE]
    time.sleep(0.1)
    done.set()
    reader.join()
    assert wrong == []
    assert right
    assert is_whole(store)


_looks: list[Callable[[], None]] = []


def _look(event: str, _args: object) -> None:
    if _looks and event in _CHANGES:
        _looks[0]()


def test_a_folder_is_never_seen_without_some_of_its_rows(store):
    """Its files are listed before each change, while the compacted ones take their places."""
    if not can_exchange(store.path):
        pytest.skip("this system cannot exchange folders")
    before, seen = names(store), set()
    tf.compact_store(store.path)
    sys.addaudithook(_look)  # there is no way to remove it
    _looks.append(lambda: seen.add(tuple(names(store))))
    try:
        store.settle(0)
    finally:
        _looks.clear()
    assert seen == {tuple(before), tuple(names(store))}
    assert len(names(store)) == 3
    assert is_whole(store)


def can_exchange(folder: Path) -> bool:
    for name in ("a", "b"):
        (folder / name).mkdir()
    (folder / "a" / "file").touch()
    done = ranges.exchange(folder / "a", folder / "b")
    assert (folder / ("b" if done else "a") / "file").exists()
    for name in ("a", "b"):
        shutil.rmtree(folder / name)
    return done


@pytest.mark.parametrize("lacking", ["exchange", "links"])
def test_systems_without_exchange_or_links(store, monkeypatch, lacking):
    if lacking == "exchange":
        monkeypatch.setattr(ranges, "exchange", lambda *_: False)
    else:

        def refuse(*_args: object, **_options: object) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)
    tf.compact_store(store.path, grace="0s")
    assert len(names(store)) == 3
    assert is_whole(store)
    assert not (store.path / "merging").exists()


def test_a_store_that_stays_open_puts_them_in_place(store, monkeypatch):
    """As `follow` keeps one open for days, and looks at nothing that nobody has changed."""
    tf.compact_store(store.path)
    writer = Store(store.path)
    runs = [range(start, start + 50) for start in range(HELD.start + 1200, HELD.start + 1400, 50)]
    writer.write_blocks(tables(), runs[:2], proof="chain")
    assert store.verify([HELD]) == ()  # which notes what is good
    assert WIDE not in names(store)
    monkeypatch.setattr(damage, "time", Later(3601))
    writer.write_blocks(tables(), runs[2:3], proof="chain")
    writer.write_blocks(tables(), runs[3:], proof="chain")
    assert names(store)[0] == WIDE
    assert not (store.path / "merging").exists()


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_part_is_set_aside_and_nothing_else_changes(store):
    part = range(FIRST + 300, FIRST + 400)
    flip(store.files("messages")[part])
    with pytest.warns(tf.TonframesWarning, match="its masterchain seqnos are not held any more"):
        assert tf.compact_store(store.path, grace="0s") == []
    assert store.gaps([HELD]) == (part,)
    assert len(names(store)) == 11
    store.write_blocks(tables(), [part], proof="chain")
    assert tf.compact_store(store.path, grace="0s") == [WHOLE]
    assert is_whole(store)


@pytest.mark.parametrize("name", slow_after(1, RANGED))
def test_a_compacted_file_that_is_damaged_within_the_grace_costs_nothing(store, name):
    tf.compact_store(store.path)
    flip(store.path / "merging" / name / WIDE)
    assert [file.parent.name for file in tf.verify_store(store.path)] == [name]
    with pytest.warns(tf.TonframesWarning, match="the files are read whose place it was to take"):
        assert store.verify([HELD]) == ()
    assert is_whole(store)
    assert len(names(store)) == 12
    assert tf.verify_store(store.path) == {}


@pytest.mark.parametrize("second", [True, False])
def test_a_compacted_file_that_is_damaged_later_is_fetched_again(store, monkeypatch, second):
    with monkeypatch.context() as patched:
        if second:  # its second name is still there
            patched.setattr(Store, "_remove_second_names", lambda *_: None)
        tf.compact_store(store.path, grace="0s")
    with (store.path / "transactions" / WIDE).open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    with pytest.warns(tf.TonframesWarning, match="its masterchain seqnos are not held any more"):
        assert store.verify([range(FIRST, FIRST + 1)]) == (WHOLE,)
    assert store.gaps([HELD]) == (WHOLE,)
    store.write_blocks(tables(), [WHOLE], proof="chain")
    assert is_whole(store)
    assert tf.verify_store(store.path) == {}


# ── copies by account ────────────────────────────────────────────────────────────────────────────


def copies(store: Store) -> list[str]:
    return names(store, "by_account")


@pytest.mark.parametrize("batch", [100, *slow(1_000_000)])
def test_a_copy_by_account_has_the_same_rows(store, monkeypatch, batch):
    monkeypatch.setattr(compaction, "BATCH", batch)
    monkeypatch.setattr(compaction, "_SAMPLE", 10)
    tf.compact_store(store.path, by_account=True)
    assert copies(store) == [WIDE]
    files = store.account_files([HELD])
    assert [file.path.parent.name for _, file in files] == ["by_account", *["transactions"] * 2]
    copy = files[0][1]
    rows = copy.read(copy.table.schema.names)
    of_the_span = store.read("transactions", [WHOLE])
    assert rows.equals(of_the_span.sort_by([("account", "ascending"), ("lt", "ascending")]))
    assert not (store.path / "compacting").exists()
    before = copy.path.stat()
    tf.compact_store(store.path, grace="0s", by_account=True)
    assert copy.path.stat() == before
    assert is_whole(store)
    assert tf.verify_store(store.path) == {}


@pytest.mark.parametrize("asked", [None, range(FIRST + 300, FIRST + 1100)])
def test_scan_reads_accounts_from_the_copy(store, asked):
    tf.compact_store(store.path, by_account=True)
    rows = store.read("transactions", [HELD if asked is None else asked])
    account = rows["account"].to_pylist()[len(rows) // 2]
    scanned = tf.scan(store.path, "transactions", engine="polars", seqnos=asked, accounts=account)
    assert "by_account" in scanned.explain()
    of_it = pa.compute.equal(rows["account"], account)
    expected = rows.filter(of_it).sort_by("lt")["hash"].to_pylist()
    assert scanned.sort("lt").collect()["hash"].to_list() == expected
    every = tf.scan(store.path, "transactions", engine="polars")
    assert "by_account" not in every.explain()
    assert "merging" in every.explain()


def test_a_damaged_copy_by_account_is_set_aside_and_written_again(store):
    tf.compact_store(store.path, by_account=True, grace="0s")
    before = (store.path / "by_account" / WIDE).read_bytes()
    flip(store.path / "by_account" / WIDE)
    assert list(tf.verify_store(store.path)) == [store.path / "by_account" / WIDE]
    with pytest.warns(tf.TonframesWarning, match="compacting with by_account writes this copy"):
        assert store.verify([HELD]) == ()
    assert copies(store) == []
    assert len(store.account_files([HELD])) == 3
    tf.compact_store(store.path, by_account=True)
    assert (store.path / "by_account" / WIDE).read_bytes() == before


@pytest.mark.slow
def test_a_copy_by_account_goes_when_its_span_becomes_a_part_of_another(tmp_path, monkeypatch):
    store = made(tmp_path / "store", WHOLE)
    monkeypatch.setattr(compaction, "WIDTHS", (100, 500))
    monkeypatch.setattr("tonframes.seqnos.WIDTHS", (100, 500, 1000))
    tf.compact_store(store.path, by_account=True)
    assert len(copies(store)) == 2
    monkeypatch.setattr(compaction, "WIDTHS", (100, 500, 1000))
    tf.compact_store(store.path, by_account=True)
    assert len(copies(store)) == 3  # readers may have the others
    assert len(store.account_files([WHOLE])) == 1
    tf.compact_store(store.path, by_account=True, grace="0s")
    assert copies(store) == [WIDE]


# ── kills, and other processes ───────────────────────────────────────────────────────────────────


def _compact_until(path: Path, moment: int, grace: str) -> None:
    count = 0

    def strike(event: str, _args: object) -> None:
        nonlocal count
        if event in _CHANGES:
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(strike)
    tf.compact_store(path, grace=grace)


def _compact(path: Path) -> None:
    tf.compact_store(path, grace="0s")


def _commit(path: Path, run: range) -> None:
    for seqno in run:
        Store(path).write_blocks(tables(), [range(seqno, seqno + 1)], proof="chain")


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "pandas", "tonframes", "duckdb"])
    return context


#: While a compacted file is committed, while one takes its place, and at the end.
MOMENTS = [(66, "1h"), (120, "0s"), (161, "0s")]
MORE = [*((n, "1h") for n in range(30, 80, 6)), *((n, "0s") for n in range(2, 172, 5))]


@pytest.mark.parametrize("when", [MOMENTS[1], *slow(MOMENTS[0], *MOMENTS[2:], *MORE)])
def test_a_process_that_is_killed_loses_and_doubles_nothing(store, processes, when):
    moment, grace = when
    child = processes.Process(target=_compact_until, args=(store.path, moment, grace))
    child.start()
    child.join(60)
    assert child.exitcode in (0, -signal.SIGKILL)
    blocks = tf.read_blocks(store.path)
    assert blocks.seqnos == (HELD,)
    for name in RANGED:
        assert blocks.arrow(name).equals(tables()[name])
        assert ds.dataset(store.path / name).count_rows() == len(tables()[name])
    assert tf.verify_store(store.path) == {}
    Store(store.path).prepare()
    assert is_whole(store)
    tf.compact_store(store.path, grace="0s")
    assert len(names(store)) == 3
    assert is_whole(store)
    assert not (store.path / "merging").exists()
    assert not (store.path / "compacting").exists()


@pytest.mark.slow
def test_two_compactions_and_a_fetch_at_once(tmp_path, processes):
    store = made(tmp_path / "store", WHOLE, range(WHOLE.stop, HELD.stop - 10))
    fetched = range(HELD.stop - 10, HELD.stop)
    work = [(_compact, (store.path,)), (_compact, (store.path,)), (_commit, (store.path, fetched))]
    children = [processes.Process(target=target, args=args) for target, args in work]
    for child in children:
        child.start()
    for child in children:
        child.join(90)
        assert child.exitcode == 0
    assert store.files("transactions")[WHOLE].name == WIDE
    assert is_whole(store)


@pytest.mark.slow
def test_files_that_change_meanwhile_stay(store, monkeypatch):
    """A part was set aside by another process, after it was read."""
    part = range(FIRST + 300, FIRST + 400)
    replaced = Store.replace_range

    def late(self, *args):
        damage.set_aside(self.path, [self.files("transactions")[part]])
        return replaced(self, *args)

    monkeypatch.setattr(Store, "replace_range", late)
    assert tf.compact_store(store.path, grace="0s") == []
    assert store.gaps([HELD]) == (part,)


def test_a_process_that_compacts_keeps_others_from_it(store, monkeypatch):
    monkeypatch.setattr("tonframes.store.locks.LOCK_TIMEOUT", 0.1)
    with (
        compaction.locked(store.path, ".compacting.lock"),
        pytest.raises(tf.StoreError, match=r"\.compacting\.lock has been held by process"),
    ):
        tf.compact_store(store.path)


@pytest.mark.parametrize("grace", ["soon", "-1h", 5, "5", None, "NaT"])
def test_a_grace_that_is_no_duration_is_refused(store, grace):
    with pytest.raises(ValueError, match='grace is a duration such as "1h"'):
        tf.compact_store(store.path, grace=grace)


def test_there_must_be_a_store(tmp_path):
    with pytest.raises(tf.StoreError, match="there is no store"):
        tf.compact_store(tmp_path)
