from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode, urlsplit

import pytest
from chain import Chain
from stores import claimed, tables_from

from tonframes.addresses import to_friendly
from tonframes.errors import StoreError
from tonframes.parse import parse_blocks
from tonframes.service import serve, serve_forever
from tonframes.service import server as shell
from tonframes.service.rows import HeldRows
from tonframes.service.scanned import scanned
from tonframes.service.shard_state import shard_state
from tonframes.store import Store, read_blocks
from tonframes.wire import pages, schema
from tonframes.wire.kinds import SHARD
from tonframes.wire.tables import in_order, stamped

FIRST, COUNT = 180, 130  # across a border of files, with a split and a merge
LAST = FIRST + COUNT - 1
#: Seconds that are fewer than those which the service waits for a connection.
IN_TIME = 20
NOBODY = "0:" + "0" * 63 + "1"


def make_blocks(path, chain, seqnos, *, with_blocks=True, network="-217"):
    bodies = [chain.next_block() for _ in seqnos]
    tables = tables_from(bodies)
    if not with_blocks:
        del tables["blocks"]
    store = Store(path)
    store.claim(network, "synthetic")
    store.write_blocks(tables, [seqnos], proof="synthetic")
    return bodies


def make_accounts(path, body, *, moment=None, with_boc=True, unknown=()):
    read = [pages.read(schema.ACCOUNTS_ANSWER, json.dumps(body).encode())]
    tables = stamped(pages.accounts_tables(read), moment or datetime.now(UTC))
    accounts = tables["accounts"].to_pylist()
    accounts += [
        dict.fromkeys(accounts[0]) | {"address": address, "found": False} for address in unknown
    ]
    columns = {name: [row[name] for row in accounts] for name in schema.ACCOUNTS.schema.names} | {
        "with_boc": [with_boc] * len(accounts),
        "fetched_at": [moment] * len(accounts),
    }
    import pyarrow as pa

    tables["accounts"] = pa.table(columns, schema=schema.ACCOUNTS.schema)
    Store(path).write_accounts(tables)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A store with blocks and accounts, and what it was made of."""
    path = tmp_path_factory.mktemp("service") / "store"
    chain = Chain(seed=5, first_seqno=FIRST, transactions_per_block=9)
    bodies = make_blocks(path, chain, range(FIRST, FIRST + COUNT))
    states = chain.account_states()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    make_accounts(path, states, moment=moment, unknown=[NOBODY])
    return path, {FIRST + i: body for i, body in enumerate(bodies)}, states


@pytest.fixture(scope="session")
def path(world):
    return world[0]


@pytest.fixture(scope="session")
def bodies(world):
    return world[1]


@pytest.fixture(scope="session")
def states(world):
    return world[2]


@pytest.fixture(scope="session")
def specified(path):
    with serve(path, dialect="specification") as url:
        yield url


@pytest.fixture(scope="session")
def deployed(path):
    with serve(path) as url:
        yield url


@contextlib.contextmanager
def connect(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def fetch(url, target, *, method="GET", headers=None):
    with connect(url) as connection:
        connection.request(method, target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers


def get(url, operation, **parameters):
    """Status and parsed body of an operation."""
    headers = parameters.pop("headers", None)
    query = urlencode(parameters, doseq=True)
    status, body, found = fetch(url, f"/api/v3/{operation}?{query}", headers=headers)
    assert found["Content-Type"] == "application/json"
    answer = json.loads(body)
    assert (status == 200) == ("error" not in answer)
    return status, answer


def error(url, operation, **parameters):
    status, answer = get(url, operation, **parameters)
    assert list(answer) == ["error"]
    return status, answer["error"]


@contextlib.contextmanager
def raw_socket(url):
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as raw:
        yield raw


def converse(url, sent):
    """Everything that comes back for these bytes, until the server closes."""
    with raw_socket(url) as raw:
        received = b""
        with contextlib.suppress(ConnectionError):  # it closes before it has read all
            raw.sendall(sent)
            while chunk := raw.recv(65536):
                received += chunk
        return received


def alive(url):
    return get(url, "masterchainInfo")[0] == 200


def by_lt(rows):
    return sorted(rows, key=lambda row: (int(row["lt"]), row["account"]))


def hashes(answer):
    return [row["hash"] for row in answer["transactions"]]


def key(block):
    return block["workchain"], block["shard"], block["seqno"]


def snapshot_of(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


# ── masterchainBlockShards as specified ──────────────────────────────────────────────────────────


def test_served_rows_are_those_of_the_store(specified, deployed, path, bodies):
    for seqno in (FIRST, 240, LAST):
        held = read_blocks(path, [seqno])
        specified_body = fetch(specified, f"/api/v3/masterchainBlockShards?seqno={seqno}")[1]
        query = f"seqno={seqno}&sort=asc&limit=1000"
        transactions = fetch(deployed, f"/api/v3/transactionsByMasterchainBlock?{query}")[1]
        blocks = fetch(deployed, f"/api/v3/masterchainBlockShards?{query}")[1]
        for body in (specified_body, transactions):
            tables = in_order(pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, body)]))
            stored = in_order({n: held.arrow(n) for n in ("transactions", "messages")})
            if body is transactions:
                stored["transactions"] = scanned(stored["transactions"])
            for name, table in stored.items():
                assert tables[name].equals(table)
        parsed = in_order({"blocks": parse_blocks(blocks).arrow("blocks")})
        assert parsed["blocks"].equals(in_order({"blocks": held.arrow("blocks")})["blocks"])
        # In its own dialect even the objects are those that the store was made of.
        originals = {row["hash"]: row for row in bodies[seqno]["transactions"]}
        for row in json.loads(transactions)["transactions"]:
            assert row == as_scanned(originals[row["hash"]])


def as_scanned(row):
    """Return a transaction with gas and its fees exchanged where the fees are less."""
    row = copy.deepcopy(row)
    compute = row["description"].get("compute_ph") or {}
    fees, used = compute.get("gas_fees"), compute.get("gas_used")
    if fees is not None and int(fees) < int(used):
        compute["gas_fees"], compute["gas_used"] = used, fees
    return row


def dropped(value):
    """Without nulls and empty lists, which mean the same as nothing."""
    if isinstance(value, dict):
        inner = {k: dropped(v) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v is not None and v != []}
    return [dropped(v) for v in value] if isinstance(value, list) else value


def test_past_the_end_is_empty_and_not_an_error(specified):
    for offset in (1000, 2**63 - 1):
        status, answer = get(specified, "masterchainBlockShards", seqno=FIRST, offset=offset)
        assert (status, answer) == (200, {"transactions": [], "address_book": {}})


@pytest.mark.parametrize("seqno", [0, FIRST - 1, LAST + 1, 2**31 - 1, 2**32 + FIRST, 2**62])
def test_a_masterchain_block_that_is_not_held_is_not_found(specified, seqno):
    expected = 404, f"masterchain block {seqno} not found"
    assert error(specified, "masterchainBlockShards", seqno=seqno) == expected


def test_parameters_outside_the_rules_are_refused(specified):
    wrong = {
        "seqno": (
            [],
            "",
            "abc",
            "-1",
            "1.0",
            "0x10",
            " 1",
            "1e3",
            "9" * 30,
            "\uff11",
            ["181", "182"],
        ),
        "limit": ("0", "-5", "1001", "abc", "", "1.5", str(2**70)),
        "offset": ("-1", "abc", "", "9" * 30, "+1"),
    }
    with connect(specified) as connection:
        for name, values in wrong.items():
            for value in values:
                query = urlencode({"seqno": FIRST} | {name: value}, doseq=True)
                connection.request("GET", f"/api/v3/masterchainBlockShards?{query}")
                answer = connection.getresponse()
                assert answer.status == 422
                text = json.loads(answer.read())["error"]
                assert text.startswith(f"{name} must be one integer")


def test_limit_is_100_and_offset_0_where_the_specification_is_silent(tmp_path):
    chain = Chain(seed=2, first_seqno=7, transactions_per_block=150)
    [body] = make_blocks(tmp_path, chain, range(7, 8))
    everything = [row["hash"] for row in by_lt(body["transactions"])]
    assert len(everything) > 100
    with serve(tmp_path, dialect="specification") as url:
        assert hashes(get(url, "masterchainBlockShards", seqno=7)[1]) == everything[:100]
        rest = get(url, "masterchainBlockShards", seqno=7, offset=100)[1]
        assert hashes(rest) == everything[100:200]
    with serve(tmp_path) as url:
        assert len(get(url, "transactionsByMasterchainBlock", seqno=7)[1]["transactions"]) == 100


def test_the_address_book_covers_the_page(specified, bodies):
    body = bodies[240]
    answer = get(specified, "masterchainBlockShards", seqno=240, limit=3, offset=2)[1]
    named = set()
    for row in answer["transactions"]:
        named.add(row["account"])
        for message in (row.get("in_msg") or {}, *row["out_msgs"]):
            named |= {message.get("source"), message.get("destination")}
    assert set(answer["address_book"]) == named & set(body["address_book"])
    assert answer["address_book"]
    assert set(answer["address_book"]) < set(body["address_book"])


def test_the_address_book_can_be_left_out(specified, deployed, states):
    address = states["accounts"][0]["address"]
    for url in (specified, deployed):
        for asked in (
            {"headers": {"X-No-Address-Book": "true"}},
            {"headers": {"X-No-Address-Book": "1"}},
            {"x_no_address_book": "true"},
        ):
            answer = get(url, "transactionsByMasterchainBlock", seqno=240, **asked)[1]
            assert answer["address_book"] == {}
            assert answer["transactions"]
            answer = get(url, "accountStates", address=address, **asked)[1]
            assert answer["address_book"] == {}
        answer = get(url, "accountStates", address=address, headers={"X-No-Address-Book": "no"})[1]
        assert set(answer["address_book"]) == {address}


# ── accountStates as specified ───────────────────────────────────────────────────────────────────


def test_accounts_in_any_form_and_the_order_asked(specified, states):
    rows = states["accounts"][:6]
    raw = [row["address"] for row in rows]
    forms = [
        raw[0],
        raw[1].lower(),
        to_friendly(raw[2]),
        to_friendly(raw[3], bounceable=False),
        to_friendly(raw[4], test_only=True).replace("-", "+").replace("_", "/"),
        raw[5],
    ]
    status, answer = get(specified, "accountStates", address=[*reversed(forms), raw[0]])
    assert status == 200
    assert sorted(answer) == ["accounts", "address_book", "metadata"]
    assert [row["address"] for row in answer["accounts"]] == raw[::-1]
    assert [dropped(row) for row in answer["accounts"]] == [dropped(row) for row in rows[::-1]]
    assert set(answer["address_book"]) == set(raw)


def test_bocs_come_unless_declined(specified, deployed, states):
    contract = next(row for row in states["accounts"] if row.get("code_boc"))
    for url in (specified, deployed):
        for flag, expected in (("true", True), ("1", True), ("false", False), ("0", False)):
            [row] = get(url, "accountStates", address=contract["address"], include_boc=flag)[1][
                "accounts"
            ]
            assert ("code_boc" in row) is ("data_boc" in row) is expected
            assert row["code_hash"] == contract["code_hash"]
        [row] = get(url, "accountStates", address=contract["address"])[1]["accounts"]
        assert (row["code_boc"], row["data_boc"]) == (contract["code_boc"], contract["data_boc"])


def test_1024_addresses_are_answered_and_1025_refused(specified, states):
    known = [row["address"] for row in states["accounts"]]
    strangers = [f"0:{number:064X}" for number in range(2, 1026)]
    addresses = (known + strangers)[:1024]
    target = "/api/v3/accountStates?" + urlencode({"address": addresses}, doseq=True)
    assert len(target) > 70_000
    status, body, _ = fetch(specified, target)
    assert status == 200
    assert len(json.loads(body)["accounts"]) == min(len(known), 1024)
    assert error(specified, "accountStates", address=[*addresses, NOBODY]) == (
        422,
        "address must be given 1 to 1024 times",
    )


def test_bad_questions_about_accounts_are_refused(specified, states):
    good = states["accounts"][0]["address"]
    assert error(specified, "accountStates")[0] == 422
    mistyped = to_friendly(good)[:-1] + "~"
    for bad in ("", "abc", f"{good},{good}", good[:-1], mistyped, "addr_none"):
        status, text = error(specified, "accountStates", address=[good, good, good, bad])
        assert (status, 'index 3 of "address"' in text) == (422, True)
    for flag in ("", "maybe", ["true", "false"]):
        asked = {"address": good, "include_boc": flag}
        assert error(specified, "accountStates", **asked)[0] == 422


def test_the_newest_snapshot_is_served_even_if_it_is_appended_later(tmp_path):
    chain = Chain(seed=3, first_seqno=50, transactions_per_block=8)
    make_blocks(tmp_path, chain, range(50, 53))
    states = chain.account_states()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    make_accounts(tmp_path, states, moment=start)
    row = next(row for row in states["accounts"] if row.get("code_boc"))
    with serve(tmp_path) as url:
        [found] = get(url, "accountStates", address=row["address"])[1]["accounts"]
        assert found["balance"] == row["balance"]
        newer = {**row, "balance": "1", "code_boc": None, "data_boc": None}
        body = {"accounts": [newer], "address_book": {row["address"]: {"user_friendly": "new"}}}
        make_accounts(tmp_path, body, moment=start + timedelta(hours=1), with_boc=False)
        answer = get(url, "accountStates", address=row["address"])[1]
        assert answer["accounts"][0]["balance"] == "1"
        assert "code_boc" not in answer["accounts"][0]
        # And so are blocks that are committed later.
        assert get(url, "masterchainBlockShards", seqno=53)[0] == 404
        make_blocks(tmp_path, chain, range(53, 54))
        assert get(url, "masterchainBlockShards", seqno=53)[0] == 200
        assert get(url, "masterchainInfo")[1]["last"]["seqno"] == 53


# ── masterchainInfo ──────────────────────────────────────────────────────────────────────────────


def test_masterchain_info_names_the_ends_and_the_network(specified, deployed, bodies):
    for url in (specified, deployed):
        status, answer = get(url, "masterchainInfo")
        assert status == 200
        assert sorted(answer) == ["first", "last"]
        for name, seqno in (("first", FIRST), ("last", LAST)):
            original = next(b for b in bodies[seqno]["blocks"] if b["workchain"] == -1)
            assert answer[name]["seqno"] == seqno
            assert answer[name]["global_id"] == -217
            assert answer[name]["root_hash"] == original["root_hash"]
    assert answer["last"]["shard"] == "8000000000000000"


@pytest.mark.parametrize(
    ("network", "global_id"),
    [("mainnet", -239), ("testnet", -3), ("-217", -217), ("example.org", None)],
)
def test_masterchain_info_without_blocks_tells_what_is_known(tmp_path, network, global_id):
    chain = Chain(seed=4, first_seqno=98, transactions_per_block=4)
    make_blocks(tmp_path, chain, range(98, 103), with_blocks=False, network=network)
    with serve(tmp_path, dialect="specification") as url:
        answer = get(url, "masterchainInfo")[1]
        known = {"workchain": -1, "shard": "-9223372036854775808"}
        known |= {"global_id": global_id} if global_id else {}
        assert answer == {"last": known | {"seqno": 102}, "first": known | {"seqno": 98}}
        assert get(url, "masterchainBlockShards", seqno=100)[0] == 200


def test_a_store_of_accounts_alone_is_served_as_specified(tmp_path):
    Store(tmp_path).claim("mainnet", "synthetic")
    states = Chain(seed=4).account_states()
    make_accounts(tmp_path, states, moment=datetime(2026, 1, 1, tzinfo=UTC))
    for name in ("blocks", "messages", "transactions"):  # as after a clone, which lacks them
        (tmp_path / name).rmdir()
    with serve(tmp_path, dialect="specification") as url:
        assert get(url, "masterchainInfo")[1]["last"]["global_id"] == -239
        assert get(url, "masterchainBlockShards", seqno=0)[0] == 404
        address = states["accounts"][0]["address"]
        assert len(get(url, "accountStates", address=address)[1]["accounts"]) == 1


# ── the deployed service's dialect ───────────────────────────────────────────────────────────────


def test_deployed_blocks_sort_by_time(deployed, bodies):
    seqno = max(bodies, key=lambda n: len(bodies[n]["blocks"]))
    for sort, sign in (("asc", 1), ("desc", -1), ("a", 1), ("D", -1)):
        blocks = get(deployed, "masterchainBlockShards", seqno=seqno, sort=sort)[1]["blocks"]
        times = [int(block["gen_utime"]) for block in blocks]
        assert times == sorted(times, key=lambda t: sign * t)
        assert Counter(map(key, blocks)) == Counter(map(key, bodies[seqno]["blocks"]))


def test_deployed_transactions_are_newest_first_unless_asked(deployed, bodies):
    rows = bodies[240]["transactions"]
    newest_first = sorted(rows, key=lambda row: (-int(row["lt"]), row["account"]))
    for parameters, expected in (
        ({}, newest_first),
        ({"sort": "desc"}, newest_first),
        ({"sort": "asc"}, by_lt(rows)),
        ({"sort": "asc", "limit": "3", "offset": "2"}, by_lt(rows)[2:5]),
        ({"limit": ""}, newest_first[:1]),
    ):
        status, answer = get(deployed, "transactionsByMasterchainBlock", seqno=240, **parameters)
        assert status == 200
        assert sorted(answer) == ["address_book", "transactions"]
        assert hashes(answer) == [row["hash"] for row in expected]
        assert all(len(row["block_ref"]["shard"]) <= 16 for row in answer["transactions"])
    opcodes = [(row.get("in_msg") or {}).get("opcode") for row in answer["transactions"]]
    assert all(opcode is None or opcode.startswith("0x") for opcode in opcodes)


@pytest.mark.parametrize(
    ("parameters", "status", "text"),
    [
        ({"seqno": []}, 404, None),
        ({"seqno": "abc"}, 404, None),
        ({"seqno": str(2**70)}, 404, None),
        ({"seqno": "-1"}, 404, None),
        ({"seqno": LAST + 1}, 404, None),
        ({"limit": "1001"}, 500, "limit is not allowed: 1001 > 1000"),
        ({"sort": "up"}, 500, "wrong value for sort parameter"),
        ({"sort": ""}, 500, "wrong value for sort parameter"),
        ({"limit": "abc"}, 422, 'failed to decode: schema: error converting value for "limit"'),
        (
            {"limit": str(2**31)},
            422,
            'failed to decode: schema: error converting value for "limit"',
        ),
        ({"limit": "1.5"}, 422, 'failed to decode: schema: error converting value for "limit"'),
        ({"offset": "abc"}, 422, 'failed to decode: schema: error converting value for "offset"'),
        # What is wrong first is said first.
        (
            {"seqno": "7", "limit": "abc"},
            422,
            'failed to decode: schema: error converting value for "limit"',
        ),
    ],
)
def test_deployed_errors(deployed, parameters, status, text):
    asked = {"seqno": FIRST} | parameters
    found = error(deployed, "masterchainBlockShards", **asked)
    assert found == (status, text or "blocks not found")
    found = error(deployed, "transactionsByMasterchainBlock", **asked)
    if text is None:
        number = asked["seqno"] if asked["seqno"] in ("-1", LAST + 1) else 0
        text = f"masterchain block {number} not found"
    assert found == (status, text)


def test_deployed_limits_and_offsets_are_clamped(deployed):
    for limit in ("0", "-5", "", "1", "+1", "001"):
        answer = get(deployed, "masterchainBlockShards", seqno=240, limit=limit)[1]
        assert len(answer["blocks"]) == 1
        answer = get(deployed, "transactionsByMasterchainBlock", seqno=240, limit=limit)[1]
        assert len(answer["transactions"]) == 1
    plain = get(deployed, "masterchainBlockShards", seqno=240)[1]
    for offset in ("-1", "", "0"):
        assert get(deployed, "masterchainBlockShards", seqno=240, offset=offset)[1] == plain


def test_deployed_pages_past_the_end(deployed):
    asked = {"seqno": 240, "offset": 1000}
    assert error(deployed, "masterchainBlockShards", **asked) == (404, "blocks not found")
    status, answer = get(deployed, "transactionsByMasterchainBlock", **asked)
    assert (status, answer) == (200, {"transactions": [], "address_book": {}})
    # A limit or a sort that is not allowed is told before a block that is not held.
    for wrong in ({"limit": 1001}, {"sort": "up"}):
        for operation in ("transactionsByMasterchainBlock", "masterchainBlockShards"):
            assert error(deployed, operation, seqno=7, **wrong)[0] == 500
        assert error(deployed, "transactions", mc_seqno=7, **wrong)[0] == 500
    assert error(deployed, "transactions", mc_seqno=7, limit=1001, lt="x")[0] == 422


@pytest.mark.parametrize(
    ("target", "same"),
    [
        ("/api/v3/accountStates/?address={0}", "address={0}"),
        ("/API/V3/accountstates?address={0}", "address={0}"),
        ("/api/v3/accountStates?address[]={0}&address[]={1}", "address={0}&address={1}"),
        ("/api/v3/accountStates?address%5B%5D={0}", "address={0}"),
        ("/api/v3/accountStates?Address={0}&ADDRESS[]={1}", "address={0}&address={1}"),
        ("/api/v3/accountStates?address={0}&Include_BOC[]=0", "address={0}&include_boc=0"),
        ("/api/v3/accountStates?address={0}&X_NO_METADATA=1", "address={0}&x_no_metadata=1"),
    ],
)
def test_deployed_services_read_paths_and_names_leniently(deployed, states, target, same):
    raw = [row["address"] for row in states["accounts"][:2]]
    status, body, _ = fetch(deployed, target.format(*raw))
    assert status == 200
    expected = fetch(deployed, f"/api/v3/accountStates?{same.format(*raw)}")
    assert (status, body) == expected[:2]


def test_other_spellings_are_not_specified(specified, states):
    address = states["accounts"][0]["address"]
    for target in (f"accountStates/?address={address}", f"accountstates?address={address}"):
        assert fetch(specified, f"/api/v3/{target}")[0] == 404
    assert error(specified, "accountStates", **{"address[]": address})[0] == 422


def test_deployed_services_send_null_for_what_is_not_there(deployed, states):
    target = "transactionsByMasterchainBlock"
    rows = get(deployed, target, seqno=240, limit=1000)[1]["transactions"]
    assert any(row["in_msg"] is None for row in rows)
    [external, *_] = [
        row["in_msg"] for row in rows if row["in_msg"] and not row["in_msg"]["source"]
    ]
    assert [external[key] for key in ("source", "value", "created_lt", "bounce")] == [None] * 4
    assert not {"in_msg_tx_hash", "out_msg_tx_hash"} & external.keys()
    address = states["accounts"][0]["address"]
    [account] = get(deployed, "accountStates", address=address)[1]["accounts"]
    assert {"contract_methods", "interfaces"} <= account.keys()


def test_the_specification_has_no_nulls(specified):
    body = fetch(specified, "/api/v3/masterchainBlockShards?seqno=240&limit=1000")[1]
    assert b":null" not in body.partition(b'"address_book"')[0]


@pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")
def test_recorded_answers_are_served_as_they_were_recorded(real, tmp_path):
    """A store of recorded transactions answers with each of them as today's service would."""
    files = {int(path.stem): path for path in (real / "masterchainBlockShards").glob("*.json")}
    read = [pages.read(schema.BLOCKS_ANSWER, path.read_bytes()) for path in files.values()]
    tables = stamped(pages.blocks_tables(read), datetime.now(UTC))
    tables["blocks"] = schema.BLOCKS.schema.empty_table()
    store = Store(tmp_path)
    store.claim("-239", "recorded")
    ranges = [range(seqno, seqno + 1) for seqno in sorted(files)]
    store.write_blocks(tables, ranges, proof="recorded")
    held = HeldRows(store, "service")
    exchanged = 0
    for seqno, path in files.items():
        rows = (json.loads(bytes(row.json)) for row in held.transactions(seqno))
        served = {row["hash"]: row for row in rows}
        recorded = json.loads(path.read_bytes())["transactions"]
        assert len(served) == len(recorded)
        for row in recorded:
            expected = as_scanned(row)
            exchanged += expected != row
            assert without_added(served[row["hash"]], expected) == expected
    assert exchanged > 0


