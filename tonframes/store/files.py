"""One file of a store: written whole or not at all, read with its checksums.

Two checksums guard a file. Pages carry their own, and every read verifies those of the pages it
needs: without both, nearly half of all single bit flips read back as wrong numbers without an
error. The footer carries a seal over all bytes of the file, itself taken as zeros; to check it
takes a tenth of the time of decoding.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tonframes.errors import StoreError, shorten
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from tonframes.wire.record import Table

_KEY = b"tonframes"
_UNSEALED = "0" * 64
_SEAL = re.compile(rb'"seal": "([0-9a-f]{64})"')
#: Names that are used while a file is written: data sets ignore them, and they are ours alone.
TEMPORARY = re.compile(r"\..+\.[0-9]+\.[0-9a-f]{8}\.tmp")
#: Bytes that are read and hashed at once.
_SLICE = 2**20
#: A Parquet file ends with the length of its metadata and this.
_MAGIC, _END = b"PAR1", 8


class Damaged(StoreError):  # noqa: N818 - a state of a file, told apart within the store only
    """A file is not, or no longer, what was written under its name."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(
            f"{file} {reason}; fetching into the store again, with the network, sets aside what "
            "is damaged",
            path=file,
        )
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a file says of itself, as JSON in the Parquet metadata key `tonframes`."""

    schema: int
    tonframes: str
    network: str
    service: str | None
    rows: int
    digest: str
    seal: str = _UNSEALED
    start: int | None = None
    stop: int | None = None
    proof: str | None = None
    #: The tables that were committed for these seqnos; in the transactions file only.
    tables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A file and what must be in it: rows of a table, of a network, of masterchain seqnos."""

    file: Path
    table: Table
    network: str | None
    run: range | None

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns; their pages are verified."""
        with reading(self.file), self._open() as parquet:
            footer = self._checked(parquet)
            rows = parquet.read(list(columns))
        declared = pa.schema([self.table.schema.field(name) for name in columns])
        declared = declared.with_metadata(self.table.schema.metadata)
        self._check_columns(rows.schema, declared)
        if len(rows) != footer.rows:
            raise Damaged(self.file, f"has {len(rows)} rows of {footer.rows}")
        # The file's own metadata has no checksum, and pandas would take its dtypes from there.
        return pa.Table.from_arrays(rows.columns, schema=declared)

    def footer(self) -> Footer:
        """Read what the file says of itself."""
        with reading(self.file), self._open() as parquet:
            return self._checked(parquet)

    def times(self) -> tuple[Footer, tuple[datetime, ...]]:
        """Read the footer, and the first and the last `block_time` in the file's statistics."""
        with reading(self.file), self._open() as parquet:
            footer = self._checked(parquet)
            place = parquet.schema_arrow.get_field_index("block_time")
            metadata = parquet.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            found = [group.column(place).statistics for group in groups]
        ends = [(part.min, part.max) for part in found if part is not None and part.has_min_max]
        return footer, (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else ()

    def size(self) -> int:
        """Give the bytes of the file."""
        with reading(self.file):
            return self.file.stat().st_size

    def check(self) -> Footer:
        """Read every byte, and raise `Damaged` unless they are those that were written."""
        with reading(self.file):
            sealed = _is_sealed(self.file)
            if sealed is False:
                raise Damaged(self.file, "does not have the checksum that it was written with")
            with self._open() as parquet:
                footer = self._checked(parquet)
                self._check_columns(parquet.schema_arrow, self.table.schema)
                rows = parquet.metadata.num_rows
        if rows != footer.rows:
            raise Damaged(self.file, f"has {rows} rows of {footer.rows}")
        if sealed is None:
            raise Damaged(self.file, "has no checksum")
        return footer

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.file, page_checksum_verification=True)

    def _checked(self, parquet: pq.ParquetFile) -> Footer:
        about = _about(self.file, parquet)
        # Before all else: a later version may say the rest in another way.
        version = about.get("schema")
        if isinstance(version, int) and version != schema.VERSION:
            raise StoreError(
                f"{self.file} has version {version} of the columns and this tonframes reads "
                f"{schema.VERSION}: use tonframes {about.get('tonframes')}, or fetch it anew into "
                "another store",
                path=self.file,
            )
        try:
            footer = Footer(**{f.name: about[f.name] for f in fields(Footer) if f.name in about})
            unknown = set(footer.tables) - schema.TABLES.keys()
        except TypeError:
            raise Damaged(self.file, "does not say what it holds") from None
        if unknown:
            raise Damaged(self.file, f"was committed with tables unknown here ({unknown})")
        if footer.network != self.network:
            of = f"is of the network {shorten(footer.network)} in a store of {self.network}"
            raise Damaged(self.file, of)
        if self.run is not None and (footer.start, footer.stop) != (self.run.start, self.run.stop):
            holds = f"holds the seqnos {footer.start}:{footer.stop}, not those of its name"
            raise Damaged(self.file, holds)
        return footer

    def _check_columns(self, found: pa.Schema, declared: pa.Schema) -> None:
        if not found.equals(declared):
            raise Damaged(self.file, f"does not have the columns of {self.table.name}")


