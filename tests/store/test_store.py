"""The store: what is written is read back, whole files or none, of one network."""

from __future__ import annotations

import json
import pickle
import secrets
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from chain import synthetic_blocks
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from peaks import peak_of
from stores import claimed, tables_from

import tonframes as tf
from tonframes.store import Store, files
from tonframes.store.files import inside
from tonframes.wire import schema
from tonframes.wire.tables import Tables, fit, with_columns

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_090
SEQNOS = range(FIRST, FIRST + 20)  # crosses a multiple of 100
MOMENT = datetime(2026, 11, 21, 9, 45, tzinfo=UTC)

runs = st.builds(
    lambda start, length: range(start, start + length), st.integers(0, 60), st.integers(0, 9)
)


@cache
def bodies() -> list[dict]:
    return synthetic_blocks(len(SEQNOS), first_seqno=FIRST, transactions_per_block=12)


def tables_of(seqnos: range) -> Tables:
    chosen = [bodies()[seqno - FIRST] for seqno in seqnos]
    return tables_from(chosen, MOMENT)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_of(SEQNOS)


@pytest.fixture
def store(tmp_path: Path, tables: Tables) -> Store:
    made = claimed(tmp_path / "store")
    made.write_blocks(tables, [SEQNOS], proof="synthetic")
    return made


def test_files_lie_on_a_grid_of_100_and_never_overlap(store):
    assert [file.name for file in store.files("transactions").values()] == [
        "00090000090-00090000100.parquet",
        "00090000100-00090000110.parquet",
    ]


def test_pandas_reads_a_file_with_the_same_dtypes(store):
    file = next(iter(store.files("transactions").values()))
    ours = tf.read_blocks(store.path, range(FIRST, FIRST + 10)).transactions
    assert_frame_equal(pd.read_parquet(file), ours)


def test_units_and_meanings_are_in_a_file_of_the_store(store):
    said = json.loads((store.path / "columns.json").read_text("utf-8"))
    assert said.pop("schema") == schema.VERSION
    assert list(said) == list(files.FOLDERS)
    [fees] = [c for c in said["account_transactions"] if c["column"] == "total_fees"]
    assert (fees["dtype"], fees["unit"], fees["api_path"]) == ("int64", "nanoton", "total_fees")
    assert said["account_transactions"] == said["transactions"]
    for name in schema.TABLES:
        declared = tf.describe(name).drop(columns="derived")
        assert_frame_equal(pd.DataFrame(said[name]), declared)


@pytest.mark.parametrize(("name", "most"), [("transactions", 25_000), ("messages", 8_000)])
def test_a_footer_is_small(store, name, most):
    for file in (store.path / name).iterdir():
        footer = int.from_bytes(file.read_bytes()[-8:-4], "little")
        assert footer < most


def test_statistics_are_of_what_chooses_files(store):
    for name in ("transactions", "messages", "blocks"):
        pruning = set(schema.TABLES[name].pruning)
        for file in (store.path / name).iterdir():
            group = pa.parquet.read_metadata(file).row_group(0)
            for i in range(group.num_columns):
                column = group.column(i)
                assert column.is_stats_set == (column.path_in_schema in pruning)


def test_the_footer_tells_what_a_file_is(store, tables):
    file = store.files("transactions")[range(FIRST, FIRST + 10)]
    footer = store.footer(file)
    assert (footer.start, footer.stop) == (FIRST, FIRST + 10)
    assert (footer.network, footer.proof, footer.schema) == ("-217", "synthetic", schema.VERSION)
    held = tables["transactions"]["mc_block_seqno"].to_numpy() < FIRST + 10
    assert footer.rows == held.sum()


def test_only_gaps_are_written(store, tables):
    before = {file: file.stat().st_mtime_ns for file in store.files("transactions").values()}
    store.write_blocks(tables, [SEQNOS], proof="another")
    assert before == {f: f.stat().st_mtime_ns for f in store.files("transactions").values()}


def test_a_gap_in_the_middle_is_filled(tmp_path, tables):
    store = claimed(tmp_path)
    store.write_blocks(tables, [range(FIRST, FIRST + 2), range(FIRST + 5, FIRST + 7)], proof="")
    assert store.gaps([SEQNOS]) == (range(FIRST + 2, FIRST + 5), range(FIRST + 7, FIRST + 20))
    with pytest.raises(tf.MissingError, match="90000092:90000095") as caught:
        tf.read_blocks(store.path, range(FIRST, FIRST + 7))
    assert caught.value.missing == (range(FIRST + 2, FIRST + 5),)
    store.write_blocks(tables, [SEQNOS], proof="")
    assert store.held() == (SEQNOS,)
    for name in ("transactions", "messages", "blocks"):
        assert tf.read_blocks(tmp_path).arrow(name).equals(tables[name])


