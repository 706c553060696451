"""What a service shows: its network, its first and last masterchain block, and what came before.

Every block states the number of its network, `global_id`. If a service leaves it out, the hash of
its first masterchain block shows the network. If it does not show that block either, its network is
unknown: a warning says so, and the store is named after the host.

An answer that says less than the service has shown before is no proof of anything: it was cut
short, or it comes from a replica that is behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count, product
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec
import pyarrow.compute as pc

from tonframes.addresses import marked_test_only, warn_of_test_only
from tonframes.errors import DecodeError, RequestError, StoreError, shorten, warn
from tonframes.store import NETWORKS
from tonframes.wire.kinds import DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from tonframes.client import Client
    from tonframes.store import AnyStore

T = TypeVar("T")

#: Seconds by which a replica of the service may be behind another one, and by which blocks with
#: nearby logical times may differ in time.
LAG = 60
#: Repetitions of a 404 for `masterchainInfo`, and the seconds between them.
REPEATED, PAUSE = 2, 0.2
#: Accounts that are remembered for a client at most.
MOST_ACCOUNTS = 100_000

#: Networks by the root hash of the first masterchain block that their public services show: on
#: mainnet seqno 1, on testnet seqno 3 (TON Center's `masterchainInfo`).
FIRST_BLOCKS = {
    "VpWYYOvJx1FBFdGpRjB1WK1IArc8/W9MYbLUBLxOn5I=": "mainnet",
    "N1MtB3dREOndUsEfXY6U7EUmgG7KTawIjoeM69iLuCc=": "testnet",
}


# ── what a service has shown ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Known:
    """What a service has shown, for a client in another process."""

    first: int | None
    last: int | None
    blocks: bool | None
    windows: bool


class Observed:
    """What one service has shown to a client; threads share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._accounts: set[str] = set()
        #: The first masterchain seqno, of the service's info, and the last one that it has shown.
        self.first: int | None = None
        self.last: int | None = None
        #: Whether it shows the blocks that a masterchain block commits, as deployed services do, or
        #: transactions only, as the specification has it; None before the first answer with rows.
        self.blocks: bool | None = None
        #: Whether it may have the operations that read through windows.
        self.windows = True

    @property
    def known(self) -> Known:
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
        with self._lock:
            self.last = max(seqno, self.last or 0)

    def has(self, seqno: int) -> bool:
        """Whether the service has shown this masterchain seqno, or a later one."""
        return self.last is not None and seqno <= self.last

    def note_blocks(self, *, blocks: bool) -> bool:
        """Note whether an answer with rows shows blocks; return whether the first one did."""
        with self._lock:
            if self.blocks is None:
                self.blocks = blocks
            return self.blocks

    def note_accounts(self, addresses: Iterable[str]) -> None:
        """Note accounts whose states the service has shown, as raw addresses."""
        with self._lock:
            for address in addresses:
                if len(self._accounts) >= MOST_ACCOUNTS:
                    break
                self._accounts.add(address)

    def forget_accounts(self, addresses: Iterable[str]) -> None:
        with self._lock:
            self._accounts.difference_update(addresses)

    def accounts(self, addresses: Iterable[str]) -> set[str]:
        """Return those of some accounts whose states the service has shown."""
        with self._lock:
            return self._accounts.intersection(addresses)


_by_client: WeakKeyDictionary[Client, Observed] = WeakKeyDictionary()
_lock = Lock()


def observed(client: Client) -> Observed:
    """Return what the service of a client has shown so far."""
    with _lock:
        return _by_client.setdefault(client, Observed())


def or_absent(ask: Callable[[], T]) -> T | None:
    """Return an answer; None for a 404."""
    try:
        return ask()
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def lacks_windows(client: Client) -> None:
    """Note that the service does not have the operations that read through windows."""
    observed(client).windows = False


# ── its first and last masterchain block ─────────────────────────────────────────────────────────


class MasterchainBlock(msgspec.Struct):
    """A masterchain block: the members of its row that are needed here."""

    seqno: int
    root_hash: str | None = None
    gen_utime: str | None = None
    global_id: int | None = None
    start_lt: str | None = None


class MasterchainInfo(msgspec.Struct):
    last: MasterchainBlock
    first: MasterchainBlock | None = None


_decode_info = msgspec.json.Decoder(MasterchainInfo).decode
#: Numbers that are written as text: of 32 and of 64 bits (ton, block.tlb `block_info`).
_DIGITS = {"gen_utime": re.compile("[0-9]{1,10}"), "start_lt": re.compile("[0-9]{1,19}")}


