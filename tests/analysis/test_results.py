"""Results: frames and docstrings have the declared columns, in order, with the declared dtypes."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace

import pytest
from chain import synthetic_blocks
from pandas.testing import assert_series_equal

import tonframes as tf
from tonframes import analysis
from tonframes.analysis.results import BY, RESULTS

#: What each helper is called with, beside blocks, and the columns that it then groups by.
CALLS = {
    "fee_breakdown": ({}, []),
    "fee_summary": ({"by": ["opcode", "month"]}, ["opcode", "month"]),
    "check_fees": ({}, []),
    "check_balances": ({}, []),
    "gas_summary": ({"by": ["opcode", "hour"]}, ["opcode", "hour"]),
    "gas_outliers": ({"by": ["opcode"], "factor": 1, "min_calls": 1}, ["opcode"]),
    "price_of": ({}, []),
    "failures": ({}, []),
    "failure_summary": ({"by": ["account", "week"]}, ["account", "week"]),
    "trace_costs": ({}, []),
    "activity": ({"by": ["day", "account"]}, ["day", "account"]),
    "flows": ({"by": ["source", "opcode"]}, ["source", "opcode"]),
    "storage_rates": ({}, []),
}


def public(name):
    return getattr(analysis if name in analysis.__all__ else tf, name)


@pytest.fixture(scope="module")
def blocks():
    return tf.parse_blocks(synthetic_blocks(1, seed=3, transactions_per_block=60)[0])


def test_every_result_is_of_a_public_function():
    others = {"with_names", "with_operation", "with_price", "decode_bodies", "jetton_amounts"}
    assert {*CALLS, *others} == RESULTS.keys()
    assert RESULTS.keys() <= {*tf.__all__, *analysis.__all__}


@pytest.mark.parametrize("name", CALLS)
def test_a_blocks_goes_in_place_of_two_frames(name, blocks):
    options, _ = CALLS[name]
    helper = public(name)
    parameters = inspect.signature(helper).parameters
    frames = [blocks.messages if table == "messages" else blocks.transactions
              for table in ("transactions", "messages") if table in parameters]  # fmt: skip
    found = helper(blocks, **options)
    assert found.equals(helper(*frames, **options))
    if len(frames) > 1:
        with pytest.raises(ValueError, match=f"{name} takes the messages of a Blocks from itself"):
            helper(blocks, blocks.messages, **options)


@pytest.mark.parametrize("name", CALLS)
def test_columns_and_dtypes_are_as_declared_whatever_the_rows(name, blocks):
    options, keys = CALLS[name]
    helper, declared = public(name), RESULTS[name]
    found = helper(blocks, **options)
    assert list(found) == declared.names(keys)
    dtypes = {column.name: column.dtype for column in declared.columns if column is not BY}
    assert {column: str(found[column].dtype) for column in dtypes} == dtypes
    if "messages" in inspect.signature(helper).parameters and name != "flows":
        empty = helper(blocks.transactions[:0], blocks.messages[:0], **options)
    else:
        empty = helper((blocks.messages if name == "flows" else blocks.transactions)[:0], **options)
    assert_series_equal(empty.dtypes, found.dtypes)


@pytest.mark.parametrize("name", RESULTS)
def test_the_docstring_lists_the_columns_in_order(name):
    returns = inspect.getdoc(public(name)).split("Returns\n-------\n")[1]
    returns = re.split(r"\n\n\w+\n-+\n", returns)[0]
    listed = []
    for line in re.findall(r"^- (.*?)[:.;]", returns, re.MULTILINE):
        listed += ["by"] if line == "the columns of `by`" else line.split(", ")
    assert listed == [column.name for column in RESULTS[name].columns]


@pytest.mark.parametrize("name", RESULTS)
def test_describe_tells_of_results(name):
    found = tf.describe(name)
    assert list(found.column) == [column.name for column in RESULTS[name].columns]
    assert found.meaning.str.len().max() <= 100
    assert found.column.is_unique
    # Of the columns here only these of a message stand in the API.
    assert set(found.column[~found.derived]) <= {"msg_hash", "source", "destination"}


def test_the_near_table_or_result_is_suggested():
    with pytest.raises(ValueError, match=r"no table or result 'fee_sumary'. Did you mean 'fee_sum"):
        tf.describe("fee_sumary")


WIDE = [name for name in CALLS if "wide" in inspect.signature(public(name)).parameters]


#: The columns of results that are sums.
SUMS = {
    column.name
    for name in WIDE
    for column in RESULTS[name].columns
    if column.unit == "nanoton" and column.name not in ("balance", "debt")
}


@pytest.fixture(scope="module")
def rich():
    """Return frames in which two amounts are more than int64 holds."""
    blocks = tf.read_blocks(tf.sample())
    fees = ["total_fees", "compute_gas_fees", "storage_fees_collected"]
    transactions = blocks.transactions.assign(**dict.fromkeys(fees, 2**62))
    return transactions, blocks.messages.assign(value=2**62)


@pytest.mark.parametrize("name", WIDE)
def test_sums_that_do_not_fit_are_refused_by_every_helper(name, rich):
    helper, declared = public(name), RESULTS[name]
    transactions, messages = rich
    parameters = inspect.signature(helper).parameters
    frames = [transactions, messages] if "transactions" in parameters else [messages]
    frames = frames if "messages" in parameters else [transactions]
    options = {"by": ()} if "by" in parameters else {}
    with pytest.raises(OverflowError, match=rf"^{name} cannot add up \w+ of .* does not fit int64"):
        helper(*frames, **options)
    found = helper(*frames, **options, wide=True)
    amounts = [column.name for column in declared.columns if column.name in SUMS]
    assert {str(found[column].dtype) for column in amounts} == {"decimal128(38, 0)[pyarrow]"}
    assert max(int(found[column].dropna().max()) for column in amounts) >= 2**63


def test_help_begins_with_a_short_signature():
    functions = [getattr(tf, name) for name in tf.__all__ if inspect.isfunction(getattr(tf, name))]
    assert len(functions) > 40
    assert max(len(str(inspect.signature(function))) for function in functions) < 400


def test_an_object_with_both_tables_is_enough(blocks):
    both = SimpleNamespace(
        transactions=blocks.arrow("transactions"), messages=blocks.arrow("messages")
    )
    found = tf.fee_summary(both, by="opcode")
    assert found.equals(tf.fee_summary(both.transactions, both.messages, by="opcode"))
    pl = pytest.importorskip("polars")
    lazy = SimpleNamespace(
        transactions=pl.from_arrow(both.transactions).lazy(),
        messages=pl.from_arrow(both.messages).lazy(),
    )
    assert isinstance(tf.flows(lazy), pl.LazyFrame)
    with pytest.raises(
        TypeError, match=r"takes messages as .* not NoneType: pass two frames, or a"
    ):
        tf.fee_summary(blocks.transactions)
