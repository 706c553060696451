"""The made-up chain of `make bench-scale` is one that the package takes for a real one."""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from benchmarks import bench_scale
from benchmarks.scale.limits import in_a_process
from benchmarks.scale.measures import ENGINES, HELPERS, by_hand, helper
from benchmarks.scale.report import as_markdown
from benchmarks.scale.rows import SEQNO
from benchmarks.scale.writing import NETWORK, SERVICE, write_narrow, write_wide

import tonframes as tf
from tonframes.seqnos import SPAN, WIDTHS
from tonframes.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "store"
    Store(path).claim(NETWORK, SERVICE)
    for start in (SEQNO, SEQNO + SPAN):
        write_narrow(path, range(start, start + SPAN))
    return path


def test_a_store_of_made_up_transactions_is_whole(store):
    assert tf.verify_store(store) == {}


def test_made_up_transactions_are_distinct_and_follow_each_other(store):
    blocks = tf.read_blocks(store)
    messages, rows = blocks.messages, blocks.transactions.sort_values(["account", "lt"])
    assert rows.hash.is_unique
    assert not messages.duplicated(["tx_hash", "direction", "position"]).any()
    assert messages.tx_hash.isin(rows.hash).all()
    assert messages.msg_hash.duplicated().sum() > 1000  # one is sent and received
    assert rows.prev_trans_hash.isin(rows.hash).sum() > 1000
    both = rows.groupby("account").mc_block_seqno.agg(["min", "max"]) >= SEQNO + SPAN
    assert 0 < (both["min"] != both["max"]).sum() < 0.5 * len(both)
    assert set(tf.check_fees(blocks).verdict) == {"ok"}


def test_bodies_are_whole_bags_of_cells_of_their_own(store):
    messages = tf.read_blocks(store, range(SEQNO + SPAN, SEQNO + 2 * SPAN)).messages
    assert not messages.body.isin(tf.read_blocks(tf.sample()).messages.body).mean() > 0.6
    decoded = tf.decode_bodies(messages.head(500))
    assert (decoded.kind.notna() & decoded.error.isna()).sum() > 100


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
    seqnos = range(SEQNO, SEQNO + WIDTHS[1])
    for name in ("narrow", "wide"):
        Store(tmp_path / name).claim(NETWORK, SERVICE)
    for start in seqnos[::SPAN]:
        write_narrow(tmp_path / "narrow", range(start, start + SPAN))
    write_wide(tmp_path / "wide", seqnos)
    assert tf.compact_store(tmp_path / "narrow", grace="0s") == [seqnos]
    for table in ("transactions", "messages", "blocks"):
        [compacted] = (tmp_path / "narrow" / table).iterdir()
        [made] = (tmp_path / "wide" / table).iterdir()
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
