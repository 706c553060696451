"""Every helper on every engine: the same kind of frame back, and the same numbers in it."""

from __future__ import annotations

import re
from functools import cache
from inspect import isfunction
from pathlib import Path

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pytest
from chains import sample_tables, store_of_files
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal
from parity import (
    ENGINES,
    assert_same,
    collected,
    frame_of,
    lake,
    rows_of,
    spark_session,
    stepped,
)
from slow import FEW, slow

import tonframes as tf
from tonframes import analysis
from tonframes.analysis import engines, price_of, undo_gas_exchange
from tonframes.analysis.engines import divided
from tonframes.export import to_lake


def only(frame, *columns):
    """Select columns: other columns of the lake are different."""
    return nw.from_native(frame).select(*columns).to_native()


def prices_of(table):
    """Return a made-up price of 1 TON for each minute of transactions."""
    now = pd.to_datetime(table["now"].to_pandas(), unit="s")
    # Messages may be sent before the first transaction of the frame.
    minutes = pd.date_range(now.min().floor("h"), now.max(), freq="min")
    return pd.Series([2 + at % 7 / 8 for at in range(len(minutes))], index=minutes)


PRICES = prices_of(sample_tables()[0])

#: What is called, by a name: transactions and messages in, a frame out.
CALLS = {
    "undo_gas_exchange": lambda t, _: undo_gas_exchange(t),
    "fee_breakdown": lambda t, _: tf.fee_breakdown(t),
    "fee_summary": tf.fee_summary,
    "fee_summary of codes": lambda t, m: tf.fee_summary(t, m, by="compute_exit_code"),
    "fee_summary of opcodes": lambda t, m: tf.fee_summary(t, m, by=["opcode", "hour"]),
    "fee_summary of operations": lambda t, m: tf.fee_summary(t, m, by=["operation", "hour"]),
    "check_fees": lambda t, _: tf.check_fees(t),
    "check_balances": tf.check_balances,
    "gas_summary": lambda t, _: tf.gas_summary(t),
    "gas_summary of codes": lambda t, _: tf.gas_summary(
        t, by=["block_workchain", "compute_exit_code"]
    ),
    "gas_summary of opcodes": lambda t, m: tf.gas_summary(t, m, by=["opcode", "hour"]),
    "gas_summary of operations": lambda t, m: tf.gas_summary(t, m, by="operation"),
    "gas_outliers": lambda t, _: tf.gas_outliers(t, factor=1.5),
    "gas_outliers of codes": lambda t, _: tf.gas_outliers(
        t, by=["account_state_code_hash_before", "compute_gas_credit"], factor=1, min_calls=1
    ),
    "gas_outliers of opcodes": lambda t, m: tf.gas_outliers(
        t, m, by=["account_state_code_hash_before", "opcode"], factor=1, min_calls=2
    ),
    "gas_outliers of operations": lambda t, m: tf.gas_outliers(
        t, m, by=["account_state_code_hash_before", "operation"], factor=1, min_calls=2
    ),
    "price_of": lambda t, _: price_of(t),
    "failures": lambda t, _: tf.failures(t),
    "failure_summary": lambda t, _: tf.failure_summary(t),
    "failure_summary of opcodes": lambda t, m: tf.failure_summary(
        t, m, by=["opcode", "phase", "code"]
    ),
    "failure_summary of operations": lambda t, m: tf.failure_summary(
        t, m, by=["operation", "name"]
    ),
    "failure_summary of hours": lambda t, _: tf.failure_summary(t, by=["hour", "name"]),
    "trace_costs": tf.trace_costs,
    "storage_rates": lambda t, _: tf.storage_rates(t),
    "activity": tf.activity,
    "activity of shards": lambda t, m: tf.activity(t, m, by=["block_workchain", "block_shard"]),
    "activity of opcodes": lambda t, m: tf.activity(t, m, by=["opcode", "day"]),
    "activity of operations": lambda t, m: tf.activity(t, m, by=["operation", "account"]),
    "activity of all": lambda t, m: tf.activity(t, m, by=()),
    "activity without messages": lambda t, _: tf.activity(t),
    "flows": lambda _, m: tf.flows(m),
    "flows of all": lambda _, m: tf.flows(m, by=()),
    "flows of opcodes": lambda _, m: tf.flows(m, by=["opcode", "hour"]),
    "flows of operations": lambda _, m: tf.flows(m, by=["operation", "opcode"]),
    "flows of weeks": lambda _, m: tf.flows(m, by=["week", "month"], wide=True),
    "fee_summary of months": lambda t, m: tf.fee_summary(t, m, by=["week", "month"], wide=True),
    "with_operation": lambda t, m: only(tf.with_operation(t, m), "hash", "operation"),
    "with_operation of messages": lambda _, m: only(
        tf.with_operation(m), "msg_hash", "direction", "operation"
    ),
    "fee_summary of prices": lambda t, m: tf.fee_summary(t, m, by="opcode", prices=PRICES),
    "gas_summary of prices": lambda t, m: tf.gas_summary(t, m, by="opcode", prices=PRICES),
    "failure_summary of prices": lambda t, _: tf.failure_summary(t, prices=PRICES),
    "activity of prices": lambda t, m: tf.activity(t, m, prices=PRICES, currency="EUR", wide=True),
    "activity of prices without messages": lambda t, _: tf.activity(t, prices=PRICES),
    "flows of prices": lambda _, m: tf.flows(m, prices=PRICES),
    "with_price": lambda t, m: tf.with_price(tf.trace_costs(t, m), PRICES),
    "with_price of transactions": lambda t, _: only(
        tf.with_price(t, PRICES), "hash", "total_fees", "total_fees_usd"
    ),
    "to_ton": lambda t, _: tf.to_ton(tf.fee_breakdown(t)),
}


