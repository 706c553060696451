"""The proofs: whatever single thing is left out, they see it; nothing whole is suspected."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa
import pytest
from chain import synthetic_blocks
from faulty_service import (
    SHARDS,
    STATE,
    FakeClock,
    Faulty,
    absent,
    append,
    connect,
    digests,
    empty,
    lose_if,
    tables_of,
)
from hypothesis import given
from hypothesis import strategies as st

import tonframes as tf
from tonframes.fetch.proof import (
    BrokenError,
    Gap,
    Link,
    Shard,
    advance,
    committing,
    compare,
    lack,
    unlinked,
)
from tonframes.store import Store
from tonframes.wire import pages, schema

MASTER, WHOLE = Shard(-1, 2**63), Shard(0, 2**63)


def halves(shard: Shard) -> tuple[Shard, Shard]:
    bit = (shard.prefix & -shard.prefix) >> 1
    return Shard(shard.workchain, shard.prefix - bit), Shard(shard.workchain, shard.prefix + bit)


# ── shards ───────────────────────────────────────────────────────────────────────────────────────


# ── the chain of blocks ──────────────────────────────────────────────────────────────────────────


@dataclass
class Made:
    """The blocks of some masterchain blocks, and the last ones of all shards around each."""

    states: list[dict[Shard, int]]
    steps: list[list[Link]] = field(default_factory=list)

    def prove(self) -> None:
        state = self.states[0]
        for step in self.steps:
            state = advance(state, step)
        compare(state, self.states[-1])


@st.composite
def chains(draw) -> Made:  # noqa: C901 - all that a shard can do
    """Any chain: shards that make no block, or one or two, that split, and merge."""
    made = Made([{MASTER: 100, WHOLE: 7}])
    for _ in range(draw(st.integers(1, 8))):
        state = dict(made.states[-1])
        step: list[Link] = []

        def build(shard, parents, *, state=state, step=step):
            for parent, _ in parents:
                state.pop(parent, None)
            state[shard] = max(seqno for _, seqno in parents) + 1
            step.append(Link(shard, state[shard], parents, 1))

        build(MASTER, ((MASTER, state[MASTER]),))
        for shard in sorted(made.states[-1].keys() - {MASTER}):
            if shard not in state:  # merged with its sibling
                continue
            seqno = state[shard]
            kind = draw(st.sampled_from(["none", "one", "two", "split", "merge"]))
            if kind == "split":
                for half in halves(shard):
                    build(half, ((shard, seqno),))
            elif kind == "merge" and shard.sibling in made.states[-1].keys() & state.keys():
                pair = sorted((shard, shard.sibling))
                build(shard.parent, tuple((half, state[half]) for half in pair))
            elif kind in ("one", "two"):
                build(shard, ((shard, seqno),))
                if kind == "two":
                    build(shard, ((shard, seqno + 1),))
        made.states.append(state)
        made.steps.append(step)
    return made


@given(chains())
def test_a_chain_that_is_whole_is_proven(made):
    made.prove()


@given(chains(), st.randoms())
def test_blocks_may_come_in_any_order(made, random):
    for step in made.steps:
        random.shuffle(step)
    made.prove()


@given(chains(), st.data())
def test_any_block_that_is_lost_is_missed(made, data):
    step = data.draw(st.sampled_from(made.steps))
    step.remove(data.draw(st.sampled_from(step)))
    with pytest.raises(BrokenError):
        made.prove()


@given(chains(), st.data())
def test_any_row_of_a_state_that_is_lost_is_missed(made, data):
    state = made.states[data.draw(st.sampled_from([0, -1]))]
    del state[data.draw(st.sampled_from(sorted(state)))]
    with pytest.raises(BrokenError):
        made.prove()


@given(chains(), st.data())
def test_a_masterchain_block_that_is_left_out_is_missed(made, data):
    del made.steps[data.draw(st.integers(0, len(made.steps) - 1))]
    with pytest.raises(BrokenError):
        made.prove()


def test_missing_blocks_are_named():
    before = {MASTER: 100, WHOLE: 7}
    block = Link(WHOLE, 9, ((WHOLE, 8),), 0)
    with pytest.raises(BrokenError, match=r"\(0, 8000000000000000, 8\), which is missing"):
        advance(before, [block])
    lower, upper = halves(WHOLE)
    with pytest.raises(BrokenError, match="one shard is missing") as caught:
        advance(before, [Link(upper, 8, ((WHOLE, 7),), 0)])
    assert caught.value.shard == lower


# ── blocks as the synthetic chain has them ───────────────────────────────────────────────────────

FIRST = 90_000_000
COUNT = 80  # a split after 24, a merge after 72


@cache
def bodies() -> list[dict]:
    return synthetic_blocks(COUNT, first_seqno=FIRST, transactions_per_block=6, seed=1)


# ── one masterchain block ────────────────────────────────────────────────────────────────────────


# ── the chain of an account's transactions ───────────────────────────────────────────────────────


@cache
def transactions() -> pa.Table:
    return tables_of(bodies()[:30])["transactions"]


@cache
def inner() -> list[int]:
    """Rows that lie between two others of their account."""
    frame = transactions().to_pandas()
    order = frame.groupby("account").cumcount()
    last = frame.groupby("account")["lt"].transform("size") - 1
    return [i for i in range(len(frame)) if 0 < order[i] < last[i]]


def without(i: int) -> pa.Table:
    rows = transactions()
    return rows.take(pa.array([j for j in range(len(rows)) if j != i]))


@given(st.randoms())
def test_transactions_in_any_order_are_linked(random):
    order = list(range(len(transactions())))
    random.shuffle(order)
    assert unlinked(transactions().take(pa.array(order))) == []


def test_a_file_without_transactions_has_no_links():
    assert unlinked(transactions().slice(0, 0)) == []
    assert unlinked(transactions().slice(0, 1)) == []


@given(st.data())
def test_a_transaction_that_is_lost_between_two_of_its_account_is_missed(data):
    i = data.draw(st.sampled_from(inner()))
    [gap] = unlinked(without(i))
    assert transactions()["mc_block_seqno"][i].as_py() in gap.seqnos
    assert transactions()["lt"][i].as_py() == gap.lt


def test_the_block_of_a_lost_transaction_is_found_by_its_logical_time():
    blocks = tables_of(bodies()[:30])["blocks"]
    rows = transactions()
    for i in inner():
        [gap] = unlinked(without(i))
        seqno = rows["mc_block_seqno"][i].as_py()
        assert committing(gap, blocks) == range(seqno, seqno + 1)
        assert committing(gap, blocks.slice(0, 0)) == gap.seqnos
        other = Gap(gap.seqnos, "1" + gap.account[gap.account.index(":") :], gap.lt)
        assert committing(other, blocks) == gap.seqnos


@given(st.integers(0, 9), st.integers(0, 2**256 - 1))
def test_an_account_is_in_one_of_the_shards_of_its_workchain(depth, number):
    shards = [Shard(0, (2 * i + 1) << (63 - depth)) for i in range(2**depth)]
    [shard] = [shard for shard in shards if shard.contains(f"0:{number:064X}")]
    assert shard.prefix >> (64 - depth) == number >> (256 - depth)
    assert not shard.contains(f"-1:{number:064X}")


@pytest.mark.parametrize(
    "account", ["", "a key", "a:key", "0:key", "0:" + 64 * "Z", "\u0660:" + 64 * "0"]
)
def test_text_that_is_no_raw_address_is_in_no_shard(account):
    gap = Gap(range(FIRST, FIRST + 9), account, 5)
    assert committing(gap, tables_of(bodies()[:9])["blocks"]) == gap.seqnos
    assert not Shard(0, 2**63).contains(account)


def deleted_and_created(**changes) -> pa.Table:
    """Make an account that is deleted, and created by its next transaction."""
    first = {
        "account": "0:AA", "lt": 10, "hash": "a", "prev_trans_lt": 5, "prev_trans_hash": "z",
        "orig_status": "active", "end_status": "nonexist", "mc_block_seqno": 7,
    }  # fmt: skip
    second = {
        "account": "0:AA", "lt": 20, "hash": "b", "prev_trans_lt": 0, "prev_trans_hash": "0",
        "orig_status": "nonexist", "end_status": "active", "mc_block_seqno": 9,
    }  # fmt: skip
    return pa.Table.from_pylist(
        [first | changes.get("first", {}), second | changes.get("then", {})]
    )


def test_an_account_that_was_deleted_begins_anew():
    assert unlinked(deleted_and_created()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"first": {"end_status": "active"}},
        {"then": {"orig_status": "uninit"}},
        {"then": {"prev_trans_lt": 15}},
    ],
    ids=str,
)
def test_an_account_that_was_not_deleted_does_not_begin_anew(changes):
    [gap] = unlinked(deleted_and_created(**changes))
    assert (gap.seqnos, gap.account) == (range(7, 10), "0:AA")


# ── the messages of a transaction ────────────────────────────────────────────────────────────────


def structs(rows) -> list:
    content = json.dumps({"transactions": rows, "address_book": {}}).encode()
    return pages.read(schema.BLOCKS_ANSWER, content).answer.transactions


@cache
def told() -> list[dict]:
    """Return the transactions of the synthetic chain that tell of out-messages."""
    rows = [row for body in bodies() for row in body["transactions"]]
    assert not any(map(lack, structs(rows)))
    sent = [row for row in rows if row["out_msgs"]]
    assert {bool(row["description"].get("bounce")) for row in sent} == {True, False}
    return sent


@pytest.mark.parametrize("kind", ["tick_tock", "storage", "split_prepare", "merge_prepare"])
def test_other_transactions_need_no_in_message(kind):
    row = told()[0]
    other = row | {"description": row["description"] | {"type": kind}, "in_msg": None}
    assert structs([other])
    assert not any(map(lack, structs([other])))


def test_a_failed_action_phase_sends_none_of_its_messages():
    row = next(row for row in told() if row["description"]["action"])
    for success in (False, None):
        action = row["description"]["action"] | {"success": success}
        failed = row | {"out_msgs": [], "description": row["description"] | {"action": action}}
        assert not any(map(lack, structs([failed])))


def test_no_recorded_transaction_lacks_a_message(recorded):
    rows = [row for answer in recorded for row in answer["transactions"]]
    assert len(rows) > 100
    assert not any(map(lack, structs(rows)))


# ── the proof by links, over sockets ─────────────────────────────────────────────────────────────

SEQNOS = range(FIRST + 95, FIRST + 105)
ELECTOR, CONFIG = "-1:" + "3" * 64, "-1:" + "5" * 64


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "truth"
    append(path, synthetic_blocks(20, first_seqno=FIRST + 90, transactions_per_block=6))
    return path


@pytest.fixture
def specified(chain):
    with Faulty(chain, "specification") as service, connect(service, FakeClock()) as client:
        yield service, client


SHOWN = ("transactions", "messages")


def comes_whole(chain, client, **options):
    fetched = tf.fetch_blocks(SEQNOS, client=client, store=None, **options)
    assert digests(fetched, SHOWN) == digests(tf.read_blocks(chain, SEQNOS), SHOWN)


of_elector = lose_if(lambda row: row["account"] == ELECTOR)


def test_links_bring_back_what_was_lost_for_a_while(chain, specified):
    service, client = specified
    service.inject(of_elector, SHARDS, seqno=FIRST + 97, times=3)
    comes_whole(chain, client)
    assert service.met == 3


@pytest.mark.parametrize(
    ("fault", "match"),
    [(of_elector, "do not follow one another"), (empty, "the answer is empty")],
    ids=["one transaction", "all"],
)
def test_links_that_stay_broken_are_named_and_not_kept(chain, specified, tmp_path, fault, match):
    service, client = specified
    service.inject(fault, SHARDS, seqno=FIRST + 97)
    with pytest.raises(tf.IncompleteError, match=match) as caught:
        tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert service.met
    [missing] = caught.value.missing
    assert FIRST + 97 in missing
    assert len(missing) <= 3
    there = caught.value.partial.seqnos
    assert digests(caught.value.partial, SHOWN) == digests(
        tf.read_blocks(chain, [seqno for run in there for seqno in run]), SHOWN
    )
    service.injecting = False
    comes_whole(chain, client)


@pytest.mark.parametrize("seqno", [FIRST + 99, FIRST + 100])
def test_links_end_at_the_border_of_files(specified, tmp_path, seqno):
    """What "links" cannot show, and so does not promise: see `tonframes.fetch.proof`."""
    service, client = specified
    service.inject(lose_if(lambda row: row["account"] == CONFIG), SHARDS, seqno=seqno)
    fetched = tf.fetch_blocks(SEQNOS, client=client, store=tmp_path)
    assert service.met
    rows = fetched.transactions
    assert CONFIG not in set(rows.account[rows.mc_block_seqno == seqno])


def test_the_footer_says_links(specified, tmp_path):
    tf.fetch_blocks(SEQNOS, client=specified[1], store=tmp_path)
    store = Store(tmp_path)
    assert {store.footer(f).proof for f in store.files("transactions").values()} == {"links"}


# ── the first masterchain block of a service ─────────────────────────────────────────────────────


@pytest.mark.parametrize("first", [1, 2, 180])
def test_the_first_masterchain_blocks_of_a_service(tmp_path, first):
    """Before them there is nothing to hold them against: the footer says so."""
    append(tmp_path / "truth", synthetic_blocks(6, first_seqno=first, transactions_per_block=6))
    with Faulty(tmp_path / "truth") as service, connect(service, FakeClock()) as client:
        if first > 1:
            service.inject(absent, STATE, seqno=first - 1)
        fetched = tf.fetch_blocks(range(first, first + 6), client=client, store=tmp_path / "store")
    assert digests(fetched) == digests(tf.read_blocks(tmp_path / "truth"))
    store = Store(tmp_path / "store")
    proofs = {store.footer(file).proof for file in store.files("transactions").values()}
    assert proofs == {"chain, but for the first block"}


BEGIN = range(90_000_150, 90_000_158)


@pytest.fixture(scope="module", params=[False, True], ids=["block by block", "windows"])
def beginning(request, tmp_path_factory):
    """A service whose first masterchain block commits a block without transactions."""
    path = tmp_path_factory.mktemp("beginning")
    made = synthetic_blocks(len(BEGIN), seed=148, first_seqno=BEGIN[0], transactions_per_block=5)
    assert [row["tx_count"] for row in made[0]["blocks"]].count(0) == 1
    append(path, made)
    with Faulty(path, windows=request.param) as service:
        yield service, path


@pytest.mark.parametrize("times", [3, float("inf")])
def test_an_empty_block_that_the_first_masterchain_block_lacks_is_missed(
    beginning, tmp_path, times
):
    service, truth = beginning
    with connect(service, FakeClock()) as client:
        service.inject(
            lose_if(lambda row: row["tx_count"] == 0), SHARDS, seqno=BEGIN[0], times=times
        )
        if times == float("inf"):
            with pytest.raises(
                tf.IncompleteError, match=r"4000000000000000, \d+\) is missing"
            ) as caught:
                tf.fetch_blocks(BEGIN, client=client, store=tmp_path)
            assert caught.value.missing == (BEGIN[:1],)
            assert digests(tf.read_blocks(tmp_path)) == digests(tf.read_blocks(truth, BEGIN[1:]))
            service._rules.clear()
        fetched = tf.fetch_blocks(BEGIN, client=client, store=tmp_path)
    assert digests(fetched) == digests(tf.read_blocks(truth))


def test_a_shard_without_a_block_in_the_first_masterchain_block_is_not_missed(tmp_path):
    made = synthetic_blocks(8, seed=148, first_seqno=BEGIN[0], transactions_per_block=5)[3:]
    assert len(made[0]["blocks"]) == 2, "one of two shards stands still"
    append(tmp_path / "truth", made)
    with Faulty(tmp_path / "truth") as service, connect(service, FakeClock()) as client:
        fetched = tf.fetch_blocks(BEGIN[3:], client=client, store=tmp_path / "store")
    assert digests(fetched) == digests(tf.read_blocks(tmp_path / "truth"))
