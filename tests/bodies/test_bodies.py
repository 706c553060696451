"""Bodies: decoded as the service decodes them, import fees, and harmless whatever they contain."""

import json
import re
import sys
from base64 import b64decode, b64encode
from random import Random

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chain import bodies as made_up
from chain.cells import Builder, Cell, usage
from hypothesis import example, given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal, assert_series_equal
from parity import collected, frame_of, lake, rows_of

import tonframes as tf
from tonframes.analysis import undo_gas_exchange
from tonframes.analysis.fees import PARTS
from tonframes.bodies import (
    MAX_BYTES,
    MAX_CELLS,
    decode_bodies,
    import_fees,
    possible_weights,
)
from tonframes.bodies.columns import RESULT
from tonframes.bodies.schemes import SCHEMES
from tonframes.network.prices import PRICES

pytoniq = pytest.importorskip("pytoniq_core")

A, B = "0:" + "AB" * 32, "-1:" + "0F" * 32
KEYS = ["tx_hash", "direction", "position", "msg_hash", "source", "destination"]
READ = [column.name for column in RESULT][len(KEYS) :]
JETTON_TRANSFER, JETTON_NOTIFY = 0x0F8A7EA5, 0x7362D09C
CAPITALS = st.binary(min_size=32, max_size=32).map(lambda account: account.hex().upper())
ADDRESSES = st.none() | st.builds("{}:{}".format, st.integers(-128, 127), CAPITALS)
QUERIES = st.integers(0, 2**64 - 1)
AMOUNTS = st.integers(0, 120).flatmap(lambda bits: st.integers(0, 2**bits - 1))
FLAGS = st.booleans()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


def said(*bags):
    """Decode bags (all base64 or all bytes) into rows without nulls."""
    name = "body_boc" if isinstance(bags[0], bytes) else "body"
    table = decode_bodies(pa.table({name: list(bags)}))
    assert table.num_rows == len(bags)
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def of(cell):
    (row,) = said(cell.to_base64())
    return row


def start(opcode, query=0):
    return Builder().uint(opcode, 32).uint(query, 64)


def snake(data, size=127):
    """Write bytes into a chain of cells."""
    chunks = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    cell = None
    for chunk in reversed(chunks):
        cell = Cell(int.from_bytes(chunk), 8 * len(chunk), (cell,) if cell else ())
    return cell


def bag(cells):
    """Write cells as a bag, valid or not: their data and references, counted from the root."""
    body = b"".join(
        bytes((len(refs), 2 * len(data))) + data + b"".join(ref.to_bytes(3) for ref in refs)
        for data, refs in cells
    )
    head = bytes.fromhex("b5ee9c72") + bytes((3, 4)) + len(cells).to_bytes(3)
    return head + (1).to_bytes(3) + bytes(3) + len(body).to_bytes(4) + bytes(3) + body


# ── decoded as the service does ──────────────────────────────────────────────────────────────────

_NAMES = {
    "destination": "recipient",
    "new_owner": "recipient",
    "to_address": "recipient",
    "from": "sender",
    "prev_owner": "sender",
    "response_address": "response_destination",
    "forward_ton_amount": "forward_amount",
}
_OPCODES = {kind: opcode for opcode, (kind, _) in SCHEMES.items()} | {"text_comment": 0}


def expected(decoded):
    """Return the row that the decoded body of the service stands for."""
    kind = decoded.get("@type") or decoded["type"]
    row = {"kind": kind}
    if kind == "text_comment":
        row["comment"] = decoded.get("comment", decoded.get("text"))
    if kind == "bounce" and decoded["payload"]["@type"] in _OPCODES:
        row["bounced_opcode"] = _OPCODES[decoded["payload"]["@type"]]
    fields = SCHEMES.get(_OPCODES.get(kind), ("", ()))[1]
    for key, value in decoded.items():
        name = _NAMES.get(key, key)
        if name not in fields:
            continue
        match value:
            case str():
                row[name] = int(value)
            case {"@type": "var_uint", "value": number} if name == "amount":
                row |= {"amount": float(number), "amount_exact": number}
            case {"@type": "var_uint", "value": number}:
                row[name] = int(number)
            case {"@type": "addr_std", "workchain_id": workchain, "address": account}:
                row[name] = f"{workchain}:{account}"
            case {"value": {"@type": "text_comment", "text": text}}:
                row["comment"] = text
    return row


