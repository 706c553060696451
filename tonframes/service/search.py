"""Search transactions and blocks by conditions, as deployed services do.

Source: ton-indexer, crud_transactions.go (buildTransactionsQuery) and crud_blocks.go
(buildBlocksQuery). All bounds are inclusive; all conditions hold together. Of accounts and hashes
there may be several.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.service.parameters import (
    INTEGER,
    Page,
    Query,
    not_found,
    read_address,
    read_hash,
    read_shard,
    several,
    unconverted,
)
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tonframes.service.rows import Block, HeldRows, Transaction


class _Condition(NamedTuple):
    """What a parameter asks of a column."""

    column: str
    compare: Callable[[Any, Any], Any]
    read: Callable[[str, str], Any]


def _bounded(least: int, most: int) -> Callable[[str, str], int]:
    def read(text: str, what: str) -> int:
        number = text or "0"
        if not INTEGER.fullmatch(number) or not least <= int(number) <= most:
            raise unconverted(what)
        return int(number)

    return read


def _among(column: Any, values: Sequence[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))


_INT32, _UINT32 = _bounded(-(2**31), 2**31 - 1), _bounded(0, 2**32 - 1)
_UINT64 = _bounded(0, 2**63 - 1)

_TRANSACTIONS = {
    "workchain": _Condition("block_workchain", pc.equal, _INT32),
    "shard": _Condition("block_shard", pc.equal, read_shard),
    "seqno": _Condition("block_seqno", pc.equal, _INT32),
    "mc_seqno": _Condition("mc_block_seqno", pc.equal, _INT32),
    "lt": _Condition("lt", pc.equal, _UINT64),
    "start_utime": _Condition("now", pc.greater_equal, _UINT32),
    "end_utime": _Condition("now", pc.less_equal, _UINT32),
    "start_lt": _Condition("lt", pc.greater_equal, _UINT64),
    "end_lt": _Condition("lt", pc.less_equal, _UINT64),
}
_SEVERAL = {
    "account": _Condition("account", _among, read_address),
    "hash": _Condition("hash", _among, read_hash),
}
_BLOCKS = {
    "workchain": _Condition("workchain", pc.equal, _INT32),
    "shard": _Condition("shard", pc.equal, read_shard),
    "seqno": _Condition("seqno", pc.equal, _INT32),
    "root_hash": _Condition("root_hash", pc.equal, read_hash),
    "file_hash": _Condition("file_hash", pc.equal, read_hash),
    "mc_seqno": _Condition("mc_block_seqno", pc.equal, _INT32),
    "start_utime": _Condition("gen_utime", pc.greater_equal, _UINT32),
    "end_utime": _Condition("gen_utime", pc.less_equal, _UINT32),
    "start_lt": _Condition("start_lt", pc.greater_equal, _UINT64),
    "end_lt": _Condition("start_lt", pc.less_equal, _UINT64),
}


def search_transactions(held: HeldRows, query: Query) -> Sequence[Transaction]:
    """Return a page of transactions, by default the newest first.

    Transactions of one logical time are in ascending order of their accounts; if one logical time
    is asked for, as `sort` says. If hashes are asked for, they are in the order of the hashes.
    """
    page = Page.read(query)
    asked = _read(_TRANSACTIONS, query)
    for name, condition in _SEVERAL.items():
        values = several(query, name, condition.read)
        # An empty hash is no condition, but an empty account is that of no transaction.
        if values or (name == "account" and query.get(name) == [""]):
            asked.append((condition, values))
    page.check()
    for condition, value in asked:
        if condition.column == "mc_block_seqno" and held.run(value) is None:
            raise not_found(f"masterchain block {value} not found")
    columns = _columns(_TRANSACTIONS | _SEVERAL)
    parts = (held.keys("transactions", run, columns) for run in held.runs())
    rows = _search([*parts, held.history_keys(columns)], asked)
    way = page.way("descending")
    if "lt" in query:
        order_by = [("account", way)]
    elif "hash" in query:
        order_by = [("hash", way)]
    elif {"start_utime", "end_utime"} & query.keys() and "mc_seqno" not in query:
        order_by = [("now", way), ("lt", way), ("account", "ascending")]
    else:
        order_by = [("lt", way), ("account", "ascending")]
    order = pc.sort_indices(rows, sort_keys=order_by)
    chosen = rows.take(order.slice(page.offset, page.limit))
    seqnos, accounts, lts = (
        chosen[name].to_pylist() for name in ("mc_block_seqno", "account", "lt")
    )
    of_blocks = (row for seqno in dict.fromkeys(seqnos) for row in held.transactions(seqno) or ())
    apart = [i for i, seqno in enumerate(seqnos) if held.run(seqno) is None]
    of_histories = held.of_histories([accounts[i] for i in apart], [lts[i] for i in apart])
    found: dict[tuple[int, str], Transaction] = {
        (row.lt, row.account): row for row in (*of_blocks, *of_histories)
    }
    return [found[name] for name in zip(lts, accounts, strict=True)]


def search_blocks(held: HeldRows, query: Query) -> Sequence[Block]:
    """Return a page of blocks, in the order of their seconds if one is asked for."""
    page = Page.read(query)
    asked = _read(_BLOCKS, query)
    page.check()
    columns = _columns(_BLOCKS)
    none = schema.BLOCKS.schema.empty_table().select(columns)
    rows = _search([none, *(held.keys("blocks", run, columns) for run in held.runs())], asked)
    if way := page.way():
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("gen_utime", way)]))
    chosen = rows.slice(page.offset, page.limit)
    found = {
        (block.workchain, block.shard, block.seqno): block
        for seqno in dict.fromkeys(chosen["mc_block_seqno"].to_pylist())
        for block in held.blocks(seqno)
    }
    names = (chosen[name].to_pylist() for name in ("workchain", "shard", "seqno"))
    return [found[name] for name in zip(*names, strict=True)]


def _read(conditions: dict[str, _Condition], query: Query) -> list[tuple[_Condition, Any]]:
    return [
        (condition, condition.read(query[parameter][-1], f'"{parameter}"'))
        for parameter, condition in conditions.items()
        if parameter in query
    ]


def _columns(conditions: dict[str, _Condition]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(condition.column for condition in conditions.values()))


def _search(parts: Iterable[pa.Table], asked: Sequence[tuple[_Condition, Any]]) -> pa.Table:
    """Return the rows that meet all conditions."""
    found = []
    for rows in parts:
        met = [condition.compare(rows[condition.column], value) for condition, value in asked]
        found.append(rows.filter(reduce(pc.and_, met)) if met else rows)
    return pa.concat_tables(found)
