"""Every wrong document is one DecodeError with the path, what was expected, and what was found."""

import json
from contextlib import suppress

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from strategies import dump, least, said

from tonframes import parse_accounts, parse_blocks
from tonframes.errors import QUOTED, DecodeError, TonframesWarning
from tonframes.wire import schema
from tonframes.wire.extra import escape

RECORD = {parse_blocks: schema.BLOCKS_ANSWER, parse_accounts: schema.ACCOUNTS_ANSWER}
both = pytest.mark.parametrize("parse", RECORD)
quietly = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")


@pytest.fixture
def transaction():
    """Return the smallest transaction, with a message and the phases that the tests change."""
    tree = least(schema.TRANSACTION)
    tree["in_msg"] = least(schema.MESSAGE)
    tree["description"] |= {"compute_ph": {}, "credit_ph": {}}
    return tree


def wrong(document, parse=parse_blocks):
    """Parse a document that must be refused, and return the error."""
    with pytest.raises(DecodeError) as caught:
        parse(document)
    error = caught.value
    assert str(error) == f"{error.path}: expected {error.expected}, found {error.found}"
    assert len(str(error)) < 4 * QUOTED + len(error.path)
    assert str(error).isprintable()
    return error


def block(transaction):
    return dump(
        {"transactions": [least(schema.TRANSACTION) | {"hash": "x", "lt": "8"}, transaction]}
    )


# ── what is no JSON at all ───────────────────────────────────────────────────────────────────────


@both
@pytest.mark.parametrize(
    "document",
    [
        *(b"", b" ", b"\xff", b"\xef\xbb\xbf{}", b"nul", b"\0"),
        b"<html><head><title>502 Bad Gateway</title></head></html>",
        b'{"transactions": [',
        b'{"transactions": []',
        b'{"transactions": []}}',
        b'{"transactions": []} {"transactions": []}',
        b'{"transactions": NaN}',
        b'{"transactions": [], "address_book": {"a": {"b": NaN}}}',
        b'{"transactions": [], "x": Infinity}',
        b'{"transactions": [], "x": -Infinity}',
        b'{"transactions": [], "x": 01}',
        b'{"transactions": [], "x": 1.}',
        b'{"transactions": [], "x": "\n"}',
        b"{'transactions': []}",
        b'{"transactions": [],}',
        b'{"transactions": [] // none\n}',
    ],
)
def test_invalid_json_is_refused(parse, document):
    error = wrong(document, parse)
    assert (error.path, error.expected) == ("$", "JSON")


def test_an_object_of_free_form_stays_as_it_came_though_a_name_comes_twice(transaction):
    kept = '{"type":"text_comment","type":"other"}'
    message = least(schema.MESSAGE) | {"message_content": {"hash": "", "decoded": "?"}}
    document = dump({"transactions": [transaction | {"in_msg": message}]}).decode()
    blocks = parse_blocks(document.replace('"?"', kept))
    assert kept in set(blocks.messages["decoded"])


@both
@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_nesting_beyond_any_reason_is_refused(parse, depth):
    for key in ("address_book", "x"):
        document = b'{"' + key.encode() + b'": {"a": {"b": ' + b"[" * depth + b"]" * depth + b"}}}"
        assert wrong(document, parse).path == "$"


@both
@pytest.mark.parametrize(
    "document", [b"[]", b'[{"transactions": []}]', b"null", b"1", b'"a"', b"true"]
)
def test_answers_that_are_not_objects_are_refused(parse, document):
    error = wrong(document, parse)
    found = ascii(document.decode())
    assert (error.path, error.expected, error.found) == ("$", "a JSON object", found)


def test_an_answer_to_another_question_is_refused():
    assert '"transactions" or "blocks"' in wrong(b'{"accounts": []}').expected
    assert wrong(b'{"transactions": []}', parse_accounts).expected == 'an object with "accounts"'


def test_every_recorded_error_is_refused(real):
    for path in sorted((real / "errors").glob("*.json")):
        assert wrong(path.read_bytes()).path == "$", path.name
        assert wrong(path.read_bytes(), parse_accounts).path == "$", path.name


