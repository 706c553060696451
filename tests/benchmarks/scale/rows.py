"""The rows of made-up transactions: tables as `read_blocks` returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from chain.accounts import NO_STATE, NO_TRANSACTION

from tonframes.wire import schema
from tonframes.wire.tables import fit

from .bodies import make_bodies, varied
from .chain import APART, LT, SEQNO, STEP, Skeleton, account_of, gas_of, lt_of, time_of
from .hashes import SHARDS, addresses, hashes, mixed, shards_of
from .templates import MOST, OUTSIDE, templates

if TYPE_CHECKING:
    from tonframes.wire.record import Table

#: The hashes that stand for no transaction, and for no state.
_NONE = {"transaction": NO_TRANSACTION, "state": NO_STATE}
#: What all messages of a transaction, and the transaction itself, have numbers of.
_PLACES = OUTSIDE + 1
#: Blocks of the masterchain and of the basechain: workchain and shard.
CHAINS = [(-1, -(2**63)), *((0, int(shard)) for shard in SHARDS.view(np.int64))]


def tables_of(skeleton: Skeleton, seqnos: range) -> dict[str, pa.Table]:
    """Return the tables of some masterchain blocks, of which the skeleton has all transactions."""
    return {
        name: rows_of(name, skeleton, seqnos) for name in ("messages", "blocks", "transactions")
    }


def rows_of(name: str, skeleton: Skeleton, seqnos: range) -> pa.Table:
    """Return one of the tables of some masterchain blocks."""
    if name == "blocks":
        return _blocks(skeleton, seqnos)
    return _transactions(skeleton) if name == "transactions" else _messages(skeleton)


def _transactions(skeleton: Skeleton) -> pa.Table:
    found, row = templates(), skeleton.row
    now = time_of(skeleton.seqno)
    rent = skeleton.rent
    used, dearer = gas_of(row, skeleton.number)
    ran = _column(found.transactions, "compute_gas_used", row).is_valid()
    total = _column(found.transactions, "total_fees", row).to_numpy()
    here, gone = (_texts(found.transactions, f"{when}_status", row) for when in ("orig", "end"))
    exists, stays = (pc.not_equal(status, "nonexist") for status in (here, gone))
    data = {when: _column(found.transactions, f"account_state_data_hash_{when}", row).is_valid()
            for when in ("before", "after")}  # fmt: skip
    listed = found.transactions["action_tot_actions"].fill_null(0).to_numpy()[row] > 0
    lists = _column(found.transactions, "action_action_list_hash", row)
    return _filled(
        schema.TRANSACTIONS,
        found.transactions,
        row,
        account=_address(skeleton.account),
        hash=hashes(skeleton.number, "transaction"),
        lt=skeleton.lt,
        now=now,
        block_time=now * 1_000_000,
        mc_block_seqno=skeleton.seqno,
        block_shard=_shard(skeleton),
        block_seqno=skeleton.seqno,
        trace_id=hashes(skeleton.number - _local(skeleton), "transaction"),
        prev_trans_hash=_previous(skeleton, "transaction", none=skeleton.previous_lt == 0),
        prev_trans_lt=skeleton.previous_lt,
        total_fees=total + rent - found.rent[row] + dearer,
        storage_fees_collected=rent,
        compute_gas_used=pc.if_else(ran, used, None),
        compute_gas_fees=pc.add(_column(found.transactions, "compute_gas_fees", row), dearer),
        action_action_list_hash=pc.if_else(
            pa.array(listed), hashes(skeleton.number, "actions"), lists
        ),
        account_state_hash_before=_previous(skeleton, "state", none=skeleton.previous_lt == 0),
        account_state_hash_after=pc.if_else(stays, hashes(skeleton.number, "state"), NO_STATE),
        account_state_balance_before=pc.if_else(exists, skeleton.before, None),
        account_state_balance_after=pc.if_else(stays, skeleton.after, None),
        account_state_data_hash_before=_data(skeleton.data_before, data["before"]),
        account_state_data_hash_after=_data(skeleton.data_after, data["after"]),
    )


def _messages(skeleton: Skeleton) -> pa.Table:
    found = templates()
    counts = found.messages_of[skeleton.row]
    ends = np.cumsum(counts)
    of = np.repeat(np.arange(len(counts)), counts)  # the transaction of each message
    place = np.arange(len(of)) - np.repeat(ends - counts, counts)
    row = found.first_message[skeleton.row][of] + place
    local, base = _local(skeleton)[of], (skeleton.number - _local(skeleton))[of]
    instance, fresh, seqno = skeleton.instance[of], skeleton.fresh[of], skeleton.seqno[of]
    trace = found.trace[skeleton.row][of]
    sender, receiver, position = found.sender[row], found.receiver[row], found.position[row]
    outside = sender < 0
    # The transaction that sent the message, or that received it from outside.
    by = np.where(outside, local, sender)
    first = seqno - found.later[found.start[trace] + local]
    sent = first + found.later[found.start[trace] + by]
    created = lt_of(instance, sent, by) + 1 + position
    number = (base + by) * _PLACES + position
    draw = [trace, instance, fresh]
    source = account_of(*draw, found.account[found.start[trace] + by])
    destination = account_of(*draw, np.maximum(receiver, 0))
    of_trace = varied().is_query[row]
    value = np.where(of_trace, mixed(instance, "varied") >> np.uint64(16), mixed(number, "varied"))
    bodies, decoded, opcodes, named = make_bodies(row, value)
    changed = pa.array(varied().at[row] >= 0)
    body_hash = hashes(np.where(of_trace, instance * MOST + position, number), "body")
    messages, hashed = found.messages, hashes(skeleton.number, "transaction")
    now = time_of(skeleton.seqno)[of]
    opcode = _column(messages, "opcode", row)
    return _filled(
        schema.MESSAGES,
        messages,
        row,
        tx_hash=hashed.take(pa.array(of)),
        tx_lt=skeleton.lt[of],
        tx_now=now,
        block_time=now * 1_000_000,
        mc_block_seqno=seqno,
        trace_id=hashes(base, "transaction"),
        msg_hash=hashes(number, "message"),
        msg_hash_norm=hashes(number, "normal", valid=outside),
        source=pc.if_else(pa.array(outside), None, _address(source)),
        destination=pc.if_else(pa.array(receiver < 0), None, _address(destination)),
        created_lt=pc.if_else(pa.array(outside), None, created),
        created_at=pc.if_else(pa.array(outside), None, time_of(sent)),
        opcode=pc.if_else(pa.array(named), opcodes.astype(np.int64), opcode),
        body=bodies,
        body_hash=pc.if_else(changed, body_hash, _column(messages, "body_hash", row)),
        decoded=decoded,
    )


def _shard(skeleton: Skeleton) -> np.ndarray:
    """Return the shard of each transaction."""
    special = skeleton.account < len(templates().specials)
    return np.where(special, CHAINS[0][1], shards_of(skeleton.account))


def _blocks(skeleton: Skeleton, seqnos: range) -> pa.Table:
    """Return a block of the masterchain and one of each shard for every masterchain block."""
    count, many = len(seqnos), len(CHAINS)
    seqno = np.repeat(np.array(seqnos), many)
    workchain, shard = (np.tile(np.array(values), count) for values in zip(*CHAINS, strict=True))
    place = np.searchsorted(np.sort(shard[:many]), _shard(skeleton))
    order = np.argsort(np.argsort(shard[:many]))
    at = (skeleton.seqno - seqnos.start) * many
    held = np.bincount(at + np.argsort(order)[place], minlength=count * many)
    before = [
        f'[{{"workchain": {w}, "shard": "{s % 2**64:X}", "seqno": {n - 1}}}]'
        for w, s, n in zip(workchain.tolist(), shard.tolist(), seqno.tolist(), strict=True)
    ]
    number = seqno * many + np.tile(np.arange(many), count)
    start = LT + (seqno - SEQNO) * STEP
    now = time_of(seqno)
    ours = {
        "mc_block_workchain": -1,
        "mc_block_shard": CHAINS[0][1],
        "mc_block_seqno": seqno,
        "workchain": workchain,
        "shard": shard,
        "seqno": seqno,
        "root_hash": hashes(number, "block"),
        "file_hash": hashes(number, "file"),
        "global_id": -217,
        "gen_utime": now,
        "block_time": now * 1_000_000,
        "start_lt": start,
        "end_lt": start + STEP - APART,
        "tx_count": held,
        "prev_blocks": pa.array(before),
        "min_ref_mc_seqno": seqno - 3,
        "master_ref_seqno": np.where(workchain < 0, 0, seqno - 1),
        "rand_seed": hashes(number, "seed"),
        "created_by": hashes(number, "creator"),
    }
    return _fitted(schema.BLOCKS, ours, len(seqno))


def _local(skeleton: Skeleton) -> np.ndarray:
    """Return the place of each transaction within its trace."""
    found = templates()
    return skeleton.row - found.start[found.trace[skeleton.row]]


def _previous(skeleton: Skeleton, kind: str, *, none: np.ndarray) -> pa.Array:
    """Return hashes of the transactions before, or of the states that they left."""
    known = skeleton.previous >= 0
    earlier = np.where(known, skeleton.previous, -1 - skeleton.previous)
    if kind != "transaction":
        earlier = np.where(known, earlier, 2**62 // MOST + earlier)
    found = pc.if_else(pa.array(known), hashes(earlier, kind), hashes(earlier, "earlier"))
    return pc.if_else(pa.array(none), _NONE[kind], found)


def _data(numbers: np.ndarray, valid: pa.Array) -> pa.Array:
    """Return hashes of data that transactions have written."""
    known = np.where(numbers >= 0, numbers, 2**58 - numbers)
    return pc.if_else(valid, hashes(known, "data"), None)


def _address(accounts: np.ndarray) -> pa.Array:
    special = templates().specials
    named = pa.array(special).take(pa.array(np.minimum(accounts, len(special) - 1)))
    return pc.if_else(pa.array(accounts < len(special)), named, addresses(accounts))


def _column(table: pa.Table, name: str, rows: np.ndarray) -> pa.Array:
    return table[name].combine_chunks().take(pa.array(rows))


_texts = _column


def _filled(table: Table, sample: pa.Table, rows: np.ndarray, **own: object) -> pa.Table:
    """Return a table with columns of its own, and the rest from rows of the sample."""
    rest = {
        column.name: _column(sample, column.name, rows)
        for column in table.columns
        if column.name not in own and sample[column.name].null_count < len(sample)
    }
    return _fitted(table, own | rest, len(rows))


def _fitted(table: Table, columns: dict[str, object], count: int) -> pa.Table:
    for column in table.columns:
        if isinstance(values := columns.get(column.name), np.ndarray):
            columns[column.name] = pa.array(values).cast(column.kind.arrow)
    return fit(table, columns, count)