def without_added(served, recorded):
    """Return what is served without keys that are null and that the recording does not have."""
    if isinstance(served, dict) and isinstance(recorded, dict):
        return {
            key: without_added(value, recorded.get(key))
            for key, value in served.items()
            if key in recorded or value is not None
        }
    if isinstance(served, list) and isinstance(recorded, list):
        return [without_added(*pair) for pair in zip(served, recorded, strict=True)]
    return served


def test_deployed_seqnos_wrap(deployed):
    for operation in ("masterchainBlockShards", "transactionsByMasterchainBlock"):
        wrapped = get(deployed, operation, seqno=2**32 + 240)
        assert wrapped[0] == 200
        assert wrapped == get(deployed, operation, seqno=240)


def test_deployed_account_states(deployed, states):
    rows = {row["address"]: row for row in states["accounts"]}
    raw = list(rows)[:4]
    friendly = [to_friendly(address).replace("-", "+").replace("_", "/") for address in raw]
    for addresses in (raw, friendly, [",".join(raw)], [",".join(friendly), raw[0]], [*raw, *raw]):
        status, answer = get(deployed, "accountStates", address=addresses)
        assert status == 200
        found = {row["address"]: row for row in answer["accounts"]}
        assert found == {address: rows[address] for address in raw}
        assert len(answer["accounts"]) == len(raw)
        assert set(answer["address_book"]) == set(raw)
    plus = next(address for address in friendly + [to_friendly(a) for a in rows] if address)
    assert "error" not in get(deployed, "accountStates", address=plus)[1]


