"""What a service has shown so far, held for each client.

An answer that says less than the service has shown before is no proof of anything: it was cut
short, or it comes from a replica that is behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tonframes.client import Client

#: Accounts that are remembered for a client at most.
MOST_ACCOUNTS = 100_000


@dataclass(frozen=True, slots=True)
class Known:
    """What a service has shown, for a client in another process."""

    first: int | None
    last: int | None
    blocks: bool | None
    windows: bool


class Shown:
    """What one service has shown; threads share it.

    Attributes
    ----------
    first, last
        The first and the last masterchain seqno that it has shown; None for none. The first is
        that of its info.
    blocks
        Whether it shows the blocks that a masterchain block commits, as deployed services do, or
        transactions only, as the specification has it; None before the first answer with rows.
    windows
        Whether it may have the operations that read through windows.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._accounts: set[str] = set()
        self.first: int | None = None
        self.last: int | None = None
        self.blocks: bool | None = None
        self.windows = True

    @property
    def known(self) -> Known:
        """What a client in another process may start with."""
        return Known(self.first, self.last, self.blocks, self.windows)

    def learn(self, known: Known) -> None:
        """Add what another client has learned of the service."""
        with self._lock:
            self.first = known.first if self.first is None else self.first
            self.blocks = known.blocks if self.blocks is None else self.blocks
            self.windows = self.windows and known.windows
        if known.last is not None:
            self.note_last(known.last)

    def note_last(self, seqno: int) -> None:
        """Note a masterchain seqno that it has shown."""
        with self._lock:
            self.last = max(seqno, self.last or 0)

    def has(self, seqno: int) -> bool:
        """Return whether it has shown this masterchain seqno, or a later one."""
        return self.last is not None and seqno <= self.last

    def note_blocks(self, *, blocks: bool) -> bool:
        """Note whether an answer with rows shows blocks; return whether the first one did."""
        with self._lock:
            if self.blocks is None:
                self.blocks = blocks
            return self.blocks

    def note_accounts(self, addresses: Iterable[str]) -> None:
        """Note accounts whose states it has shown, as raw addresses."""
        with self._lock:
            for address in addresses:
                if len(self._accounts) >= MOST_ACCOUNTS:
                    break
                self._accounts.add(address)

    def forget_accounts(self, addresses: Iterable[str]) -> None:
        """Forget accounts that the service no longer has."""
        with self._lock:
            self._accounts.difference_update(addresses)

    def accounts(self, addresses: Iterable[str]) -> set[str]:
        """Return those of some accounts whose states it has shown."""
        with self._lock:
            return self._accounts.intersection(addresses)


_by_client: WeakKeyDictionary[Client, Shown] = WeakKeyDictionary()
_lock = Lock()


def shown(client: Client) -> Shown:
    """Return what the service of a client has shown."""
    with _lock:
        return _by_client.setdefault(client, Shown())
