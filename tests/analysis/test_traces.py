"""Traces: what they cost is what their accounts lost; their depth is that of the tree."""

from __future__ import annotations

from collections import Counter, defaultdict

import pandas as pd
import pyarrow as pa
import pytest
from chain import synthetic_blocks
from chains import frames, sample_tables
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from parity import TWO_ENGINES, collected, frame_of
from slow import slow

from tonframes.analysis.failures import failures
from tonframes.analysis.traces import EXCESSES, TRACE_MESSAGES, TRACES, trace_costs

# Some recorded answers contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")

LOST = {"deposit", "dust", "committed", "ignored"}


def by_trace(answers):
    traces = defaultdict(dict)
    for body in answers:
        for row in body["transactions"]:
            if row.get("trace_id"):
                traces[row["trace_id"]][row["hash"]] = row
    return traces


def amount(record, key):
    return int((record or {}).get(key) or 0)


def parents_of(rows):
    """Find of each transaction the one that sent its message."""
    senders = {m["hash"]: h for h, row in rows.items() for m in row["out_msgs"] or ()}
    return {h: senders.get((row["in_msg"] or {}).get("hash")) for h, row in rows.items()}


def level(parents, at):
    count = 1
    while (at := parents[at]) is not None:
        count += 1
    return count


def internal(message):
    return bool(message and message["source"] and message["destination"])


def recomputed(trace_id, rows):
    """Do what `trace_costs` does, for one trace as the service shows it."""
    first = rows.get(trace_id)
    parents = parents_of(rows)
    out = [m for row in rows.values() for m in row["out_msgs"] or ()]
    come = [row["in_msg"] for row in rows.values() if internal(row["in_msg"])]
    excesses = [m for m in come if m.get("opcode") == f"0x{EXCESSES:08x}"]
    received = {message["hash"] for message in come}
    complete = (
        first is not None
        and all(parents[h] for h in rows if h != trace_id)
        and all(m["hash"] in received for m in out if internal(m))
    )
    fees = sum(int(row["total_fees"]) for row in rows.values())
    fwd_fees = sum(amount(m, "fwd_fee") for m in out)
    attached = back = None
    if first:
        attached = sum(amount(m, "value") for m in first["out_msgs"] or ())
        mine = [m for m in excesses if m["destination"] == first["account"]]
        back = sum(amount(m, "value") for m in mine)
    return {
        "trace_id": trace_id,
        "started_by": first and first["account"],
        "started_at": first and first["now"],
        "complete": complete,
        "transactions": len(rows),
        "accounts": len({row["account"] for row in rows.values()}),
        "depth": max(level(parents, at) for at in rows),
        "total_fees": fees,
        "fwd_fees": fwd_fees,
        "cost": fees + fwd_fees,
        "attached": attached,
        "excesses": back,
    }


def plain(found):
    """Return the rows of a frame by trace."""
    rows = pa.Table.from_pandas(found, preserve_index=False).to_pylist()
    return {row["trace_id"]: row for row in rows}


# What it says


def test_traces_agree_with_the_answers(answers):
    found = plain(trace_costs(*frames(answers)))
    expected = {key: recomputed(key, rows) for key, rows in by_trace(answers).items()}
    assert {
        key: {name: value for name, value in row.items() if name != "failures"}
        for key, row in found.items()
    } == expected
    assert len({row["depth"] for row in expected.values()}) > 2
    assert len({row["complete"] for row in expected.values()}) == 2
    assert any(row["excesses"] for row in expected.values())


def test_a_trace_is_named_by_its_first_transaction(answers):
    for trace_id, rows in by_trace(answers).items():
        parents = parents_of(rows)
        if trace_id in rows:
            assert parents[trace_id] is None
            assert min(rows.values(), key=lambda row: int(row["lt"]))["hash"] == trace_id
            others = [h for h in rows if parents[h] is None and h != trace_id]
            # A first one has no sender: it came from outside, by a tick, or from no account.
            assert all(internal(rows[h]["in_msg"]) for h in others)