def test_an_account_that_is_not_found_is_not_in_the_address_book(tmp_path):
    chain = Chain(seed=3, first_seqno=50, transactions_per_block=8)
    make_blocks(tmp_path, chain, range(50, 51))
    states = chain.account_states()
    known, unknown = (states["accounts"][i]["address"] for i in (0, 1))
    states["accounts"] = [row for row in states["accounts"] if row["address"] != unknown]
    make_accounts(tmp_path, states, moment=datetime(2026, 1, 1, tzinfo=UTC), unknown=[unknown])
    for dialect in ("specification", "service"):
        with serve(tmp_path, dialect=dialect) as url:
            answer = get(url, "accountStates", address=[known, unknown])[1]
            assert [row["address"] for row in answer["accounts"]] == [known]
            assert set(answer["address_book"]) == {known}


def test_metadata_of_a_jetton_wallet_comes_with_its_master_s(specified, deployed, states):
    wallets = {
        address: entry["token_info"][0]["extra"]["jetton"]
        for address, entry in states["metadata"].items()
        if entry["token_info"][0]["type"] == "jetton_wallets"
    }
    assert wallets
    for url in (specified, deployed):
        for wallet, master in wallets.items():
            answer = get(url, "accountStates", address=wallet)[1]
            assert [row["address"] for row in answer["accounts"]] == [wallet]
            assert answer["metadata"] == {n: states["metadata"][n] for n in (wallet, master)}
            assert set(answer["address_book"]) == {wallet}
            answer = get(url, "accountStates", address=wallet, x_no_metadata="true")[1]
            assert answer["metadata"] == {}


