"""Names beside addresses: no row more or less, whatever the books hold and the engine is."""

import json
from datetime import UTC, datetime, timedelta

import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import tonframes as tf
from tonframes.analysis.names import CODE_HASHES, COLUMNS, with_names
from tonframes.wire import schema

A, B, C = (f"0:{digit * 64}" for digit in "ABC")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _duckdb(table):
    import duckdb

    return duckdb.from_arrow(table)


def _dask(table):
    import dask.dataframe as dd

    return dd.from_pandas(table.to_pandas(), npartitions=2)


ENGINES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "DuckDB": _duckdb,
    "Dask": _dask,
}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


def table(name, rows):
    return pa.Table.from_pylist(rows, schema=schema.TABLES[name].schema)


def book(*entries):
    """Make an address book of (address, domain, friendly form, hours after noon)."""
    return table(
        "address_book",
        [
            {
                "address": address,
                "domain": domain,
                "user_friendly": friendly,
                "fetched_at": None if hours is None else NOON + timedelta(hours=hours),
            }
            for address, domain, friendly, hours in entries
        ],
    )


def metadata(**infos):
    addresses = {"A": A, "B": B, "C": C}
    return table("metadata", [{"address": addresses[k], "token_info": v} for k, v in infos.items()])


def listed(frame):
    rows = nw.from_native(frame).lazy()
    # Dask's index would come along.
    return (
        rows.collect("pyarrow")
        .select(rows.collect_schema().names())
        .sort("n")
        .to_dict(as_series=False)
    )


FRAME = pa.table(
    {"n": [0, 1, 2, 3, 4], "account": [C, A, None, A, "addr_none"], "b": list("vwxyz")}
)
BOOK = book(
    (A, "old.ton", "EQold", 0),
    (A, "new.ton", "EQnew", 2),
    (A, "unknown when.ton", "EQ", None),
    (B, "b.ton", "EQb", 0),
    (C, None, "EQc", None),
)


@engines
def test_the_newest_entry_counts_on_every_engine(engine):
    frame = engine(FRAME)
    named = with_names(frame, engine(BOOK))
    assert type(named) is type(frame)
    assert listed(named) == {
        "n": [0, 1, 2, 3, 4],
        "account": [C, A, None, A, "addr_none"],
        "account_name": [None, "new.ton", None, "new.ton", None],
        "account_friendly": ["EQc", "EQnew", None, "EQnew", None],
        "b": list("vwxyz"),
    }


@engines
def test_an_empty_name_is_no_name(engine):
    named = with_names(engine(FRAME), engine(book((A, "", "", 0), (C, "c.ton", "", 0))))
    found = listed(named)
    assert found["account_name"] == ["c.ton", None, None, None, None]
    assert found["account_friendly"] == [None] * 5


@engines
def test_a_symbol_is_preferred_to_a_domain(engine):
    known = metadata(A='[{"type":"jetton_masters","name":"Tether USD","symbol":"USD₮"}]', B="[]")
    named = with_names(engine(FRAME), engine(BOOK), engine(known))
    assert listed(named)["account_name"] == [None, "USD₮", None, "USD₮", None]


@engines
def test_names_have_no_character_that_acts_or_is_invisible(engine):
    text = "a\x1b[2J\u202e\u3164\ufe0f\U000e0100 \n₮\u00a0\u2800"
    plain = "a\ufffd[2J\ufffd\ufffd\ufffd\ufffd \ufffd₮\ufffd\ufffd"
    known = metadata(C=json.dumps([{"symbol": text}]))
    named = with_names(engine(FRAME), engine(book((A, text, text, 0))), engine(known))
    names = listed(named)
    assert names["account_name"] == [plain, plain, None, plain, None]
    assert names["account_friendly"] == [None, plain, None, plain, None]


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ('[{"name": "Picture 7"}]', "Picture 7"),
        ('[{"name": "Tether"}, {"symbol": "USDT"}]', "USDT"),
        ('[{"symbol": ""}]', "new.ton"),
        ('[{"symbol": 7, "name": null}]', "new.ton"),
        ('["x", 1]', "new.ton"),
        ("[]", "new.ton"),
        ("[1", "new.ton"),
        (None, "new.ton"),
        ('[{"symbol": "<b>\\u202e"}]', "<b>\ufffd"),
    ],
)
def test_names_from_token_metadata(info, name):
    named = with_names(FRAME.to_pandas(), BOOK.to_pandas(), metadata(A=info))
    assert named.account_name[1] == name


def test_the_newest_of_several_descriptions_is_taken():
    rows = [
        {"address": A, "token_info": f'[{{"symbol": "{n}"}}]', "fetched_at": NOON + timedelta(n)}
        for n in (0, 2, 1)
    ]
    named = with_names(FRAME.to_pandas(), BOOK.to_pandas(), table("metadata", rows).to_pandas())
    assert named.account_name[1] == "2"


keys = st.sampled_from([A, B, C, None, "0:" + "D" * 64])
entries = st.tuples(
    st.sampled_from([A, B, C]),
    st.none() | st.sampled_from(["x.ton", "y.ton"]),
    st.none() | st.just("EQ"),
    st.none() | st.integers(0, 2),
)