def test_failures_of_a_trace_are_those_that_failures_lists(answers):
    transactions, messages = frames(answers)
    listed = failures(transactions)
    listed = listed[~listed.phase.isin(LOST)]
    counts = Counter(transactions.trace_id[listed.index])
    found = plain(trace_costs(transactions, messages))
    assert {key: row["failures"] for key, row in found.items() if row["failures"]} == {
        key: count for key, count in counts.items() if isinstance(key, str)
    }
    assert counts


def balance(row, when):
    state = (row[f"account_state_{when}"] or {}).get("balance")
    gone = row["orig_status" if when == "before" else "end_status"] == "nonexist"
    return 0 if state is None and gone else state


def lost(rows):
    """Return what the accounts of a trace lost; None if the service hides a balance."""
    known = [(balance(row, "before"), balance(row, "after")) for row in rows.values()]
    if any(None in pair for pair in known):
        return None
    return sum(int(before) - int(after) for before, after in known)


def check_losses(answers):
    found = plain(trace_costs(*frames(answers)))
    checked = 0
    for trace_id, rows in by_trace(answers).items():
        loss = lost(rows)
        if found[trace_id]["complete"] and loss is not None:
            # What the first message brought along came from outside of the trace.
            assert found[trace_id]["cost"] == loss + amount(rows[trace_id]["in_msg"], "value")
            checked += 1
    return checked


def test_the_cost_is_what_the_accounts_lost(answers):
    assert check_losses(answers) > 20


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(10, 60))
def test_the_cost_is_what_the_accounts_lost_on_any_chain(seed, size):
    assert check_losses(synthetic_blocks(12, seed=seed, transactions_per_block=size)) > 5


def test_cut_traces_are_not_complete(made):
    inner = made[10:20]
    found = plain(trace_costs(*frames(inner)))
    whole = plain(trace_costs(*frames(made)))
    everything, here = by_trace(made), by_trace(inner)
    for trace_id, row in found.items():
        same = set(everything[trace_id]) == set(here[trace_id])
        assert row["complete"] == (same and whole[trace_id]["complete"])
        if row["complete"]:
            assert row == whole[trace_id]
        elif trace_id not in here[trace_id]:
            unknown = ("started_by", "started_at", "attached", "excesses")
            assert [row[name] for name in unknown] == [None] * 4
    assert {row["complete"] for row in found.values()} == {True, False}


def test_costs_add_up_to_the_fees_of_all_transactions(made):
    transactions, messages = frames(made)
    found = trace_costs(transactions, messages)
    out = messages[messages.direction == "out"]
    assert found.total_fees.sum() == transactions.total_fees.sum()
    assert found.fwd_fees.sum() == out.fwd_fee.sum()
    assert found.cost.is_monotonic_decreasing


# Trees


def forest(parents, trace="0"):
    """Make the Arrow tables of one trace: of each transaction the one before, or None."""
    rows = [
        {"hash": str(at), "account": f"0:{at}", "now": at, "trace_id": trace, "total_fees": 1}
        for at in range(len(parents))
    ]
    told = []
    for at, parent in enumerate(parents):
        message = {"msg_hash": f"m{at}", "trace_id": trace, "destination": f"0:{at}"}
        come = {"tx_hash": str(at), "tx_lt": at, "direction": "in"}
        if parent is None:
            told.append(message | come)
            continue
        message |= {"source": f"0:{parent}", "value": 1, "fwd_fee": 2}
        told.append(message | come)
        told.append(message | {"tx_hash": str(parent), "tx_lt": parent, "direction": "out"})
    return (
        table(rows, sample_tables()[0].schema, TRACES),
        table(told, sample_tables()[1].schema, TRACE_MESSAGES),
    )


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def pandas_frames(parents):
    return [each.to_pandas(types_mapper=NULLABLE.get) for each in forest(parents)]


def engine_frames(engine, parents, folder):
    if engine == "pandas":
        return pandas_frames(parents)
    return [frame_of(engine, each, folder) for each in forest(parents)]


def table(rows, kinds, names):
    schema = pa.schema([kinds.field(name).with_nullable(True) for name in names])
    return pa.Table.from_pylist(rows, schema=schema)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 10**6), max_size=40))