def test_metadata_of_any_form_is_served(tmp_path):
    chain = Chain(seed=3, first_seqno=50, transactions_per_block=8)
    make_blocks(tmp_path, chain, range(50, 51))
    states = chain.account_states()
    extras = (None, [], {}, {"jetton": 7}, {"jetton": None}, {"jetton": "x"})
    wallets = [{"token_info": [{"type": "jetton_wallets", "extra": extra}]} for extra in extras]
    entries = [None, {}, {"token_info": None}, {"token_info": [None, 7]}, *wallets]
    addresses = [row["address"] for row in states["accounts"]]
    states["metadata"] = dict(zip(addresses, entries, strict=False))
    assert len(states["metadata"]) == len(entries)
    make_accounts(tmp_path, states, moment=datetime(2026, 1, 1, tzinfo=UTC))
    with serve(tmp_path) as url:
        answer = get(url, "accountStates", address=addresses)[1]
    assert answer["metadata"] == states["metadata"]


def test_account_states_by_hash_of_code(deployed, states):
    by_code = {}
    for row in states["accounts"]:
        by_code.setdefault(row.get("code_hash"), []).append(row["address"])
    first, second = sorted(by_code.keys() - {None}, key=lambda code: len(by_code[code]))[:2]
    everybody = [row["address"] for row in states["accounts"]]

    def found(**asked):
        status, answer = get(deployed, "accountStates", **{"address": everybody} | asked)
        assert status == 200
        addresses = {row["address"] for row in answer["accounts"]}
        assert set(answer["address_book"]) == addresses
        return addresses

    in_hex = base64.b64decode(first).hex()
    for spelt in (first, in_hex, "0x" + in_hex, first.replace("+", "-").replace("/", "_")):
        assert found(code_hash=spelt) == set(by_code[first])
    both = {*by_code[first], *by_code[second]}
    assert found(code_hash=[first, second]) == found(code_hash=f"{first},{second}") == both
    assert found(code_hash="") == set(everybody)
    assert found(code_hash=["", second]) == set(by_code[second])
    assert found(address="", code_hash=first) == set(by_code[first])
    assert found(address=by_code[second], code_hash=first) == set()
    asked = {"address": everybody[0], "code_hash": [first, "x"]}
    assert error(deployed, "accountStates", **asked) == (
        422,
        'failed to decode: schema: error converting value for index 1 of "code_hash"',
    )
    assert error(deployed, "accountStates", code_hash=first)[0] == 422


