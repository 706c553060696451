"""Where the proof of the chains begins: the tips before a masterchain block, or after the first."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from tonframes.errors import RequestError
from tonframes.fetch.block import fetch_state
from tonframes.fetch.network import masterchain_info
from tonframes.fetch.proof import Key, Link, Tips, check_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonframes.client import Client

#: The proof of the service's first masterchain block: there is no state before it.
BUT_FIRST = "chain, but for the first block"


@dataclass(frozen=True, slots=True)
class Origin:
    """The first masterchain block to follow the chains in, and the tips before it.

    Attributes
    ----------
    proof
        The name of the proof that begins here.
    committed
        The tips that the masterchain block before it commits, if that is the first one of the
        service and to be proven as well.
    """

    seqno: int
    tips: Tips
    proof: str = "chain"
    committed: frozenset[Key] = frozenset()

    def checked_tips(self, links: Mapping[int, Sequence[Link] | None]) -> Tips:
        """Return the tips, after checking the first masterchain block of the service.

        Parameters
        ----------
        links
            The blocks that masterchain blocks commit.

        Raises
        ------
        BrokenError
            It does not commit the blocks that it must.
        """
        if self.committed:
            check_first(links[self.seqno - 1] or (), self.committed)
        return self.tips


def find_origin(client: Client, start: int) -> Origin:
    """Ask for the last blocks of all shards before a masterchain block.

    Before the service's first one there is no state: there it is the state after it.
    """
    if start == 1:
        return _after_first(client, start)
    try:
        return Origin(start, fetch_state(client, start - 1).tips)
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        first = masterchain_info(client).first
        if first is None or first.seqno != start:
            raise
        return _after_first(client, start)


def _after_first(client: Client, seqno: int) -> Origin:
    state = fetch_state(client, seqno)
    return Origin(seqno + 1, state.tips, BUT_FIRST, state.committed)
