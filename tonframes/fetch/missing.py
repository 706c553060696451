"""Fetch the masterchain blocks that a store lacks in this process, and commit them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tonframes.errors import IncompleteError, RequestError, StoreError, TonframesError
from tonframes.fetch.progress import progress as shown
from tonframes.fetch.reading import Counted, Reading
from tonframes.seqnos import joined
from tonframes.store import SPAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonframes.client import Client
    from tonframes.fetch.network import Network
    from tonframes.fetch.proving import Proven
    from tonframes.store import AnyStore


def fetch_missing(
    client: Client,
    store: AnyStore | None,
    wanted: tuple[range, ...],
    network: Network,
    *,
    progress: bool | None,
) -> Iterator[Proven]:
    """Fetch and commit what a store lacks; yield each part after its commit.

    However it ends, by an error, Ctrl-C or because the caller takes no more, it first commits what
    is proven by what has come, without another request. After an error it asks once more, and
    briefly, for what the proof of the last masterchain blocks still needs.

    Parameters
    ----------
    network
        The network of which all blocks must be.

    Raises
    ------
    IncompleteError
        Raised at the end; it names every masterchain block that could not be proven.
    """
    missing = wanted if store is None else store.gaps(wanted)
    if missing:
        network.confirm()
    failures: list[IncompleteError] = []
    with shown(sum(map(len, missing)), "masterchain blocks", show=progress) as bar:
        counted = Counted(client, bar)
        for run in missing:
            reading = Reading(client, run, counted, failures)
            yield from committed(reading, store, run, network)
    raise_failures(failures)


def raise_failures(failures: Sequence[IncompleteError]) -> None:
    """Raise one error that names every masterchain block that could not be proven."""
    if failures:
        unproven = joined(run for error in failures for run in error.missing)
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise IncompleteError(f"{failures[0]}{more}", missing=unproven)


def committed(
    reading: Reading, store: AnyStore | None, run: range, network: Network
) -> Iterator[Proven]:
    """Yield each part of consecutive masterchain blocks after its commit.

    Small files are merged at the end, but not after Ctrl-C or if the caller takes no more: the
    store is whole without that, and the next fetch does it.
    """
    try:
        for part in reading.parts():
            _commit(store, part, network)
            yield part
    except GeneratorExit:
        reading.drop(part)
        for part in reading.rest():
            _commit(store, part, network)
        raise
    except BaseException as error:
        with suppress(StoreError, RequestError):
            for part in reading.rest():
                _commit(store, part, network)
                yield part
            for part in reading.rescued() if isinstance(error, TonframesError) else ():
                _commit(store, part, network)
                yield part
        if isinstance(error, TonframesError):
            _merge(store, run)
        raise
    _merge(store, run)


def _commit(store: AnyStore | None, part: Proven, network: Network) -> None:
    network.check(part.tables.get("blocks"))
    if store is not None:
        store.write_blocks(part.tables, [part.seqnos], proof=part.proof)


def _merge(store: AnyStore | None, run: range) -> None:
    if store is not None and (len(run) > 1 or run.stop % SPAN == 0):
        with suppress(StoreError):
            store.merge(run)
