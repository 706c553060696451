"""Bodies to Arrow tables and back.

A `Page` is one response body as structs, read strictly, or a second time with tolerance if the
strict reading refuses it. Pages are joined before they become tables, because a pass over columns
has a fixed cost of about a millisecond however few the rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tonframes import codec, schema, tolerant
from tonframes.errors import DecodeError, shorten, warn
from tonframes.kinds import OBJECT, REFUSALS, Dialect
from tonframes.record import Loose, Record, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tonframes.record import Table
    from tonframes.tolerant import Extra

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Page:
    """One body: its record, its bytes, its structs and what the schema has no place for."""

    record: Record
    token: bytes
    body: Any
    extras: Mapping[int, Extra]


def read(record: Record, body: bytes) -> Page:
    """Read a body, strictly if that goes, with tolerance if not.

    Raises
    ------
    DecodeError
        The body is not JSON, or not of the form that the schema declares.
    """
    try:
        page = Page(record, body, _DECODERS[record].decode(body), {})
    except REFUSALS:
        page = _read_tolerantly(record, body)
    lists = [member.key for member in record.members if isinstance(member, Rows)]
    if all(getattr(page.body, key) is None for key in lists):
        keys = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).keys()
        if keys.isdisjoint(lists):
            expected = " or ".join(f'"{key}"' for key in reversed(lists))
            raise DecodeError("$", f"an object with {expected}", shorten(body))
    return page


# Made with the module: msgspec crashes when one thread uses a type that another is still making
# a decoder of, and the first bodies often come to several threads at once.
_DECODERS: dict[Record, msgspec.json.Decoder[Any]] = {
    record: msgspec.json.Decoder(record.struct)
    for record in (schema.BLOCKS_BODY, schema.ACCOUNTS_BODY)
}


def _read_tolerantly(record: Record, body: bytes) -> Page:
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(body)
    except REFUSALS as malformed:
        raise DecodeError("$", "JSON", f"{shorten(body)} ({malformed})") from None
    reader = tolerant.Reader()
    struct = reader.row(record, body, "$")
    return Page(record, body, struct, reader.extras)


def blocks_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `BLOCKS_BODY` into tables: those that the bodies show, in the bodies' order."""
    return _twice(_blocks_tables, pages)


def accounts_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `ACCOUNTS_BODY` into tables."""
    return _twice(_accounts_tables, pages)


def _twice(tables: Any, pages: Sequence[Page]) -> Tables:
    try:
        made: Tables = tables(pages)
    except REFUSALS:
        pages = [_read_tolerantly(page.record, page.token) for page in pages]
        made = tables(pages)
    _warn_of_repetitions(pages, made)
    _warn_of_extras(pages)
    return made


def _blocks_tables(pages: Sequence[Page]) -> Tables:
    tables: Tables = {}
    bodies = [page.body for page in pages]
    if any(body.blocks is not None for body in bodies):
        tables["blocks"] = _rows_table(schema.BLOCKS, pages, "blocks")
    if "blocks" not in tables or any(body.transactions is not None for body in bodies):
        tables |= _transactions_and_messages(pages)
    tables["address_book"] = _entries_table(schema.ADDRESS_BOOK, pages, "address_book")
    return tables


def _accounts_tables(pages: Sequence[Page]) -> Tables:
    return {
        "accounts": _rows_table(schema.ACCOUNTS, pages, "accounts", found=True),
        "address_book": _entries_table(schema.ADDRESS_BOOK, pages, "address_book"),
        "metadata": _entries_table(schema.METADATA, pages, "metadata"),
    }


def _transactions_and_messages(pages: Sequence[Page]) -> Tables:
    transactions = _folded(schema.TRANSACTIONS, pages, "transactions")
    parents: list[int] = []
    positions: list[int | None] = []
    messages: list[Any] = []
    for i, transaction in enumerate(transactions):
        if transaction.in_msg is not None:
            messages.append(transaction.in_msg)
            parents.append(i)
            positions.append(None)
        if transaction.out_msgs:
            messages += transaction.out_msgs
            parents += [i] * len(transaction.out_msgs)
            positions += range(len(transaction.out_msgs))
    extras = _extras(pages)
    table = _table(schema.TRANSACTIONS, transactions, extras)
    parent, position = pa.array(parents, pa.int64()), pa.array(positions, pa.int64())
    added = {
        column.name: table[column.of].combine_chunks().take(parent)
        for column in schema.MESSAGES.before
        if column.of
    }
    added["position"] = position
    added["direction"] = pc.if_else(pc.is_null(position), "in", "out")
    return {
        "transactions": table,
        "messages": _table(schema.MESSAGES, messages, extras, **added),
    }


def _rows_table(table: Table, pages: Sequence[Page], key: str, **added: Any) -> pa.Table:
    return _table(table, _folded(table, pages, key), _extras(pages), **added)


def _entries_table(table: Table, pages: Sequence[Page], key: str) -> pa.Table:
    entries: dict[str, msgspec.Raw] = {}
    for page in pages:
        entries |= getattr(page.body, key) or {}
    tokens = list(map(bytes, entries.values()))
    loose = next(member for member in table.record.computed if isinstance(member, Loose))
    columns = {
        "address": pa.array(list(entries), pa.string()),
        loose.column: OBJECT.decode(tokens),
        **codec.repeated(loose.record, tokens),
    }
    return fit(table, columns, len(entries))


def _table(
    table: Table,
    rows: Sequence[Any],
    extras: Mapping[int, Extra],
    **added: Any,
) -> pa.Table:
    """Make a table of structs: the record's columns and the added ones, null if not given."""
    columns = codec.decode(table.record, rows) | added
    if extras:
        columns["extra"] = pa.array([_json(extras.get(id(row))) for row in rows], pa.string())
    return fit(table, columns, len(rows))


