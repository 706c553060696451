"""The ends of a range that is read through windows: tips and seconds, from the service."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.client import UnknownOperationError
from tonframes.errors import DecodeError, RequestError
from tonframes.fetch import headers
from tonframes.fetch.block import fetch_state
from tonframes.fetch.network import last_shown
from tonframes.fetch.shown import shown

if TYPE_CHECKING:
    from tonframes.client import Client
    from tonframes.fetch.block import State
    from tonframes.fetch.proof import Tips


def knows_windows(client: Client) -> bool:
    """Return whether the service may have the operations that read through windows."""
    return shown(client).windows


def lacks_windows(client: Client) -> None:
    """Note that the service does not have the operations that read through windows."""
    shown(client).windows = False


@dataclass(frozen=True, slots=True)
class Ends:
    """The run that can be read: the last blocks of all shards around it, and its seconds."""

    run: range
    before: Tips
    after: Tips
    first: int
    last: int


def find_ends(client: Client, run: range) -> Ends | None:
    """Ask for the last blocks of all shards before a run and at its end.

    Returns
    -------
    None if they are unknown, or the service is known not to be read through windows. The run ends
    with the last masterchain block of the service.
    """
    if not knows_windows(client):
        return None
    try:
        before = _state(client, run.start - 1)
        after = None if before is None else _state(client, run.stop - 1)
        if before is not None and after is None:
            last = last_shown(client, run.stop - 1)
            run = range(run.start, min(run.stop, last + 1))
            after = _state(client, run.stop - 1) if run else None
    except UnknownOperationError:
        lacks_windows(client)
        return None
    if before is None or after is None or after.last is None:
        return None
    first = before.first
    if first is None:  # a service names the blocks before its first one, and knows no more of them
        first = _first_time(client, run.start)
    return None if first is None else Ends(run, before.tips, after.tips, first, after.last)


def _state(client: Client, seqno: int) -> State | None:
    if not seqno:
        return None
    try:
        return fetch_state(client, seqno)
    except UnknownOperationError:
        raise
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def _first_time(client: Client, seqno: int) -> int | None:
    """Return the second of the oldest block that a masterchain block commits."""
    try:
        page = client.masterchain_block_shards(seqno, headers.reading(0, 2**63))
    except DecodeError:
        return None
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return min((header.utime for header in page.headers), default=None)
