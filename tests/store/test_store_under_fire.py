"""The store under fire: killed, interrupted, out of disk, read-only, shared, damaged.

Whatever happens: no wrong rows, no torn file, nothing lost that was committed.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import filelock
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chain import synthetic_blocks
from stores import claimed, tables_from

import tonframes as tf
from tonframes import sealed
from tonframes.seqnos import SPAN
from tonframes.store import Store, damage, files, locks, within
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tonframes.wire.tables import Tables

FIRST = 90_000_080
SEQNOS = range(FIRST, FIRST + 40)
LOWER, UPPER = range(FIRST, FIRST + 20), range(FIRST + 20, FIRST + 40)
assert LOWER.stop % SPAN == 0  # so these are the two files of each table
RANGED = ("transactions", "messages", "blocks")
MOMENT = datetime(2026, 11, 21, 9, 45, tzinfo=UTC)
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


@cache
def everything() -> Tables:
    bodies = synthetic_blocks(len(SEQNOS), first_seqno=FIRST, transactions_per_block=4)
    return tables_from(bodies, MOMENT)


def commit(store: Store, *seqnos: range, tables: Tables | None = None) -> None:
    store.write_blocks(tables or everything(), seqnos or [SEQNOS], proof="synthetic")


def is_right(store: Store) -> bool:
    """Say whether what a store holds, however little that is, is what was written."""
    held = store.held()
    assert store.verify(held) == ()
    if held:  # what a killed process has left is no sign of a loss
        assert tf.read_blocks(store.path).seqnos == held
    return all(store.read(name, held).equals(truth(name, held)) for name in RANGED)


@cache
def truth(name: str, held: tuple[range, ...]) -> pa.Table:
    return within(everything()[name], held)


def leftovers(store: Store) -> list[Path]:
    return list(store.path.rglob("_*"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return claimed(tmp_path / "store")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = claimed(tmp_path_factory.mktemp("made") / "store")
    commit(store)
    return store.path


@pytest.fixture
def full(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made, tmp_path / "store"))


# ── killed and interrupted ───────────────────────────────────────────────────────────────────────

_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock"}
_trap: list[Callable[[], None]] = []


def _spring(event: str, _args: object) -> None:
    if _trap and event in _CHANGES:
        _trap[0]()


@cache
def _listen() -> None:
    sys.addaudithook(_spring)  # once, because there is no way to remove it


@contextmanager
def striking(moment: int, blow: Callable[[], None]) -> Iterator[None]:
    """Strike just before the process touches the file system for the so-manieth time."""
    _listen()
    count = 0

    def strike() -> None:
        nonlocal count
        count += 1
        if count == moment:
            _trap.clear()
            blow()

    _trap.append(strike)
    try:
        yield
    finally:
        _trap.clear()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _claim_and_commit(path: Path, tables: Tables, moment: int) -> None:
    with striking(moment, _die):
        store = claimed(path)
        commit(store, LOWER, tables=tables)
        commit(store, UPPER, tables=tables)


def _hold_the_lock(path: Path, told: object) -> None:
    with locks.locked(path):
        told.send(os.getpid())
        time.sleep(60)


@pytest.fixture(scope="module")
def processes():
    """Give processes that start within milliseconds and share no thread with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "pandas", "tonframes"])
    return context


def test_killed_before_any_touch_of_the_file_system(tmp_path, processes):
    moments = range(1, 200) if SOAK else range(1, 200, 29)
    for moment in moments:
        path = tmp_path / str(moment)
        child = processes.Process(target=_claim_and_commit, args=(path, dict(everything()), moment))
        child.start()
        child.join(30)
        store = Store(path)
        assert store.held() in ((), (LOWER,), (SEQNOS,))
        assert is_right(store)
        if child.exitcode == 0:
            assert store.held() == (SEQNOS,)
            break
        assert child.exitcode == -signal.SIGKILL
        commit(claimed(path))
        assert store.held() == (SEQNOS,)
        assert is_right(store)
        assert leftovers(store) == []
        shutil.rmtree(path)
    else:
        pytest.fail("the process touched the file system more often than it was killed")
    assert moment > 50