def test_deployed_services_read_workchains_as_go_does(deployed, specified, states):
    [basic] = [row["address"] for row in states["accounts"] if row["address"][:2] == "0:"][:1]
    [master] = [row["address"] for row in states["accounts"] if row["address"][:3] == "-1:"][:1]
    spelt = {f"{workchain}:{basic[2:]}": basic for workchain in ("+0", "-0", "00", " 0")}
    spelt |= {f"-01:{master[3:]}": master, f" {to_friendly(basic)} ": basic}
    for address, raw in spelt.items():
        answer = get(deployed, "accountStates", address=address)[1]
        assert [row["address"] for row in answer["accounts"]] == [raw]
        assert error(specified, "accountStates", address=address)[0] == 422
    assert fetch(deployed, f"/api/v3/accountStates?address=+{basic}")[0] == 200
    assert fetch(deployed, f"/api/v3/transactions?account=%2B{basic}")[0] == 200
    for workchain in ("128", "-129", "", "+", "0x0", "1_0", "\u0661"):
        assert error(deployed, "accountStates", address=f"{workchain}:{basic[2:]}")[0] == 422


def test_deployed_errors_about_accounts(deployed, states):
    good = states["accounts"][0]["address"]
    assert error(deployed, "accountStates") == (422, "address of account is required")
    converting = "failed to decode: schema: error converting value for"
    for bad in ("x", f"{good},x", "a b"):
        found = error(deployed, "accountStates", address=[good, good, good, bad])
        assert found == (422, f'{converting} index 3 of "address"')
    # A + that is not quoted is a space.
    status, body, _ = fetch(deployed, "/api/v3/accountStates?address=" + "EQ++" + "A" * 44)
    assert (status, json.loads(body)["error"]) == (422, f'{converting} index 0 of "address"')
    found = error(deployed, "accountStates", address=good, include_boc="maybe")
    assert found == (422, f'{converting} "include_boc"')
    assert get(deployed, "accountStates", address=good, include_boc="on")[0] == 200


def test_deployed_account_states_of_no_and_too_many_addresses(tmp_path):
    chain = Chain(seed=6, first_seqno=10, transactions_per_block=4)
    make_blocks(tmp_path, chain, range(10, 11))
    made_up = [{"address": f"0:{n:064X}", "balance": str(n)} for n in range(1, 1101)]
    make_accounts(tmp_path, {"accounts": made_up}, moment=datetime(2026, 1, 1, tzinfo=UTC))
    with serve(tmp_path) as url:
        answer = get(url, "accountStates", address="")[1]
        assert len({row["address"] for row in answer["accounts"]}) == 1000
        everybody = [row["address"] for row in made_up]
        assert len(get(url, "accountStates", address=everybody)[1]["accounts"]) == 1000
        answer = get(url, "accountStates", address=["", everybody[3]])[1]
        assert [row["balance"] for row in answer["accounts"]] == ["4"]
    with serve(tmp_path, dialect="specification") as url:
        assert get(url, "accountStates", address="")[0] == 422


# ── the state of the shards ──────────────────────────────────────────────────────────────────────


def identity(reference):
    return reference["workchain"], SHARD._number(reference["shard"]), reference["seqno"]


def true_tips(bodies):
    """Walk the chain forward from its first block; of each seqno, the last block of every shard."""
    tips, found = set(), {}
    for seqno in sorted(bodies):
        blocks = sorted(bodies[seqno]["blocks"], key=lambda block: block["seqno"])
        used = {identity(parent) for block in blocks for parent in block["prev_blocks"] or ()}
        tips = (tips | {identity(block) for block in blocks}) - used
        found[seqno] = tips
    return found


def covers(tips):
    """Whether every account of the masterchain and of workchain 0 is in the shard of a block."""
    spans = sorted(
        (shard % 2**64 - (shard & -shard), shard % 2**64 + (shard & -shard))
        for workchain, shard, _ in tips
        if workchain == 0
    )
    edge = 0
    for low, high in spans:
        if low > edge:
            return False
        edge = max(edge, high)
    return edge == 2**64 and any(workchain == -1 for workchain, _, _ in tips)


def test_shard_state_is_the_end_of_each_chain(deployed, bodies):
    truth = true_tips(bodies)
    shapes = []
    for seqno in range(FIRST + 30, LAST + 1):
        blocks = get(deployed, "masterchainBlockShardState", seqno=seqno)[1]["blocks"]
        found = {identity(block) for block in blocks}
        assert len(found) == len(blocks)
        assert covers(found)
        # A shard that splits stays until both halves have a block.
        assert truth[seqno] <= found
        for block in bodies.get(seqno + 1, {"blocks": []})["blocks"]:
            own = {identity(b) for b in bodies[seqno + 1]["blocks"]}
            assert {identity(p) for p in block["prev_blocks"]} <= found | own
        assert blocks == sorted(blocks, key=identity)
        shape = {shard for workchain, shard, _ in truth[seqno] if workchain == 0}
        shapes += [shape] * (shape not in shapes[-1:])
    assert len(shapes) >= 3, "the chain splits and merges"