def test_a_masterchain_block_without_transactions_is_held_too(tmp_path, tables):
    store = claimed(tmp_path)
    nothing = {name: table.slice(0, 0) for name, table in tables.items()}
    store.write_blocks(nothing, [range(5, 6)], proof="")
    blocks = tf.read_blocks(tmp_path, [5])
    assert len(blocks.transactions) == 0
    assert_frame_equal(
        blocks.transactions.dtypes.to_frame(),
        tf.parse_blocks({"transactions": []}).transactions.dtypes.to_frame(),
    )


def test_single_seqnos_and_single_columns(store, tables):
    seqnos = [FIRST + 9, FIRST + 10]
    blocks = tf.read_blocks(store.path, seqnos, columns=["hash", "total_fees", "tx_hash"])
    expected = tables["transactions"].to_pandas().query("mc_block_seqno in @seqnos")
    expected = expected[["hash", "total_fees"]].reset_index(drop=True)
    assert_frame_equal(blocks.transactions, expected)
    assert list(blocks.messages) == ["tx_hash"]
    with pytest.raises(ValueError, match="no table here has a column 'fee'"):
        tf.read_blocks(store.path, columns=["fee"])


def test_ranges_without_a_table_of_blocks_are_warned_of(tmp_path, tables):
    store = claimed(tmp_path)
    unshown = {name: table for name, table in tables.items() if name != "blocks"}
    store.write_blocks(unshown, [range(FIRST, FIRST + 10)], proof="")
    store.write_blocks(tables, [SEQNOS], proof="")
    with pytest.warns(
        tf.TonframesWarning, match=f"holds no rows of blocks for {FIRST}:{FIRST + 10}"
    ):
        blocks = tf.read_blocks(tmp_path)
    assert blocks.arrow("blocks")["mc_block_seqno"].to_pylist()[0] == FIRST + 10
    assert tf.read_blocks(tmp_path, range(FIRST + 10, FIRST + 20)).arrow("blocks").num_rows > 0
    assert tf.read_blocks(tmp_path, range(FIRST, FIRST + 10)).arrow("blocks").num_rows == 0


@given(st.lists(st.integers(0, 60) | st.none(), max_size=30), st.lists(runs, max_size=6))
def test_inside_finds_the_rows_of_ranges(seqnos, chosen):
    rows = pa.table({"mc_block_seqno": pa.array(seqnos, pa.int64())})
    expected = [any(seqno in run for run in chosen) for seqno in seqnos]
    assert inside(rows, chosen).to_pylist() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.slow
def test_many_snapshots_are_read_with_the_memory_of_a_few(tmp_path):
    of_store = f"store = Store({str(tmp_path)!r})"
    store = claimed(tmp_path)
    addresses = [f"0:{number:064X}" for number in range(100)]
    for day in range(100):
        moment = MOMENT + timedelta(days=day)
        noise = [secrets.token_hex(10_000) for _ in addresses]
        columns = {"address": pa.array(addresses), "domain": pa.array(noise), "fetched_at": moment}
        store._append("address_book", fit(schema.ADDRESS_BOOK, columns, len(addresses)))
    setup = f"from tonframes.store import Store\n{of_store}\nimport pandas"
    assert (
        peak_of("rows = store.snapshot('address_book')\nassert len(rows) == 100", setup)
        < 250_000_000
    )


def test_a_moment_before_all_states_is_told():
    with pytest.warns(tf.TonframesWarning, match="no state of an account .* until 1999-01-01"):
        assert len(tf.read_accounts(tf.sample(), as_of="1999-01-01").accounts) == 0


@pytest.mark.parametrize(("path", "text"), [("", "is empty"), ("\udcff", "is not UTF-8")])
def test_a_path_that_cannot_be_a_store_is_refused(path, text):
    for read in (tf.read_blocks, tf.read_accounts, tf.verify_store):
        with pytest.raises(ValueError, match=f"the path of the store {text}"):
            read(path)


def test_the_address_book_is_of_the_addresses_that_occur(store):
    blocks = tf.read_blocks(store.path, [FIRST])
    occurring = {
        *blocks.transactions.account,
        *blocks.messages.source,
        *blocks.messages.destination,
    }
    assert set(blocks.address_book.address) <= occurring
    assert 0 < len(blocks.address_book) < len(tf.read_blocks(store.path).address_book)


def test_changes_of_a_frame_do_not_reach_the_next_reader(store):
    blocks = tf.read_blocks(store.path)
    before = blocks.transactions.total_fees.sum()
    frame = blocks.transactions
    frame["total_fees"] = 0
    frame.loc[0, "account"] = "mine"
    assert blocks.transactions.total_fees.sum() == before > 0
    assert "mine" not in set(blocks.transactions.account)