# ── a wrong value somewhere ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "token",
    ['"1e3"', '"007"', '"0x10"', '""', '" 12"', '"12 "', '"null"', '"-0"', '"+1"', "123", "1.0"],
)
@pytest.mark.parametrize("key", ["gas_used", "gas_fees"])
def test_a_string_int_of_another_form_is_refused(transaction, key, token):
    transaction["description"]["compute_ph"][key] = strategies.Raw(token)
    error = wrong(block(transaction))
    assert error.path == f"$.transactions[1].description.compute_ph.{key}"
    assert error.expected == "a string of decimal digits"
    assert error.found == ascii(token)


@pytest.mark.parametrize("token", ["1.0", "1e3", '"1"', "true", "[]", "{}"])
def test_an_int_of_another_form_is_refused(transaction, token):
    transaction["description"]["compute_ph"]["exit_code"] = strategies.Raw(token)
    error = wrong(block(transaction))
    assert error.path == "$.transactions[1].description.compute_ph.exit_code"
    assert (error.expected, error.found) == ("an integer", ascii(token))


@pytest.mark.parametrize("token", ['"true"', '"false"', "0", "1", '""', '"null"'])
def test_a_boolean_of_another_form_is_refused(transaction, token):
    transaction["description"]["aborted"] = strategies.Raw(token)
    error = wrong(block(transaction))
    assert error.path == "$.transactions[1].description.aborted"
    assert (error.expected, error.found) == ("true or false", ascii(token))


@pytest.mark.parametrize("token", ['"0"', '""', '"0x8000000000000000"', '" 8"', "8", "null"])
def test_a_shard_of_another_form_is_refused(transaction, token):
    transaction["block_ref"]["shard"] = strategies.Raw(token)
    error = wrong(block(transaction))
    assert error.path == "$.transactions[1].block_ref.shard"
    assert error.expected.startswith("a shard")


@pytest.mark.parametrize("token", ['"0x"', '"12"', '"0x123456789"', "4294967296", "1.0", "true"])
def test_an_opcode_of_another_form_is_refused(transaction, token):
    transaction["in_msg"]["opcode"] = strategies.Raw(token)
    error = wrong(block(transaction))
    assert error.path == "$.transactions[1].in_msg.opcode"
    assert error.expected.startswith("an opcode")


@pytest.mark.parametrize("key", ["hash", "lt", "now", "total_fees", "block_ref", "description"])
@pytest.mark.parametrize("found", ["nothing", "null"])
def test_a_required_field_that_is_missing_or_null_is_refused(transaction, key, found):
    transaction[key] = None
    if found == "nothing":
        del transaction[key]
    error = wrong(block(transaction))
    assert error.path == f"$.transactions[1].{key}"
    assert error.found in (found, ascii(found))


@pytest.mark.parametrize(("key", "value"), [("lt", str(2**63)), ("now", 2**63)])
def test_a_required_integer_beyond_int64_is_refused(transaction, key, value):
    transaction[key] = value
    error = wrong(block(transaction))
    assert error.path == f"$.transactions[1].{key}"
    assert "64 bits" in error.expected


@quietly
@pytest.mark.parametrize("where", ["known", "unknown", "document", "entry", "decoded"])
def test_a_string_that_is_no_utf8_is_refused_wherever_it_stands(transaction, where):
    broken, document = strategies.Raw('{"a":"\udcff"}'), {"transactions": [transaction]}
    match where:
        case "known":
            transaction["total_fees_extra_currencies"] = broken
        case "unknown":
            transaction["brand_new"] = broken
        case "decoded":
            transaction["in_msg"]["message_content"] = {"decoded": broken}
        case "entry":
            document["address_book"] = {"a": broken}
        case "document":
            document["brand_new"] = broken
    wrong(dump(document))


def test_a_row_that_is_null_is_refused():
    assert wrong(b'{"transactions": [null]}').path == "$.transactions[0]"


