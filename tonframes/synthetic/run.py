"""A transaction while it runs: what its phases read and change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tonframes.synthetic.messages import Message, workchain_of
from tonframes.synthetic.pricing import forward_fee, prices_at

if TYPE_CHECKING:
    from random import Random

    from tonframes.network.prices import Prices
    from tonframes.synthetic.accounts import Account
    from tonframes.synthetic.contracts import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where and when a transaction happens."""

    now: int
    lt: int
    mc_seqno: int
    block_ref: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Run:
    """One transaction under way. The account's balance is changed at its end.

    Attributes
    ----------
    message
        What the account answers, None in a tick-tock transaction.
    rng
        For what contracts leave open.
    suspended
        Whether the account may not be brought into being (configuration parameter 44).
    exchanged
        Whether gas fees and gas used are to be shown in each other's place.
    balance
        What the account has by now.
    left
        What is left of the message's value (`msg_balance_remaining`).
    fees
        Collected so far (`total_fees`).
    fine
        Charged for messages that could not be sent.
    outcome
        How the contract ended, None while it has not run.
    committed, acted
        Whether the compute phase, and the action phase, succeeded.
    deleted
        Whether the account was deleted on the way.
    wants_bounce
        Whether a failure sends the message back; some failures of the action phase do not.
    """

    account: Account
    message: Message | None
    moment: Moment
    rng: Random
    suspended: bool = False
    exchanged: bool = False
    balance: int = 0
    left: int = 0
    fees: int = 0
    gas_fees: int = 0
    fine: int = 0
    outcome: Outcome | None = None
    committed: bool = False
    acted: bool = False
    deleted: bool = False
    wants_bounce: bool = True
    out: list[Message] = field(default_factory=list)

    @property
    def external(self) -> bool:
        """Whether the message comes from outside."""
        return self.message is not None and not self.message.internal

    @property
    def prices(self) -> Prices:
        """The prices of the account's workchain."""
        return prices_at(self.account.workchain, self.moment.now)

    def prices_to(self, other: str | None) -> Prices:
        """Find the prices of forwarding: the masterchain's, if either end is there."""
        if other is not None and workchain_of(other) == -1:
            return prices_at(-1, self.moment.now)
        return self.prices

    def forward_fee(self, message: Message) -> int:
        """Price the forwarding of a message; special accounts pay nothing."""
        if self.account.special:
            return 0
        return forward_fee(self.prices_to(message.destination), *message.size)

    def pay(self, fee: int) -> None:
        """Move a fee from the account to the validators."""
        self.balance -= fee
        self.fees += fee
