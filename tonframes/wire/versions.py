"""Convert rows of older versions of the schema to the present version.

Versions only add columns. In older rows a column that came later has the value that `extra` kept
for it, else the value of its `rule`, else null; a column that is computed from others is computed.
A kept value that is not of the column's kind stays in `extra`. A column whose older spelling a
later version has learned is filled from `extra`, which keeps the spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import DecodeError
from tonframes.wire import codec, tolerant
from tonframes.wire.extra import dump, load, pointer_to
from tonframes.wire.record import Entries, Loose, Part, Record, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tonframes.wire.extra import Extra
    from tonframes.wire.older import Respelled
    from tonframes.wire.record import Column, Path, Table, Wired


def columns_of(table: Table, version: int) -> list[Column]:
    """List the columns of a table in a version of the schema."""
    return [column for column in table.columns if column.since <= version]


def needed(table: Table, version: int, names: Sequence[str]) -> list[str]:
    """List the columns of a version that `upgrade` must have to make columns of today."""
    if not _has_changed(table, version):
        return list(names)
    later = {column.name for column in table.columns if column.since > version} & set(names)
    if not later and not _learned(table, version, names):
        return list(names)
    sources = {column.of for column in table.record.columns if column.name in later}
    wanted = {*names, *sources, "extra"}
    return [column.name for column in columns_of(table, version) if column.name in wanted]


def upgrade(table: Table, rows: pa.Table, version: int, names: Sequence[str]) -> pa.Table:
    """Convert rows of an older version to the present one.

    Parameters
    ----------
    table
        The table of the rows.
    rows
        The columns that `needed` lists.
    version
        The version of the schema that the rows were written with.
    names
        Which columns of the present version to return, in this order.
    """
    found = dict(zip(rows.column_names, rows.columns, strict=True))
    # The metadata of the file may be shorter, and pandas takes its dtypes from there.
    if not _has_changed(table, version):
        return pa.Table.from_arrays([found[name] for name in names], schema=table.select(names))
    later = {column.name: column for column in table.columns if column.since > version}
    if later and "extra" in found:
        found |= _from_extra(table, version, found["extra"])
    for pointer, field in _learned(table, version, names).items():
        read = [field.found_in(load(extra), pointer) for extra in rows["extra"].to_pylist()]
        found[field.column] = pc.coalesce(found[field.column], field.kind.decode(read))
    found |= _computed(table, found, later.keys() & set(names))
    for name in later.keys() & set(names):
        values = found.get(name)
        if values is None:
            values = pa.nulls(len(rows), later[name].kind.arrow)
        rule = later[name].rule
        found[name] = values if rule is None else values.fill_null(rule)
    return pa.Table.from_arrays([found[name] for name in names], schema=table.select(names))


@cache
def _has_changed(table: Table, version: int) -> bool:
    """Return whether a later version has more columns, or reads older spellings."""
    later = any(column.since > version for column in table.columns)
    return later or bool(_learned(table, version, table.schema.names))


def _learned(table: Table, version: int, names: Iterable[str]) -> dict[str, Respelled]:
    """Return the older spellings that later versions read, if their columns are asked for."""
    return {
        pointer: field
        for pointer, field in table.record.older.items()
        if field.older.since > version and field.column in names
    }


@dataclass(frozen=True, eq=False)
class _Later:
    """A member that came later: the pointer of its object, and a record that has it alone."""

    parent: str
    pointer: str
    record: Record
    columns: list[Column]

    def take(self, extra: Extra) -> msgspec.Struct | None:
        """Take the member out of an extra; None if it is not there, or not as declared."""
        if self.pointer not in extra:
            return None
        reader = tolerant.TolerantReader()
        [member] = self.record.wired
        token = msgspec.json.encode({member.key: msgspec.Raw(extra[self.pointer])})
        try:
            struct = reader.row(self.record, token, "$")
        except DecodeError:
            return None
        del extra[self.pointer]
        for pointer, rest in reader.extras.get(id(struct), {}).items():
            extra[self.parent + pointer] = rest
        return struct


def _from_extra(table: Table, version: int, column: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Read the columns that `extra` has values of, and `extra` without these values."""
    extras = list(map(load, column.to_pylist()))
    found: dict[str, pa.Array] = {}
    for later in _later(table, version):
        structs = [later.take(extra) for extra in extras]
        number = count()
        places = [None if struct is None else next(number) for struct in structs]
        taken = codec.decode(later.record, [struct for struct in structs if struct is not None])
        for outer, inner in zip(later.columns, _of_the_wire(later.record), strict=True):
            found[outer.name] = taken[inner.name].take(pa.array(places, pa.int64()))
    return found | {"extra": pa.array(map(dump, extras), pa.string())}


@cache  # as the codec keeps what it has compiled for a record
def _later(table: Table, version: int) -> tuple[_Later, ...]:
    return tuple(
        _Later(
            parent=pointer_to(path),
            pointer=pointer_to((*path, member.key)),
            record=Record("Later", "What came later.", (member,)),
            columns=[
                column
                for column in _of_the_wire(table.record)
                if column.path[: len(path) + 1] == (*path, member.key)
            ],
        )
        for path, member in _members(table.record, version, ())
    )


def _members(record: Record, version: int, path: Path) -> Iterator[tuple[Path, Wired]]:
    """List the members that came after a version. Inner members of such objects are not listed."""
    for member in record.wired:
        if isinstance(member, Rows | Entries):
            continue
        if member.since > version:
            yield path, member
        elif isinstance(member, Part):
            yield from _members(member.record, version, (*path, member.key))


def _of_the_wire(record: Record) -> list[Column]:
    return [column for column in record.columns if not column.of]


def _computed(table: Table, found: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Compute columns from those that are there."""
    computed: dict[str, Any] = {}
    for member in table.record.computed:
        if isinstance(member, Loose):
            repeated = {c.name for c in table.record.columns if c.of == member.column} & names
            if repeated and member.column in found:
                texts = pa.chunked_array(found[member.column]).combine_chunks()
                columns = codec.repeated(member.record, texts)
                computed |= {name: columns[name] for name in repeated}
        elif member.column in names and member.of in found:
            computed[member.column] = codec.moments(found[member.of])
    return computed
