"""Folders that `Blocks.write` has written, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonframes import sealed
from tonframes.errors import MissingError, StoreError
from tonframes.frames import Blocks
from tonframes.seqnos import intersection, spell, subtract
from tonframes.store.files import (
    Damaged,
    columns_of,
    reading,
    refuse_newer,
    with_later,
    within,
)
from tonframes.store.reader import chosen_of
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

#: The proofs of `Transactions`; those of `Blocks` have other names.
_OF_ACCOUNTS = ("account", "spans")


def is_written(folder: Path) -> bool:
    """Return whether `Blocks.write` may have written a folder."""
    return any((folder / f"{name}.parquet").is_file() for name in ("transactions", "blocks"))


def read_written(
    folder: Path, seqnos: tuple[range, ...] | None, columns: Sequence[str] | None, *, verify: bool
) -> Blocks:
    """Read a folder that `Blocks.write` has written.

    Raises
    ------
    MissingError
        Some of `seqnos` are not there.
    StoreError
        A file cannot be read, is damaged, does not have the columns of its table, or was not
        written together with the others. Or the folder has transactions of accounts.
    """
    files = {name: folder / f"{name}.parquet" for name in Blocks.names}
    found = {name: _read(f, verify=verify) for name, f in files.items() if f.is_file()}
    about = next(iter(found.values()))[1]
    if about["proof"] in _OF_ACCOUNTS:
        raise StoreError(
            f"{folder} has transactions of accounts, not all those of its masterchain blocks: read "
            f'them with pandas.read_parquet("{folder / "transactions.parquet"}")',
            path=folder,
        )
    tables = {}
    for name in about["tables"]:  # another file was left by an earlier call
        if name not in found:
            raise StoreError(f"{files[name]} is gone: write the blocks again", path=files[name])
        tables[name], said = found[name]
        # `Accounts.write` may have replaced the address book: an entry of it says the same.
        if said["writing"] != about["writing"] and "accounts" not in said["tables"]:
            raise StoreError(
                f"{files[name]} was not written together with the other files of its folder, "
                "because Blocks.write was interrupted: write the blocks again",
                path=files[name],
            )
    there = _ranges(about["seqnos"])
    wanted = there if seqnos is None else seqnos
    if missing := subtract(wanted, there):
        raise MissingError(
            f"{folder} does not have the masterchain seqnos {spell(missing)}", missing=missing
        )
    for name, rows in tables.items():
        if name != "address_book" and wanted != there:
            tables[name] = within(rows, wanted)
        if columns is not None:
            tables[name] = tables[name].select(chosen_of(schema.TABLES[name], columns))
    return Blocks(
        tables,
        extra=about["extra"],
        source=str(folder),
        proof=about["proof"],
        seqnos=wanted,
        unproven=intersection(_ranges(about["unproven"]), wanted),
    )


def _ranges(pairs: Iterable[Sequence[int]]) -> tuple[range, ...]:
    return tuple(range(start, stop) for start, stop in pairs)


def _read(file: Path, *, verify: bool) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read a table in the present version of the schema, and what its file says of itself."""
    try:
        with reading(file), sealed.opened(file, whole=verify) as opened:
            refuse_newer(file, opened.about["schema"])
            rows = opened.parquet().read()
    except Damaged as damaged:
        raise StoreError(f"{file} {damaged.reason}: write the blocks again", path=file) from None
    table = schema.TABLES[file.stem]
    names = table.schema.names
    if rows.column_names != columns_of(table, opened.about["schema"], names):
        raise StoreError(
            f"{file} does not have the columns of {table.name}: only some of them were written",
            path=file,
        )
    return with_later(table, rows, names), opened.about
