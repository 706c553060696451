"""Ill services, four processes on one disk, kills and a full disk, for as long as one likes.

`make soak MINUTES=60` runs rounds for that time. Each draws a chain, a service and its faults from
a seed. Two processes fetch its masterchain blocks into one store, one fetches the histories of
accounts into another, one reads what is held. They are killed, interrupted and ended, and the disk
is full now and then. At the end the stores must hold every row once, and a bit that is flipped in
one of their files must not change what is read. `--seed` repeats a round.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from random import Random, SystemRandom
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from chain import synthetic_blocks
from fake_service import FakeService, Troubles, whole_histories
from faulty_service import STORM, Faulty, append, digests, fetch_in_a_hurry

import tonframes as tf
from tonframes.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

FIRST = 90_000_000
#: Tables that are compared, by dialect.
TABLES = {
    "service": ("transactions", "messages", "blocks"),
    "specification": ("transactions", "messages"),
}
#: Seconds in which a round is disturbed, and after which it must have ended.
DISTURBED, LONGEST = (5.0, 15.0), 300.0
#: Exit statuses of a process: our error, which is allowed; any other one; rows that are wrong.
REFUSED, CRASHED, WRONG = 3, 70, 71
#: What happens to a process, and how often.
SIGNALS = [signal.SIGKILL] * 3 + [signal.SIGINT, signal.SIGTERM]
SIZE = 64 << 20
#: Seconds that a replica may lack.
BEHIND = (30, 600)
#: Seconds before the service's last block of which a history is not sure.
UNSURE = 60

context = multiprocessing.get_context("forkserver")


class SoakError(Exception):
    """A promise was broken."""


# ── the four processes ───────────────────────────────────────────────────────────────────────────


def reported(log: Path, work: Callable[..., object], *arguments: object) -> None:
    """Do the work of a process; its output goes to a file, its end is told by the exit status."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    warnings.simplefilter("always")
    try:
        work(*arguments)
    except tf.TonframesError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    except AssertionError:
        traceback.print_exc()
        sys.exit(WRONG)
    except Exception:  # noqa: BLE001 - whatever it was, the round has failed
        traceback.print_exc()
        sys.exit(CRASHED)


def fetch_histories(url: str, store: Path, accounts: Sequence[str], until: datetime) -> None:
    from tonframes.client import retry

    retry.SHORTEST_BACKOFF, retry.LONGEST_BACKOFF = 0.001, 0.01
    with tf.Client(url) as client:
        tf.fetch_transactions(
            list(accounts), until=until, client=client, store=store, progress=False
        )
    # If a replica was behind, the history is held until an earlier moment: it is fetched again.
    tf.read_transactions(store, list(accounts), until=until)


def read_on(store: Path, truth: Path, names: Sequence[str]) -> None:
    """Read what is held again and again, and compare it with the truth."""
    while True:
        held = Store(store).held() if (store / "network.json").exists() else ()
        for seqnos in held:
            try:
                read = digests(tf.read_blocks(store, seqnos), names)
            except tf.TonframesError as error:
                # A file may be merged or set aside in the meantime.
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                continue
            correct = digests(tf.read_blocks(truth, seqnos), names)
            assert read == correct, f"{seqnos} read wrong"
        time.sleep(0.05)


def has_two_of_a_shard(blocks: Sequence[Any]) -> bool:
    return len({(row["workchain"], row["shard"]) for row in blocks}) < len(blocks)


