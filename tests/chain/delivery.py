"""Deliver the messages of the synthetic chain: each of them starts one transaction."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chain.accounts import hidden
from chain.contracts import WALLET
from chain.execution import execute
from chain.messages import Message, request_cell
from chain.run import Moment

if TYPE_CHECKING:
    from random import Random

    from chain.population import Population
    from chain.scenarios import Plan
    from chain.shards import Layout, Shard

#: Logical times of blocks are multiples of a step. A masterchain block and the shard blocks that it
#: includes share one stride.
STEP, STRIDE = 1_000_000, 4_000_000


class Delivery:
    """The messages on their way between the accounts of a chain.

    Messages within a shard wait in its queue, and may be processed in the same block. Messages to
    other shards are delivered before the next block.
    """

    def __init__(self, rng: Random, people: Population, layout: Layout) -> None:
        self._rng, self._people, self._layout = rng, people, layout
        self.under_way: list[Message] = []

    def deliver(self) -> None:
        """Put the messages that earlier blocks sent to other shards into the queues of these."""
        for message in self.under_way:
            self._layout.of(message.destination or "").queue.append(message)
        self.under_way = []

    def request(self, plan: Plan, now: int) -> Message:
        """Make the signed external message of a plan."""
        orders = [(order.mode, *request_cell(order)) for order in plan.orders]
        seqno = plan.account.memory.get("seqno", 0)
        signature = self._rng.randbytes(64)
        contract = plan.account.contract or WALLET
        body = contract.request(signature, now + 60, seqno, orders)
        return Message(
            source=None,
            destination=plan.account.address,
            body=body,
            init=plan.init,
            orders=plan.orders,
        )

    def run(
        self, shard: Shard, message: Message, *, start_lt: int, now: int, mc_seqno: int
    ) -> dict[str, Any]:
        """Run the transaction of one message, and send the messages that it makes."""
        account = self._people.find(message.destination or "")
        lt = max(start_lt + 1, message.created_lt + 1, account.end_lt)
        transaction, out = execute(
            account,
            message,
            moment_of(shard, lt, now=now, mc_seqno=mc_seqno),
            rng=self._rng,
            suspended=self._people.is_suspended(account.address),
        )
        self._people.accounts.setdefault(account.address, account)
        for sent in out:
            if sent.destination is None:
                continue
            if shard.holds(sent.destination):
                shard.queue.append(sent)
            else:
                self.under_way.append(sent)
        return transaction


def moment_of(shard: Shard, lt: int, *, now: int, mc_seqno: int) -> Moment:
    """Return the moment of a transaction in the next block of a shard."""
    return Moment(
        now=now, lt=lt, mc_seqno=mc_seqno, block_ref=shard.ref | {"seqno": shard.seqno + 1}
    )


def hide_states_between(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reduce the states between several transactions of an account in a block to hashes."""
    by_account: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_account.setdefault(row["account"], []).append(row)
    for same in by_account.values():
        for row, following in pairwise(same):
            row["account_state_after"] = hidden(row["account_state_after"]["hash"])
            following["account_state_before"] = hidden(following["account_state_before"]["hash"])
    return rows
