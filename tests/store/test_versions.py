"""Stores live on: every version of the schema that has landed is read, extended and upgraded.

`versions/v1`, `versions/v2`, … are stores that tonframes itself has written when that version was
the present one. After raising `schema.VERSION`, run `make store-version` and commit the new folder;
the older ones are never written again.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from chain import Chain
from store_versions import VERSIONS, write_store

import tonframes as tf
from tonframes.cli import main
from tonframes.store import Store, digest, files, upgrade
from tonframes.wire import schema, versions
from tonframes.wire.kinds import DIGITS, INT, TEXT
from tonframes.wire.record import Column, Derived, Field, Part, Record
from tonframes.wire.tables import in_order, stamped, with_columns

NUMBERS = range(1, schema.VERSION + 1)
NEXT = schema.VERSION + 1
every_version = pytest.mark.parametrize("number", NUMBERS)
every_table = pytest.mark.parametrize("name", schema.TABLES)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the store of the first version."""
    return Path(shutil.copytree(VERSIONS / "v1", tmp_path / "store"))


def rows_of(path: Path, name: str) -> pa.Table:
    store = Store(path)
    return store.read(name, store.held()) if name in tf.Blocks.names[:3] else store.snapshot(name)


# ── the versions that there are ──────────────────────────────────────────────────────────────────


def test_every_version_has_its_store():
    assert {folder.name for folder in VERSIONS.iterdir()} == {f"v{number}" for number in NUMBERS}


@every_version
@every_table
def test_a_version_never_loses_or_gains_a_column(number, name):
    """A column that is added must say `since`, and `schema.VERSION` must be raised."""
    files = sorted((VERSIONS / f"v{number}" / name).iterdir())
    columns = versions.columns_of(schema.TABLES[name], number)
    written = pa.schema([schema.TABLES[name].schema.field(column.name) for column in columns])
    assert files
    for file in files:
        assert pq.read_schema(file).equals(written), file


@every_version
def test_a_store_of_every_version_is_read_and_is_whole(number):
    store = Store(VERSIONS / f"v{number}")
    blocks, accounts = tf.read_blocks(store.path), tf.read_accounts(store.path)
    assert len(blocks.transactions) == 3
    assert len(accounts.accounts) == 2
    for name in schema.TABLES:
        assert rows_of(store.path, name).schema.equals(schema.TABLES[name].schema)
    for file in store.all_files():
        assert file.check().schema == number


def test_the_store_of_the_present_version_is_what_its_maker_makes(tmp_path):
    write_store(tmp_path / "made")
    for name in schema.TABLES:
        made, kept = (rows_of(p, name) for p in (tmp_path / "made", VERSIONS / f"v{NUMBERS[-1]}"))
        assert made.equals(kept), name


def test_skipped_phases_in_the_form_of_2024_are_read_from_a_store_of_version_1(
    tmp_path, monkeypatch
):
    answer = Chain().next_block()
    for row in answer["transactions"]:
        phase = row["description"]["compute_ph"]
        phase |= {"type": "skipped" if phase.pop("skipped") else "vm"}
        phase |= {"skip_reason": phase.pop("reason")} if "reason" in phase else {}
    blocks = tf.parse_blocks(answer)
    assert blocks.transactions.compute_skipped.any()
    now = datetime(2026, 11, 22, tzinfo=UTC)
    tables = stamped({name: blocks.arrow(name) for name in tf.Blocks.names}, now)
    unread = {"compute_skipped": None, "skipped_reason": None}  # as version 1 left them
    store = Store(tmp_path / "store")
    with monkeypatch.context() as context:
        context.setattr(schema, "VERSION", 1)
        store.claim("-217", "a test")
        old = tables | {"transactions": with_columns(tables["transactions"], **unread)}
        store.write_blocks(in_order(old), blocks.seqnos, proof="synthetic")
    expected = in_order(tables)["transactions"]
    assert rows_of(store.path, "transactions").equals(expected)
    assert tf.upgrade_store(store.path)
    upgraded = pq.read_table(store.path / "transactions").select(expected.column_names)
    assert upgraded["compute_skipped"].equals(expected["compute_skipped"])
    assert rows_of(store.path, "transactions").equals(expected)