def test_the_depth_is_that_of_the_tree(numbers):
    parents = [None] + [number % at for at, number in enumerate(numbers, 1)]
    levels = {0: 1}
    for at, parent in enumerate(parents[1:], 1):
        levels[at] = levels[parent] + 1
    (row,) = plain(trace_costs(*pandas_frames(parents))).values()
    assert row["depth"] == max(levels.values())
    assert row["complete"]
    assert row["transactions"] == row["accounts"] == len(parents)
    assert row["attached"] == parents.count(0)


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_a_trace_may_be_of_any_depth(engine, tmp_path):
    parents = [None, *range(700), 3, 3]
    result = trace_costs(*engine_frames(engine, parents, tmp_path))
    (row,) = collected(engine, result).to_pylist()
    assert row["depth"] == 701
    assert row["complete"]


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_messages_in_a_circle_have_a_depth(engine, tmp_path):
    # As no chain has them; but a frame may be of anything.
    result = trace_costs(*engine_frames(engine, [2, 0, 1], tmp_path))
    (row,) = collected(engine, result).to_pylist()
    assert row["depth"] == 3
    assert not row["complete"]


@pytest.mark.parametrize("engine", ["pandas", "polars-lazy", "duckdb", *slow("dask")])
def test_without_messages_every_transaction_stands_alone(engine, tmp_path):
    transactions, messages = sample_tables()
    given = (frame_of(engine, each, tmp_path) for each in (transactions, messages[:0]))
    found = collected(engine, trace_costs(*given))
    assert set(found["depth"].to_pylist()) == {1}
    assert set(found["fwd_fees"].to_pylist()) == {0}


def test_sums_that_int64_does_not_hold_are_refused_or_wide():
    transactions, messages = pandas_frames([None, 0, 0, 0])
    messages["value"] = 2**63 - 1
    with pytest.raises(OverflowError, match=r"cannot add up attached of trace_id='0': "):
        trace_costs(transactions, messages)
    (row,) = plain(trace_costs(transactions, messages, wide=True)).values()
    assert row["attached"] == 3 * (2**63 - 1)


@pytest.mark.parametrize("opcode", [EXCESSES, EXCESSES - 2**32])
def test_excesses_are_found_in_signed_opcodes(opcode):
    transactions, messages = pandas_frames([None, 0, 1])
    last = messages.msg_hash == "m2"
    messages.loc[last, "opcode"] = opcode
    messages.loc[last, "value"] = 77
    transactions["account"] = ["0:0", "0:1", "0:0"]
    messages["destination"] = messages.destination.where(~last, "0:0")
    (row,) = plain(trace_costs(transactions, messages)).values()
    assert (row["excesses"], row["attached"]) == (77, 1)
    messages["destination"] = messages.destination.where(~last, "0:1")
    (row,) = plain(trace_costs(transactions, messages)).values()
    assert row["excesses"] == 0


# Frames


def test_a_filter_on_the_result_does_not_change_what_was_counted(tmp_path):
    pl = pytest.importorskip("polars")
    lazy = trace_costs(
        *(frame_of("polars-lazy", each, tmp_path) for each in forest([None, 0, 1, 1, 3]))
    )
    found = lazy.filter(pl.col("depth") == 4).select("depth").collect()
    assert found["depth"].to_list() == [4]


def test_arguments_are_not_changed(made):
    transactions, messages = frames(made[:3])
    before = transactions.copy(), messages.copy()
    trace_costs(transactions, messages)
    assert_frame_equal(transactions, before[0])
    assert_frame_equal(messages, before[1])


def test_wrong_frames_are_refused(made):
    transactions, messages = frames(made[:2])
    for column in TRACES:
        with pytest.raises(ValueError, match=f"trace_costs needs the column '{column}'"):
            trace_costs(transactions.drop(columns=column), messages)
    for column in TRACE_MESSAGES:
        with pytest.raises(ValueError, match=f"trace_costs needs the column '{column}'"):
            trace_costs(transactions, messages.drop(columns=column))
    with pytest.raises(ValueError, match="looks like messages"):
        trace_costs(messages, transactions)
    with pytest.raises(TypeError, match="floats lose nanotons"):
        trace_costs(transactions, messages.astype({"value": float}))
    with pytest.raises(TypeError, match="frames of one engine"):
        trace_costs(transactions, pa.Table.from_pandas(messages))
    with pytest.raises(TypeError, match="takes messages as a frame"):
        trace_costs(transactions, None)
