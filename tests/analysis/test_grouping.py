"""Groups by columns of transactions, of their messages, and by time."""

from __future__ import annotations

import datetime as dt

import pytest
from parity import synthetic

from tonframes.analysis.grouping import add_up, take_grouped


@pytest.fixture(scope="module")
def chain():
    return [table.to_pandas() for table in synthetic(10, seed=4)]


def taken(chain, by, needs=("total_fees",)):
    rows, keys = take_grouped("a helper", *chain, needs, by)
    return rows.collect().to_native(), keys


def test_no_group_means_one_row(chain):
    rows, keys = take_grouped("a helper", *chain, ["total_fees"], ())
    groups = add_up(rows, keys, "total_fees").collect().to_native()
    assert keys == []
    assert groups.columns.to_list() == ["transactions", "total_fees"]
    assert groups.iloc[0].to_list() == [len(chain[0]), chain[0].total_fees.sum()]


def test_columns_of_the_in_message_are_joined(chain):
    rows, keys = taken(chain, ["opcode", "account"])
    incoming = chain[1][chain[1].direction == "in"].set_index("tx_hash").opcode
    assert keys == ["opcode", "account"]
    assert rows.opcode.isna().to_list() == rows.hash.map(incoming).isna().to_list()
    known = rows.dropna(subset="opcode")
    assert known.opcode.to_list() == known.hash.map(incoming).to_list()
    assert len(rows) == len(chain[0])


def test_periods_are_utc(chain):
    rows, _ = taken(chain, ["hour", "day"])
    for row in rows.itertuples():
        time = dt.datetime.fromtimestamp(row.now, tz=dt.UTC)
        assert row.hour == time.replace(minute=0, second=0)
        assert row.day == time.replace(hour=0, minute=0, second=0)


def test_a_group_named_twice_is_one(chain):
    assert taken(chain, ["account", "account"])[1] == ["account"]


def test_messages_are_needed_for_their_columns(chain):
    with pytest.raises(ValueError, match="cannot group by 'opcode': transactions have no such"):
        take_grouped("a helper", chain[0], None, ["total_fees"], "opcode")


@pytest.mark.parametrize("by", [3, None, ["account", None], {"account"}])
def test_groups_are_given_as_text(chain, by):
    with pytest.raises(TypeError, match="a helper groups by names of columns, not by"):
        take_grouped("a helper", *chain, ["total_fees"], by)


def test_a_result_column_cannot_be_a_group(chain):
    with pytest.raises(ValueError, match="cannot group by 'cost': it is a figure of the result"):
        take_grouped("a helper", *chain, ["total_fees"], "cost", figures=["cost"])
