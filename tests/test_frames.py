"""Bodies to frames and back: nothing is lost, and no dtype depends on the rows."""

import copy
import json
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import strategies
from chain import Chain, synthetic_blocks
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from strategies import dump, least, said

import tonframes as tf
from tonframes import Accounts, Blocks, describe, parse_accounts, parse_blocks
from tonframes.errors import DecodeError
from tonframes.parse import parse_account_states, parse_transactions
from tonframes.wire import schema
from tonframes.wire.kinds import Json

RECORD = {parse_blocks: schema.BLOCKS_ANSWER, parse_accounts: schema.ACCOUNTS_ANSWER}
both = pytest.mark.parametrize("parse", RECORD)
dialects = pytest.mark.parametrize("dialect", ["service", "specification"])
# Many of these documents contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")


@pytest.fixture(scope="session")
def recorded_answers(real):
    """Return every recorded answer: name, parser, bytes."""
    found = [
        (path, parse_blocks) for path in sorted((real / "masterchainBlockShards").glob("*.json"))
    ]
    found += [(path, parse_accounts) for path in sorted((real / "accountStates").glob("*.json"))]
    found.append((real / "other" / "blocks.json", parse_blocks))
    assert len(found) > 70
    return [(path.name, parse, path.read_bytes()) for path, parse in found]


@pytest.fixture(scope="session")
def made():
    """Return answers of the synthetic chain: name, parser, bytes."""
    chain = Chain()
    blocks = [(f"block {i}", parse_blocks, dump(chain.next_block())) for i in range(20)]
    return [*blocks, ("states", parse_accounts, dump(chain.account_states()))]


def tables(parsed):
    return {name: parsed.arrow(name) for name in parsed.names}


def assert_comes_back(parse, document, dialect):
    """Show that `to_json` says what the document says, and that it parses to the same tables."""
    record, parsed = RECORD[parse], parse(document)
    again = parsed.to_json(dialect=dialect)
    says = said(record, document)
    if dialect == "specification" and says.pop("blocks", None) is not None:
        says.setdefault("transactions", [])
    assert {"transactions": [], **said(record, again)} == {"transactions": [], **says}
    once, twice = tables(parsed), tables(parse(again))
    for name in once.keys() - ({"blocks"} if dialect == "specification" else set()):
        assert once[name].equals(twice[name]), name


# ── the round trip ───────────────────────────────────────────────────────────────────────────────


@dialects
def test_every_recorded_document_comes_back(recorded_answers, dialect):
    for name, parse, document in recorded_answers:
        try:
            assert_comes_back(parse, document, dialect)
        except (AssertionError, DecodeError) as error:
            raise AssertionError(name) from error


@dialects
def test_every_synthetic_document_comes_back(made, dialect):
    for _, parse, document in made:
        assert_comes_back(parse, document, dialect)


#: Objects of free form, which are kept verbatim.
LOOSE = {"address_book", "metadata", "decoded"} | {
    f"{name}extra_currencies" for name in ("", "value_", "credit_", "total_fees_")
}
#: Keys that newer versions of the service have added: they are null in older recordings.
ADDED = {"decoded_opcode", "extra_flags"} | (LOOSE - {"address_book", "metadata", "decoded"})


