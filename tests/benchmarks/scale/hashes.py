"""Hashes and addresses made from numbers: the same number is the same text, in every process."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pyarrow as pa

#: The constants of splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
#: generators"). Its output is a permutation of its input, so different numbers stay different.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

#: What is hashed. A number belongs to one of these, so two kinds never have the same hash.
KINDS = ("transaction", "earlier", "state", "data", "actions", "message", "normal", "body", "block",
         "file", "seed", "creator", "account", "drawn", "varied", "gas")  # fmt: skip
_KINDS = {kind: np.uint64(place) for place, kind in enumerate(KINDS)}

#: The two digits of each byte.
HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)

#: A shard of the basechain is the account's first two bits.
SHARDS = np.array([0x2, 0x6, 0xA, 0xE], np.uint64) << np.uint64(60)


def mixed(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return 64 random-looking bits for each number, never the same for two of them."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) * np.uint64(len(KINDS)) + _KINDS[kind]
        return _mix(z * _GAMMA + _GAMMA)  # that of 0 would be 0


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def _bytes_of(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return 32 bytes for each number."""
    words = np.empty((len(numbers), 4), np.uint64)
    words[:, 0] = mixed(numbers, kind)
    with np.errstate(over="ignore"):
        for place in range(1, 4):
            words[:, place] = _mix(words[:, place - 1] + _GAMMA)
    return words.view(np.uint8)


def uniform(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return a number from 0 to 1, without 1, for each number."""
    return (mixed(numbers, kind) >> np.uint64(11)).astype(float) * 2.0**-53


def hashes(numbers: np.ndarray, kind: str, *, valid: np.ndarray | None = None) -> pa.Array:
    """Return a hash for each number, base64; null where `valid` is false."""
    padded = np.zeros((len(numbers), 33), np.uint8)
    padded[:, :32] = _bytes_of(numbers, kind)
    text = np.frombuffer(b64encode(padded), np.uint8).reshape(-1, 44).copy()
    text[:, 43] = ord("=")
    return texts(text, valid)


def addresses(accounts: np.ndarray) -> pa.Array:
    """Return an address of the basechain for each account, raw."""
    text = np.empty((len(accounts), 33), np.uint16)
    text[:, 0] = np.frombuffer(b"0:", np.uint16)[0]
    text[:, 1:] = HEX[_bytes_of(accounts, "account")]
    return texts(text.view(np.uint8))


def shards_of(accounts: np.ndarray) -> np.ndarray:
    """Return the shard of each account, signed."""
    first = _bytes_of(accounts, "account")[:, 0] >> 6
    return SHARDS.view(np.int64)[first]


def texts(characters: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Return the rows of a matrix of ASCII characters as texts."""
    count, width = characters.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    mask = None if valid is None else pa.array(valid).buffers()[1]
    data = np.ascontiguousarray(characters)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data), mask)
