"""How fast fetching is, and whether its memory stays where it is.

Throughput: from a local service in a process of its own, without a limit of the rate; beside it
the floor, which reads the same bodies one after the other and does nothing but `orjson.loads`.
Both take turns within one run, so that noise meets both; what is printed are medians and their
ratio. The promise: at most 1.5 times the floor.

Memory: the peaks of processes that fetch more and more masterchain blocks to the disk. What is not
committed yet is at most a file; beside it are pages that come before their turn. The promise: 100
times as many blocks take at most 1.2 times the memory. Not kept: importing takes most of the first
peak, 10 masterchain blocks are less than a page, and allocators keep what they once had.

Cores: the same from a service that answers without work, by one process and by several on as many
cores, their start included; beside it the floor. The promise: more cores are faster.

Requests: how many a million transactions take, and how much of a rate limit is used.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import orjson
import requests
from chain import Chain

import tonframes as tf
from tonframes.fetch.network import lacks_windows
from tonframes.seqnos import ranges
from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order, stamped

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Masterchain blocks and the transactions of each: as busy as the real chain is, and small ones.
BUSY, SMALL = (60, 250), (1000, 20)
ROUNDS = 7
#: Limits of the rate, and the rows of a page that make a fetch last some time.
RATES = {10: 250, 25: 100, 100: 25}
#: Masterchain blocks that show what more cores do, the numbers of processes, and the rounds.
LONG, PROCESSES, TURNS = (1000, 100), (1, 2, 4), 3
#: How many masterchain blocks are fetched to see what memory they take; 100 fill a file.
LENGTHS = (10, 100, 1000)


def make(path: Path, blocks: int, transactions: int) -> range:
    """Make a store of a synthetic chain, some masterchain blocks at a time."""
    chain = Chain(seed=2, transactions_per_block=transactions)
    store = Store(path)
    store.claim("-217", "synthetic")
    start = chain.seqno + 1
    for _ in range(0, blocks, 20):
        bodies = [json.dumps(chain.next_block()).encode() for _ in range(20)]
        read = [pages.read(schema.BLOCKS_ANSWER, body) for body in bodies]
        tables = stamped(in_order(pages.blocks_tables(read)), datetime.now(UTC))
        seqnos = ranges(tables["blocks"]["mc_block_seqno"].to_pylist())
        store.write_blocks(tables, seqnos, proof="synthetic")
    return range(start, start + blocks)


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """Serve a store in a process of its own."""
    command = [sys.executable, "-m", "tonframes", "serve", str(path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--dialect", "service"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def floor(url: str, seqnos: range) -> int:
    """Read what a fetch reads, and take it for JSON; count the transactions."""
    count = 0
    with requests.Session() as session:
        for seqno in seqnos:
            page = {"seqno": seqno, "limit": 1000, "offset": 0, "sort": "asc"}
            for operation in ("masterchainBlockShards", "transactionsByMasterchainBlock"):
                answer = session.get(f"{url}/api/v3/{operation}", params=page, timeout=60)
                count += len(orjson.loads(answer.content).get("transactions", ()))
    return count


def fetch(url: str, seqnos: range, store: Path) -> int:
    """Fetch to the disk; count the transactions by the footers."""
    with tf.Client(url) as client:
        tf.fetch_blocks(seqnos, client=client, store=store, progress=False)
    return Store(store).count("transactions", (seqnos,))


def show_throughput(folder: Path) -> None:
    """Print transactions per second beside the floor's."""
    seqnos = make(folder / "busy", *BUSY)
    times: dict[str, list[float]] = {"floor": [], "fetch": []}
    with serving(folder / "busy") as url:
        expected = floor(url, seqnos)  # the service keeps what it has encoded once
        for number in range(ROUNDS):
            store = folder / f"fetched-{number}"
            for name, call in {
                "floor": lambda: floor(url, seqnos),
                "fetch": lambda store=store: fetch(url, seqnos, store),
            }.items():
                start = time.perf_counter()
                count = call()
                times[name].append(time.perf_counter() - start)
                if count != expected:
                    raise SystemExit(f"{name}: {count} transactions, expected {expected}")
    print(f"\n{len(seqnos)} masterchain blocks of {BUSY[1]} transactions, from a local service")
    for name, seconds in times.items():
        print(f"  {name:<42}{expected / median(seconds):10.0f} transactions/s")
    ratio = median(times["fetch"]) / median(times["floor"])
    print(f"  {'fetch beside the floor':<42}{ratio:10.2f} times")


