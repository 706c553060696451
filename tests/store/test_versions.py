"""A later version of the schema reads and extends a store; a newer store is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from stores import claimed, tables_of

import tonframes as tf
from tonframes.store import Store, files
from tonframes.wire import schema
from tonframes.wire.kinds import INT, TEXT
from tonframes.wire.record import Column, Field
from tonframes.wire.tables import stamped, with_columns

NEXT = schema.VERSION + 1


def next_version():
    """Declare tables with more columns."""
    members = (
        *schema.TRANSACTION.members,
        Field("later_name", TEXT, "", "With a rule.", always=True, since=NEXT, rule="none"),
        Field("later_number", INT, "", "Without one.", since=NEXT),
    )
    asked = Column("asked", TEXT, "", "Added.", always=True, since=NEXT, rule="nobody")
    return {
        "transactions": replace(
            schema.TRANSACTIONS, record=replace(schema.TRANSACTION, members=members)
        ),
        "accounts": replace(schema.ACCOUNTS, after=(*schema.ACCOUNTS.after, asked)),
    }


def go_on(monkeypatch):
    """Go on with the next version of the schema."""
    for name, table in next_version().items():
        monkeypatch.setitem(schema.TABLES, name, table)
    monkeypatch.setattr(schema, "VERSION", NEXT)


@pytest.fixture(scope="module")
def tables():
    blocks, accounts = (
        tf.read_blocks(tf.sample(), "90000000:90000002"),
        tf.read_accounts(tf.sample()),
    )
    held = {name: accounts.arrow(name).slice(0, 5) for name in accounts.names}
    return tables_of(blocks) | held


@pytest.fixture
def store(tmp_path, tables):
    store = claimed(tmp_path / "store")
    store.write_blocks(tables, [range(90_000_000, 90_000_002)], proof="chain")
    store.write_accounts(tables)
    return store


def rows_of(store, name):
    blocks = name in tf.Blocks.names[:3]
    return store.read(name, store.held()) if blocks else store.snapshot(name)


def test_later_columns_are_null_or_filled_by_their_rule(store, tables, monkeypatch):
    go_on(monkeypatch)
    rows = rows_of(store, "transactions")
    assert rows.select(tables["transactions"].column_names).equals(tables["transactions"])
    assert set(rows["later_name"].to_pylist()) == {"none"}
    assert rows["later_number"].null_count == len(rows)
    assert store.read("transactions", store.held(), ["later_name", "lt"]).equals(
        rows.select(["lt", "later_name"])
    )
    assert tf.read_blocks(store.path).transactions.dtypes["later_number"] == "Int64"
    assert set(tf.read_accounts(store.path).accounts.asked) == {"nobody"}
    assert store.verify(store.held()) == ()
    assert tf.verify_store(store.path) == {}


def test_an_older_store_is_added_to(store, monkeypatch):
    before = {file.path: file.path.read_bytes() for file in store.all_files()}
    go_on(monkeypatch)
    rows = {name: rows_of(store, name) for name in schema.TABLES}
    seqno = store.held()[0].stop
    after = {name: with_columns(rows[name], mc_block_seqno=seqno) for name in tf.Blocks.names[:3]}
    book = {"address_book": rows["address_book"]}
    store.write_blocks(after | book, [range(seqno, seqno + 1)], proof="")
    now = datetime(2026, 11, 22, tzinfo=UTC)
    store.write_accounts(stamped({name: rows[name] for name in tf.Accounts.names}, now))
    assert {path: path.read_bytes() for path in before} == before
    for name, more in after.items():
        assert rows_of(store, name).equals(pa.concat_tables([rows[name], more])), name
    assert {file.footer().schema for file in store.all_files()} == {NEXT - 1, NEXT}
    assert json.loads((store.path / "network.json").read_bytes())["schema"] == NEXT


def test_a_newer_store_is_refused_in_one_sentence_and_nothing_is_touched(
    tmp_path, tables, monkeypatch
):
    store = Store(tmp_path / "newer")
    with monkeypatch.context() as patched:
        go_on(patched)
        store.claim("-217", "a test")
        asked = pa.array(["me"] * len(tables["accounts"]))
        field = schema.TABLES["accounts"].schema.field("asked")
        store.write_accounts(tables | {"accounts": tables["accounts"].append_column(field, asked)})
    [file] = store.path.glob("accounts/*.parquet")
    before = file.read_bytes()
    nothing = {name: table.schema.empty_table() for name, table in schema.TABLES.items()}
    said = f"has version {NEXT} of the columns .* up to {NEXT - 1}: use a newer tonframes$"
    for attempt in (
        lambda: tf.read_blocks(store.path),
        lambda: tf.read_accounts(store.path),
        store.prepare,
        lambda: store.claim("-217", "a test"),
        lambda: store.write_accounts(nothing),
        store.verify_snapshots,
    ):
        with pytest.raises(tf.StoreError, match=said) as caught:
            attempt()
        assert not isinstance(caught.value, files.Damaged)
    older = claimed(tmp_path / "older")
    (older.path / "accounts" / file.name).write_bytes(before)
    with pytest.raises(tf.StoreError, match=f"parquet has version {NEXT} of the columns"):
        older.verify_snapshots()
    assert file.read_bytes() == before
    assert not (older.path / files.ASIDE).exists()
