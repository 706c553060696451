"""Pages joined into tables, rows that come twice, and what goes back where it came from."""

import json

import msgspec
import pyarrow as pa
import pytest
import strategies
from chain import synthetic_blocks
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import Raw, dump, least

from tonframes import parse_accounts, parse_blocks
from tonframes.errors import DecodeError, TonframesWarning
from tonframes.wire import encode, pages, schema
from tonframes.wire.extra import escape

quietly = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")


def transaction(**members):
    return least(schema.TRANSACTION) | members


def page(*transactions, **members):
    return pages.read(schema.BLOCKS_ANSWER, dump({"transactions": list(transactions)} | members))


# ── joined ───────────────────────────────────────────────────────────────────────────────────────


@quietly
@given(st.lists(strategies.trees(schema.BLOCKS_ANSWER), min_size=2, max_size=3))
def test_joined_pages_are_the_tables_of_each_one_after_another(trees):
    # Rows of different pages are told apart here by where they come from.
    for i, tree in enumerate(trees):
        for row in tree.get("transactions") or ():
            row |= {"hash": f"{i} {row['hash']}", "account": f"{i} {row['account']}"}
        for j, row in enumerate(tree.get("blocks") or ()):
            row["workchain"] = 10 * i + j
        tree["address_book"] = {f"{i} {k}": v for k, v in (tree.get("address_book") or {}).items()}
    read = [pages.read(schema.BLOCKS_ANSWER, dump(tree)) for tree in trees]
    assume(len({(p.answer.transactions is None, p.answer.blocks is None) for p in read}) == 1)
    joined = pages.blocks_tables(read)
    single = [pages.blocks_tables([p]) for p in read]
    for name, table in joined.items():
        assert table.equals(pa.concat_tables(tables[name] for tables in single)), name


def test_blocks_alone_show_no_table_of_transactions():
    assert pages.blocks_tables([page()]).keys() == {"transactions", "messages", "address_book"}
    read = pages.read(schema.BLOCKS_ANSWER, b'{"blocks": []}')
    assert pages.blocks_tables([read]).keys() == {"blocks", "address_book"}
    assert pages.blocks_tables([read, page()]).keys() == {
        *("blocks", "transactions", "messages", "address_book")
    }


def test_the_newest_entry_of_an_address_is_taken():
    book = pages.blocks_tables(
        [page(address_book={"a": {"domain": "old"}}), page(address_book={"a": {"domain": "new"}})]
    )["address_book"]
    assert book.select(["address", "domain"]).to_pylist() == [{"address": "a", "domain": "new"}]


def test_messages_know_their_transaction_their_direction_and_their_place():
    messages = [least(schema.MESSAGE) | {"hash": name} for name in "abcd"]
    first = transaction(hash="1", lt="10", out_msgs=messages[:2])
    second = transaction(hash="2", lt="20", in_msg=messages[2], out_msgs=[messages[3]])
    table = pages.blocks_tables([page(first, transaction(hash="3", lt="30"), second)])["messages"]
    shown = table.select(["tx_hash", "tx_lt", "direction", "position", "msg_hash"])
    assert [tuple(row.values()) for row in shown.to_pylist()] == [
        ("1", 10, "out", 0, "a"),
        ("1", 10, "out", 1, "b"),
        ("2", 20, "in", None, "c"),
        ("2", 20, "out", 0, "d"),
    ]


# ── twice ────────────────────────────────────────────────────────────────────────────────────────


def test_a_transaction_that_comes_twice_the_same_is_folded_with_one_warning():
    tree = transaction(out_msgs=[least(schema.MESSAGE)])
    with pytest.warns(TonframesWarning, match="twice") as caught:
        tables = pages.blocks_tables([page(tree), page(tree, transaction(hash="x", lt="8"))])
    assert len(caught) == 1
    assert len(tables["transactions"]) == 2
    assert len(tables["messages"]) == 1


def test_other_order_white_space_and_nulls_are_the_same_content():
    tree = transaction(in_msg=least(schema.MESSAGE), out_msgs=[])
    other = dict(reversed(tree.items())) | {"emulated": None}
    with pytest.warns(TonframesWarning, match="1 of 2"):
        table = parse_blocks(dump({"transactions": [tree, other]}, gap=" ")).transactions
    assert len(table) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"total_fees": "1"},
        {"emulated": False},
        {"in_msg": least(schema.MESSAGE)},
        {"out_msgs": [least(schema.MESSAGE)]},
        {"brand_new": 1},
        {"total_fees_extra_currencies": {}},
        {"lt": "12"},
        {"hash": "other"},
    ],
    ids=str,
)
@quietly
def test_a_transaction_that_comes_twice_with_other_content_is_refused(other):
    body = {"transactions": [transaction(), transaction(hash="x", lt="8"), transaction(**other)]}
    with pytest.raises(DecodeError) as caught:
        parse_blocks(dump(body))
    assert caught.value.path == "$.transactions[2]"
    assert "transactions[0]" in caught.value.expected