def fit(table: Table, columns: Mapping[str, Any], count: int) -> pa.Table:
    """Put columns into the schema of a table; a scalar fills a column, nothing leaves nulls."""
    arrays = []
    for column in table.columns:
        values = columns.get(column.name)
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.repeat(pa.scalar(values, column.kind.arrow), count)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _extras(pages: Iterable[Page]) -> dict[int, Extra]:
    extras: dict[int, Extra] = {}
    for page in pages:
        extras |= page.extras
    return extras


def _json(extra: Extra | None) -> str | None:
    if extra is None:
        return None
    return msgspec.json.encode({k: msgspec.Raw(v) for k, v in extra.items()}).decode()


def body_extra(pages: Sequence[Page]) -> str | None:
    """Keys of the bodies themselves that the schema does not know, as JSON text."""
    extra: Extra = {}
    for page in pages:
        extra |= page.extras.get(id(page.body), {})
    return _json(extra or None)


def _warn_of_extras(pages: Sequence[Page]) -> None:
    counts = Counter(
        pointer for page in pages for extra in page.extras.values() for pointer in extra
    )
    if counts:
        named = ", ".join(f"{ascii(p)[1:-1]} ({n} times)" for p, n in counts.most_common(5))
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""  # noqa: PLR2004
        warn(f"the schema has no place for {named}{more}; kept verbatim in `extra`")


def _warn_of_repetitions(pages: Iterable[Page], tables: Tables) -> None:
    for name, table in tables.items():
        lists = [getattr(page.body, name, None) for page in pages]
        count = sum(len(rows) for rows in lists if isinstance(rows, list))
        if count > len(table):
            twice = f"{count - len(table)} of {count} {name}"
            warn(f"{twice} came twice with the same content; kept once")


# ── the same row twice ───────────────────────────────────────────────────────────────────────────


def check_doubles(pages: Sequence[Page]) -> None:
    """Raise `DecodeError` if a row comes twice with another content."""
    for table in (schema.TRANSACTIONS, schema.BLOCKS):
        _folded(table, pages, table.name)


def _folded(table: Table, pages: Sequence[Page], key: str) -> list[Any]:
    """All rows of all pages; one that comes twice with the same content only once."""
    rows = list(chain.from_iterable(getattr(page.body, key) or () for page in pages))
    twice: set[int] = set()
    for columns in table.keys:
        identify = attrgetter(*columns)
        if len(set(map(identify, rows))) < len(rows):
            twice |= _repetitions(table, rows, identify, _extras(pages))
    return [row for i, row in enumerate(rows) if i not in twice] if twice else rows


