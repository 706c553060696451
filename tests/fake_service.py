"""A service with rows in memory and declared troubles, on a real socket.

It shares no code with the package: rows are filtered, ordered and cut as the deployed service's
SQL does it (ton-indexer, crud_transactions.go and crud_blocks.go). With whole blocks it has the
operations that fetching blocks uses, with transactions alone those that histories use.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from chain import synthetic_blocks
from fault_server import FaultServer, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fault_server import Handler

Row = dict[str, Any]
Query = dict[str, list[str]]

NONE, WRONG = "A" * 43 + "=", "A" * 42 + "E="
ENDS = ("source", "destination")


class Refused(Exception):  # noqa: N818 - it becomes an answer
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Troubles:
    """What goes wrong.

    Attributes
    ----------
    max_limit
        The largest limit that is allowed.
    slow_over
        Pages of more rows time out.
    longest_url
        Longer URLs are refused.
    silent
        Whether a page that times out is never sent, instead of an error.
    latency
        Seconds that every answer takes.
    cut, cut_states
        Share of the lists of rows, and of states of accounts, that are cut short under status 200.
    lag, behind
        Share of the answers that come from a replica that lacks so many of the last masterchain
        blocks; without blocks, so many of the last seconds.
    lagging
        The operations that such a replica answers; without any, all of them.
    null
        Share of the lists that come as null under status 200.
    refused
        Share of the lists that come as status 404.
    stray
        Share of the lists of transactions of which a row says that another masterchain block
        commits it.
    spoil
        Share of the lists of transactions in which one row has a wrong hash of its own, or of the
        transaction before it.
    gone
        Hashes of transactions that the service does not have.
    absent
        Operations that the service does not have.
    """

    max_limit: int = 1000
    slow_over: int = 10**9
    longest_url: int = 8000
    silent: bool = False
    latency: float = 0.0
    cut: float = 0.0
    cut_states: float = 0.0
    lag: float = 0.0
    behind: int = 3
    lagging: frozenset[str] = frozenset()
    null: float = 0.0
    refused: float = 0.0
    stray: float = 0.0
    spoil: float = 0.0
    gone: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    seed: int = 0


# ── the rows ─────────────────────────────────────────────────────────────────────────────────────


def whole_histories(blocks: int = 40, seed: int = 0) -> list[Row]:
    """Make transactions of which each account's first one is its first ever, oldest first."""
    rows = json.loads(_transactions(blocks, seed))
    rows.sort(key=_by_lt)
    begun: set[str] = set()
    for row in rows:
        if row["account"] not in begun:
            begun.add(row["account"])
            row |= {"prev_trans_lt": "0", "prev_trans_hash": NONE}
    return rows


@lru_cache(8)
def _transactions(blocks: int, seed: int) -> str:
    made = synthetic_blocks(blocks, seed=seed)
    return json.dumps([row for body in made for row in body["transactions"]])


def _by_lt(row: Row) -> tuple[int, str]:
    return int(row["lt"]), row["account"]


