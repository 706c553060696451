"""A service with a synthetic chain and faults, scripted or random from a seed.

The correct answers are those of `tonframes.service`, from a store on the disk; this module only
changes them. It listens on a real socket.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from fault_server import FaultServer, answer, error, raw

import tonframes as tf
from tonframes.client import Client
from tonframes.client.rate import Clock, Rate
from tonframes.seqnos import ranges
from tonframes.service.dialects import DIALECTS
from tonframes.service.parameters import Refusal
from tonframes.service.rows import HeldRows
from tonframes.service.scanned import scanned
from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import Tables, in_order, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fault_server import Handler, Reply

#: The operations that fetching blocks uses.
SHARDS, TRANSACTIONS = "masterchainBlockShards", "transactionsByMasterchainBlock"
STATE, INFO = "masterchainBlockShardState", "masterchainInfo"
#: When the rows were fetched.
MOMENT = datetime(2026, 11, 21, 9, 45, tzinfo=UTC)
#: Operations whose answers do not change when more blocks are appended.
FIXED = (SHARDS, TRANSACTIONS)


# ── the chain ────────────────────────────────────────────────────────────────────────────────────


def tables_of(answers: Iterable[object]) -> Tables:
    """Return the tables of answers, with transactions as deployed services answer them."""
    read = [pages.read(schema.BLOCKS_ANSWER, json.dumps(content).encode()) for content in answers]
    tables = stamped(in_order(pages.blocks_tables(read)), MOMENT)
    return tables | {"transactions": scanned(tables["transactions"])}


def append(path: Path, answers: Iterable[Any]) -> None:
    """Commit synthetic masterchain blocks to a store."""
    tables = tables_of(answers)
    seqnos = ranges(tables["blocks"]["mc_block_seqno"].to_pylist())
    store = Store(path)
    store.claim("-217", "synthetic")
    store.write_blocks(tables, seqnos, proof="synthetic")


def digest(rows: pa.Table) -> str:
    """Return a hash of a table: equal for equal tables, whatever their layout in memory."""
    sink = pa.BufferOutputStream()
    rows = rows.combine_chunks().replace_schema_metadata(None)
    pq.write_table(rows, sink, compression="none", store_schema=False)
    return blake2b(sink.getvalue()).hexdigest()


def digests(blocks: tf.Blocks, names: Iterable[str] = ("transactions", "messages", "blocks")):
    """Return the digests of tables; not of the address book, which depends on the pages."""
    return {name: digest(blocks.arrow(name)) for name in names}


# ── the client's side ────────────────────────────────────────────────────────────────────────────


class FakeClock(Clock):
    """A clock that only sleeping advances; each sleep calls `passed`."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.slept: list[float] = []
        self.passed: Callable[[], object] = lambda: None
        self._turn = threading.Lock()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        super().sleep(0)
        with self._turn:
            self.slept.append(seconds)
            self.time += seconds
            self.passed()


def connect(service: FaultServer, clock: Clock, **options: Any) -> Client:
    """Return a client that uses a clock of the test."""
    client = Client(service.url, **options)
    client._retry._clock = clock
    client._retry._rate = Rate(client.requests_per_second, clock)
    return client


def fetch_in_a_hurry(url: str, store: Path, seqnos: range, page: int) -> None:
    """Fetch in a process of its own, with waits of milliseconds."""
    from tonframes.client import retry
    from tonframes.fetch import block

    retry.SHORTEST_BACKOFF, retry.LONGEST_BACKOFF = 0.001, 0.01
    retry.LONGEST_RETRY_AFTER = 0.01
    block.FIRST_WAIT, block.LONGEST_WAIT, block.MOST_ROWS = 0.001, 0.01, page
    with Client(url) as client:
        client.page_limit.allow(max(page, 10))
        tf.fetch_blocks(seqnos, client=client, store=store, progress=False)


# ── the service ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Truth:
    """A request line, the correct answer, and a way to get other answers."""

    line: str
    status: int
    content: bytes
    service: Faulty
    rng: Random

    @property
    def operation(self) -> str:
        return urlsplit(self.line).path.rpartition("/")[2]

    def asked(self, name: str) -> int:
        return int(parse_qs(urlsplit(self.line).query).get(name, ["0"])[0])

    def read(self) -> Any:
        return json.loads(self.content)

    def other(self, **numbers: int) -> Truth:
        """Return the correct answer to the same request with other numbers."""
        url = urlsplit(self.line)
        query = parse_qs(url.query, keep_blank_values=True)
        query |= {name: [str(number)] for name, number in numbers.items()}
        line = url._replace(query=urlencode(query, doseq=True)).geturl()
        return self.service.truth(line, self.rng)


Fault = "Callable[[Truth], Reply | None]"