@cache
def expected(call):
    """Return what a call gives on pandas."""
    return collected("pandas", CALLS[call](*(table.to_pandas() for table in sample_tables())))


@pytest.fixture(scope="session")
def frames(tmp_path_factory):
    """Return a function that makes frames of an engine: of the sample, empty, as in the lake."""
    folder = tmp_path_factory.mktemp("engines")
    tables = {
        "sample": sample_tables(),
        "empty": [table[:0] for table in sample_tables()],
        "lake": [lake(table) for table in sample_tables()],
    }

    @cache
    def frames(engine, rows="sample"):
        return [frame_of(engine, table, folder) for table in tables[rows]]

    return frames


#: One call of each kind: by row, in groups, over traces, of messages alone.
KINDS = ["fee_breakdown", "fee_summary", "trace_costs", "flows"]


def marks(engine, call):
    """Return the marker of a pair; the ordinary run has the calls of `KINDS` on every engine.

    Every other call is compared once: pandas with DuckDB, or with pyarrow.
    """
    if engine == "spark":
        return [pytest.mark.spark]
    once = "pyarrow" if " of " in call else "duckdb"
    return [] if call in KINDS or engine == once else [pytest.mark.slow]


#: Dask and Spark have all calls on a store of many files, below.
PAIRS = [
    pytest.param(engine, call, marks=marks(engine, call))
    for engine in (*ENGINES[1:], "spark")
    for call in (KINDS if engine in ("dask", "spark") else CALLS)
]


@pytest.mark.parametrize(("engine", "call"), PAIRS)
def test_every_engine_gives_its_own_kind_of_frame_and_the_same_numbers(engine, call, frames):
    assert_same(expected(call), collected(engine, CALLS[call](*frames(engine))))
    assert expected(call).num_rows


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("engine", ["pandas", *slow("polars-lazy", "duckdb", "pyarrow", "dask")])
def test_empty_frames_have_the_same_columns(engine, call, frames):
    found = collected(engine, CALLS[call](*frames(engine, "empty")))
    assert found.schema == expected(call).schema
    assert found.num_rows == 0


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, marks=[pytest.mark.slow] * (" of " in call))
        for call in CALLS
        if call != "undo_gas_exchange"
    ],
)
@pytest.mark.parametrize("engine", ["pyarrow", *slow("pandas-pyarrow", "polars", "duckdb")])
def test_every_helper_reads_frames_of_the_lake(engine, call, frames):
    # There opcodes are signed, bodies bytes, integers narrow; and nothing of ours is beside them.
    found = collected(engine, CALLS[call](*frames(engine, "lake")))
    assert rows_of(found) == rows_of(collected(engine, CALLS[call](*frames(engine))))


# ── through scan, on stores of many files ────────────────────────────────────────────────────────

