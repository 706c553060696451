"""The sample store: a few minutes of a made-up chain, for learning and testing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tonframes.seqnos import ranges
from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order, stamped, with_columns

if TYPE_CHECKING:
    from os import PathLike

    from tonframes.wire.record import Record

#: How many blocks and accounts the sample holds. Accounts are read half way and at the end.
BLOCKS, ACCOUNTS = 120, 300


def sample() -> Path:
    """Return the path of the sample store.

    It holds 120 masterchain blocks and the states of 300 accounts at two moments.
    `synthetic_blocks` has made them up by the rules of the real network. They are for learning and
    testing: accounts and amounts say nothing about TON.

    Examples
    --------
    >>> import tonframes as tf
    >>> tf.read_blocks(tf.sample()).transactions.total_fees.dtype
    dtype('int64')
    """
    package = Path(__file__).parent
    installed = package / "sample"
    return installed if installed.is_dir() else package.parent / "data" / "sample"


def write_sample(path: str | PathLike[str]) -> None:
    """Write the sample store; the result is the same every time.

    Parameters
    ----------
    path
        A folder that does not exist yet.
    """
    from tonframes.synthetic import Chain  # noqa: PLC0415 - reading the sample does not need it

    chain = Chain()
    store = Store(path)
    addresses: list[str] = []
    for _ in range(2):
        read = [_page(schema.BLOCKS_ANSWER, chain.next_block()) for _ in range(BLOCKS // 2)]
        tables = in_order(pages.blocks_tables(read))
        moment = datetime.fromtimestamp(chain.now, UTC)
        blocks = tables["blocks"]
        store.claim(str(blocks["global_id"][0].as_py()), "made up by tonframes.synthetic")
        seqnos = ranges(blocks["mc_block_seqno"].to_pylist())
        store.write_blocks(stamped(tables, moment), seqnos, proof="synthetic")
        if not addresses:
            everyone = chain.account_states(include_boc=False)["accounts"]
            addresses = sorted(account["address"] for account in everyone)[:ACCOUNTS]
        states = _page(schema.ACCOUNTS_ANSWER, chain.account_states(addresses))
        tables = stamped(pages.accounts_tables([states]), moment)
        tables["accounts"] = with_columns(tables["accounts"], with_boc=True)
        store.write_accounts(tables)


def _page(record: Record, answer: object) -> pages.Page:
    return pages.read(record, json.dumps(answer).encode())
