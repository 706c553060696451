"""How fast and how large decoding is, beside `orjson.loads` of the same bytes.

All contenders take turns within one run, so that noise meets all of them; what is printed are
medians and minima, and their ratios. The minima tell more: orjson makes objects that the garbage
collector looks at, and its time varies. The promises: the frames' Arrow tables of 1000 transactions
in at most 1.4 times the time of `orjson.loads`, and peak memory of at most 12 times the body. Real
transactions have more texts and fewer rows of the address book than synthetic ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from base64 import b64encode
from hashlib import blake2b
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import orjson
import pandas as pd
from chain import synthetic_blocks

import tonframes as tf
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tonframes.wire.tables import Tables

ROUNDS = 31


def body_of(transactions: int) -> bytes:
    """Make the body of one masterchain block, as a service writes it."""
    made = synthetic_blocks(1, transactions_per_block=max(transactions, 10))[0]
    rows = made["transactions"][:transactions]
    body = {"transactions": rows, "address_book": made["address_book"]}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def recorded(transactions: int) -> bytes | None:
    """Make a body of recorded transactions, with hashes of their own; None without the records."""
    folder = Path(__file__).parents[3] / "shared" / "real" / "masterchainBlockShards"
    rows = [row for f in sorted(folder.glob("*.json")) for row in _strict_rows(f)]
    if not rows:
        return None
    numbers = count()
    many = [_distinct(row, numbers) for row in islice(cycle(rows), transactions)]
    for i, row in enumerate(many):
        row["lt"] = str(int(row["lt"]) + i)
    return json.dumps({"transactions": many}, separators=(",", ":"), ensure_ascii=False).encode()


def _strict_rows(file: Path) -> list[dict[str, Any]]:
    """Return the transactions of a file that are written as services write them today."""
    rows = json.loads(file.read_bytes())["transactions"]
    return [row for row in rows if "type" not in (row["description"].get("compute_ph") or {})]


def _distinct(value: Any, numbers: Iterator[int], key: str = "") -> Any:
    """Return a copy in which every hash is another one."""
    if isinstance(value, dict):
        return {name: _distinct(inner, numbers, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_distinct(inner, numbers, key) for inner in value]
    if isinstance(value, str) and len(value) == 44 and ("hash" in key or key == "trace_id"):
        return b64encode(blake2b(str(next(numbers)).encode(), digest_size=32).digest()).decode()
    return value


def pages_of(count: int) -> list[bytes]:
    """Make that many bodies of 20 transactions, of consecutive masterchain blocks."""
    return [
        json.dumps(
            {"transactions": body["transactions"], "address_book": body["address_book"]},
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()
        for body in synthetic_blocks(count, transactions_per_block=20)
    ]


def arrow(*bodies: bytes) -> Tables:
    """Decode bodies into Arrow tables, in one pass over columns."""
    return pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, body) for body in bodies])


def take_turns(
    contenders: dict[str, Callable[[], object]], rounds: int
) -> dict[str, tuple[float, float]]:
    """Return median and least seconds of each function; they are called in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: (median(seconds), min(seconds)) for name, seconds in times.items()}


def report(title: str, contenders: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> None:
    """Print medians and minima, and their ratios to those of the first contender."""
    seconds = take_turns(contenders, rounds)
    of_first = next(iter(seconds.values()))
    print(f"\n{title}")
    for name, times in seconds.items():
        figures = zip(times, of_first, ("median", "least"), strict=True)
        shown = (f"{what} {t * 1e3:8.2f} ms {t / first:6.2f} times" for t, first, what in figures)
        print(f"  {name:<40}", "  ".join(shown))


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
    """Return the peak of this process's resident memory since it was cleared, in bytes."""
    status = Path("/proc/self/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Measure and print all of it."""
    for many in (10, 100, 1000):
        body = body_of(many)
        report(
            f"{many} transactions, {len(body) / 1e6:.2f} MB",
            {
                "orjson.loads": lambda body=body: orjson.loads(body),
                "tonframes, all frames' Arrow tables": lambda body=body: arrow(body),
            },
            rounds=ROUNDS if many > 100 else 5 * ROUNDS,
        )
    if body := recorded(1000):
        report(
            f"1000 recorded transactions, {len(body) / 1e6:.2f} MB",
            {
                "orjson.loads": lambda: orjson.loads(body),
                "tonframes, all frames' Arrow tables": lambda: arrow(body),
            },
        )
    else:
        print("\nrecorded transactions are not here: not measured")
    body = body_of(1000)
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