def compare(messages):
    """Compare our columns with what the service decoded; return the kinds that occurred."""
    ours = decode_bodies(messages)
    assert list(ours) == [*KEYS, *READ]
    assert_frame_equal(ours[KEYS], messages[KEYS])
    there = messages.body.notna()
    assert_series_equal(ours.opcode[there], messages.opcode[there])
    assert ours[~there][READ].isna().all(axis=None)
    kinds = set()
    for (_, found), decoded in zip(ours[READ].iterrows(), messages.decoded, strict=True):
        if not isinstance(decoded, str):
            continue
        theirs = expected(json.loads(decoded))
        if theirs["kind"] not in {*_OPCODES, "bounce", "empty_cell"}:
            assert pd.isna(found.kind)
            continue
        row = dict(found.dropna())
        row.pop("opcode", None)
        if row["kind"] == "bounce" and "bounced_opcode" not in theirs:
            row.pop("bounced_opcode", None)
        assert row == theirs
        kinds.add(row["kind"])
    comments = messages.comment.notna() & there
    assert_series_equal(ours.comment[comments], messages.comment[comments])
    return kinds


def test_real_bodies_are_decoded_as_the_service_decodes_them(recorded):
    assert compare(recorded.frames[1]) == {
        *("text_comment", "bounce", "empty_cell", "nft_transfer", "nft_ownership_assigned"),
        *("excess", "jetton_transfer", "jetton_internal_transfer", "jetton_notify"),
    }


def test_synthetic_bodies_are_decoded_as_they_were_written():
    kinds = compare(tf.read_blocks(tf.sample()).messages)
    assert {"text_comment", "bounce", "jetton_notify", "jetton_mint", "nft_transfer"} <= kinds


# ── written bodies come back ─────────────────────────────────────────────────────────────────────


@given(st.tuples(QUERIES, AMOUNTS, ADDRESSES, ADDRESSES, AMOUNTS), TEXTS, FLAGS, FLAGS)
@example((2**64 - 1, 2**120 - 1, A, None, 2**63 - 1), "", True, True)
@example((0, 0, None, B, 2**63), "=1+1\x00\x1b[31m\u202e", False, True)
def test_transfer_comes_back(fields, text, custom, apart):
    query, amount, to, response, forward = fields
    cell = start(JETTON_TRANSFER, query).coins(amount).address(to).address(response)
    cell.uint(custom, 1)
    if custom:
        cell.ref(Cell(7, 3))
    cell.coins(forward)
    payload = bytes(4) + text.encode()
    if apart:
        cell.uint(1, 1).ref(snake(payload, 19))
    else:
        cell.uint(0, 1).inline(snake(payload[:4]))
        if len(payload) > 4:
            cell.ref(snake(payload[4:], 19))
    row = {
        "opcode": JETTON_TRANSFER,
        "kind": "jetton_transfer",
        "query_id": query,
        "amount": float(amount),
        "amount_exact": str(amount),
        "recipient": to,
        "response_destination": response,
        "forward_amount": forward if forward < 2**63 else None,
        "comment": text,
    }
    assert of(cell.cell()) == {key: value for key, value in row.items() if value is not None}


@given(TEXTS, st.integers(4, 127))
def test_comment_comes_back_over_any_number_of_cells(text, size):
    row = {"opcode": 0, "kind": "text_comment", "comment": text}
    assert of(snake(bytes(4) + text.encode(), size)) == row


def test_bodies_of_pytoniq_are_read():
    comment = pytoniq.begin_cell().store_uint(0, 32).store_snake_string("Grüße " * 99).end_cell()
    assert said(comment.to_boc())[0]["comment"] == "Grüße " * 99
    notice = pytoniq.begin_cell().store_uint(JETTON_NOTIFY, 32).store_uint(5, 64).store_coins(9)
    notice = notice.store_address(A).store_bit(1).store_ref(comment).end_cell()
    for flags in ({}, {"hash_crc32": True}, {"has_idx": True}):
        row = said(b64encode(notice.to_boc(**flags)).decode())[0]
        assert (row["sender"], row["amount"], row["comment"]) == (A, 9, "Grüße " * 99)


