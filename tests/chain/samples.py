"""The sample stores, and larger ones.

`python tests/chain/samples.py blocks PATH` writes a sample.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from chain import Chain
from chain import life as lives
from tonframes.seqnos import SPAN, ranges
from tonframes.store import MADE_UP, Span, Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order, stamped, with_columns

if TYPE_CHECKING:
    from os import PathLike

    from tonframes.samples import Sample
    from tonframes.wire.record import Record

#: How many blocks and accounts the sample of blocks holds. Accounts are read half way and at the
#: end.
BLOCKS, ACCOUNTS = 120, 300
#: After how many weeks the sample of histories is fetched, before the end: 4 May.
FETCHED = (6,)
#: Masterchain blocks of a synthetic store that are in memory at once.
AT_ONCE = SPAN
#: Network of the samples.
NETWORK = "-217"


def synthetic_store(
    path: str | PathLike[str], n: int, *, seed: int = 0, transactions_per_block: int = 25
) -> Path:
    """Write a store with consecutive masterchain blocks of a synthetic chain.

    1000 masterchain blocks of 5 transactions take about 5 seconds.
    """
    if n < 1:
        raise ValueError(f"n is {n}: expected at least 1 masterchain block")
    chain = Chain(seed, transactions_per_block=transactions_per_block)
    folder = Path(path)
    if folder.exists():
        raise ValueError(f"there is something at {folder}: name a folder that does not exist yet")
    store = Store(folder)
    store.claim(NETWORK, MADE_UP)
    for start in range(0, n, AT_ONCE):
        _write_next(store, chain, min(AT_ONCE, n - start))
    return store.path


def write_sample(name: Sample, path: str | PathLike[str]) -> None:
    """Write a sample store; the result is the same every time."""
    if name == "blocks":
        _write_blocks(Store(path))
    else:
        write_histories(Store(path))


def _write_blocks(store: Store) -> None:
    chain = Chain()
    store.claim(NETWORK, MADE_UP)
    addresses: list[str] = []
    for _ in range(2):
        _write_next(store, chain, BLOCKS // 2)
        if not addresses:
            everyone = chain.account_states(include_boc=False)["accounts"]
            addresses = sorted(account["address"] for account in everyone)[:ACCOUNTS]
        moment = datetime.fromtimestamp(chain.now, UTC)
        _write_states(store, chain.account_states(addresses), moment)


def _write_next(store: Store, chain: Chain, count: int) -> None:
    """Write the next masterchain blocks of a chain."""
    read = [_page(schema.BLOCKS_ANSWER, chain.next_block()) for _ in range(count)]
    tables = in_order(pages.blocks_tables(read))
    seqnos = ranges(tables["blocks"]["mc_block_seqno"].to_pylist())
    moment = datetime.fromtimestamp(chain.now, UTC)
    store.write_blocks(stamped(tables, moment), seqnos, proof="synthetic")


def write_histories(store: Store, *, weeks: int | None = None) -> None:
    """Write the sample of histories, or its first weeks."""
    life = lives.Life(weeks=weeks or lives.WEEKS)
    store.claim(NETWORK, MADE_UP)
    stops = [life.start + number * lives.WEEK for number in FETCHED]
    last: dict[str, tuple[int, int]] = {}
    for stop in [*(second for second in stops if second < life.stop), life.stop]:
        moment = datetime.fromtimestamp(stop, UTC)
        tables = in_order(pages.blocks_tables([_page(schema.BLOCKS_ANSWER, life.run(stop))]))
        names = ("account", "lt", "now", "prev_trans_lt")
        rows = list(zip(*(tables["transactions"][n].to_pylist() for n in names), strict=True))
        last |= {address: (lt, now) for address, lt, now, _ in rows}
        # After the last transaction of an account there is none until now, nor before the first.
        none = {a: [Span(lt + 1, lt + 1, now, stop)] for a, (lt, now) in last.items()}
        for address, lt, now, before in rows:
            if not before:
                none[address].append(Span(0, lt, 0, now))
        store.write_histories(stamped(tables, moment), none)
        _write_states(store, life.account_states(), moment)


def _write_states(store: Store, answer: object, moment: datetime) -> None:
    tables = stamped(pages.accounts_tables([_page(schema.ACCOUNTS_ANSWER, answer)]), moment)
    tables["accounts"] = with_columns(tables["accounts"], with_boc=True)
    store.write_accounts(tables)


def _page(record: Record, answer: object) -> pages.Page:
    return pages.read(record, json.dumps(answer).encode())


if __name__ == "__main__":
    write_sample(sys.argv[1], sys.argv[2])