@pytest.mark.parametrize("wrong", [[0], [-1], ["5"], [True], 0, True, range(10**30), "5-6"])
def test_wrong_seqnos_are_refused(store, wrong):
    with pytest.raises((TypeError, ValueError), match="seqnos"):
        tf.read_blocks(store.path, wrong)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (FIRST + 3, range(FIRST + 3, FIRST + 4)),
        (f"{FIRST + 3}", range(FIRST + 3, FIRST + 4)),
        (f"{FIRST + 3}:{FIRST + 12}", range(FIRST + 3, FIRST + 12)),
    ],
)
def test_seqnos_are_read_in_the_forms_in_which_they_are_fetched(store, asked, expected):
    assert tf.read_blocks(store.path, asked).seqnos == (expected,)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("2026-05-28/2026-05-29", r"such as 100:150 .*, not '2026-05-28/.*seqno_at\(since\)"),
        ("100:", "not '100:'"),
        ("", "not ''"),
        (f"{FIRST + 3}:{FIRST + 3}", "is empty: it starts at 90000093"),
        (0, "from 1 to 2147483647"),
    ],
)
def test_other_texts_of_seqnos_are_refused_with_an_example(store, asked, match):
    with pytest.raises(ValueError, match=match):
        tf.read_blocks(store.path, asked)


def test_wrong_columns_and_addresses_are_refused(store):
    with pytest.raises(TypeError, match="columns is a list"):
        tf.read_blocks(store.path, columns="lt")
    with pytest.raises(TypeError, match="addresses is a list"):
        tf.read_accounts(store.path, "0:" + "A" * 64)
    with pytest.raises(TypeError, match="as_of is a datetime"):
        tf.read_accounts(store.path, as_of=20260601)
    with pytest.raises(ValueError, match="as_of is a datetime"):
        tf.read_accounts(store.path, as_of="soon")


def test_a_store_is_not_written_over(store, tmp_path):
    with pytest.raises(ValueError, match="is a store"):
        tf.read_blocks(store.path).write(store.path)
    tf.read_blocks(store.path).write(tmp_path / "elsewhere")


