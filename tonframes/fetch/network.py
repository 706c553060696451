"""Find out which network a service shows, and which masterchain blocks it has."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tonframes.errors import DecodeError, RequestError, shorten
from tonframes.fetch.shown import shown
from tonframes.store import NETWORKS

if TYPE_CHECKING:
    from tonframes.client import Client
    from tonframes.store import Store


#: Repetitions of a 404 for `masterchainInfo`, and the seconds between them.
REPEATED, PAUSE = 2, 0.2


class MasterchainBlock(msgspec.Struct):
    """A masterchain block: the members of its row that are needed here."""

    seqno: int
    gen_utime: str | None = None
    global_id: int | None = None
    start_lt: str | None = None


class MasterchainInfo(msgspec.Struct):
    """The last and the first masterchain block that a service has."""

    last: MasterchainBlock
    first: MasterchainBlock | None = None


_decode_info = msgspec.json.Decoder(MasterchainInfo).decode


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
        return _decode_info(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the first and the last masterchain block"
        raise DecodeError("$.last", expected, shorten(str(error))) from None


def claim(store: Store, client: Client) -> None:
    """Check that the store can be written to, and that it is of the client's network."""
    store.prepare()
    store.claim(_network(client, store), client.base_url)


def _network(client: Client, store: Store) -> str:
    """Return the name of the service's network; it is known if the store is of this service."""
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
    return NETWORKS.get(network, str(network))
