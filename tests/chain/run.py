"""A transaction while it runs: the state that its phases read and change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chain.messages import Message, workchain_of
from chain.pricing import forward_fee, prices_at

if TYPE_CHECKING:
    from random import Random

    from chain.accounts import Account
    from chain.contracts import Outcome
    from tonframes.network.prices import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Time, logical time and block of a transaction."""

    now: int
    lt: int
    mc_seqno: int
    block_ref: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Run:
    """One running transaction. The balance of the account itself is set at the end."""

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
        """Whether the message is external."""
        return self.message is not None and not self.message.internal

    @property
    def prices(self) -> Prices:
        """The prices of the workchain of the account."""
        return prices_at(self.account.workchain, self.moment.now)

    def prices_to(self, other: str | None) -> Prices:
        """Return the prices for forwarding: of the masterchain if either end is there."""
        if other is not None and workchain_of(other) == -1:
            return prices_at(-1, self.moment.now)
        return self.prices

    def forward_fee(self, message: Message) -> int:
        """Return the forwarding fee of a message; special accounts pay nothing."""
        if self.account.special:
            return 0
        return forward_fee(self.prices_to(message.destination), *message.size)

    def pay(self, fee: int) -> None:
        """Move a fee from the account to the validators."""
        self.balance -= fee
        self.fees += fee
