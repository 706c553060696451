"""Folders that `Blocks.write` has written, read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tonframes.errors import MissingError, StoreError
from tonframes.frames import Blocks
from tonframes.seqnos import intersection, spell, subtract
from tonframes.store.digest import within
from tonframes.store.files import reading, refuse_newer
from tonframes.store.reader import chosen_of
from tonframes.tableset import WRITTEN
from tonframes.wire import schema, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def is_written(folder: Path) -> bool:
    """Return whether `Blocks.write` may have written a folder."""
    return any((folder / f"{name}.parquet").is_file() for name in ("transactions", "blocks"))


def read_written(
    folder: Path, seqnos: tuple[range, ...] | None, columns: Sequence[str] | None
) -> Blocks:
    """Read a folder that `Blocks.write` has written.

    Raises
    ------
    MissingError
        Some of `seqnos` are not there.
    StoreError
        A file cannot be read, or does not have the columns of its table.
    """
    about: dict[str, Any] = {}
    tables: dict[str, pa.Table] = {}
    for name in Blocks.names:
        file = folder / f"{name}.parquet"
        if file.is_file():
            with reading(file):
                tables[name] = pq.read_table(file)
            about = _about(tables[name])
            tables[name] = _present(file, tables[name], about)
    shown = about.get("seqnos")
    there = Blocks(tables).seqnos if shown is None else _ranges(shown)
    wanted = there if seqnos is None else seqnos
    if missing := subtract(wanted, there):
        raise MissingError(
            f"{folder} does not have the masterchain seqnos {spell(missing)}", missing=missing
        )
    for name in tables.keys() - {"address_book"}:
        if wanted != there:
            tables[name] = within(tables[name], wanted)
    if columns is not None:
        for name, rows in tables.items():
            tables[name] = rows.select(chosen_of(schema.TABLES[name], columns))
    return Blocks(
        tables,
        extra=about.get("extra"),
        source=str(folder),
        proof=about.get("proof"),
        seqnos=wanted,
        unproven=intersection(_ranges(about.get("unproven", ())), wanted),
    )


def _ranges(pairs: Iterable[Sequence[int]]) -> tuple[range, ...]:
    return tuple(range(start, stop) for start, stop in pairs)


def _about(rows: pa.Table) -> dict[str, Any]:
    """Return what the file says of itself; files of older versions say nothing."""
    said: dict[str, Any] = json.loads((rows.schema.metadata or {}).get(WRITTEN, b"{}"))
    return said


def _present(file: Path, rows: pa.Table, about: dict[str, Any]) -> pa.Table:
    """Bring rows up to the present version of the schema."""
    table = schema.TABLES[file.stem]
    version = about.get("schema", schema.VERSION)
    refuse_newer(file, version)
    names = table.schema.names
    found = [column.name for column in versions.columns_of(table, version)]
    expected = pa.schema([table.schema.field(name) for name in found])
    if not rows.schema.equals(expected):
        raise StoreError(
            f"{file} does not have the columns of {table.name}: Blocks.write did not write it, or "
            "only some columns of it",
            path=file,
        )
    return versions.upgrade(table, rows, version, names)
