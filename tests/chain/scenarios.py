"""The scenarios of the synthetic chain: common ones at random, rare ones in turn.

A scenario decides what one wallet is asked to send. The contracts and the rules decide what
follows. Scenarios of `COMMON` are drawn with weights to fill the blocks. Those of `RARE` are used
in turn, so that every rare case occurs even in a short chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chain import bodies, contracts, exchange
from chain.messages import Send, StateInit
from chain.population import ELECTOR, TON
from chain.pricing import prices_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chain.accounts import Account
    from chain.population import Population

#: More text than fits into one cell.
LONG_COMMENT = (
    "order 4471, to be delivered on Thursday between nine and eleven, behind the green door; "
    "please ring twice, and if nobody answers leave it with the neighbours on the second floor"
)
#: Typical comments, and some that have broken pages, spreadsheets and terminals.
COMMENTS = (
    "thanks!",
    "375006c0-5fe2",
    "💎 gm 👋",
    "<img src=x onerror=alert(1)>",
    '=1+1+cmd|"/C calc"!A1',
    "спасибо за обед",
    "line one\nline two\t\x07",
    "a, \"b\", 'c'; \\d",
    "\u202eright to left",
    LONG_COMMENT,
)
COMMENT_FORMS = 4
#: What spam says, and to how many wallets at once.
SPAM = ("🎁 claim 5000 TON at https://example.org", "You have won! https://example.org/nft")
VICTIMS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """An external message to make: its account, and the messages that the account is to send."""

    account: Account
    orders: tuple[Send, ...] = ()
    init: StateInit | None = None


Scenario = Callable[["Population", "Account"], Plan]


def order(
    account: Account | str,
    value: int,
    body: bodies.Body | None = None,
    *,
    mode: int = 3,
    bounce: bool = True,
    init: StateInit | None = None,
) -> Send:
    """Make an order, by default with mode 3 as wallets use it: separate fees, errors ignored."""
    return Send(
        destination=account if isinstance(account, str) else account.address,
        value=value,
        mode=mode,
        body=body or bodies.empty(),
        init=init,
        bounce=bounce,
    )


def _some(people: Population) -> int:
    return people.rng.randrange(TON // 100, TON)


def _comment(people: Population) -> bodies.Body:
    rng = people.rng
    return bodies.comment(rng.choice(COMMENTS), rng.randrange(COMMENT_FORMS))


# Common scenarios


def transfer(people: Population, sender: Account) -> Plan:
    """Send some TON without a comment."""
    to = people.rng.choice(people.wallets)
    return Plan(sender, (order(to, _some(people), bounce=False),))


def comment(people: Population, sender: Account) -> Plan:
    """Send some TON with a comment."""
    to = people.rng.choice(people.wallets)
    return Plan(sender, (order(to, _some(people), _comment(people), bounce=False),))


def payroll(people: Population, sender: Account) -> Plan:
    """Pay four wallets at once."""
    chosen = people.rng.sample(people.wallets, 4)
    orders = tuple(order(to, _some(people), _comment(people), bounce=False) for to in chosen)
    return Plan(sender, orders)


def jettons(people: Population, sender: Account) -> Plan:
    """Send jettons: transfer, internal transfer, notification and excesses."""
    owner, wallet = _holder(people, sender)
    rng = people.rng
    to = rng.choice(people.wallets).address
    forward, text = rng.choice(((0, None), (1, None), (1, "for lunch"), (TON // 100, "invoice 12")))
    body = bodies.jetton_transfer(
        rng.getrandbits(48),
        rng.randrange(1, 10**6),
        to=to,
        response=owner.address,
        forward=forward,
        content=text,
    )
    return Plan(owner, (order(wallet, 15 * TON // 100, body),))


def _holder(people: Population, sender: Account) -> tuple[Account, str]:
    """Return an owner of jettons and the jetton wallet: the sender if it owns jettons."""
    holder = sender.address
    if holder not in people.holders:
        holder = people.rng.choice(list(people.holders))
    return people.find(holder), people.holders[holder]


def sale(people: Population, sender: Account) -> Plan:
    """Send jettons to their exchange, which is notified, sends an event and pays TON."""
    owner, wallet = _holder(people, sender)
    pool = people.exchanges[people.find(wallet).memory["master"]]
    amount = people.rng.randrange(10**6, 10**8)
    out = exchange.amount_out(amount, pool.memory["jettons"], pool.memory["ton"])
    body = bodies.jetton_transfer(
        people.rng.getrandbits(48),
        amount,
        to=pool.address,
        response=owner.address,
        forward=exchange.FORWARD,
        content=exchange.swap_jettons(out * 99 // 100, owner.address),
    )
    return Plan(owner, (order(wallet, exchange.JETTON_SWAP_GAS, body),))


def nft(people: Population, _sender: Account) -> Plan:
    """Transfer an NFT; the new owner is notified."""
    item = people.rng.choice(people.nfts)
    owner = people.find(item.memory["owner"])
    to = people.rng.choice(people.wallets).address
    forward = people.rng.choice((1, TON // 100))
    body = bodies.nft_transfer(people.rng.getrandbits(48), to, owner.address, forward)
    return Plan(owner, (order(item, TON // 20, body),))


def event(people: Population, sender: Account) -> Plan:
    """Call a contract that sends an event to the outside."""
    body = bodies.opaque(0x6EC9DC65, people.rng.getrandbits(64), 64)
    return Plan(sender, (order(people.odd["logger"], _some(people), body),))


def spam(people: Population, _sender: Account) -> Plan:
    """Send advertisements with a few nanoton to many wallets: no_gas, and no bounce."""
    rng = people.rng
    orders = tuple(
        order(to, rng.randrange(1, 5_000), bodies.comment(rng.choice(SPAM)), bounce=False)
        for to in rng.sample(people.wallets, VICTIMS)
    )
    return Plan(rng.choice(people.spammers), orders)


COMMON: tuple[tuple[int, Scenario], ...] = (
    (6, transfer),
    (5, comment),
    (2, payroll),
    (5, jettons),
    (3, sale),
    (2, nft),
    (2, event),
    (1, spam),
)


# Rare scenarios


def _call(name: str, value: int = TON // 10) -> Scenario:
    """Make a scenario that calls one of the odd contracts."""

    def scenario(people: Population, sender: Account) -> Plan:
        body = bodies.opaque(0x5A17C0DE, people.rng.getrandbits(288), 288)
        return Plan(sender, (order(people.odd[name], value, body),))

    return scenario


def _poor_call(name: str) -> Scenario:
    """Make a scenario in which the rest of the value is too low for a bounce."""

    def scenario(people: Population, sender: Account) -> Plan:
        value = prices_at(0, people.start).lump_price * 6 // 5
        return Plan(sender, (order(people.odd[name], value),))

    return scenario


def _each_of(group: str, *, bounce: bool, value: int) -> Scenario:
    """Make a scenario that sends a message to the accounts of a group in turn."""

    def scenario(people: Population, sender: Account) -> Plan:
        accounts: list[Account] = getattr(people, group)
        accounts.append(accounts.pop(0))
        return Plan(sender, (order(accounts[-1], value, _comment(people), bounce=bounce),))

    return scenario


def newcomer(people: Population, sender: Account) -> Plan:
    """Send TON to an unused address: no_state, and the account is uninit afterwards."""
    address = people.wallet_init().address()
    return Plan(sender, (order(address, _some(people), bounce=False),))


def nobody(people: Population, sender: Account) -> Plan:
    """Send TON to an unused address, bounceable: it is returned."""
    address = people.wallet_init().address()
    return Plan(sender, (order(address, _some(people), _comment(people)),))


def deploy(people: Population, sender: Account) -> Plan:
    """Deploy a wallet with the message that pays it."""
    init = people.wallet_init()
    return Plan(sender, (order(init.address(), TON, init=init, bounce=False),))


def deploy_from_outside(people: Population, sender: Account) -> Plan:
    """Deploy a funded wallet with its first external message."""
    if not people.undeployed:
        return transfer(people, sender)
    account, init = people.undeployed.pop()
    return Plan(account, (order(sender, TON // 10, _comment(people), bounce=False),), init)


def suspended(people: Population, sender: Account) -> Plan:
    """Try to deploy to a suspended address."""
    account, init = people.rng.choice(people.suspended)
    return Plan(sender, (order(account, TON // 10, init=init),))


def bad_state(people: Population, sender: Account) -> Plan:
    """Try to deploy with the initial state of another address."""
    address = people.wallet_init().address()
    return Plan(sender, (order(address, TON // 10, init=people.wallet_init()),))


def one_nanoton(people: Population, sender: Account) -> Plan:
    """Send a single nanoton: no_gas."""
    to = people.rng.choice(people.wallets)
    return Plan(sender, (order(to, 1, _comment(people), bounce=False),))


def nothing(people: Population, sender: Account) -> Plan:
    """Send a value of 0: an empty credit phase."""
    to = people.rng.choice(people.wallets)
    return Plan(sender, (order(to, 0, bounce=False),))


def whale(people: Population, _sender: Account) -> Plan:
    """Send a billion TON."""
    to = people.whales[1]
    body = bodies.comment("to the cold wallet")
    return Plan(people.whales[0], (order(to, 10**18 + 1, body, bounce=False),))


def careless(people: Population, _sender: Account) -> Plan:
    """Call a contract that accepts the message, pays and throws."""
    return Plan(people.odd["careless"])


def overdrawn(people: Population, _sender: Account) -> Plan:
    """Ask a wallet v4 for more than it has, without +2: the action phase fails."""
    sender = people.of_version(contracts.WALLET)
    to = people.rng.choice(people.wallets)
    value = sender.balance + TON
    body = bodies.comment("all I have and more, and " * 5)
    return Plan(sender, (order(to, value, body, mode=1),))


def half_paid(people: Population, _sender: Account) -> Plan:
    """Ask a wallet v5 for four payments, two of them of more than it has: these are left out."""
    sender = people.of_version(contracts.WALLET_V5)
    values = (_some(people), sender.balance + TON, _some(people), sender.balance + TON)
    chosen = people.rng.sample(people.wallets, len(values))
    orders = (order(to, value, bounce=False) for to, value in zip(chosen, values, strict=True))
    return Plan(sender, tuple(orders))


def strict_v5(people: Population, _sender: Account) -> Plan:
    """Ask a wallet v5 for a message without +2: 137, after COMMIT."""
    sender = people.of_version(contracts.WALLET_V5)
    to = people.rng.choice(people.wallets)
    return Plan(sender, (order(to, _some(people), mode=1, bounce=False),))


def to_masterchain(people: Population, sender: Account) -> Plan:
    """Send TON to the masterchain, at masterchain prices."""
    to = people.rng.choice(people.mc_wallets)
    return Plan(sender, (order(to, TON, _comment(people), bounce=False),))


def from_masterchain(people: Population, sender: Account) -> Plan:
    """Send TON from the masterchain."""
    return Plan(
        people.rng.choice(people.mc_wallets),
        (order(sender, TON, _comment(people), bounce=False),),
    )


def to_elector(people: Population, sender: Account) -> Plan:
    """Send TON to a special account, which does not pay for gas."""
    del people
    return Plan(sender, (order(ELECTOR, TON),))


def stranger(people: Population, sender: Account) -> Plan:
    """Request jettons from the jetton wallet of another owner: 705, and a bounce."""
    others = [owner for owner in people.holders if owner != sender.address]
    wallet = people.holders[people.rng.choice(others)]
    body = bodies.jetton_transfer(7, 10, to=sender.address, response=sender.address)
    return Plan(sender, (order(wallet, TON // 10, body),))


def stingy(people: Population, sender: Account) -> Plan:
    """Attach too little value to a jetton transfer: 709, and a bounce."""
    owner, wallet = _holder(people, sender)
    to = people.rng.choice(people.wallets).address
    body = bodies.jetton_transfer(8, 10, to=to, response=owner.address, forward=1)
    return Plan(owner, (order(wallet, TON // 100, body),))


def refused(people: Population, sender: Account) -> Plan:
    """Send 0 jettons, which the receiving jetton wallet refuses: the transfer bounces."""
    owner, wallet = _holder(people, sender)
    to = people.rng.choice(people.wallets).address
    body = bodies.jetton_transfer(9, 0, to=to, response=owner.address, forward=1)
    return Plan(owner, (order(wallet, TON // 10, body),))


def mint(people: Population, _sender: Account) -> Plan:
    """Mint jettons for a wallet."""
    master = people.rng.choice(people.masters)
    to = people.rng.choice(people.wallets).address
    body = bodies.jetton_mint(people.rng.getrandbits(32), 10**9, to)
    admin = people.find(master.memory["admin"])
    return Plan(admin, (order(master, TON // 5, body),))


RARE: tuple[Scenario, ...] = (
    newcomer,
    nobody,
    deploy,
    deploy_from_outside,
    suspended,
    bad_state,
    one_nanoton,
    nothing,
    whale,
    careless,
    overdrawn,
    half_paid,
    strict_v5,
    to_masterchain,
    from_masterchain,
    to_elector,
    stranger,
    stingy,
    refused,
    mint,
    *(_call(contract.name) for contract in contracts.THROWERS),
    *(_call(contract.name) for contract in contracts.FAILING),
    _call("burner"),
    _call("committer"),
    _poor_call("throws 4"),
    _each_of("owing", bounce=False, value=TON // 100),
    _each_of("freezing", bounce=True, value=TON // 100),
    _each_of("frozen", bounce=True, value=TON // 10),
    _each_of("dying", bounce=True, value=TON // 10),
    _each_of("dying", bounce=True, value=1),
    _each_of("dying", bounce=False, value=TON // 10),
    _each_of("destroyers", bounce=True, value=TON // 10),
)


def pick(people: Population, senders: Sequence[Account]) -> Plan:
    """Draw a common scenario and a sender for it."""
    rng = people.rng
    scenario = rng.choices([play for _, play in COMMON], [weight for weight, _ in COMMON])[0]
    return scenario(people, rng.choice(senders))
