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

    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table


def encode_transactions(
    transactions: pa.Table, messages: pa.Table, dialect: Dialect
) -> list[msgspec.Raw]:
    """Encode transactions with their messages as JSON objects, one for each row."""
    ins: dict[str, Any] = {}
    outs: dict[str, list[Any]] = defaultdict(list)
    hashes = messages["tx_hash"].to_pylist()
    for tx_hash, position, message in sorted(
        zip(
            hashes,
            messages["position"].to_pylist(),
            encode_rows(schema.MESSAGES, messages, dialect),
            strict=True,
        ),
        key=lambda row: -1 if row[1] is None else row[1],
    ):
        if position is None:
            ins[tx_hash] = message
        else:
            outs[tx_hash].append(message)
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
        extras = columns["extra"].to_pylist()
        tokens = [
            token if extra is None else insert(token, _with_older(table, load(extra)))
            for token, extra in zip(tokens, extras, strict=True)
        ]
    return [msgspec.Raw(token) for token in tokens]


def _with_older(table: Table, extra: Extra) -> Extra:
    """Leave out what `extra` has in an older spelling: a row is written in the form it had."""
    older = table.record.older
    return {older[pointer]: b"" for pointer in extra if pointer in older} | extra


def encode_entries(rows: pa.Table) -> dict[str, msgspec.Raw]:
    """Encode the rows of an address book or of metadata as a map from address to entry."""
    return {
        address: msgspec.Raw(b"null" if entry is None else entry.encode())
        for address, entry in zip(
            rows["address"].to_pylist(), rows["entry"].to_pylist(), strict=True
        )
    }


def encode_answer(answer: Mapping[str, Any], extra: str | None) -> bytes:
    """Encode an answer, and put the values of `extra` back in their places."""
    token = msgspec.json.encode(answer)
    if extra is None:
        return token
    return insert(token, load(extra))