# ── a round ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def small_disk(path: Path) -> Iterator[bool]:
    """Mount a small file system, where that is allowed."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


@dataclass
class Round:
    """One chain, its ill services, and the processes that use them."""

    seed: int
    folder: Path
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = rng = Random(self.seed)
        self.disk, self.truth = self.folder / "disk", self.folder / "truth"
        self.blocks, self.histories = self.disk / "blocks", self.disk / "histories"
        count = rng.randint(60, 240)
        made = synthetic_blocks(
            count + 1,
            seed=rng.randrange(2**32),
            first_seqno=FIRST + rng.randrange(1000),
            transactions_per_block=rng.choice([4, 6, 12]),
        )
        # Of a service's first masterchain block the proof sees only the last block of each shard.
        made = list(dropwhile(lambda answer: has_two_of_a_shard(answer["blocks"]), made))
        first = made[0]["blocks"][0]["masterchain_block_ref"]["seqno"]
        append(self.truth, made)
        self.seqnos = range(first, first + len(made) - 1)
        self.rows = whole_histories(rng.randint(80, 140), rng.randrange(2**32))
        accounts = sorted({row["account"] for row in self.rows})
        self.accounts = rng.sample(accounts, min(len(accounts), 40))
        self.until = max(row["now"] for row in self.rows) - UNSURE - 1
        self.dialect = rng.choice(["service", "service", "service", "specification"])
        self.windows = self.dialect == "service" and rng.random() < 0.5
        self.page = rng.choice([4, 100, 1000])
        self.share = rng.uniform(0.05, 0.35)

    def describe(self) -> str:
        way = "windows" if self.windows else "block by block"
        return f"{len(self.seqnos)} masterchain blocks, {self.dialect} dialect, {way}"

    def run(self) -> None:
        rare = self.share / 2
        troubles = Troubles(
            cut=rare,
            cut_states=rare / 4,
            lag=rare,
            behind=self.rng.randint(*BEHIND),
            spoil=rare,
            seed=self.seed,
        )
        until = datetime.fromtimestamp(self.until, UTC)
        with (
            small_disk(self.disk) as mounted,
            Faulty(self.truth, self.dialect, windows=self.windows) as service,
            FakeService(self.rows, troubles) as histories,
        ):
            service.storm(self.seed, self.share, STORM[self.dialect])
            half = len(self.seqnos) // 2
            fetch = (fetch_in_a_hurry, service.url, self.blocks)
            self.works = {
                "fetch": (*fetch, self.seqnos, self.page),
                "fetch the later half": (*fetch, self.seqnos[half:], self.page),
                "histories": (
                    fetch_histories,
                    histories.url,
                    self.histories,
                    self.accounts,
                    until,
                ),
                "read": (read_on, self.blocks, self.truth, TABLES[self.dialect]),
            }
            self.processes: dict[str, BaseProcess] = {}
            try:
                self.disturb(mounted=mounted)
            finally:
                for process in self.processes.values():
                    process.kill()
                    process.join()
            self.happened["answers"] += service.answered + histories.requests
            self.happened["ill answers"] += service.met
            self.check()
            self.flip(service)

    def start(self, name: str) -> None:
        log = self.folder / f"{name}.txt"
        self.processes[name] = context.Process(
            target=reported, args=(log, *self.works[name]), daemon=True
        )
        self.processes[name].start()

    def disturb(self, *, mounted: bool) -> None:
        """Start the processes, disturb them for a while, and wait until all is fetched."""
        for name in self.works:
            self.start(name)
        begun = time.monotonic()
        calm = begun + self.rng.uniform(*DISTURBED)
        while True:
            now = time.monotonic()
            for name, process in list(self.processes.items()):
                if process.exitcode is not None:
                    self.ended(name, process.exitcode, again=now < calm)
            if set(self.works) == {"read"}:
                return
            if now > begun + LONGEST:
                self.hangs()
            if now < calm and self.rng.random() < 0.1:
                self.kill()
            if now < calm and mounted and self.rng.random() < 0.03:
                self.fill()
            time.sleep(0.1)

    def ended(self, name: str, status: int, *, again: bool) -> None:
        if status in {CRASHED, WRONG}:
            raise SoakError(f"{name} ended with {status}: {self.folder / name}.txt")
        if status == REFUSED:
            self.happened["our errors"] += 1
            if self.happened["our errors"] > 200:
                raise SoakError(f"{name} does not succeed: {self.folder / name}.txt")
        if status == 0 and not again:
            del self.works[name], self.processes[name]
        else:
            self.start(name)

    def kill(self) -> None:
        process = self.rng.choice(list(self.processes.values()))
        if process.pid is not None and process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(process.pid, self.rng.choice(SIGNALS))
            self.happened["kills and interrupts"] += 1

    def fill(self) -> None:
        """Let the disk be full for a moment, or nearly so."""
        ballast = self.disk / "ballast"
        with suppress(OSError):
            with ballast.open("wb") as file:
                free = shutil.disk_usage(self.disk).free
                file.write(bytes(max(0, free - self.rng.choice([0, 4096, 2**16]))))
            time.sleep(self.rng.uniform(0.05, 0.5))
        ballast.unlink()
        self.happened["full disks"] += 1

    def hangs(self) -> None:
        for process in self.processes.values():
            if process.pid is not None:
                os.kill(process.pid, signal.SIGUSR1)
        time.sleep(1)
        raise SoakError(f"{', '.join(self.works)} did not end in {LONGEST:.0f} s")

    def check(self) -> None:
        """Compare the stores with the truth."""
        held = Store(self.blocks).held()
        if held != (self.seqnos,):
            raise SoakError(f"held {held} instead of {self.seqnos}")
        self.same_blocks()
        expected = {
            (row["account"], int(row["lt"]), row["hash"])
            for row in self.rows
            if row["account"] in set(self.accounts) and row["now"] < self.until
        }
        until = datetime.fromtimestamp(self.until, UTC)
        rows = tf.read_transactions(self.histories, self.accounts, until=until).transactions
        found = list(zip(rows["account"], rows["lt"].astype(int), rows["hash"], strict=True))
        if len(found) != len(expected) or set(found) != expected:
            raise SoakError(f"{len(found)} transactions of accounts instead of {len(expected)}")

    def same_blocks(self) -> None:
        if not self.reads_right():
            raise SoakError("the rows of masterchain blocks differ from the truth")

    def reads_right(self) -> bool:
        names = TABLES[self.dialect]
        read = digests(tf.read_blocks(self.blocks), names)
        return read == digests(tf.read_blocks(self.truth, self.seqnos), names)

    def flip(self, service: Faulty) -> None:
        """Flip a bit of a file; what is read stays right, or is refused and fetched again."""
        service.injecting = False
        for _ in range(3):
            file = self.rng.choice(sorted(self.blocks.rglob("*[!.lock]")))
            if not file.is_file() or not file.stat().st_size or "damaged" in file.parts:
                continue
            content = bytearray(file.read_bytes())
            content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
            file.write_bytes(content)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    whole = Store(self.blocks).held() == (self.seqnos,)
                    if whole and not self.reads_right():
                        raise SoakError(f"a flipped bit in {file.name} is read")
                except tf.TonframesError:
                    pass
                if file.name == "network.json":
                    file.unlink()  # as the error says
                fetch_in_a_hurry(service.url, self.blocks, self.seqnos, self.page)
                self.same_blocks()
            self.happened["flipped bits"] += 1


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────


def soak(minutes: float, seed: int | None) -> int:
    end, draw, total, count = time.monotonic() + minutes * 60, SystemRandom(), Counter[str](), 0
    while not count or (seed is None and time.monotonic() < end):
        begun = time.monotonic()
        folder = Path(mkdtemp(prefix="soak-"))
        drawn = Round(draw.randrange(10**9) if seed is None else seed, folder)
        try:
            drawn.run()
        except Exception:  # noqa: BLE001 - told with the seed that repeats it
            traceback.print_exc()
            print(f"seed {drawn.seed}: {drawn.describe()}: FAILED; {folder} is kept", flush=True)
            return 1
        shutil.rmtree(folder)
        total += drawn.happened
        count += 1
        print(
            f"seed {drawn.seed}: {drawn.describe()}: {told(drawn.happened)};"
            f" whole after {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    print(f"{count} rounds, all whole: {told(total)}")
    return 0


def told(happened: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(happened.items()))


def main(arguments: Any = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="repeat the round of this seed")
    options = parser.parse_args(arguments)
    return soak(options.minutes, options.seed)


if __name__ == "__main__":
    sys.exit(main())