@dataclass
class Rule:
    """A fault, the requests it applies to, and how many times it still does."""

    fault: Fault
    operation: str
    asked: Mapping[str, int]
    times: float

    def falls_upon(self, truth: Truth) -> bool:
        return (
            self.times > 0
            and self.operation in (truth.operation, "")
            and all(truth.asked(name) == number for name, number in self.asked.items())
        )


@lru_cache(8)  # a soak has many stores
def honest(path: Path, dialect: str) -> tuple[Any, dict[str, tuple[int, bytes]]]:
    """Return the operations on a store and what they have answered, for all tests of that store."""
    return DIALECTS[dialect](HeldRows(Store(path), dialect)), {}


class Faulty(FaultServer):
    """Answers from a store in one of the dialects, and injects faults.

    Attributes
    ----------
    injecting
        Whether faults are injected; without them, tests of faults must fail.
    met
        Number of faults sent.
    answered
        Number of requests answered.
    alarms
        Functions to call, by the number of requests answered.
    """

    def __init__(self, path: Path, dialect: str = "service", *, windows: bool = False) -> None:
        super().__init__()
        self._operations, self._told = honest(path, dialect)
        # Without them masterchain blocks are read one at a time.
        self._lacking = () if windows else ("blocks", "transactions")
        self._rules: list[Rule] = []
        self._turn = threading.RLock()
        self._storm: tuple[int, float, list[Fault]] = (0, 0.0, [])
        self._asked: Counter[str] = Counter()
        self.otherwise = self._reply
        self.injecting = True
        self.met = self.answered = 0
        self.alarms: dict[int, Callable[[], object]] = {}

    def inject(
        self, fault: Fault, operation: str = "", *, times: float = float("inf"), **asked: int
    ) -> None:
        """Answer an operation with a fault, for these numbers, a number of times."""
        self._rules.append(Rule(fault, operation, asked, times))

    def storm(self, seed: int, share: float, faults: list[Fault]) -> None:
        """From now on, answer a share of the requests with a random fault."""
        self._storm, self._asked = (seed, share, faults), Counter()
        self.met = self.answered = 0

    def truth(self, line: str, rng: Random | None = None) -> Truth:
        """Return the correct answer to a request line."""
        correct = self._told.get(line)
        if correct is None:
            url = urlsplit(line)
            try:
                query = parse_qs(url.query, keep_blank_values=True)
                if url.path.rpartition("/")[2] in self._lacking:
                    url = url._replace(path="/api/v3/nothing")
                correct = 200, msgspec.json.encode(self._operations.answer(url.path, query))
            except Refusal as refusal:
                correct = int(refusal.status), msgspec.json.encode({"error": str(refusal)})
            if correct[0] == 200 and url.path.endswith(FIXED):
                self._told[line] = correct
        return Truth(line, *correct, self, rng or Random(0))

    def _reply(self, handler: Handler) -> None:
        with self._turn:
            self.answered += 1
            reply = self._fault(handler.path) if self.injecting else None
            self.met += reply is not None
            truth = self.truth(handler.path)
            alarm = self.alarms.pop(self.answered, None)
        if alarm is not None:
            alarm()
        (reply or answer(truth.content, truth.status))(handler)

    def _fault(self, line: str) -> Reply | None:
        seed, share, faults = self._storm
        if share:
            # By request line and attempt, so that the order of threads does not matter.
            self._asked[line] += 1
            rng = Random(f"{seed} {self._asked[line]} {line}")
            return rng.choice(faults)(self.truth(line, rng)) if rng.random() < share else None
        truth = self.truth(line)
        for rule in self._rules:
            if rule.falls_upon(truth) and (reply := rule.fault(truth)) is not None:
                rule.times -= 1
                return reply
        return None


# ── faults of the content ────────────────────────────────────────────────────────────────────────
# Each takes the truth and returns the reply, or None if there is nothing to change.


def saying(reply: Reply) -> Fault:
    """Send this reply, whatever the truth."""
    return lambda _: reply


def rows(content: Any) -> list[Any]:
    return content["blocks"] if "blocks" in content else content["transactions"]


def changed(change: Callable[[list[Any], Random], list[Any]]) -> Fault:
    """Answer 200 with changed rows; if nothing changes, there is no fault."""

    def fault(truth: Truth) -> Reply | None:
        if truth.status != 200 or truth.operation == INFO:
            return None
        content = truth.read()
        name = "blocks" if "blocks" in content else "transactions"
        sent = change(list(content[name]), truth.rng)
        return None if sent == content[name] else telling(content | {name: sent})

    return fault


def telling(content: object) -> Reply:
    return answer(json.dumps(content).encode())


