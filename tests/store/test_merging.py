"""Small files become one, and whoever is killed meanwhile loses and doubles nothing."""

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from slow import slow

import tonframes as tf
from tonframes.store import Store

RUN = range(90_000_000, 90_000_006)


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    blocks = tf.read_blocks(tf.sample(), RUN)
    tables = {name: blocks.arrow(name) for name in blocks.names}
    store = Store(tmp_path_factory.mktemp("written"))
    store.claim("-217", "a test")
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
