"""Lies on which all answers of a service agree: they are noticed, and nothing of them is kept.

Each is told for a while, and then the truth; and for ever. Both ways to read are tested: one
masterchain block at a time, and through windows.
"""

from __future__ import annotations

import json
import traceback
from functools import cache, partial
from typing import TYPE_CHECKING

import pytest
from chain import synthetic_blocks
from fake_service import FakeService, whole_histories
from fault_server import answer
from faulty_service import (
    INFO,
    SHARDS,
    STATE,
    FakeClock,
    Faulty,
    absent,
    append,
    connect,
    digests,
    every,
    telling,
)
from slow import slow

import tonframes as tf
from tonframes.client import Client
from tonframes.seqnos import subtract
from tonframes.store import NETWORKS, Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 90_000_080
#: Crosses a border of files at ….100; a shard splits after ….104.
SEQNOS = range(FIRST + 18, FIRST + 32)
HIT = FIRST + 26
ALONE = range(HIT, HIT + 1)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "truth"
    made = list(synthetic_blocks(40, seed=2, first_seqno=FIRST, transactions_per_block=6))
    assert any(int(row["tx_count"]) == 0 for row in made[HIT - FIRST]["blocks"]), "an empty block"
    append(path, made)
    return path


@cache
def truth(chain: Path, runs: tuple[range, ...]) -> dict[str, str]:
    return digests(tf.read_blocks(chain, [seqno for run in runs for seqno in run]))


@pytest.fixture(params=[False, True], ids=["block by block", "windows"])
def service(request, chain):
    with Faulty(chain, windows=request.param) as service:
        yield service


@pytest.fixture
def client(service):
    with connect(service, FakeClock()) as client:
        yield client


def comes_whole(chain, client, store=None) -> None:
    assert digests(tf.fetch_blocks(SEQNOS, client=client, store=store)) == truth(chain, (SEQNOS,))


def fails(chain, service, client, store, match) -> tuple[range, ...]:
    """Fail, keep only what is true, and come whole after that; return what was missing."""
    with pytest.raises(tf.IncompleteError, match=match) as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=store)
    there = subtract([SEQNOS], caught.value.missing)
    assert Store(store).held() == there
    if there:
        assert digests(tf.read_blocks(store)) == truth(chain, there)
    assert service.met
    service.injecting = False
    comes_whole(chain, client, store)
    assert Store(store).held() == (SEQNOS,)
    return caught.value.missing


# ── F62: another network ─────────────────────────────────────────────────────────────────────────


def shows(number):
    """Answer with the `global_id` of another network, or without any."""

    def fault(truth):
        content = truth.read()
        rows = [*content.get("blocks", ()), *filter(None, map(content.get, ("last", "first")))]
        for row in rows:
            row["global_id"] = number
        return telling(content) if rows else None

    return fault


def refused(store, call, match):
    """Refuse to fetch, in one sentence, and leave the store as it is."""

    def files():
        return {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}

    before = files()
    with pytest.raises(tf.StoreError, match=match) as caught:
        call()
    assert str(caught.value).endswith(": give another store=")
    assert files() == before


def test_an_address_that_shows_another_network_is_refused(service, client, chain, tmp_path):
    known = tf.read_blocks(chain, SEQNOS).transactions.account[0]
    calls = [
        partial(tf.fetch_blocks, SEQNOS, client=client, store=tmp_path),
        partial(tf.fetch_accounts, [known], client=client, store=tmp_path),
    ]
    if not service._lacking:
        calls.append(partial(tf.fetch_transactions, known, client=client, store=tmp_path))
    tf.fetch_blocks(SEQNOS[:5], client=client, store=tmp_path)
    service.inject(shows(-3))
    for call in calls:
        refused(tmp_path, call, "is of the network -217, and http.* is of testnet")
    assert service.met == len(calls), "one request, for the network"
    tf.fetch_blocks(SEQNOS[:5], client=client, store=tmp_path)
    assert service.met == len(calls), "what is held needs no service"