def test_shard_state_before_and_at_the_start_of_a_store(tmp_path, bodies):
    truth = true_tips(bodies)
    for start in range(FIRST + 31, LAST - 20, 28):
        folder = tmp_path / str(start)
        part = range(start, start + 20)
        shown = [{"blocks": bodies[seqno]["blocks"], "transactions": []} for seqno in part]
        store = claimed(folder)
        tables = tables_from(shown)
        store.write_blocks(tables, [part], proof="synthetic")
        held = HeldRows(store, "service")
        for seqno in (start, start + 1):
            tips = shard_state(held, seqno)
            found = {(tip.workchain, tip.shard, tip.seqno) for tip in tips}
            assert truth[seqno] <= found
            assert covers(found)
        body = json.dumps({"blocks": [json.loads(bytes(tip.json)) for tip in tips]})
        assert len(parse_blocks(body).blocks) == len(tips)
        # Before the first masterchain block there is none; before a later range it is known.
        assert shard_state(held, start - 1) == []
        make_blocks(folder, Chain(seed=8, first_seqno=3, transactions_per_block=4), range(3, 5))
        tips = shard_state(HeldRows(store, "service"), start - 1)
        found = {(tip.workchain, tip.shard, tip.seqno) for tip in tips}
        assert truth[start - 1] <= found
        assert covers(found)


def test_shard_state_of_blocks_that_are_not_held(deployed):
    for seqno in (FIRST - 2, FIRST - 1, LAST + 1, "abc", "", 2**32 + 240):
        found = error(deployed, "masterchainBlockShardState", seqno=seqno)
        assert found == (404, "blocks not found")
    assert get(deployed, "masterchainBlockShardState", seqno=FIRST)[0] == 200


# ── what is refused at the start ─────────────────────────────────────────────────────────────────


def test_no_store_is_no_service(tmp_path):
    with pytest.raises(StoreError, match="no store"), serve(tmp_path / "none"):
        pass
    assert not (tmp_path / "none").exists()


def test_a_store_without_blocks_does_not_speak_as_a_deployed_service(tmp_path):
    chain = Chain(seed=4, first_seqno=98, transactions_per_block=4)
    Store(tmp_path).claim("-217", "synthetic")
    with (
        pytest.raises(StoreError, match="holds no masterchain"),
        serve(tmp_path),
    ):
        pass
    make_blocks(tmp_path, chain, range(98, 101))
    make_blocks(tmp_path, chain, range(101, 103), with_blocks=False)
    with pytest.raises(StoreError, match="101:103") as caught, serve(tmp_path):
        pass
    assert "specification" in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"dialect": "toncenter"}, {"host": ""}, {"port": -1}, {"port": 65536}]
)
def test_wrong_arguments(path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))), serve(path, **wrong):
        pass


def test_a_port_that_is_taken(path, specified):
    with pytest.raises(OSError, match="in use"), serve(path, port=urlsplit(specified).port):
        pass


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "target",
    ["/", "/api/v3", "/api/v3/", "/api/v3/nothing", "/accountStates", "//[", "/%2e%2e/etc/passwd"],
)
def test_other_paths_are_not_found(specified, deployed, target):
    for url, expected, begin in (
        (specified, 404, "Cannot GET /"),
        (deployed, 500, "internal server error: Cannot GET /"),
    ):
        status, body, _ = fetch(url, target)
        assert status == expected
        assert json.loads(body)["error"].startswith(begin)
    status, body, _ = fetch(specified, "/api/v3/masterchainBlockShardState?seqno=240")
    assert json.loads(body) == {"error": "Cannot GET /api/v3/masterchainBlockShardState"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_are_not_allowed(specified, method):
    with connect(specified) as connection:
        connection.request(method, "/api/v3/masterchainInfo", body=b"x")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert json.loads(answer.read()) == {"error": "Method Not Allowed"}


def test_head_is_get_without_the_body(specified):
    target = f"/api/v3/masterchainBlockShards?seqno={FIRST}"
    status, body, headers = fetch(specified, target, method="HEAD")
    whole = fetch(specified, target)
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == str(len(whole[1])) == whole[2]["Content-Length"]
    assert fetch(specified, "/", method="HEAD")[:2] == (404, b"")


def test_an_unread_request_body_is_no_request(specified):
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    received = converse(specified, head + smuggled)
    assert received.count(b"HTTP/1.1 404") == 1
    assert b"smuggled" not in received


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
        ("[::1]:8081", 200),
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("localhost.evil.example", 403),
        ("localhost:80.evil.example", 403),
        ("", 403),
        ("127.0.0.2", 403),
    ],
)
def test_only_requests_to_this_computer_are_answered(specified, host, status):
    found, body, _ = fetch(specified, "/api/v3/masterchainInfo", headers={"Host": host})
    assert found == status
    assert ("error" in json.loads(body)) == (status == 403)
    assert b" 403 " in converse(specified, b"GET / HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]


def test_a_chosen_address_accepts_any_host(path):
    with serve(path, host="0.0.0.0") as url:  # noqa: S104
        assert url.startswith("http://0.0.0.0:")
        local = url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        headers = {"Host": "tonframes.example"}
        assert fetch(local, "/api/v3/masterchainInfo", headers=headers)[0] == 200


def test_other_loopback_addresses(path):
    with serve(path, host="localhost") as url:
        assert url.startswith("http://localhost:")
        assert alive(url)
    if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110
        with contextlib.suppress(OSError), serve(path, host="::1") as url:
            assert url.startswith("http://[::1]:")
            assert alive(url)


def test_long_request_lines(specified):
    line = "/api/v3/masterchainInfo?x="
    assert fetch(specified, line + "y" * 120_000)[0] == 200
    received = converse(specified, f"GET {line}{'y' * 131_100} HTTP/1.1\r\n".encode())
    assert received.startswith(b"HTTP/1.1 414 ")
    assert b'{"error":' in received
    assert alive(specified)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/x.y\r\n\r\n", b"400"),
        (b"GET / a b HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/3.0\r\n\r\n", b"505"),
        (b"\x16\x03\x01\x02\x00 TLS to a plain port\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
    ],
)
def test_malformed_requests_get_an_error_of_the_same_form(specified, sent, status):
    received = converse(specified, sent)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert list(json.loads(body)) == ["error"]
    assert alive(specified)


def test_slow_clients_are_let_go(path, monkeypatch):
    monkeypatch.setattr(shell._Handler, "timeout", 0.2)
    with serve(path) as url:
        with raw_socket(url) as idle, raw_socket(url) as half, raw_socket(url) as heads:
            half.sendall(b"GET /api/v3/master")
            heads.sendall(b"GET /api/v3/masterchainInfo HTTP/1.1\r\nHost: loc")
            assert idle.recv(100) == half.recv(100) == heads.recv(100) == b""
        assert alive(url)


def test_clients_that_go_away_leave_no_trace(path, capfd):
    with serve(path) as url:
        for _ in range(20):
            with raw_socket(url) as raw:
                target = f"/api/v3/masterchainBlockShards?seqno={FIRST}&limit=1000"
                raw.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 20)
                # Closing resets the connection, and what is unsent is dropped.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert alive(url)
    assert capfd.readouterr() == ("", "")


def test_there_is_no_access_log_and_no_version(specified, capfd):
    headers = fetch(specified, "/")[2]
    assert headers["Server"].strip() == "tonframes"
    assert capfd.readouterr() == ("", "")


def test_connections_are_kept(specified):
    with connect(specified) as connection:
        for _ in range(3):
            connection.request("GET", f"/api/v3/masterchainBlockShards?seqno={FIRST}")
            assert connection.getresponse().read()
            own = connection.sock
            connection.request("GET", "/nothing")
            assert connection.getresponse().read()
            assert connection.sock is own is not None


