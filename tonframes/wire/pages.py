"""Read answers of the service into Arrow tables.

A `Page` is one answer as structs. It is read strictly; if the strict reading refuses it, it is read
a second time with tolerance. Pages are joined before they become tables, because a pass over the
columns costs about a millisecond, however few rows there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, shorten, warn
from tonframes.wire import codec, schema, tolerant
from tonframes.wire.extra import dump, pointer_to
from tonframes.wire.kinds import OBJECT, REFUSALS, Mismatch, Oversize
from tonframes.wire.record import Loose, Record, Rows
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables


@dataclass(frozen=True)
class Page:
    """One answer: its record, its bytes, its structs and what the schema has no place for."""

    record: Record
    content: bytes
    answer: Any
    #: By the identity of the struct of a row.
    extras: Mapping[int, Extra]


def read(record: Record, content: bytes) -> Page:
    """Read an answer: strictly if possible, else with tolerance.

    Raises
    ------
    DecodeError
        The answer is not JSON, or not of the form that the schema declares, or an object has two
        members of one name.
    """
    page = _read_strictly(record, content) or _read_tolerantly(record, content)
    if _may_repeat_names(page):
        tolerant.check_names(record, content)
    lists = [member.key for member in record.members if isinstance(member, Rows)]
    if all(getattr(page.answer, key) is None for key in lists):
        keys = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).keys()
        if keys.isdisjoint(lists):
            expected = " or ".join(f'"{key}"' for key in reversed(lists))
            raise DecodeError("$", f"an object with {expected}", shorten(content))
    return page


# Made when the module is imported: msgspec crashes when one thread uses a type while another still
# makes a decoder of it, and the first answers often come to several threads at once.
_DECODERS: dict[Record, msgspec.json.Decoder[Any]] = {
    record: msgspec.json.Decoder(record.struct)
    for record in (schema.BLOCKS_ANSWER, schema.ACCOUNTS_ANSWER)
}


_encode = msgspec.json.Encoder().encode

_CHUNK = 2**17  # bytes


def _may_repeat_names(page: Page) -> bool:
    """Return whether an object of an answer may have two members of one name.

    An answer has more members than the structs made of it if a name comes twice: the structs have
    the last one only. The numbers also differ if an answer has spaces before nulls, fields that the
    schema does not know, or colons as escapes in texts. Null is not counted, because the structs do
    not tell it from a field that is absent: a null before the value of its name is not noticed.
    """
    return _count_values(page.content) != _count_values(_encode(page.answer))


def _count_values(content: bytes) -> int:
    """Count the members of all objects that are not null, and the colons in texts.

    These are the colons that are not followed by an n. Chunks stay in the processor's cache.
    """
    octets = np.frombuffer(content, np.uint8)
    count = 0
    for start in range(0, len(octets), _CHUNK):
        chunk = octets[start : start + _CHUNK + 1]
        values = (chunk[:-1] == ord(":")) & (chunk[1:] != ord("n"))
        count += int(np.count_nonzero(values))
    return count


def _read_strictly(record: Record, content: bytes) -> Page | None:
    try:
        return Page(record, content, _DECODERS[record].decode(content), {})
    except REFUSALS:
        return None


def _read_tolerantly(record: Record, content: bytes) -> Page:
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(content)
    except REFUSALS as malformed:
        raise DecodeError("$", "JSON", f"{shorten(content)} ({malformed})") from None
    reader = tolerant.TolerantReader()
    struct = reader.row(record, content, "$")
    return Page(record, content, struct, reader.extras)


def blocks_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `BLOCKS_ANSWER` into tables, with rows in the order of the answers.

    Only tables that the answers show are there.
    """
    return _strictly_or_tolerantly(_blocks_tables, pages)


def accounts_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `ACCOUNTS_ANSWER` into tables, with rows in the order of the answers."""
    return _strictly_or_tolerantly(_accounts_tables, pages)


def _strictly_or_tolerantly(tables: Any, pages: Sequence[Page]) -> Tables:
    try:
        made: Tables = tables(pages)
    except REFUSALS:
        pages = [_read_tolerantly(page.record, page.content) for page in pages]
        made = tables(pages)
    _warn_of_repetitions(pages, made)
    _warn_of_extras(pages)
    return made


def _blocks_tables(pages: Sequence[Page]) -> Tables:
    tables: Tables = {}
    answers = [page.answer for page in pages]
    if any(answer.blocks is not None for answer in answers):
        tables["blocks"] = _rows_table(schema.BLOCKS, pages, "blocks")
    if "blocks" not in tables or any(answer.transactions is not None for answer in answers):
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
    transactions = _distinct(schema.TRANSACTIONS, pages, "transactions")
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
    return _table(table, _distinct(table, pages, key), _extras(pages), **added)


def _entries_table(table: Table, pages: Sequence[Page], key: str) -> pa.Table:
    entries: dict[str, msgspec.Raw] = {}
    for page in pages:
        entries |= getattr(page.answer, key) or {}
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
    """Make a table of structs: the record's columns, the added ones, and null in the others."""
    columns = codec.decode(table.record, rows) | added
    if extras:
        columns["extra"] = pa.array([dump(extras.get(id(row), {})) for row in rows], pa.string())
    return fit(table, columns, len(rows))


