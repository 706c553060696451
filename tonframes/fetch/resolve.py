"""Which service is asked, and which store is used."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import contextmanager
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import platformdirs

from tonframes.client import Client
from tonframes.errors import shorten
from tonframes.seqnos import checked
from tonframes.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Default(Enum):
    STORE = "a folder in the user's cache directory, one per service"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.STORE

StoreOption = str | PathLike[str] | _Default | None
ClientOption = Client | Literal["offline"] | None
Seqnos = range | Iterable[int]


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
def resolve_client(client: ClientOption) -> Iterator[tuple[Client | None, str]]:
    """Give the client, None for offline, and the name of its service; close it if it is ours."""
    if isinstance(client, Client):
        yield client, client.base_url
        return
    if client not in (None, "offline"):
        raise TypeError(f'client is a Client, "offline" or None, not {shorten(client)}')
    with Client() as own:
        yield (own if client is None else None), own.base_url


def resolve_store(store: StoreOption, service: str) -> Store | None:
    """Give the store that is meant, None for none."""
    if store is None:
        return None
    if not str(store):
        raise ValueError("store is an empty text: give a folder, or None to keep nothing")
    return Store(default_store(service) if isinstance(store, _Default) else store)


def resolve_seqnos(seqnos: Seqnos) -> tuple[range, ...]:
    """Check masterchain seqnos before anything is sent; there must be some."""
    wanted = checked(seqnos)
    if not wanted:
        raise ValueError("no seqnos to ask for")
    return wanted