def test_views_and_errors_can_be_sent_to_other_processes(store):
    blocks = pickle.loads(pickle.dumps(tf.read_blocks(store.path)))
    assert blocks.seqnos == (SEQNOS,)
    assert len(blocks.address_book) > 0
    for error in (
        tf.DecodeError("$.a", "b", "c"),
        tf.MissingError("gone", missing=(range(1, 2),)),
        tf.StoreError("broken", path=store.path),
        tf.RequestError("no", status=404),
        tf.IncompleteError("half", missing=[range(3, 4)]),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


# ── accounts ─────────────────────────────────────────────────────────────────────────────────────


def account(address: str, balance: int, moment: datetime, *, with_boc: bool = True) -> pa.Table:
    columns = {
        "address": pa.array([address]),
        "balance": pa.array([balance]),
        "found": True,
        "with_boc": with_boc,
        "fetched_at": moment,
    }
    return fit(schema.ACCOUNTS, columns, 1)


A, B = "0:" + "A" * 64, "0:" + "B" * 64


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    store = claimed(tmp_path)
    nothing = {name: schema.TABLES[name].schema.empty_table() for name in tf.Accounts.names}
    for hours, address, balance in ((0, A, 1), (0, B, 2), (1, A, 3)):
        states = account(address, balance, MOMENT + timedelta(hours=hours))
        store.write_accounts(nothing | {"accounts": states})
    return tmp_path


def test_the_newest_state_of_each_account_is_read(snapshots):
    states = tf.read_accounts(snapshots).accounts.set_index("address").balance
    assert dict(states) == {A: 3, B: 2}


def state(balance: int, lt: int | None, moment: datetime) -> pa.Table:
    return with_columns(account(A, balance, moment), last_transaction_lt=lt)


LATER = datetime.now(UTC) + timedelta(days=400)


@pytest.mark.parametrize(
    ("states", "balance"),
    [
        ([(1, 10, 0), (2, 9, 1)], 1),  # a replica that is behind
        ([(1, 10, 0), (2, 11, 1)], 2),
        ([(1, 10, 0), (2, 10, 1)], 2),
        ([(1, 10, 0), (2, None, 1), (3, 9, 2)], 2),  # not found, then a replica that is behind
        ([(1, None, 0), (2, 9, 1)], 2),
    ],
)
def test_states_are_ordered_by_their_last_transaction_first(snapshots, states, balance):
    store = Store(snapshots)
    nothing = {name: schema.TABLES[name].schema.empty_table() for name in tf.Accounts.names}
    for amount, lt, hours in states:
        row = state(amount, lt, MOMENT + timedelta(hours=hours + 2))
        store.write_accounts(nothing | {"accounts": row})
    read = tf.read_accounts(snapshots, [A])
    assert read.accounts.balance.to_list() == [balance]
    assert read.arrow("accounts").column_names == schema.ACCOUNTS.schema.names
    only = tf.read_accounts(snapshots, [A], columns=["balance"])
    assert only.accounts.balance.to_list() == [balance]


@pytest.mark.parametrize("lt", [5, 9, None])
def test_a_time_in_the_future_is_told_and_hides_no_other_state(snapshots, lt):
    store = Store(snapshots)
    nothing = {name: schema.TABLES[name].schema.empty_table() for name in tf.Accounts.names}
    for row in (state(7, lt, LATER), state(8, 9, MOMENT + timedelta(hours=2))):
        store.write_accounts(nothing | {"accounts": row})
    with pytest.warns(tf.TonframesWarning, match="say that they were fetched in the future"):
        assert tf.read_accounts(snapshots, [A]).accounts.balance.to_list() == [8]
    before = tf.read_accounts(snapshots, [A], as_of=MOMENT + timedelta(hours=1))
    assert before.accounts.balance.to_list() == [3]


def test_a_state_of_the_future_is_not_fresh(tmp_path):
    store = claimed(tmp_path)
    nothing = {name: schema.TABLES[name].schema.empty_table() for name in tf.Accounts.names}
    store.write_accounts(nothing | {"accounts": state(7, 9, LATER)})
    with (
        pytest.warns(tf.TonframesWarning, match="in the future"),
        tf.serve(tmp_path, dialect="specification") as url,
        tf.Client(url) as client,
    ):
        fetched = tf.fetch_accounts([A], max_age="1h", client=client, store=tmp_path)
    assert fetched.accounts.fetched_at[0] < LATER - timedelta(days=1)


def test_the_state_as_of_a_moment(snapshots):
    states = tf.read_accounts(snapshots, as_of=MOMENT + timedelta(minutes=1)).accounts
    assert dict(states.set_index("address").balance) == {A: 1, B: 2}
    text = f"{MOMENT + timedelta(minutes=1):%Y-%m-%d %H:%M}"
    assert_frame_equal(tf.read_accounts(snapshots, as_of=text).accounts, states)
    with pytest.raises(ValueError, match="time zone"):
        tf.read_accounts(snapshots, as_of=datetime(2026, 1, 1))  # noqa: DTZ001


def test_chosen_columns_of_accounts_are_read_when_asked_for(snapshots):
    accounts = tf.read_accounts(snapshots, [B, A], columns=["balance"])
    assert_frame_equal(accounts.accounts, pd.DataFrame({"balance": [2, 3]}, dtype="Int64"))
    assert list(accounts.address_book) == []
    whole = tf.read_accounts(snapshots, [B, A])
    for file in (snapshots / "accounts").iterdir():
        file.unlink()
    with pytest.raises(tf.MissingError):
        whole.arrow("accounts")
    with pytest.raises(ValueError, match="no table here has a column 'lt'"):
        tf.read_accounts(snapshots, columns=["lt"])


def test_accounts_come_in_the_order_asked_and_in_any_form(snapshots):
    assert list(tf.read_accounts(snapshots, [B, A.lower()]).accounts.address) == [B, A]
    with pytest.raises(tf.MissingError) as caught:
        tf.read_accounts(snapshots, [A, "0:" + "C" * 64])
    assert caught.value.missing == ("0:" + "C" * 64,)


# ── what is not a store ──────────────────────────────────────────────────────────────────────────


def test_no_store(tmp_path):
    with pytest.raises(tf.StoreError, match="there is no store at"):
        tf.read_blocks(tmp_path)
    (tmp_path / "network.json").write_text("[]")
    with pytest.raises(tf.StoreError, match="does not say which network"):
        tf.read_blocks(tmp_path)


def test_other_parquet_is_refused(store):
    file = next(iter(store.files("transactions").values()))
    pd.DataFrame({"a": [1]}).to_parquet(file)
    with pytest.raises(tf.StoreError, match="has no seal of tonframes"):
        tf.read_blocks(store.path).arrow("transactions")


def test_a_lock_that_is_interrupted_is_free(store, monkeypatch):
    class Interrupted(FileLock):
        def acquire(self, *arguments, **options):
            super().acquire(*arguments, **options)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tonframes.store.locks.FileLock", Interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            store.prepare()
    monkeypatch.setattr("tonframes.store.locks.LOCK_TIMEOUT", 0.1)
    store.prepare()
    assert caught.tb is not None  # while the traceback refers to the lock
