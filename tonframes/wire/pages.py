"""Read answers of the service into Arrow tables.

A `Page` is one answer. It is read strictly; if the strict reading refuses it, it is read a second
time with tolerance. Pages are joined before they become tables, because a pass over the columns
costs about a millisecond, however few rows there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, shorten, warn
from tonframes.wire import codec, schema, transactions
from tonframes.wire.extra import dump
from tonframes.wire.kinds import OBJECT, REFUSALS
from tonframes.wire.record import Entries, Loose, Record, Rows
from tonframes.wire.tables import fit
from tonframes.wire.tolerant import TolerantReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables
    from tonframes.wire.transactions import Transactions

#: How many pointers a warning names.
_NAMED = 5


@dataclass(frozen=True)
class Page:
    """One answer."""

    record: Record
    content: bytes
    answer: Any
    transactions: Transactions | None
    extra: Extra
    extras: Mapping[int, Extra]
    unknown: Counter[str]
    oversize: Counter[str]


# Made when the module is imported: msgspec crashes when one thread uses a type while another still
# makes a decoder of it, and the first answers often come to several threads at once.
_DECODERS: dict[Record, msgspec.json.Decoder[Any]] = {
    record: msgspec.json.Decoder(record.struct)
    for record in (schema.BLOCKS_ANSWER, schema.ACCOUNTS_ANSWER)
}
_transaction = msgspec.json.Decoder(schema.TRANSACTION.struct).decode


def read(record: Record, content: bytes) -> Page:
    """Read an answer: strictly if possible, else with tolerance."""
    try:
        answer = _DECODERS[record].decode(content)
        tokens = getattr(answer, "transactions", None) or ()
        page = _page(record, content, answer, map(_transaction, tokens), TolerantReader())
    except REFUSALS:
        page = None  # the error may quote a long name: it is let go before the next reading
    page = page or _read_tolerantly(record, content)
    lists = [member.key for member in record.members if isinstance(member, Rows)]
    if all(getattr(page.answer, key) is None for key in lists):
        keys = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).keys()
        if keys.isdisjoint(lists):
            expected = " or ".join(f'"{key}"' for key in reversed(lists))
            raise DecodeError("$", f"an object with {expected}", shorten(content))
    return page


def _read_tolerantly(record: Record, content: bytes) -> Page:
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(content)
    except REFUSALS as malformed:
        raise DecodeError("$", "JSON", f"{shorten(content)} ({malformed})") from None
    reader = TolerantReader()
    answer: Any = reader.row(record, content, "$")
    return _page(record, content, answer, getattr(answer, "transactions", None) or (), reader)


def _page(
    record: Record, content: bytes, answer: Any, structs: Any, reader: TolerantReader
) -> Page:
    """Take the values of transactions, and refuse (`REFUSALS`) other rows that are wrong."""
    extra = reader.extras.get(id(answer), {})
    gathered = None
    for member in record.wired:
        values = getattr(answer, member.key)
        if isinstance(member, Entries):
            OBJECT.decode(list(map(bytes, (values or {}).values())))
        elif isinstance(member, Rows) and values is not None:
            if member.raw:
                gathered = transactions.gather(structs, reader.extras)
                answer = msgspec.structs.replace(answer, **{member.key: gathered.outlines})
            else:
                codec.gather(member.record, values)
    return Page(
        record, content, answer, gathered, extra, reader.extras, reader.unknown, reader.oversize
    )


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def blocks_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `BLOCKS_ANSWER` into tables, with rows in the order of the answers."""
    tables: Tables = {}
    if any(page.answer.blocks is not None for page in pages):
        tables["blocks"] = _rows_table(schema.BLOCKS, pages)
    batches = [page.transactions for page in pages if page.transactions is not None]
    if batches or "blocks" not in tables:
        tables |= transactions.tables(batches, _repetitions(schema.TRANSACTIONS, pages))
    tables["address_book"] = _entries_table(schema.ADDRESS_BOOK, pages)
    _warn(pages, tables)
    return tables


def accounts_tables(pages: Sequence[Page]) -> Tables:
    """Turn pages of `ACCOUNTS_ANSWER` into tables, with rows in the order of the answers."""
    tables = {
        "accounts": _rows_table(schema.ACCOUNTS, pages, found=True),
        "address_book": _entries_table(schema.ADDRESS_BOOK, pages),
        "metadata": _entries_table(schema.METADATA, pages),
    }
    _warn(pages, tables)
    return tables


def answer_extra(pages: Sequence[Page]) -> str | None:
    """Return keys of the answers themselves that the schema does not know, as JSON text."""
    return dump({pointer: token for page in pages for pointer, token in page.extra.items()})


