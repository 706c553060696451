"""Bodies of messages: those of the sample, each with a query id or a signature of its own.

A body is a bag of cells with a checksum, so a change of eight bytes changes its last four. The
checksum is linear: that of a body with other bytes follows from that of the sample's body, and from
the difference alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import hashes
from .templates import templates

#: Bytes that differ, and the most bytes that a body has.
_VARIED, _LONGEST = 8, 2048
#: Characters of base64 that have these bytes, and those of the checksum, wherever they begin.
_CHARACTERS, _CHECKED = 16, 8
#: CRC32-C, with which a bag of cells ends (boc.tlb: crc32c), reversed.
_POLYNOMIAL = 0x82F63B78


@dataclass(frozen=True)
class Varied:
    """The bodies of the sample's messages, and where each of them differs.

    Attributes
    ----------
    bodies
        The messages' bodies.
    raw
        The bytes of each body, filled up with zeros.
    length
        How many bytes it has.
    at
        Where the eight bytes are that differ; -1 if it stays as it is.
    is_query
        Whether they are a query id, which all messages of a trace have; else they are a part of a
        signature, which every message has for itself.
    named
        Whether they begin with the opcode, as in a body that is signed as a whole.
    before, after
        What comes before and after these bytes in the body as the service decodes it.
    """

    bodies: pa.Array
    raw: np.ndarray
    length: np.ndarray
    at: np.ndarray
    is_query: np.ndarray
    named: np.ndarray
    before: pa.Array
    after: pa.Array


@cache
def varied() -> Varied:
    """Return the bodies of the sample's messages."""
    messages = templates().messages
    texts = messages["body"].to_pylist()
    raw = np.zeros((len(texts), _LONGEST), np.uint8)
    length, at = np.zeros(len(texts), np.int64), np.full(len(texts), -1)
    query, named = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    parts: list[tuple[str | None, str | None]] = []
    columns = zip(
        texts, messages["decoded"].to_pylist(), messages["opcode"].to_pylist(), strict=True
    )
    for number, (text, decoded, opcode) in enumerate(columns):
        content = b64decode(text)
        raw[number, : len(content)] = np.frombuffer(content, np.uint8)
        length[number] = len(content)
        for name, spelt, value in _candidates(decoded):
            place = content.find(value)
            if 0 <= place <= len(content) - _VARIED - 4 and decoded.count(spelt) == 1:
                at[number], query[number] = place, name == "query_id"
                named[number] = opcode == int.from_bytes(value[:4], "big")
                before, _, after = decoded.partition(spelt)
                parts.append((before, after))
                break
        else:
            parts.append((decoded, None))
    before, after = (pa.array(texts, pa.string()) for texts in zip(*parts, strict=True))
    return Varied(messages["body"].combine_chunks(), raw, length, at, query, named, before, after)


def _candidates(decoded: str | None) -> list[tuple[str, str, bytes]]:
    """Return what may differ in a body: its name, its text when decoded, and its bytes."""
    said = json.loads(decoded) if decoded else {}
    found = []
    if "query_id" in said:
        value = int(said["query_id"]).to_bytes(_VARIED, "big")
        found.append(("query_id", f'"query_id": "{said["query_id"]}"', value))
    if "signature" in said:
        digits = said["signature"][: 2 * _VARIED]
        found.append(("signature", f'"signature": "{digits}', bytes.fromhex(digits)))
    return found