def test_more_connections_than_allowed_wait_their_turn(path, monkeypatch):  # F81
    monkeypatch.setattr(shell, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(shell._Handler, "timeout", 0.1)
    others = set(threading.enumerate())
    with serve(path) as url, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(raw_socket(url))
        assert alive(url)
        ours = set(threading.enumerate()) - others
        assert sum("process_request_thread" in thread.name for thread in ours) <= 4


def test_a_service_ends_while_connections_wait_their_turn(path, monkeypatch):
    monkeypatch.setattr(shell, "MOST_CONNECTIONS", 2)
    with contextlib.ExitStack() as stack:
        with serve(path) as url:
            for _ in range(8):
                stack.enter_context(raw_socket(url))
            time.sleep(0.2)
            start = time.monotonic()
        assert time.monotonic() - start < IN_TIME


def test_a_service_ends_quickly_and_frees_its_port(path):
    with contextlib.ExitStack() as stack:
        with serve(path) as url:
            connections = [stack.enter_context(raw_socket(url)) for _ in range(120)]
            assert alive(url)
            start = time.monotonic()
        assert time.monotonic() - start < IN_TIME
        assert {connection.recv(1) for connection in connections} == {b""}
        with serve(path, port=urlsplit(url).port) as again:
            assert again == url
            assert alive(url)
    with pytest.raises(ConnectionRefusedError):
        alive(url)


def test_serve_forever_ends_with_ctrl_c(path):
    program = f"from tonframes.service import serve_forever; serve_forever({str(path)!r})"
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        url = process.stdout.readline().strip()
        with raw_socket(url):
            assert alive(url)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=IN_TIME)
        assert (process.returncode, stderr) == (0, "")
    with serve(path, port=urlsplit(url).port) as again:
        assert alive(again)


def test_serve_forever_says_when_it_is_ready(path):
    def ready(url):
        assert alive(url)
        raise KeyboardInterrupt

    serve_forever(path, ready=ready)


# ── the store behind it ──────────────────────────────────────────────────────────────────────────


def test_the_store_is_never_modified(path, states):
    before = snapshot_of(path)
    address = quote(states["accounts"][0]["address"])
    for dialect in ("specification", "service"):
        with serve(path, dialect=dialect) as url:
            for target in (
                f"masterchainBlockShards?seqno={FIRST}",
                "masterchainBlockShards?seqno=7",
                f"transactionsByMasterchainBlock?seqno={FIRST}",
                f"masterchainBlockShardState?seqno={FIRST}",
                "masterchainInfo",
                f"accountStates?address={address}",
                "accountStates?address=",
            ):
                fetch(url, f"/api/v3/{target}")
    assert snapshot_of(path) == before


def test_masterchain_blocks_without_transactions(tmp_path):
    seqnos = range(96, 103)
    tables = tables_from([{"transactions": [], "blocks": []}])
    store = claimed(tmp_path)
    store.write_blocks(tables, [seqnos], proof="synthetic")
    with serve(tmp_path, dialect="specification") as url:
        for seqno in seqnos:
            answer = get(url, "masterchainBlockShards", seqno=seqno)
            assert answer == (200, {"transactions": [], "address_book": {}})
        assert get(url, "masterchainInfo")[1]["last"]["global_id"] == -217


def test_parts_that_are_encoded_together_lose_nothing(specified, path, bodies, monkeypatch):
    monkeypatch.setattr("tonframes.service.rows.ROWS", 25)
    held = HeldRows(Store(path), "specification")
    for seqno in random.Random(1).sample(sorted(bodies), 40):
        rows = held.transactions(seqno)
        body = get(specified, "masterchainBlockShards", seqno=seqno, limit=1000)[1]
        assert [json.loads(bytes(row.json)) for row in rows] == body["transactions"]
    assert held._part.cache_info().misses > 10


def test_a_damaged_file_is_an_error_and_not_the_end(tmp_path, path, states):
    broken = tmp_path / "store"
    shutil.copytree(path, broken)
    [file] = (broken / "transactions").glob("*200-*.parquet")
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    file.write_bytes(content)
    with serve(broken, dialect="specification") as url:
        status, text = error(url, "masterchainBlockShards", seqno=240)
        assert (status, text[:24]) == (500, "internal server error: /"[:24])
        assert file.name in text
        assert get(url, "masterchainBlockShards", seqno=FIRST)[0] == 200
        address = states["accounts"][0]["address"]
        assert get(url, "accountStates", address=address)[0] == 200


def test_the_service_answers_fast_enough(specified):
    """Far below what it does, and far above the 23 a second of http.server's defaults."""
    with connect(specified) as connection:
        for _ in range(2):
            start = time.monotonic()
            for seqno in range(FIRST, LAST + 1):
                connection.request("GET", f"/api/v3/masterchainBlockShards?seqno={seqno}")
                assert connection.getresponse().read()
            rate = COUNT / (time.monotonic() - start)
    assert rate > 150


# ── windows ──────────────────────────────────────────────────────────────────────────────────────


def pages_of(url, target, name, limit):
    """Read all pages by offset."""
    rows = []
    while True:
        status, body, _ = fetch(url, f"{target}&limit={limit}&offset={len(rows)}")
        assert status == 200
        page = json.loads(body)[name]
        rows += page
        if len(page) < limit:
            return rows


def of_world(world, name):
    return [row for body in world[1].values() for row in body[name]]


def test_transactions_of_a_window_of_logical_time(world, deployed):
    every = sorted(of_world(world, "transactions"), key=lambda t: (int(t["lt"]), t["account"]))
    start, end = int(every[100]["lt"]), int(every[-100]["lt"])
    expected = [t["hash"] for t in every if start <= int(t["lt"]) <= end]
    target = f"/api/v3/transactions?start_lt={start}&end_lt={end}&sort=asc"
    for limit in (7, 1000):
        assert [t["hash"] for t in pages_of(deployed, target, "transactions", limit)] == expected
    newest = json.loads(fetch(deployed, f"/api/v3/transactions?end_lt={end}&limit=3")[1])
    assert [int(t["lt"]) for t in newest["transactions"]] == sorted(
        (int(t["lt"]) for t in every if int(t["lt"]) <= end), reverse=True
    )[:3]


def test_transactions_by_conditions(world, deployed):
    every = of_world(world, "transactions")
    one = every[200]
    ref = one["block_ref"]
    conditions = {
        f"account={one['account']}": lambda t: t["account"] == one["account"],
        f"account={to_friendly(one['account'])}&account={every[0]['account']}": lambda t: (
            t["account"] in (one["account"], every[0]["account"])
        ),
        f"hash={quote(one['hash'], safe='')}": lambda t: t["hash"] == one["hash"],
        f"lt={one['lt']}": lambda t: t["lt"] == one["lt"],
        f"mc_seqno={one['mc_block_seqno']}": lambda t: t["mc_block_seqno"] == one["mc_block_seqno"],
        f"workchain={ref['workchain']}&shard={ref['shard']}&seqno={ref['seqno']}": lambda t: (
            t["block_ref"] == ref
        ),
        f"start_utime={one['now']}&end_utime={one['now'] + 3}": lambda t: (
            one["now"] <= t["now"] <= one["now"] + 3
        ),
        "start_lt=1&end_lt=2": lambda _: False,
    }
    for text, holds in conditions.items():
        found = pages_of(deployed, f"/api/v3/transactions?{text}&sort=asc", "transactions", 50)
        assert {t["hash"] for t in found} == {t["hash"] for t in every if holds(t)}, text


