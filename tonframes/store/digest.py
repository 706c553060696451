"""What a table says, as a hash, and the rows of some masterchain seqnos."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence


def digest(rows: pa.Table) -> str:
    """Hash what a table says: the same for equal tables, however they are laid out in memory.

    Names, types, which values are null, and the values; not the metadata, nor what memory holds
    in the place of a null. Buffers are hashed as they are: making Python objects of a text column
    costs ten times as much.
    """
    # Without the processor's SHA instructions, BLAKE2 takes two thirds of the time of SHA-256.
    hashed = blake2b(digest_size=32)
    rows = rows.combine_chunks()  # a text column of 2 GB and more stays in several
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        hashed.update(f"{name}:{column.type}:{len(column)}:{column.null_count};".encode())
        if column.null_count:
            for chunk in column.chunks:
                hashed.update(chunk.is_valid().cast(pa.uint8()).to_numpy())
        text = pa.types.is_string(column.type)
        values = [_filled(chunk, text=text) for chunk in column.chunks]
        for chunk in values:
            hashed.update((pc.binary_length(chunk) if text else chunk).to_numpy())
        for chunk in values if text else ():
            hashed.update(_characters(chunk))
    return hashed.hexdigest()


def _filled(chunk: pa.Array, *, text: bool) -> pa.Array:
    """Give texts, or numbers for all else, without nulls."""
    if not text:
        chunk = chunk.cast(pa.uint8() if pa.types.is_boolean(chunk.type) else pa.int64())
    return chunk.fill_null("" if text else 0) if chunk.null_count else chunk


def _characters(texts: pa.StringArray) -> memoryview:
    """Give the bytes of texts without nulls, one after the other; a slice shares its buffers."""
    _, offsets, characters = texts.buffers()
    if not len(texts) or characters is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    first, last = ends[texts.offset], ends[texts.offset + len(texts)]
    return memoryview(characters)[first:last]


def within(rows: pa.Table, seqnos: Sequence[range]) -> pa.Table:
    """Keep the rows whose mc_block_seqno lies in one of the ranges."""
    column = rows["mc_block_seqno"]
    mask = pa.chunked_array([pa.repeat(pa.scalar(False), len(rows))])
    for run in seqnos:
        inside = pc.and_(pc.greater_equal(column, run.start), pc.less(column, run.stop))
        mask = pc.or_(mask, inside)
    return rows.filter(mask)