# ── a version that is still to come ──────────────────────────────────────────────────────────────


def with_members(record: Record, path: tuple[str, ...], *added) -> Record:
    """Declare a record anew, with members added to one of its parts."""
    if not path:
        return replace(record, members=(*record.members, *added))
    members = (
        replace(member, record=with_members(member.record, path[1:], *added))
        if isinstance(member, Part) and member.key == path[0]
        else member
        for member in record.members
    )
    return replace(record, members=tuple(members))


PART = Record("Part", "Unknown.", (Part("size", schema.SIZE, "Size.", "has_size", "size_{}"),))


def next_version():
    """Declare the tables of a version with more columns of every sort."""
    transaction = with_members(
        schema.TRANSACTION,
        (),
        Field("unknown_amount", DIGITS, "nanoton", "Kept in `extra`.", since=NEXT),
        Field("unknown_name", TEXT, "", "Kept in one row.", always=True, since=NEXT, rule="none"),
        Field("absent", INT, "", "Never seen.", since=NEXT),
        Part("unknown_part", PART, "An object.", "has_unknown_part", since=NEXT),
        Derived("prev_time", "now", "Computed.", since=NEXT),
    )
    steps = Field("unknown_steps", INT, "steps", "In a phase.", since=NEXT)
    transaction = with_members(transaction, ("description", "compute_ph"), steps)
    message = with_members(
        schema.MESSAGE, (), Field("unknown_fee", DIGITS, "nanoton", "Kept.", since=NEXT)
    )
    account = with_members(
        schema.ACCOUNT, (), Field("unknown_amount", DIGITS, "nanoton", "Kept.", since=NEXT)
    )
    asked = Column("asked", TEXT, "", "Added.", always=True, since=NEXT, rule="nobody")
    after = (*schema.ACCOUNTS.after, asked)
    return {
        "transactions": replace(schema.TRANSACTIONS, record=transaction),
        "messages": replace(schema.MESSAGES, record=message),
        "accounts": replace(schema.ACCOUNTS, record=account, after=after),
    }


@pytest.fixture
def later(monkeypatch):
    """Go on with the next version of the schema."""
    for name, table in next_version().items():
        monkeypatch.setitem(schema.TABLES, name, table)
    monkeypatch.setattr(schema, "VERSION", NEXT)


def columns(rows: pa.Table, *names: str) -> list[list[object]]:
    return [rows[name].to_pylist() for name in names]


def extras(rows: pa.Table) -> list[dict | None]:
    return [text and json.loads(text) for text in rows["extra"].to_pylist()]


def right(path: Path) -> None:
    """Check what a later version reads of the first store."""
    rows = rows_of(path, "transactions")
    at = [rows["unknown_amount"].to_pylist().index(12)]
    at += [i for i in range(3) if (extras(rows)[i] or {}).get("/unknown_amount") == "many"]
    at += [i for i in range(3) if i not in at]
    rows = rows.take(at)
    assert columns(rows, "unknown_amount", "unknown_steps", "absent", "unknown_name") == [
        [12, None, None],
        [7, None, None],
        [None] * 3,
        ["first", "none", "none"],
    ]
    assert columns(rows, "has_unknown_part", "has_size", "size_cells", "size_bits") == [
        [True, False, False],
        [True, False, False],
        [3, None, None],
        [None] * 3,
    ]
    assert rows["prev_time"].equals(rows["block_time"])
    assert extras(rows) == [
        None,
        {
            "/unknown_amount": "many",
            "/unknown_part": [],
            "/unknown_null": None,
            "/description/compute_ph/unknown_steps": 2**63,
        },
        None,
    ]
    messages = rows_of(path, "messages")
    assert sorted(messages["unknown_fee"].drop_null().to_pylist()) == [5]
    assert messages["extra"].null_count == len(messages)
    accounts = rows_of(path, "accounts")
    assert sorted(accounts["unknown_amount"].drop_null().to_pylist()) == [9]
    assert columns(accounts, "asked", "extra") == [["nobody"] * 2, [None] * 2]


