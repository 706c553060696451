"""Groups by columns of transactions, of their messages, by operation, and by time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pandas.testing import assert_series_equal
from parity import TWO_ENGINES, collected, frame_of, synthetic

import tonframes as tf
from tonframes.analysis.engines import computed
from tonframes.analysis.grouping import Summary
from tonframes.analysis.intake import entered
from tonframes.analysis.operations import with_operation
from tonframes.analysis.results import Result


@pytest.fixture(scope="module")
def chain():
    return [table.to_pandas() for table in synthetic(10, seed=4)]


def take_grouped(transactions, messages, by, needs=("total_fees",), steps=()):
    """Return the rows that a summary adds up, and its keys."""
    given = entered("a helper", transactions, messages)
    summary = Summary(Result("a helper", "", ()), *given, by=by)
    return summary.transactions(needs, steps=steps), summary.keys


def taken(chain, by):
    rows, keys = take_grouped(*chain, by)
    return computed(rows, chain[0]), keys


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
    named = with_operation(transactions, messages)
    rows, keys = taken(chain, "operation")
    assert keys == ["operation"]
    operations = named.set_index("hash").operation
    assert_series_equal(rows.set_index("hash").operation.loc[operations.index], operations)
    own = named.assign(operation="one")
    rows, _ = take_grouped(own, None, "operation")
    assert computed(rows, own).operation.unique().tolist() == ["one"]
    own = with_operation(messages).assign(operation="one")
    rows, _ = take_grouped(transactions, own, "operation")
    assert sorted(computed(rows, transactions).operation.unique()) == ["one", "tick-tock"]


def test_a_group_named_twice_is_one(chain):
    assert taken(chain, ["account", "account"])[1] == ["account"]


def test_messages_are_needed_for_their_columns(chain):
    with pytest.raises(ValueError, match="cannot group by 'opcode' without messages"):
        take_grouped(chain[0], None, "opcode")


def test_messages_are_needed_for_the_operation(chain):
    with pytest.raises(ValueError, match="cannot group by 'operation' without messages: pass"):
        take_grouped(chain[0], None, "operation")


@pytest.mark.parametrize("by", [3, None, ["account", None], {"account"}])
def test_keys_are_names_of_columns(chain, by):
    with pytest.raises(TypeError, match="a helper groups by names of columns, not by"):
        take_grouped(*chain, by)


def test_a_result_column_cannot_be_a_group(chain):
    with pytest.raises(ValueError, match="cannot group by 'cost': it is a column of the result"):
        take_grouped(*chain, "cost", steps=["cost"])


OWN = {name: getattr(tf, name) for name in
       ("fee_summary", "gas_summary", "gas_outliers", "failure_summary", "activity")}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("engine", TWO_ENGINES)
@pytest.mark.parametrize("period", ["day", "month"])
def test_an_own_column_with_the_name_of_a_period_is_refused(chain, name, engine, period, tmp_path):
    transactions, messages = (pa.Table.from_pandas(frame) for frame in chain)
    frames = [frame_of(engine, table, tmp_path) for table in (transactions, messages)]
    text = f"{name} cannot group by '{period}': the frame of (.*) has a column .* Rename the column"
    for place, table in enumerate((transactions, messages)):
        own = table.append_column(period, pa.array(["x"] * len(table)))
        changed = list(frames)
        changed[place] = frame_of(engine, own, tmp_path)
        with pytest.raises(ValueError, match=text) as raised:
            OWN[name](*changed, by=[period])
        assert ("transactions", "messages")[place] in str(raised.value)


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_flows_refuse_an_own_column_with_the_name_of_a_period(chain, engine, tmp_path):
    messages = pa.Table.from_pandas(chain[1].assign(hour=1))
    with pytest.raises(ValueError, match="flows cannot group by 'hour': the frame of messages has"):
        tf.flows(frame_of(engine, messages, tmp_path), by="hour")


@pytest.mark.parametrize("engine", TWO_ENGINES)
@pytest.mark.parametrize("name", ["phase", "code", "name", "meaning"])
def test_an_own_column_with_the_name_of_a_reason_is_refused(chain, engine, name, tmp_path):
    transactions = frame_of(engine, pa.Table.from_pandas(chain[0].assign(**{name: 7})), tmp_path)
    with pytest.raises(ValueError, match=f"failure_summary cannot group by '{name}': the frame of"):
        tf.failure_summary(transactions, by=[name])
    tf.gas_summary(transactions, by=[name])


@pytest.mark.parametrize("name", OWN)
def test_an_own_column_is_grouped_by_or_refused(chain, name):
    # Names of columns that some step computes: none of them may replace the user's column.
    steps = ["all_rows", "external", "free", "rest", "zero", "total", "complete", "sent", "gas",
             "exchanged", "skipped", "of", "up_to", "bounded", "listed", "kept", "settled",
             "called", "calls", "failed"]  # fmt: skip
    transactions, messages = chain
    texts = ["a", "b"] * len(transactions)
    for step in steps:
        own = transactions.assign(**{step: texts[: len(transactions)]})
        try:
            groups = OWN[name](own, messages, by=[step])
        except ValueError as error:
            assert "of your own, rename it" in str(error)  # noqa: PT017 - either is right
        else:
            assert set(groups[step]) <= {"a", "b"}


def test_the_operation_of_a_frame_is_used_by_all(chain):
    transactions, messages = chain
    own = with_operation(transactions, messages).assign(operation="one")
    for work in OWN.values():
        assert set(work(own, messages, by=["operation"])["operation"]) <= {"one"}


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_groups_of_periods_alone_are_in_the_order_of_time(chain, engine, tmp_path):
    # Each day has more transactions than the day before it.
    days = [86_400 * int(row**0.3) for row in range(5000)]
    transactions, messages = (
        frame.assign(**{name: frame[name] + days[: len(frame)]})
        for frame, name in zip(chain, ("now", "created_at"), strict=True)
    )
    frames = [
        frame_of(engine, pa.Table.from_pandas(table), tmp_path)
        for table in (transactions, messages)
    ]
    results = [
        (tf.fee_summary(*frames, by="day"), "cost"),
        (tf.gas_summary(*frames, by="day"), "gas_fees"),
        (tf.failure_summary(*frames, by="day"), "failures"),
        (tf.flows(frames[1], by=["month", "day"]), "value"),
        (tf.activity(*frames, by="day"), "total_fees"),
    ]
    for result, figure in results:
        groups = collected(engine, result).to_pandas()
        assert len(groups) > 2
        assert groups["day"].is_monotonic_increasing
        assert not groups[figure].is_monotonic_decreasing
    mixed = collected(engine, tf.fee_summary(*frames, by=["day", "account"])).to_pandas()
    assert mixed["cost"].is_monotonic_decreasing


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_nothing_to_group_makes_no_row(chain, engine, tmp_path):
    frames = [frame_of(engine, pa.Table.from_pandas(table)[:0], tmp_path) for table in chain]
    for name in ("fee_summary", "gas_summary", "failure_summary", "activity"):
        assert collected(engine, OWN[name](*frames, by=())).num_rows == 0
    assert collected(engine, tf.flows(frames[1], by=())).num_rows == 0


def test_an_unknown_name_is_answered_in_one_line(chain):
    with pytest.raises(ValueError, match=r"by 'Day': .* Did you mean 'day'\?"):
        take_grouped(*chain, "Day")
    with pytest.raises(ValueError, match="by 'xyzzy': there is no such column") as raised:
        take_grouped(*chain, "xyzzy")
    assert len(str(raised.value)) < 200


def test_the_near_column_is_suggested(chain):
    transactions, messages = chain
    with pytest.raises(ValueError, match=r"by 'acount': there is no such .* mean 'account'\?"):
        take_grouped(transactions, messages, "acount")
    with pytest.raises(ValueError, match=r"by 'opcod': .* Did you mean 'opcode'\?"):
        take_grouped(transactions, None, "opcod")
    with pytest.raises(ValueError, match=r"by 'weeks': .* Did you mean 'week'\?"):
        take_grouped(transactions, None, "weeks")
    with pytest.raises(ValueError, match=r"by 'operaton': .* Did you mean 'operation'\?"):
        take_grouped(transactions, messages, "operaton")
    renamed = transactions.rename(columns={"total_fees": "total_fee"})
    with pytest.raises(ValueError, match=r"'total_fees' .* Did you mean 'total_fee'\?"):
        take_grouped(renamed, None, ())
