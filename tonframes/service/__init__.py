"""The local service: answers the API's operations from a store, on this computer.

::

    server      HTTP: sockets, limits, headers; knows no operation
    dialects    operations: parameters in, objects out; two ways to answer them
    tips        which block of each shard is the last as of a masterchain block
    held    rows of a store as JSON, kept in memory for a while

It is the mirror of the client, for working offline, for sharing a store, and for testing.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from tonframes.errors import StoreError, shorten
from tonframes.seqnos import spell, subtract
from tonframes.service.dialects import DIALECTS
from tonframes.service.rows import HeldRows
from tonframes.service.server import Server
from tonframes.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    from tonframes.wire.kinds import Dialect

__all__ = ["serve", "serve_forever"]

#: Seconds between looks at whether to stop.
POLL = 0.05


@contextmanager
def serve(
    path: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    dialect: Dialect = "specification",
) -> Iterator[str]:
    """Answer the API's operations from a store, in the background, while the context lasts.

    What is committed to the store meanwhile is served as well. The store is never written to.

    Parameters
    ----------
    path
        A store, as `fetch_blocks(..., store=path)` makes one.
    host
        Where to listen. Only this computer can reach the default; on another address anybody who
        reaches it is answered, without a key.
    port
        The port to listen on; 0 is any that is free.
    dialect
        "specification": `accountStates` and `masterchainBlockShards` as specified, and
        `transactionsByMasterchainBlock` and `masterchainInfo` beside them. Where the specification
        is silent: limit is 100 and offset 0 by default, rows come in the order of (lt, account),
        wrong parameters are refused with status 422, a masterchain block that the store does not
        hold with 404, and a page past the end is empty.

        "service": as deployed services do (toncenter/ton-indexer), oddities included.
        `masterchainBlockShards` answers with blocks, and there is `masterchainBlockShardState`.

    Yields
    ------
    The base URL, for `Client(url)`.

    Raises
    ------
    StoreError
        There is no store at `path`, or one without blocks is to speak as a deployed service.
    OSError
        The port is taken, or `host` is no address of this computer.

    Notes
    -----
    An account is served as in its newest snapshot: one fetched without code and data has none.

    Examples
    --------
    >>> import requests
    >>> import tonframes as tf
    >>> with serve(tf.sample()) as url:
    ...     answer = requests.get(f"{url}/api/v3/masterchainBlockShards?seqno=7")
    >>> answer.status_code, answer.json()
    (404, {'error': 'masterchain block 7 not found'})
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {' or '.join(map(repr, DIALECTS))}, not {shorten(dialect)}")
    if not host:
        raise ValueError("host is empty: give 0.0.0.0 to listen on every address of this computer")
    if port not in range(2**16):
        raise ValueError(f"port is from 0 to 65535, not {shorten(port)}")
    store = Store(path)
    store.check()
    if dialect == "service":
        _check_blocks(store)
    server = Server(host, port, DIALECTS[dialect](HeldRows(store, dialect)).answer)
    accepting = Thread(target=server.serve_forever, args=(POLL,), name="tonframes", daemon=True)
    accepting.start()
    try:
        yield server.url
    finally:
        server.stop()
        accepting.join()


def serve_forever(
    path: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    dialect: Dialect = "specification",
    ready: Callable[[str], object] | None = None,
) -> None:
    """Answer from a store until Ctrl-C.

    Parameters
    ----------
    path, host, port, dialect
        As for `serve`.
    ready
        Called with the base URL once the service listens; by default that is printed.
    """
    with serve(path, host=host, port=port, dialect=dialect) as url:
        try:
            (ready or _announce)(url)
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return


def _announce(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()  # who waits for the line may be at the other end of a pipe


def _check_blocks(store: Store) -> None:
    held = store.held()
    if not held:
        lacking = f"{store.path} holds no masterchain blocks"
    elif missing := subtract(held, store.files("blocks")):
        lacking = f"{store.path} holds no blocks of the masterchain seqnos {spell(missing)}"
    else:
        return
    raise StoreError(
        f"{lacking}, and a deployed service answers with blocks: serve it with "
        'dialect="specification"',
        path=store.path,
    )
