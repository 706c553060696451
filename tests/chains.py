"""The chains that several tests read: the sample, and answers about blocks with their frames."""

from __future__ import annotations

import json
import warnings
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.compute as pc

import tonframes as tf
from tonframes.store import Store
from tonframes.wire.tables import with_columns

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


@cache
def sample_tables() -> tuple[pa.Table, pa.Table]:
    """Return the transactions and messages of the sample."""
    blocks = tf.read_blocks(tf.sample())
    return blocks.arrow("transactions"), blocks.arrow("messages")


#: How far apart the masterchain blocks are in `store_of_files`.
APART = 10


def store_of_files(path: Path) -> Path:
    """Write the sample as a store of 12 files, with 10 of its masterchain blocks in each."""
    blocks = tf.read_blocks(tf.sample())
    [held] = blocks.seqnos
    tables = {name: blocks.arrow(name) for name in blocks.names}
    for name in ("transactions", "messages", "blocks"):
        after = pc.subtract(tables[name]["mc_block_seqno"].combine_chunks(), held.start)
        spread = pc.add(pc.multiply(after, APART), held.start)
        tables[name] = with_columns(tables[name], mc_block_seqno=spread)
    store = Store(path)
    store.claim("-217", "a test")
    store.write_blocks(tables, [range(held.start, held.start + APART * len(held))], proof="chain")
    return path


class Answers(list[Any]):
    """Answers about blocks as Python reads them; what is parsed from them is parsed once."""

    @cached_property
    def blocks(self) -> list[tf.Blocks]:
        with warnings.catch_warnings():
            # Old recorded answers hold fields that the schema does not know.
            warnings.simplefilter("ignore", tf.TonframesWarning)
            return [tf.parse_blocks(json.dumps(answer)) for answer in self]

    @cached_property
    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        transactions, messages = (
            pd.concat([each.frame(name) for each in self.blocks], ignore_index=True)
            for name in ("transactions", "messages")
        )
        return transactions, messages


def frames(answers: list[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the transactions and messages of answers, which are shared: do not change them."""
    return (answers if isinstance(answers, Answers) else Answers(answers)).frames