@pytest.mark.parametrize(("one", "two"), [("1e400", "1e500"), ("1", "1.0"), ('"é"', '"\\u00e9"')])
def test_free_form_content_is_compared_as_it_is_spelled(one, two):
    trees = [transaction(total_fees_extra_currencies=Raw(f'{{"a":{x}}}')) for x in (one, two)]
    with pytest.raises(DecodeError):
        parse_blocks(dump({"transactions": trees}))


@pytest.mark.parametrize("odd", [Raw("1" * 5000), Raw("[" * 900 + "]" * 900)], ids=["long", "deep"])
def test_odd_free_form_content_may_come_twice(odd):
    tree = transaction(total_fees_extra_currencies={"a": odd})
    with pytest.warns(TonframesWarning, match="twice"):
        assert len(parse_blocks(dump({"transactions": [tree, tree]})).transactions) == 1


def test_twice_and_oversize_at_once_is_warned_of_once_each():
    tree = transaction(in_msg=least(schema.MESSAGE) | {"value": str(2**64)})
    with pytest.warns(TonframesWarning) as caught:
        parse_blocks(dump({"transactions": [tree, tree]}))
    assert sorted("twice" in str(warning.message) for warning in caught) == [False, True]


@quietly
@pytest.mark.parametrize(("key", "parse"), [("accounts", parse_accounts), ("blocks", parse_blocks)])
def test_other_rows_that_come_twice_are_folded_or_refused_too(key, parse):
    tree = least(schema.TABLES[key].record)
    assert len(getattr(parse(dump({key: [tree, tree]})), key)) == 1
    other = "code_hash" if key == "accounts" else "rand_seed"
    with pytest.raises(DecodeError) as caught:
        parse(dump({key: [tree, tree | {other: "x"}]}))
    assert caught.value.path == f"$.{key}[1]"


# ── back ─────────────────────────────────────────────────────────────────────────────────────────


@given(
    path=st.lists(strategies.UNKNOWN_KEYS, min_size=1, max_size=3),
    key=strategies.UNKNOWN_KEYS,
    value=strategies.ANYTHING.map(dump),
)
def test_what_is_put_in_at_a_pointer_is_there(path, key, value):
    tree = {}
    for part in reversed(path):
        tree = {part: tree, "beside": 1}
    pointer = "".join("/" + escape(part) for part in [*path, key])
    found = encode.insert(dump(tree), {pointer: msgspec.Raw(value)})
    for part in [*path, key]:
        found = bytes(msgspec.json.decode(found, type=dict[str, msgspec.Raw])[part])
    assert found == value


def test_what_is_put_in_leaves_all_else_as_it_was():
    token = b'{"a": {"b": 1e5, "c": [ ]}, "d": "\\u00e9"}'
    found = encode.insert(token, {"/a/x": msgspec.Raw(b"2"), "/y": msgspec.Raw(b"[ 3 ]")})
    assert found == b'{"a":{"b":1e5,"c":[ ],"x":2},"d":"\\u00e9","y":[ 3 ]}'


def test_keys_of_all_bodies_are_one_extra():
    read = [page(x=1), page(y={"a/b": 2})]
    assert json.loads(pages.answer_extra(read)) == {"/x": 1, "/y": {"a/b": 2}}
    assert pages.answer_extra([page()]) is None


def test_messages_go_back_to_their_transactions_in_their_order():
    messages = [least(schema.MESSAGE) | {"hash": str(i)} for i in range(12)]
    one = transaction(hash="1", out_msgs=messages[:11])
    trees = [one, transaction(hash="2", lt="1", in_msg=messages[11], out_msgs=[])]
    tables = pages.blocks_tables([page(*trees)])
    backwards = tables["messages"].take(pa.array(range(11, -1, -1)))
    again = encode.encode_transactions(tables["transactions"], backwards, "service")
    first, second = (json.loads(bytes(row)) for row in again)
    assert [message["hash"] for message in first["out_msgs"]] == [str(i) for i in range(11)]
    assert (first["in_msg"], second["in_msg"]["hash"], second["out_msgs"]) == (None, "11", [])


def test_doubles_that_differ_in_null_against_empty_are_the_same():
    transaction = synthetic_blocks(1, seed=3)[0]["transactions"][0]
    bare = {key: value for key, value in transaction.items() if key != "out_msgs"}
    bodies = [bare | {"out_msgs": []}, bare | {"out_msgs": None}, bare]
    with pytest.warns(TonframesWarning, match="2 of 3 transactions came twice"):
        blocks = parse_blocks({"transactions": bodies})
    assert len(blocks.transactions) == 1


def test_a_moment_that_no_calendar_knows_is_null_and_can_be_shown():
    transaction = synthetic_blocks(1, seed=3)[0]["transactions"][0]
    body = {"transactions": [transaction | {"now": 2**62}]}
    frame = parse_blocks(body).transactions
    assert frame.now[0] == 2**62
    assert frame.block_time.isna().all()
    assert "NaT" in frame[["block_time"]].to_string()
