"""Fetch masterchain blocks, prove that they are complete, and commit them to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonframes.errors import MissingError, TonframesError
from tonframes.fetch.missing import fetch_missing, fetch_tasks
from tonframes.fetch.network import Network
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_seqnos,
    resolve_store,
)
from tonframes.fetch.spread import ExecutorOption, check_executor, workers_for
from tonframes.frames import Blocks
from tonframes.seqnos import SPAN, joined, spell, subtract
from tonframes.store import blocks_of, open_blocks
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client import Client
    from tonframes.fetch.proving import Proven
    from tonframes.store import AnyStore

#: Masterchain blocks from which on processes pay: they take a second to start.
LARGE = 10 * SPAN


def fetch_blocks(
    seqnos: Seqnos,
    *,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
    executor: ExecutorOption = None,
    progress: bool | None = None,
) -> Blocks:
    """Fetch the transactions that masterchain blocks commit; only those that the store lacks.

    Only what is proven to be complete is kept. If the service shows blocks, the proof is the chain
    of blocks of every shard; if it shows transactions only, the chain of transactions of every
    account, which cannot tell that the first or the last one of an account is missing. What else
    the proofs cannot notice is listed in `tonframes.fetch.proof`. What was proven is kept, whatever
    ends the call: an error, Ctrl-C, a lost network. Called again with the same arguments, it
    continues there.

    Parameters
    ----------
    seqnos
        Masterchain seqnos, or a single one; or text, as on the command line: `100:150` (without
        150), `100`, or two moments with a slash between them, `2026-05-28T20:26/2026-05-29`.
    client
        The client to use, or the URL of a service; None is `Client()`. "offline" reads the store
        and opens no socket.
    store
        Folder or URL of the store; by default a folder in the user's cache directory, None for no
        store. Damaged files in it are set aside with a warning, and fetched again. The URL is that
        of a bucket, as `s3://bucket/path` or `gs://bucket/path`: it takes spans of 100 masterchain
        seqnos from a multiple of 100 on, and what is not a whole one stays on this computer.
    executor
        Who fetches. A number is that of processes, which end with the call; 1 is this process
        alone. An Executor of `concurrent.futures`, such as that of a Dask cluster, is used as it
        is; its workers must see the store at the same path. None is as many processes as there are
        cores where they pay, which is for 1000 masterchain blocks and more from a service without a
        rate limit, and 1 elsewhere. The workers share the rate limit of the client. The result is
        the same.
    progress
        Whether to show a progress bar; None shows one in a terminal or a notebook.

    Returns
    -------
    Blocks, ordered by (mc_block_seqno, lt, account). With a store it is a view of its files.

    Raises
    ------
    RequestError, DecodeError
        The service did not answer, its answer cannot be decoded, or it does not have a block yet.
    IncompleteError
        Some masterchain blocks could not be proven after several attempts, or a worker was lost
        with them again and again. All others were fetched.
    MissingError
        Offline, and the store does not hold all blocks.
    StoreError
        The store is of another network, or cannot be written to. What was fetched for a bucket that
        does not answer stays on this computer until the next fetch.

    An error raised while fetching has the attributes `partial`, a `Blocks` with what was fetched
    or held, and `missing`, the ranges of seqnos that are not.

    Warns
    -----
    TonframesWarning
        The service is behind: it lacks blocks before the second moment, though that is past. The
        range ends with the last block that it has.

    Examples
    --------
    >>> import tonframes as tf
    >>> with tf.serve(tf.sample()) as url, tf.Client(url) as client:
    ...     blocks = tf.fetch_blocks(range(90_000_000, 90_000_003), client=client, store=None)
    >>> blocks.seqnos
    (range(90000000, 90000003),)
    """
    check_executor(executor)
    with resolve_client(client) as (online, service):
        wanted = resolve_seqnos(seqnos, online)
        target = resolve_store(store, service)
        if online is None:
            if target is None:
                raise MissingError("offline, and without a store", missing=wanted)
            return open_blocks(target.path, wanted)
        network = Network(online, target)
        network.claim()
        if target is not None:
            target.verify(wanted)
        fetched: list[Proven] = []
        try:
            for proven in _fetch(online, target, wanted, network, executor, progress=progress):
                if target is None:
                    fetched.append(proven)  # noqa: PERF401 - an error leaves what came before
        except (TonframesError, KeyboardInterrupt) as error:
            _explain(error, target, wanted, fetched, service)
            raise
        return _blocks(target, wanted, fetched, service)


def _fetch(
    client: Client,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    network: Network,
    executor: ExecutorOption,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch what a store lacks, here or with the workers of an executor."""
    missing = wanted if store is None else store.gaps(wanted)
    is_large = sum(map(len, missing)) >= LARGE
    workers = workers_for(executor, client, is_large=is_large)
    if workers == 1 or not missing:
        yield from fetch_missing(client, store, wanted, network, progress=progress)
        return
    network.confirm()
    yield from fetch_tasks(workers, client, store, missing, network, progress=progress)


def _blocks(
    store: AnyStore | None, wanted: tuple[range, ...], fetched: list[Proven], service: str
) -> Blocks:
    if store is not None:
        return blocks_of(store, wanted)
    tables, reached = [], 0
    for proven in sorted(fetched, key=lambda proven: proven.seqnos.start):
        if proven.seqnos.start >= reached:  # after an interruption one may have come twice
            reached = proven.seqnos.stop
            tables.append(proven.tables)
    return Blocks(concat(tables), source=service, seqnos=wanted)


def _explain(
    error: TonframesError | KeyboardInterrupt,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    fetched: list[Proven],
    service: str,
) -> None:
    """Add to an error what was fetched or is held, what is missing, and how to continue."""
    held = joined(proven.seqnos for proven in fetched) if store is None else store.held()
    missing = subtract(wanted, held)
    kept = subtract(wanted, missing)
    if isinstance(error, TonframesError):
        error.missing = missing
        if kept:
            error.partial = _blocks(store, kept, fetched, service)
    of_all = f"{sum(map(len, kept))} of {sum(map(len, wanted))} masterchain blocks"
    if store is not None:
        text = (
            f"{of_all} are kept; missing: {spell(missing)}. To continue, call fetch_blocks again "
            f"with store={str(store.path)!r}."
        )
    elif isinstance(error, TonframesError):
        text = (
            f"{of_all} are in `error.partial`; missing: {spell(missing)}. To continue, call "
            "fetch_blocks again for these."
        )
    else:
        text = "Without a store nothing is kept; with store= an interrupted fetch continues."
    error.add_note(text)
