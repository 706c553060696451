"""The schema says what the specification says, and calls it as the field does."""

import re

import pyarrow as pa
import pytest

from tonframes.wire import schema
from tonframes.wire.kinds import ARRAY, BOOL, DIGITS, INT, OBJECT, OPCODE, SHARD, TEXT
from tonframes.wire.record import Entries, Field, Loose, Part, Record, Rows, api_path

RECORDS = {value.name: value for value in vars(schema).values() if isinstance(value, Record)}
tables = pytest.mark.parametrize("table", schema.TABLES.values(), ids=schema.TABLES)

#: The specification's headings, and the records that are declared for them.
HEADINGS = {
    "Account state record": [schema.ACCOUNT],
    "Account state snapshot": [schema.SNAPSHOT],
    "Transaction": [schema.TRANSACTION],
    "Block reference": [schema.BLOCK_REF],
    "Message": [schema.MESSAGE],
    "Message body record": [schema.MESSAGE_CONTENT, schema.INIT_STATE],
    "Decoded body": [schema.DECODED_BODY],
    "Transaction description": [schema.DESCRIPTION],
    "Action phase": [schema.ACTION_PHASE],
    "Size record": [schema.SIZE, schema.BOUNCED_SIZE],
    "Bounce phase": [schema.BOUNCE_PHASE],
    "Compute phase": [schema.COMPUTE_PHASE],
    "Credit phase": [schema.CREDIT_PHASE],
    "Split info": [schema.SPLIT_INFO],
    "Storage phase": [schema.STORAGE_PHASE],
    "1. Query account states": [schema.ACCOUNTS_ANSWER],
    "2. Masterchain block shards": [schema.BLOCKS_ANSWER],
}
#: The specification shows nothing of these.
UNSPECIFIED = [
    schema.BLOCK,
    schema.ADDRESS_BOOK_ROW,
    schema.ADDRESS_BOOK_ENTRY,
    schema.METADATA_ROW,
    schema.METADATA_ENTRY,
]
KINDS = {
    "string": TEXT,
    "string-int": DIGITS,
    "int": INT,
    "boolean": BOOL,
    "object": OBJECT,
    "array of int": ARRAY,
}


