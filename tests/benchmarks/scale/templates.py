"""Whole traces of the sample, from which others are made: which rows, accounts and messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tonframes as tf
from tonframes import gas_fee

#: Statuses of accounts that have no history which others could share: each trace has its own.
_NEW = ("nonexist", "uninit")


@dataclass(frozen=True)
class Templates:
    """Traces of the sample as columns of numbers.

    Rows of transactions are ordered by trace and logical time, messages like their transactions.
    Accounts are counted within a trace: that of row r is `account[r]`, from 0 on.

    Attributes
    ----------
    transactions, messages
        The rows of the sample.
    start, size
        By trace: its first row, and how many it has.
    special, ordinary
        The traces of tick and tock, by kind, and all others.
    trace, account, later, change, rent, gas
        By transaction: its trace, its account, masterchain blocks after the first of the trace,
        nanoton that the balance changes by without rent, rent in nanoton, gas.
    paying, metered, born, rewrites
        By transaction: whether its rent depends on the time, whether it could have used more gas
        for more fees, whether its account has no transaction before it, whether its data changes.
    pool
        By trace and account: the pool to draw from, or -1 - n for the n-th new account.
    pools
        Accounts of the sample in each pool, of one contract each. The first two are special
        accounts of the masterchain, with one each.
    fresh
        By trace: its new accounts.
    first_message, messages_of
        By transaction: its first row of messages, and how many there are.
    sender, receiver, position
        By message: the row that sent it, within its trace, or -1; the account that gets it,
        or -1; its place among those that were sent, 31 for external messages.
    """

    transactions: pa.Table
    messages: pa.Table
    start: np.ndarray
    size: np.ndarray
    special: tuple[np.ndarray, ...]
    ordinary: np.ndarray
    trace: np.ndarray
    account: np.ndarray
    later: np.ndarray
    change: np.ndarray
    rent: np.ndarray
    gas: np.ndarray
    paying: np.ndarray
    metered: np.ndarray
    born: np.ndarray
    rewrites: np.ndarray
    pool: np.ndarray
    pools: tuple[int, ...]
    specials: tuple[str, ...]
    fresh: np.ndarray
    first_message: np.ndarray
    messages_of: np.ndarray
    sender: np.ndarray
    receiver: np.ndarray
    position: np.ndarray


#: The price of the least gas in the basechain.
PRICE = gas_fee(0)
#: A run uses less than this more gas than the run of the sample that it is made from.
MORE_GAS = 256
#: Accounts and transactions of a trace, and messages of a transaction, are fewer than this.
MOST = 16
#: The position that stands for a message from outside.
OUTSIDE = 31


@cache
def templates() -> Templates:
    """Return the traces of the sample that are whole."""
    blocks = tf.read_blocks(tf.sample())
    transactions, messages = blocks.arrow("transactions"), blocks.arrow("messages")
    dropped = pa.concat_arrays(
        [_torn(messages), _huge(messages), _deleting(transactions), _distant(transactions)]
    )
    transactions = transactions.filter(pc.invert(pc.is_in(transactions["trace_id"], dropped)))
    first = _firsts(transactions)
    keys = pa.table({"first": first, "trace": transactions["trace_id"], "lt": transactions["lt"],
                     "account": transactions["account"]})  # fmt: skip
    transactions = transactions.take(
        pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    ).combine_chunks()
    of = pc.index_in(messages["tx_hash"], transactions["hash"].combine_chunks())
    place = messages["position"].fill_null(-1)
    keys = pa.table({"of": of, "place": place})
    messages = messages.take(pc.sort_indices(keys, [("of", "ascending"), ("place", "ascending")]))
    messages = messages.slice(0, len(messages) - of.null_count).combine_chunks()
    return _numbered(transactions, messages)


def _torn(messages: pa.Table) -> pa.Array:
    """Return the traces of which a message was received outside of the sample."""
    out = pc.and_(pc.equal(messages["direction"], "out"), messages["destination"].is_valid())
    came = messages.filter(pc.equal(messages["direction"], "in"))["msg_hash"]
    lost = pc.and_(out, pc.invert(pc.is_in(messages["msg_hash"], came.combine_chunks())))
    return pc.unique(messages.filter(lost)["trace_id"])


def _huge(messages: pa.Table) -> pa.Array:
    """Return the traces with amounts of which a chain's sum does not fit 64 bits."""
    return pc.unique(messages.filter(pc.greater(messages["value"], 10**15))["trace_id"])


def _deleting(transactions: pa.Table) -> pa.Array:
    """Return the traces that delete an account, whose balance would be lost."""
    gone = pc.and_(
        pc.not_equal(transactions["orig_status"], "nonexist"),
        pc.equal(transactions["end_status"], "nonexist"),
    )
    return pc.unique(transactions.filter(gone)["trace_id"])


def _distant(transactions: pa.Table) -> pa.Array:
    """Return the traces with accounts of the masterchain that have no ticks and tocks."""
    ticking = transactions.filter(pc.equal(transactions["descr"], "tick_tock"))["account"]
    distant = pc.and_(
        pc.equal(transactions["block_workchain"], -1),
        pc.invert(pc.is_in(transactions["account"], pc.unique(ticking))),
    )
    return pc.unique(transactions.filter(distant)["trace_id"])