def test_found_is_shortened(transaction):
    transaction["lt"] = "9" * 10_000
    assert len(wrong(block(transaction)).found) == QUOTED


def test_the_path_leads_into_out_msgs(transaction):
    messages = [least(schema.MESSAGE) for _ in range(3)]
    messages[2]["value"] = 5
    transaction["out_msgs"] = messages
    assert wrong(block(transaction)).path == "$.transactions[1].out_msgs[2].value"


@quietly
@both
@given(data=st.data())
def test_one_wrong_value_anywhere_is_named_by_its_path(parse, data):
    broken = data.draw(strategies.broken(RECORD[parse]))
    assert wrong(broken.document, parse).path == broken.path


# ── nothing but DecodeError, ever ────────────────────────────────────────────────────────────────


@both
@given(data=st.data())
def test_a_truncated_document_is_refused(parse, data):
    document = data.draw(strategies.documents(RECORD[parse]))
    wrong(document[: data.draw(st.integers(0, len(document) - 1))], parse)


@quietly
@both
@given(data=st.data())
def test_a_damaged_document_is_refused_or_comes_back(parse, data):
    _refused_or_comes_back(parse, data.draw(strategies.damaged(RECORD[parse])))


@quietly
@both
@given(data=st.data())
def test_a_document_with_anything_anywhere_is_refused_or_comes_back(parse, data):
    _refused_or_comes_back(parse, data.draw(strategies.shuffled(RECORD[parse])))


@quietly
@both
@given(tree=strategies.ANYTHING)
def test_any_json_is_refused_or_comes_back(parse, tree):
    _refused_or_comes_back(parse, dump(tree))


@quietly
@both
@given(document=st.binary(max_size=40))
def test_any_bytes_are_refused_or_come_back(parse, document):
    _refused_or_comes_back(parse, document)


def _refused_or_comes_back(parse, document):
    with suppress(DecodeError):
        parsed = parse(document)
        assert said(RECORD[parse], parsed.to_json()) == said(RECORD[parse], document)
        repr(parsed)


# ── what has no place ────────────────────────────────────────────────────────────────────────────


def test_an_integer_beyond_int64_goes_to_extra(transaction):
    transaction["description"]["credit_ph"]["credit"] = "16298225961743024383"
    says = r"^numbers are outside int64 in /description/credit_ph/credit \(1 times\); kept verbatim"
    with pytest.warns(TonframesWarning, match=says) as caught:
        table = parse_blocks(block(transaction)).transactions
    assert len(caught) == 1
    assert table.credit.isna().all()
    assert table.has_credit.tolist() == [False, True]
    assert table.extra[1] == '{"/description/credit_ph/credit":"16298225961743024383"}'


def test_one_warning_tells_unknown_fields_from_numbers_that_do_not_fit(transaction):
    transaction["description"]["credit_ph"]["credit"] = str(2**63)
    transaction["new"] = str(2**63)
    says = "^the schema has no place for /new .1 times.; numbers are outside int64 in /description/"
    with pytest.warns(TonframesWarning, match=says) as caught:
        parse_blocks(block(transaction))
    assert len(caught) == 1


def test_unknown_members_go_to_extra_verbatim_with_one_warning(transaction):
    transaction |= {"new": strategies.Raw('{ "a" : 1e5 }'), "a/b~c": None}
    transaction["description"]["compute_ph"][""] = strategies.Raw("1.50")
    transaction["in_msg"]["é"] = strategies.Raw('"\\u00e9"')
    document = {"transactions": [transaction], "x": strategies.Raw(" [1.0] ")}
    with pytest.warns(TonframesWarning) as caught:
        blocks = parse_blocks(dump(document))
    assert len(caught) == 1
    assert json.loads(blocks.transactions.extra[0]).keys() == {
        *("/new", "/a~1b~0c", "/description/compute_ph/")
    }
    assert '{ "a" : 1e5 }' in blocks.transactions.extra[0]
    assert "1.50" in blocks.transactions.extra[0]
    assert blocks.messages.extra[0] == '{"/é":"\\u00e9"}'
    assert blocks.extra == '{"/x":[1.0]}'