def make_bodies(
    rows: np.ndarray, values: np.ndarray
) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    """Return bodies of rows of the sample with eight bytes each, and what follows from them.

    Returns
    -------
    The bodies, the bodies as the service decodes them, opcodes, and whether these are of use.
    """
    of = varied()
    differ = np.flatnonzero(of.at[rows] >= 0)
    bodies, decoded = of.bodies.take(pa.array(rows)), of.before.take(pa.array(rows))
    mine = rows[differ]
    fresh = values[differ].astype(">u8").view(np.uint8).reshape(-1, _VARIED)
    old = _window(of.raw, mine, of.at[mine], _VARIED)
    delta = fresh ^ old
    length, at = of.length[mine], of.at[mine]
    sums = np.zeros(len(mine), np.uint32)
    for place in range(_VARIED):
        behind = length - 4 - at - place - 1
        sums ^= _shifted()[behind, delta[:, place]]
    start = at // 3 * 3
    patched = _window(of.raw, mine, start, _CHARACTERS // 4 * 3)
    _put(patched, at - start, fresh)
    end = (length - 4) // 3 * 3
    tail = _window(of.raw, mine, end, _CHECKED // 4 * 3)
    inside = end[:, None] + np.arange(tail.shape[1]) - at[:, None]  # the last ones that differ
    own = np.take_along_axis(fresh, np.clip(inside, 0, _VARIED - 1), axis=1)
    tail = np.where((inside >= 0) & (inside < _VARIED), own, tail)
    check = _window(of.raw, mine, length - 4, 4) ^ sums.astype("<u4").view(np.uint8).reshape(-1, 4)
    _put(tail, length - 4 - end, check)
    spelt = _spelt(tail, _CHECKED)
    spelt[np.arange(_CHECKED) + end[:, None] // 3 * 4 >= -(-length[:, None] // 3) * 4] = 0
    padding = -length % 3
    for count in (1, 2):
        some = np.flatnonzero(padding >= count)
        spelt[some, -(-length[some] // 3) * 4 - end[some] // 3 * 4 - count] = ord("=")
    return (
        _patched(
            bodies, differ, [(start // 3 * 4, _spelt(patched, _CHARACTERS)), (end // 3 * 4, spelt)]
        ),
        _decoded(decoded, of, rows, values),
        values >> np.uint64(32),
        of.named[rows],
    )


def _window(raw: np.ndarray, rows: np.ndarray, start: np.ndarray, width: int) -> np.ndarray:
    return raw[rows[:, None], start[:, None] + np.arange(width)]


def _put(window: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
    window[np.arange(len(window))[:, None], at[:, None] + np.arange(values.shape[1])] = values


def _spelt(window: np.ndarray, width: int) -> np.ndarray:
    text = b64encode(np.ascontiguousarray(window))
    return np.frombuffer(text, np.uint8).reshape(-1, width).copy()


def _patched(
    bodies: pa.Array, differ: np.ndarray, patches: list[tuple[np.ndarray, np.ndarray]]
) -> pa.Array:
    """Return texts with other characters at some places; a zero leaves one as it is."""
    valid, offsets, characters = bodies.buffers()
    begin = np.frombuffer(offsets, np.int32)[: len(bodies)][differ].astype(np.int64)
    text = np.frombuffer(characters, np.uint8).copy()
    for at, new in patches:
        places = (begin + at)[:, None] + np.arange(new.shape[1])
        text[places[new > 0]] = new[new > 0]
    return pa.StringArray.from_buffers(len(bodies), offsets, pa.py_buffer(text), valid)


def _decoded(before: pa.Array, of: Varied, rows: np.ndarray, values: np.ndarray) -> pa.Array:
    """Return bodies as the service decodes them, with other values."""
    differ, query = of.at[rows] >= 0, of.is_query[rows]
    number = pa.array(values).cast(pa.string())
    signed = hashes.texts(
        hashes.HEX[values.astype(">u8").view(np.uint8).reshape(-1, 8)].view(np.uint8)
    )
    middle = pc.if_else(
        pa.array(query),
        pc.binary_join_element_wise('"query_id": "', number, '"', ""),
        pc.binary_join_element_wise('"signature": "', signed, ""),
    )
    whole = pc.binary_join_element_wise(before, middle, of.after.take(pa.array(rows)), "")
    return pc.if_else(pa.array(differ), whole, before)


@cache
def _shifted() -> np.ndarray:
    """Return how a byte changes the checksum, by how many bytes come after it, and by its value."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    found = np.empty((_LONGEST, 256), np.uint32)
    found[0] = table
    for place in range(1, _LONGEST):
        found[place] = found[place - 1] >> 8 ^ table[found[place - 1] & 0xFF]
    return found
