"""Parquet files with seals: never read back wrong.

Three checksums guard a file. Each page has its own, which covers its data: without them nearly
half of all single flipped bits read back as wrong numbers, without an error. The footer has two
seals in the metadata key `tonframes`, next to what the file says of itself. `footer_seal` is a hash
of the footer with both seals as zeros; it is verified each time a file is opened, because a flipped
bit in the footer can make a column zero or null. `seal` is a hash of all bytes with the seal itself
as zeros; verifying it takes a tenth of the time of decoding.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tonframes.bucket import BucketPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

#: The key of the Parquet metadata with what a file says of itself, as a JSON object.
KEY = b"tonframes"
#: The member with which this object begins.
_FIRST = b'{"schema"'
#: What comes before the seals. No such text is within another one: JSON escapes quotes.
_SEAL, _FOOTER_SEAL = b'"seal": "', b'"footer_seal": "'
_BLANK = b"0" * 64
_DIGITS = re.compile(rb'[0-9a-f]{64}(?=")')

#: A Parquet file begins with this. It ends with the length of the footer and this.
_MAGIC, _END = b"PAR1", 8
#: Bytes that are read from the end at first; footers of transactions have about 20,000.
_TAIL = 2**15
#: Bytes that are read and hashed at once.
_SLICE = 2**20


class SealError(ValueError):
    """A file is not, or no longer, what was written."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file whose footer is the one that was written; `about` is what it says of itself."""

    source: pa.NativeFile
    about: Mapping[str, Any]

    def parquet(self) -> pq.ParquetFile:
        """Return the file for reading; the pages that are read are verified."""
        # Of an object, all that is needed is asked for in a few requests.
        far = not isinstance(self.source, pa.OSFile)
        return pq.ParquetFile(self.source, page_checksum_verification=True, pre_buffer=far)


def content(
    schema: pa.Schema, rows: pa.Table, about: Mapping[str, Any], statistics: Sequence[str]
) -> list[memoryview]:
    """Return the content of a sealed file, in two pieces.

    If the fields of the schema have metadata, the file has the whole Arrow schema, with which a
    footer is three times as long. Otherwise it has the metadata of the schema alone: Parquet's own
    types are enough for the tables of tonframes. The first member of `about`, what the file says of
    itself, is `schema`. `statistics` are the columns of which the footer has the least and the
    greatest value.
    """
    sink = pa.BufferOutputStream()
    _write(sink, schema, [rows], about, statistics)
    whole = memoryview(sink.getvalue())
    head = whole[: len(whole) - _END - int.from_bytes(whole[-_END:][:4], "little")]
    footer = bytearray(whole[len(head) :])
    _seal_footer(footer)
    hashed = blake2b(head, digest_size=32)
    hashed.update(footer)
    _fill(footer, _SEAL, hashed.hexdigest().encode())
    return [head, memoryview(footer)]


def write(
    file: Path,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    about: Mapping[str, Any],
    statistics: Sequence[str],
) -> None:
    """Write a new sealed file with one row group in memory at a time; see `content`."""
    with pa.OSFile(str(file), "wb") as sink:
        _write(sink, schema, groups, about, statistics)
    with pa.OSFile(str(file)) as source:
        footer = bytearray(_footer_of(source))
        _seal_footer(footer)
        _fill(footer, _SEAL, _hash(source, footer))
    with file.open("r+b") as target:
        target.seek(-len(footer), os.SEEK_END)
        target.write(footer)


def _write(
    sink: pa.NativeFile,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    about: Mapping[str, Any],
    statistics: Sequence[str],
) -> None:
    """Write a Parquet file with blanks in the place of its seals."""
    described = any(field.metadata for field in schema)
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        write_page_checksum=True,
        write_statistics=list(statistics),
        store_schema=described,
    ) as writer:
        for rows in groups:
            writer.write_table(rows)
        blank = _BLANK.decode()
        said = json.dumps({**about, "footer_seal": blank, "seal": blank}).encode()
        more = {} if described else schema.metadata or {}
        writer.add_key_value_metadata({**more, KEY: said})


def _seal_footer(footer: bytearray) -> None:
    _fill(footer, _FOOTER_SEAL, blake2b(footer, digest_size=32).hexdigest().encode())


@contextmanager
def opened(file: Path, *, whole: bool = False) -> Iterator[Opened]:
    """Open a file, and verify its footer or, if asked, all of its bytes.

    `SealError` tells that they are not those that were written.
    """
    with file.source() if isinstance(file, BucketPath) else pa.OSFile(str(file)) as source:
        footer = _footer_of(source)
        seal, footer_seal = _last(footer, _SEAL), _last(footer, _FOOTER_SEAL)
        if seal is None or footer_seal is None:
            raise SealError("has no seal of tonframes")
        blank = bytearray(footer)
        _fill(blank, _SEAL, _BLANK)
        if whole and _hash(source, blank) != seal:
            raise SealError("does not have the checksum that it was written with")
        _fill(blank, _FOOTER_SEAL, _BLANK)
        if blake2b(blank, digest_size=32).hexdigest().encode() != footer_seal:
            raise SealError("does not have the footer that it was written with")
        # Parsing the whole footer would take 20 times as long.
        start = footer.rfind(_FIRST)
        said = footer[start : footer.index(b"}\x00", start) + 1] if start >= 0 else b"{}"
        yield Opened(source, json.JSONDecoder().raw_decode(said.decode())[0])


def _footer_of(source: pa.NativeFile) -> bytes:
    """Return the footer of a file, with its length and the mark of the end."""
    size = source.size()
    end: bytes = source.read_at(min(size, _TAIL), max(0, size - _TAIL))
    length = int.from_bytes(end[-_END:][:4], "little") + _END
    if end[-4:] != _MAGIC or length + len(_MAGIC) > size:
        raise SealError("is no Parquet file, or only a part of one")
    footer: bytes = end[-length:] if length <= len(end) else source.read_at(length, size - length)
    return footer


def _hash(source: pa.NativeFile, footer: bytearray) -> bytes:
    """Hash a file, with another footer of the same length instead of its own."""
    hashed = blake2b(digest_size=32)
    stop = source.size() - len(footer)
    for start in range(0, stop, _SLICE):
        piece = source.read_at(min(_SLICE, stop - start), start)
        if len(piece) < min(_SLICE, stop - start):
            raise SealError("was cut while it was read")
        hashed.update(piece)
    hashed.update(footer)
    return hashed.hexdigest().encode()


def _last(footer: bytes, name: bytes) -> bytes | None:
    """Return a seal; what comes before the last one may be chain data, in the statistics."""
    start = footer.rfind(name)
    found = _DIGITS.match(footer, start + len(name)) if start >= 0 else None
    return found[0] if found else None


def _fill(footer: bytearray, name: bytes, seal: bytes) -> None:
    start = footer.rfind(name) + len(name)
    footer[start : start + len(seal)] = seal