def _about(file: Path, parquet: pq.ParquetFile) -> dict[str, Any]:
    try:
        about = json.loads((parquet.metadata.metadata or {})[_KEY])
    except (KeyError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise Damaged(file, "was not written by tonframes")
    return about


def write(file: Path, table: Table, rows: pa.Table, footer: Footer) -> None:
    """Write rows whole or not at all, sealed."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_page_checksum=True
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({_KEY: json.dumps(asdict(footer)).encode()})
    content = bytearray(sink.getvalue())
    # The last one: chain data may quote a seal in the statistics, which come before the metadata.
    *_, blank = _SEAL.finditer(content)
    start, stop = blank.span(1)
    content[start:stop] = blake2b(content, digest_size=32).hexdigest().encode()
    replace(file, content)


def _is_sealed(file: Path) -> bool | None:
    """Say whether a file's bytes are those that its seal was made of; None if it has none."""
    with file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        source.seek(max(0, size - _END))
        end = source.read()
        start = size - _END - int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or start < len(_MAGIC):
            raise Damaged(file, "is no Parquet file, or only a part of one")
        source.seek(start)
        tail = bytearray(source.read())
        seals = list(_SEAL.finditer(tail))
        if not seals:
            return None
        seal = seals[-1].group(1).decode()
        first, last = seals[-1].span(1)
        tail[first:last] = _UNSEALED.encode()
        source.seek(0)
        hashed = blake2b(digest_size=32)
        while start > 0:
            part = source.read(min(start, _SLICE))
            if not part:
                raise Damaged(file, "was cut while it was read")
            hashed.update(part)
            start -= len(part)
    hashed.update(tail)
    return hashed.hexdigest() == seal


def replace(file: Path, content: bytes | bytearray) -> None:
    """Write a file whole or not at all, and see it on the disk before going on.

    The temporary name is new, so no link is followed; a link of the file's own name is replaced.
    """
    temporary = _temporary(file)
    try:
        try:
            with temporary.open("xb") as sink:
                sink.write(content)
                sink.flush()
                os.fsync(sink.fileno())
            temporary.replace(file)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync(file.parent)
    except OSError as error:
        raise StoreError(
            f"cannot write {file} ({len(content):,} bytes): {error.strerror or error}; what was "
            "committed before is kept",
            path=file,
        ) from error


def probe(folder: Path, size: int) -> None:
    """Write as many bytes into a folder, see them on the disk, and remove them."""
    trial = _temporary(folder / "trial")
    with writing(folder):
        try:
            with trial.open("xb") as sink:
                sink.write(bytes(size))
                sink.flush()
                os.fsync(sink.fileno())
        finally:
            trial.unlink(missing_ok=True)


def _temporary(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def sync(folder: Path) -> None:
    """Make a rename in a folder last; where folders cannot be opened, the system sees to it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn failures to read a file into errors that name it.

    An error with a number is the system's: the file may be good. Parquet's own have none.
    """
    try:
        yield
    except FileNotFoundError:
        raise Damaged(file, "is gone") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:
            raise StoreError(f"{file} cannot be read: {error}", path=file) from error
        raise Damaged(file, f"cannot be read ({shorten(str(error))})") from error


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn failures to write below a folder into errors that name it."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write to the store {folder}: {error.strerror or error}; what was committed "
            "before is kept",
            path=folder,
        ) from error