def rows_of(markdown):
    """Parse the rows of all tables in a text, without their heads."""
    rows = re.findall(r"^\|(.+)\|$", markdown, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return [
        row
        for row, after in zip(cells, [*cells[1:], [""]], strict=True)
        if not after[0].startswith("---") and not row[0].startswith("---")
    ]


@pytest.fixture(scope="module")
def specification(reference):
    text = (reference / "service-spec.md").read_text()
    fields = {}
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading = re.sub(r" \(.*", "", section.splitlines()[0])
        if heading in HEADINGS:
            fields[heading] = dict(
                rows_of(section.partition("Response (JSON object)")[2] or section)
            )
    return fields


@pytest.fixture(scope="module")
def names(reference):
    """Read the names of columns.md: table → API path → name in Postgres, else in the lake."""
    text = (reference / "columns.md").read_text()
    found = {}
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        paths = found.setdefault(section.split()[0], {})
        for path, postgres, lake, *_ in rows_of(section):
            name = (postgres if postgres != "—" else lake).split()[0]
            if path != "—" and name != "—":
                paths[re.sub(r"(\[\])?( [({\"].*)?$", "", path)] = name
    return found


def declared(member):
    """Return a member's type in the words of the specification."""
    match member:
        case Field(kind=kind):
            plain = {SHARD: DIGITS, OPCODE: INT}.get(kind, kind)
            return next(words for words, of in KINDS.items() if of is plain)
        case Part(record=record) | Loose(record=record) | Rows(record=record, single=True):
            return words_for(record)
        case Rows(record=record):
            return f"array of {words_for(record)}"
        case Entries():
            return "object"


def words_for(record):
    heading = next(heading for heading, records in HEADINGS.items() if record in records)
    return heading.lower()


def test_every_table_of_the_specification_is_found(specification):
    assert specification.keys() == HEADINGS.keys()
    assert sum(map(len, specification.values())) == 133


def test_every_record_is_specified_or_known_not_to_be():
    specified = [record for records in HEADINGS.values() for record in records]
    assert {r.name for r in [*specified, *UNSPECIFIED]} == set(RECORDS)


@pytest.mark.parametrize("heading", HEADINGS)
def test_fields_are_those_of_the_specification_and_plus_marks_the_others(heading, specification):
    for record in HEADINGS[heading]:
        specified = {m.key for m in record.wired if not m.meaning.startswith("+ ")}
        assert specified == specification[heading].keys(), record.name


@pytest.mark.parametrize("heading", HEADINGS)
def test_types_are_those_of_the_specification(heading, specification):
    for record in HEADINGS[heading]:
        for member in record.wired:
            if record is schema.INIT_STATE and member.key == "decoded":
                # Nobody knows what would stand there: null, in every response seen.
                assert member.kind is OBJECT
            elif member.key in specification[heading]:
                assert declared(member) == specification[heading][member.key], record.name


def test_shards_and_opcodes_are_of_their_own_kinds():
    for record in RECORDS.values():
        for member in record.wired:
            if isinstance(member, Field):
                assert (member.kind is SHARD) == (member.key == "shard")
                assert (member.kind is OPCODE) == (member.key == "opcode")


@pytest.mark.parametrize("table", ["transactions", "messages", "blocks"])
def test_columns_are_called_as_the_field_calls_them(table, names):
    ours = {api_path(column): column.name for column in schema.TABLES[table].columns}
    ours |= {f"(parent tx).{c.of}": c.name for c in schema.MESSAGES.before if c.of}
    ours |= {"in_msg / out_msgs": "direction"} if table == "messages" else {}
    exceptions = {
        # The API's base64 text, where the lake has the bytes.
        "message_content.body": ("body_boc", "body"),
        "init_state.body": ("init_state_boc", "init_state_body"),
        # The lake keeps the comment alone; it is our `comment`, beside the whole.
        "message_content.decoded": ("comment", "decoded"),
        # Postgres calls it so in this table alone.
        "(parent tx).mc_block_seqno": ("mc_seqno", "mc_block_seqno"),
    }
    for path, name in names[table].items():
        theirs, here = exceptions.get(path, (name, name))
        assert theirs == name
        assert ours[path] == here, path


def test_names_of_all_three_tables_are_found(names):
    assert [len(names[t]) for t in ("transactions", "messages", "blocks")] == [73, 27, 31]


def test_the_lakes_pattern_holds_for_every_field_of_a_snapshot():
    columns = {api_path(column): column.name for column in schema.TRANSACTIONS.columns}
    for when in ("before", "after"):
        for member in schema.SNAPSHOT.wired:
            name = "status" if member.key == "account_status" else member.key
            path = f"account_state_{when}.{member.key}"
            assert columns[path] == f"account_state_{name}_{when}"


def test_accounts_keep_the_names_of_the_operation():
    for column in schema.ACCOUNTS.columns:
        assert api_path(column) in ("", column.name)


@tables
def test_no_column_comes_twice(table):
    names = [column.name for column in table.columns]
    assert len(names) == len(set(names))


@tables
def test_keys_and_order_are_columns_that_are_there(table):
    names = {column.name for column in table.columns}
    assert set(table.order) <= names
    assert {name for key in table.keys for name in key} <= names


@tables
def test_a_column_has_a_meaning_and_a_unit(table):
    for column in table.columns:
        assert re.fullmatch(r"(\+ )?[A-Z0-9a-z].*[.…]", column.meaning), column.name
        assert column.unit in {"", "nanoton", "gas", "lt", "s", "steps", "cells", "bits"}


@tables
def test_string_ints_have_a_unit(table):
    for column in table.columns:
        if column.kind is DIGITS and column.name != "extra_flags":
            assert column.unit, column.name


@tables
def test_pandas_reads_the_declared_dtypes_from_the_arrow_schema(table):
    dtypes = table.schema.empty_table().to_pandas().dtypes
    assert {n: str(d) for n, d in dtypes.items()} == {c.name: c.dtype for c in table.columns}


@tables
def test_the_arrow_schema_carries_types_units_meanings_and_paths(table):
    for column, field in zip(table.columns, table.schema, strict=True):
        assert field.name == column.name
        assert field.type == column.kind.arrow
        assert field.nullable == (not column.always)
        said = {key.decode(): value.decode() for key, value in field.metadata.items()}
        assert said == {"unit": column.unit, "meaning": column.meaning, "path": api_path(column)}


def test_what_the_service_always_fills_is_what_the_design_says():
    always = {
        name: {c.name for c in table.columns if c.always and not c.name.startswith("has_")}
        for name, table in schema.TABLES.items()
    }
    added = {"tx_hash", "tx_lt", "tx_now", "mc_block_seqno", "direction"}
    reference = {"workchain", "shard", "seqno"}
    assert always == {
        "transactions": {
            *("account", "hash", "lt", "now", "mc_block_seqno", "prev_trans_hash", "prev_trans_lt"),
            *("orig_status", "end_status", "total_fees", "descr"),
            *(f"block_{name}" for name in reference),
        },
        "messages": {"msg_hash", *added},
        "blocks": {*reference, *(f"mc_block_{name}" for name in reference)},
        "accounts": {"address", "found"},
        "address_book": {"address"},
        "metadata": {"address"},
    }


def test_presence_columns_are_never_null():
    for table in schema.TABLES.values():
        for column in table.columns:
            if column.name.startswith("has_"):
                assert column.always
                assert column.kind.arrow == pa.bool_()
