"""Encode tables as the JSON that they came from: the inverse of `pages`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from tonframes.wire import codec, schema
from tonframes.wire.extra import insert, load
from tonframes.wire.kinds import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from tonframes.wire.record import Table


def encode_transactions(
    transactions: pa.Table, messages: pa.Table, dialect: Dialect
) -> list[msgspec.Raw]:
    """Encode transactions with their messages as JSON objects, one for each row."""
    ins: dict[str, Any] = {}
    outs: dict[str, list[Any]] = defaultdict(list)
    in_order = messages.sort_by("position")
    rows = encode_rows(schema.MESSAGES, in_order, dialect)
    keys = zip(in_order["tx_hash"].to_pylist(), in_order["position"].to_pylist(), strict=True)
    for (tx_hash, position), row in zip(keys, rows, strict=True):
        if position is None:
            ins[tx_hash] = row
        else:
            outs[tx_hash].append(row)
    order = transactions["hash"].to_pylist()
    inner: dict[str, list[Any]] = {
        "in_msg": list(map(ins.get, order)),
        "out_msgs": [outs.get(tx_hash, []) for tx_hash in order],
    }
    return encode_rows(schema.TRANSACTIONS, transactions, dialect, inner)


def encode_rows(
    table: Table,
    rows: pa.Table,
    dialect: Dialect,
    inner: Mapping[str, Sequence[Any]] | None = None,
) -> list[msgspec.Raw]:
    """Encode rows as JSON objects, and put the values of `extra` back in their places."""
    if dialect not in get_args(Dialect):
        raise ValueError(f'dialect is "service" or "specification", not {dialect!r}')
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    structs = codec.encode(table.record, columns, inner or {}, dialect)
    tokens = list(map(msgspec.json.encode, structs))
    if "extra" in columns and columns["extra"].null_count < len(columns["extra"]):
        for i, extra in enumerate(map(load, columns["extra"].to_pylist())):
            # A row is written in the spelling that it had: without that of today, if it is older.
            older = table.record.older.items()
            today = {pointer: b"" for older_pointer, pointer in older if older_pointer in extra}
            tokens[i] = insert(tokens[i], today | extra) if extra else tokens[i]
    return [msgspec.Raw(token) for token in tokens]


def encode_entries(rows: pa.Table) -> dict[str, msgspec.Raw]:
    """Encode the rows of an address book or of metadata as a map from address to entry."""
    pairs = zip(rows["address"].to_pylist(), rows["entry"].to_pylist(), strict=True)
    return {address: msgspec.Raw((entry or "null").encode()) for address, entry in pairs}


def encode_answer(answer: Mapping[str, Any], extra: str | None) -> bytes:
    """Encode an answer, and put the values of `extra` back in their places."""
    token = msgspec.json.encode(answer)
    return insert(token, load(extra)) if extra else token
