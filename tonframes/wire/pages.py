"""Read answers of the service into Arrow tables.

A `Page` is one answer as structs. It is read strictly; if the strict reading refuses it, it is read
a second time with tolerance. Pages are joined before they become tables, because a pass over the
columns costs about a millisecond, however few rows there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tonframes.errors import DecodeError, shorten, warn
from tonframes.wire import codec, schema, tolerant, transactions
from tonframes.wire.extra import dump, pointer_to
from tonframes.wire.kinds import (
    DIGITS,
    OBJECT,
    REFUSALS,
    SHARD,
    Mismatch,
    Oversize,
)
from tonframes.wire.record import Loose, Record, Rows
from tonframes.wire.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.wire.extra import Extra
    from tonframes.wire.record import Table
    from tonframes.wire.tables import Tables
    from tonframes.wire.transactions import Transactions


@dataclass(frozen=True)
class Page:
    """One answer.

    Attributes
    ----------
    record, content
        The record that declares the answer, and the bytes of the answer.
    answer
        The structs of the rows. Transactions have outlines instead.
    extras
        What the schema has no place for, by the `id` of the struct of a row.
    whole
        The answer with the structs of all rows, whose `id`s are the keys of `extras`. None if the
        answer has many transactions.
    transactions
        The values of the transactions, if there are many.
    """

    record: Record
    content: bytes
    answer: Any
    extras: Mapping[int, Extra]
    whole: Any
    transactions: Transactions | None = None


def read(record: Record, content: bytes) -> Page:
    """Read an answer: strictly if possible, else with tolerance.

    Raises
    ------
    DecodeError
        The answer is not JSON, or not of the form that the schema declares.
    """
    page = _read_strictly(record, content) or _read_tolerantly(record, content)
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


_transaction = msgspec.json.Decoder(schema.TRANSACTION.struct).decode


def _read_strictly(record: Record, content: bytes) -> Page | None:
    try:
        answer = _DECODERS[record].decode(content)
        tokens = getattr(answer, "transactions", None) or ()
        structs = map(_transaction, tokens)
        if len(tokens) > transactions.MANY:
            gathered = transactions.gather(structs, {})
            answer = msgspec.structs.replace(answer, transactions=gathered.outlines)
            page = Page(record, content, answer, {}, None, gathered)
        else:
            if tokens:
                answer = msgspec.structs.replace(answer, transactions=list(structs))
            page = _with_outlines(Page(record, content, answer, {}, answer))
        _prove_numbers(page.answer)
    except REFUSALS:
        return None
    return page


def _prove_numbers(answer: Any) -> None:
    """Refuse text that is no number where fetching reads one before the rows become columns."""
    transactions, blocks, accounts = (
        getattr(answer, name, None) or () for name in ("transactions", "blocks", "accounts")
    )
    times = ((row.gen_utime, row.start_lt, row.end_lt) for row in blocks)
    lts = ((row.lt,) for row in transactions)
    states = ((row.last_transaction_lt,) for row in accounts)
    DIGITS.decode(list(chain.from_iterable(chain(times, lts, states))))
    SHARD.decode([row.shard for row in chain(blocks, (row.block_ref for row in transactions))])


def _read_tolerantly(record: Record, content: bytes) -> Page:
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(content)
    except REFUSALS as malformed:
        raise DecodeError("$", "JSON", f"{shorten(content)} ({malformed})") from None
    reader = tolerant.TolerantReader()
    answer = reader.row(record, content, "$")
    return _with_outlines(Page(record, content, answer, reader.extras, answer))


def _with_outlines(page: Page) -> Page:
    """Return a page with the outlines of its transactions in place of their structs."""
    if not (structs := getattr(page.whole, "transactions", None)):
        return page
    outlines = list(map(transactions.outline, structs))
    return replace(page, answer=msgspec.structs.replace(page.answer, transactions=outlines))


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
        tables["blocks"] = _rows_table(schema.BLOCKS, pages)
    if "blocks" not in tables or any(answer.transactions is not None for answer in answers):
        tables |= _transactions_and_messages(pages)
    tables["address_book"] = _entries_table(schema.ADDRESS_BOOK, pages, "address_book")
    return tables


def _accounts_tables(pages: Sequence[Page]) -> Tables:
    return {
        "accounts": _rows_table(schema.ACCOUNTS, pages, found=True),
        "address_book": _entries_table(schema.ADDRESS_BOOK, pages, "address_book"),
        "metadata": _entries_table(schema.METADATA, pages, "metadata"),
    }


def _transactions_and_messages(pages: Sequence[Page]) -> Tables:
    repeated, extras = _repetitions(schema.TRANSACTIONS, pages), _extras(pages)
    parts: list[Transactions] = []
    for gathered, group in groupby(pages, key=attrgetter("transactions")):
        if gathered is not None:
            parts.append(gathered)
        else:
            structs = chain.from_iterable(page.whole.transactions or () for page in group)
            parts.append(transactions.gather(structs, extras))
    return transactions.tables(parts, repeated)


def _rows_table(table: Table, pages: Sequence[Page], **added: Any) -> pa.Table:
    """Make a table of structs: the record's columns, the added ones, and null in the others."""
    repeated, extras = _repetitions(table, pages), _extras(pages)
    rows = [row for i, row in enumerate(_rows(table, pages)) if i not in repeated]
    columns = codec.decode(table.record, rows) | added
    if extras:
        columns["extra"] = pa.array([dump(extras.get(id(row), {})) for row in rows], pa.string())
    return fit(table, columns, len(rows))