def test_blocks_of_another_network_are_refused(service, client, tmp_path):
    for operation in (SHARDS, STATE, "blocks"):
        service.inject(shows(-239), operation)
    call = partial(tf.fetch_blocks, SEQNOS, client=client, store=tmp_path)
    Store(tmp_path).claim("-217", client.base_url)
    refused(tmp_path, call, "is of the network -217, and http.* shows blocks of mainnet")
    assert Store(tmp_path).held() == ()
    assert service.met


def test_blocks_of_two_networks_are_refused_without_a_store_too(service, client, chain):
    def later(truth):
        content = truth.read()
        for row in content.get("blocks", ()):
            if row["masterchain_block_ref"]["seqno"] >= HIT:
                row["global_id"] = -3
        return telling(content)

    for operation in (SHARDS, "blocks"):
        service.inject(later, operation)
    match = "shows blocks of two networks, -217 and testnet"
    with pytest.raises(tf.RequestError, match=match) as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=None)
    there = subtract([SEQNOS], caught.value.missing)
    assert there == (range(SEQNOS.start, FIRST + 20),)
    assert digests(caught.value.partial) == truth(chain, there)


def no_global_id(service):
    service.inject(shows(None))


def test_a_network_without_a_number_is_recognised_by_its_first_block(service, client, tmp_path):
    no_global_id(service)
    tf.fetch_blocks(SEQNOS[:5], client=client, store=tmp_path)
    assert f"block {FIRST} " in Store(tmp_path).network

    def another(truth):
        content = truth.read()
        content["first"] |= {"global_id": None, "root_hash": "A" * 43 + "="}
        content["last"] |= {"global_id": None}
        return telling(content)

    service._rules.clear()
    no_global_id(service)
    tf.fetch_blocks(SEQNOS[:9], client=client, store=tmp_path)
    service._rules.clear()
    service.inject(another, INFO)
    call = partial(tf.fetch_blocks, SEQNOS, client=client, store=tmp_path)
    refused(
        tmp_path,
        call,
        rf"of the network unnamed \(first block {FIRST} .*\(first block {FIRST} AAAA",
    )


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ((1, "VpWYYOvJx1FBFdGpRjB1WK1IArc8/W9MYbLUBLxOn5I="), "mainnet"),
        ((3, "N1MtB3dREOndUsEfXY6U7EUmgG7KTawIjoeM69iLuCc="), "testnet"),
    ],
)
def test_public_networks_are_known_by_their_first_blocks(service, client, tmp_path, first, name):
    info = {
        "last": {"seqno": FIRST},
        "first": dict(zip(("seqno", "root_hash"), first, strict=True)),
    }
    service.inject(lambda _: telling(info), INFO)
    call = partial(tf.fetch_blocks, SEQNOS, client=client, store=tmp_path)
    with pytest.raises(tf.StoreError, match=f"is of the network {name}, and .*blocks of -217"):
        call()
    assert Store(tmp_path).network == name
    assert name in NETWORKS.values()


def test_the_first_block_of_testnet_is_that_of_the_recorded_answer(real):
    from tonframes.fetch.network import FIRST_BLOCKS

    info = json.loads((real / "other" / "masterchainInfo.json").read_bytes())
    first = info["first"]
    assert NETWORKS[first["global_id"]] == FIRST_BLOCKS[first["root_hash"]] == "testnet"


def test_that_the_network_is_unknown_is_told_once(service, client, tmp_path):
    service.inject(absent, INFO)
    service.inject(lambda _: answer(b'{"error": "blocks not found"}', 404), INFO)
    fetch = partial(tf.fetch_blocks, client=client, store=tmp_path)
    with pytest.warns(tf.TonframesWarning, match="does not tell its network.*called 127.0.0.1"):
        fetch(SEQNOS[:3])
    assert Store(tmp_path).network == "127.0.0.1"
    fetch(SEQNOS[:5])
    # Blocks are held against those that the store holds.
    for operation in (SHARDS, STATE, "blocks"):
        service.inject(shows(-3), operation)
    service._rules.reverse()
    refused(tmp_path, partial(fetch, SEQNOS), "is of the network -217, and .* blocks of testnet")