def lose(place: int) -> Fault:
    """Leave out the row at a position."""
    return changed(lambda rows, _: [row for i, row in enumerate(rows) if i != place % len(rows)])


def lose_if(condition: Callable[[Any], bool]) -> Fault:
    """Leave out the first row that meets a condition."""

    def change(rows: list[Any], _: Random) -> list[Any]:
        found = [i for i, row in enumerate(rows) if condition(row)][:1]
        return [row for i, row in enumerate(rows) if i not in found]

    return changed(change)


def every(change: Callable[[Any], Any]) -> Fault:
    """Change every row, or leave it out where the changed row is None."""

    def all_of(rows: list[Any], _: Random) -> list[Any]:
        return [row for row in map(change, rows) if row is not None]

    return changed(all_of)


def prefix(length: int) -> Fault:
    return changed(lambda rows, _: rows[:length])


lose_any = changed(lambda rows, rng: _without(rows, rng.randrange(len(rows))) if rows else rows)
prefix_any = changed(lambda rows, rng: rows[: rng.randrange(len(rows))] if rows else rows)
shuffled = changed(lambda rows, rng: rng.sample(rows, len(rows)))
twice = changed(lambda rows, rng: [*rows, *rng.sample(rows, min(1, len(rows)))])
empty = changed(lambda *_: [])


def twice_otherwise(truth: Truth) -> Reply | None:
    """Add a row twice, with other content under the same key."""

    def change(rows: list[Any], _: Random) -> list[Any]:
        if not rows:
            return rows
        key = "rand_seed" if "rand_seed" in rows[0] else "trace_id"
        return [*rows, rows[0] | {key: "A" * 43 + "="}]

    return changed(change)(truth)


def of_another(distance: int) -> Fault:
    """Answer for another masterchain block."""

    def fault(truth: Truth) -> Reply | None:
        other = truth.other(seqno=truth.asked("seqno") + distance)
        return answer(other.content, other.status) if truth.operation in FIXED else None

    return fault


def moved(truth: Truth) -> Reply | None:
    """Shift the rows by one between two pages: one comes twice, one is missing."""
    offset = truth.asked("offset")
    if truth.status != 200 or not offset:
        return None
    other = truth.other(offset=offset - 1).read()
    return telling(truth.read() | {name: other[name] for name in other})


def first_page_again(truth: Truth) -> Reply | None:
    other = truth.other(offset=0)
    return answer(other.content) if truth.asked("offset") else None


def of_the_next(truth: Truth) -> Reply | None:
    """Let the first row say that the next masterchain block commits it."""

    def change(rows: list[Any], _: Random) -> list[Any]:
        if truth.operation == SHARDS and "masterchain_block_ref" in rows[0]:
            ref = rows[0]["masterchain_block_ref"]
            return [
                rows[0] | {"masterchain_block_ref": ref | {"seqno": ref["seqno"] + 1}},
                *rows[1:],
            ]
        return [rows[0] | {"mc_block_seqno": rows[0]["mc_block_seqno"] + 1}, *rows[1:]]

    return changed(change)(truth)


def of_no_block(truth: Truth) -> Reply | None:
    """Let the first transaction be of a block that no masterchain block commits."""

    def change(rows: list[Any], _: Random) -> list[Any]:
        ref = rows[0]["block_ref"]
        return [rows[0] | {"block_ref": ref | {"seqno": ref["seqno"] + 9}}, *rows[1:]]

    return changed(change)(truth)


def absent(truth: Truth) -> Reply | None:
    """Answer 404, as if the database was interrupted before the first row."""
    if truth.status != 200:
        return None
    if truth.operation == TRANSACTIONS:
        return error(f"masterchain block {truth.asked('seqno')} not found", 404)
    return error("blocks not found", 404)


# ── faults of the transport ───────────────────────────────────────────────────────────────────────

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
GZIP = HEAD + b"Content-Encoding: gzip\r\n"
PAGE = b"<!DOCTYPE html><html><style>p{}</style><h1>We are ill</h1></html>"


