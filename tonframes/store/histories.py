"""Histories of accounts in a store: their transactions and messages, and the spans they cover.

Each commit has three files of one name, of which that of the transactions is written last::

    account_transactions/20261121T094500.123456Z-6b1f0a2c.parquet   many accounts, by (account, lt)
    account_messages/…                                              their messages
    histories/…                                                     the spans of these transactions

No transaction is in two of these files. It may also be in `transactions`, whose files have all
transactions of some masterchain blocks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.store.files import HISTORY_FOLDERS, Damaged
from tonframes.store.merging import reading_again, replaced_files, rows_of
from tonframes.store.spans import Span, contradict, joined_spans, new_rows, spans_of, with_row
from tonframes.wire import schema
from tonframes.wire.tables import in_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tonframes.store.files import HeldFile
    from tonframes.store.reader import Reader
    from tonframes.store.spans import Period, Spans
    from tonframes.wire.tables import Tables

_SPAN = [field.name for field in fields(Span)]
_ORDER = ["hash", "lt", "now", "account", "mc_block_seqno"]


@reading_again
def held_spans(reader: Reader, accounts: Collection[str] | None = None) -> Spans:
    """Return the spans that a store holds, of some accounts or of all."""
    empty = schema.HISTORIES.schema.empty_table()
    parts = [_of_accounts(rows, accounts) for _, rows in _commits(reader)]
    return _spans(pa.concat_tables([empty, *parts]))


def contradictions(reader: Reader) -> list[str]:
    """Tell which transactions of a store are not those that the next ones name."""
    try:
        held = held_spans(reader)
    except Damaged:  # told by itself
        return []
    return [
        f"the transaction of {account} with lt {span.stop_lt - 1} is not the one that the next one "
        f"names: fetch the history again with fetch_transactions"
        for account, spans in held.items()
        for span, later in pairwise(spans)
        if contradict(span, later)
    ]


def files_of(reader: Reader, accounts: Collection[str]) -> list[HeldFile]:
    """List the files of transactions that have some accounts, or whose spans cannot be read."""
    chosen = []
    for file in transaction_files(reader):
        try:
            rows = _spans_file(file)
        except Damaged:
            chosen.append(file)
            continue
        if len(_of_accounts(rows, accounts)):
            chosen.append(file)
    return chosen


@reading_again
def read_history(
    reader: Reader,
    accounts: Collection[str] | None,
    period: Period,
    columns: Mapping[str, Sequence[str]],
) -> Tables:
    """Read transactions or messages of accounts that a store holds, in the order of blocks.

    `accounts` are raw addresses, None is all; `columns` chooses the tables and their columns.
    """
    wanted = {
        "transactions": list(dict.fromkeys([*columns.get("transactions", ()), *_ORDER])),
    }
    if "messages" in columns:
        of = ["tx_hash", "direction", "position"]
        wanted["messages"] = list(dict.fromkeys([*columns["messages"], *of]))
    parts: dict[str, list[pa.Table]] = {
        name: [schema.TABLES[name].schema.empty_table().select(chosen)]
        for name, chosen in wanted.items()
    }
    for file, spans in _commits(reader):
        if not len(_meeting(_of_accounts(spans, accounts), period)):
            continue
        rows = period.of(file.read(wanted["transactions"]))
        rows = _of_accounts(rows, accounts)
        parts["transactions"].append(rows)
        if "messages" in wanted:
            messages = file.beside("account_messages").read(wanted["messages"])
            parts["messages"].append(_messages_of(messages, rows))
    tables = in_order({name: pa.concat_tables(each) for name, each in parts.items()})
    return {name: tables[name].select(list(chosen)) for name, chosen in columns.items()}


def fresh_rows(
    reader: Reader, tables: Mapping[str, pa.Table], absence: Mapping[str, Sequence[Span]]
) -> Tables:
    """Return what of the rows is not held, by (account, lt), and the spans of it, by folder."""
    transactions = tables["transactions"]
    held = held_spans(reader, set(pc.unique(transactions["account"]).to_pylist()))
    fresh = transactions.take(pa.array(new_rows(transactions, held), pa.int64()))
    spans = spans_of(fresh)
    for account, more in absence.items():
        spans.setdefault(account, []).extend(more)
    return _folders(fresh, _messages_of(tables["messages"], fresh), spans)


def merged_rows(files: Sequence[HeldFile]) -> Tables:
    """Return the rows of several commits as those of one, by folder."""
    rows = {folder: rows_of(files, folder) for folder in HISTORY_FOLDERS}
    order = [("account", "ascending"), ("lt", "ascending")]
    transactions = rows["account_transactions"].sort_by(order)
    messages = rows["account_messages"]
    return _folders(transactions, messages, _spans(rows["histories"]))


def replacing_rows(reader: Reader, tables: Mapping[str, pa.Table]) -> tuple[list[HeldFile], Tables]:
    """Return the files that hold transactions, and their rows with others in the place of these."""
    rows = tables["transactions"]
    names = ("account", "lt", "hash", "prev_trans_lt", "prev_trans_hash")
    places = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
    accounts = {account for account, *_ in places}
    files = []
    for file, table in _commits(reader):
        held = _spans(_of_accounts(table, accounts))
        if any(
            span.start_lt <= lt < span.stop_lt or tx_hash == span.stop_hash
            for account, lt, tx_hash, *_ in places
            for span in held.get(account, ())
        ):
            files.append(file)
    if not files:
        return [], {}
    merged = merged_rows(files)
    spans = _spans(merged["histories"])
    for account, lt, tx_hash, prev_lt, prev_hash in places:
        spans[account] = with_row(spans.get(account, ()), (prev_lt, prev_hash), (lt, tx_hash))
    kept = without(
        {"transactions": merged["account_transactions"], "messages": merged["account_messages"]},
        rows,
    )
    order = [("account", "ascending"), ("lt", "ascending")]
    transactions = pa.concat_tables([kept["transactions"], rows]).sort_by(order)
    messages = pa.concat_tables([kept["messages"], tables["messages"]])
    return files, _folders(transactions, messages, spans)


def without(tables: Mapping[str, pa.Table], others: pa.Table) -> Tables:
    """Return tables without the transactions that others replace, by account and lt, or by hash.

    Examples
    --------
    >>> rows = pa.table({"account": ["0:A"], "lt": [7], "hash": ["h"]})
    >>> tables = {"transactions": rows, "messages": pa.table({"tx_hash": ["h", "g"]})}
    >>> {name: len(table) for name, table in without(tables, rows).items()}
    {'transactions': 0, 'messages': 1}
    """
    leaving = set(zip(others["account"].to_pylist(), others["lt"].to_pylist(), strict=True))
    rows, messages = tables["transactions"], tables["messages"]
    keys = zip(rows["account"].to_pylist(), rows["lt"].to_pylist(), strict=True)
    same = pc.is_in(rows["hash"], value_set=others["hash"].combine_chunks())
    leaves = pc.or_(pa.array([key in leaving for key in keys], pa.bool_()), same)
    of = pc.is_in(messages["tx_hash"], value_set=rows.filter(leaves)["hash"].combine_chunks())
    return dict(tables) | {
        "transactions": rows.filter(pc.invert(leaves)),
        "messages": messages.filter(pc.invert(of)),
    }


def _folders(transactions: pa.Table, messages: pa.Table, spans: Spans) -> Tables:
    of = pc.index_in(messages["tx_hash"], transactions["hash"].combine_chunks())
    keys = pa.table([of, messages["direction"], messages["position"]], ["of", "in", "at"])
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    rows = [(account, s) for account in sorted(spans) for s in joined_spans(spans[account])]
    columns = {name: [getattr(span, name) for _, span in rows] for name in _SPAN}
    columns["account"] = [account for account, _ in rows]
    return {
        "account_transactions": transactions,
        "account_messages": messages.take(order),
        "histories": pa.Table.from_pydict(columns, schema=schema.HISTORIES.schema),
    }


def transactions_in(tables: Tables, accounts: Collection[str], period: Period) -> Tables:
    """Return the transactions of a period, with their messages, in the order of blocks."""
    transactions = _of_accounts(period.of(tables["transactions"]), accounts)
    messages = _messages_of(tables["messages"], transactions)
    book = tables["address_book"]
    named = pa.chunked_array(
        [
            chunk
            for column in (
                transactions["account"],
                messages["source"],
                messages["destination"],
            )
            for chunk in column.chunks
        ],
        pa.string(),
    )
    return in_order(
        {
            "transactions": transactions,
            "messages": messages,
            "address_book": book.filter(pc.is_in(book["address"], value_set=named.unique())),
        }
    )


def transaction_files(reader: Reader) -> list[HeldFile]:
    """List the files of transactions, oldest first; there is one for each commit."""
    while True:
        replaced = replaced_files(reader.path)
        files = reader.held_snapshots("account_transactions")
        # If a whole merge took place meanwhile, files of the list are gone: see `reading_again`.
        if replaced == replaced_files(reader.path):
            return [file for file in files if file.path.name not in replaced]


def _commits(reader: Reader) -> Iterator[tuple[HeldFile, pa.Table]]:
    """List the files of transactions, oldest first, with their spans."""
    for file in transaction_files(reader):
        yield file, _spans_file(file)


def _spans_file(transactions: HeldFile) -> pa.Table:
    file = transactions.beside("histories")
    try:
        status = file.path.stat()
    except OSError:
        return file.read(schema.HISTORIES.schema.names)
    return _cached(file, status.st_mtime_ns, status.st_size)


@lru_cache(4096)  # files never change; their times tell if another one has taken the name
def _cached(file: HeldFile, _time: int, _size: int) -> pa.Table:
    return file.read(schema.HISTORIES.schema.names)


def _spans(rows: pa.Table) -> Spans:
    found: Spans = defaultdict(list)
    columns = (rows[name].to_pylist() for name in ("account", *_SPAN))
    for account, *values in zip(*columns, strict=True):
        found[account].append(Span(*values))
    return {account: joined_spans(spans) for account, spans in found.items()}


def _of_accounts(rows: pa.Table, accounts: Collection[str] | None) -> pa.Table:
    if accounts is None:
        return rows
    return rows.filter(pc.is_in(rows["account"], value_set=pa.array(list(accounts), pa.string())))


def _meeting(spans: pa.Table, period: Period) -> pa.Table:
    """Return the spans that have transactions which may be of a period."""
    spans = spans.filter(pc.less(spans["start_lt"], spans["stop_lt"]))
    if period.unit == "lt":
        after = pc.greater(spans["stop_lt"], period.start)
        before = pc.less(spans["start_lt"], period.end)
    else:
        after = pc.greater_equal(spans["stop_utime"], period.start)
        before = pc.less_equal(spans["start_utime"], period.end)
    return spans.filter(pc.and_(after, before))


def _messages_of(messages: pa.Table, transactions: pa.Table) -> pa.Table:
    hashes = transactions["hash"].combine_chunks()
    return messages.filter(pc.is_in(messages["tx_hash"], value_set=hashes))