class Replayed(asyncio.Protocol):
    """Answers from memory, by operation and seqno."""

    answers: dict[tuple[str, str], bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            path, _, query = head.split(b" ", 2)[1].decode().partition("?")
            seqno = dict(part.partition("=")[::2] for part in query.split("&")).get("seqno", "")
            found = self.answers.get((path.rpartition("/")[2], seqno))
            status, body = (b"200 OK", found) if found else (b"500 Error", CANNOT % path.encode())
            self._transport.write(HEAD % (status, len(body)) + body)


HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
CANNOT = b'{"error":"internal server error: Cannot GET %b"}'


def replay(answers: dict[tuple[str, str], bytes], port: int) -> None:
    """Answer from memory, beside other processes at the same port."""
    Replayed.answers = answers

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(
            Replayed, "127.0.0.1", port, reuse_port=True
        )
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def replaying(url: str, seqnos: range) -> Iterator[str]:
    """Serve what a service has answered about masterchain blocks, from two processes."""
    answers: dict[tuple[str, str], bytes] = {}
    with requests.Session() as session:
        for operation, wanted in {
            "masterchainInfo": [""],
            "masterchainBlockShardState": range(seqnos.start - 1, seqnos.stop),
            "masterchainBlockShards": seqnos,
            "transactionsByMasterchainBlock": seqnos,
        }.items():
            for seqno in wanted:
                page = {"seqno": seqno, "limit": 1000, "offset": 0, "sort": "asc"}
                answer = session.get(f"{url}/api/v3/{operation}", params=page, timeout=60)
                if answer.ok:
                    answers[operation, str(seqno)] = answer.content
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        context = get_context("fork")
        processes = [context.Process(target=replay, args=(answers, port)) for _ in range(2)]
        for process in processes:
            process.start()
        time.sleep(1)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            for process in processes:
                process.kill()
                process.join()


def show_time(url: str, start: int, stop: int, store: str, executor: int) -> None:
    """Fetch on so many cores and with as many processes; print the seconds. 0 is the floor."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: max(1, executor)])
    began = time.perf_counter()
    if executor:
        with tf.Client(url) as client:
            tf.fetch_blocks(
                range(start, stop), client=client, store=store, executor=executor, progress=False
            )
    else:
        floor(url, range(start, stop))
    print(time.perf_counter() - began)


def show_cores(folder: Path) -> None:
    """Print transactions per second of one process and of several."""
    seqnos = make(folder / "long", *LONG)[1:]
    count = len(seqnos) * LONG[1]
    times: dict[int, list[float]] = {executor: [] for executor in (0, *PROCESSES)}
    with serving(folder / "long") as service, replaying(service, seqnos) as url:
        for turn in range(TURNS):
            for executor, seconds in times.items():
                store = folder / f"cores-{turn}-{executor}"
                arguments = (url, seqnos.start, seqnos.stop, str(store), executor)
                seconds.append(float(_output(f"show_time(*{arguments!r})")))
    print(f"\n{len(seqnos)} masterchain blocks of {LONG[1]} transactions, answered from memory")
    for executor, seconds in times.items():
        name = f"{executor} processes on as many cores" if executor else "the floor, on one core"
        rate, ratio = count / median(seconds), median(times[1]) / median(seconds)
        print(f"  {name:<42}{rate:10.0f} transactions/s {ratio:8.2f} times one process")


def _output(code: str) -> str:
    """Return what a function of this module prints in a process of its own."""
    command = [sys.executable, "-c", f"import {Path(__file__).stem} as b; b.{code}"]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent
    ).stdout


def show_peak(url: str, start: int, stop: int, store: str) -> None:
    """Fetch, in a process of its own, and print its peak of memory in bytes."""
    fetch(url, range(start, stop), Path(store))
    # Not getrusage: Linux counts what the parent had when it started this process as well.
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    print(int(peak) * 1024)


def peak(url: str, seqnos: range, store: Path) -> int:
    """Return the peak of memory of a process that fetches these."""
    arguments = (url, seqnos.start, seqnos.stop, str(store))
    return int(_output(f"show_peak(*{arguments!r})"))


def show_memory(folder: Path) -> None:
    """Print the peaks of fetches of more and more masterchain blocks."""
    seqnos = make(folder / "small", *SMALL)
    print(f"\npeak memory of fetching to the disk, {SMALL[1]} transactions each")
    with serving(folder / "small") as url:
        peaks = {n: peak(url, seqnos[:n], folder / f"first-{n}") for n in LENGTHS}
    for n, size in peaks.items():
        told = f"{n} masterchain blocks"
        print(f"  {told:<42}{size / 2**20:10.1f} MiB {size / peaks[LENGTHS[0]]:8.2f} times")


def show_requests(folder: Path) -> None:
    """Print how many requests a million transactions take, both ways, and the rate that is kept."""
    seqnos = range(*_ends(folder / "small"))
    print(f"\nrequests of {len(seqnos)} masterchain blocks of {SMALL[1]} transactions")
    with serving(folder / "small") as url:
        for name, without in {"through windows": False, "one block at a time": True}.items():
            with tf.Client(url) as client:
                if without:
                    lacks_windows(client)
                count = len(tf.fetch_blocks(seqnos, client=client, store=None).transactions)
                per_million = client.statistics.requests / count * 10**6
                print(f"  {name:<42}{per_million:10.0f} per million transactions")
        for rate, rows in RATES.items():
            with tf.Client(url, requests_per_second=rate) as client:
                client.page_limit.allow(rows)
                start = time.perf_counter()
                tf.fetch_blocks(seqnos, client=client, store=None, progress=False)
                kept = client.statistics.requests / (time.perf_counter() - start) / rate
            told = f"rate kept at a limit of {rate} a second"
            print(f"  {told:<42}{kept:10.1%}")


def _ends(path: Path) -> tuple[int, int]:
    held = Store(path).held()
    return held[0].start, held[-1].stop


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        show_throughput(Path(folder))
        show_cores(Path(folder))
        show_memory(Path(folder))
        show_requests(Path(folder))