def test_interrupted_before_any_touch_of_the_file_system(tmp_path):
    for moment in range(1, 200, 1 if SOAK else 23):
        store = claimed(tmp_path / str(moment))
        commit(store, LOWER)
        try:
            with striking(moment, _interrupt):
                commit(store, UPPER)
        except KeyboardInterrupt:
            # A note of who held the lock says nothing once the lock is free.
            assert {file.name for file in leftovers(store)} <= {".lock.pid"}
            assert store.held() in ((LOWER,), (SEQNOS,))
            commit(store)
            assert is_right(store)
            assert store.held() == (SEQNOS,)
        else:
            break
    assert moment > 20


# ── two processes ────────────────────────────────────────────────────────────────────────────────


def _write_overlapping(path: Path, tables: Tables, start: int) -> None:
    store = claimed(path)
    for seqno in range(start, start + 25, 5):
        commit(store, range(seqno, seqno + 7), tables=tables)


def test_two_processes_on_one_store(tmp_path, processes):
    args = [(tmp_path, dict(everything()), FIRST + n) for n in (0, 8)]
    children = [processes.Process(target=_write_overlapping, args=each) for each in args]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert Store(tmp_path).held() == (range(FIRST, FIRST + 35),)
    assert is_right(Store(tmp_path))


def test_the_lock_names_its_holder_and_is_freed_by_its_death(store, processes, monkeypatch):
    mine, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=_hold_the_lock, args=(store.path, theirs))
    child.start()
    pid = mine.recv()
    monkeypatch.setattr(locks, "LOCK_TIMEOUT", 0.1)
    with pytest.raises(tf.StoreError, match=rf"\.lock has been held by process {pid} ") as caught:
        commit(store)
    assert caught.value.path == store.path / ".lock"
    child.kill()
    child.join(30)
    commit(store)
    assert is_right(store)
    assert leftovers(store) == []


def test_a_file_system_without_locks_is_refused(store, monkeypatch):
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.raises(tf.StoreError, match="its file system has no locks"):
        store.prepare()


# ── nowhere to write ─────────────────────────────────────────────────────────────────────────────


def test_a_path_that_cannot_become_a_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "store"):
        with pytest.raises(tf.StoreError, match="cannot write to the store") as caught:
            claimed(path)
        assert caught.value.path == path


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[None]:
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(path)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@as_root
def test_a_read_only_store_is_read_and_not_written(full):
    with mounted(full.path, "--bind", str(full.path)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(full.path)], check=True)
        with pytest.raises(tf.StoreError, match="Read-only file system"):
            full.prepare()
        with pytest.raises(tf.StoreError, match="Read-only file system"):
            full.claim("-217", "a test")
        assert is_right(full)


@as_root
def test_a_read_only_table_is_noticed_before_fetching(full):
    folder = full.path / "messages"
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        with pytest.raises(tf.StoreError, match=r"messages: Read-only file system"):
            full.prepare()


@as_root
def test_a_full_disk(tmp_path):
    path = tmp_path / "disk"
    with mounted(path, "-t", "tmpfs", "-o", "size=2m", "tmpfs"):
        store = claimed(path / "store")
        commit(store, LOWER)
        (path / "ballast").write_bytes(bytes(shutil.disk_usage(path).free - 5 * 2**14))
        with pytest.raises(
            tf.StoreError, match=r"cannot write .* bytes\): No space left"
        ) as caught:
            commit(store, UPPER)
        assert caught.value.path.suffix == ".parquet"
        assert leftovers(store) == []
        assert store.held() == (LOWER,)
        assert is_right(store)
        store.prepare()  # sweeps away what was written before the disk was full
        (path / "more").write_bytes(bytes(shutil.disk_usage(path).free))
        with pytest.raises(tf.StoreError, match="No space left on device"):
            store.prepare()
        for file in ("ballast", "more"):
            (path / file).unlink()
        commit(store)
        assert store.held() == (SEQNOS,)
        assert is_right(store)


