"""Search transactions and blocks by conditions, as deployed services do.

Source: ton-indexer, crud_transactions.go (buildTransactionsQuery) and crud_blocks.go
(buildBlocksQuery). All bounds are inclusive; all conditions hold together.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.service.parameters import (
    INTEGER,
    Page,
    Query,
    not_found,
    raw_addresses,
    refusal_of_value,
)
from tonframes.wire.kinds import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tonframes.service.rows import Block, HeldRows, Transaction


@dataclass(frozen=True, slots=True)
class _Condition:
    """What a parameter asks of a column."""

    column: str
    compare: Callable[[Any, Any], Any]
    read: Callable[[str, str], Any]


def _bounded(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not INTEGER.fullmatch(text) or not least <= int(text) <= most:
            raise refusal_of_value(f'"{name}"')
        return int(text)

    return read


def _shard(name: str, text: str) -> int:
    try:
        return int(SHARD.decode([text])[0].as_py())
    except (ValueError, OverflowError, pa.ArrowInvalid):
        raise refusal_of_value(f'"{name}"') from None


def _hash(_: str, text: str) -> str:
    """Read a hash in hex, or in base64 of either alphabet."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return b64encode(bytes.fromhex(text)).decode()
    return text.replace("-", "+").replace("_", "/")


_INT32, _UINT32 = _bounded(-(2**31), 2**31 - 1), _bounded(0, 2**32 - 1)
_UINT64 = _bounded(0, 2**63 - 1)

_TRANSACTIONS = {
    "workchain": _Condition("block_workchain", pc.equal, _INT32),
    "shard": _Condition("block_shard", pc.equal, _shard),
    "seqno": _Condition("block_seqno", pc.equal, _INT32),
    "mc_seqno": _Condition("mc_block_seqno", pc.equal, _INT32),
    "hash": _Condition("hash", pc.equal, _hash),
    "lt": _Condition("lt", pc.equal, _UINT64),
    "start_utime": _Condition("now", pc.greater_equal, _UINT32),
    "end_utime": _Condition("now", pc.less_equal, _UINT32),
    "start_lt": _Condition("lt", pc.greater_equal, _UINT64),
    "end_lt": _Condition("lt", pc.less_equal, _UINT64),
}
_BLOCKS = {
    "workchain": _Condition("workchain", pc.equal, _INT32),
    "shard": _Condition("shard", pc.equal, _shard),
    "seqno": _Condition("seqno", pc.equal, _INT32),
    "root_hash": _Condition("root_hash", pc.equal, _hash),
    "file_hash": _Condition("file_hash", pc.equal, _hash),
    "mc_seqno": _Condition("mc_block_seqno", pc.equal, _INT32),
    "start_utime": _Condition("gen_utime", pc.greater_equal, _UINT32),
    "end_utime": _Condition("gen_utime", pc.less_equal, _UINT32),
    "start_lt": _Condition("start_lt", pc.greater_equal, _UINT64),
    "end_lt": _Condition("start_lt", pc.less_equal, _UINT64),
}


def search_transactions(held: HeldRows, query: Query) -> Sequence[Transaction]:
    """Return a page of transactions, by default the newest first."""
    page = Page.read(query)
    accounts = sorted({raw for text in query.get("account", ()) for raw in raw_addresses(text, 0)})
    rows = _search(held, "transactions", _TRANSACTIONS, ("account",), query)
    if accounts:
        rows = rows.filter(pc.is_in(rows["account"], value_set=pa.array(accounts)))
    if "mc_seqno" in query and held.run(int(query["mc_seqno"][-1])) is None:
        raise not_found(f"masterchain block {int(query['mc_seqno'][-1])} not found")
    by_time = {"start_utime", "end_utime"} & query.keys()
    # Of one account the rows come in the same order, as its address is the same in all of them.
    columns = ["now", "lt", "account"] if by_time else ["lt", "account"]
    keys = list(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    order = page.of(
        range(len(rows)), lambda i, sign: (*(sign * n for n in keys[i][:-1]), keys[i][-1]), "desc"
    )
    chosen = rows.take(pa.array(order, pa.int64()))
    found: dict[tuple[int, str], Transaction] = {
        (row.lt, row.account): row
        for seqno in dict.fromkeys(chosen["mc_block_seqno"].to_pylist())
        for row in held.transactions(seqno) or ()
    }
    names = zip(chosen["lt"].to_pylist(), chosen["account"].to_pylist(), strict=True)
    return [found[name] for name in names]


def search_blocks(held: HeldRows, query: Query) -> Sequence[Block]:
    """Return a page of blocks, in the order of their seconds if one is asked for."""
    page = Page.read(query)
    rows = _search(held, "blocks", _BLOCKS, (), query)
    times = rows["gen_utime"].to_pylist()
    order = page.of(range(len(rows)), lambda i, sign: sign * times[i])
    chosen = rows.take(pa.array(order, pa.int64()))
    found = {
        (block.workchain, block.shard, block.seqno): block
        for seqno in dict.fromkeys(chosen["mc_block_seqno"].to_pylist())
        for block in held.blocks(seqno)
    }
    columns = (chosen[name].to_pylist() for name in ("workchain", "shard", "seqno"))
    return [found[name] for name in zip(*columns, strict=True)]


def _search(
    held: HeldRows,
    name: str,
    conditions: dict[str, _Condition],
    more: tuple[str, ...],
    query: Query,
) -> pa.Table:
    """Return the columns that can be searched, of the rows that meet all conditions."""
    asked = [
        (condition, condition.read(parameter, query[parameter][-1]))
        for parameter, condition in conditions.items()
        if parameter in query
    ]
    columns = tuple(dict.fromkeys([c.column for c in conditions.values()])) + more
    tables = [_filtered(held.keys(name, run, columns), asked) for run in held.runs()]
    if not tables:
        tables = [pa.table({column: pa.array([], pa.int64()) for column in columns})]
    return pa.concat_tables(tables)


def _filtered(rows: pa.Table, asked: Sequence[tuple[_Condition, Any]]) -> pa.Table:
    met = [condition.compare(rows[condition.column], value) for condition, value in asked]
    return rows.filter(reduce(pc.and_, met)) if met else rows
