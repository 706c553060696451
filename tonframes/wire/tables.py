"""Arrow tables by name: fit them to the schema, sort them, join them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tonframes.wire.record import Table

#: Tables by their names in the schema.
Tables = dict[str, pa.Table]


def fit(table: Table, columns: Mapping[str, Any], count: int) -> pa.Table:
    """Return a table with the columns of the schema; a scalar fills a column, others are null."""
    arrays = []
    for column in table.columns:
        values = columns.get(column.name)
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.repeat(pa.scalar(values, column.kind.arrow), count)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=table.schema)


def in_order(tables: Tables) -> Tables:
    """Sort blocks and transactions as declared, and messages like their transactions."""
    ordered = dict(tables)
    for name in tables.keys() & {"transactions", "blocks"}:
        ordered[name] = tables[name].sort_by(
            [(column, "ascending") for column in schema.TABLES[name].order]
        )
    if "messages" in tables:
        messages = tables["messages"]
        of = pc.index_in(messages["tx_hash"], ordered["transactions"]["hash"].combine_chunks())
        keys = pa.table([of, messages["direction"], messages["position"]], ["of", "in", "at"])
        by = [("of", "ascending"), ("in", "ascending"), ("at", "ascending")]
        ordered["messages"] = messages.take(pc.sort_indices(keys, sort_keys=by))
    return ordered


def stamped(tables: Tables, moment: datetime) -> Tables:
    """Fill `fetched_at` in the snapshots among the tables."""
    return {
        name: with_columns(table, fetched_at=moment)
        if "fetched_at" in table.schema.names
        else table
        for name, table in tables.items()
    }


def with_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """Return a table with new values in some columns; a scalar fills its column."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        if not isinstance(values, pa.Array):
            values = pa.repeat(pa.scalar(values, field.type), len(table))  # noqa: PLW2901
        table = table.set_column(place, field, values)
    return table


def latest(rows: pa.Table) -> pa.Table:
    """Keep the last row of each address, in the order of these rows."""
    last = {address: i for i, address in enumerate(rows["address"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def latest_states(rows: pa.Table) -> pa.Table:
    """Keep the last state of each account, in the order of these rows."""
    last: dict[str, int] = {}
    reached: dict[str, int] = {}
    pairs = zip(rows["address"].to_pylist(), rows["last_transaction_lt"].to_pylist(), strict=True)
    for i, (address, lt) in enumerate(pairs):
        if lt is not None:
            if lt < reached.get(address, lt):
                continue
            reached[address] = lt
        last[address] = i
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def concat(parts: Sequence[Tables]) -> Tables:
    """Join tables of consecutive masterchain blocks; an address keeps its last entry."""
    names = {name: None for part in parts for name in part}
    joined = {
        name: pa.concat_tables([part[name] for part in parts if name in part]) for name in names
    }
    joined["address_book"] = latest(joined["address_book"])
    return joined
