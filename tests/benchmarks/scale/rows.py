"""Made-up transactions: the rows of the sample again and again, as copies of their own.

A copy has the rows of as many masterchain blocks as a narrow file, moved in seqno, logical time and
time. Its hashes are its own, but for those of code; popular accounts are in many copies, the others
in few or in one; bodies that have a query id or a signature have one of their own.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from chain.accounts import NO_STATE, NO_TRANSACTION

import tonframes as tf
from tonframes.seqnos import SPAN
from tonframes.wire.tables import with_columns

#: The first masterchain block: where a file of any width begins.
SEQNO = 90_000_000
#: How far a copy is behind the one before it.
_LATER = {
    **dict.fromkeys(("seqno", "mc_block_seqno", "block_seqno", "min_ref_mc_seqno"), SPAN),
    **dict.fromkeys(("lt", "tx_lt", "created_lt", "start_lt", "end_lt"), 10**9),
    **dict.fromkeys(("now", "tx_now", "created_at", "gen_utime"), 2 * SPAN),
    "block_time": 2 * SPAN * 1_000_000,
}
_ACCOUNTS = ("account", "source", "destination")
#: Each call has its own gas, as on the chain.
_GAS = 64
#: CRC32-C, with which a bag of cells ends (boc.tlb: crc32c), reversed.
_POLYNOMIAL = 0x82F63B78


@cache
def sample() -> dict[str, pa.Table]:
    """Return the rows of the sample that are copied."""
    blocks = tf.read_blocks(tf.sample(), range(SEQNO, SEQNO + SPAN))
    names = ("transactions", "messages", "blocks")
    return {name: blocks.arrow(name).combine_chunks() for name in names}


def rows_of(name: str, copy: int) -> pa.Table:
    """Return a copy of one of the tables."""
    table = sample()[name]
    columns = {
        column: (
            pc.add(table[column].cast(pa.int64()), copy * by).cast(table.schema.field(column).type)
        )
        for column, by in _LATER.items()
        if column in table.column_names
    }
    mask = _mask(copy)
    for column, (codes, words) in _hashes(name).items():
        texts = pa.array([b64encode(word).decode() for word in words ^ mask], pa.string())
        own = texts.take(codes)
        columns[column] = pc.if_else(pc.is_valid(codes), own, table[column].combine_chunks())
    for column in _ACCOUNTS:
        if column in table.column_names:
            places = pc.index_in(table[column].combine_chunks(), pa.array(_accounts()))
            columns[column] = _addresses(copy).take(places)
    if name == "messages":
        columns |= _bodies(copy)
    if name == "transactions":
        used = table["compute_gas_used"].combine_chunks()
        more = np.random.default_rng(copy).integers(_GAS, size=len(used))
        columns["compute_gas_used"] = pc.if_else(pc.greater(used, 0), pc.add(used, more), used)
        # Balances are of their own, too: the same for an account in all rows of a copy.
        places = pc.index_in(table["account"].combine_chunks(), pa.array(_accounts()))
        offsets = np.random.default_rng(copy).integers(10**10, size=len(_accounts()))
        balances = [f"account_state_balance_{when}" for when in ("before", "after")]
        rich = pc.and_(*(pc.greater(table[column], 10**9) for column in balances))
        more = pc.if_else(pc.fill_null(rich, fill_value=False), pa.array(offsets).take(places), 0)
        for column in balances:
            columns[column] = pc.add(table[column], more)
        first = pc.equal(table["prev_trans_lt"], 0)
        moved = pc.add(table["prev_trans_lt"], copy * _LATER["lt"])
        columns["prev_trans_lt"] = pc.if_else(first, 0, moved)
    arrays = {name: values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
              for name, values in columns.items()}  # fmt: skip
    return with_columns(table, **arrays)


def _mask(number: int) -> np.ndarray:
    """Return the 32 bytes by which the hashes of a copy differ from those of the sample."""
    return np.frombuffer(hashlib.sha256(b"%d" % number).digest(), np.uint8)


@cache
def _hashes(name: str) -> dict[str, tuple[pa.Array, np.ndarray]]:
    """Return which hash is in which row, and the bytes of the hashes, by column."""
    found = {}
    for column in sample()[name].column_names:
        texts = sample()[name][column].combine_chunks()
        if "code_hash" in column or "vm_" in column or not pa.types.is_string(texts.type):
            continue
        distinct = pc.unique(texts.drop_null())
        if len(distinct) and pc.all(pc.match_substring_regex(distinct, "^.{43}=$")).as_py():
            distinct = distinct.filter(
                pc.invert(pc.is_in(distinct, pa.array([NO_STATE, NO_TRANSACTION])))
            )
            content = b"".join(map(b64decode, distinct.to_pylist()))
            words = np.frombuffer(content, np.uint8).reshape(-1, 32)
            found[column] = pc.index_in(texts, distinct), words
    return found


@cache
def _accounts() -> list[str]:
    """Return the accounts of the sample, the most popular ones first."""
    columns = [sample()[n][c] for n, c in (("transactions", "account"), ("messages", "source"),
                                           ("messages", "destination"))]  # fmt: skip
    every = pa.chunked_array(list(chain.from_iterable(column.chunks for column in columns)))
    counts = every.drop_null().value_counts().to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    return [each["values"] for each in counts]


def _addresses(copy: int) -> pa.Array:
    """Return the accounts of a copy: the more popular, the more copies have the same (Zipf)."""
    found = []
    for rank, account in enumerate(_accounts()):
        variant = copy % 4 ** min(rank.bit_length(), 12)
        workchain, digits = account.split(":")
        if variant and workchain == "0":
            own = hashlib.sha256(b"%d %s" % (variant, digits.encode())).hexdigest().upper()
            digits = digits[0] + own[1:]  # in the same shard
        found.append(f"{workchain}:{digits}")
    return pa.array(found)


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Body:
    """A body with eight bytes that each copy has for itself, and how they change its checksum."""

    content: bytes
    at: int
    decoded: tuple[str, str]
    is_query: bool
    checksums: np.ndarray


@cache
def _varied() -> list[_Body | None]:
    """Return the bodies of the messages of the sample; None for those that stay as they are."""
    table = sample()["messages"]
    pairs = zip(table["body"].to_pylist(), table["decoded"].to_pylist(), strict=True)
    return [_body(b64decode(body), decoded or "{}") for body, decoded in pairs]


def _body(content: bytes, decoded: str) -> _Body | None:
    said = json.loads(decoded)
    if "query_id" in said:
        spelt, value = f'"{said["query_id"]}"', int(said["query_id"]).to_bytes(8, "big")
    elif "signature" in said:
        spelt, value = said["signature"][32:48], bytes.fromhex(said["signature"][32:48])
    else:
        return None
    at = content.find(value)
    if decoded.count(spelt) != 1 or not 0 <= at <= len(content) - 12:
        return None
    before, _, after = decoded.partition(spelt)
    behind = len(content) - 4 - at
    sums = _checksums()[behind - 8 : behind][::-1].reshape(64)
    return _Body(content, at, (before, after), "query_id" in said, sums)


@cache
def _checksums() -> np.ndarray:
    """Return how each bit of a byte changes a checksum, by how many bytes come after it."""
    found = np.empty((4096, 8), np.uint32)
    for bit in range(8):
        rest = 0x80 >> bit
        for place in range(len(found)):
            for _ in range(8):
                rest = rest >> 1 ^ (_POLYNOMIAL if rest & 1 else 0)
            found[place, bit] = rest
    return found


def _bodies(copy: int) -> dict[str, pa.Array]:
    """Return the bodies of a copy, and as the service decodes them."""
    table = sample()["messages"]
    bodies, decoded = table["body"].to_pylist(), table["decoded"].to_pylist()
    mask = _mask(copy)[:8]
    mask_bits = np.unpackbits(mask).astype(bool)
    for row, body in enumerate(_varied()):
        if body is not None:
            content = bytearray(body.content)
            own = np.frombuffer(content, np.uint8)
            own[body.at : body.at + 8] ^= mask
            checksum = np.bitwise_xor.reduce(body.checksums[mask_bits])
            own[-4:] ^= np.frombuffer(checksum.astype("<u4").tobytes(), np.uint8)
            value = bytes(content[body.at : body.at + 8])
            said = f'"{int.from_bytes(value, "big")}"' if body.is_query else value.hex().upper()
            bodies[row] = b64encode(content).decode()
            decoded[row] = said.join(body.decoded)
    return {"body": pa.array(bodies, pa.string()), "decoded": pa.array(decoded, pa.string())}
