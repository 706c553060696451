"""Operations: each rule, the order of the rules, and every row kept as it is."""

import json
from collections import Counter

import pandas as pd
import pyarrow as pa
import pytest
from chains import sample_tables
from pandas.testing import assert_frame_equal
from parity import TWO_ENGINES, collected, frame_of

import tonframes as tf
from tonframes.analysis.operations import with_operation

# Some recorded answers contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")

A, B = "0:" + "A" * 64, "0:" + "B" * 64
TRANSFER, UNNAMED = 0x0F8A7EA5, 0x00C0FFEE

#: Messages, each with its operation: source, destination, bounced, opcode, decoded_opcode.
CASES = [
    # A signature may begin like any opcode, and the service may give it a name.
    ((None, A, None, UNNAMED, None), "external"),
    ((None, A, None, TRANSFER, "jetton_transfer"), "external"),
    ((None, A, None, None, None), "external"),
    ((None, A, True, 0, None), "external"),
    ((A, None, None, TRANSFER, "jetton_transfer"), "event"),
    ((A, None, None, None, None), "event"),
    ((A, B, True, 0xFFFFFFFF, "bounce"), "bounced"),
    ((A, B, True, None, None), "bounced"),
    ((A, B, True, 0, None), "bounced"),
    ((A, B, False, 0, None), "comment"),
    ((A, B, None, 0, "text_comment"), "comment"),
    ((A, B, False, TRANSFER, None), "jetton_transfer"),
    ((A, B, False, TRANSFER, "name of the service"), "name of the service"),
    ((A, B, False, UNNAMED, "name of the service"), "name of the service"),
    ((A, B, False, UNNAMED, None), "0x00c0ffee"),
    # An empty text of the service is no name.
    ((A, B, False, TRANSFER, ""), "jetton_transfer"),
    ((A, B, False, UNNAMED, ""), "0x00c0ffee"),
    ((A, B, False, 0, ""), "comment"),
    ((A, B, False, None, ""), "deposit"),
    ((A, B, False, 1, None), "0x00000001"),
    ((A, B, False, 0xFEDCBA98, None), "0xfedcba98"),
    ((A, B, False, 0xFFFFFFFF, None), "bounce"),
    ((A, B, False, None, None), "deposit"),
    ((A, B, None, None, None), "deposit"),
]
OPERATIONS = [operation for _, operation in CASES]
COLUMNS = ["source", "destination", "bounced", "opcode", "decoded_opcode"]


def as_declared(name, rows):
    """Make an Arrow table of some columns of one of our tables."""
    schema = sample_tables()[("transactions", "messages").index(name)].schema
    return pa.table(
        {
            column: pa.array([row[column] for row in rows], schema.field(column).type)
            for column in rows[0]
        }
    )


def messages(cases=CASES):
    return as_declared(
        "messages",
        [
            {"tx_hash": f"t{at}", "direction": "in", "msg_hash": f"m{at}"}
            | dict(zip(COLUMNS, values, strict=True))
            for at, (values, _) in enumerate(cases)
        ],
    )


def transactions(descr):
    rows = [{"hash": f"t{at}", "descr": value} for at, value in enumerate(descr)]
    return as_declared("transactions", rows)


def made(engine, table, folder):
    """Make a frame of an engine, on pandas with nullable dtypes."""
    if engine == "pandas":
        return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame_of(engine, table, folder)


def operations(engine, frame, name):
    """Return the operations in the order of the numbers in a column of unique names."""
    rows = collected(engine, frame).to_pylist()
    assert len({row[name] for row in rows}) == len(rows)
    return [row["operation"] for row in sorted(rows, key=lambda row: int(row[name][1:]))]


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_the_first_rule_that_applies_decides(engine, tmp_path):
    frame = made(engine, messages(), tmp_path)
    assert operations(engine, with_operation(frame), "msg_hash") == OPERATIONS


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_a_transaction_does_what_its_in_message_asks(engine, tmp_path):
    started = ["ord"] * len(CASES)
    rows = made(engine, transactions([*started, "tick_tock", "ord"]), tmp_path)
    out = messages().set_column(1, "direction", pa.array(["out"] * len(CASES)))
    out = out.set_column(0, "tx_hash", pa.array([f"t{at + 2}" for at in range(len(CASES))]))
    both = made(engine, pa.concat_tables([messages(), out]), tmp_path)
    # The in-message of the last transaction is missing.
    expected = [*OPERATIONS, "tick-tock", None]
    assert operations(engine, with_operation(rows, both), "hash") == expected


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_a_message_that_is_there_twice_adds_no_row(engine, tmp_path):
    rows = made(engine, transactions(["ord"] * len(CASES)), tmp_path)
    twice = made(engine, pa.concat_tables([messages(), messages()]), tmp_path)
    assert operations(engine, with_operation(rows, twice), "hash") == OPERATIONS


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_without_names_of_the_service_ours_are_used(engine, tmp_path):
    frame = made(engine, messages().drop_columns("decoded_opcode"), tmp_path)
    found = operations(engine, with_operation(frame), "msg_hash")
    ours = {12: "jetton_transfer", 13: "0x00c0ffee"}
    assert found == [ours.get(at, operation) for at, operation in enumerate(OPERATIONS)]


