"""Amounts in a currency: the price of the moment, exact sums, and what is told."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from parity import LAZY, MOST_ENGINES, collected, frame_of

import tonframes as tf
from tonframes.analysis.results import RESULTS

DAY = 86_400
FIRST = pd.Timestamp("2026-03-01", tz="UTC")
START = int(FIRST.timestamp())


def daily(*prices):
    return pd.Series(prices, index=pd.date_range(FIRST, periods=len(prices)))


def amounts(*days):
    """Return a frame with an amount of 1 TON at noon of each day."""
    now = [None if day is None else START + day * DAY + DAY // 2 for day in days]
    return pd.DataFrame(
        {
            "cost": pd.array([10**9] * len(days), "Int64"),
            "note": "x",
            "now": pd.array(now, "Int64"),
        },
        index=range(7, 7 + len(days)),
    )


# ── which price ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", [*MOST_ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.filterwarnings("ignore::tonframes.TonframesWarning")
def test_the_price_of_the_moment_is_found_on_every_engine(engine, tmp_path):
    rows = {"cost": [10**9, 2**62 + 1, None, 5, 7], "now": [9, 10, 11, 20, None]}
    table = pa.Table.from_pandas(pd.DataFrame(rows, dtype="Int64"))
    prices = pd.Series([2.0, 3.0], index=pd.to_datetime([10, 20], unit="s"))
    found = collected(engine, tf.with_price(frame_of(engine, table, tmp_path), prices))
    assert found.column_names == ["cost", "cost_usd", "now"]
    by_cost = dict(zip(found["cost"].to_pylist(), found["cost_usd"].to_pylist(), strict=True))
    assert by_cost == {
        10**9: None,
        2**62 + 1: pytest.approx((2**62 + 1) / 10**9 * 2, rel=4e-16),
        None: None,
        5: 5 / 10**9 * 3,
        7: None,
    }
    assert found["cost"].type == pa.int64()


@pytest.mark.parametrize("engine", [*MOST_ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.filterwarnings("ignore::tonframes.TonframesWarning")
def test_no_price_is_in_force_after_the_year_9999(engine, tmp_path):
    last = 253_402_300_799
    table = pa.table({"cost": [1, 2, 3, 4], "now": [last, last + 1, 2**53 + 1, 2**63 - 1]})
    found = tf.with_price(frame_of(engine, table, tmp_path), daily(2.0, 3.0))
    found = collected(engine, found).sort_by("cost")
    assert found["cost_usd"].to_pylist() == [1 / 10**9 * 3, None, None, None]


@pytest.mark.parametrize("engine", [*MOST_ENGINES, pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()])
def test_times_are_moments_or_dates_as_well(engine, kind, tmp_path):
    days = pa.array([START * 10**6, (START + DAY) * 10**6, None], pa.int64())
    table = pa.table({"mine": [10**9] * 3, "at": days.cast(pa.timestamp("us", "UTC")).cast(kind)})
    frame = frame_of(engine, table, tmp_path)
    options = {"columns": ["mine"], "time": "at", "currency": "EUR"}
    if engine == "pandas" and pa.types.is_date(kind):
        frame["at"] = pd.to_datetime(frame["at"])  # pandas itself has only Python's dates
    found = collected(engine, tf.with_price(frame, daily(2.0, 3.0), **options))
    assert sorted(found["mine_eur"].to_pylist(), key=str) == [2.0, 3.0, None]


def test_a_frame_keeps_its_rows_and_is_not_changed():
    frame = amounts(0, 1)
    before = frame.copy()
    found = tf.with_price(frame, daily(2.0, 3.0))
    assert_frame_equal(frame, before)
    assert list(found) == ["cost", "cost_usd", "note", "now"]
    assert_frame_equal(found.drop(columns="cost_usd"), before)
    assert found.cost_usd.to_list() == [2.0, 3.0]
    assert found.cost_usd.dtype == "Float64"


@given(
    cost=st.integers(-(2**63), 2**63 - 1),
    price=st.floats(1e-6, 1e6),
)
def test_an_amount_differs_by_less_than_4_parts_in_10_to_16(cost, price):
    frame = pd.DataFrame({"cost": [cost], "now": [START]})
    found = tf.with_price(frame, daily(price)).cost_usd[0]
    exact = Fraction(cost, 10**9) * Fraction(price)
    assert abs(Fraction(found) - exact) <= abs(exact) * Fraction(4, 10**16)


def test_all_amounts_of_our_tables_and_results_are_converted():
    blocks = tf.read_blocks(tf.sample())
    day = pd.to_datetime(blocks.transactions.now.min(), unit="s").floor("D")
    prices = pd.Series([3.0], index=[day])
    for frame, name in (
        (blocks.transactions, "transactions"),
        (blocks.messages, "messages"),
        (tf.trace_costs(blocks), "trace_costs"),
        (tf.failures(blocks), "failures"),
        (tf.storage_rates(blocks), "storage_rates"),
    ):
        units = tf.describe(name).set_index("column").unit
        added = [column for column in tf.with_price(frame, prices) if column not in frame]
        assert added == [f"{column}_usd" for column in units.index[units == "nanoton"]], name
    fees = tf.fee_breakdown(blocks)
    with pytest.raises(ValueError, match="found no time"):
        tf.with_price(fees, prices)
    fees = fees.assign(now=blocks.transactions.now)
    assert tf.with_price(fees, prices).total_usd.sum() == pytest.approx(fees.total.sum() * 3e-9)


def test_rates_are_converted_if_they_are_named():
    rates = tf.storage_rates(tf.read_blocks(tf.sample()))
    found = tf.with_price(rates, daily(3.0), columns=["rent_per_day"])
    pd.testing.assert_series_equal(
        found.rent_per_day_usd, rates.rent_per_day * 3e-9, check_names=False
    )
    with pytest.raises(TypeError, match="Is it already in TON"):
        tf.with_price(rates, daily(3.0), columns=["days_left"])


def test_a_period_with_several_prices_is_refused_unless_it_is_named():
    week = FIRST - pd.Timedelta(6, "D")
    summary = pd.DataFrame({"week": [week], "cost": [10**9]})
    prices = pd.Series([2.0, 3.0, 9.0], index=pd.date_range(week, periods=3))
    with pytest.raises(ValueError, match=r"several prices within one week: pass prices= to the s"):
        tf.with_price(summary, prices)
    assert tf.with_price(summary, prices, time="week").cost_usd.to_list() == [2.0]
    days = summary.rename(columns={"week": "day"})
    assert tf.with_price(days, prices).cost_usd.to_list() == [2.0]


# ── what prices may be ───────────────────────────────────────────────────────────────────────────

DATES = [dt.date(2026, 3, 1), dt.date(2026, 3, 2)]


@pytest.mark.parametrize(
    "prices",
    [
        daily(2.0, 3.0),
        daily(2, 3),
        daily(2.0, 3.0)[::-1],
        daily(2.0, 3.0).tz_localize(None),
        daily(2.0, 3.0).tz_convert("Asia/Tokyo"),
        pd.Series([Decimal(2), Decimal(3)], index=DATES),
        pd.Series([2.0, 3.0], index=pd.PeriodIndex(DATES, freq="D")),
        pd.Series([2, 3], index=pd.DatetimeIndex(DATES), dtype="Int64"),
        pd.Series([2, 3], index=pd.DatetimeIndex(DATES), dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pd.Series([2.0, 3.0], index=pd.Index(DATES, dtype=pd.ArrowDtype(pa.date32()))),
        pd.Series([2.0, 3.0], index=pd.Index(DATES, dtype=pd.ArrowDtype(pa.timestamp("ns")))),
    ],
)
def test_prices_of_any_numbers_by_dates_moments_or_periods(prices):
    assert tf.with_price(amounts(0, 1), prices).cost_usd.to_list() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("prices", "error", "says"),
    [
        (None, TypeError, "needs prices: a pandas Series"),
        ([1.0], TypeError, "takes prices as a pandas Series.*not list"),
        (daily(1.0).to_frame(), TypeError, "not DataFrame: pass one of its columns"),
        (pd.Series([1.0]), TypeError, r"index of prices is int64.*pd\.to_datetime\(prices\.index"),
        (pd.Series([1.0], index=["2026-03-01"]), TypeError, "index of prices is str.*to_datetime"),
        (pd.Series([1.0], index=[pd.NaT]), ValueError, "1 prices have no date"),
        (pd.concat([daily(1.0)] * 2), ValueError, "1 moments more than once, the first 2026-03"),
        (daily(1.0, -2.0), ValueError, "price at 2026-03-02 .* is -2.0: a price is mo"),
        (daily(0), ValueError, "more than 0 and finite. Replace unknown prices by NaN"),
        (daily(math.inf), ValueError, "more than 0 and finite"),
        (daily("1.5"), TypeError, r"is '1.5', not a number: .*to_numeric"),
        (daily(True), TypeError, "is True, not a number"),
        (daily(math.nan, None), ValueError, "found no price in prices: all 2 are missing"),
        (daily()[:0], ValueError, "found no price"),
    ],
)  # fmt: skip
def test_other_prices_are_refused(prices, error, says):
    with pytest.raises(error, match=says):
        tf.with_price(amounts(0), prices)


def test_prices_within_a_second_are_in_force_from_the_next_one():
    moments = pd.to_datetime([10.0, 15.0, 19.2, 19.7, 25.0], unit="s")
    frame = pd.DataFrame({"cost": 10**9, "now": [19, 20]})
    found = tf.with_price(frame, pd.Series([9.0, 1.0, 2.0, 3.0, 4.0], index=moments))
    assert found.cost_usd.to_list() == [1.0, 3.0]


def test_other_arguments_are_refused():
    frame = amounts(0)
    for options, error, says in (
        ({"currency": 5}, TypeError, "currency is a text"),
        ({"currency": "US $"}, ValueError, "letters and digits"),
        ({"columns": "cost"}, TypeError, "put a single one into a list"),
        ({"columns": ["cots"]}, ValueError, r"no column 'cots'. Did you mean 'cost'\?"),
        ({"time": "noww"}, ValueError, r"no column 'noww'. Did you mean 'now'\?"),
        ({"time": "note"}, TypeError, "unix seconds, a moment or a date; the column 'note'"),
    ):
        with pytest.raises(error, match=says):
            tf.with_price(frame, daily(1.0), **options)
    with pytest.raises(ValueError, match="would add the column 'cost_usd'"):
        tf.with_price(tf.with_price(frame, daily(1.0)), daily(1.0))
    with pytest.raises(ValueError, match=r"knows no column .* in nanoton: name such columns"):
        tf.with_price(frame[["now"]], daily(1.0))
    with pytest.raises(TypeError, match="takes a frame with amounts, not int"):
        tf.with_price(5, daily(1.0))


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


def test_missing_prices_and_gaps_are_told_and_filled_from_before():
    with pytest.warns(tf.TonframesWarning, match="of 3 prices, 1 is missing, the first 2026-03-02"):
        found = tf.with_price(amounts(0, 1, 2), daily(2.0, None, 4.0))
    assert found.cost_usd.to_list() == [2.0, 2.0, 4.0]
    prices = daily(*np.arange(1.0, 10)).drop([FIRST + pd.Timedelta(3, "D")])
    says = r"1 is followed by a gap longer than the usual step of 1 day, the first 2026-03-03"
    with pytest.warns(tf.TonframesWarning, match=says):
        found = tf.with_price(amounts(2, 3, 4), prices)
    assert found.cost_usd.to_list() == [3.0, 3.0, 5.0]


@pytest.mark.parametrize("engine", MOST_ENGINES)
def test_rows_outside_the_prices_are_told_of_frames_in_memory(engine, tmp_path, recwarn):
    table = pa.Table.from_pandas(amounts(0, 1, 2, 3), preserve_index=False)
    found = tf.with_price(frame_of(engine, table, tmp_path), daily(2.0, 3.0)[1:])
    prices = daily(2.0, 3.0)[1:]
    assert sorted(collected(engine, found)["cost_usd"].to_pylist(), key=str) == [
        3.0,
        3.0,
        3.0,
        None,
    ]
    told = [str(w.message) for w in recwarn if w.category is tf.TonframesWarning]
    assert len(told) == (0 if engine in LAZY else 1), told
    assert all("1 rows are before the first price, of 2026-03-02" in text for text in told)
    recwarn.clear()
    prices = daily(2.0, 3.0)
    tf.with_price(frame_of(engine, table, tmp_path), prices)
    told = [str(w.message) for w in recwarn if w.category is tf.TonframesWarning]
    assert len(told) == (0 if engine in LAZY else 1), told
    assert all("2 rows are more than 1 day," in text for text in told)


@pytest.mark.parametrize("engine", ["pandas", "polars", "pyarrow"])
def test_summaries_have_no_price_for_a_time_beyond_2_to_the_53(engine, tmp_path):
    transactions = tf.read_blocks(tf.sample()).transactions
    far = transactions.assign(now=pd.array([2**53 + 1] * len(transactions), "Int64"))
    far = frame_of(engine, pa.Table.from_pandas(far, preserve_index=False), tmp_path)
    with pytest.warns(tf.TonframesWarning) as caught:
        found = collected(engine, tf.gas_summary(far, by=(), prices=daily(2.0, 3.0)))
    assert found["gas_fees_usd"].to_pylist() == [None]
    (told,) = [str(one.message) for one in caught]
    assert told.startswith("gas_summary: 3000 rows are after the year 9999: their amounts in USD")


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────

SUMMARIES = {
    "fee_summary": {},
    "gas_summary": {},
    "failure_summary": {},
    "activity": {"by": ()},
    "flows": {"by": ()},
}


def minutely(blocks):
    """Return a price for each minute of the blocks."""
    now = pd.to_datetime(blocks.transactions.now, unit="s")
    minutes = pd.date_range(now.min().floor("min"), now.max(), freq="min")
    return pd.Series(np.linspace(2.0, 4.0, len(minutes)), index=minutes)


@pytest.mark.parametrize("name", SUMMARIES)
def test_each_transaction_is_converted_at_its_own_price(name):
    blocks = tf.read_blocks(tf.sample())
    prices = minutely(blocks)
    assert len(prices) > 3
    helper, options = getattr(tf, name), {**SUMMARIES[name], "by": ()}
    whole = helper(blocks, **options, prices=prices, currency="EUR")
    units = tf.describe(name).set_index("column").unit
    amounts = list(units.index[units == "nanoton"])
    assert_frame_equal(whole[list(helper(blocks, **options))], helper(blocks, **options))
    for column in amounts:
        assert list(whole)[list(whole).index(column) + 1] == f"{column}_eur"
    # By minute there is one price for each group.
    clock = "created_at" if name == "flows" else "now"
    table = blocks.messages if name == "flows" else blocks.transactions
    table = table.assign(minute=table[clock] // 60 * 60)
    frames = [table] if name == "flows" else [table, blocks.messages]
    parts = helper(*frames, **options | {"by": "minute"})
    priced = tf.with_price(parts, prices, time="minute", columns=amounts, currency="EUR")
    for column in amounts:
        expected = sum(map(Fraction, priced[f"{column}_eur"].dropna()))
        assert float(whole[f"{column}_eur"].sum()) == pytest.approx(float(expected), rel=1e-14)
    assert not whole.filter(regex="_eur").isna().any(axis=None)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_sum_with_an_unknown_price_is_null(name):
    blocks = tf.read_blocks(tf.sample())
    prices = minutely(blocks)[2:]
    with pytest.warns(tf.TonframesWarning, match=rf"{name}: \d+ rows are before the first price"):
        found = getattr(tf, name)(blocks, by=(), prices=prices)
    assert found.filter(regex="_usd").isna().all(axis=None)
    assert not found.filter(regex="^(cost|value|gas_fees)$").isna().any(axis=None)


def test_sums_of_many_rows_are_as_exact_as_one_amount():
    # A sum of so many floats is off by more than 10^-13.
    rows = 10**5
    blocks = tf.read_blocks(tf.sample())
    one = blocks.transactions.iloc[:1]
    hashes = [f"{row:044}" for row in range(rows)]
    many = one.loc[one.index.repeat(rows)].assign(total_fees=10**9 // 3, hash=hashes)
    price = 0.1
    prices = pd.Series([price], index=pd.to_datetime([0], unit="s"))
    found = tf.activity(many, by=(), prices=prices).total_fees_usd[0]
    exact = Fraction(rows * (10**9 // 3), 10**9) * Fraction(price)
    assert abs(Fraction(found) - exact) <= exact * Fraction(4, 10**16)


def test_a_column_in_the_currency_is_no_key():
    blocks = tf.read_blocks(tf.sample())
    frame = blocks.transactions.assign(cost_usd=1)
    with pytest.raises(
        ValueError, match="cannot group by 'cost_usd': it is a column of the result"
    ):
        tf.fee_summary(frame, blocks.messages, by="cost_usd", prices=daily(1.0))


def test_summaries_without_prices_have_the_declared_columns():
    blocks = tf.read_blocks(tf.sample())
    for name in SUMMARIES:
        found = getattr(tf, name)(blocks, by=())
        assert list(found) == RESULTS[name].names()
