"""Find out which network a service shows, and which masterchain blocks it has.

Every block states the number of its network, `global_id`. If a service leaves it out, the hash of
its first masterchain block shows the network. If it does not show that block either, its network is
unknown: a warning says so, and the store is named after the host.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import pyarrow.compute as pc

from tonframes.addresses import marked_test_only, warn_of_test_only
from tonframes.errors import DecodeError, RequestError, StoreError, shorten, warn
from tonframes.fetch.shown import shown
from tonframes.store import NETWORKS
from tonframes.wire.kinds import DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tonframes.client import Client
    from tonframes.store import AnyStore


#: Seconds by which a replica of the service may be behind another one, and by which blocks with
#: nearby logical times may differ in time.
LAG = 60

#: Repetitions of a 404 for `masterchainInfo`, and the seconds between them.
REPEATED, PAUSE = 2, 0.2


#: Networks by the root hash of the first masterchain block that their public services show: on
#: mainnet seqno 1, on testnet seqno 3 (TON Center's `masterchainInfo`).
FIRST_BLOCKS = {
    "VpWYYOvJx1FBFdGpRjB1WK1IArc8/W9MYbLUBLxOn5I=": "mainnet",
    "N1MtB3dREOndUsEfXY6U7EUmgG7KTawIjoeM69iLuCc=": "testnet",
}


class MasterchainBlock(msgspec.Struct):
    """A masterchain block: the members of its row that are needed here."""

    seqno: int
    root_hash: str | None = None
    gen_utime: str | None = None
    global_id: int | None = None
    start_lt: str | None = None


class MasterchainInfo(msgspec.Struct):
    """The last and the first masterchain block that a service has."""

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
    known = shown(client)
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
    info = _repeated(client)
    known = shown(client)
    known.note_last(info.last.seqno)
    if info.first is not None:
        known.first = info.first.seqno
    return info


def _repeated(client: Client) -> MasterchainInfo:
    for _ in range(REPEATED):
        try:
            return client.masterchain_info(_parse)
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            client.wait(PAUSE)
    return client.masterchain_info(_parse)


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


class Network:
    """The network that a service shows; every block of it must be of the network of the store.

    Parameters
    ----------
    client
        The client of the service.
    store
        Where the blocks go; None for no store.
    """

    def __init__(self, client: Client, store: AnyStore | None) -> None:
        self._client, self._store = client, store
        self._asked = False
        self._global_id: int | None = None

    def claim(self) -> None:
        """Check that the store can be written to, and make it one of the service's network.

        The service is asked only if the store is new, or another service was asked before.

        Raises
        ------
        StoreError
            The store is of another network, or cannot be written to.
        """
        if self._store is None:
            return
        self._store.prepare()
        if not self._is_known(self._store):
            self.confirm()

    def confirm(self) -> None:
        """Ask the service for its network before anything is fetched, unless it was asked already.

        The same address may show another network than before.

        Raises
        ------
        StoreError
            The store is of another network.
        """
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
        """Warn of addresses that are marked for test networks only, if the network is mainnet.

        Without a store, the service is asked for its network if there are such addresses.
        """
        if marked_test_only(addresses):
            name = self._name() if self._store is None else self._store.network
            if name == "mainnet":
                warn_of_test_only(addresses, f"{self._client.base_url} shows")

    def check(self, blocks: pa.Table | None) -> None:
        """Check that fetched blocks are of one network, and of that of the store.

        Raises
        ------
        StoreError
            They are of another network than the store.
        RequestError
            Without a store, they are of different networks.
        """
        shown = [] if blocks is None else pc.unique(blocks["global_id"]).drop_null().to_pylist()
        if shown and self._global_id is None:
            self._global_id = _global_id(self._store) if self._store else None
        for global_id in shown:
            if self._global_id is None:
                self._global_id = global_id
            if global_id == self._global_id:
                continue
            expected, found = _named(self._global_id), _named(global_id)
            if self._store is None:
                raise RequestError(
                    f"{self._client.base_url} shows blocks of two networks, {expected} and "
                    f"{found}: use another service"
                )
            raise StoreError(
                f"the store {self._store.path} is of the network {expected}, and "
                f"{self._client.base_url} shows blocks of {found}: give another store=",
                path=self._store.path,
            )

    def _is_known(self, store: AnyStore) -> bool:
        """Return whether the store was made from this service."""
        return store.service == self._client.base_url and store.network is not None

    def _name(self) -> str | None:
        """Return the name of the service's network; None if the service does not tell it."""
        try:
            info = masterchain_info(self._client)
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        if info.last.global_id is not None:
            return _named(info.last.global_id)
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


def _named(global_id: int) -> str:
    return NETWORKS.get(global_id, str(global_id))