def keys_of(value, path=""):
    """Yield the path of every object, its keys, and those of them that are null."""
    if isinstance(value, dict):
        yield path, value.keys(), {key for key, inner in value.items() if inner is None}
        for key in sorted(value.keys() - LOOSE):
            yield from keys_of(value[key], f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{path}[]")


def test_what_the_service_sends_as_null_is_written_as_null(recorded_answers):
    plain, compared = 0, 0
    for name, parse, document in recorded_answers:
        written = keys_of(json.loads(parse(document).to_json()))
        for (path, keys, nulls), (again, found, empty) in zip(
            keys_of(json.loads(document)), written, strict=True
        ):
            assert path == again, name
            more = found - keys
            assert keys <= found, (name, path)
            assert more <= empty & ADDED, (name, path)
            assert nulls == empty - more, (name, path)
            compared += 1
            plain += not more
    assert plain > 0.9 * compared > 1000


@pytest.mark.parametrize("table", [schema.TRANSACTION, schema.BLOCK, schema.ACCOUNT])
def test_what_the_specification_has_no_null_for_is_left_out(table):
    parse, name = {
        schema.TRANSACTION: (parse_blocks, "transactions"),
        schema.BLOCK: (parse_blocks, "blocks"),
        schema.ACCOUNT: (parse_accounts, "accounts"),
    }[table]
    [row] = json.loads(parse({name: [least(table)]}).to_json())[name]
    assert None in row.values()
    parsed = parse({name: [least(table)], "transactions": [least(schema.TRANSACTION)]})
    written = json.loads(parsed.to_json(dialect="specification"))
    assert b"null" not in dump(written)


@both
@dialects
@given(data=st.data())
def test_any_document_of_the_declared_form_comes_back(parse, dialect, data):
    assert_comes_back(parse, data.draw(strategies.documents(RECORD[parse])), dialect)


@pytest.mark.filterwarnings("error")
def test_synthetic_documents_need_no_tolerance(made):
    for _, parse, document in made:
        parse(document)


def test_bytes_text_and_parsed_json_are_one(recorded_answers, made):
    for _, parse, document in [*recorded_answers[::3], *made]:
        once = tables(parse(document))
        for other in (document.decode(), json.loads(document)):
            again = tables(parse(other))
            for name, table in once.items():
                # Of JSON text parsed JSON has lost the white space.
                bare = [c.name for c in schema.TABLES[name].columns if not isinstance(c.kind, Json)]
                assert table.select(bare).equals(again[name].select(bare)), name


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_bytearrays_and_memoryviews_are_accepted(kind):
    document = dump({"transactions": [least(schema.TRANSACTION)]})
    assert parse_blocks(kind(document)).arrow("transactions") == parse_blocks(document).arrow(
        "transactions"
    )


def test_parsed_json_is_not_changed():
    document = next(iter(synthetic_blocks(1)))
    before = copy.deepcopy(document)
    parse_blocks(document).transactions.drop(columns="hash")
    assert document == before


@pytest.mark.parametrize(
    "document", [{"transactions": {1, 2}}, {"transactions": float("nan")}, "\ud800"]
)
def test_values_beyond_json_are_refused(document):
    with pytest.raises(DecodeError) as caught:
        parse_blocks(document)
    assert caught.value.path == "$"


def test_an_unknown_dialect_is_a_wrong_argument():
    for parsed in (parse_blocks({"transactions": []}), parse_accounts({"accounts": []})):
        with pytest.raises(ValueError, match="dialect"):
            parsed.to_json(dialect="spec")


# ── exactness and names ──────────────────────────────────────────────────────────────────────────


def test_integers_of_19_digits_are_exact_beside_nulls():
    message = least(schema.MESSAGE)
    trees = [
        least(schema.TRANSACTION) | {"hash": str(i), "lt": str(i), "in_msg": message | {"value": v}}
        for i, v in enumerate([None, "1234567890123456789", str(2**63 - 1)])
    ]
    messages = parse_blocks({"transactions": trees}).messages
    assert messages.value.tolist() == [pd.NA, 1234567890123456789, 2**63 - 1]


def test_an_opcode_compares_with_its_hex_number():
    message = least(schema.MESSAGE) | {"opcode": "0xd53276db"}
    tree = least(schema.TRANSACTION) | {"in_msg": message}
    frame = parse_blocks({"transactions": [tree]}).messages
    assert (frame["opcode"] == 0xD53276DB).all()


def test_block_time_is_now_in_utc():
    tree = least(schema.TRANSACTION) | {"now": 1721063820}
    frame = parse_blocks({"transactions": [tree]}).transactions
    assert frame.block_time[0] == pd.Timestamp("2024-07-15T17:17:00Z")


def test_rows_keep_the_order_of_the_document(made):
    _, _, document = made[0]
    hashes = [row["hash"] for row in json.loads(document)["transactions"]]
    assert parse_blocks(document).transactions["hash"].tolist() == hashes


def test_seqnos_are_those_that_occur():
    trees = [
        least(schema.TRANSACTION) | {"hash": str(n), "lt": str(n), "mc_block_seqno": n}
        for n in (7, 5, 6, 9)
    ]
    blocks = parse_blocks({"transactions": trees})
    assert blocks.seqnos == (range(5, 8), range(9, 10))


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def frames(made):
    """Return frames of every table: without rows, with the smallest rows, with synthetic rows."""
    least_blocks = {
        "blocks": [least(schema.BLOCK)],
        "transactions": [least(schema.TRANSACTION) | {"in_msg": least(schema.MESSAGE)}],
        "address_book": {"a": None},
    }
    least_accounts = {"accounts": [least(schema.ACCOUNT)], "metadata": {"a": {}}}
    parsed = [
        *(parse_blocks({"transactions": []}), parse_accounts({"accounts": []})),
        *(parse_blocks(least_blocks), parse_accounts(least_accounts)),
        *(parse(document) for _, parse, document in (made[3], made[-1])),
    ]
    return [{name: getattr(one, name) for name in one.names} for one in parsed]


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def test_dtypes_never_depend_on_the_rows(frames):
    for by_name in frames:
        for name, frame in by_name.items():
            assert dtypes(frame) == {c.name: c.dtype for c in schema.TABLES[name].columns}


def test_dtypes_of_recorded_documents_are_the_same(recorded_answers):
    for _, parse, document in recorded_answers:
        parsed = parse(document)
        for name in parsed.names:
            declared = {c.name: c.dtype for c in schema.TABLES[name].columns}
            assert dtypes(getattr(parsed, name)) == declared


def test_frames_concatenate_without_a_change_of_dtypes(frames):
    for one, two in combinations(frames, 2):
        for name in one.keys() & two.keys():
            joined = pd.concat([one[name], two[name]])
            assert dtypes(joined) == dtypes(one[name])
            assert len(joined) == len(one[name]) + len(two[name])


def test_pandas_reads_what_a_view_of_a_store_writes_as_the_same_frames(tmp_path):
    seen = set()
    for view in (tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())):
        view.write(tmp_path)
        for name in view.names:
            read = pd.read_parquet(tmp_path / f"{name}.parquet")
            assert len(read)
            assert dtypes(read) == {c.name: c.dtype for c in schema.TABLES[name].columns}
            assert_frame_equal(read, getattr(view, name))
            seen.add(name)
    assert seen == set(schema.TABLES)


