"""How many blocks and transactions masterchain blocks commit, measured from samples."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tonframes.client import UnknownOperationError
from tonframes.errors import RequestError
from tonframes.fetch import headers
from tonframes.fetch.ends import find_ends, lacks_windows
from tonframes.fetch.paging import read_page
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.client import Client
    from tonframes.fetch.ends import Ends
    from tonframes.fetch.proof import Key

#: A sample for so many masterchain blocks. It is a page of blocks, or some more where the service
#: allows small pages only, but no more than so many.
PER_SAMPLE, MOST_PAGES = 200, 20
#: About how many pages all samples may have.
ALL_PAGES = 12


@dataclass(frozen=True, slots=True)
class Density:
    """What a masterchain block commits on average.

    Attributes
    ----------
    blocks, transactions
        How many; None where it could not be measured.
    shown
        Whether the service answers with blocks at all.
    """

    blocks: float | None
    transactions: float | None
    shown: bool


def measure(client: Client, runs: Sequence[range]) -> Density:
    """Measure what the masterchain blocks of some ranges commit, with a few requests."""
    whole = range(runs[0].start, runs[-1].stop)
    ends = find_ends(client, whole)
    if ends is None and len(whole) > 1:  # before its first block a service knows no last blocks
        ends = find_ends(client, whole[1:])
    if ends is None:
        return Density(None, None, _shows_blocks(client, whole.start))
    count = -(-sum(map(len, runs)) // PER_SAMPLE)
    try:
        sizes, read = _sample(client, ends.first, ends)
        samples = min(ALL_PAGES // min(read, ALL_PAGES), count)
        step = (ends.last + 1 - ends.first) / samples
        for i in range(1, samples):
            sizes |= _sample(client, ends.first + round(i * step), ends)[0]
    except UnknownOperationError:
        lacks_windows(client)
        return Density(None, None, _shows_blocks(client, whole.start))
    if not sizes:
        return Density(None, None, shown=True)
    blocks, transactions = (
        sum(values) / len(sizes) for values in zip(*sizes.values(), strict=True)
    )
    return Density(blocks, transactions, shown=True)


def _sample(client: Client, first: int, ends: Ends) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the blocks and transactions of masterchain blocks that came whole, and the pages."""
    found: dict[int, dict[Key, int]] = defaultdict(dict)
    start, stop, following, read = ends.run.start, ends.run.stop, first, 0
    while read < MOST_PAGES:
        read += 1
        parse = headers.reading(following, ends.last)
        ask = partial(client.blocks, parse, start_utime=following, end_utime=ends.last)
        page, limit = read_page(client, ask)
        for header in page.headers:
            found[header.mc_seqno][header.key] = header.link.transactions
        if len(page.headers) < limit:
            stop = ends.run.stop
            break
        # The masterchain blocks at the ends of a sample may lack blocks that were made earlier, or
        # come later.
        stop = max(found) - headers.MARGIN + 1
        if stop - min(found) > 4 * headers.MARGIN:
            break
        following = max(following + 1, *(header.utime for header in page.headers))
    if first > ends.first:
        start = min(found, default=0) + headers.MARGIN
    sizes = {
        seqno: (len(counts), sum(counts.values()))
        for seqno, counts in found.items()
        if start <= seqno < stop
    }
    return sizes, read


def _shows_blocks(client: Client, seqno: int) -> bool:
    """Return whether the service shows the blocks that a masterchain block commits."""
    try:
        return client.masterchain_block_shards(seqno, _has_blocks, limit=1)
    except RequestError:
        return True


def _has_blocks(content: bytes) -> bool:
    answer = pages.read(schema.BLOCKS_ANSWER, content).answer
    return bool(answer.blocks) or not answer.transactions  # an empty answer says nothing