def _rows_table(table: Table, pages: Sequence[Page], **added: Any) -> pa.Table:
    """Make a table of structs: the record's columns, the added ones, and null in the others."""
    repeated = _repetitions(table, pages)
    rows = _all_rows(table, pages, **added)
    return rows.filter([i not in repeated for i in range(len(rows))]) if repeated else rows


def _all_rows(table: Table, pages: Sequence[Page], **added: Any) -> pa.Table:
    structs = [(page, row) for page in pages for row in getattr(page.answer, table.name) or ()]
    columns = codec.decode(table.record, [row for _, row in structs]) | added
    if any(page.extras for page in pages):
        texts = [dump(page.extras.get(id(row), {})) for page, row in structs]
        columns["extra"] = pa.array(texts, pa.string())
    return fit(table, columns, len(structs))


def _entries_table(table: Table, pages: Sequence[Page]) -> pa.Table:
    entries: dict[str, msgspec.Raw] = {}
    for page in pages:
        entries |= getattr(page.answer, table.name) or {}
    texts = OBJECT.decode(list(map(bytes, entries.values())))
    loose = next(member for member in table.record.computed if isinstance(member, Loose))
    columns = {
        "address": pa.array(list(entries), pa.string()),
        loose.column: texts,
        **codec.repeated(loose.record, texts),
    }
    return fit(table, columns, len(entries))


def _warn(pages: Sequence[Page], tables: Tables) -> None:
    """Warn of rows that came twice, and of what the schema has no place for."""
    for name, table in tables.items():
        lists = [getattr(page.answer, name, None) for page in pages]
        count = sum(len(rows) for rows in lists if isinstance(rows, list))
        if count > len(table):
            repeated = f"{count - len(table)} of {count} {name}"
            warn(f"{repeated} came twice with the same content; kept once")
    says = {"the schema has no place for": "unknown", "numbers are outside int64 in": "oversize"}
    parts = []
    for text, name in says.items():
        counts: Counter[str] = sum((getattr(page, name) for page in pages), Counter())
        if counts:
            named = (f"{ascii(p)[1:-1]} ({n} times)" for p, n in counts.most_common(_NAMED))
            more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
            parts.append(f"{text} {', '.join(named)}{more}")
    if parts:
        warn(f"{'; '.join(parts)}; kept verbatim in `extra`")


# ── rows that come twice ─────────────────────────────────────────────────────────────────────────


def check_doubles(pages: Sequence[Page]) -> None:
    """Raise `DecodeError` if a row comes twice with different content."""
    for table in (schema.TRANSACTIONS, schema.BLOCKS):
        _repetitions(table, pages)


def _repetitions(table: Table, pages: Sequence[Page]) -> set[int]:
    """Return the positions of rows that came before with the same content; refuse another one."""
    lists = (getattr(page.answer, table.name, None) or () for page in pages)
    rows = list(chain.from_iterable(lists))
    repeated: set[int] = set()
    for columns in table.keys:
        keys = list(map(attrgetter(*columns), rows))
        if len(set(keys)) == len(keys):
            continue
        first: dict[Any, int] = {}
        pairs = [(first.setdefault(key, i), i) for i, key in enumerate(keys)]
        pairs = [(j, i) for j, i in pairs if j != i]
        contents = _contents(table, pages, sorted(set(chain.from_iterable(pairs))))
        for j, i in pairs:
            # Answers in two dialects differ: the keys of blocks are compared as they are spelled.
            one, other = (
                msgspec.json.encode(getattr(rows[k], "block_ref", rows[k])) for k in (j, i)
            )
            if one != other or contents[j] != contents[i]:
                raise DecodeError(
                    f"$.{table.name}[{i}]",
                    f"what {table.name}[{j}] says of the same {table.name.rstrip('s')}",
                    f"different content for {shorten(keys[i])}",
                )
            repeated.add(i)
    return repeated


def _contents(table: Table, pages: Sequence[Page], positions: list[int]) -> dict[int, Any]:
    """Return the rows at some positions, and the messages of transactions."""
    messages = defaultdict(list)
    if table is schema.TRANSACTIONS:
        batches = [page.transactions for page in pages if page.transactions is not None]
        tables, parents = transactions.tables(batches), transactions.parents(batches)
        rows = tables["transactions"]
        chosen = pc.is_in(parents, pa.array(positions))
        for parent, message in zip(
            parents.filter(chosen).to_pylist(),
            tables["messages"].filter(chosen).to_pylist(),
            strict=True,
        ):
            messages[parent].append(message)
    else:
        rows = _all_rows(table, pages)
    rows = rows.take(pa.array(positions)).to_pylist()
    return {i: (row, messages[i]) for i, row in zip(positions, rows, strict=True)}
