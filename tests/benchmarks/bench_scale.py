"""How far one machine goes: stores of many million distinct transactions, and what they take.

One store is made, measured, made longer and measured again. Each measure has a process of its own,
with a limit of memory and of time, so that one that fails does not end the run. Queries written by
hand are measured in turn with the helpers, on the same files. Time is that of the clock. A ratio is
of the processor's time, which other work on the machine changes least.

    python tests/benchmarks/bench_scale.py 10 30 [--store build/scale] [--json …] [--table …]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scale.limits import Clock, Taken, in_a_process
from benchmarks.scale.measures import (
    ENGINES,
    HELPERS,
    QUESTIONS,
    Asked,
    by_hand,
    helper,
    question,
)
from benchmarks.scale.report import as_markdown
from benchmarks.scale.writing import extend

import tonframes as tf
from tonframes.seqnos import SPAN

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDES = ("ours", "by hand")
#: About how many a transaction takes on the disk before compaction, with its messages and blocks.
_BYTES = 560
#: An account is asked for that has at most so many transactions in a row group.
_RARE = 3
#: What makes a store: it is done, however long the rest has taken.
_STEPS = ("build", "compact", "sort")
#: The question that copies that are sorted by account answer.
_ACCOUNT = "all of an account"


def one(task: list[str]) -> None:
    """Do one thing in this process, and print what it took."""
    what, store, *rest = task
    path = Path(store)
    with Clock() as clock:
        match what:
            case "build":
                clock.rows = extend(path, float(rest[0]), wide=rest[1] == "wide")
            case "compact":
                tf.compact_store(path, grace="0s")
            case "sort":
                tf.compact_store(path, grace="0s", by_account=True)
            case "helper":
                clock.rows = helper(*rest, path)
            case "question":
                *names, part = rest
                clock.rows = question(*names, path, Asked(**json.loads(part)))


def measure(options: argparse.Namespace, *task: str) -> Taken:
    """Do one thing in a process of its own."""
    what, *rest = task
    command = [sys.executable, __file__, "one", what, str(options.store), *rest]
    limits = {"megabytes": options.memory, "seconds": options.seconds}
    if what in _STEPS:
        limits["seconds"] = options.seconds * 10
    else:
        limits["seconds"] = min(options.seconds, options.end - time.monotonic())
    left = limits["seconds"] > 0
    taken = in_a_process(command, **limits) if left else Taken(failed="no time left")
    said = taken.failed or (
        f"{taken.seconds:8.2f} s {taken.cpu:8.2f} s CPU {taken.peak:6} MB {taken.rows:12,} rows"
    )
    print(f"  {' '.join(rest[:3]) or what:<48} {said}", flush=True)
    return taken


def best(runs: list[Taken]) -> Taken:
    """Return the fastest run, or one that failed if all did."""
    return min(runs, key=lambda run: (bool(run.failed), run.seconds))


def measured(options: argparse.Namespace, what: str, *names: str, rest: tuple[str, ...] = ()):
    """Measure both sides in turn."""
    sides = SIDES if what == "question" or names[1] in by_hand(names[0]) else SIDES[:1]
    runs: dict[str, list[Taken]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, found in runs.items():
            if not found or not found[-1].failed:
                found.append(measure(options, what, names[0], side, *names[1:], *rest))
    return {side: asdict(best(found)) for side, found in runs.items()}


def sizes(store: Path, *, narrow: bool = False) -> dict[str, dict[str, int]]:
    """Return files, bytes and rows of each table, by its name; those of narrow files if asked."""
    found = {}
    for table in ("transactions", "messages", "blocks"):
        files = sorted((store / table).glob("*.parquet"))
        files = [file for file in files if not narrow or _width(file) <= SPAN]
        found[table] = {
            "files": len(files),
            "bytes": sum(file.stat().st_size for file in files),
            "rows": sum(pq.read_metadata(file).num_rows for file in files),
        }
    return found


def _width(file: Path) -> int:
    start, stop = map(int, file.stem.split("-"))
    return stop - start


def part_of(store: Path) -> Asked:
    """Choose what the questions are about: the middle of a store, and an account there."""
    held = sorted((store / "transactions").glob("*.parquet"))
    seqnos = range(int(held[0].stem[:11]), int(held[-1].stem[-11:]))
    group = pq.ParquetFile(held[len(held) // 2]).read_row_group(0, columns=["account", "now"])
    accounts, now = group["account"], group["now"][0].as_py()
    # One that has something to do again and again, but is not one of the most popular.
    counts = [found for found in accounts.value_counts().to_pylist() if found["counts"] <= _RARE]
    account = max(counts, key=lambda found: (found["counts"], found["values"]))["values"]
    middle, since = seqnos[len(seqnos) // 2], now // 86_400 * 86_400
    return Asked(middle, middle + 100, since, since + 86_400, account)


def size_of(
    options: argparse.Namespace, millions: float, names: Iterable[str]
) -> dict[str, object]:
    """Make the store so large, and measure the questions and some helpers."""
    store = options.store
    print(f"{millions:g} million transactions", flush=True)
    steps = {}
    # A part is written as fetches write it, to be compacted, and the rest as compaction writes it.
    for step, wanted in {"narrow": min(millions, options.narrow), "wide": millions}.items():
        held = sizes(store)["transactions"]["rows"]
        if held < wanted * 1_000_000:
            taken = measure(options, "build", str(wanted), step)
            steps[step] = asdict(taken) | {"added": taken.rows - held}
    before = sizes(store, narrow=True)
    if before["transactions"]["files"]:
        taken = measure(options, "compact")
        steps["compaction"] = asdict(taken) | {"added": before["transactions"]["rows"]}
    after = sizes(store)
    rest = (json.dumps(asdict(part_of(store))),)
    questions = {}
    for engine, name in [("read_blocks", "100 seqnos"), *product(options.engines, QUESTIONS)]:
        key = f"{name}, {engine}"
        questions[key] = measured(options, "question", engine, name, rest=rest)
    if options.by_account:
        steps["sort"] = asdict(measure(options, "sort")) | {"added": after["transactions"]["rows"]}
        for engine in options.engines:
            found = measure(options, "question", engine, "ours", _ACCOUNT, *rest)
            questions[f"{_ACCOUNT}, from sorted copies, {engine}"] = {"ours": asdict(found)}
    helpers = {
        f"{name}, {engine}": measured(options, "helper", engine, name)
        for name in names
        for engine in options.engines
    }
    return {
        "millions": millions,
        "steps": steps,
        "before": before,
        "after": after,
        "questions": questions,
        "helpers": helpers,
    }


def machine() -> dict[str, object]:
    """Return what the machine has."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory": round(memory / 2**30), "system": sys.platform}


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("millions", type=float, nargs="*")
    parser.add_argument("--store", type=Path, default=Path("build/scale/store"))
    parser.add_argument("--keep", action="store_true", help="leave the store, and go on with it")
    parser.add_argument("--json", type=Path, help="write the results as JSON")
    parser.add_argument("--table", type=Path, help="write the results as Markdown")
    parser.add_argument("--memory", type=int, default=4000, help="MB of a process")
    parser.add_argument("--seconds", type=float, default=300.0, help="of a measure")
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="of the whole run: each size has the same part of them, and what is left is not made",
    )
    parser.add_argument("--narrow", type=float, default=1.0, help="million written as by a fetch")
    parser.add_argument("--by-account", action="store_true", help="make sorted copies, too")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--helpers", nargs="*", default=list(HELPERS), choices=list(HELPERS))
    parser.add_argument(
        "--larger",
        nargs="*",
        default=list(HELPERS),
        choices=list(HELPERS),
        help="helpers that are measured at more than the first size",
    )
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    return parser.parse_args(arguments)


def as_many_as_fit(folder: Path) -> list[float]:
    """Return 10, and as many tens of millions as half of the free disk takes."""
    tens = shutil.disk_usage(folder).free // 2 // (10_000_000 * _BYTES)
    return [10.0, *([10.0 * tens] if tens > 1 else [])]


def main(options: argparse.Namespace) -> None:
    """Make a store of each size, the smallest first, and measure it."""
    start = time.monotonic()
    options.store.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, object] = {"made": time.strftime("%Y-%m-%d"), **machine(), "sizes": []}
    try:
        wanted = sorted(options.millions or as_many_as_fit(options.store.parent))
        for number, millions in enumerate(wanted):
            options.end = start + options.minutes * 60 * (number + 1) / len(wanted)
            names = [name for name in options.helpers if not number or name in options.larger]
            found["sizes"].append(size_of(options, millions, names))
            found["load"] = round(os.getloadavg()[2])
            if options.json:  # what is measured stays, if the rest fails
                options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    finally:
        if not options.keep:
            shutil.rmtree(options.store, ignore_errors=True)
    table = as_markdown(found)
    print(table)
    if options.table:
        options.table.write_text(table, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2:])
    else:
        main(options_of(sys.argv[1:]))