def _repetitions(
    table: Table,
    rows: Sequence[Any],
    identify: Any,
    extras: Mapping[int, Extra],
) -> set[int]:
    first: dict[Any, int] = {}
    twice = set()
    for i, row in enumerate(rows):
        j = first.setdefault(identify(row), i)
        if j == i:
            continue
        if _content(rows[j], extras) != _content(row, extras):
            raise DecodeError(
                f"$.{table.name}[{i}]",
                f"what {table.name}[{j}] says of the same {table.name.rstrip('s')}",
                f"another content for {shorten(identify(row))}",
            )
        twice.add(i)
    return twice


def _content(row: Any, extras: Mapping[int, Extra]) -> Any:
    """Say what a struct says, with extras, in a form that can be compared."""
    messages = [getattr(row, "in_msg", None), *(getattr(row, "out_msgs", None) or ())]
    extra = [extras.get(id(part)) for part in (row, *messages)]
    if getattr(row, "out_msgs", None) == []:
        row = msgspec.structs.replace(row, out_msgs=None)
    # The bytes, because reading them would make equal what is not: 1e400 and 1e500, 1 and 1.0.
    return msgspec.json.encode(row), extra


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def in_order(tables: Tables) -> Tables:
    """Order blocks and transactions as their tables declare, and messages as their transactions."""
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
    """Say in the snapshots among the tables when the service was asked."""
    return {
        name: with_columns(table, fetched_at=moment)
        if "fetched_at" in table.schema.names
        else table
        for name, table in tables.items()
    }


def with_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """Give a table with other values in some columns; a scalar fills its column."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        if not isinstance(values, pa.Array):
            values = pa.repeat(pa.scalar(values, field.type), len(table))  # noqa: PLW2901
        table = table.set_column(place, field, values)
    return table


def latest(rows: pa.Table) -> pa.Table:
    """Keep the last row of each address, in order."""
    last = {address: i for i, address in enumerate(rows["address"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def concat(parts: Sequence[Tables]) -> Tables:
    """Join tables of consecutive masterchain blocks; of address book entries the last counts."""
    names = {name: None for part in parts for name in part}
    joined = {
        name: pa.concat_tables([part[name] for part in parts if name in part]) for name in names
    }
    joined["address_book"] = latest(joined["address_book"])
    return joined


# ── back to bodies ───────────────────────────────────────────────────────────────────────────────


def encode_transactions(
    transactions: pa.Table, messages: pa.Table, dialect: Dialect
) -> list[msgspec.Raw]:
    """Turn transactions and their messages back into JSON objects, one a row."""
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
    """Turn rows back into JSON objects, `extra` put back where it came from."""
    if dialect not in get_args(Dialect):
        raise ValueError(f'dialect is "service" or "specification", not {dialect!r}')
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    structs = codec.encode(table.record, columns, inner or {}, dialect)
    tokens = list(map(msgspec.json.encode, structs))
    if "extra" in columns and columns["extra"].null_count < len(columns["extra"]):
        extras = columns["extra"].to_pylist()
        tokens = [
            token if extra is None else insert(token, _object(extra))
            for token, extra in zip(tokens, extras, strict=True)
        ]
    return [msgspec.Raw(token) for token in tokens]


def encode_entries(rows: pa.Table) -> dict[str, msgspec.Raw]:
    """Turn the rows of an address book or of metadata back into a map."""
    return {
        address: msgspec.Raw(b"null" if entry is None else entry.encode())
        for address, entry in zip(
            rows["address"].to_pylist(), rows["entry"].to_pylist(), strict=True
        )
    }


_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def insert(token: bytes, extra: Mapping[str, msgspec.Raw]) -> bytes:
    """Put values into a JSON object at their RFC 6901 pointers.

    Examples
    --------
    >>> insert(b'{"a":{"b":1}}', {"/a/c": msgspec.Raw(b"2"), "/d": msgspec.Raw(b"3")})
    b'{"a":{"b":1,"c":2},"d":3}'
    """
    members = _object(token)
    deeper: dict[str, dict[str, msgspec.Raw]] = defaultdict(dict)
    for pointer, value in extra.items():
        head, slash, rest = pointer[1:].partition("/")
        key = head.replace("~1", "/").replace("~0", "~")
        if slash:
            deeper[key]["/" + rest] = value
        else:
            members[key] = value
    for key, inner in deeper.items():
        members[key] = msgspec.Raw(insert(bytes(members[key]), inner))
    return msgspec.json.encode(members)
