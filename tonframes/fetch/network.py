"""Which network a service shows, and which masterchain blocks of it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tonframes.errors import DecodeError, RequestError, shorten

if TYPE_CHECKING:
    from tonframes.client import Client
    from tonframes.store import Store


#: How often a 404 about the service itself is not believed, and the seconds in between.
REPEATED, PAUSE = 2, 0.2

_NETWORKS = {-239: "mainnet", -3: "testnet"}


class MasterchainBlock(msgspec.Struct):
    """A masterchain block, as far as one needs to know it to find one's way."""

    seqno: int
    gen_utime: str | None = None
    global_id: int | None = None


class MasterchainInfo(msgspec.Struct):
    """The last and the first masterchain block that a service holds."""

    last: MasterchainBlock
    first: MasterchainBlock | None = None


_decode_info = msgspec.json.Decoder(MasterchainInfo).decode


def masterchain_info(client: Client) -> MasterchainInfo:
    """Ask which masterchain blocks the service holds.

    A 404 is believed only when it is repeated: deployed services also answer so when their
    database interrupts them, and some services have no such operation.
    """
    for _ in range(REPEATED):
        try:
            return client.masterchain_info(_info)
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            client.wait(PAUSE)
    return client.masterchain_info(_info)


def _info(body: bytes) -> MasterchainInfo:
    try:
        return _decode_info(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the first and the last masterchain block"
        raise DecodeError("$.last", expected, shorten(str(error))) from None


def claim(store: Store, client: Client) -> None:
    """Make sure that the store can be written to, and then that it is of the client's network."""
    store.prepare()
    store.claim(_network(client, store), client.base_url)


def _network(client: Client, store: Store) -> str:
    """Name the service's network; a store that came from this service need not ask again."""
    if store.service == client.base_url and store.network is not None:
        return store.network
    network = None
    try:
        network = masterchain_info(client).last.global_id
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    if network is None:
        return str(urlsplit(client.base_url).hostname)
    return _NETWORKS.get(network, str(network))