def last_shown(client: Client, seqno: int) -> int:
    """Return the last masterchain seqno that the service has shown; ask it if `seqno` is later.

    That it does not have `seqno` yet is believed only when it is repeated: replicas behind one
    address may lag.
    """
    known = observed(client)
    for attempt in range(REPEATED + 1):
        if known.has(seqno):
            break
        if attempt:
            client.wait(PAUSE)
        masterchain_info(client)
    return known.last or 0


def masterchain_info(client: Client) -> MasterchainInfo:
    """Fetch the first and the last masterchain block that a service has.

    A 404 counts only when it is repeated: deployed services also send it when a database query is
    interrupted. Some services do not have this operation.
    """
    for attempt in count(1):
        try:
            info = client.masterchain_info(_parse)
            break
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND or attempt > REPEATED:
                raise
            client.wait(PAUSE)
    known = observed(client)
    known.note_last(info.last.seqno)
    if info.first is not None:
        known.first = info.first.seqno
    return info


def _parse(answer: bytes) -> MasterchainInfo:
    try:
        info = _decode_info(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the first and the last masterchain block"
        raise DecodeError("$.last", expected, shorten(str(error))) from None
    for name, (key, digits) in product(("last", "first"), _DIGITS.items()):
        text = getattr(getattr(info, name), key, None)
        if text is not None and not digits.fullmatch(text):
            raise DecodeError(f"$.{name}.{key}", DIGITS.expected, shorten(text))
    return info


# ── its network ──────────────────────────────────────────────────────────────────────────────────


class Network:
    """The network that a service shows; every block of it must be of the network of the store."""

    def __init__(self, client: Client, store: AnyStore | None) -> None:
        self._client, self._store = client, store
        self._asked = False
        self._global_id: int | None = None

    def claim(self) -> None:
        """Check that the store can be written to; ask a service new to it for its network."""
        if self._store is None:
            return
        self._store.prepare()
        if not self._is_known(self._store):
            self.confirm()

    def confirm(self) -> None:
        """Ask the service for its network, once: the same address may show another than before."""
        if self._store is None or self._asked:
            return
        self._asked = True
        host, name = str(urlsplit(self._client.base_url).hostname), self._name()
        if self._is_known(self._store) and (name is None or self._store.network == host):
            return  # there is nothing to compare
        if name is None and self._store.network is None:
            warn(
                f"{self._client.base_url} does not tell its network, neither by the global_id of "
                f"its blocks nor by its first block: the network of the store {self._store.path} "
                f"is unknown, and is called {host}"
            )
        self._store.claim(name or host, self._client.base_url)

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Warn of addresses that are marked for test networks only, if the network is mainnet."""
        if marked_test_only(addresses):
            name = self._name() if self._store is None else self._store.network
            if name == "mainnet":
                warn_of_test_only(addresses, f"{self._client.base_url} shows")

    def check(self, blocks: pa.Table | None) -> None:
        """Raise an error unless fetched blocks are of one network, and of that of the store."""
        numbers = [] if blocks is None else pc.unique(blocks["global_id"]).drop_null().to_pylist()
        if numbers and self._global_id is None:
            self._global_id = _global_id(self._store) if self._store else None
        for global_id in numbers:
            if self._global_id is None:
                self._global_id = global_id
            if global_id == self._global_id:
                continue
            expected, other = _name_of(self._global_id), _name_of(global_id)
            if self._store is None:
                raise RequestError(
                    f"{self._client.base_url} shows blocks of two networks, {expected} and "
                    f"{other}: use another service"
                )
            raise StoreError(
                f"the store {self._store.path} is of the network {expected}, and "
                f"{self._client.base_url} shows blocks of {other}: give another store=",
                path=self._store.path,
            )

    def _is_known(self, store: AnyStore) -> bool:
        """Whether the store was made from this service."""
        return store.service == self._client.base_url and store.network is not None

    def _name(self) -> str | None:
        """Return the name of the service's network; None if the service does not tell it."""
        info = or_absent(partial(masterchain_info, self._client))
        if info is None:
            return None
        if info.last.global_id is not None:
            return _name_of(info.last.global_id)
        if info.first is None or info.first.root_hash is None:
            return None
        first = f"unnamed (first block {info.first.seqno} {info.first.root_hash})"
        return FIRST_BLOCKS.get(info.first.root_hash, first)


def _global_id(store: AnyStore) -> int | None:
    """Return the `global_id` of a store's network; None if it is unknown."""
    numbers = {name: number for number, name in NETWORKS.items()}
    name = store.network or ""
    if name in numbers or name.removeprefix("-").isdecimal():
        return numbers.get(name) or int(name)
    held = store.held_of("blocks", store.held())
    blocks = store.head("blocks", held, 1, ["global_id"])
    number: int | None = blocks["global_id"][0].as_py() if len(blocks) else None
    return number


def _name_of(global_id: int) -> str:
    return NETWORKS.get(global_id, str(global_id))
