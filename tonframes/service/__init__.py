"""The local service: it answers the API's operations from a store.

::

    server       HTTP: sockets, limits, headers; independent of the operations
    dialects     operations: from parameters to objects, in two dialects
    search       transactions and blocks that meet conditions
    parameters   what requests ask for, and how it is refused
    shard_state  the tips: the last block of each shard as of a masterchain block
    rows         rows that a store holds, as JSON, cached in memory
    scanned      what deployed services change in transactions as they read them

Use it to work offline, to share a store, and for tests.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from tonframes.errors import StoreError, shorten
from tonframes.seqnos import spell, subtract
from tonframes.service.dialects import DIALECTS
from tonframes.service.rows import HeldRows
from tonframes.service.server import Server
from tonframes.store import held_spans, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    from tonframes.store import Reader
    from tonframes.wire.kinds import Dialect

__all__ = ["serve", "serve_forever"]

#: Seconds between two checks whether to stop.
POLL = 0.05


@contextmanager
def serve(
    path: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    dialect: Dialect = "service",
) -> Iterator[str]:
    """Serve the API's operations from a store, in a background thread, while the context lasts.

    It also serves what is committed to the store meanwhile. It never writes to the store.

    Parameters
    ----------
    path
        A store or the URL of one, as `fetch_blocks(..., store=path)` or
        `fetch_transactions(..., store=path)` writes it. Histories are served by `transactions`, of
        the dialect "service" only.
    host
        Address to listen on. Only this computer can reach the default. On another address the
        service answers anybody who can reach it, without a key.
    port
        Port to listen on; 0 is any free port.
    dialect
        "service": as deployed services answer (toncenter/ton-indexer), including their quirks.
        `masterchainBlockShards` answers with blocks; `masterchainBlockShardState`, and `blocks`
        and `transactions` with their conditions, exist. Missing values are null. Gas and its
        fees of special accounts are exchanged (see `undo_gas_exchange`), and a credit phase
        without an amount is left out, so `has_credit` of such a transaction is False.

        "specification": `accountStates` and `masterchainBlockShards` as specified, and also
        `transactionsByMasterchainBlock` and `masterchainInfo`. The specification leaves some
        details open: here the default of limit is 100 and of offset 0, rows are ordered by (lt,
        account), invalid parameters give status 422, a masterchain block that the store does not
        hold gives 404, a page after the last one is empty, and missing values are left out.

    Yields
    ------
    The base URL, for `Client(url)`.

    Raises
    ------
    StoreError
        There is no store at `path`; or the dialect is "service", and it holds neither blocks nor
        histories.
    OSError
        The port is in use, or `host` is not an address of this computer.

    Notes
    -----
    An account is served from its newest snapshot. If that was fetched without code and data, the
    answer has none.

    Examples
    --------
    >>> import requests
    >>> import tonframes as tf
    >>> with serve(tf.sample()) as url:
    ...     answer = requests.get(f"{url}/api/v3/masterchainBlockShards?seqno=7")
    >>> answer.status_code, answer.json()
    (404, {'error': 'blocks not found'})
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {' or '.join(map(repr, DIALECTS))}, not {shorten(dialect)}")
    if not host:
        raise ValueError("host is empty: pass 0.0.0.0 to listen on every address of this computer")
    if port not in range(2**16):
        raise ValueError(f"port is from 0 to 65535, not {shorten(port)}")
    store = open_store(path)
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
    dialect: Dialect = "service",
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve from a store as `serve` does, until Ctrl-C."""
    with serve(path, host=host, port=port, dialect=dialect) as url, suppress(KeyboardInterrupt):
        if ready is not None:
            ready(url)
        else:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()  # the reader of this line may be at the other end of a pipe
        while True:
            time.sleep(3600)


def _check_blocks(store: Reader) -> None:
    """Refuse a store of which a deployed service's answers cannot be made."""
    held = store.held()
    if not held:
        if held_spans(store):
            return
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