def _extras(pages: Iterable[Page]) -> dict[int, Extra]:
    extras: dict[int, Extra] = {}
    for page in pages:
        extras |= page.extras
    return extras


def answer_extra(pages: Sequence[Page]) -> str | None:
    """Return keys of the answers themselves that the schema does not know, as JSON text."""
    extra: Extra = {}
    for page in pages:
        extra |= page.extras.get(id(page.answer), {})
    return dump(extra)


#: Older spellings, which are read although they are kept in `extra`.
_OLDER = {
    pointer: field
    for table in schema.TABLES.values()
    for pointer, field in table.record.older.items()
}


#: The kinds of fields, by pointer.
_KINDS = {
    pointer_to(column.path): column.kind
    for table in schema.TABLES.values()
    for column in table.record.columns
    if column.path and not column.of
}


def _warn_of_extras(pages: Sequence[Page]) -> None:
    unknown: Counter[str] = Counter()
    oversize: Counter[str] = Counter()
    for extra in chain.from_iterable(page.extras.values() for page in pages):
        for pointer, token in extra.items():
            if pointer not in _OLDER or _OLDER[pointer].found_in(extra, pointer) is None:
                counts = oversize if _is_oversize(pointer, token) else unknown
                counts[pointer] += 1
    parts = [f"the schema has no place for {_named(unknown)}"] if unknown else []
    parts += [f"numbers are outside int64 in {_named(oversize)}"] if oversize else []
    if parts:
        warn(f"{'; '.join(parts)}; kept verbatim in `extra`")


def _is_oversize(pointer: str, token: bytes) -> bool:
    """Return whether a token is an integer that does not fit the column of its field."""
    try:
        if pointer in _KINDS:
            _KINDS[pointer].read(token)
    except Oversize:
        return True
    except (Mismatch, *REFUSALS):
        pass
    return False


def _named(counts: Counter[str]) -> str:
    named = ", ".join(f"{ascii(p)[1:-1]} ({n} times)" for p, n in counts.most_common(5))
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""  # noqa: PLR2004
    return named + more


def _warn_of_repetitions(pages: Iterable[Page], tables: Tables) -> None:
    for name, table in tables.items():
        lists = [getattr(page.answer, name, None) for page in pages]
        count = sum(len(rows) for rows in lists if isinstance(rows, list))
        if count > len(table):
            repeated = f"{count - len(table)} of {count} {name}"
            warn(f"{repeated} came twice with the same content; kept once")


# ── rows that come twice ─────────────────────────────────────────────────────────────────────────


def check_doubles(pages: Sequence[Page]) -> None:
    """Raise `DecodeError` if a row comes twice with different content."""
    for table in (schema.TRANSACTIONS, schema.BLOCKS):
        _distinct(table, pages, table.name)


def _distinct(table: Table, pages: Sequence[Page], key: str) -> list[Any]:
    """List the rows of all pages. A row that comes twice with the same content is listed once."""
    rows = list(chain.from_iterable(getattr(page.answer, key) or () for page in pages))
    repeated: set[int] = set()
    for columns in table.keys:
        identify = attrgetter(*columns)
        if len(set(map(identify, rows))) < len(rows):
            repeated |= _repetitions(table, rows, identify, _extras(pages))
    return [row for i, row in enumerate(rows) if i not in repeated] if repeated else rows


def _repetitions(
    table: Table,
    rows: Sequence[Any],
    identify: Any,
    extras: Mapping[int, Extra],
) -> set[int]:
    first: dict[Any, int] = {}
    repeated = set()
    for i, row in enumerate(rows):
        j = first.setdefault(identify(row), i)
        if j == i:
            continue
        if _content(rows[j], extras) != _content(row, extras):
            raise DecodeError(
                f"$.{table.name}[{i}]",
                f"what {table.name}[{j}] says of the same {table.name.rstrip('s')}",
                f"different content for {shorten(identify(row))}",
            )
        repeated.add(i)
    return repeated


def _content(row: Any, extras: Mapping[int, Extra]) -> Any:
    """Return the content of a struct, with extras, in a form that can be compared."""
    messages = [getattr(row, "in_msg", None), *(getattr(row, "out_msgs", None) or ())]
    extra = [extras.get(id(part)) for part in (row, *messages)]
    if getattr(row, "out_msgs", None) == []:
        row = msgspec.structs.replace(row, out_msgs=None)
    # As bytes: read as numbers, 1e400 and 1e500 would be equal, and so would 1 and 1.0.
    return msgspec.json.encode(row), extra