#: The engines of `scan`, by their names here.
SCANNED = {
    "pyarrow": "pyarrow",
    "polars-lazy": "polars",
    "duckdb": "duckdb",
    "dask": "dask",
    "spark": "spark",
}
#: Calls that return all columns of a frame: those of the lake are others.
WHOLE = ("undo_gas_exchange",)


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """Return a store of many files, and the same in the form of the lake."""
    folder = tmp_path_factory.mktemp("scanned")
    store = store_of_files(folder / "store")
    to_lake(store, folder / "lake")
    return {"store": store, "lake": folder / "lake"}


@cache
def spread(call, store):
    """Return what a call gives on pandas, of a store."""
    blocks = tf.read_blocks(store)
    return collected("pandas", CALLS[call](blocks.transactions, blocks.messages))


def scanned_marks(engine, call):
    if engine == "spark":
        return [pytest.mark.spark]
    ordinary = call in KINDS and engine != "dask"
    return [] if ordinary else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("engine", "call"),
    [
        pytest.param(engine, call, marks=scanned_marks(engine, call))
        for engine in SCANNED
        for call in CALLS
        if engine != "spark" or " of " not in call  # a call takes Spark some seconds
    ],
)
def test_every_helper_on_a_store_of_many_files(engine, call, places):
    if engine == "spark":
        spark_session()
    given = [
        tf.scan(places["store"], name, engine=SCANNED[engine])
        for name in ("transactions", "messages")
    ]
    assert_same(spread(call, places["store"]), collected(engine, CALLS[call](*given)))


@pytest.mark.parametrize(
    ("engine", "call"),
    [
        pytest.param(
            engine,
            call,
            marks=[pytest.mark.spark] * (engine == "spark")
            or [pytest.mark.slow] * (engine != "pyarrow" or call not in KINDS),
        )
        for engine in SCANNED
        for call in (CALLS if engine in ("pyarrow", "polars-lazy") else KINDS)
        if call not in WHOLE
    ],
)
def test_every_helper_on_files_of_the_lake(engine, call, places):
    if engine == "spark":
        spark_session()
    given = [
        tf.scan(places["lake"], name, engine=SCANNED[engine])
        for name in ("transactions", "messages")
    ]
    found = collected(engine, CALLS[call](*given))
    assert rows_of(found) == rows_of(spread(call, places["store"]))


def test_every_helper_is_called():
    takes_frames = {re.split(" of | without ", name)[0] for name in CALLS}
    helpers = {
        name
        for module in (tf, analysis)
        for name in module.__all__
        if isfunction(helper := getattr(module, name))
        and {"transactions", "messages"} & helper.__annotations__.keys()
    }
    # Bodies are read by Python and pictures drawn: they have tests of their own.
    drawn = {name for name in helpers if name.startswith("plot_")}
    assert takes_frames - {"to_ton", "with_price"} == helpers - drawn - {
        "decode_bodies",
        "parse_transactions",
    }


def test_only_the_modules_of_engines_know_them():
    modules = {path.stem: path.read_text() for path in Path(engines.__file__).parent.glob("*.py")}
    knowing = {name for name, source in modules.items() if "implementation" in source}
    assert knowing == {"engines", "intake", "sums", "periods", "traces"}


def rewritten(rows):
    return rows.with_columns(
        text=nw.when(nw.col("text") == "a").then(nw.lit("z")).otherwise(nw.col("text")),
        number=nw.col("number") + 1,
    )


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
def test_a_step_may_rewrite_a_text_under_its_own_name(engine, tmp_path):
    table = pa.table({"text": ["a", "b", None], "number": [1, 2, 3], "other": ["a", "a", "b"]})
    frame = frame_of(engine, table, tmp_path)
    columns = ["text", "number"]
    for found in (
        stepped(lambda rows: engines.by_row(rows, rewritten), frame),
        engines.replace(
            nw.from_native(frame), rewritten, reads=columns, writes=columns
        ).to_native(),
    ):
        rows = collected(engine, found).sort_by("number")
        assert rows["text"].to_pylist() == ["z", "b", None]
        assert rows["number"].to_pylist() == [2, 3, 4]
        assert rows["other"].to_pylist() == ["a", "a", "b"]


def test_columns_that_a_step_does_not_read_pass_as_they_are():
    frame = pd.DataFrame(
        {
            "mine": pd.Series([object(), 2, "x"], dtype=object),
            "text": ["a", "b", None],
            "number": [1, 2, 3],
            "kind": pd.Categorical(["p", "q", "p"]),
        },
        index=[7, 7, 9],
    )
    found = engines.replace(
        nw.from_native(frame), rewritten, reads=["text", "number"], writes=["number"]
    )
    expected = frame.assign(number=pd.array([2, 3, 4], "Int64"))
    assert_frame_equal(found.to_native(), expected)