@pytest.mark.parametrize(
    ("body", "row"),
    [
        (start(0x595F07BC, 1).coins(2).address(A).uint(0, 1), {"amount": 2, "amount_exact": "2"}),
        (
            start(0x7BDD97DE, 1).coins(2).address(B).address(A),
            {"amount": 2, "amount_exact": "2", "sender": B},
        ),
        (start(0x642B7D07, 1).address(B).coins(5), {"recipient": B}),
        (start(0x2C76B973, 1).address(A).uint(1, 1), {}),
        (
            start(JETTON_NOTIFY, 1).coins(2).address(B),
            {"amount": 2, "amount_exact": "2", "sender": B},
        ),  # no payload
        (
            start(JETTON_NOTIFY, 1).coins(2).uint(0b01, 2).uint(5, 9).uint(9, 5),
            {"amount": 2, "amount_exact": "2"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "body",
)
def test_other_schemes(body, row):
    found = of(body.cell())
    assert found.pop("opcode") in SCHEMES
    assert found.pop("query_id") == 1
    assert found.pop("response_destination", A) == A
    assert found.pop("kind") in _OPCODES
    assert found == row


def test_bounces_name_the_opcode_that_bounced():
    asked = made_up.jetton_transfer(1, 2, to=A, response=B)
    row = {"opcode": 0xFFFFFFFF, "kind": "bounce", "bounced_opcode": JETTON_TRANSFER}
    assert of(made_up.bounced(asked).cell) == row
    new = Builder().uint(0xFFFFFFFE, 32).ref(asked.cell).ref(Cell()).uint(1, 8).uint(33, 32)
    assert of(new.uint(0, 1).cell()) == row | {"opcode": 0xFFFFFFFE}
    elector = start(0xFFFFFFFE, 7).cell()
    assert of(elector) == {"opcode": 0xFFFFFFFE}


def test_bounce_of_an_empty_body_has_no_inner_opcode():
    row = {"opcode": 0xFFFFFFFF, "kind": "bounce"}
    assert of(made_up.bounced(made_up.empty()).cell) == row


def test_short_and_unknown_bodies():
    assert of(Cell()) == {"kind": "empty_cell"}
    assert of(Cell(1, 31)) == {}
    assert of(Cell(0, 0, (Cell(),))) == {}
    assert of(Cell(0xDEADBEEF, 32)) == {"opcode": 0xDEADBEEF}
    assert of(Cell(0x2167DA4B, 32))["kind"] == "encrypted_text_comment"


# ── broken and hostile bodies ────────────────────────────────────────────────────────────────────

NOTIFY = start(JETTON_NOTIFY, 1).coins(2**120 - 1).address(A).uint(1, 1).ref(Cell()).cell()


def test_missing_bits_are_an_error_not_a_smaller_number():
    cuts = [Cell(NOTIFY.value >> n, NOTIFY.bits - n) for n in range(NOTIFY.bits - 31)]
    apart, absent, *cut = said(*(cell.to_base64() for cell in cuts))
    assert apart["error"].startswith("forward_payload: a reference")
    assert (absent["amount_exact"], absent["sender"]) == (str(2**120 - 1), A)
    assert "error" not in absent
    for row in cut:
        assert set(row) == {"opcode", "kind", "error"}
        assert row["kind"] == "jetton_notify"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (start(JETTON_NOTIFY).coins(1).uint(0b11, 2), "sender: an addr_var"),
        (start(JETTON_NOTIFY).coins(1).uint(0b101, 3), "sender: an address with anycast"),
        (start(JETTON_NOTIFY).coins(1).uint(0, 2).uint(1, 1), "forward_payload: a reference"),
        (start(JETTON_TRANSFER).coins(1).uint(0, 4).uint(1, 1), "custom_payload: a reference"),
        (Builder().uint(0, 32).uint(1, 7), "comment: whole bytes are expected, 7 bits are left"),
    ],
    ids=lambda value: value if isinstance(value, str) else "body",
)
def test_errors_say_what_is_wrong(body, error):
    row = of(body.cell())
    assert row["error"].startswith(error)
    assert set(row) == {"opcode", "kind", "error"}


def test_bytes_that_are_not_utf8_stay_visible():
    row = of(snake(bytes(4) + b"a\xffb"))
    assert row["comment"] == "a\ufffdb"
    assert "UTF-8" in row["error"]
    payload = snake(bytes(4) + b"\xc3")
    row = of(start(JETTON_NOTIFY).coins(3).address(A).uint(1, 1).ref(payload).cell())
    assert (row["amount_exact"], row["sender"], row["comment"]) == ("3", A, "\ufffd")


def test_exotic_cells_are_not_read():
    library = pytoniq.Cell(pytoniq.begin_cell().store_uint(2, 8).store_uint(9, 256).bits, [], 2)
    inside = pytoniq.begin_cell().store_uint(0, 32).store_ref(library).end_cell()
    root, comment = said(library.to_boc(), inside.to_boc())
    assert root == {"error": "an exotic cell instead of an ordinary one"}
    assert comment["error"] == "comment: an exotic cell instead of an ordinary one"
    assert possible_weights(inside.to_boc()) == ((1, 264), (2, 296))


def test_the_largest_bag_is_read_and_larger_ones_are_refused():
    text = bytes(4) + b"a" * 26
    chain = [(text, [at + 1]) for at in range(MAX_CELLS - 1)] + [(b"", [])]
    (row,) = said(bag(chain))
    assert len(row["comment"]) == 30 * (MAX_CELLS - 1) - 4
    (row,) = said(bag([*chain[:-1], (b"", [MAX_CELLS]), (b"", [])]))
    assert row == {"error": "the bag has 8193 cells; it may have at most 8192"}
    flood = bag([(b"", [])] * 2**16)
    assert "65536 cells" in said(flood)[0]["error"]
    for long in (bytes(MAX_BYTES + 1), flood * 9):
        assert said(long) == [
            {"error": "the bag has more than 524288 bytes, more than it may have"}
        ]
    assert "524288 bytes" in said("A" * 10**6)[0]["error"]


def test_shared_cells_are_counted_once():
    doubled = [(b"", [at + 1] * 4) for at in range(600)] + [(b"x", [])]  # 4^600 ways to the last
    assert possible_weights(bag(doubled)) == ((600, 8), (601, 8))
    assert said(
        bag([(bytes(4), [1] * 4), *((b"ab", [at + 2] * 4) for at in range(600)), (b"", [])])
    )


@pytest.mark.parametrize(
    "cells",
    [
        [(bytes(4), [0])],
        [(bytes(4), [1]), (b"", [0])],
        [(bytes(4), [5])],
        [(b"", [1] * 5), (b"", [])],
    ],
    ids=["itself", "backwards", "nowhere", "five"],
)
def test_impossible_references_are_an_error(cells):
    (row,) = said(bag(cells))
    assert row["error"].startswith("a broken bag of cells")
    with pytest.raises(ValueError, match="cell"):
        possible_weights(bag(cells))


BAGS = [
    b64decode(body.cell.to_base64())
    for body in (
        made_up.comment("a comment that is longer than a cell " * 9),
        made_up.jetton_transfer(1, 2**100, to=A, response=B, forward=1, content="hello"),
        made_up.nft_transfer(1, A, B, 5),
        made_up.bounced(made_up.excess(4)),
    )
]
# Without the checksum, or it would catch every change.
BARE = [data[:4] + bytes([data[4] & 0xBF]) + data[5:-4] for data in BAGS]


def test_bags_without_a_checksum_are_read():
    assert said(*BARE) == said(*BAGS)
    assert all("error" not in row for row in said(*BARE))


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
def test_garbage_does_not_raise(garbage):
    magic = bytes.fromhex("b5ee9c72")
    for row in said(*garbage, *(magic + data for data in garbage)):
        assert {"error", "kind", "opcode"} & row.keys() or not row
    said(*(b64encode(data).decode() for data in garbage))


@given(st.lists(st.text(max_size=50), min_size=1))
def test_text_that_is_not_base64_has_an_error(texts):
    assert all(row["error"] for row in said(*texts))


def test_truncated_bags_have_an_error():
    for data in (*BAGS, *BARE):
        rows = said(*(data[:end] for end in range(len(data))))
        assert all(row["error"] for row in rows)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bits_do_not_raise(seed):
    rng = Random(seed)
    flipped = []
    for data in BARE * 25:
        broken = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        flipped.append(bytes(broken))
    said(*flipped)
    refusals = []
    for data in flipped:
        try:
            assert 1 <= len(possible_weights(data)) <= 2
        except ValueError as error:
            refusals.append(str(error))
    assert all("cell" in refusal or "roots" in refusal for refusal in refusals)


def test_flipped_bits_are_found_by_the_checksum():
    for data in BAGS:
        rows = said(
            *(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(20, len(data)))
        )
        assert all("Crc32c" in row["error"] for row in rows)


# ── frames ───────────────────────────────────────────────────────────────────────────────────────

COLUMNS = {
    "tx_hash": ["a", "b", "c", "d"],
    "direction": ["in", "out", "in", None],
    "position": [None, 0, None, 1],
    "value": [1, 2, 3, 4],
    "opcode": [9, 9, 9, 9],
    "body": [NOTIFY.to_base64(), None, "rubbish", NOTIFY.to_base64()],
}
TABLE = pa.table(COLUMNS)


def test_pandas_keeps_its_index_and_the_frame_itself():
    frame = TABLE.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame.index = [5, 5, 1, 0]
    before = frame.copy()
    decoded = decode_bodies(frame)
    assert_frame_equal(frame, before)
    assert list(decoded) == ["tx_hash", "direction", "position", *READ]
    assert list(decoded.index) == [5, 5, 1, 0]
    assert decoded.kind.fillna("").to_list() == ["jetton_notify", "", "", "jetton_notify"]
    assert decoded.amount_exact.iloc[3] == str(2**120 - 1)
    assert decoded.opcode.to_list() == [JETTON_NOTIFY, pd.NA, pd.NA, JETTON_NOTIFY]


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_dtypes_do_not_depend_on_the_rows(rows):
    frame = TABLE.to_pandas().iloc[4 - rows :]
    dtypes = decode_bodies(frame)[READ].dtypes.astype(str).to_dict()
    numbers = dict.fromkeys(("opcode", "bounced_opcode", "forward_amount"), "Int64")
    numbers |= {"query_id": "UInt64", "amount": "Float64"}
    assert dtypes == dict.fromkeys(READ, "str") | numbers


def test_every_column_is_declared_and_documented():
    frame = tf.read_blocks(tf.sample()).messages.head(20)
    declared = {column.name: column.dtype for column in RESULT}
    assert decode_bodies(frame).dtypes.astype(str).to_dict() == declared
    documented = re.findall(r"^    - ([\w, ]+):", decode_bodies.__doc__, flags=re.MULTILINE)
    assert ", ".join(documented).split(", ") == list(declared)
    assert all(column.meaning for column in RESULT)


@given(st.lists(AMOUNTS | st.integers(2**120 - 9, 2**120 - 1), min_size=1, max_size=5))
@example([2**120 - 1, 2**53 + 1, 0])
def test_amounts_are_exact_as_text_and_also_float64(tmp_path_factory, amounts):
    bodies = [start(JETTON_NOTIFY).coins(amount).address(A).cell() for amount in amounts]
    column = pd.Series([*(cell.to_base64() for cell in bodies), None])
    decoded = decode_bodies(pd.DataFrame({"body": column}))
    assert decoded.amount_exact.dropna().map(int).to_list() == amounts
    assert decoded.amount.dropna().to_list() == [float(amount) for amount in amounts]
    assert decoded.amount.isna().to_list() == [False] * len(amounts) + [True]
    assert (decoded.amount / 10**6).max() == max(map(float, amounts)) / 10**6
    assert decoded.amount.nlargest(1).iloc[0] == float(max(amounts))
    assert decoded.amount.describe()["count"] == len(amounts)
    file = tmp_path_factory.mktemp("bodies") / "decoded.parquet"
    decoded.to_parquet(file)
    assert_frame_equal(pd.read_parquet(file), decoded)


def test_every_eager_engine_returns_the_same_values():
    arrow = decode_bodies(TABLE)
    assert isinstance(arrow, pa.Table)
    polars = decode_bodies(pl.from_arrow(TABLE))
    assert isinstance(polars, pl.DataFrame)
    assert (polars.schema["amount"], polars.schema["query_id"]) == (pl.Float64, pl.UInt64)
    assert polars.to_arrow().to_pylist() == arrow.to_pylist()
    for frame in (TABLE.to_pandas(), TABLE.to_pandas(types_mapper=pd.ArrowDtype)):
        table = pa.Table.from_pandas(decode_bodies(frame), preserve_index=False)
        assert table.drop(["position"]).to_pylist() == arrow.drop(["position"]).to_pylist()
    assert arrow.column_names == ["tx_hash", "direction", "position", *READ]


def test_bodies_of_the_lake_and_other_types_of_columns():
    column = [b64decode(NOTIFY.to_base64()), None]
    wanted = decode_bodies(pa.table({"body": [NOTIFY.to_base64(), None]})).to_pylist()
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert decode_bodies(pa.table({"body_boc": pa.array(column, kind)})).to_pylist() == wanted
    objects = pd.DataFrame({"body_boc": pd.Series(column, dtype=object)})
    assert decode_bodies(objects).amount_exact.iloc[0] == str(2**120 - 1)
    assert decode_bodies(pl.DataFrame({"body_boc": column})).to_dicts() == wanted
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({"body": pa.array([NOTIFY.to_base64(), None], kind)})
        assert decode_bodies(table).to_pylist() == wanted
    category = pd.DataFrame({"body": pd.Series([NOTIFY.to_base64(), None], dtype="category")})
    assert decode_bodies(category).amount_exact.iloc[0] == str(2**120 - 1)
    nothing = pd.DataFrame({"body": pd.Series([None, None], dtype=object)})
    assert decode_bodies(nothing)[READ].isna().all(axis=None)


@pytest.mark.parametrize("column", ["body", "body_boc"])
@pytest.mark.parametrize(
    "engine", ["polars-lazy", "duckdb", "dask", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_lazy_frames_are_decoded(engine, column, tmp_path):
    table = tf.read_blocks(tf.sample()).arrow("messages").slice(0, 500)
    if column == "body_boc":
        table = lake(table)
    names = ["tx_hash", "direction", "position", "source", "destination", column]
    table = table.select(names).replace_schema_metadata(None)
    lazy = collected(engine, decode_bodies(frame_of(engine, table, tmp_path)))
    expected = collected("pyarrow", decode_bodies(table))
    assert lazy.column_names == expected.column_names
    assert rows_of(lazy) == rows_of(expected)
    assert expected["kind"].null_count < expected.num_rows


def test_lazy_frames_with_numbers_as_bodies_are_refused():
    with pytest.raises(TypeError, match="base64 text or bytes in the column 'body', not Int64"):
        decode_bodies(pl.LazyFrame({"body": [1]}))


def test_the_messages_of_blocks_are_decoded():
    blocks = tf.read_blocks(tf.sample(), [90_000_000])
    assert_frame_equal(decode_bodies(blocks), decode_bodies(blocks.messages))


def test_other_input_than_a_frame_of_messages_is_refused():
    with pytest.raises(TypeError, match=r"as a frame of pandas, .* or a Blocks, not list"):
        decode_bodies([NOTIFY.to_base64()])
    with pytest.raises(ValueError, match=r"needs a column body .* the frame has 'tx_hash"):
        decode_bodies(TABLE.select(["tx_hash"]))
    with pytest.raises(TypeError, match="base64 text or bytes in the column 'body', not int64"):
        decode_bodies(pa.table({"body": [1]}))
    with pytest.raises(TypeError, match="of mixed values"):
        decode_bodies(pd.DataFrame({"body": pd.Series(["a", 1], dtype=object)}))


def test_external_messages_have_no_kind():
    comment, short = Builder().uint(0, 32).raw(b"hi").cell().to_base64(), Cell(5, 3).to_base64()
    source = [None, A, None, A, None, A]
    table = pa.table({"source": source, "body": [comment] * 2 + [short] * 2 + ["rubbish"] * 2})
    decoded = decode_bodies(table)
    rows = decoded.to_pylist()
    external, sent, *others = decoded.drop_columns("source").to_pylist()
    assert external == dict.fromkeys(READ) | {"opcode": 0}
    assert sent == dict.fromkeys(READ) | {"opcode": 0, "kind": "text_comment", "comment": "hi"}
    assert others[0] == others[1]
    assert others[2] == others[3]
    assert others[2]["error"]
    assert decode_bodies(pl.from_arrow(table)).to_arrow().to_pylist() == rows
    pandas = pa.Table.from_pandas(decode_bodies(table.to_pandas()), preserve_index=False)
    assert pandas.to_pylist() == rows
    assert decode_bodies(table.drop("source"))["comment"].to_pylist()[:2] == ["hi", "hi"]


def test_each_distinct_body_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr("tonframes.bodies.decode.read_body", lambda body: read.append(body) or {})
    decode_bodies(TABLE)
    assert sorted(read) == sorted({NOTIFY.to_base64(), "rubbish"})


def test_missing_pytoniq_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytoniq_core", None)
    for call, name in (
        (lambda: decode_bodies(TABLE), "decode_bodies"),
        (lambda: possible_weights(""), "possible_weights"),
        (lambda: import_fees("", lump_price=0, bit_price=0, cell_price=0), "import_fees"),
    ):
        with pytest.raises(ImportError) as caught:
            call()
        assert str(caught.value) == (
            f"{name} needs pytoniq-core to read bags of cells: pip install 'tonframes[boc]'"
        )


# ── weights and fees ─────────────────────────────────────────────────────────────────────────────


def test_weights_of_every_place_of_the_parts():
    shared, own = Cell(1, 10), Cell(2, 20)
    body, init = Cell(3, 30, (shared, own)), Cell(4, 40, (shared,))
    wanted = {
        usage(shared, own),
        usage(body),
        usage(init, own),
        usage(body, init),
    }
    assert set(possible_weights(body.to_base64(), init.to_base64())) == wanted
    assert set(possible_weights(b64decode(body.to_base64()))) == {usage(shared, own), usage(body)}
    assert possible_weights(Cell().to_base64()) == ((0, 0), (1, 0))
    assert possible_weights(body.to_base64(), body.to_base64()) == ((2, 30), (3, 60))


def test_fees_are_rounded_up():
    body = Cell(0, 1).to_base64()
    for bit_price, fee in ((0, 5), (1, 6), (65536, 6), (65537, 7)):
        assert import_fees(body, lump_price=5, bit_price=bit_price, cell_price=0) == {5, fee}


def explained(blocks):
    """Count external messages, and those whose fee follows from the body at known prices."""
    transactions = undo_gas_exchange(blocks.transactions).set_index("hash")
    messages = blocks.messages
    external = (messages.direction == "in") & messages.source.isna() & messages.value.isna()
    external = messages[external & messages.body.notna()]
    good = 0
    for message in external.itertuples():
        transaction = transactions.loc[message.tx_hash]
        parts = transaction[list(PARTS.values())].fillna(0).sum()
        workchain = int(message.destination.partition(":")[0])
        init = message.init_state_body
        possible = {
            fee
            for row in PRICES
            if row.workchain == workchain
            for fee in import_fees(
                message.body,
                init if isinstance(init, str) else None,
                lump_price=row.lump_price,
                bit_price=row.bit_price,
                cell_price=row.cell_price,
            )
        }
        good += int(transaction.total_fees) - int(parts) in possible
    return len(external), good


def test_import_fees_of_real_messages(recorded):
    messages, good = map(sum, zip(*map(explained, recorded.blocks), strict=True))
    assert messages >= 37
    assert good == messages


def test_import_fees_of_the_synthetic_chain():
    messages, good = explained(tf.read_blocks(tf.sample()))
    assert messages > 100
    assert good == messages
