"""Which service is asked, which store is used, and which network that is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import contextmanager
from enum import Enum
from http import HTTPStatus
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import msgspec
import platformdirs

from tonframes.client import Client
from tonframes.errors import DecodeError, RequestError, shorten
from tonframes.ranges import checked
from tonframes.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Default(Enum):
    STORE = "a folder in the user's cache directory, one per service"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.STORE

Where = str | PathLike[str] | _Default | None
Asked = Client | Literal["offline"] | None
Seqnos = range | Iterable[int]

#: How often a 404 about the service itself is not believed, and the seconds in between.
REPEATED, PAUSE = 2, 0.2

_NETWORKS = {-239: "mainnet", -3: "testnet"}


class Known(msgspec.Struct):
    """A masterchain block, as far as one needs to know it to find one's way."""

    seqno: int
    gen_utime: str | None = None
    global_id: int | None = None


class Info(msgspec.Struct):
    """The last and the first masterchain block that a service holds."""

    last: Known
    first: Known | None = None


_decode_info = msgspec.json.Decoder(Info).decode


def default_store(service: str) -> Path:
    """Say where what a service answered is kept by default.

    The environment's `TONFRAMES_STORE`, or a folder in the user's cache directory.

    Examples
    --------
    >>> default_store("https://toncenter.com").name
    'toncenter.com'
    """
    if folder := os.environ.get("TONFRAMES_STORE"):
        return Path(folder)
    address = urlsplit(service)
    name = address.hostname or "service"
    return platformdirs.user_cache_path("tonframes") / (
        f"{name}-{address.port}" if address.port else name
    ).replace(":", "_")


@contextmanager
def asking(client: Asked) -> Iterator[tuple[Client | None, str]]:
    """Give the client, None for offline, and the name of its service; close it if it is ours."""
    if isinstance(client, Client):
        yield client, client.base_url
        return
    if client not in (None, "offline"):
        raise TypeError(f'client is a Client, "offline" or None, not {shorten(client)}')
    with Client() as own:
        yield (own if client is None else None), own.base_url


def place_of(store: Where, service: str) -> Store | None:
    """Give the store that is meant, None for none."""
    if store is None:
        return None
    if not str(store):
        raise ValueError("store is an empty text: give a folder, or None to keep nothing")
    return Store(default_store(service) if isinstance(store, _Default) else store)


def info(client: Client) -> Info:
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


def _info(body: bytes) -> Info:
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
        network = info(client).last.global_id
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    if network is None:
        return str(urlsplit(client.base_url).hostname)
    return _NETWORKS.get(network, str(network))


def asked_for(seqnos: Seqnos) -> tuple[range, ...]:
    """Check masterchain seqnos before anything is sent; there must be some."""
    wanted = checked(seqnos)
    if not wanted:
        raise ValueError("no seqnos to ask for")
    return wanted