@dataclass
class Chain:
    """The rows of a chain in memory, by the keys that queries ask for."""

    blocks: list[Row] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    address_book: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, bodies: Iterable[Row]) -> Chain:
        chain = cls()
        for body in bodies:
            chain.blocks += body["blocks"]
            chain.transactions += body["transactions"]
            chain.address_book |= body["address_book"]
        chain.index()
        return chain

    def index(self) -> None:
        self.blocks.sort(key=lambda row: int(row["gen_utime"]))
        self.utimes = [int(row["gen_utime"]) for row in self.blocks]
        self.transactions.sort(key=_by_lt)
        self.by_time = sorted(self.transactions, key=lambda row: row["now"])
        self.lts = [int(row["lt"]) for row in self.transactions]
        self.times = [row["now"] for row in self.by_time]
        self.by_mc: dict[int, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
        for row in self.blocks:
            self.by_mc[row["masterchain_block_ref"]["seqno"]][0].append(row)
        for row in self.transactions:
            self.by_mc[row["mc_block_seqno"]][1].append(row)
        self.first, self.last = min(self.by_mc), max(self.by_mc)
        if self.blocks:
            self._index_states()

    def _index_states(self) -> None:
        self.states: dict[int, dict[tuple[int, str], Row]] = {}
        state: dict[tuple[int, str], Row] = {}
        for seqno in range(self.first, self.last + 1):
            for row in sorted(self.by_mc[seqno][0], key=lambda row: int(row["start_lt"])):
                for parent in row["prev_blocks"]:
                    known = state.get((parent["workchain"], parent["shard"]))
                    if known is not None and known["seqno"] == parent["seqno"]:
                        split = row["after_split"]
                        if not split or self._is_second_half(row, state):
                            del state[parent["workchain"], parent["shard"]]
                state[row["workchain"], row["shard"]] = row
            self.states[seqno] = dict(state)

    @staticmethod
    def _is_second_half(row: Row, state: dict[tuple[int, str], Row]) -> bool:
        prefix = int(row["shard"], 16)
        sibling = prefix ^ ((prefix & -prefix) << 1)
        return (row["workchain"], f"{sibling:X}") in state


def displaced(bodies: list[Row], *, by: int, seconds: int) -> list[Row]:
    """Move the blocks of one half of the shards in logical time and in time.

    They then lie among those that the masterchain blocks before commit, as on the real network.
    """

    def moved(row: Row, *keys: str) -> Row:
        return row | {key: str(int(row[key]) - by) for key in keys if int(row[key]) > by}

    def is_other(place: Row) -> bool:
        return place["workchain"] == 0 and int(place["shard"], 16) >= 2**63

    made = []
    for body in bodies:
        blocks = [
            moved(row, "start_lt", "end_lt") | {"gen_utime": str(int(row["gen_utime"]) - seconds)}
            if is_other(row)
            else row
            for row in body["blocks"]
        ]
        transactions = [
            moved(row, "lt", "prev_trans_lt") if is_other(row["block_ref"]) else row
            for row in body["transactions"]
        ]
        made.append(body | {"blocks": blocks, "transactions": transactions})
    return made


# ── the service ──────────────────────────────────────────────────────────────────────────────────


class FakeService(FaultServer):
    """Serves a chain, or transactions alone; `answered` counts answers by operation and status."""

    def __init__(self, rows: Chain | Iterable[Row], troubles: Troubles | None = None) -> None:
        super().__init__()
        self.troubles = troubles or Troubles()
        self.answered: Counter[tuple[str, int]] = Counter()
        self.rows_sent = 0
        self.otherwise = self._reply
        self._rng, self._turn = Random(self.troubles.seed), RLock()
        self._encoded: dict[int, tuple[Row, bytes]] = {}  # with the row: ids are used again
        self.operations: dict[str, Callable[[Query, int], object]] = {
            "masterchainInfo": self._info,
            "masterchainBlockShards": self._shards,
            "masterchainBlockShardState": self._state,
            "transactionsByMasterchainBlock": self._by_masterchain_block,
            "blocks": self._blocks,
            "transactions": self._transactions,
        }
        if isinstance(rows, Chain):
            self.chain = rows
        else:
            self.set_rows(rows)
            self.operations = {
                "masterchainInfo": self._info_of_histories,
                "accountStates": self._account_states,
                "transactions": self._transactions,
            }

    def set_rows(self, transactions: Iterable[Row]) -> None:
        self.chain = Chain.of([{"blocks": [], "transactions": transactions, "address_book": {}}])

    @property
    def requests(self) -> int:
        return sum(self.answered.values())

    def _reply(self, handler: Handler) -> None:
        arrived = time.monotonic()
        url = urlsplit(handler.path)
        operation = url.path.rpartition("/")[2]
        query = parse_qs(url.query)
        query["x_no_address_book"] = [handler.headers.get("X-No-Address-Book", "")]
        try:
            status, content = 200, self._answer(operation, query, len(handler.path))
        except Refused as refused:
            status, content = refused.status, {"error": str(refused)}
        with self._turn:
            self.answered[operation, status] += 1
        if status == 500 and "timeout" in str(content) and self.troubles.silent:
            self.over.wait(20)
            return
        self.over.wait(max(0.0, arrived + self.troubles.latency - time.monotonic()))
        answer(content if isinstance(content, bytes) else json.dumps(content).encode(), status)(
            handler
        )

    def _answer(self, operation: str, query: Query, length: int) -> object:
        if length > self.troubles.longest_url:
            raise Refused(414, "URI Too Long")
        if operation not in self.operations or operation in self.troubles.absent:
            raise Refused(500, f"internal server error: Cannot GET /api/v3/{operation}")
        with self._turn:
            lags = self._happens(self.troubles.lag)
            if lags and self.troubles.lagging:
                lags = operation in self.troubles.lagging
            return self.operations[operation](query, self._last(lags=lags))

    def _last(self, *, lags: bool) -> int:
        """Return the last masterchain block that is known; without blocks, the last second."""
        behind = self.troubles.behind if lags else 0
        if self.chain.blocks:
            return self.chain.last - behind
        return max(self.chain.times[-1] - behind, self.chain.times[0])

    def _known(self, row: Row, last: int) -> bool:
        return row["mc_block_seqno" if self.chain.blocks else "now"] <= last

    def _happens(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    # ── operations ───────────────────────────────────────────────────────────────────────────────

    def _info(self, _: Query, last: int) -> Row:
        def master(seqno: int) -> Row:
            return next(row for row in self.chain.by_mc[seqno][0] if row["workchain"] == -1)

        return {"last": master(last), "first": master(self.chain.first)}

    def _info_of_histories(self, _: Query, last: int) -> Row:
        lt = max(int(row["lt"]) for row in self.chain.transactions if row["now"] <= last)
        newest = {"gen_utime": str(last), "start_lt": str(lt - lt % 1_000_000)}
        return {
            "last": {"seqno": 2, "global_id": -217, **newest},
            "first": {"seqno": 1, "gen_utime": str(self.chain.times[0]), "start_lt": "0"},
        }

    def _account_states(self, query: Query, last: int) -> Row:
        return {"accounts": self._states(query["address"], last)}

    def _states(self, addresses: Sequence[str], last: int) -> list[Row]:
        newest = {row["account"]: row for row in self.chain.transactions if row["now"] <= last}
        states = [
            {
                "address": account,
                "status": "active",
                "last_transaction_lt": newest[account]["lt"],
                "last_transaction_hash": newest[account]["hash"],
            }
            for account in sorted(addresses)
            if account in newest
        ]
        return self._cut(states, self.troubles.cut_states)

    def _shards(self, query: Query, last: int) -> bytes:
        rows = self._of(query, last)[0]
        shown = self._page(query, [rows[i] for i in self._shuffled(len(rows))])
        if not shown:
            raise Refused(404, "blocks not found")
        return self._body("blocks", self._cut(shown, self.troubles.cut), query)

    def _by_masterchain_block(self, query: Query, last: int) -> bytes:
        rows = self._of(query, last)[1]
        if not self._of(query, last)[0]:
            raise Refused(404, f"masterchain block {query['seqno'][-1]} not found")
        if query.get("sort") != ["asc"]:
            rows = sorted(rows, key=lambda row: (-int(row["lt"]), row["account"]))
        return self._body("transactions", self._page(query, rows), query)

    def _state(self, query: Query, last: int) -> bytes:
        seqno = _number(query, "seqno", 0)
        if seqno > last or seqno not in self.chain.states:
            raise Refused(404, "blocks not found")
        return self._body("blocks", list(self.chain.states[seqno].values()), query)

    def _blocks(self, query: Query, last: int) -> bytes:
        chain = self.chain
        low = bisect_left(chain.utimes, _number(query, "start_utime", 0))
        high = bisect_right(chain.utimes, _number(query, "end_utime", 2**63))
        rows = chain.blocks[low:high]
        if "mc_seqno" in query:
            rows = chain.by_mc.get(_number(query, "mc_seqno", 0), ([], []))[0]
        start, end = _number(query, "start_lt", 0), _number(query, "end_lt", 2**63)
        rows = [
            row
            for row in rows
            if start <= int(row["start_lt"]) <= end
            and row["masterchain_block_ref"]["seqno"] <= last
        ]
        if query.get("sort") == ["asc"]:  # rows of one second come in any order
            keys = {i: self._rng.random() for i in range(len(rows))}
            order = sorted(keys, key=lambda i: (int(rows[i]["gen_utime"]), keys[i]))
        else:
            order = self._shuffled(len(rows))
        shown = self._page(query, [rows[i] for i in order])
        return self._body("blocks", self._cut(shown, self.troubles.cut), query)

    def _transactions(self, query: Query, last: int) -> bytes:
        return self._body("transactions", self._search(query, last), query)

    def _search(self, query: Query, last: int) -> list[Row]:
        unit, rows, keys = "lt", self.chain.transactions, self.chain.lts
        if "start_utime" in query or "end_utime" in query:
            unit, rows, keys = "utime", self.chain.by_time, self.chain.times
        low = bisect_left(keys, _number(query, f"start_{unit}", 0))
        high = bisect_right(keys, _number(query, f"end_{unit}", 2**63))
        accounts = set(query.get("account", ()))
        rows = [
            row
            for row in rows[low:high]
            if (not accounts or row["account"] in accounts)
            and self._known(row, last)
            and row["hash"] not in self.troubles.gone
        ]
        if query.get("sort") != ["asc"]:
            rows.reverse()
        rows = self._cut(self._page(query, rows), self.troubles.cut)
        if rows and self._happens(self.troubles.spoil):
            i = self._rng.randrange(len(rows))
            rows[i] = rows[i] | {self._rng.choice(["hash", "prev_trans_hash"]): WRONG}
        self.rows_sent += len(rows)
        return rows

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _of(self, query: Query, last: int) -> tuple[list[Row], list[Row]]:
        seqno = _number(query, "seqno", 0)
        return self.chain.by_mc[seqno] if self.chain.first <= seqno <= last else ([], [])

    def _page(self, query: Query, rows: list[Row]) -> list[Row]:
        limit, offset = _number(query, "limit", 100), _number(query, "offset", 0)
        most = self.troubles.max_limit
        if limit > most:
            raise Refused(500, f"internal server error: limit is not allowed: {limit} > {most}")
        if len(rows[offset : offset + limit]) > self.troubles.slow_over:
            raise Refused(500, "internal server error: query timeout 3s")
        return rows[offset : offset + limit]

    def _cut(self, rows: list[Row], share: float) -> list[Row]:
        if rows and self._happens(share):
            return rows[: self._rng.randrange(len(rows))]
        return rows

    def _shuffled(self, count: int) -> list[int]:
        return self._rng.sample(range(count), count)

    def _body(self, name: str, rows: list[Row], query: Query) -> bytes:
        if self._happens(self.troubles.refused):
            raise Refused(404, "not found")
        if self._happens(self.troubles.null):
            return b'{"%b":null}' % name.encode()
        if rows and name == "transactions" and self._happens(self.troubles.stray):
            place = self._rng.randrange(len(rows))
            other = rows[place] | {"mc_block_seqno": rows[place]["mc_block_seqno"] + 1}
            rows = [*rows[:place], other, *rows[place + 1 :]]
        listed = b",".join(self._json(row) for row in rows)
        if name == "blocks":
            return b'{"blocks":[%b]}' % listed
        named = {} if query["x_no_address_book"] == ["true"] else self._entries(rows)
        return b'{"transactions":[%b],"address_book":%b}' % (listed, json.dumps(named).encode())

    def _json(self, row: Row) -> bytes:
        if id(row) not in self._encoded:
            self._encoded[id(row)] = row, json.dumps(row).encode()
        return self._encoded[id(row)][1]

    def _entries(self, rows: list[Row]) -> Row:
        book = self.chain.address_book
        if not book:
            return {}
        named = {
            address
            for row in rows
            for message in (row["in_msg"], *row["out_msgs"])
            for address in (row["account"], *((message or {}).get(end) for end in ENDS))
        }
        return {address: book[address] for address in sorted(named & book.keys())}


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, [str(default)])[-1]
    if not text.isdecimal():
        raise Refused(422, f'failed to decode: schema: error converting value for "{name}"')
    return int(text)


# ── in a process of its own ──────────────────────────────────────────────────────────────────────


def _serve(bodies: list[Row], troubles: Troubles, pipe: Any) -> None:
    with FakeService(Chain.of(bodies), troubles) as service:
        pipe.send(service.url)
        while pipe.recv() == "seen":
            pipe.send([seen.time for seen in service.seen])


@contextmanager
def apart(bodies: list[Row], troubles: Troubles) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Serve in another process: give the URL, and a function that tells when requests came."""
    context = get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(bodies, troubles, theirs), daemon=True)
    process.start()

    def seen() -> list[float]:
        ours.send("seen")
        return ours.recv()

    try:
        yield ours.recv(), seen
    finally:
        ours.send("end")
        process.join(10)
        process.kill()
