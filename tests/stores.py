"""Stores that tests make, and damage to their files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tonframes.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import Tables, in_order, stamped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    import tonframes as tf


def claimed(path: Path) -> Store:
    """Make a store of the network that the tests have."""
    store = Store(path)
    store.claim("-217", "a test")
    return store


def tables_from(bodies: Iterable[object], moment: datetime | None = None) -> Tables:
    """Return the tables of answers about blocks, fetched at a moment or now."""
    read = [pages.read(schema.BLOCKS_ANSWER, json.dumps(body).encode()) for body in bodies]
    return stamped(in_order(pages.blocks_tables(read)), moment or datetime.now(UTC))


def tables_of(rows: tf.Blocks | tf.Accounts) -> dict[str, pa.Table]:
    return {name: rows.arrow(name) for name in rows.names}


def flip(file: Path, place: int | None = None) -> None:
    """Change a bit of a file, by default in its middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    file.write_bytes(content)