def test_the_warning_names_this_line():
    with pytest.warns(TonframesWarning) as caught:
        parse_blocks(b'{"transactions": [], "x": 1}')
    assert caught[0].filename == __file__


def test_a_message_that_is_an_empty_object_is_none_and_comes_back():
    document = {"transactions": [least(schema.TRANSACTION) | {"in_msg": {}}]}
    for gap in ("", " ", "\n\t"):
        with pytest.warns(TonframesWarning, match="/in_msg"):
            blocks = parse_blocks(dump(document, gap=gap))
        assert blocks.messages.empty
        assert said(schema.BLOCKS_ANSWER, blocks.to_json()) == said(
            schema.BLOCKS_ANSWER, dump(document)
        )


@given(st.text())
def test_an_escaped_key_is_one_part_of_a_pointer(key):
    assert "/" not in escape(key)
    assert escape(key).replace("~1", "/").replace("~0", "~") == key


# ── older spellings ──────────────────────────────────────────────────────────────────────────────


def parsed_with(transaction, compute_phase):
    """Parse a transaction with a compute phase, and return its row and the phase written back."""
    transaction["description"]["compute_ph"] = compute_phase
    blocks = parse_blocks({"transactions": [transaction]})
    [row] = blocks.arrow("transactions").to_pylist()
    for dialect in ("service", "specification"):
        [written] = json.loads(blocks.to_json(dialect=dialect))["transactions"]
        assert written["description"]["compute_ph"] == compute_phase
    return row


@pytest.mark.parametrize("reason", ["no_state", "bad_state", "no_gas", "suspended"])
def test_a_phase_skipped_in_the_form_of_2024_is_read_and_written_back(transaction, reason):
    row = parsed_with(transaction, {"type": "skipped", "skip_reason": reason})
    assert row["compute_skipped"] is True
    assert row["skipped_reason"] == reason


def test_a_run_in_the_form_of_2024_is_not_skipped(transaction):
    row = parsed_with(transaction, {"type": "vm", "success": True, "gas_used": "62"})
    assert row["compute_skipped"] is False
    assert row["compute_gas_used"] == 62


def test_the_present_spelling_counts_where_both_are_there(transaction):
    phase = {"skipped": False, "type": "skipped", "reason": "no_gas", "skip_reason": "no_state"}
    with pytest.warns(TonframesWarning, match="/description/compute_ph/type"):
        row = parsed_with(transaction, phase)
    assert row["compute_skipped"] is False
    assert row["skipped_reason"] == "no_gas"


@pytest.mark.parametrize("value", ["neither", 7, ["vm"], None])
def test_an_older_key_with_another_value_stays_in_extra_with_a_warning(transaction, value):
    with pytest.warns(TonframesWarning, match="/description/compute_ph/type"):
        row = parsed_with(transaction, {"type": value})
    assert row["compute_skipped"] is None


def test_recorded_answers_in_the_older_form_are_read(real):
    for seqno in (21080779, 21082496):
        document = (real / "masterchainBlockShards" / f"{seqno}.json").read_bytes()
        with pytest.warns(
            TonframesWarning, match=r"^numbers are outside int64 in \S*credit "
        ) as caught:
            blocks = parse_blocks(document)
        assert len(caught) == 1
        assert blocks.transactions.compute_skipped.tolist() == [False]
        assert said(schema.BLOCKS_ANSWER, blocks.to_json()) == said(schema.BLOCKS_ANSWER, document)


def test_bad_utf8_in_an_object_of_free_form_is_named_by_its_path():
    document = (
        b'{ "accounts" : [ { "address" : "a" , "status" : "" , "balance" : null ,'
        b' "extra_currencies" : {"a":"\xff"} } , { "address" : "" } ] }'
    )
    with pytest.raises(DecodeError) as caught:
        parse_accounts(document)
    assert caught.value.path == "$.accounts[0].extra_currencies"
