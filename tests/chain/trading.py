"""What users ask their wallets for: swaps, stakes in a game, payments.

Each function makes the plan of one wallet. It reads what the contracts hold at this moment, as the
front end of an exchange does for a quote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chain import bodies, contracts, exchange
from chain.game import LEAST_STAKE
from chain.population import TON
from chain.scenarios import Plan, order

if TYPE_CHECKING:
    from chain.accounts import Account
    from chain.population import Population

#: One jetton has a million units, as dollars of stablecoins have.
JETTON = 10**6
#: What users swap, in TON: often little, rarely much.
SIZES = (1, 1, 2, 2, 5, 5, 10, 10, 20, 50)
#: By how much, in tenths of a percent, the price may be worse than the quote; and by how much it
#: has moved until the swap is carried out: on an ordinary day, and when everybody swaps.
TOLERANCE, CALM, RUSH = 5, (*range(-4, 6), *range(-4, 6), *range(-4, 6), 7), range(-2, 18)
#: One user of so many attaches too little for fees.
CARELESS = 25


def buy(people: Population, sender: Account, pool: Account, *, rush: bool = False) -> Plan:
    """Swap TON for jettons."""
    rng, memory = people.rng, pool.memory
    amount = rng.choice(SIZES) * TON * rng.randrange(80, 121) // 100 * (1 + 2 * rush)
    amount = min(amount, sender.balance // 3)
    out = exchange.amount_out(amount, memory["ton"], memory["jettons"])
    body = exchange.swap(rng.getrandbits(32), amount, _limit(people, out, rush), sender.address)
    attached = exchange.SWAP_GAS if rng.randrange(CARELESS) else exchange.LEAST_GAS // 2
    return Plan(sender, (order(pool, amount + attached, body),))


def sell(people: Population, sender: Account, pool: Account, *, rush: bool = False) -> Plan:
    """Swap jettons for TON; buy some first if there are none."""
    rng, memory = people.rng, pool.memory
    address, _ = contracts.jetton_wallet_of(sender.address, memory["master"])
    held = people.find(address).memory.get("balance", 0)
    if held < JETTON:
        return buy(people, sender, pool, rush=rush)
    amount = min(3 * JETTON * rng.choice(SIZES), held) * rng.randrange(60, 101) // 100
    out = exchange.amount_out(amount, memory["jettons"], memory["ton"])
    payload = exchange.swap_jettons(_limit(people, out, rush), sender.address)
    body = bodies.jetton_transfer(
        rng.getrandbits(32),
        amount,
        to=pool.address,
        response=sender.address,
        forward=exchange.FORWARD,
        content=payload,
    )
    attached = exchange.JETTON_SWAP_GAS if rng.randrange(CARELESS) else exchange.FORWARD
    return Plan(sender, (order(address, attached, body),))


def _limit(people: Population, out: int, rush: bool) -> int:  # noqa: FBT001
    moved: int = people.rng.choice(RUSH if rush else CALM)
    return out * (1000 + moved - TOLERANCE) // 1000


def add_liquidity(people: Population, sender: Account, pool: Account) -> Plan:
    """Add TON to the pool."""
    amount = people.rng.randrange(1, 8) * TON
    body = exchange.deposit(people.rng.getrandbits(32), amount)
    return Plan(sender, (order(pool, amount + exchange.SWAP_GAS, body),))


def stake(people: Population, sender: Account, game: Account) -> Plan:
    """Play a round; one stake of twenty is too small."""
    small = not people.rng.randrange(20)
    value = LEAST_STAKE // 2 if small else LEAST_STAKE * people.rng.randrange(1, 12)
    return Plan(sender, (order(game, value, bodies.comment("play")),))


def pay(people: Population, sender: Account, receiver: Account, texts: tuple[str, ...]) -> Plan:
    """Pay a small amount, with a comment."""
    value = people.rng.randrange(2, 40) * TON // 10
    body = bodies.comment(people.rng.choice(texts))
    return Plan(sender, (order(receiver, value, body, bounce=False),))


def pay_jettons(people: Population, sender: Account, receiver: Account, master: Account) -> Plan:
    """Pay some jettons, with a comment that the receiver is told."""
    rng = people.rng
    address, _ = contracts.jetton_wallet_of(sender.address, master.address)
    body = bodies.jetton_transfer(
        rng.getrandbits(32),
        rng.randrange(2, 60) * JETTON // 2,
        to=receiver.address,
        response=sender.address,
        forward=TON // 100,
        content=f"invoice {rng.randrange(1, 900)}",
    )
    return Plan(sender, (order(address, TON // 10, body),))
