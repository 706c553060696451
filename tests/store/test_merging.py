"""Small files become one, and whoever is killed meanwhile loses and doubles nothing."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from killed import killed_at_each_rename
from slow import slow
from stores import claimed, tables_of

import tonframes as tf
from tonframes.store import Store
from tonframes.wire.tables import with_columns

RUN = range(90_000_000, 90_000_006)


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    blocks = tf.read_blocks(tf.sample(), RUN)
    tables = tables_of(blocks)
    store = claimed(tmp_path_factory.mktemp("written"))
    for seqno in RUN:
        store.write_blocks(tables, [range(seqno, seqno + 1)], proof="chain")
    return store.path


@pytest.fixture
def store(written, tmp_path):
    return Store(shutil.copytree(written, tmp_path, dirs_exist_ok=True))


def is_whole(store):
    blocks, expected = tf.read_blocks(store.path), tf.read_blocks(tf.sample(), RUN)
    assert blocks.seqnos == (RUN,)
    for name in ("transactions", "messages", "blocks"):
        assert blocks.arrow(name).equals(expected.arrow(name))


def test_adjacent_files_become_one(store):
    store.merge(RUN)
    assert list(store.files("transactions")) == [RUN]
    is_whole(store)
    footer = store.footer(store.files("transactions")[RUN])
    assert (footer.start, footer.stop, footer.proof) == (RUN.start, RUN.stop, "chain")
    assert not (store.path / "merging").exists()
    assert store.verify([RUN]) == ()


def test_files_with_a_gap_between_them_stay(store):
    store.files("transactions")[RUN[2:3]].unlink()
    store.merge(RUN)
    assert list(store.files("transactions")) == [RUN[:2], RUN[3:]]


@pytest.mark.parametrize("step", [*range(0, 24, 3), *slow(*(n for n in range(24) if n % 3))])
def test_a_process_that_is_killed_while_merging_loses_nothing(store, monkeypatch, step):
    steps = iter(range(100))

    def dying(name):
        method = getattr(Path, name)

        def dies(self, *args, **options):
            counts = "merging" in str(self) or (name == "unlink" and self.suffix == ".parquet")
            if counts and next(steps) == step:
                raise Killed
            return method(self, *args, **options)

        monkeypatch.setattr(Path, name, dies)

    dying("unlink")
    dying("replace")
    with pytest.raises(Killed):
        store.merge(RUN)
    monkeypatch.undo()
    is_whole(store)
    expected = len(tf.read_blocks(store.path).transactions)
    assert ds.dataset(store.path / "transactions").count_rows() <= expected
    store.merge(RUN)
    assert list(store.files("transactions")) == [RUN]
    is_whole(store)
    for name in ("transactions", "messages", "blocks"):
        rows = len(tf.read_blocks(store.path).arrow(name))
        assert ds.dataset(store.path / name).count_rows() == rows


# ── the address book ─────────────────────────────────────────────────────────────────────────────


def entries(minute: int, names: list[str]) -> pa.Table:
    """Return entries that were fetched in a minute, of the second one in each."""
    rows = tf.read_accounts(tf.sample()).arrow("address_book").slice(0, len(names))
    moments = [datetime(2026, 11, 21, 9, minute, second, tzinfo=UTC) for second in range(len(rows))]
    kind = rows.schema.field("fetched_at").type
    return with_columns(rows, domain=pa.array(names), fetched_at=pa.array(moments, kind))


def book_of(path: Path, minutes: range) -> Store:
    store = claimed(path)
    for minute in minutes:
        names = [f"{minute}.ton", "same.ton", f"{minute}.second.ton"]
        store._append("address_book", entries(minute, names))
    return store


def book_at(store: Store, minute: int) -> list[dict[str, object]]:
    moment = datetime(2026, 11, 21, 9, minute, 30, tzinfo=UTC)
    return store.snapshot("address_book", as_of=moment).to_pylist()


def test_compacting_joins_the_address_book_and_keeps_its_past(tmp_path):
    store = book_of(tmp_path / "store", range(40))
    store._append("address_book", entries(50, ["late.ton"]))
    before = [book_at(store, minute) for minute in range(0, 60, 7)]
    now = store.snapshot("address_book")
    tf.compact_store(store.path)
    assert len(store.held_snapshots("address_book")) == 1
    assert [book_at(store, minute) for minute in range(0, 60, 7)] == before
    assert store.snapshot("address_book").equals(now)
    assert now["domain"].to_pylist()[-1] == "late.ton"
    assert tf.verify_store(store.path) == {}
    book_of(store.path, range(52, 55))  # so few stay as they are
    tf.compact_store(store.path)
    assert len(store.held_snapshots("address_book")) == 4


def test_a_damaged_file_of_the_address_book_stays_with_its_neighbours(tmp_path):
    store = book_of(tmp_path / "store", range(40))
    store.held_snapshots("address_book")[7].path.write_bytes(b"rubbish")
    tf.compact_store(store.path)
    assert len(store.held_snapshots("address_book")) == 40


def test_a_reader_of_the_address_book_that_is_joined_meanwhile_reads_again(tmp_path, monkeypatch):
    store = book_of(tmp_path / "store", range(40))
    now = store.snapshot("address_book")
    listed = Store._by_time

    def late(self, files):
        tf.compact_store(store.path)
        return listed(self, files)

    monkeypatch.setattr(Store, "_by_time", late)
    assert store.snapshot("address_book").equals(now)


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_joins_the_address_book_loses_nothing(tmp_path):
    made = book_of(tmp_path / "made", range(40))
    before, path = [book_at(made, minute) for minute in range(0, 60, 7)], tmp_path / "store"
    shutil.copytree(made.path, path)
    counts = []
    for moment in killed_at_each_rename(tf.compact_store, path):
        store = Store(path)
        assert [book_at(store, minute) for minute in range(0, 60, 7)] == before
        counts.append(len(store.held_snapshots("address_book")))
        tf.compact_store(path)
        assert [book_at(store, minute) for minute in range(0, 60, 7)] == before
        assert moment < 100
        shutil.rmtree(path)
        shutil.copytree(made.path, path)
    assert set(counts) >= {40, 41, 20, 1}
