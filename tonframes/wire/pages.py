"""Bodies to Arrow tables and back.

A `Page` is one response body as structs, read strictly, or a second time with tolerance if the
strict reading refuses it. Pages are joined before they become tables, because a pass over columns
has a fixed cost of about a millisecond however few the rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, shorten, warn
from tonframes.wire import codec, schema, tolerant
from tonframes.wire.extra import dump
from tonframes.wire.kinds import OBJECT, REFUSALS
from tonframes.wire.record import Loose, Record, Rows
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables


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
    reader = tolerant.TolerantReader()
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
        columns["extra"] = pa.array([dump(extras.get(id(row), {})) for row in rows], pa.string())
    return fit(table, columns, len(rows))


def _extras(pages: Iterable[Page]) -> dict[int, Extra]:
    extras: dict[int, Extra] = {}
    for page in pages:
        extras |= page.extras
    return extras


def body_extra(pages: Sequence[Page]) -> str | None:
    """Keys of the bodies themselves that the schema does not know, as JSON text."""
    extra: Extra = {}
    for page in pages:
        extra |= page.extras.get(id(page.body), {})
    return dump(extra)


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