def test_transactions_by_several_hashes(world, deployed):
    every = of_world(world, "transactions")
    one, two = every[200]["hash"], every[7]["hash"]
    newest_first = sorted((one, two), reverse=True)

    def found(text):
        status, body, _ = fetch(deployed, f"/api/v3/transactions?{text}")
        assert status == 200
        return hashes(json.loads(body))

    a, b = (quote(text, safe="") for text in (one, two))
    in_hex = base64.b64decode(two).hex()
    for text in (
        f"hash={a}&hash={b}",
        f"hash={b}&hash={a}&hash=",
        f"hash={a},{b}",
        f"hash={a},0x{in_hex}",
        f"hash[]={a}&hash[]={in_hex}",
        f"Hash=,{a},&HASH={b}",
    ):
        assert found(text) == newest_first
        assert found(f"{text}&sort=asc") == newest_first[::-1]
    assert found(f"hash={b}") == [two]
    assert found(f"hash={a}&hash={b}&lt={every[7]['lt']}") == [two]
    for text, index in ((f"hash={a}&hash=x", 1), (f"hash={a},x", 0), (f"hash=&hash={a}0", 1)):
        status, body, _ = fetch(deployed, f"/api/v3/transactions?{text}")
        expected = f'failed to decode: schema: error converting value for index {index} of "hash"'
        assert (status, json.loads(body)) == (422, {"error": expected})


def test_an_empty_hash_is_no_condition(world, deployed):
    """Source: ton-indexer, filterByArray; but the order is that of the hashes."""
    every = sorted((t["hash"] for t in of_world(world, "transactions")), reverse=True)
    assert hashes(get(deployed, "transactions", hash="", limit=1000)[1]) == every[:1000]
    one = world[1][240]["transactions"][0]
    assert hashes(get(deployed, "transactions", hash="", lt=one["lt"], limit=1000)[1]) == hashes(
        get(deployed, "transactions", lt=one["lt"], limit=1000)[1]
    )
    # Of a block it is one value, which cannot be converted.
    assert error(deployed, "blocks", root_hash="")[0] == 422


def test_an_empty_account_is_nobody_s(deployed, bodies):
    assert hashes(get(deployed, "transactions", account="")[1]) == []
    account = bodies[240]["transactions"][0]["account"]
    several = get(deployed, "transactions", account=["", account])
    assert several == get(deployed, "transactions", account=account)


def test_transactions_of_one_logical_time_come_in_the_order_of_accounts(world, deployed):
    every = of_world(world, "transactions")
    [(lt, count)] = Counter(int(t["lt"]) for t in every).most_common(1)
    assert count > 1
    by_account = sorted((t["account"], t["hash"]) for t in every if int(t["lt"]) == lt)
    expected = [found for _, found in by_account]

    def found(**asked):
        return hashes(get(deployed, "transactions", limit=1000, **asked)[1])

    assert found(lt=lt) == found(lt=lt, sort="desc") == expected[::-1]
    assert found(lt=lt, sort="asc") == expected
    assert found(lt=lt, start_utime=0) == expected[::-1]
    assert found(lt=lt, offset=1) == expected[-2::-1]
    # Without `lt`, and of one masterchain block, the accounts of one logical time ascend.
    assert found(start_lt=lt, end_lt=lt) == found(start_lt=lt, end_lt=lt, sort="asc") == expected
    rows = world[1][240]["transactions"]
    newest_first = sorted(rows, key=lambda t: (-int(t["lt"]), t["account"]))
    assert found(mc_seqno=240, start_utime=0) == [t["hash"] for t in newest_first]


def test_shards_are_read_as_go_does(world, deployed):
    blocks = of_world(world, "blocks")
    [shard] = {b["shard"] for b in blocks if b["shard"].startswith("C")} or {None}
    assert shard
    expected = {b["root_hash"] for b in blocks if b["shard"] == shard}
    number = int(shard, 16) - 2**64
    for text in (shard, shard.lower(), f"0x{shard}", f"000{shard}", str(number), f"0x{number}"):
        for operation in ("blocks", "transactions"):
            assert get(deployed, operation, shard=text)[0] == 200
        found = get(deployed, "blocks", shard=text, limit=1000)[1]["blocks"]
        assert {b["root_hash"] for b in found} == expected
    assert get(deployed, "blocks", shard="0")[1] == {"blocks": []}
    for text in (
        "",
        "0x",
        f"0X{shard}",
        f"{shard}0",
        "x",
        "-0x8000000000000000",
        str(-(2**63) - 1),
    ):
        assert error(deployed, "blocks", shard=text)[0] == 422


def test_blocks_of_a_window_of_time(world, deployed):
    every = of_world(world, "blocks")
    times = sorted(int(block["gen_utime"]) for block in every)
    start, end = times[50], times[-50]
    target = f"/api/v3/blocks?start_utime={start}&end_utime={end}&sort=asc"
    found = pages_of(deployed, target, "blocks", 1000)
    expected = [block for block in every if start <= int(block["gen_utime"]) <= end]
    assert {block["root_hash"] for block in found} == {block["root_hash"] for block in expected}
    assert [int(block["gen_utime"]) for block in found] == sorted(
        int(block["gen_utime"]) for block in expected
    )
    of_one = json.loads(fetch(deployed, f"/api/v3/blocks?mc_seqno={LAST}&limit=100")[1])
    assert len(of_one["blocks"]) == len(world[1][LAST]["blocks"])
    lt = every[7]["start_lt"]
    same = json.loads(fetch(deployed, f"/api/v3/blocks?start_lt={lt}&end_lt={lt}")[1])["blocks"]
    assert same
    assert {block["start_lt"] for block in same} == {lt}


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("transactions?start_lt=-1", 422, 'failed to decode: schema: error converting value for "'),
        ("transactions?start_lt=word", 422, "failed to decode"),
        ("blocks?start_utime=x", 422, "failed to decode"),
        ("transactions?hash=abc", 422, 'error converting value for index 0 of "hash"'),
        (f"transactions?account={NOBODY}&account=x", 422, 'value for index 1 of "account"'),
        ("transactions?limit=1001", 500, "limit is not allowed: 1001 > 1000"),
        ("blocks?sort=up", 500, "wrong value for sort"),
        ("transactions?mc_seqno=7", 404, "masterchain block 7 not found"),
    ],
)
def test_wrong_windows_are_refused(deployed, target, status, text):
    found, body, _ = fetch(deployed, f"/api/v3/{target}")
    assert (found, text in json.loads(body)["error"]) == (status, True)


def test_past_the_end_of_a_window_there_is_nothing(deployed):
    for name in ("transactions", "blocks"):
        status, body, _ = fetch(deployed, f"/api/v3/{name}?start_utime=4000000000")
        assert (status, json.loads(body)[name]) == (200, [])
