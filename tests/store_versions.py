"""One small store for each version of the schema that has landed, and how the next one is written.

`make store-version` writes a store of the present version: a few rows of every table. Some rows
hold members that no version of the schema knows, so that `extra` is filled: with values and an
object of the row itself, of a phase, and of a message.
"""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from chain import Chain

import tonframes as tf
from tonframes.seqnos import ranges
from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order, stamped, with_columns

if TYPE_CHECKING:
    from tonframes.wire.record import Record

VERSIONS = Path(__file__).parent / "store" / "versions"
MOMENT = datetime(2026, 11, 21, 9, 45, tzinfo=UTC)

#: What a transaction says beyond the schema.
UNKNOWN = {
    "unknown_amount": "12",
    "unknown_name": "first",
    "unknown_part": {"size": {"cells": "3"}},
}


def write_store(path: Path) -> None:
    """Write the store; the same every time."""
    chain = Chain()
    answer = chain.next_block()
    ran = [row for row in answer["transactions"] if "compute_ph" in row["description"]]
    answer["transactions"] = first, second, _ = [row for row in ran if row["in_msg"]][:3]
    first |= UNKNOWN
    first["description"]["compute_ph"]["unknown_steps"] = 7
    first["in_msg"]["unknown_fee"] = "5"
    second |= {"unknown_amount": "many", "unknown_part": [], "unknown_null": None}
    second["description"]["compute_ph"]["unknown_steps"] = 2**63
    token = min(chain.account_states(include_boc=False)["metadata"])
    states = chain.account_states([first["account"], token], include_boc=False)
    states["accounts"][0]["unknown_amount"] = "9"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tf.TonframesWarning)
        blocks = in_order(pages.blocks_tables([_page(schema.BLOCKS_ANSWER, answer)]))
        accounts = pages.accounts_tables([_page(schema.ACCOUNTS_ANSWER, states)])
    store = Store(path)
    store.claim("-217", "made up by tonframes.synthetic")
    seqnos = ranges(blocks["blocks"]["mc_block_seqno"].to_pylist())
    store.write_blocks(stamped(blocks, MOMENT), seqnos, proof="synthetic")
    accounts["accounts"] = with_columns(accounts["accounts"], with_boc=False)
    store.write_accounts(stamped(accounts, MOMENT))
    for lock in path.glob(".lock*"):
        lock.unlink()


def _page(record: Record, answer: object) -> pages.Page:
    return pages.read(record, json.dumps(answer).encode())


if __name__ == "__main__":
    write_store(VERSIONS / f"v{schema.VERSION}")