@pytest.mark.usefixtures("later")
def test_an_older_store_is_read_with_the_present_columns(copy):
    right(copy)
    blocks = tf.read_blocks(copy)
    assert blocks.transactions.dtypes[["unknown_amount", "has_unknown_part"]].tolist() == [
        "Int64",
        "bool",
    ]
    assert "3 transactions" in repr(blocks)
    assert Store(copy).verify([range(90_000_000, 90_000_001)]) == ()


@pytest.mark.usefixtures("later")
@every_table
def test_chosen_columns_are_those_of_the_whole_table(name):
    store = Store(VERSIONS / "v1")
    whole = rows_of(store.path, name)
    for column in whole.column_names:
        if name in tf.Blocks.names[:3]:
            alone = store.read(name, store.held(), [column])
        else:
            alone = store.snapshot(name, columns=[column])
        assert alone.equals(whole.select([column])), column


@pytest.mark.usefixtures("later")
def test_an_older_store_is_added_to(copy):
    store = Store(copy)
    before = {name: rows_of(copy, name) for name in schema.TABLES}
    kept = {file.path: file.path.read_bytes() for file in store.all_files()}
    seqno = store.held()[0].stop
    after = {name: with_columns(before[name], mc_block_seqno=seqno) for name in tf.Blocks.names[:3]}
    store.claim("-217", "a test")
    store.write_blocks(
        after | {"address_book": before["address_book"]}, [range(seqno, seqno + 1)], proof=""
    )
    now = datetime(2026, 11, 22, tzinfo=UTC)
    store.write_accounts(stamped({name: before[name] for name in tf.Accounts.names}, now))
    assert {path: path.read_bytes() for path in kept} == kept
    for name in tf.Blocks.names[:3]:
        assert rows_of(copy, name).equals(pa.concat_tables([before[name], after[name]])), name
    assert {file.footer().schema for file in store.all_files()} == {1, NEXT}
    assert json.loads((copy / "network.json").read_bytes())["schema"] == NEXT


@pytest.mark.usefixtures("later")
def test_upgrading_rewrites_what_is_older_and_changes_no_row(copy):
    before = {name: rows_of(copy, name) for name in schema.TABLES}
    count = len(list(copy.rglob("*.parquet")))
    rewritten = tf.upgrade_store(copy)
    assert len(rewritten) == count
    assert tf.upgrade_store(copy) == []
    right(copy)
    for name in schema.TABLES:
        assert rows_of(copy, name).equals(before[name]), name
        assert ds.dataset(copy / name).schema.names == schema.TABLES[name].schema.names
    for file in Store(copy).all_files():
        footer = file.check()
        assert footer.schema == NEXT
        assert footer.digest == digest(file.read(file.table.schema.names))
    assert [file.name for file in copy.glob(".*")] == [".lock"]


def _upgrade_and_die(path: Path, count: int) -> None:
    """Upgrade so many files and be killed."""
    schema.TABLES |= next_version()
    schema.VERSION = NEXT
    rewrite, numbers = upgrade._rewrite, itertools.count(1)

    def rewrite_or_die(store: Store, file: files.HeldFile) -> bool:
        done = rewrite(store, file)
        if next(numbers) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    upgrade._rewrite = rewrite_or_die
    tf.upgrade_store(path)


