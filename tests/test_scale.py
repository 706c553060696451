"""The made-up chain of `make bench-scale` is one that the package takes for a real one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from benchmarks.scale.chain import Chain
from benchmarks.scale.limits import in_a_process
from benchmarks.scale.rows import tables_of
from benchmarks.scale.templates import templates
from benchmarks.scale.writing import NETWORK, SERVICE, write_span

import tonframes as tf
from tonframes.store import SPAN, Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "store"
    Store(path).claim(NETWORK, SERVICE)
    chain = Chain()
    for _ in range(2):
        first = chain.seqno
        rows = chain.go_on(SPAN)
        write_span(path, tables_of(rows, range(first, chain.seqno)), range(first, chain.seqno))
    return path


def test_a_store_of_made_up_transactions_is_whole(store):
    assert tf.verify_store(store) == {}


def test_transactions_and_messages_are_distinct(store):
    blocks = tf.read_blocks(store)
    transactions, messages = blocks.arrow("transactions"), blocks.arrow("messages")
    assert len(transactions) == pc.count_distinct(transactions["hash"]).as_py()
    keys = ["tx_hash", "direction", "position"]
    assert len(messages) == len(messages.group_by(keys).aggregate([]))
    assert len(pc.unique(messages["msg_hash"])) < len(messages)  # one is sent and received


@pytest.mark.slow
def test_balances_and_fees_follow_the_rules(store):
    blocks = tf.read_blocks(store)
    assert set(tf.check_balances(blocks).verdict) == {"ok"}
    some = tf.read_blocks(store, blocks.seqnos[0][-20:])
    assert set(tf.check_fees(some).verdict) == {"ok"}
    assert blocks.transactions.account_state_balance_after.min() >= 0


def test_an_account_names_its_transaction_before(store):
    rows = tf.read_blocks(store).transactions.sort_values(["account", "lt"])
    follows = (rows.account == rows.account.shift()).to_numpy()
    assert follows.sum() > 1000
    assert (rows.prev_trans_hash == rows.hash.shift())[follows].all()
    assert (rows.prev_trans_lt == rows["lt"].shift())[follows].all()


@pytest.mark.slow
def test_a_service_proves_a_made_up_chain_by_its_blocks(store):
    seqnos = tf.read_blocks(store).seqnos[0]
    middle = range(seqnos.start + SPAN - 5, seqnos.start + SPAN + 5)
    with tf.serve(store, dialect="service") as url, tf.Client(url) as client:
        blocks = tf.fetch_blocks(middle, client=client, store=None)
    held = tf.read_blocks(store, middle)
    assert blocks.arrow("messages").equals(held.arrow("messages"))
    exchanged = ["compute_gas_used", "compute_gas_fees", "has_credit"]  # see undo_gas_exchange
    ours, theirs = (b.arrow("transactions").drop_columns(exchanged) for b in (blocks, held))
    assert ours.equals(theirs)


def test_bodies_are_whole_bags_of_cells_of_their_own(store):
    messages = tf.read_blocks(store).messages
    bodies = messages.body.drop_duplicates()
    assert len(bodies) > 0.4 * messages.msg_hash.nunique()
    decoded = tf.decode_bodies(messages.head(500))
    assert (decoded.kind.notna() & decoded.error.isna()).sum() > 100


def test_a_chain_goes_on_where_it_was():
    chain = Chain()
    first, second = chain.go_on(25), chain.go_on(35)
    assert (np.diff(np.concatenate([first.lt, second.lt])) > 0).all()
    assert set(first.number).isdisjoint(second.number)
    linked = np.isin(second.previous[second.previous >= 0], first.number)
    assert linked.sum() > 100


def test_templates_are_whole_traces():
    found = templates()
    assert len(found.size) > 1000
    assert found.size.sum() == len(found.transactions)
    assert found.messages_of.sum() == len(found.messages)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_benchmark_measures_everything_on_small_stores(tmp_path):
    program = Path(__file__).parent / "benchmarks" / "bench_scale.py"
    results, table = tmp_path / "scale.json", tmp_path / "scale.md"
    command = [sys.executable, program, "0.02", "0.06", "--store", tmp_path / "store"]
    command += ["--json", results, "--table", table]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    small, large = json.loads(results.read_text())["sizes"]
    for size in (small, large):
        measures = [size["build"], size["compaction"]]
        for each in (*size["questions"].values(), *size["helpers"].values()):
            measures += each.values()
            rows = {side: taken["rows"] for side, taken in each.items()}
            assert len(set(rows.values())) == 1, rows
        assert [taken["failed"] for taken in measures if taken["failed"]] == []
    assert large["after"]["transactions"]["rows"] > 2 * small["after"]["transactions"]["rows"]
    assert not (tmp_path / "store").exists()
    assert "| fee_summary | duckdb |" in table.read_text()


def test_a_measure_that_takes_too_much_is_stopped():
    long = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert in_a_process(long, megabytes=1000, seconds=0.5).failed == "time"
    large = [sys.executable, "-c", "x = bytearray(300_000_000); import time; time.sleep(60)"]
    assert in_a_process(large, megabytes=100, seconds=60).failed == "memory"
    wrong = [sys.executable, "-c", "raise ValueError('no store')"]
    assert in_a_process(wrong, megabytes=1000, seconds=60).failed == "ValueError: no store"
