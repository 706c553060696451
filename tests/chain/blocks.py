"""The synthetic chain: its blocks, and the states of its accounts after each of them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from chain.delivery import STEP, STRIDE, Delivery, hide_states_between, moment_of
from chain.directory import address_book, mentioned, metadata
from chain.execution import execute
from chain.population import CONFIG, ELECTOR, populate
from chain.scenarios import RARE, pick
from chain.shards import Layout, Shard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chain.messages import Message

#: 28 May 2026: after the price change of 2026.
START = 1_780_000_000
FIRST_SEQNO = 90_000_000
TRANSACTIONS = 25
#: Special accounts run at the start (tick) and the end (tock) of every masterchain block.
TICKS, TOCKS = (ELECTOR,), (ELECTOR, CONFIG)
#: The transactions of special accounts, and one more.
FEWEST = len(TICKS) + len(TOCKS) + 1
POOREST = 5 * 10**9


class Chain:
    """A synthetic chain that follows the rules of the real one."""

    def __init__(
        self,
        seed: int = 0,
        *,
        first_seqno: int = FIRST_SEQNO,
        transactions_per_block: int = TRANSACTIONS,
        start: int = START,
    ) -> None:
        if first_seqno < 1:
            raise ValueError(f"first_seqno must be at least 1, got {first_seqno}")
        if transactions_per_block < FEWEST:
            raise ValueError(
                f"transactions_per_block must be at least {FEWEST}, got {transactions_per_block}: "
                f"special accounts of the masterchain run {FEWEST - 1} transactions in each block"
            )
        self.seqno, self.now = first_seqno - 1, start
        self._first, self._per_block = first_seqno, transactions_per_block
        self._rng = Random(seed)
        self._lt = first_seqno * STRIDE - STRIDE
        wallets = max(200, transactions_per_block // 2)
        self._people = populate(self._rng, start=start, lt=first_seqno * STRIDE, wallets=wallets)
        self._layout = Layout(self.seqno, lead=self._rng.randrange(2_000, 3_000))
        self._delivery = Delivery(self._rng, self._people, self._layout)
        self._rare = 0

    # Blocks

    def next_block(self) -> dict[str, Any]:
        """Make the next masterchain block and the shard blocks that it includes."""
        self.seqno += 1
        self.now += self._rng.choice((0, 1, 1, 2, 3, 5))
        self._lt += STRIDE
        self._delivery.deliver()
        self._play_rare()
        ordinary = min(len(self._layout.masterchain.queue), max(1, self._per_block // 8))
        ordinary = min(ordinary, self._per_block - FEWEST)
        budget = self._per_block - (FEWEST - 1) - ordinary
        blocks, transactions = self._shard_blocks(budget)
        header, own = self._masterchain_block(ordinary)
        transactions = sorted(
            [*transactions, *own], key=lambda row: (int(row["lt"]), row["account"])
        )
        return {
            "blocks": [header, *blocks],
            "transactions": transactions,
            "address_book": self._book(mentioned(transactions)),
        }

    def _play_rare(self) -> None:
        for _ in range(max(1, self._per_block // TRANSACTIONS)):
            sender = self._rng.choice(self._people.wallets)
            plan = RARE[self._rare % len(RARE)](self._people, sender)
            self._rare += 1
            self._layout.of(plan.account.address).queue.appendleft(
                self._delivery.request(plan, self.now)
            )

    def _shard_blocks(self, budget: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Make the shard blocks, and divide a number of transactions among them."""
        order = self._layout.advance(self._rng)
        blocks: list[dict[str, Any]] = []
        transactions: list[dict[str, Any]] = []
        for index, shard in enumerate(order):
            share = budget // (len(order) - index)
            budget -= share
            last = shard not in order[index + 1 :]
            start_lt = self._lt + STEP * (2 if last else 1)
            rows = self._fill(shard, share, start_lt)
            splits = last and self._layout.splits(shard)
            blocks.append(self._header(shard, rows, start_lt, before_split=splits))
            transactions += rows
        return blocks, transactions

    def _fill(self, shard: Shard, count: int, start_lt: int) -> list[dict[str, Any]]:
        """Make the transactions of a shard block: first waiting messages, then new requests."""
        senders = [
            wallet
            for wallet in self._people.wallets
            if wallet.balance > POOREST and shard.holds(wallet.address)
        ]
        rows: list[dict[str, Any]] = []
        while len(rows) < count:
            if shard.queue:
                message = shard.queue.popleft()
            else:
                plan = pick(self._people, senders)
                message = self._delivery.request(plan, self.now)
                if not shard.holds(plan.account.address):
                    self._delivery.under_way.append(message)
                    continue
            rows.append(self._run(shard, message, start_lt))
        return hide_states_between(rows)

    def _masterchain_block(self, ordinary: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        shard, start_lt = self._layout.masterchain, self._lt + 3 * STEP
        rows = [self._tick(shard, address, start_lt) for address in TICKS]
        rows += [self._run(shard, shard.queue.popleft(), start_lt) for _ in range(ordinary)]
        rows += [self._tick(shard, address, start_lt, is_tock=True) for address in TOCKS]
        rows = hide_states_between(rows)
        return self._header(shard, rows, start_lt), rows

    def _run(self, shard: Shard, message: Message, start_lt: int) -> dict[str, Any]:
        return self._delivery.run(
            shard, message, start_lt=start_lt, now=self.now, mc_seqno=self.seqno
        )

    def _tick(
        self, shard: Shard, address: str, start_lt: int, *, is_tock: bool = False
    ) -> dict[str, Any]:
        """Run a special account at the start or the end of a masterchain block."""
        account = self._people.find(address)
        lt = max(start_lt + 1, account.end_lt)
        moment = moment_of(shard, lt, now=self.now, mc_seqno=self.seqno)
        # The data of the service has both forms. Here the config contract has today's form, and the
        # elector the correct form of older recordings.
        exchanged = address == CONFIG
        transaction, _ = execute(
            account, None, moment, rng=self._rng, is_tock=is_tock, exchanged=exchanged
        )
        return transaction

    def _header(
        self,
        shard: Shard,
        rows: list[dict[str, Any]],
        start_lt: int,
        *,
        before_split: bool = False,
    ) -> dict[str, Any]:
        ends = [int(row["lt"]) + len(row["out_msgs"]) for row in rows]
        return shard.block(
            self._rng,
            mc_seqno=self.seqno,
            now=self.now,
            start_lt=start_lt,
            end_lt=1 + max(ends, default=start_lt),
            tx_count=len(rows),
            key_block=max(0, self._first - 100),
            wants=self._layout.wants(shard),
            before_split=before_split,
        )

    # States

    def account_states(
        self, addresses: Iterable[str] | None = None, *, include_boc: bool = True
    ) -> dict[str, Any]:
        """Return the current states of accounts."""
        known = self._people.accounts
        asked = list(known) if addresses is None else list(dict.fromkeys(addresses))
        accounts = [known[address] for address in asked if address in known]
        return {
            "accounts": [account.record(include_boc=include_boc) for account in accounts],
            "address_book": self._book(asked),
            "metadata": metadata(accounts),
        }

    def _book(self, addresses: Iterable[str]) -> dict[str, Any]:
        return address_book(self._people.find(address) for address in addresses)


def synthetic_blocks(
    n: int,
    *,
    seed: int = 0,
    first_seqno: int = FIRST_SEQNO,
    transactions_per_block: int = TRANSACTIONS,
    start: int = START,
) -> list[dict[str, Any]]:
    """Make consecutive masterchain blocks of a synthetic chain."""
    options = {"first_seqno": first_seqno, "transactions_per_block": transactions_per_block}
    chain = Chain(seed, **options, start=start)
    return [chain.next_block() for _ in range(n)]