@pytest.mark.usefixtures("later")
def test_an_upgrade_that_was_killed_goes_on_where_it_stopped(copy):
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=_upgrade_and_die, args=(copy, 3))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert [file.footer().schema for file in Store(copy).all_files()].count(NEXT) == 3
    right(copy)
    assert len(tf.upgrade_store(copy)) == len(list(copy.rglob("*.parquet"))) - 3
    right(copy)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "damaged",
    [lambda content: content[:-1], lambda content: content.replace(b"synthetic", b"Synthetic")],
    ids=["cut", "changed where no page is"],
)
def test_a_damaged_file_is_left_as_it_is_by_an_upgrade(copy, damaged):
    [file] = (copy / "messages").iterdir()
    content = damaged(file.read_bytes())
    file.write_bytes(content)
    with pytest.warns(tf.TonframesWarning, match=f"{file} .*left as it is"):
        rewritten = tf.upgrade_store(copy)
    assert file.read_bytes() == content
    assert {*rewritten, file} == set(copy.rglob("*.parquet"))
    assert file not in rewritten


@pytest.mark.usefixtures("later")
def test_the_command_says_what_it_rewrote(copy, capsys):
    [file] = (copy / "blocks").iterdir()
    assert main(["upgrade", str(copy)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert f"rewrote {file}" in lines
    assert last == f"{len(lines)} files rewritten; {copy} has version {NEXT} of the columns"


# ── a store of the future ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def newer(copy, monkeypatch):
    """Give a store that the next version has written to."""
    with monkeypatch.context() as patched:
        for name, table in next_version().items():
            patched.setitem(schema.TABLES, name, table)
        patched.setattr(schema, "VERSION", NEXT)
        tf.upgrade_store(copy)
    return copy


def test_a_newer_store_is_refused_in_one_sentence_and_nothing_is_touched(newer):
    before = {file: file.read_bytes() for file in newer.rglob("*.parquet")}
    (newer / "messages" / ".00000000001-00000000002.parquet.1.0123abcd.tmp").touch()
    store, said = (
        Store(newer),
        f"has version {NEXT} of the columns .* up to {NEXT - 1}: use a newer tonframes$",
    )
    nothing = {name: table.schema.empty_table() for name, table in schema.TABLES.items()}
    for attempt in (
        lambda: tf.read_blocks(newer),
        lambda: tf.read_accounts(newer),
        lambda: tf.upgrade_store(newer),
        store.prepare,
        lambda: store.claim("-217", "a test"),
        lambda: store.write_blocks(nothing, [range(1, 2)], proof=""),
        lambda: store.write_accounts(nothing),
        lambda: store.verify(store.held()),
        store.verify_snapshots,
    ):
        with pytest.raises(tf.StoreError, match=said) as caught:
            attempt()
        assert not isinstance(caught.value, files.Damaged)
    assert {file: file.read_bytes() for file in newer.rglob("*.parquet")} == before
    assert len(list(newer.rglob("*.tmp"))) == 1
    assert not (newer / files.ASIDE).exists()


def test_a_newer_file_in_an_older_store_is_refused_and_not_set_aside(newer, tmp_path):
    path = Path(shutil.copytree(VERSIONS / "v1", tmp_path / "older"))
    for name in ("messages", "accounts"):
        [file] = (newer / name).iterdir()
        shutil.copy(file, path / name)
    store = Store(path)
    for attempt in (lambda: store.verify(store.held()), store.verify_snapshots):
        with pytest.raises(tf.StoreError, match=f"parquet has version {NEXT} of the columns"):
            attempt()
    with pytest.raises(tf.StoreError, match="use a newer tonframes"):
        tf.read_blocks(path).arrow("messages")
    assert not (path / files.ASIDE).exists()


@pytest.mark.parametrize("version", ["1", 0, -1, True, None, 1.0])
def test_a_version_that_is_none_is_damage(copy, version):
    [file] = (copy / "blocks").iterdir()
    said = json.loads(pq.read_metadata(file).metadata[b"tonframes"]) | {"schema": version}
    names = [field.name for field in fields(files.Footer) if field.name in said]
    footer = files.Footer(**{name: said[name] for name in names})
    files.replace(file, files.content(schema.BLOCKS, pq.read_table(file), footer))
    with pytest.raises(files.Damaged, match="does not say the version"):
        Store(copy).footer(file)
