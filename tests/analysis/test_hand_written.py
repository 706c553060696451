"""The queries of the benchmark return what the helpers return: else it would compare nothing."""

from __future__ import annotations

import pytest
from benchmarks.bench_engines import HELPERS
from benchmarks.hand_written import QUERIES
from benchmarks.hand_written_polars import QUERIES as QUERIES_OF_POLARS
from chains import sample_tables
from parity import assert_same, collected, frame_of


@pytest.mark.parametrize("helper", QUERIES)
def test_a_query_written_by_hand_returns_the_rows_of_the_helper(helper, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    transactions, messages = (frame_of("duckdb", table, tmp_path) for table in sample_tables())
    with duckdb.connect() as connection:
        connection.register("transactions", transactions.to_arrow_table())
        connection.register("messages", messages.to_arrow_table())
        by_hand = collected("duckdb", connection.sql(QUERIES[helper]))
    expected = collected("duckdb", HELPERS[helper](transactions, messages))
    assert_same(expected.select(by_hand.column_names), by_hand)
    assert expected.num_rows


@pytest.mark.parametrize("helper", QUERIES_OF_POLARS)
def test_a_query_for_polars_returns_the_rows_of_the_helper(helper, tmp_path):
    frames = [frame_of("polars-lazy", table, tmp_path) for table in sample_tables()]
    by_hand = collected("polars-lazy", QUERIES_OF_POLARS[helper](*frames))
    expected = collected("polars-lazy", HELPERS[helper](*frames))
    assert_same(expected.select(by_hand.column_names), by_hand)
    assert expected.num_rows


def plan(helper, folder):
    frames = (frame_of("duckdb", table, folder) for table in sample_tables())
    return HELPERS[helper](*frames).explain()


def test_medians_follow_from_counts_and_not_from_rows(tmp_path):
    pytest.importorskip("duckdb")
    assert "groups:" in plan("gas_outliers", tmp_path).lower()


def test_chains_of_transactions_are_followed_by_numbers(tmp_path):
    pytest.importorskip("duckdb")
    found = plan("trace_costs", tmp_path)
    assert "previous = link" in found or "link = previous" in found


@pytest.mark.parametrize("helper", ["with_operation", "failures", "failure_summary"])
def test_names_are_joined_and_not_searched_for_each_row(helper, tmp_path):
    pytest.importorskip("duckdb")
    assert "MARK" not in plan(helper, tmp_path)


def test_accounts_are_rows_before_they_are_counted(tmp_path):
    """DuckDB would keep different accounts of all groups in memory."""
    pytest.importorskip("duckdb")
    frames = (frame_of("duckdb", table, tmp_path) for table in sample_tables())
    assert "count(distinct" not in HELPERS["activity"](*frames).sql_query().lower()


def test_sums_are_not_split_on_duckdb(tmp_path):
    pytest.importorskip("duckdb")
    assert "1000000000" not in plan("fee_summary", tmp_path)