def test_a_service_that_does_not_tell_its_network_for_a_while_is_still_of_it(
    service, client, chain, tmp_path
):
    tf.fetch_blocks(SEQNOS[:5], client=client, store=tmp_path)
    service.inject(lambda _: answer(b'{"error": "blocks not found"}', 404), INFO)
    comes_whole(chain, client, tmp_path)
    assert Store(tmp_path).network == "-217"


# ── F63: shards that are left out everywhere ─────────────────────────────────────────────────────


def leave_out(condition):
    """Leave out blocks, and their transactions, in every answer."""

    def change(row):
        block = row if "workchain" in row else row["block_ref"]
        return None if condition(block["workchain"], int(block["shard"], 16)) else row

    return every(change)


LEFT_OUT = {
    "workchain 0": lambda workchain, _: workchain == 0,
    "a shard": lambda workchain, prefix: workchain == 0 and prefix > 2**63,
    "the masterchain": lambda workchain, _: workchain == -1,
}


@pytest.mark.parametrize("left_out", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_shard_that_is_left_out_everywhere_is_missed(service, client, chain, tmp_path, left_out):
    service.inject(leave_out(left_out))
    with pytest.raises(tf.TonframesError, match="do not cover workchain") as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert caught.value.missing == (SEQNOS,)
    assert Store(tmp_path).held() == ()
    assert service.met
    service.injecting = False
    comes_whole(chain, client, tmp_path)


# ── F64: no tx_count ─────────────────────────────────────────────────────────────────────────────


def at_hit(change):
    """Change the rows of one masterchain block."""

    def of_hit(row):
        seqno = row.get("mc_block_seqno", row.get("masterchain_block_ref", {}).get("seqno"))
        return change(row) if seqno == HIT else row

    return every(of_hit)


def uncounted(row):
    return row | {"tx_count": None} if "tx_count" in row else row


def empty_uncounted(row):
    return row | {"tx_count": None} if row.get("tx_count") == 0 else row


def emptied(truth):
    """Leave out all transactions of the masterchain, and lower the counts to 0."""
    content = truth.read()
    for row in content.get("blocks", ()):
        if row["workchain"] == -1:
            row["tx_count"] = 0
    rows = content.get("transactions", ())
    if "transactions" in content:
        content["transactions"] = [row for row in rows if row["block_ref"]["workchain"] != -1]
    return telling(content)


def test_no_masterchain_block_is_empty(service, client, tmp_path):
    service.inject(emptied)
    with pytest.raises(tf.TonframesError, match=r"a tx_count of 0|blocks with transactions"):
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert Store(tmp_path).held() == ()


# ── F65: a transaction that is dropped from the count too ────────────────────────────────────────


def dropped(chain: Path):
    """Leave out a transaction between two of its account, and lower the count of its block."""
    rows = tf.read_blocks(chain, SEQNOS).arrow("transactions").to_pylist()
    by_account: dict[str, list[dict]] = {}
    for row in rows:
        if row["mc_block_seqno"] // 100 == HIT // 100:
            by_account.setdefault(row["account"], []).append(row)
    threes = [
        three
        for mine in by_account.values()
        for three in zip(mine[:-2], mine[1:-1], mine[2:], strict=True)
    ]
    before, lost, after = next(
        three
        for three in threes
        if three[0]["mc_block_seqno"]
        < three[1]["mc_block_seqno"]
        == HIT
        < three[2]["mc_block_seqno"]
    )
    gap = range(before["mc_block_seqno"], after["mc_block_seqno"] + 1)

    def change(row):
        if "tx_count" not in row:
            return None if row["hash"] == lost["hash"] else row
        place = (row["workchain"], row["seqno"], row["shard"].lstrip("0"))
        block = (lost["block_workchain"], lost["block_seqno"])
        if place[:2] == block and int(place[2], 16) == lost["block_shard"] % 2**64:
            return row | {"tx_count": row["tx_count"] - 1}
        return row

    return every(change), gap


def test_a_transaction_that_is_dropped_is_asked_for_again(service, client, chain, tmp_path):
    fault, gap = dropped(chain)
    service.inject(fault, times=5)
    comes_whole(chain, client)
    assert service.met == 5
    service._rules.clear()
    service.seen.clear()
    service.inject(fault)
    match = "the transactions of account .* do not follow one another: the one with lt "
    with pytest.raises(tf.IncompleteError, match=match) as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert caught.value.missing == (gap,)
    assert len(gap) > 1
    # Only the blocks that may contain it are asked for again.
    again = [int(seen.query["seqno"][0]) for seen in service.seen if SHARDS in seen.path]
    assert again.count(HIT) > 10
    assert all(again.count(seqno) <= 2 for seqno in SEQNOS if seqno != HIT)
    assert digests(tf.read_blocks(tmp_path)) == truth(chain, subtract([SEQNOS], (gap,)))


def test_links_are_checked_across_commits(service, client, chain, tmp_path, monkeypatch):
    monkeypatch.setattr("tonframes.fetch.missing.OFTEN", 0.0)
    monkeypatch.setattr("tonframes.fetch.missing.FEWEST", 1)
    fault, gap = dropped(chain)
    service.inject(fault)
    with pytest.raises(tf.IncompleteError, match="do not follow one another") as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    # What is already committed cannot be taken back: see `tonframes.fetch.proof`.
    [missing] = caught.value.missing
    assert missing.stop == gap.stop


# ── F34: text where a number belongs ─────────────────────────────────────────────────────────────

KEY = "0123456789abcdef-secret"


def with_text(content, name):
    """Replace every member of a name by the key, as if the service had sent a header back."""
    if isinstance(content, list):
        return [with_text(each, name) for each in content]
    if not isinstance(content, dict):
        return content
    return {key: KEY if key == name else with_text(value, name) for key, value in content.items()}


def names_the_number(call, name):
    """Raise a `DecodeError` with the path of the number, and without the key anywhere."""
    with pytest.raises(tf.DecodeError) as caught:
        call()
    assert caught.value.path.endswith(f".{name}")
    assert "***" in caught.value.found
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["gen_utime", "start_lt", "end_lt", "lt", "shard"])
def test_blocks_with_text_for_a_number_are_refused_by_its_path(service, tmp_path, name):
    def spoilt(truth):
        sent = with_text(content := truth.read(), name)
        return None if truth.operation == INFO or sent == content else telling(sent)

    service.inject(spoilt)
    with connect(service, FakeClock(), api_key=KEY) as client:
        names_the_number(lambda: tf.fetch_blocks(SEQNOS, client=client, store=tmp_path), name)
    assert not Store(tmp_path).held()


