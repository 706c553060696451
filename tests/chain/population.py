"""The accounts of the synthetic chain at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chain import contracts, exchange
from chain.accounts import Account, digest

if TYPE_CHECKING:
    from random import Random

    from chain.contracts import Contract
    from chain.messages import StateInit

TON = 10**9
DAY = 86_400
#: Logical times of blocks are multiples of this.
STEP = 1_000_000
ELECTOR, CONFIG = "-1:" + "3" * 64, "-1:" + "5" * 64
#: The elector of the real chain holds some 450 million TON; here its balance has 19 digits.
ELECTOR_BALANCE = 1_446_835_565_696_002_309
WHALE_BALANCES = (2_234_567_890_123_456_789, 1_000_000_000_000_000_003)
NAMES = ("alice", "bob", "fundament", "teahouse", "lighthouse", "mill", "northwind", "abacus")
SUPPLIES = 10**15
#: What an exchange holds at the start: 3 jettons, of a million units each, for a TON.
POOL_TON, POOL_JETTONS = 20_000 * TON, 60_000 * 10**6
#: The wallets, in turn.
WALLETS = (contracts.WALLET, contracts.WALLET, contracts.WALLET_V5)
#: Storage debts: below the freeze limit (0.1 TON), above it, and above the delete limit (1 TON).
OWING, TO_FREEZE, TO_DELETE = 50_000_000, 160_000_000, 1_300_000_000


@dataclass(slots=True)
class Population:
    """The accounts of a chain, grouped by purpose."""

    rng: Random
    start: int
    lt: int
    accounts: dict[str, Account] = field(default_factory=dict)
    wallets: list[Account] = field(default_factory=list)
    whales: list[Account] = field(default_factory=list)
    spammers: list[Account] = field(default_factory=list)
    mc_wallets: list[Account] = field(default_factory=list)
    masters: list[Account] = field(default_factory=list)
    exchanges: dict[str, Account] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    nfts: list[Account] = field(default_factory=list)
    undeployed: list[tuple[Account, StateInit]] = field(default_factory=list)
    suspended: list[tuple[Account, StateInit]] = field(default_factory=list)
    owing: list[Account] = field(default_factory=list)
    freezing: list[Account] = field(default_factory=list)
    frozen: list[Account] = field(default_factory=list)
    dying: list[Account] = field(default_factory=list)
    destroyers: list[Account] = field(default_factory=list)
    odd: dict[str, Account] = field(default_factory=dict)

    def key(self) -> int:
        """Return a random public key."""
        return self.rng.getrandbits(256)

    def of_version(self, wallet: Contract) -> Account:
        """Return a random wallet of a version."""
        return self.rng.choice([account for account in self.wallets if account.contract is wallet])

    def wallet_init(self) -> StateInit:
        """Return the initial state of a new wallet with a random key."""
        return contracts.WALLET.init({"seqno": 0, "key": self.key()})

    def settle(
        self,
        contract: Contract,
        balance: int,
        memory: dict[str, Any] | None = None,
        *,
        address: str | None = None,
        workchain: int = 0,
        **rest: Any,
    ) -> Account:
        """Add an active account: at a given address, or that of its memory, or a random one."""
        if address is None and memory is None:
            address = f"{workchain}:{self.key():064X}"
        memory = memory or {}
        address = address or contract.init(memory).address(workchain)
        return self.add(
            address, balance=balance, status="active", contract=contract, memory=memory, **rest
        )

    def add(self, address: str, **rest: Any) -> Account:
        """Add an account of any status, with a last transaction before the start of the chain."""
        seconds, block = self.rng.randrange(60, 40 * DAY), self.rng.randrange(1, self.lt // STEP)
        before: dict[str, Any] = {
            "last_paid": self.start - seconds,
            "last_lt": block * STEP + 1,
            "end_lt": block * STEP + 2,
            "last_hash": digest("before", address, self.start),
        }
        account = Account(address=address, **(before | rest))
        self.accounts[address] = account
        return account

    def find(self, address: str) -> Account:
        """Return an account, or a nonexistent one."""
        return self.accounts.get(address) or Account(address=address)

    def is_suspended(self, address: str) -> bool:
        """Return whether an address must not be activated."""
        return any(account.address == address for account, _ in self.suspended)


def populate(rng: Random, *, start: int, lt: int, wallets: int) -> Population:
    """Make the accounts of a chain."""
    people = Population(rng, start, lt)
    for special, contract, balance in (
        (ELECTOR, contracts.ELECTOR, ELECTOR_BALANCE),
        (CONFIG, contracts.CONFIG, 64 * TON),
    ):
        people.settle(contract, balance, {}, address=special, special=True, last_paid=0)
    for number in range(wallets):
        memory = {"seqno": rng.randrange(500), "key": people.key()}
        balance = rng.randrange(20 * TON, 600 * TON)
        domain = f"{NAMES[number]}.ton" if number < len(NAMES) else None
        contract = WALLETS[number % len(WALLETS)]
        people.wallets.append(people.settle(contract, balance, memory, domain=domain))
    for balance in WHALE_BALANCES:
        memory = {"seqno": rng.randrange(500), "key": people.key()}
        people.whales.append(people.settle(contracts.WALLET, balance, memory))
    for _ in range(2):
        memory = {"seqno": rng.randrange(500), "key": people.key()}
        people.spammers.append(people.settle(contracts.WALLET_V5, 900 * TON, memory))
    for _ in range(3):
        memory = {"seqno": rng.randrange(500), "key": people.key()}
        balance = rng.randrange(20_000, 50_000) * TON
        people.mc_wallets.append(people.settle(contracts.WALLET, balance, memory, workchain=-1))
    _add_tokens(people)
    _add_odd_ones(people)
    return people


def _add_tokens(people: Population) -> None:
    rng = people.rng
    for number in range(2):
        admin = people.wallets[number].address
        memory = {"supply": SUPPLIES, "admin": admin}
        master = people.settle(contracts.JETTON_MASTER, 5 * TON, memory)
        people.masters.append(master)
        holding = {"ton": POOL_TON, "jettons": POOL_JETTONS, "fees": 0}
        memory = holding | {"admin": admin, "master": master.address}
        people.exchanges[master.address] = people.settle(
            exchange.EXCHANGE_V2, POOL_TON + 10 * TON, memory
        )
    for owner in people.wallets[::2]:
        address, init = contracts.jetton_wallet_of(
            owner.address, rng.choice(people.masters).address
        )
        memory = init.memory | {"balance": rng.randrange(10**6, 10**12)}
        wallet = people.settle(contracts.JETTON_WALLET, TON // 20, memory, address=address)
        people.holders[owner.address] = wallet.address
    collection = people.settle(contracts.NFT_COLLECTION, 3 * TON)
    for index in range(24):
        owner = rng.choice(people.wallets)
        memory = {"index": index, "collection": collection.address, "owner": owner.address}
        people.nfts.append(people.settle(contracts.NFT_ITEM, TON // 10, memory))


def _add_odd_ones(people: Population) -> None:
    single = (*contracts.THROWERS, *contracts.FAILING, contracts.BURNER, contracts.COMMITTER)
    for contract in single:
        people.odd[contract.name] = people.settle(contract, 2 * TON)
    for contract, memory in (
        (contracts.LOGGER, {"events": 0}),
        (contracts.CARELESS, {"seqno": 0, "key": people.key()}),
    ):
        people.odd[contract.name] = people.settle(contract, 50 * TON, memory)
    for group, balance in ((people.undeployed, 3 * TON), (people.suspended, TON)):
        for _ in range(8):
            init = people.wallet_init()
            group.append((people.add(init.address(), balance=balance, status="uninit"), init))
    for debtors, due, status in (
        (people.owing, OWING, "active"),
        (people.freezing, TO_FREEZE, "active"),
        (people.frozen, 0, "frozen"),
        (people.dying, TO_DELETE, "frozen"),
    ):
        for _ in range(8):
            account = people.settle(contracts.BURNER, 0, due=due)
            if status == "frozen":
                account.freeze()
            debtors.append(account)
    people.destroyers = [people.settle(contracts.DESTROYER, TON // 4) for _ in range(8)]