def _commit_within(path: Path, tables: Tables, size: int, told: object) -> None:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = claimed(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    for attempt in (lambda: commit(store, UPPER, tables=tables), store.prepare):
        try:
            attempt()
        except tf.StoreError as error:
            told.send(str(error))


def test_files_may_not_grow(store, processes):
    commit(store, LOWER)
    mine, theirs = processes.Pipe(duplex=False)
    args = (store.path, dict(everything()), 20_000, theirs)
    child = processes.Process(target=_commit_within, args=args)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    for expected in (f"{UPPER.start:011d}-{UPPER.stop:011d}.parquet (", "File too large"):
        assert mine.poll(0)
        assert expected in mine.recv()
    assert leftovers(store) == []
    assert store.held() == (LOWER,)
    assert is_right(store)


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def file_of(store: Store, name: str, run: range = LOWER) -> Path:
    return store.path / name / f"{run.start:011d}-{run.stop:011d}.parquet"


def _rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a Parquet file anew with the footer that it had."""
    kept = pq.read_metadata(file).metadata[b"tonframes"]
    rows = change(pq.read_table(file))
    with pq.ParquetWriter(file, rows.schema, write_page_checksum=True) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"tonframes": kept})


def _sealed_anew(file: Path, **about: object) -> None:
    """Write a file with another footer, seal and all."""
    table = schema.TABLES[file.parent.name]
    footer = json.loads(pq.read_metadata(file).metadata[b"tonframes"])
    names = [field.name for field in fields(files.Footer)]
    footer = files.Footer(**{name: (footer | about)[name] for name in names})
    files.replace(file, files.content(table, pq.read_table(file), footer))


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "cut by a byte": lambda file: os.truncate(file, file.stat().st_size - 1),
    "cut in half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "HTML": lambda file: file.write_text("<html><body>502 Bad Gateway</body></html>"),
    "gone": lambda file: file.unlink(),
    "a link to nowhere": lambda file: (file.unlink(), file.symlink_to("nowhere")),
    "other Parquet": lambda file: pd.DataFrame({"a": [1]}).to_parquet(file),
    "fewer rows": lambda file: _rewrite(file, lambda rows: rows.slice(1)),
    "a column less": lambda file: _rewrite(file, lambda rows: rows.drop_columns(["extra"])),
    "another network": lambda file: _sealed_anew(file, network="mainnet"),
    "another range": lambda file: _sealed_anew(file, start=LOWER.start + 1),
    "another count": lambda file: _sealed_anew(file, rows=1),
    "the other file": lambda file: file.write_bytes(
        (file.parent / file_of_name(UPPER)).read_bytes()
    ),
}


def file_of_name(run: range) -> str:
    return f"{run.start:011d}-{run.stop:011d}.parquet"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("messages", kind) for kind in DAMAGES]
    + [
        (name, kind)
        for name in ("transactions", "blocks")
        for kind in (DAMAGES if SOAK else ("cut in half", "gone", "fewer rows", "another range"))
    ],
)
def test_a_damaged_range_is_never_read_wrong_and_fetched_again(full, name, kind):
    file = file_of(full, name)
    DAMAGES[kind](file)
    committed = (name, kind) != ("transactions", "gone")
    if committed:
        with pytest.raises(tf.StoreError) as caught:
            full.read(name, [LOWER])
        assert str(file) in str(caught.value)
        assert "with the network" in str(caught.value)
        with pytest.warns(tf.TonframesWarning, match=str(full.path / "damaged")) as warned:
            assert full.verify([range(LOWER.start, LOWER.start + 1), UPPER]) == (LOWER,)
        assert len(warned) == 1
        assert str(file) in str(warned[0].message)
    assert full.verify([SEQNOS]) == ()
    assert full.held() == (UPPER,)
    if name != "transactions":
        assert not file_of(full, "transactions").exists()
    commit(full)
    assert full.held() == (SEQNOS,)
    assert is_right(full)


def test_files_set_aside_keep_different_names(full):
    for _ in range(2):
        file_of(full, "messages").write_bytes(b"")
        with pytest.warns(tf.TonframesWarning, match="no Parquet file"):
            full.verify([SEQNOS])
        commit(full)
    kept = sorted(file.name.rsplit("-", 1)[0] for file in (full.path / "damaged").iterdir())
    assert kept == sorted(2 * [f"{name}-{file_of_name(LOWER)[:-8]}" for name in RANGED])


@pytest.mark.parametrize("name", RANGED)
def test_no_flipped_bit_is_read_as_a_wrong_number(full, name):
    file, rows = file_of(full, name), full.read(name, [LOWER])
    good = file.read_bytes()
    seen = 0
    count = 300 if SOAK else 20
    for place in range(0, len(good), len(good) // count):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        file.write_bytes(bad)
        try:
            assert full.read(name, [LOWER]).equals(rows, check_metadata=True)
        except tf.StoreError as error:
            assert str(file) in str(error)  # noqa: PT017
            seen += 1
        kept = files.HeldFile(file, schema.TABLES[name], "-217", LOWER)
        with pytest.raises(files.Damaged):
            kept.check()
    assert seen > count // 4


def test_a_file_that_the_system_cannot_read_is_not_damaged(full, monkeypatch):
    def fail(*_args: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(sealed.pq, "ParquetFile", fail)
    with pytest.raises(tf.StoreError, match=r"cannot be read: .*Permission denied"):
        full.verify([SEQNOS])
    assert full.held() == (SEQNOS,)


def test_a_verified_file_is_read_again_only_after_a_change(full, monkeypatch):
    for file in full.path.rglob("*.parquet"):
        os.utime(file, (1, 1))
    assert full.verify([SEQNOS]) == ()
    with monkeypatch.context() as patched:
        patched.setattr(files.HeldFile, "check", None)
        assert full.verify([SEQNOS]) == ()
    os.utime(file_of(full, "blocks"), (2, 2))
    monkeypatch.setattr(files.HeldFile, "check", _interrupt_check)
    with pytest.raises(KeyboardInterrupt):
        full.verify([SEQNOS])


def _interrupt_check(kept: files.HeldFile) -> None:
    assert kept.path.parent.name == "blocks"
    raise KeyboardInterrupt


def test_damage_that_another_process_has_repaired_is_left_alone(full, monkeypatch):
    file = file_of(full, "messages")
    good = file.read_bytes()
    file.write_bytes(b"")
    find = damage.find_damaged

    def find_and_repair(*commits):
        found = find(*commits)
        file.write_bytes(good)
        return found

    monkeypatch.setattr(damage, "find_damaged", find_and_repair)
    full.verify([SEQNOS])
    assert full.held() == (SEQNOS,)
    assert is_right(full)


def test_a_file_that_disappears_while_it_is_read(full):
    blocks = tf.read_blocks(full.path)
    file = file_of(full, "messages")
    file.unlink()
    with pytest.raises(tf.StoreError, match="is gone") as caught:
        blocks.arrow("messages")
    assert caught.value.path == file
    file_of(full, "transactions").unlink()
    with pytest.raises(tf.MissingError) as missing:
        blocks.arrow("messages")
    assert missing.value.missing == (LOWER,)
    shutil.rmtree(full.path)
    with pytest.raises(tf.MissingError):
        blocks.arrow("transactions")
    with pytest.raises(tf.StoreError, match="there is no store"):
        tf.read_blocks(full.path)


def test_a_lost_file_of_blocks_is_noticed(full):
    file_of(full, "blocks").unlink()
    with pytest.raises(tf.StoreError, match="is gone"):
        tf.read_blocks(full.path)


def test_files_left_by_a_killed_process_are_removed(full):
    torn = full.path / "transactions" / "_00090000120-00090000130.parquet.1.0123abcd.tmp"
    torn.write_bytes(b"PAR1")
    other = full.path / "_network.json.1.0123abcd.tmp"
    other.write_bytes(b"{")
    theirs = full.path / "_notes.tmp"
    theirs.touch()
    assert full.held() == (SEQNOS,)
    commit(full)
    assert not any(file.exists() for file in (torn, other))
    assert theirs.exists()


# ── names and links ──────────────────────────────────────────────────────────────────────────────


def test_no_link_is_followed_when_writing(store, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    file = file_of(store, "messages")
    file.symlink_to(outside)
    (store.path / ".lock.pid").symlink_to(outside)
    commit(store)
    assert outside.read_text() == "precious"
    assert not file.is_symlink()
    assert is_right(store)
    (store.path / ".lock").unlink()
    (store.path / ".lock").symlink_to(outside)
    with pytest.raises(tf.StoreError, match="is a symbolic link"):
        commit(store)
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", ["messages", "accounts", "damaged"])
def test_a_folder_that_leads_elsewhere_is_not_written_to(full, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    precious = elsewhere / file_of_name(range(1, 2))
    precious.write_text("precious")
    shutil.rmtree(full.path / name, ignore_errors=True)
    (full.path / name).symlink_to(elsewhere)
    for attempt in (full.prepare, lambda: commit(full)):
        with pytest.raises(tf.StoreError, match="is a symbolic link"):
            attempt()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    "name",
    ["x.parquet", "1-2.parquet", "00090000120-00090000120.parquet", "\u0661-\u0662.parquet"],
)
def test_a_foreign_name_is_refused(full, name):
    (full.path / "transactions" / name).touch()
    with pytest.raises(tf.StoreError, match="does not have a name that files of a store have"):
        full.held()