def test_signed_opcodes_of_the_lake_are_the_same():
    given = messages()
    signed = [
        opcode and (opcode - 2**32 if opcode >= 2**31 else opcode)
        for opcode in given["opcode"].to_pylist()
    ]
    place = given.column_names.index("opcode")
    lake = given.set_column(place, "opcode", pa.array(signed, pa.int32()))
    assert with_operation(lake)["operation"].to_pylist() == OPERATIONS


def test_rows_index_and_other_columns_stay():
    blocks = tf.read_blocks(tf.sample())
    given = blocks.transactions.sample(frac=1, random_state=1)
    given["mine"] = pd.Series([object()] * len(given), index=given.index)
    found = with_operation(given, blocks.messages)
    assert_frame_equal(found.drop(columns="operation"), given)
    assert list(found)[-1] == "operation"
    assert str(found.operation.dtype) == "str"
    whole = with_operation(blocks)
    assert_frame_equal(whole.drop(columns="operation"), blocks.transactions)
    assert whole.operation.equals(found.operation.sort_index())
    table = blocks.messages.sample(frac=1, random_state=1)
    assert_frame_equal(with_operation(table).drop(columns="operation"), table)


@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_frames_in_memory_keep_their_order(engine, tmp_path):
    rows = transactions(["tick_tock", *["ord"] * (len(CASES) - 1)]).take([*range(len(CASES))][::-1])
    given = [made(engine, each, tmp_path) for each in (rows, messages())]
    found = collected(engine, with_operation(*given))
    assert found["hash"].to_pylist() == rows["hash"].to_pylist()
    assert found["operation"].to_pylist() == [*OPERATIONS[:0:-1], "tick-tock"]


def test_operations_of_recorded_transactions(recorded):
    chain, sent = recorded.frames
    once = with_operation(chain, sent).drop_duplicates("hash")
    found = Counter(once.operation)
    kinds = ["external", "tick-tock", "bounced", "comment", "deposit"]
    assert {kind: found[kind] for kind in kinds} == {
        "external": 37,
        "tick-tock": 2,
        "bounced": 5,
        "comment": 50,
        "deposit": 10,
    }
    assert once.operation.str.startswith("0x").sum() == 3
    assert once.operation.notna().all()
    # What stands in place of an opcode: signatures, all different, and requests to wallets v5.
    external = sent[(sent.direction == "in") & sent.source.isna()].drop_duplicates("msg_hash")
    assert external.opcode.nunique() == 17
    by_opcode = tf.fee_summary(chain, sent, by="opcode")
    assert not set(by_opcode.opcode.dropna()) & set(external.opcode)


def test_an_answer_whose_service_names_no_opcode_has_operations_all_the_same():
    [seqnos] = tf.read_blocks(tf.sample()).seqnos
    answer = json.loads(tf.read_blocks(tf.sample(), seqnos[:20]).to_json())
    empty = 0
    for row in answer["transactions"]:
        for message in [row["in_msg"] or {}, *row["out_msgs"]]:
            if "decoded_opcode" in message:
                message["decoded_opcode"], empty = "", empty + 1
    assert empty > 100
    blocks = tf.parse_blocks(answer)
    assert (blocks.messages.decoded_opcode == "").sum() == empty
    unnamed = blocks.messages.drop(columns="decoded_opcode")
    expected = with_operation(blocks.transactions, unnamed)
    assert_frame_equal(with_operation(blocks), expected)
    found = tf.fee_summary(blocks, by="operation")
    assert "" not in set(found.operation)
    assert_frame_equal(found, tf.fee_summary(blocks.transactions, unnamed, by="operation"))


def test_wallet_calls_are_the_largest_cost_of_the_sample():
    found = tf.fee_summary(tf.read_blocks(tf.sample()), by="operation")
    assert found.operation[0] == "external"
    assert found.transactions[0] == 777
    assert 0.61 < found.share[0] < 0.64


def test_wrong_frames_are_refused():
    given = [table.to_pandas() for table in (transactions(["ord"]), messages(CASES[:1]))]
    with pytest.raises(ValueError, match="would add the column 'operation', which the frame has"):
        with_operation(with_operation(*given), given[1])
    with pytest.raises(ValueError, match="would add the column 'operation', which the frame has"):
        with_operation(with_operation(given[1]))
    with pytest.raises(ValueError, match=r"looks like transactions: is this the right argument\?"):
        with_operation(tf.read_blocks(tf.sample()).transactions)
    for column in COLUMNS[:-1]:
        with pytest.raises(ValueError, match=f"with_operation needs the column '{column}'"):
            with_operation(given[1].drop(columns=column))
    with pytest.raises(TypeError, match="with_operation takes frames of one engine"):
        with_operation(given[0], messages())
    with pytest.raises(TypeError, match="with_operation takes messages as a frame"):
        with_operation(3)


def test_lazy_rows_of_polars_keep_their_order():
    pl = pytest.importorskip("polars")
    blocks = tf.read_blocks(tf.sample())
    rows = pl.from_arrow(blocks.arrow("transactions")).sample(fraction=1.0, shuffle=True, seed=1)
    messages = pl.from_arrow(blocks.arrow("messages"))
    named = tf.with_operation(rows.lazy(), messages.lazy()).collect()
    assert named["hash"].to_list() == rows["hash"].to_list()