def test_written_files_carry_units_and_meanings(tmp_path):
    parse_blocks({"transactions": []}).write(tmp_path / "a" / "b")
    written = pq.read_schema(tmp_path / "a" / "b" / "transactions.parquet")
    assert written.field("compute_gas_used").metadata[b"unit"] == b"gas"
    assert written.equals(schema.TRANSACTIONS.schema, check_metadata=False)


def test_arrow_dtypes_on_demand(made):
    _, parse, document = made[3]
    parsed = parse(document)
    for name in parsed.names:
        frame = parsed.frame(name, dtype_backend="pyarrow")
        assert list(frame.dtypes) == [
            pd.ArrowDtype(column.kind.arrow) for column in schema.TABLES[name].columns
        ]
        assert len(frame) == len(getattr(parsed, name))


def test_every_caller_gets_a_frame_of_its_own(made):
    parsed = parse_blocks(made[3][2])
    mine, yours = parsed.transactions, parsed.transactions
    # One conversion: the columns share their memory until somebody writes to them.
    assert np.shares_memory(mine["lt"].to_numpy(), yours["lt"].to_numpy())
    mine["lt"] = 0
    assert_frame_equal(parsed.transactions, yours)
    assert_frame_equal(parsed.frame("transactions"), yours)


@pytest.mark.parametrize("name", ["accounts", "", "Transactions"])
def test_a_table_that_is_not_there_is_a_wrong_argument(name):
    with pytest.raises(ValueError, match="transactions, messages, blocks, address_book"):
        parse_blocks({"transactions": []}).arrow(name)


def test_an_unknown_dtype_backend_is_a_wrong_argument():
    with pytest.raises(ValueError, match="dtype_backend"):
        parse_blocks({"transactions": []}).frame("transactions", dtype_backend="numpy_nullable")


# ── describe and repr ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", schema.TABLES)
def test_describe_tells_every_column_as_it_is(name):
    frame = describe(name)
    assert list(frame.columns) == ["column", "dtype", "unit", "meaning", "api_path", "derived"]
    parsed = (parse_blocks if name in Blocks.names else parse_accounts)(_empty(name))
    assert dict(zip(frame["column"], frame["dtype"], strict=True)) == dtypes(getattr(parsed, name))
    assert not frame["meaning"].str.startswith("+").any()
    assert ((frame["api_path"] == "") == frame["derived"]).all()


def _empty(name):
    return {"transactions": []} if name in Blocks.names else {"accounts": []}


def test_describe_of_no_table_names_those_that_are():
    with pytest.raises(ValueError, match="transactions, messages, blocks, accounts"):
        describe("rows")
    with pytest.raises(TypeError, match="the name of a table or function, not"):
        describe(["transactions"])


def test_derived_columns_are_marked():
    frame = describe("messages").set_index("column")
    assert frame.derived[["block_time", "decoded_type", "comment", "direction", "tx_lt"]].all()
    assert not frame.derived[["value", "decoded", "has_init_state", "body"]].any()