def _firsts(transactions: pa.Table) -> np.ndarray:
    """Return the least logical time of each row's trace."""
    least = transactions.group_by("trace_id").aggregate([("lt", "min")])
    at = pc.index_in(transactions["trace_id"], least["trace_id"].combine_chunks())
    return least["lt_min"].take(at).to_numpy()


def _numbered(transactions: pa.Table, messages: pa.Table) -> Templates:
    rows, sent = transactions.to_pylist(), messages.to_pylist()
    traces: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        traces[row["trace_id"]].append(number)
    codes = Counter()
    for _, code in {(row["account"], _code(row)) for row in rows if row["orig_status"] not in _NEW}:
        codes[code] += 1
    specials = sorted({row["account"] for row in rows if row["descr"] == "tick_tock"})
    names = [*specials, *sorted(codes, key=str)]
    pool = np.zeros((len(traces), MOST), np.int64)
    account, later, trace = (np.zeros(len(rows), np.int64) for _ in range(3))
    fresh = np.zeros(len(traces), np.int64)
    local: list[dict[str, int]] = []
    for number, held in enumerate(traces.values()):
        local.append({})
        for at in held:
            row, mine = rows[at], local[-1]
            if row["account"] not in mine:
                if row["orig_status"] in _NEW:
                    kind = -1 - fresh[number]
                    fresh[number] += 1
                else:
                    special = row["account"] in specials
                    kind = names.index(row["account"] if special else _code(row))
                pool[number, len(mine)] = kind
                mine[row["account"]] = len(mine)
            trace[at], account[at] = number, mine[row["account"]]
            later[at] = row["mc_block_seqno"] - rows[held[0]]["mc_block_seqno"]
    size = np.array([len(held) for held in traces.values()])
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    sender, receiver, position, change, messages_of = _passed(rows, sent, trace, start, local)
    kinds = [(rows[s]["account"], rows[s]["is_tock"]) for s in start]
    usual = [row["orig_status"] == row["end_status"] == "active" for row in rows]
    unpaid = [row["storage_fees_due"] is not None or row["descr"] != "ord" for row in rows]
    first_message = np.concatenate([[0], np.cumsum(messages_of)[:-1]])
    ordinary = np.array([rows[s]["descr"] == "ord" for s in start])
    ticks = sorted({kind for kind, usual in zip(kinds, ordinary, strict=True) if not usual})
    return Templates(
        transactions,
        messages,
        start,
        size,
        tuple(np.array([i for i, kind in enumerate(kinds) if kind == tick]) for tick in ticks),
        np.flatnonzero(ordinary),
        trace,
        account,
        later,
        change,
        np.array([row["storage_fees_collected"] for row in rows]),
        np.array([row["compute_gas_used"] or 0 for row in rows]),
        np.array(usual) & ~np.array(unpaid),
        np.array([_metered(row) for row in rows]),
        np.array([row["orig_status"] == "nonexist" for row in rows]),
        np.array([_data(row, "before") != _data(row, "after") for row in rows]),
        pool,
        tuple(codes.get(name, 1) for name in names),
        tuple(specials),
        fresh,
        first_message,
        messages_of,
        sender,
        receiver,
        position,
    )


def _metered(row: dict[str, object]) -> bool:
    """Return whether a run's gas is paid by the gas, and there is room for more."""
    if not row["compute_success"] or row["block_workchain"]:
        return False
    return row["compute_gas_fees"] > PRICE and not 0 < row["compute_gas_limit"] < row[
        "compute_gas_used"] + MORE_GAS  # fmt: skip


def _code(row: dict[str, object]) -> str | None:
    return row["account_state_code_hash_before"]


def _data(row: dict[str, object], when: str) -> object:
    return row[f"account_state_data_hash_{when}"]


def _passed(rows, sent, trace, start, local):
    """Return who sends and gets each message, and what a transaction changes the balance by."""
    at = {row["hash"]: number for number, row in enumerate(rows)}
    senders = {m["msg_hash"]: m for m in sent if m["direction"] == "out"}
    change = np.array([-row["total_fees"] + row["storage_fees_collected"] for row in rows])
    messages_of = np.zeros(len(rows), np.int64)
    sender, receiver, position = (np.full(len(sent), -1) for _ in range(3))
    for number, message in enumerate(sent):
        row = at[message["tx_hash"]]
        messages_of[row] += 1
        receiver[number] = local[trace[row]].get(message["destination"], -1)
        source = senders.get(message["msg_hash"])
        position[number] = OUTSIDE if source is None else source["position"]
        if source is not None:
            sender[number] = at[source["tx_hash"]] - start[trace[row]]
        value = (message["value"] or 0) + (message["ihr_fee"] or 0)
        if message["direction"] == "in":
            change[row] += value
        else:
            change[row] -= value + (message["fwd_fee"] or 0)
    return sender, receiver, position, change, messages_of
