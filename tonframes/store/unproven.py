"""Views of rows that are held together with those that were ingested."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.store.digest import within
from tonframes.store.reader import chosen_of
from tonframes.tableset import Glance, Unread, ends
from tonframes.wire import schema
from tonframes.wire.tables import latest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.store.ingested import Ingested
    from tonframes.store.reader import Reader


@dataclass(frozen=True)
class AllRows(Unread):
    """The rows of held masterchain seqnos, and ingested rows of others, read when called.

    `unproven` chooses masterchain seqnos among the ingested rows; None is all.
    """

    store: Reader
    ingested: Ingested
    name: str
    held: tuple[range, ...]
    unproven: tuple[range, ...] | None = None
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the rows."""
        return self._read(self.columns)

    def glance(self) -> Glance:
        """Read times: rows, the first and the last."""
        rows = self._read(["block_time"])
        first, last = ends(rows, "block_time") or (None, None)
        return Glance(len(rows), first, last)

    def _read(self, columns: Sequence[str] | None) -> pa.Table:
        chosen = chosen_of(schema.TABLES[self.name], columns)
        needed = list(dict.fromkeys([*chosen, "mc_block_seqno"]))
        more = self.ingested.rows(self.name, without=self.store.held())
        if self.unproven is not None:
            more = within(more, self.unproven)
        held = self.store.read(self.name, self.store.held_of(self.name, self.held), needed)
        rows = pa.concat_tables([held.select(needed), more.select(needed)])
        # The sort is stable: within a masterchain block rows stay in their order.
        return rows.take(pc.sort_indices(rows["mc_block_seqno"])).select(chosen)


@dataclass(frozen=True)
class AllEntriesOf(Unread):
    """The address book entries of the addresses that occur in transactions and messages."""

    transactions: AllRows
    messages: AllRows
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the entries."""
        transactions = replace(self.transactions, columns=["account"])()
        messages = replace(self.messages, columns=["source", "destination"])()
        chunks = [
            chunk for rows in (transactions, messages) for c in rows.columns for chunk in c.chunks
        ]
        addresses = pa.chunked_array(chunks, pa.string()).unique().drop_null().to_pylist()
        of = self.transactions
        rows = newest(of.store, of.ingested, "address_book", addresses=addresses)
        return rows.select(chosen_of(schema.ADDRESS_BOOK, self.columns))


def newest(
    store: Reader,
    ingested: Ingested,
    name: str,
    *,
    addresses: Sequence[str] | None = None,
) -> pa.Table:
    """Return the newest row of each address that is held, and ingested rows of other addresses."""
    held = store.snapshot(name, addresses=addresses)
    more = ingested.rows(name)
    if addresses is not None:
        more = more.filter(pc.is_in(more["address"], value_set=pa.array(addresses, pa.string())))
    return latest(pa.concat_tables([more, held]))  # of each address the last row
