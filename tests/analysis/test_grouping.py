"""Groups by columns of transactions, of their messages, by operation, and by time."""

from __future__ import annotations

import pytest
from pandas.testing import assert_series_equal
from parity import synthetic

from tonframes.analysis.grouping import take_grouped
from tonframes.analysis.operations import with_operation


@pytest.fixture(scope="module")
def chain():
    return [table.to_pandas() for table in synthetic(10, seed=4)]


def taken(chain, by, needs=("total_fees",)):
    rows, keys = take_grouped("a helper", *chain, needs, by)
    return rows.collect().to_native(), keys


def test_columns_of_the_in_message_are_joined(chain):
    rows, keys = taken(chain, ["body_hash", "account"])
    incoming = chain[1][chain[1].direction == "in"].set_index("tx_hash").body_hash
    assert keys == ["body_hash", "account"]
    assert rows.body_hash.isna().to_list() == rows.hash.map(incoming).isna().to_list()
    known = rows.dropna(subset="body_hash")
    assert known.body_hash.to_list() == known.hash.map(incoming).to_list()
    assert len(rows) == len(chain[0])


def test_external_messages_have_no_opcode(chain):
    rows, _ = taken(chain, ["opcode", "source"])
    incoming = chain[1][chain[1].direction == "in"].set_index("tx_hash")
    external = rows.hash.isin(incoming.index[incoming.source.isna()])
    assert external.sum() > 50
    assert rows.opcode[external].isna().all()
    internal = rows[rows.source.notna()]
    assert internal.opcode.notna().sum() > 50
    assert_series_equal(
        internal.set_index("hash").opcode,
        incoming.opcode[internal.hash],
        check_names=False,
    )


def test_the_operation_is_computed_or_that_of_the_frame(chain):
    transactions, messages = chain
    computed = with_operation(transactions, messages)
    rows, keys = taken(chain, "operation")
    assert keys == ["operation"]
    operations = computed.set_index("hash").operation
    assert_series_equal(rows.set_index("hash").operation, operations)
    own = computed.assign(operation="one")
    rows, _ = take_grouped("a helper", own, None, [], "operation")
    assert rows.collect().to_native().operation.unique().tolist() == ["one"]
    own = with_operation(messages).assign(operation="one")
    rows, _ = take_grouped("a helper", transactions, own, [], "operation")
    assert sorted(rows.collect().to_native().operation.unique()) == ["one", "tick-tock"]


def test_a_group_named_twice_is_one(chain):
    assert taken(chain, ["account", "account"])[1] == ["account"]


def test_messages_are_needed_for_their_columns(chain):
    with pytest.raises(ValueError, match="cannot group by 'opcode' without messages"):
        take_grouped("a helper", chain[0], None, ["total_fees"], "opcode")


def test_messages_are_needed_for_the_operation(chain):
    with pytest.raises(ValueError, match="cannot group by 'operation' without messages: pass"):
        take_grouped("a helper", chain[0], None, ["total_fees"], "operation")


@pytest.mark.parametrize("by", [3, None, ["account", None], {"account"}])
def test_keys_are_names_of_columns(chain, by):
    with pytest.raises(TypeError, match="a helper groups by names of columns, not by"):
        take_grouped("a helper", *chain, ["total_fees"], by)


def test_a_result_column_cannot_be_a_group(chain):
    with pytest.raises(ValueError, match="cannot group by 'cost': it is a column of the result"):
        take_grouped("a helper", *chain, ["total_fees"], "cost", figures=["cost"])


def test_the_near_column_is_suggested(chain):
    transactions, messages = chain
    with pytest.raises(ValueError, match=r"by 'acount': there is no such .* mean 'account'\?"):
        take_grouped("a helper", transactions, messages, [], "acount")
    with pytest.raises(ValueError, match=r"by 'opcod': .* Did you mean 'opcode'\?"):
        take_grouped("a helper", transactions, None, [], "opcod")
    with pytest.raises(ValueError, match=r"by 'weeks': .* Did you mean 'week'\?"):
        take_grouped("a helper", transactions, None, [], "weeks")
    with pytest.raises(ValueError, match=r"by 'operaton': .* Did you mean 'operation'\?"):
        take_grouped("a helper", transactions, messages, [], "operaton")
    renamed = transactions.rename(columns={"total_fees": "total_fee"})
    with pytest.raises(ValueError, match=r"'total_fees' .* Did you mean 'total_fee'\?"):
        take_grouped("a helper", renamed, None, ["total_fees"], ())