@pytest.mark.parametrize("engine", ["pandas", "polars", "pyarrow"])
@given(accounts=st.lists(keys, max_size=12), rows=st.lists(entries, max_size=12))
def test_rows_stay_in_number_and_order(engine, accounts, rows):
    make = ENGINES[engine]
    frame = pa.table(
        {
            "account": pa.array(accounts, pa.string()),
            "n": pa.array(range(len(accounts)), pa.int64()),
        }
    )
    named = with_names(make(frame), make(book(*rows)))
    known = {}
    for address, domain, friendly, hours in rows:
        rank = (hours is not None, hours or 0, domain or "", friendly or "")
        known[address] = max(known.get(address, (rank,)), (rank, domain, friendly))
    out = listed(named)
    assert (out["n"], out["account"]) == (list(range(len(accounts))), accounts)
    assert nw.from_native(named)["n"].to_list() == list(range(len(accounts)))
    blank = (None, None, None)
    assert out["account_name"] == [known.get(a, blank)[1] for a in accounts]
    assert out["account_friendly"] == [known.get(a, blank)[2] for a in accounts]


def test_of_equally_new_entries_the_same_is_always_taken():
    twins = [(A, "a.ton", "EQa", 1), (A, "z.ton", "EQz", 1)]
    names = [
        with_names(FRAME.to_pandas(), book(*order).to_pandas()).account_name[1]
        for order in (twins, twins[::-1])
    ]
    assert names == ["z.ton", "z.ton"]


@pytest.mark.parametrize("rows", [[], [(A, None, None, 0)], [(A, "a.ton", "EQa", 0)]])
@pytest.mark.parametrize("known", [None, metadata(), metadata(A='[{"symbol":"S"}]')])
@pytest.mark.parametrize("length", [0, 5])
def test_dtypes_never_depend_on_the_rows(rows, known, length):
    frame = FRAME.slice(0, length).to_pandas()
    frame["account"] = frame["account"].astype("str")
    named = with_names(frame, book(*rows).to_pandas(), known)
    assert [str(dtype) for dtype in named.dtypes] == ["int64", "str", "str", "str", "str"]


def test_index_dtypes_and_other_columns_are_kept():
    frame = FRAME.to_pandas().set_index(pd.Index([7, 7, 3, 1, 0], name="place"))
    frame["account"] = frame["account"].astype("category")
    frame["amount"] = pd.array([2**53 + 1, None, 0, 0, 0], "Int64")
    before, entries = frame.copy(), BOOK.to_pandas()
    named = with_names(frame, entries)
    assert_frame_equal(frame, before)
    assert_frame_equal(entries, BOOK.to_pandas())
    assert_frame_equal(named[list(frame)], frame)


def test_every_column_of_addresses_of_our_tables_gets_names():
    blocks, states = tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())
    named = with_names(blocks.messages, blocks.address_book, states.metadata)
    assert_frame_equal(named[list(blocks.messages)], blocks.messages)
    for column in ("source", "destination"):
        place = list(named).index(column)
        assert list(named)[place + 1 : place + 3] == [f"{column}_name", f"{column}_friendly"]
        assert named[f"{column}_friendly"].isna().equals(named[column].isna())
        there = named[named[f"{column}_friendly"].notna()]
        assert tf.addresses.to_raw(there[f"{column}_friendly"]).equals(
            there[column].rename(f"{column}_friendly")
        )
    assert named.destination_name.notna().any()
    found = {c.name for t in schema.TABLES.values() for c in t.columns} & set(COLUMNS)
    assert found == set(COLUMNS)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((FRAME.to_pandas(), BOOK), {}, TypeError, "frames of one engine, not of pandas and"),
        (([1], BOOK), {}, TypeError, "takes a frame with addresses or code hashes, not list"),
        ((FRAME, [1]), {}, TypeError, "address_book as a frame"),
        ((FRAME, FRAME), {}, ValueError, "needs the column 'address' of address_book"),
        ((FRAME, BOOK, BOOK), {}, ValueError, "needs the column 'token_info' of metadata"),
        ((FRAME, BOOK), {"columns": ["to"]}, ValueError, "found none of the columns to"),
        ((FRAME, BOOK), {"columns": "account"}, TypeError, "put a single one into a list"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        with_names(*arguments, **options)


W5, W4 = (
    "IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8=",
    "/rX/aCDi/w2Ug+fg1iyBfYRniftK5YDIeIZtlZ2r1cA=",
)


@engines
def test_contracts_are_named_by_their_code_hash(engine):
    groups = pa.table({"n": [0, 1, 2, 3], "code_hash": [W5, None, "A" * 43 + "=", W4]})
    named = with_names(engine(groups), engine(BOOK))
    assert type(named) is type(engine(groups))
    assert listed(named) == {
        "n": [0, 1, 2, 3],
        "code_hash": [W5, None, "A" * 43 + "=", W4],
        "code_hash_name": ["wallet v5 r1", None, None, "wallet v4 r2"],
    }


def test_groups_by_code_get_the_names_of_their_contracts(recorded):
    groups = tf.gas_summary(recorded.frames[0], by="account_state_code_hash_before")
    named = with_names(groups, BOOK.to_pandas())
    assert_frame_equal(named[list(groups)], groups)
    assert "wallet v5 r1" in set(named.account_state_code_hash_before_name)
    assert str(named.account_state_code_hash_before_name.dtype) == "str"


def test_every_column_of_code_hashes_of_our_tables_gets_names():
    found = {c.name for t in schema.TABLES.values() for c in t.columns if "code_hash" in c.name}
    assert found == set(CODE_HASHES)


def test_names_are_not_added_twice():
    named = with_names(FRAME, BOOK)
    with pytest.raises(ValueError, match="would add the column 'account_name', which the frame"):
        with_names(named, BOOK)
