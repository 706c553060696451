"""Resolve the arguments `client`, `store` and `seqnos` of the fetching functions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import contextmanager
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import platformdirs

from tonframes.bucket import is_url
from tonframes.client import Client
from tonframes.errors import shorten
from tonframes.store import AnyStore, Store, store_at

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Default(Enum):
    STORE = "a folder in the user's cache directory, one per service"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.STORE

StoreOption = str | PathLike[str] | _Default | None
ClientOption = Client | str | None
Seqnos = range | Iterable[int] | int | str


def default_store(service: str) -> Path | str:
    """Return the default folder of the store for a service.

    It is the folder, or the URL, that the environment variable `TONFRAMES_STORE` names, or a folder
    in the user's cache directory.

    Examples
    --------
    >>> Path(default_store("https://toncenter.com")).name
    'toncenter.com'
    """
    if folder := os.environ.get("TONFRAMES_STORE"):
        return folder if is_url(folder) else Path(folder)
    address = urlsplit(service)
    name = address.hostname or "service"
    return platformdirs.user_cache_path("tonframes") / (
        f"{name}-{address.port}" if address.port else name
    ).replace(":", "_")


@contextmanager
def resolve_client(client: ClientOption) -> Iterator[tuple[Client | None, str]]:
    """Yield the client (None is offline) and the URL of its service; close a client of ours."""
    if isinstance(client, Client):
        yield client, client.base_url
        return
    is_url = isinstance(client, str) and client.startswith(("http://", "https://"))
    if not is_url and client not in (None, "offline"):
        raise TypeError(f'client is a Client, a URL, "offline" or None, not {shorten(client)}')
    with Client(client if is_url else None) as own:
        yield (None if client == "offline" else own), own.base_url


def resolve_store(store: StoreOption, service: str) -> AnyStore | None:
    """Return the store to use, None for none."""
    path = _named(store, service)
    return None if path is None else store_at(path)


def resolve_folder(store: StoreOption, service: str) -> Store | None:
    """Return the store to use for histories, which a bucket cannot hold; None for none."""
    path = _named(store, service)
    return None if path is None else Store(path)


def _named(store: StoreOption, service: str) -> str | PathLike[str] | None:
    if store is None:
        return None
    if not str(store):
        raise ValueError("store is empty: pass a folder or a URL, or None to keep nothing")
    return default_store(service) if isinstance(store, _Default) else store
