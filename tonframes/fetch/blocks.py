"""Fetch masterchain blocks, prove that they are complete, and commit them to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonframes.errors import MissingError, TonframesError
from tonframes.fetch.missing import fetch_missing
from tonframes.fetch.network import Network
from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_store,
)
from tonframes.fetch.time import resolve_seqnos
from tonframes.frames import Blocks
from tonframes.seqnos import joined, spell, subtract
from tonframes.store import Store, blocks_of, open_blocks
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from tonframes.fetch.proving import Proven


def fetch_blocks(
    seqnos: Seqnos,
    *,
    client: ClientOption = None,
    store: StoreOption = DEFAULT,
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
        Folder of the store; by default one in the user's cache directory, None for no store.
        Damaged files in it are set aside with a warning, and fetched again.
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
        Some masterchain blocks could not be proven after several attempts. All others were
        fetched.
    MissingError
        Offline, and the store does not hold all blocks.
    StoreError
        The store is of another network, or cannot be written to.

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
    with resolve_client(client) as (online, service):
        wanted = resolve_seqnos(seqnos, online)
        target = resolve_store(store, service)
        if online is None:
            return _held(target, wanted)
        network = Network(online, target)
        network.claim()
        if target is not None:
            target.verify(wanted)
        parts: list[Proven] = []
        try:
            for part in fetch_missing(online, target, wanted, network, progress=progress):
                if target is None and (not parts or part.seqnos.start >= parts[-1].seqnos.stop):
                    parts.append(part)
        except (TonframesError, KeyboardInterrupt) as error:
            _tell(error, target, wanted, parts, service)
            raise
        return _blocks(target, wanted, parts, service)


# ── results and errors ────────────────────────────────────────────────────────────────────────────


def _blocks(
    store: Store | None, wanted: tuple[range, ...], parts: list[Proven], service: str
) -> Blocks:
    if store is not None:
        return blocks_of(store, wanted)
    return Blocks(concat([part.tables for part in parts]), source=service, seqnos=wanted)


def _tell(
    error: TonframesError | KeyboardInterrupt,
    store: Store | None,
    wanted: tuple[range, ...],
    parts: list[Proven],
    service: str,
) -> None:
    """Add to an error what was fetched or is held, what is missing, and how to continue."""
    held = joined(part.seqnos for part in parts) if store is None else store.held()
    missing = subtract(wanted, held)
    there = subtract(wanted, missing)
    if isinstance(error, TonframesError):
        error.missing = missing
        if there:
            error.partial = _blocks(store, there, parts, service)
    kept, count = sum(map(len, there)), sum(map(len, wanted))
    if store is not None:
        text = (
            f"{kept} of {count} masterchain blocks are kept; missing: {spell(missing)}. To "
            f"continue, call fetch_blocks again with store={str(store.path)!r}."
        )
    elif isinstance(error, TonframesError):
        text = (
            f"{kept} of {count} masterchain blocks are in `error.partial`; missing: "
            f"{spell(missing)}. To continue, call fetch_blocks again for these."
        )
    else:
        text = "Without a store nothing is kept; with store= an interrupted fetch continues."
    error.add_note(text)


def _held(store: Store | None, wanted: tuple[range, ...]) -> Blocks:
    if store is None:
        raise MissingError("offline, and without a store", missing=wanted)
    return open_blocks(store.path, wanted)