def _entries_table(table: Table, pages: Sequence[Page], key: str) -> pa.Table:
    entries: dict[str, msgspec.Raw] = {}
    for page in pages:
        entries |= getattr(page.answer, key) or {}
    texts = OBJECT.decode(list(map(bytes, entries.values())))
    loose = next(member for member in table.record.computed if isinstance(member, Loose))
    columns = {
        "address": pa.array(list(entries), pa.string()),
        loose.column: texts,
        **codec.repeated(loose.record, texts),
    }
    return fit(table, columns, len(entries))


def _extras(pages: Iterable[Page]) -> dict[int, Extra]:
    extras: dict[int, Extra] = {}
    for page in pages:
        extras |= page.extras
    return extras


def answer_extra(pages: Sequence[Page]) -> str | None:
    """Return keys of the answers themselves that the schema does not know, as JSON text."""
    extra: Extra = {}
    for page in pages:
        extra |= page.extras.get(id(page.whole), {})
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
        _repetitions(table, pages)


def _rows(table: Table, pages: Sequence[Page]) -> list[Any]:
    """List the rows of all pages; of transactions their outlines."""
    return list(chain.from_iterable(getattr(page.answer, table.name) or () for page in pages))


def _repetitions(table: Table, pages: Sequence[Page]) -> set[int]:
    """Return the positions of rows that came before with the same content."""
    rows = _rows(table, pages)
    repeated: set[int] = set()
    for columns in table.keys:
        keys = list(map(attrgetter(*columns), rows))
        if len(set(keys)) < len(keys):
            repeated |= _equal(table, keys, _structs(table, pages), _extras(pages))
    return repeated


def _structs(table: Table, pages: Sequence[Page]) -> list[Any]:
    """List the whole structs of the rows of all pages."""
    found: list[Any] = []
    for page in pages:
        if page.transactions is None:
            found += getattr(page.whole, table.name) or ()
        else:
            again = _DECODERS[page.record].decode(page.content)
            of_table = getattr(again, table.name) or ()
            found += map(_transaction, of_table) if table is schema.TRANSACTIONS else of_table
    return found


def _equal(
    table: Table, keys: Sequence[Any], rows: Sequence[Any], extras: Mapping[int, Extra]
) -> set[int]:
    """Return the positions of rows whose key came before; their content must be the same."""
    first: dict[Any, int] = {}
    repeated = set()
    for i, key in enumerate(keys):
        j = first.setdefault(key, i)
        if j == i:
            continue
        if _content(rows[j], extras) != _content(rows[i], extras):
            raise DecodeError(
                f"$.{table.name}[{i}]",
                f"what {table.name}[{j}] says of the same {table.name.rstrip('s')}",
                f"different content for {shorten(key)}",
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
