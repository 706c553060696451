"""Three months in the life of an exchange, a jetton, a game and some wallets.

- It begins on Monday, 23 March 2026, and ends after 13 weeks, on Sunday, 21 June. There is more to
  do by day than by night (UTC), and more on working days than on weekends.
- 3 May: the network lowers the prices of gas and messages (`tonframes.network.prices`).
- 19 May, 09:00: the exchange gets new code, which needs about a third less gas.
- 28 May, 13:00 to 20:00: everybody wants to leave TON. The price moves faster than users allow,
  and many swaps fail with the exit code 1002.
- The game has half as many players every nine days. It closes on 25 May.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from chain import bodies, contracts, exchange, trading
from chain.accounts import Account
from chain.delivery import STRIDE
from chain.directory import address_book, mentioned, metadata
from chain.game import GAME
from chain.history import History, seqno_at
from chain.population import POOL_JETTONS, POOL_TON, TON, Population
from chain.rhythm import DAY, HOUR, Rhythm, fading
from chain.scenarios import SPAM, Plan, order

if TYPE_CHECKING:
    from collections.abc import Callable

    from chain.messages import Send, StateInit

#: A moment and its masterchain block, as in `Chain`.
KNOWN_SECOND, KNOWN_SEQNO = 1_780_000_000, 90_000_000
START = 1_774_224_000  # Monday, 2026-03-23 00:00:00Z
WEEK, WEEKS = 7 * DAY, 13
UPGRADE = START + 57 * DAY + 9 * HOUR  # Tuesday, 2026-05-19 09:00:00Z
RUSH = range(START + 66 * DAY + 13 * HOUR, START + 66 * DAY + 20 * HOUR)  # Thursday, 2026-05-28
#: Days in which the game loses half of its players.
HALF_LIFE = 9
CLOSING = START + 63 * DAY + 8 * HOUR  # Monday, 2026-05-25 08:00:00Z
USERS = 80
#: How many more swaps there are in the rush: of TON, and of jettons.
RUSH_BUYS, RUSH_SALES = 70, 12
#: Nobody pays from less.
POOREST = 100 * TON
#: When a tea house has guests, UTC.
OPENING_HOURS = (*(0,) * 7, 6, 9, 10, 9, 10, 12, 10, 9, 10, 11, 9, 6, 3, *(0,) * 4)
PURPOSES = ("thanks!", "lunch", "rent")
TEAS = ("green tea", "two oolong", "cake and tea", "table 4", "see you tomorrow 👋")


class Life:
    """Some accounts over three months, from their first transactions on."""

    def __init__(self, seed: int = 0, *, weeks: int = WEEKS) -> None:
        self.start, self.stop = START, START + weeks * WEEK
        self._rng = Random(seed)
        seqno = seqno_at(START, start=KNOWN_SECOND, first_seqno=KNOWN_SEQNO)
        self._people = people = Population(self._rng, START, seqno * STRIDE)
        self._history = History(self._rng, people, start=KNOWN_SECOND, first_seqno=KNOWN_SEQNO)
        self._admin = self._wallet(60_000 * TON)
        self._spammer = self._wallet(900 * TON, contracts.WALLET_V5)
        people.wallets += [
            self._wallet(self._rng.randrange(300, 3_000) * TON) for _ in range(USERS)
        ]
        self._open()
        self._hold_jettons()
        self._trade()
        self._play()
        self._pay()
        self._administer()

    def _wallet(self, balance: int, contract: contracts.Contract = contracts.WALLET) -> Account:
        memory = {"seqno": self._rng.randrange(500), "key": self._people.key()}
        return self._people.settle(contract, balance, memory)

    # What there is at the start

    def _open(self) -> None:
        """Deploy the accounts whose histories are kept, in the first hours."""
        admin = self._admin.address
        mastered = contracts.JETTON_MASTER.init({"supply": 10**12, "admin": admin})
        self.master = self._new(mastered)
        holding = {"ton": POOL_TON, "jettons": POOL_JETTONS, "fees": 0}
        pooled = exchange.EXCHANGE.init(holding | {"admin": admin, "master": self.master.address})
        self.pool = self._new(pooled, "exchange.ton")
        gaming = GAME.init({"open": 1, "rounds": 0})
        self.game = self._new(gaming, "game.ton")
        minted = bodies.jetton_mint(1, POOL_JETTONS, self.pool.address)
        self._tell(6 * HOUR, order(self.master, TON, minted, init=mastered))
        self._tell(6 * HOUR + 60, _deploy(self.pool, POOL_TON + 10 * TON, pooled))
        self._tell(6 * HOUR + 120, _deploy(self.game, 400 * TON, gaming))
        self.wallets: list[Account] = []
        for name, contract, balance in (
            ("alice.ton", contracts.WALLET_V5, 3_000),
            ("bob.ton", contracts.WALLET, 400),
            ("fundament.ton", contracts.WALLET_V5, 6_000),
            ("teahouse.ton", contracts.WALLET, 200),
        ):
            init = contract.init({"seqno": 0, "key": self._people.key()})
            self.wallets.append(self._new(init, name))
            at = 7 * HOUR + 600 * len(self.wallets)
            self._tell(at, _deploy(self.wallets[-1], balance * TON, init))

    def _new(self, init: StateInit, domain: str | None = None) -> Account:
        account = Account(address=init.address(), domain=domain, memory=init.memory)
        self._people.accounts[account.address] = account
        return account

    def _tell(self, at: int, *orders: Send) -> None:
        """Let the administrator send messages so many seconds after the start."""
        self._history.plan([self.start + at], lambda: Plan(self._admin, orders))

    def _hold_jettons(self) -> None:
        """Let every second user hold jettons."""
        for owner in self._people.wallets[::2]:
            address, init = contracts.jetton_wallet_of(owner.address, self.master.address)
            memory = init.memory | {"balance": self._rng.randrange(50, 3_000) * trading.JETTON}
            self._people.settle(contracts.JETTON_WALLET, TON // 5, memory, address=address)

    # What happens

    def _trade(self) -> None:
        """Let users swap, all through the day and in the rush."""
        trader, _, company, house = self.wallets
        people, pool = self._people, self.pool
        buy, sell = (partial(play, people, pool=pool) for play in (trading.buy, trading.sell))
        self._often(Rhythm(per_day=6.5), lambda: buy(self._anybody()))
        self._often(Rhythm(per_day=4.5), lambda: sell(self._anybody()))
        self._often(
            Rhythm(per_day=0.4), lambda: trading.add_liquidity(people, self._anybody(), pool)
        )
        self._often(Rhythm(per_day=0.8), lambda: buy(trader))
        self._often(Rhythm(per_day=0.7), lambda: sell(trader))
        self._weekly(8 * HOUR, lambda: buy(house))
        self._weekly(10 * HOUR, lambda: sell(company))
        for number, play in ((RUSH_BUYS, buy), (RUSH_SALES, sell)):
            seconds = sorted(self._rng.choice(RUSH) for _ in range(number))
            self._history.plan(seconds, partial(self._in_a_rush, play))

    def _play(self) -> None:
        """Let users play, fewer of them every day."""
        player, stake = self.wallets[1], partial(trading.stake, self._people, game=self.game)
        crowd = Rhythm(per_day=20, weekend=1.2, trend=fading(HALF_LIFE))
        self._often(crowd, lambda: stake(self._anybody()))
        self._often(Rhythm(per_day=2, weekend=1.5, trend=fading(HALF_LIFE)), lambda: stake(player))

    def _pay(self) -> None:
        """Let users pay and be paid, and send them spam."""
        _, player, company, house = self.wallets
        people, anybody = self._people, self._anybody
        guests = Rhythm(per_day=2.2, hours=OPENING_HOURS, weekend=1.4)
        self._often(guests, lambda: trading.pay(people, anybody(), house, TEAS))
        self._often(Rhythm(per_day=0.6), lambda: trading.pay(people, player, anybody(), PURPOSES))
        self._often(
            Rhythm(per_day=0.6, weekend=0.1),
            lambda: trading.pay_jettons(people, anybody(), company, self.master),
        )
        self._weekly(4 * DAY + 9 * HOUR, lambda: self._payroll(company))
        self._often(Rhythm(per_day=0.2), self._spam)

    def _administer(self) -> None:
        """Let the administrator collect fees, mint, upgrade the exchange and close the game."""
        collected = order(self.pool, TON // 10, exchange.collect(1))
        self._weekly(7 * HOUR, lambda: Plan(self._admin, (collected,)))
        self._weekly(2 * DAY + 10 * HOUR, self._mint)
        new = exchange.upgrade(1, exchange.EXCHANGE_V2)
        self._tell(UPGRADE - START, order(self.pool, TON // 5, new))
        self._tell(CLOSING - START, order(self.game, TON // 10, bodies.comment("close")))

    def _often(self, rhythm: Rhythm, play: Callable[[], Plan]) -> None:
        opened = self.start + 12 * HOUR
        self._history.plan(rhythm.moments(self._rng, opened, self.stop), play)

    def _weekly(self, at: int, play: Callable[[], Plan]) -> None:
        """Plan something for every week but the first, so many seconds after its Monday."""
        self._history.plan(range(self.start + WEEK + at, self.stop, WEEK), play)

    def _anybody(self) -> Account:
        """Return a random user who has enough for any scenario."""
        return self._rng.choice([user for user in self._people.wallets if user.balance > POOREST])

    def _in_a_rush(self, play: Callable[..., Plan]) -> Plan:
        return play(self._anybody(), rush=True)

    def _mint(self) -> Plan:
        to, number = self._anybody().address, self._rng.getrandbits(32)
        minted = bodies.jetton_mint(number, self._rng.randrange(100, 2_000) * trading.JETTON, to)
        return Plan(self._admin, (order(self.master, TON // 5, minted),))

    def _payroll(self, company: Account) -> Plan:
        paid = [self.wallets[1], *self._rng.sample(self._people.wallets, 2)]
        salary = bodies.comment("salary")
        return Plan(company, tuple(order(to, 25 * TON, salary, bounce=False) for to in paid))

    def _spam(self) -> Plan:
        text = bodies.comment(self._rng.choice(SPAM))
        victims = self._rng.sample(self.wallets, 2)
        return Plan(self._spammer, tuple(order(to, 2, text, bounce=False) for to in victims))

    # What is shown of it

    @property
    def accounts(self) -> list[str]:
        """The addresses of the accounts whose histories are kept."""
        owners = [self.pool, *(wallet for wallet in self.wallets if wallet is not self.wallets[1])]
        jettons = [contracts.jetton_wallet_of(o.address, self.master.address)[0] for o in owners]
        single = [self.pool, self.master, self.game, *self.wallets]
        return [*(account.address for account in single), *jettons]

    def run(self, until: int) -> dict[str, Any]:
        """Go on until a unix second."""
        kept = set(self.accounts)
        rows = [row for row in self._history.run(until) if row["account"] in kept]
        book = address_book(map(self._people.find, mentioned(rows)))
        return {"transactions": rows, "address_book": book}

    def account_states(self) -> dict[str, Any]:
        """Return the present states of `accounts`: the answer to accountStates."""
        known = [self._people.find(address) for address in self.accounts]
        known = [account for account in known if account.last_lt]
        return {
            "accounts": [account.record(include_boc=True) for account in known],
            "address_book": address_book(known),
            "metadata": metadata(known),
        }


def _deploy(account: Account, value: int, init: StateInit) -> Send:
    return order(account, value, init=init, bounce=False)