def test_a_parent_with_text_for_its_shard_is_no_parent(service, client, tmp_path):
    def spoilt(row):
        return (
            row | {"prev_blocks": with_text(row["prev_blocks"], "shard")} if "shard" in row else row
        )

    service.inject(every(spoilt))
    with pytest.raises(tf.IncompleteError) as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert KEY not in str(caught.value)
    assert not Store(tmp_path).held()


@pytest.mark.parametrize("block", ["first", "last"])
@pytest.mark.parametrize("name", ["gen_utime", "start_lt"])
def test_an_info_with_text_for_a_number_is_refused_by_its_path(chain, tmp_path, block, name):
    account = tf.read_blocks(chain, SEQNOS).transactions.account[0]

    def spoilt(truth):
        content = truth.read()
        return telling(content | {block: content[block] | {name: KEY}})

    with Faulty(chain, windows=True) as service, connect(service, FakeClock(), api_key=KEY) as own:
        service.inject(spoilt, INFO)
        for call in (
            lambda: tf.fetch_transactions(account, client=own, store=tmp_path),
            lambda: next(tf.follow_blocks(client=own, store=None)),
            lambda: tf.seqno_at("2026-01-01", client=own),
        ):
            names_the_number(call, f"{block}.{name}")


def test_a_state_with_text_for_its_last_lt_is_refused_by_its_path(tmp_path, monkeypatch):
    def spoilt(self, addresses, last, states=FakeService._states):
        return with_text(states(self, addresses, last), "last_transaction_lt")

    monkeypatch.setattr(FakeService, "_states", spoilt)
    rows = whole_histories()
    account = rows[0]["account"]
    with FakeService(rows) as service, connect(service, FakeClock(), api_key=KEY) as client:
        for call in (tf.fetch_transactions, tf.fetch_accounts):
            names_the_number(
                lambda call=call: call([account], client=client, store=tmp_path),
                "last_transaction_lt",
            )