@pytest.mark.parametrize("name", schema.TABLES)
def test_meanings_are_short_enough_to_be_read(name):
    frame = describe(name)
    assert frame["meaning"].str.len().max() <= 100
    assert frame["column"].is_unique


def test_accounts_of_a_document_were_found_at_no_known_time():
    accounts = parse_accounts({"accounts": [{"address": "0:00"}], "address_book": {"0:00": {}}})
    assert accounts.accounts.found.tolist() == [True]
    assert accounts.accounts.fetched_at.isna().all()


def test_accounts_that_were_not_found_are_not_written_back():
    parsed = parse_accounts({"accounts": [{"address": "a"}, {"address": "b"}]})
    table = parsed.arrow("accounts")
    index = table.schema.get_field_index("found")
    table = table.set_column(index, table.schema.field(index), [[True, False]])
    for dialect in ("service", "specification"):
        [row] = json.loads(Accounts({"accounts": table}).to_json(dialect=dialect))["accounts"]
        assert row["address"] == "a"


# ── records one by one ───────────────────────────────────────────────────────────────────────────


def test_transactions_one_by_one_are_the_document(made):
    _, _, document = made[3]
    rows = json.loads(document)["transactions"]
    book = json.loads(document)["address_book"]
    whole = parse_blocks(document)
    for records in (rows, map(json.dumps, rows), (dump(row) for row in rows), tuple(rows)):
        parsed = parse_transactions(records, address_book=book)
        for name in ("transactions", "messages", "address_book"):
            bare = [c.name for c in schema.TABLES[name].columns if not isinstance(c.kind, Json)]
            assert parsed.arrow(name).select(bare).equals(whole.arrow(name).select(bare)), name
        assert parsed.seqnos == whole.seqnos
        assert len(parsed.blocks) == 0


def test_account_states_one_by_one_are_the_document(made):
    _, _, document = made[-1]
    tree = json.loads(document)
    parsed = parse_account_states(
        tree["accounts"], address_book=tree["address_book"], metadata=tree["metadata"]
    )
    for name in parsed.names:
        assert_frame_equal(getattr(parsed, name), getattr(parse_accounts(tree), name))


def test_no_records_make_empty_tables():
    assert parse_transactions([]).transactions.shape == (0, 100)
    assert parse_account_states(iter(())).accounts.shape == (0, 18)


def test_lines_of_a_file_are_records(made, tmp_path):
    rows = json.loads(made[3][2])["transactions"]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (tmp_path / "rows.jsonl").open() as lines:
        assert len(parse_transactions(lines).transactions) == len(rows)


GOOD = {"address": "0:00"}


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({}, "$.accounts[2].address"),
        ({"address": 7}, "$.accounts[2].address"),
        ({"address": "0:00", "balance": 7}, "$.accounts[2].balance"),
        ({"address": {1, 2}}, "$.accounts[2]"),
        ({"address": float("nan")}, "$.accounts[2]"),
        ("", "$.accounts[2]"),
        ("\n", "$.accounts[2]"),
        ('{"address": "0:00"', "$.accounts[2]"),
        ('{"address": "0:00"}, {"address": "0:01"}', "$.accounts[2]"),
        ('{"address": "0:00"}]', "$.accounts[2]"),
        ("\ud800", "$.accounts[2]"),
        (b'{"address": "\xff"}', "$.accounts[2].address"),
        ("[]", "$.accounts[2]"),
        (7, "$.accounts[2]"),
        (None, "$.accounts[2]"),
    ],
)
def test_an_error_names_the_record(record, path):
    with pytest.raises(DecodeError) as caught:
        parse_account_states([GOOD | {"address": "a"}, json.dumps(GOOD), record])
    assert caught.value.path == path


def test_pieces_of_json_do_not_become_one_record():
    with pytest.raises(DecodeError) as caught:
        parse_account_states(['{"address": "0:00"', '"balance": "7"}'])
    assert caught.value.path == "$.accounts[0]"


@pytest.mark.parametrize("records", [{"transactions": []}, '{"transactions": []}', b"[]", None, 7])
@pytest.mark.parametrize("parse", [parse_transactions, parse_account_states])
def test_a_whole_document_is_no_iterable_of_records(parse, records):
    with pytest.raises(TypeError, match="parse_blocks and parse_accounts take a whole document"):
        parse(records)


@given(data=st.data())
def test_any_records_of_the_declared_form_are_the_document(data):
    tree = data.draw(strategies.objects(schema.TRANSACTION, odd=False))
    document = dump({"transactions": [tree]})
    assert parse_transactions([dump(tree)]).to_json() == parse_blocks(document).to_json()
