"""Accounts of the synthetic chain: balance, contract and debt, and how the service shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from chain.cells import Cell, usage
from chain.contracts import with_code
from chain.messages import base64, workchain_of

if TYPE_CHECKING:
    from chain.contracts import Contract
    from chain.messages import StateInit

#: Hash of the state of an account that does not exist: the cell `account_none$0`.
NO_STATE = base64(Cell(0, 1).hash)
NO_TRANSACTION = base64(bytes(32))


def digest(*content: object) -> str:
    """Hash some content, in place of a cell that this chain does not build."""
    return base64(sha256(repr(content).encode()).digest())


@dataclass(kw_only=True, slots=True)
class Account:
    """An account."""

    address: str
    contract: Contract | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    status: str = "nonexist"
    balance: int = 0
    due: int = 0
    last_paid: int = 0
    last_hash: str = NO_TRANSACTION
    last_lt: int = 0
    end_lt: int = 0
    special: bool = False
    frozen_hash: str | None = None
    domain: str | None = None
    _data: Cell | None = field(default=None, init=False)
    _hash: str | None = field(default=None, init=False)

    @property
    def workchain(self) -> int:
        """-1 on the masterchain, 0 on the basechain."""
        return workchain_of(self.address)

    @property
    def data(self) -> Cell | None:
        """The data cell of an active account."""
        if self.status != "active" or self.contract is None:
            return None
        if self._data is None:
            self._data = self.contract.data(self.memory)
        return self._data

    @property
    def code(self) -> Cell | None:
        """The code cell of an active account."""
        return self.contract.code if self.status == "active" and self.contract else None

    def remember(self, memory: dict[str, Any]) -> None:
        """Replace what the contract stores."""
        self.memory, self._data = memory, None

    def storage(self) -> tuple[int, int]:
        """Count the cells and bits that storage is charged for: the root, the code and the data."""
        cells, bits = 1, 64 + 4 + 8 * ((self.balance.bit_length() + 7) // 8) + 3
        if self.code is not None and self.data is not None:
            below = usage(self.code, self.data)
            cells, bits = cells + below[0], bits + below[1]
        return cells, bits

    @property
    def hash(self) -> str:
        """Hash of the current state."""
        if self._hash is None:
            if self.status == "nonexist":
                self._hash = NO_STATE
            else:
                held = self.data.hash if self.data else self.frozen_hash
                paid = (self.due, self.last_paid)
                content = (self.address, self.status, self.balance, held, *paid, self.end_lt)
                self._hash = digest("state", *content)
        return self._hash

    def activate(self, init: StateInit) -> None:
        """Make the account active with an initial state."""
        self.status, self.contract = "active", with_code(init.code)
        self.remember(init.memory)

    def freeze(self) -> None:
        """Keep only a hash of the contract, as accounts in debt do."""
        self.frozen_hash = digest("frozen", self.address, self.data and self.data.hash)
        self.status = "frozen"

    def delete(self) -> None:
        """Delete the account. The caller handles its balance."""
        self.status, self.contract, self.frozen_hash, self.due = "nonexist", None, None, 0

    def touch(self) -> None:
        """Drop the cached hash after a change of the state."""
        self._hash = None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as the service shows it with a transaction."""
        if self.status == "nonexist":  # the service has no row for it
            return hidden(self.hash)
        return {
            "hash": self.hash,
            "balance": str(self.balance),
            "extra_currencies": {},
            "account_status": self.status,
            "frozen_hash": self.frozen_hash,
            "data_hash": base64(self.data.hash) if self.data else None,
            "code_hash": base64(self.code.hash) if self.code else None,
        }

    def record(self, *, include_boc: bool) -> dict[str, Any]:
        """Return the state as the accountStates operation shows it."""
        active = self.status == "active" and self.contract is not None
        shown: dict[str, Any] = {
            "address": self.address,
            "account_state_hash": self.hash,
            "balance": str(self.balance),
            "extra_currencies": {},
            "status": self.status,
            "last_transaction_hash": self.last_hash,
            "last_transaction_lt": str(self.last_lt),
        }
        if self.frozen_hash:
            shown["frozen_hash"] = self.frozen_hash
        if self.code is not None and self.data is not None:
            shown["data_hash"] = base64(self.data.hash)
            shown["code_hash"] = base64(self.code.hash)
            if include_boc:
                shown["data_boc"] = self.data.to_base64()
                shown["code_boc"] = self.code.to_base64()
        methods = list(self.contract.methods) if active and self.contract else None
        shown["contract_methods"] = methods
        shown["interfaces"] = list(self.interfaces) if active else None
        return shown

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Names of the interfaces of its contract."""
        return self.contract.interfaces if self.contract else ()


def hidden(state_hash: str) -> dict[str, Any]:
    """Return a state of which the service has only the hash.

    The service keeps one state per account and block (ton-indexer, DataParser.cpp). Between several
    transactions of one account in a block, the states are missing.
    """
    blank = dict.fromkeys(("balance", "extra_currencies", "account_status", "frozen_hash"))
    return {"hash": state_hash, **blank, "data_hash": None, "code_hash": None}
