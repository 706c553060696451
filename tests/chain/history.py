"""A synthetic chain over months, of which only the blocks with transactions are made."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from chain.delivery import STEP, STRIDE, Delivery, hide_states_between
from chain.shards import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from chain.population import Population
    from chain.scenarios import Plan

#: Seconds between two masterchain blocks.
PACE = 2
LEAD = 2_400


def seqno_at(second: int, *, start: int, first_seqno: int) -> int:
    """Return the first masterchain block at or after a unix second."""
    return first_seqno - (start - second) // PACE


class History:
    """A chain in which wallets carry out plans at given times.

    The basechain has two shards throughout, and each adds one block to every masterchain block.
    Blocks without transactions are not made.
    """

    def __init__(self, rng: Random, people: Population, *, start: int, first_seqno: int) -> None:
        self._start, self._first_seqno = start, first_seqno
        self._layout = Layout(first_seqno - 1, LEAD)
        self._leads = [shard.seqno - first_seqno for shard in self._layout.shards]
        self._delivery = Delivery(rng, people, self._layout)
        self._numbers = count()
        self._planned: list[tuple[int, int, Callable[[], Plan]]] = []
        self._last = 0

    def plan(self, seconds: Iterable[int], play: Callable[[], Plan]) -> None:
        """Call a function at these unix seconds, and carry out the plan that it makes."""
        for second in seconds:
            heappush(self._planned, (second, next(self._numbers), play))

    def run(self, until: int) -> list[dict[str, Any]]:
        """Make the blocks before a unix second; return their transactions, ordered by block."""
        rows: list[dict[str, Any]] = []
        while True:
            seqno = self._next()
            if seqno is None or self._second(seqno) >= until:
                return rows
            rows += self._block(seqno)

    def _next(self) -> int | None:
        """Return the next masterchain block in which something happens."""
        if self._delivery.under_way:
            return self._last + 1
        if not self._planned:
            return None
        second = self._planned[0][0]
        seqno = seqno_at(second, start=self._start, first_seqno=self._first_seqno)
        return max(seqno, self._last + 1)

    def _second(self, seqno: int) -> int:
        return self._start + PACE * (seqno - self._first_seqno)

    def _block(self, seqno: int) -> list[dict[str, Any]]:
        """Make the transactions of a masterchain block."""
        self._last, now = seqno, self._second(seqno)
        self._delivery.deliver()
        while self._planned and self._planned[0][0] <= now:
            plan = heappop(self._planned)[-1]()
            shard = self._layout.of(plan.account.address)
            shard.queue.append(self._delivery.request(plan, now))
        rows: list[dict[str, Any]] = []
        for shard, lead in zip(self._layout.shards, self._leads, strict=True):
            shard.seqno = seqno + lead
            start_lt = seqno * STRIDE + 2 * STEP
            while shard.queue:
                message = shard.queue.popleft()
                rows.append(
                    self._delivery.run(shard, message, start_lt=start_lt, now=now, mc_seqno=seqno)
                )
        return hide_states_between(rows)