def sized(content: bytes, size: int | None = None, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % (size or len(content)) + content


def _of_content(make: Callable[[bytes], Reply]) -> Fault:
    return lambda truth: make(truth.content)


#: Temporary faults by name; a name begins with its row of the matrix.
PASSING: dict[str, Fault] = {
    "F01 429": saying(error("Ratelimit exceed", 429)),
    "F02 429 with Retry-After": saying(error("Ratelimit exceed", 429, Retry_After="2")),
    "F02 429 with a date": saying(
        error("Ratelimit exceed", 429, Retry_After="Fri, 13 Feb 2015 23:31:37 GMT")
    ),
    "F03 Retry-After abc": saying(error("Ratelimit exceed", 429, Retry_After="abc")),
    "F03 Retry-After -5": saying(error("Ratelimit exceed", 429, Retry_After="-5")),
    "F03 Retry-After 1.5": saying(error("Ratelimit exceed", 429, Retry_After="1.5")),
    "F05 429 of the gateway": saying(
        answer(b'{"ok":false,"result":"Ratelimit exceed","code":429}', 429)
    ),
    "F05 429 as text": saying(answer(b"Ratelimit exceed", 429)),
    "F05 429 as HTML": saying(answer(b"<html>Ratelimit exceed</html>", 429)),
    "F06 500": saying(error("internal server error: query timeout 3s", 500)),
    "F06 502 as HTML": saying(answer(PAGE, 502)),
    "F06 503": saying(answer(b"", 503)),
    "F06 504": saying(answer(PAGE, 504)),
    "F06 520": saying(answer(PAGE, 520)),
    "F06 524": saying(answer(PAGE, 524)),
    "F09 422 of the database": saying(error("timeout: context deadline exceeded", 422)),
    "F27 closed before the status": saying(raw()),
    "F27 reset before the status": saying(raw(end="reset")),
    "F27 half a header": saying(raw(HEAD[:30])),
    "F27 reset in the content": _of_content(
        lambda content: raw(sized(content[: len(content) // 2], len(content)), end="reset")
    ),
    "F27 closed in the content": _of_content(
        lambda content: raw(sized(content[: len(content) // 2], len(content)))
    ),
    "F27 cut without a length": _of_content(lambda content: raw(HEAD + b"\r\n" + content[:-2])),
    "F27 cut chunk": _of_content(
        lambda content: raw(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(content), content[:-9]
        )
    ),
    "F28 gzip cut": _of_content(
        lambda content: raw(sized(gzip.compress(content, 1)[:-12], head=GZIP))
    ),
    "F28 gzip corrupt": _of_content(
        lambda content: raw(sized(_crc(gzip.compress(content, 1)), head=GZIP))
    ),
    "F28 plain text called gzip": _of_content(lambda content: raw(sized(content, head=GZIP))),
    "F31 HTML": saying(answer(PAGE, Content_Type="text/html")),
    "F31 empty": saying(answer(b"")),
    "F31 null": saying(answer(b"null")),
    "F31 a list": saying(answer(b"[]")),
    "F31 {}": saying(answer(b"{}")),
    "F32 NaN": _of_content(lambda content: answer(content[:-1] + b',"x":NaN}')),
    "F32 bad UTF-8": _of_content(lambda content: answer(b"\xff" + content)),
    "F32 a byte order mark": _of_content(lambda content: answer(b"\xef\xbb\xbf" + content)),
    "F32 deep": saying(answer(b"[" * 100_000)),
    "F60 304": saying(answer(b"", 304)),
    "F60 304 with a content": _of_content(lambda content: answer(content, 304)),
}


def _crc(packed: bytes) -> bytes:
    return packed[:-6] + bytes(b ^ 1 for b in packed[-6:-3]) + packed[-3:]


def _without(rows: list[Any], place: int) -> list[Any]:
    return rows[:place] + rows[place + 1 :]


#: Answers of status 200 without rows.
EMPTY: dict[str, Fault] = {
    content: saying(answer(content.encode()))
    for content in (
        '{"blocks": null}',
        '{"blocks": []}',
        '{"transactions": null, "address_book": {}}',
        '{"transactions": [], "address_book": {}}',
        '{"blocks": null, "transactions": null}',
    )
}

#: Answers of status 404 that a gateway may give, and an empty page.
NO_PAGE: dict[str, Fault] = {
    "404 of the service": absent,
    "404 of a gateway": saying(error("Not Found", 404)),
    "404 of a gateway in another form": saying(answer(b'{"message": "no Route matched"}', 404)),
    "an empty page": empty,
}

#: Answers of status 200 that are incomplete, or answer another request.
LYING: dict[str, Fault] = {
    "F13 absent": absent,
    "F16 one row lost": lose_any,
    "F16 a prefix": prefix_any,
    "F16 no rows": empty,
    "F18 rows moved": moved,
    "F18 the first page again": first_page_again,
    "F22 of the next one": of_another(1),
    "F22 of the one before": of_another(-1),
}

_REPEATED: list[Fault] = [shuffled, twice, twice_otherwise]

#: Faults of a storm by dialect, as many that lie as fail. Without blocks, the proof cannot see that
#: the first or the last transaction of an account is missing.
STORM: dict[str, list[Fault]] = {
    "service": [*PASSING.values(), *[*LYING.values(), *_REPEATED] * 4],
    "specification": [*PASSING.values(), *[LYING["F16 no rows"], *_REPEATED] * 4],
}
