"""The made-up chain of `make bench-scale` is one that the package takes for a real one."""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from benchmarks import bench_scale
from benchmarks.scale.chain import SEQNO, Chain
from benchmarks.scale.limits import in_a_process
from benchmarks.scale.measures import ENGINES, HELPERS, by_hand, helper
from benchmarks.scale.report import as_markdown
from benchmarks.scale.rows import tables_of
from benchmarks.scale.templates import templates
from benchmarks.scale.writing import NETWORK, SERVICE, _write_spans, _write_wide, write_span

import tonframes as tf
from tonframes.seqnos import SPAN, WIDTHS
from tonframes.store import Store


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
def test_the_benchmark_measures_a_small_store(tmp_path):
    program = Path(__file__).parent / "benchmarks" / "bench_scale.py"
    results, table = tmp_path / "scale.json", tmp_path / "scale.md"
    command = [sys.executable, program, "0.02", "--store", tmp_path / "store"]
    command += ["--json", results, "--table", table, "--engines", "duckdb"]
    command += ["--by-account"]
    command += ["--helpers", "fee_summary", "gas_outliers"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [size] = json.loads(results.read_text())["sizes"]
    measures = list(size["steps"].values())
    for each in (*size["questions"].values(), *size["helpers"].values()):
        measures += each.values()
        assert len({taken["rows"] for taken in each.values()}) == 1, each
    assert [taken["failed"] for taken in measures if taken["failed"]] == []
    assert size["after"]["transactions"]["rows"] >= 20_000
    assert not (tmp_path / "store").exists()
    assert "| fee_summary | duckdb |" in table.read_text()


def test_a_measure_after_the_end_is_not_made(capsys):
    options = bench_scale.options_of(["1"])
    options.end = time.monotonic() - 1
    # A process would fail in another way: there is no such store.
    found = bench_scale.measure(options, "helper", "duckdb", "ours", "flows")
    assert found.failed == "no time left"
    assert "no time left" in capsys.readouterr().out


def taken(seconds, failed=""):
    return {"seconds": seconds, "cpu": seconds, "peak": 10, "rows": 5, "failed": failed}


def test_a_table_shows_growth_and_what_failed():
    tables = {name: {"files": 3, "bytes": 500, "rows": 2} for name in
              ("transactions", "messages", "blocks")}  # fmt: skip
    small, large = (
        {"millions": millions, "steps": {"wide": taken(2.0) | {"added": 6}}, "questions": {},
         "before": tables, "after": tables}
        for millions in (1, 3)
    )  # fmt: skip
    small["helpers"] = {"flows, duckdb": {"ours": taken(2.0), "by hand": taken(1.0)},
                        "activity, duckdb": {"ours": taken(1.0)}}  # fmt: skip
    large["helpers"] = {"flows, duckdb": {"ours": taken(9.0), "by hand": taken(0, "memory")}}
    text = as_markdown({"cores": 4, "memory": 24, "load": 1, "sizes": [small, large]})
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["flows", "duckdb", "2.00", "10", "2.0", "9.00", "10", "", "4.5"] in lines
    assert ["activity", "duckdb", "1.00", "10", "", "", "", "", ""] in lines
    assert ["made in files of compaction, on all cores, transactions a second", "3", "3"] in lines
    assert ["compacted, in one process, transactions a second", "-", "-"] in lines


@pytest.mark.slow
def test_wide_files_are_those_that_compaction_makes(tmp_path):
    chain = Chain()
    rows, seqnos = chain.go_on(WIDTHS[1]), range(SEQNO, SEQNO + WIDTHS[1])
    for write in (_write_spans, _write_wide):
        Store(tmp_path / write.__name__).claim(NETWORK, SERVICE)
        write(tmp_path / write.__name__, rows, seqnos)
    assert tf.compact_store(tmp_path / "_write_spans", grace="0s") == [seqnos]
    for table in ("transactions", "messages", "blocks"):
        [compacted] = (tmp_path / "_write_spans" / table).iterdir()
        [made] = (tmp_path / "_write_wide" / table).iterdir()
        assert made.name == compacted.name
        assert made.read_bytes() == compacted.read_bytes()


def test_a_measure_that_takes_too_much_is_stopped():
    long = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert in_a_process(long, megabytes=1000, seconds=0.5).failed == "time"
    large = [sys.executable, "-c", "x = bytearray(300_000_000); import time; time.sleep(60)"]
    assert in_a_process(large, megabytes=100, seconds=60).failed == "memory"
    wrong = [sys.executable, "-c", "raise ValueError('no store\\nSee also')"]
    assert in_a_process(wrong, megabytes=1000, seconds=60).failed == "ValueError: no store"


def test_what_a_measure_has_spilled_is_removed():
    code = "import tempfile, time; tempfile.mkdtemp(prefix='spilled-'); time.sleep(60)"
    assert in_a_process([sys.executable, "-c", code], megabytes=1000, seconds=2).failed == "time"
    assert not list(Path(tempfile.gettempdir()).glob("spilled-*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", HELPERS)
def test_helpers_have_as_many_rows_as_queries_written_by_hand(store, name):
    counts = {engine: helper(engine, "ours", name, store) for engine in ENGINES}
    counts |= {
        f"{engine} by hand": helper(engine, "by hand", name, store)
        for engine in ENGINES
        if name in by_hand(engine)
    }
    assert len(set(counts.values())) == 1, counts


def test_the_guide_counts_with_the_bytes_that_were_measured():
    guide = Path(__file__).parents[1] / "docs" / "guide"
    size = json.loads((guide / "measured" / "scale.json").read_text())["sizes"][-1]["after"]
    measured = sum(table["bytes"] for table in size.values()) / size["transactions"]["rows"]
    said = re.search(r"^BYTES = ([0-9]+)$", (guide / "scale.md").read_text(), re.MULTILINE)
    assert abs(int(said[1]) / measured - 1) < 0.1
    table = (guide / "measured" / "scale.md").read_text()
    assert table == as_markdown(json.loads((guide / "measured" / "scale.json").read_text()))
