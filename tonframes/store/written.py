"""Folders that `Blocks.write` has written, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tonframes import sealed
from tonframes.errors import MissingError, StoreError
from tonframes.frames import Blocks
from tonframes.seqnos import intersection, spell, subtract
from tonframes.store.digest import within
from tonframes.store.files import Damaged, reading, refuse_newer
from tonframes.store.reader import chosen_of
from tonframes.wire import schema, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: The proofs of `Transactions`; those of `Blocks` have other names.
_OF_ACCOUNTS = ("account", "spans")


def is_written(folder: Path) -> bool:
    """Return whether `Blocks.write` may have written a folder."""
    return any((folder / f"{name}.parquet").is_file() for name in ("transactions", "blocks"))


def read_written(
    folder: Path, seqnos: tuple[range, ...] | None, columns: Sequence[str] | None, *, verify: bool
) -> Blocks:
    """Read a folder that `Blocks.write` has written.

    Parameters
    ----------
    verify
        Whether to verify all bytes of the files.

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
    if about.get("proof") in _OF_ACCOUNTS:
        raise StoreError(
            f"{folder} has transactions of accounts, not all those of its masterchain blocks: read "
            f'them with pandas.read_parquet("{folder / "transactions.parquet"}")',
            path=folder,
        )
    _check_together(folder, about, {name: said for name, (_, said) in found.items()})
    # A file that the last call did not write was left by an earlier one.
    written = about.get("tables", Blocks.names)
    tables = {name: rows for name, (rows, _) in found.items() if name in written}
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


def _read(file: Path, *, verify: bool) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read a table in the present version of the schema, and what its file says of itself."""
    try:
        with reading(file), sealed.opened(file, whole=verify) as opened:
            about = opened.about or {}  # files of older versions say nothing
            version = about.get("schema", schema.VERSION)
            refuse_newer(file, version)
            rows = opened.parquet().read()
    except Damaged as damaged:
        raise StoreError(f"{file} {damaged.reason}: write the blocks again", path=file) from None
    table = schema.TABLES[file.stem]
    found = [column.name for column in versions.columns_of(table, version)]
    expected = pa.schema([table.schema.field(name) for name in found])
    if not rows.schema.equals(expected):
        raise StoreError(
            f"{file} does not have the columns of {table.name}: Blocks.write did not write it, or "
            "only some columns of it",
            path=file,
        )
    return versions.upgrade(table, rows, version, table.schema.names), about


def _check_together(
    folder: Path, about: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise an error unless one call of `Blocks.write` has written the tables in a folder.

    `Accounts.write` may have replaced the address book since: an entry of it says the same,
    whichever call has written it.
    """
    for name in about.get("tables", ()):
        file = folder / f"{name}.parquet"
        if name not in found:
            raise StoreError(f"{file} is gone: write the blocks again", path=file)
        together = found[name].get("writing") == about.get("writing")
        if not together and "accounts" not in found[name].get("tables", ()):
            raise StoreError(
                f"{file} was not written together with the other files of its folder, because "
                "Blocks.write was interrupted: write the blocks again",
                path=file,
            )