@pytest.fixture(scope="module")
def sample():
    return [table.to_pandas() for table in sample_tables()]


INDEXES = {
    "with a name": lambda count: pd.RangeIndex(count, 0, -1, name="place"),
    "with duplicates": lambda count: pd.Index([at % 3 for at in range(count)]),
    "of two levels": lambda count: pd.MultiIndex.from_arrays(
        [[at % 3 for at in range(count)], range(count)], names=["a", "b"]
    ),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("helper", [tf.fee_breakdown, tf.check_fees, price_of, tf.failures])
def test_rows_of_a_pandas_frame_keep_their_index(helper, index, sample):
    transactions = sample[0].set_axis(INDEXES[index](len(sample[0])))
    found = helper(transactions)
    hashes = transactions.hash if helper is not tf.failures else found.hash
    assert_series_equal(found.hash, hashes)
    places = sample[0].index[sample[0].hash.isin(found.hash)]
    assert_index_equal(found.index, transactions.index[places])


@pytest.mark.parametrize("helper", [tf.fee_breakdown, tf.gas_outliers, tf.storage_rates])
def test_columns_that_are_not_read_may_hold_anything(helper, sample):
    junk = [object()] * len(sample[0])
    assert_frame_equal(helper(sample[0].assign(mine=junk)), helper(sample[0]))


#: Columns to group by: what a user may have, and the dtype and the values in the result.
MINE = {
    "floats": ([1.5, None], "Float64", [1.5, None]),
    "floats of Arrow": (
        pd.array(pa.array([1.5, float("nan"), None]), pd.ArrowDtype(pa.float64())),
        "Float64",
        [1.5, None],
    ),
    "categories": (pd.Categorical(["z", None]), "str", ["z", None]),
    "objects": (pd.Series(["z", None], dtype=object), "str", ["z", None]),
    "bytes": (pd.Series([b"z", None], dtype=object), "binary[pyarrow]", [b"z", None]),
    "seconds": (
        pd.to_datetime(["2026-05-01", None]).as_unit("s"),
        "datetime64[s]",
        [pd.Timestamp("2026-05-01"), None],
    ),
    "unsigned": (pd.array([2**64 - 1, None], "UInt64"), "UInt64", [2**64 - 1, None]),
    "small": (pd.array([7, None], "Int8"), "Int64", [7, None]),
}


@pytest.mark.parametrize("mine", MINE)
def test_columns_to_group_by_may_be_of_any_dtype(mine, sample):
    values, dtype, expected = MINE[mine]
    transactions = sample[0].iloc[: len(values)].assign(mine=values)
    found = tf.gas_summary(transactions, by="mine")
    assert str(found.mine.dtype) == dtype
    listed = [None if pd.isna(value) else value for value in found.mine]
    assert sorted(listed, key=str) == sorted(expected, key=str)


@given(
    st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50), st.sampled_from([3000, 10**9])
)
@FEW
def test_a_quotient_is_the_nearest_float(amounts, by):
    found = stepped(
        lambda rows: rows.with_columns(quotient=divided(nw.col("amount"), by)),
        pd.DataFrame({"amount": amounts}),
    )
    assert found.quotient.to_list() == [amount / by for amount in amounts]


def never(_):
    raise AssertionError("a lazy frame was computed")


def uncomputable(engine, frame):
    """Return a lazy frame that fails when it is computed."""
    match engine:
        case "polars-lazy":
            return frame.map_batches(never, schema=frame.collect_schema())
        case "duckdb":
            first = frame.columns[0]
            return frame.filter(f"case when {first} is null then true else error('computed') end")
        case "dask":
            return frame.map_partitions(never, meta=frame._meta)


@pytest.mark.parametrize("engine", ["polars-lazy", *slow("duckdb", "dask")])
def test_lazy_frames_are_not_computed(engine, frames):
    given = [uncomputable(engine, frame) for frame in frames(engine)]
    for call in CALLS.values():
        result = call(*given)
    with pytest.raises(Exception, match="computed"):
        collected(engine, result)


def test_duckdb_fetches_times_with_their_zone():
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.read_parquet(f"{tf.sample()}/transactions/*.parquet")
    [(first,)] = rows.aggregate("min(block_time)").fetchall()
    assert first == tf.read_blocks(tf.sample()).transactions["block_time"].min()
