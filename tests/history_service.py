"""A service with the transactions of accounts, from rows in memory, and with its troubles.

It shares no code with the local service: rows are filtered, ordered and cut as the SQL of the
deployed service does it (ton-indexer, crud_transactions.go).
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from chain import synthetic_blocks
from fault_server import FaultServer, answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fault_server import Handler

Row = dict[str, Any]

OPERATIONS = frozenset({"masterchainInfo", "accountStates", "transactions"})
NONE, WRONG = "A" * 43 + "=", "A" * 42 + "E="


def whole_histories(blocks: int = 60, seed: int = 0) -> list[Row]:
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
    cut, cut_states
        Share of the lists of transactions, and of states, that are cut short under status 200.
    lag, behind
        Share of the answers that come from a replica that lacks so many seconds.
    lagging
        The operations that such a replica answers.
    spoil
        Share of the lists of transactions in which one row has a wrong hash of its own, or of the
        transaction before it.
    gone
        Hashes of transactions that the service does not have.
    """

    max_limit: int = 1000
    slow_over: int = 10**9
    longest_url: int = 8000
    cut: float = 0.0
    cut_states: float = 0.0
    lag: float = 0.0
    behind: int = 60
    lagging: frozenset[str] = OPERATIONS
    spoil: float = 0.0
    gone: frozenset[str] = frozenset()
    seed: int = 0


class HistoryService(FaultServer):
    """Serves transactions on a socket; `answered` counts the answers by operation and status."""

    def __init__(self, transactions: Iterable[Row], troubles: Troubles | None = None) -> None:
        super().__init__()
        self.troubles = troubles or Troubles()
        self.answered: Counter[tuple[str, int]] = Counter()
        self.rows_sent = 0
        self.otherwise = self._reply
        self._rng, self._turn = Random(self.troubles.seed), Lock()
        self.set_rows(transactions)

    def set_rows(self, transactions: Iterable[Row]) -> None:
        by_lt = sorted(transactions, key=_by_lt)
        by_time = sorted(by_lt, key=lambda row: row["now"])
        self._rows = {"lt": by_lt, "utime": by_time}
        self._keys = {
            "lt": [int(row["lt"]) for row in by_lt],
            "utime": [row["now"] for row in by_time],
        }

    @property
    def requests(self) -> int:
        return sum(self.answered.values())

    def _reply(self, handler: Handler) -> None:
        url = urlsplit(handler.path)
        operation = url.path.rpartition("/")[2]
        query = parse_qs(url.query)
        try:
            status, content = 200, self._answer(operation, query, len(handler.path))
        except Refused as refused:
            status, content = refused.status, {"error": str(refused)}
        with self._turn:
            self.answered[operation, status] += 1
        answer(json.dumps(content).encode(), status)(handler)

    def _answer(self, operation: str, query: dict[str, list[str]], length: int) -> Row:
        if length > self.troubles.longest_url:
            raise Refused(414, "URI Too Long")
        with self._turn:
            lags = self._rng.random() < self.troubles.lag and operation in self.troubles.lagging
        newest = self._rows["utime"][-1]["now"] - (self.troubles.behind if lags else 0)
        last = max(newest, self._rows["utime"][0]["now"])
        match operation:
            case "masterchainInfo":
                first = self._rows["utime"][0]
                lt = max(int(row["lt"]) for row in self._rows["utime"] if row["now"] <= last)
                newest = {"gen_utime": str(last), "start_lt": str(lt - lt % 1_000_000)}
                return {
                    "last": {"seqno": 2, "global_id": -217, **newest},
                    "first": {"seqno": 1, "gen_utime": str(first["now"]), "start_lt": "0"},
                }
            case "accountStates":
                return {"accounts": self._states(query["address"], last)}
            case "transactions":
                rows = self._search(query, last)
                return {"transactions": rows, "address_book": {}}
        raise Refused(500, f"internal server error: Cannot GET /api/v3/{operation}")

    def _states(self, addresses: Sequence[str], last: int) -> list[Row]:
        newest: dict[str, Row] = {}
        for row in self._rows["lt"]:
            if row["now"] <= last:
                newest[row["account"]] = row
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
        if states and self._rng.random() < self.troubles.cut_states:
            states = states[: self._rng.randrange(len(states))]
        return states

    def _search(self, query: dict[str, list[str]], last: int) -> list[Row]:
        unit = "utime" if "start_utime" in query or "end_utime" in query else "lt"
        keys = self._keys[unit]
        low = bisect_left(keys, int(query.get(f"start_{unit}", ["0"])[0]))
        high = bisect_right(keys, int(query.get(f"end_{unit}", [str(2**63)])[0]))
        accounts = set(query.get("account", ()))
        rows = [
            row
            for row in self._rows[unit][low:high]
            if (not accounts or row["account"] in accounts)
            and row["now"] <= last
            and row["hash"] not in self.troubles.gone
        ]
        if query.get("sort", ["desc"])[0] == "desc":
            rows.reverse()
        limit, offset = int(query.get("limit", ["100"])[0]), int(query.get("offset", ["0"])[0])
        if limit > self.troubles.max_limit:
            most = self.troubles.max_limit
            raise Refused(500, f"internal server error: limit is not allowed: {limit} > {most}")
        rows = rows[offset : offset + limit]
        if len(rows) > self.troubles.slow_over:
            raise Refused(500, "internal server error: query timeout 3s")
        if rows and self._rng.random() < self.troubles.cut:
            rows = rows[: self._rng.randrange(len(rows))]
        if rows and self._rng.random() < self.troubles.spoil:
            i = self._rng.randrange(len(rows))
            rows[i] = rows[i] | {self._rng.choice(["hash", "prev_trans_hash"]): WRONG}
        self.rows_sent += len(rows)
        return rows


def _by_lt(row: Row) -> tuple[int, str]:
    return int(row["lt"]), row["account"]