# ── F66: messages that are deleted ───────────────────────────────────────────────────────────────


def without_out_message(row):
    return row | {"out_msgs": row["out_msgs"][1:]} if row.get("out_msgs") else row


def with_an_out_message_twice(row):
    return row | {"out_msgs": row["out_msgs"][:1] + row["out_msgs"]} if row.get("out_msgs") else row


def without_in_message(row):
    ordinary = "description" in row and row["description"]["type"] == "ord"
    return row | {"in_msg": None} if ordinary else row


MESSAGES = {
    without_out_message: r"has \d+ out-messages, and \d+ came",
    with_an_out_message_twice: r"has \d+ out-messages, and \d+ came",
    without_in_message: "is ordinary and has no in-message",
}


def test_a_service_without_blocks_must_send_the_messages_too(chain, tmp_path):
    with Faulty(chain, "specification") as service, connect(service, FakeClock()) as client:
        service.inject(at_hit(without_out_message))
        with pytest.raises(tf.IncompleteError, match=r"\d+ out-messages, and") as caught:
            tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert caught.value.missing == (ALONE,)


NO_COUNT = r"block \(.*\) has no tx_count"
#: What is said of each change of the rows of one masterchain block.
LACKS = {uncounted: NO_COUNT, empty_uncounted: NO_COUNT} | {
    change: f"transaction .* {text}" for change, text in MESSAGES.items()
}


@pytest.mark.parametrize("change", LACKS)
def test_what_is_lacking_for_a_while_is_asked_for_again(service, client, chain, change):
    service.inject(at_hit(change), times=3)
    comes_whole(chain, client)
    assert service.met == 3


@pytest.mark.parametrize("change", LACKS)
def test_what_is_lacking_for_ever_is_not_kept(service, client, chain, tmp_path, change):
    service.inject(at_hit(change))
    match = f"masterchain block {HIT} .*: {LACKS[change]}, in every attempt"
    assert fails(chain, service, client, tmp_path, match) == (ALONE,)


@pytest.mark.parametrize("change", MESSAGES)
@pytest.mark.parametrize("place", [0, *slow(1, -1)])
def test_histories_need_the_messages_too(tmp_path, monkeypatch, change, place):
    monkeypatch.setattr("tonframes.fetch.block.FIRST_WAIT", 0.001)
    monkeypatch.setattr("tonframes.fetch.block.LONGEST_WAIT", 0.002)
    rows = whole_histories()
    sent: dict[str, list[dict]] = {}
    for row in rows:
        if change(row) is not row:
            sent.setdefault(row["account"], []).append(row)
    account, mine = max(sent.items(), key=lambda item: len(item[1]))
    hit = mine[place]
    ill = [change(row) if row is hit else row for row in rows]
    with FakeService(ill) as service, Client(service.url) as client:
        fetch = partial(tf.fetch_transactions, account, client=client, store=tmp_path)
        with pytest.raises(tf.IncompleteError, match=f"lt {hit['lt']}.*not with all its messages"):
            fetch()
        assert hit["hash"] not in kept(tmp_path, account)
        service.set_rows(rows)
        history = fetch()
    wanted = [row for row in rows if row["account"] == account]
    assert list(history.transactions.hash) == [row["hash"] for row in wanted]
    assert len(history.messages) == sum(
        (row["in_msg"] is not None) + len(row["out_msgs"]) for row in wanted
    )


def kept(store: Path, account: str) -> list[str]:
    import pyarrow.dataset as ds

    held = ds.dataset(store / "account_transactions").to_table()
    assert set(held["account"].to_pylist()) == {account}
    assert held.schema.names == schema.TRANSACTIONS.schema.names
    hashes: list[str] = held["hash"].to_pylist()
    return hashes
