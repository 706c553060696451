"""How fast and how large decoding is, beside `orjson.loads` of the same bytes.

All contenders take turns within one run, so that noise meets all of them; what is printed are
medians and their ratios. The promises: the frames' Arrow tables of 1000 transactions in at most
1.2 times the time of `orjson.loads`, and peak memory of at most 12 times the body.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import orjson
import pandas as pd

import tonframes as tf
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonframes.wire.tables import Tables

ROUNDS = 31


def body_of(transactions: int) -> bytes:
    """Make the body of one masterchain block, as a service writes it."""
    made = tf.synthetic_blocks(1, transactions_per_block=max(transactions, 10))[0]
    rows = made["transactions"][:transactions]
    body = {"transactions": rows, "address_book": made["address_book"]}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def pages_of(count: int) -> list[bytes]:
    """Make that many bodies of 20 transactions, of consecutive masterchain blocks."""
    return [
        json.dumps(
            {"transactions": body["transactions"], "address_book": body["address_book"]},
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()
        for body in tf.synthetic_blocks(count, transactions_per_block=20)
    ]


def arrow(*bodies: bytes) -> Tables:
    """Decode bodies into Arrow tables, in one pass over columns."""
    return pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, body) for body in bodies])


def take_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Give the median seconds of each, all called in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: median(seconds) for name, seconds in times.items()}


def report(title: str, contenders: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> None:
    """Print medians, and ratios to the first contender."""
    seconds = take_turns(contenders, rounds)
    yardstick = next(iter(seconds.values()))
    print(f"\n{title}")
    for name, value in seconds.items():
        print(f"  {name:<42}{value * 1e3:10.2f} ms {value / yardstick:8.2f} times")


def peak_memory(file: Path) -> float:
    """Decode a body in a process of its own; how much its peak grew, as a multiple of the body."""
    code = f"import {Path(__file__).stem} as b; b.show_peak({str(file)!r})"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=Path(__file__).parent
    ).stdout
    return float(output)


def show_peak(file: str) -> None:
    """Print how much the peak grows while the body in a file is decoded."""
    arrow(b'{"transactions": []}')  # what is made once and for all
    body = Path(file).read_bytes()
    # ru_maxrss would be that of the process that started this one (getrusage(2), execve(2)).
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    before = _peak()
    tables = arrow(body)
    after = _peak()
    del tables
    print((after - before) / len(body))


def _peak() -> int:
    """Give the peak of this process's resident memory since it was cleared, in bytes."""
    status = Path("/proc/self/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Measure and print all of it."""
    for count in (10, 100, 1000):
        body = body_of(count)
        report(
            f"{count} transactions, {len(body) / 1e6:.2f} MB",
            {
                "orjson.loads": lambda body=body: orjson.loads(body),
                "tonframes, all frames' Arrow tables": lambda body=body: arrow(body),
            },
            rounds=ROUNDS if count > 100 else 5 * ROUNDS,
        )
    small = pages_of(50)
    report(
        f"50 pages of 20 transactions, {sum(map(len, small)) / 1e6:.2f} MB",
        {
            "orjson.loads, each": lambda: [orjson.loads(page) for page in small],
            "tonframes, joined into one pass": lambda: arrow(*small),
            "tonframes, each by itself": lambda: [arrow(page) for page in small],
        },
    )
    blocks = tf.parse_blocks(body)
    report(
        "1000 transactions, other ways and the ways on",
        {
            "orjson.loads": lambda: orjson.loads(body),
            "json.loads + pandas.json_normalize": lambda: naive(body),
            "Arrow tables to pandas": lambda: [blocks.frame(name) for name in blocks.names],
            "Arrow tables to pandas, Arrow dtypes": lambda: [
                blocks.frame(name, dtype_backend="pyarrow") for name in blocks.names
            ],
            "to_json": blocks.to_json,
        },
        rounds=5,
    )
    with TemporaryDirectory() as folder:
        file = Path(folder, "body.json")
        file.write_bytes(body)
        growth = median(peak_memory(file) for _ in range(3))
    print(f"\npeak memory of decoding 1000 transactions: {growth:.1f} times the body")


def naive(body: bytes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flatten as one would without tonframes: every amount stays text, nothing is checked."""
    rows = json.loads(body)["transactions"]
    return (
        pd.json_normalize(rows, sep="_"),
        pd.json_normalize(rows, "out_msgs", ["hash"], record_prefix="msg_", sep="_"),
    )


if __name__ == "__main__":
    main()
