"""Pages of transactions, and the tables of whole masterchain blocks that are made of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError, shorten
from tonframes.fetch.proof import Shard, lack, prefix_of
from tonframes.store import within
from tonframes.wire import pages, schema
from tonframes.wire.tables import concat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tonframes.fetch.intervals import Header
    from tonframes.fetch.proof import Key
    from tonframes.wire.pages import Page
    from tonframes.wire.tables import Tables

#: Rows of a page that is decoded into tables when it comes.
MANY = 250


@dataclass(slots=True)
class RowPage:
    """A page of transactions. One whose messages did not all come counts as one that did not come.

    Attributes
    ----------
    count
        Rows of the answer.
    tables
        The rows as tables; None for a few rows that are not decoded yet: decoding many at once
        is faster.
    hashes
        The transactions by their blocks.
    seqnos
        From the first to the last masterchain block that commits one of them.
    """

    count: int
    page: Page | None
    tables: Tables | None
    hashes: Mapping[Key, Sequence[str]]
    seqnos: range


def reading(start: int, end: int) -> Callable[[bytes], RowPage]:
    """Return a function that reads a page of the transactions of a window of logical time.

    It raises `DecodeError` for a transaction of another time.
    """

    def parse(content: bytes) -> RowPage:
        page = pages.read(schema.BLOCKS_ANSWER, content)
        if page.answer.transactions is None:
            raise DecodeError("$", 'an object with "transactions"', "one without")
        rows = page.answer.transactions
        for i, row in enumerate(rows):
            if not start <= int(row.lt) <= end:
                path = f"$.transactions[{i}].lt"
                raise DecodeError(path, f"{start} to {end}, as asked", shorten(row.lt))
        pages.check_doubles([page])
        whole = [row for row in rows if not lack(row)]
        tables = None
        if len(rows) >= MANY or len(whole) < len(rows):
            tables = _only(pages.blocks_tables([page]), whole)
        kept = page if tables is None else None
        seqnos = [row.mc_block_seqno for row in rows]
        run = range(min(seqnos), max(seqnos) + 1) if seqnos else range(0)
        return RowPage(len(rows), kept, tables, by_block(whole), run)

    return parse


def _only(tables: Tables, rows: Sequence[Any]) -> Tables:
    """Return tables with these transactions only."""
    if len(rows) == len(tables["transactions"]):
        return tables
    hashes = pa.array([row.hash for row in rows], pa.string())
    kept = {
        name: tables[name].filter(pc.is_in(tables[name][column], value_set=hashes))
        for name, column in (("transactions", "hash"), ("messages", "tx_hash"))
    }
    return tables | kept


def by_block(rows: Iterable[Any]) -> dict[Key, list[str]]:
    """Return the hashes of transactions by their blocks."""
    hashes: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for row in rows:
        ref = row.block_ref
        hashes[ref.workchain, ref.shard, ref.seqno].append(row.hash)
    return {
        (Shard(workchain, prefix_of(shard)), seqno): found
        for (workchain, shard, seqno), found in hashes.items()
    }


def decoded(read: Sequence[RowPage]) -> Iterator[RowPage]:
    """Yield pages with their tables; those without are decoded at once, unless a row is twice."""
    yield from (page for page in read if page.tables is not None)
    undecoded = [page for page in read if page.page is not None]
    hashes = [tx_hash for page in undecoded for found in page.hashes.values() for tx_hash in found]
    groups = [undecoded] if len(set(hashes)) == len(hashes) else [[page] for page in undecoded]
    for group in filter(None, groups):
        tables = pages.blocks_tables([page.page for page in group if page.page is not None])
        starts, stops = zip(*((page.seqnos.start, page.seqnos.stop) for page in group), strict=True)
        count = sum(page.count for page in group)
        yield RowPage(count, None, tables, {}, range(min(starts), max(stops)))


# ── what is whole, as tables ─────────────────────────────────────────────────────────────────────


def tables_of(read: Sequence[RowPage], run: range, asked: range) -> Tables:
    """Return the transactions and messages that some masterchain blocks commit, each once.

    Parameters
    ----------
    read
        Pages with all of them.
    run
        The masterchain seqnos.
    asked
        All masterchain seqnos of the fetch: what the address book says of others is left out.

    Raises
    ------
    DecodeError
        Two pages say something else of one transaction.
    """
    parts: list[Tables] = []
    taken = pa.array([], pa.string())
    for page in read:
        if page.tables is None or page.seqnos.start >= run.stop or page.seqnos.stop <= run.start:
            continue
        part = {
            name: within(page.tables[name], [run]).combine_chunks()
            for name in ("transactions", "messages")
        }
        hashes = part["transactions"]["hash"].combine_chunks()
        twice = pc.is_in(hashes, value_set=taken)
        if pc.any(twice).as_py():
            _check_same(parts, part, hashes.filter(twice))
            part["transactions"] = part["transactions"].filter(pc.invert(twice))
            again = pc.is_in(part["messages"]["tx_hash"], value_set=taken)
            part["messages"] = part["messages"].filter(pc.invert(again))
        taken = pa.concat_arrays([taken, hashes.filter(pc.invert(twice))])
        part["address_book"] = _entries(page.tables, page.seqnos, asked)
        parts.append(part)
    return concat(parts)


def check_counts(transactions: pa.Table, blocks: Iterable[Header]) -> None:
    """Raise `DecodeError` unless the transactions are those that blocks count, block by block."""
    names = ["mc_block_seqno", "block_workchain", "block_shard", "block_seqno"]
    groups = transactions.group_by(names).aggregate([([], "count_all")])
    came = {
        (mc_seqno, workchain, shard % 2**64, seqno): count
        for mc_seqno, workchain, shard, seqno, count in zip(
            *(groups[name].to_pylist() for name in (*names, "count_all")), strict=True
        )
    }
    counted = {
        (header.mc_seqno, *header.link.shard, header.link.seqno): header.link.transactions
        for header in blocks
        if header.link.transactions
    }
    for block in sorted(came.keys() | counted.keys()):
        if came.get(block) != counted.get(block):
            mc_seqno, workchain, prefix, seqno = block
            raise DecodeError(
                "$.transactions",
                f"{counted.get(block, 0)} of block ({workchain}, {prefix:016X}, {seqno}) in "
                f"masterchain block {mc_seqno}",
                f"{came.get(block, 0)}",
            )


def _check_same(parts: Sequence[Tables], part: Tables, hashes: pa.Array) -> None:
    """Raise `DecodeError` if transactions that have come before have another content now."""
    for name, of in (("transactions", "hash"), ("messages", "tx_hash")):
        before = pa.concat_tables([earlier[name] for earlier in parts])
        order = [(of, "ascending")]
        if name == "messages":
            order += [("direction", "ascending"), ("position", "ascending")]
        first, second = (
            table.filter(pc.is_in(table[of], value_set=hashes)).sort_by(order).combine_chunks()
            for table in (before, part[name])
        )
        if not first.equals(second):
            raise DecodeError(f"$.{name}", "what another page says of the same", "another content")


def _entries(tables: Tables, seqnos: range, asked: range) -> pa.Table:
    """Return the entries of the address book, but for those of neighbouring blocks alone."""
    book = tables["address_book"]
    if seqnos.start >= asked.start and seqnos.stop <= asked.stop:
        return book
    kept = {name: within(tables[name], [asked]) for name in ("transactions", "messages")}
    columns = [
        kept["transactions"]["account"],
        kept["messages"]["source"],
        kept["messages"]["destination"],
    ]
    named = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
    return book.filter(pc.is_in(book["address"], value_set=named.unique()))
