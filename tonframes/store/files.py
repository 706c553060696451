"""One file of a store: written whole or not at all, read with its checksums.

Two checksums guard a file. Each page has its own, and every read verifies those of the pages that
it needs: without them nearly half of all single flipped bits read back as wrong numbers, without
an error. The footer has a seal, which is a hash of all bytes of the file with the seal itself as
zeros. Checking it takes a tenth of the time of decoding.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tonframes.atomic import replacing, temporary
from tonframes.errors import StoreError, shorten
from tonframes.wire import schema, versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from tonframes.wire.record import Table

#: The folders of one commit of histories, in the order in which they are written. A transaction
#: may be in `transactions` too, and in each of the two folders only once.
HISTORY_FOLDERS = ("account_messages", "histories", "account_transactions")
#: All folders with tables.
FOLDERS = (*schema.TABLES, *HISTORY_FOLDERS)

_KEY = b"tonframes"
_UNSEALED = "0" * 64
_SEAL = re.compile(rb'"seal": "([0-9a-f]{64})"')
#: Bytes that are read and hashed at once.
_SLICE = 2**20
#: A Parquet file ends with the length of its metadata and this.
_MAGIC, _END = b"PAR1", 8


def table_of(folder: str) -> Table:
    """Return the table whose rows are in the files of a folder."""
    name = folder.removeprefix("account_")
    return schema.HISTORIES if name == schema.HISTORIES.name else schema.TABLES[name]


class Damaged(StoreError):  # noqa: N818 - a state of a file; only the store handles it apart from other errors
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
    """What a file says of itself, as JSON in the Parquet metadata key `tonframes`.

    `schema` is the version of the columns in the file, `tonframes` the version of the package that
    wrote it. `rows` and `digest` are of the rows as they are in the file, in these columns: both
    can be checked without any other version of the schema.
    """

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
    #: The tables that were written for these seqnos; in the transactions file only.
    tables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file and what must be in it: rows of a table, of a network, of masterchain seqnos."""

    path: Path
    table: Table
    network: str | None
    run: range | None

    def beside(self, folder: str) -> HeldFile:
        """Return the file of another folder that was written together with this one."""
        path = self.path.parent.parent / folder / self.path.name
        return HeldFile(path, table_of(folder), self.network, self.run)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of the present schema; the pages that they need are verified."""
        with reading(self.path), self._open() as parquet:
            footer = self._checked(parquet)
            needed = versions.needed(self.table, footer.schema, columns)
            rows = parquet.read(needed)
        self._check_columns(rows.schema, needed)
        if len(rows) != footer.rows:
            raise Damaged(self.path, f"has {len(rows)} rows of {footer.rows}")
        return versions.upgrade(self.table, rows, footer.schema, columns)

    def footer(self) -> Footer:
        """Read what the file says of itself."""
        with reading(self.path), self._open() as parquet:
            return self._checked(parquet)

    def times(self) -> tuple[Footer, tuple[datetime, ...]]:
        """Read the footer, and the first and the last `block_time` in the file's statistics."""
        with reading(self.path), self._open() as parquet:
            footer = self._checked(parquet)
            place = parquet.schema_arrow.get_field_index("block_time")
            metadata = parquet.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            found = [group.column(place).statistics for group in groups]
        ends = [(part.min, part.max) for part in found if part is not None and part.has_min_max]
        return footer, (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else ()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        with reading(self.path):
            return self.path.stat().st_size

    def check(self) -> Footer:
        """Read every byte, and raise `Damaged` unless they are those that were written."""
        with reading(self.path):
            sealed = _is_sealed(self.path)
            if sealed is False:
                raise Damaged(self.path, "does not have the checksum that it was written with")
            with self._open() as parquet:
                footer = self._checked(parquet)
                columns = versions.columns_of(self.table, footer.schema)
                self._check_columns(parquet.schema_arrow, [column.name for column in columns])
                rows = parquet.metadata.num_rows
        if rows != footer.rows:
            raise Damaged(self.path, f"has {rows} rows of {footer.rows}")
        if sealed is None:
            raise Damaged(self.path, "has no checksum")
        return footer

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path, page_checksum_verification=True)

    def _checked(self, parquet: pq.ParquetFile) -> Footer:
        said = _metadata(self.path, parquet)
        # Before all else: a later version may say the rest in another way.
        version = said.get("schema")
        if type(version) is not int or version < 1:
            raise Damaged(self.path, "does not say the version of its columns")
        refuse_newer(self.path, version)
        try:
            footer = Footer(**{f.name: said[f.name] for f in fields(Footer) if f.name in said})
            unknown = set(footer.tables).difference(FOLDERS)
        except TypeError:
            raise Damaged(self.path, "does not say what it holds") from None
        if unknown:
            raise Damaged(self.path, f"was written with tables unknown here ({unknown})")
        if footer.network != self.network:
            of = f"is of the network {shorten(footer.network)} in a store of {self.network}"
            raise Damaged(self.path, of)
        if self.run is not None and (footer.start, footer.stop) != (self.run.start, self.run.stop):
            holds = f"holds the seqnos {footer.start}:{footer.stop}, not those of its name"
            raise Damaged(self.path, holds)
        return footer

    def _check_columns(self, found: pa.Schema, names: Sequence[str]) -> None:
        if not found.equals(pa.schema([self.table.schema.field(name) for name in names])):
            raise Damaged(self.path, f"does not have the columns of {self.table.name}")


def refuse_newer(path: Path, version: int) -> None:
    """Raise `StoreError` if a file, or a whole store, is of a version that came later.

    It is not damaged: a newer tonframes reads it.
    """
    if version > schema.VERSION:
        raise StoreError(
            f"{path} has version {version} of the columns and this tonframes reads versions up to "
            f"{schema.VERSION}: use a newer tonframes",
            path=path,
        )


def _metadata(file: Path, parquet: pq.ParquetFile) -> dict[str, Any]:
    try:
        said = json.loads((parquet.metadata.metadata or {})[_KEY])
    except (KeyError, ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Damaged(file, "was not written by tonframes")
    return said


def write(file: Path, table: Table, rows: pa.Table, footer: Footer) -> None:
    """Write rows whole or not at all, sealed."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_page_checksum=True
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {_KEY: json.dumps(asdict(footer) | {"seal": _UNSEALED}).encode()}
        )
    content = bytearray(sink.getvalue())
    # The last one: chain data may quote a seal in the statistics, which come before the metadata.
    *_, blank = _SEAL.finditer(content)
    start, stop = blank.span(1)
    content[start:stop] = blake2b(content, digest_size=32).hexdigest().encode()
    replace(file, content)


def _is_sealed(file: Path) -> bool | None:
    """Return whether the seal is that of the file's bytes; None if the file has no seal."""
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
    """Write a file whole or not at all, and wait until it is on the disk."""
    try:
        with replacing(file) as sink:
            sink.write(content)
    except OSError as error:
        raise StoreError(
            f"cannot write {file} ({len(content):,} bytes): {error.strerror or error}; what was "
            "committed before is kept",
            path=file,
        ) from error


def probe(folder: Path, size: int) -> None:
    """Write as many bytes into a folder, wait until they are on the disk, and remove them."""
    trial = temporary(folder / "trial")
    with writing(folder):
        try:
            with trial.open("xb") as sink:
                sink.write(bytes(size))
                sink.flush()
                os.fsync(sink.fileno())
        finally:
            trial.unlink(missing_ok=True)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn failures to read a file into errors that name it.

    An error with a number comes from the system, and the file may be good. Parquet's own errors
    have no number.
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
