"""Structs to columns and back: two functions for each record, generated from its declaration.

Their loops run once for each row, so the source of the loops is generated and compiled. `gather`
appends the values of each row to one flat list for each kind, and turns each list into one Arrow
array. `columns` joins these arrays and takes the columns as slices of them. So structs can be
dropped after some rows, while they are in the processor's cache. `encode` calls the constructors of
the structs, in one nested expression for each row.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire.kinds import PRESENCE, TIME, Dialect, Json, Kind
from tonframes.wire.record import Entries, Field, Loose, Part, Rows, attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import msgspec

    from tonframes.wire.record import Column, Path, Record


#: Unix seconds of the first and the last second that Python's datetime can represent.
FIRST, LAST = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, slots=True)
class Values:
    """The values of some rows of a record: one Arrow array for each kind, row after row."""

    rows: int
    arrays: Sequence[pa.Array]


def gather(record: Record, rows: Sequence[msgspec.Struct]) -> Values:
    """Turn structs into arrays of their values.

    Raises
    ------
    pyarrow.ArrowInvalid, OverflowError, UnicodeDecodeError
        A value has the right JSON type but is not written as its kind declares (`REFUSALS`).
    """
    reader = _reader(record)
    values = zip(reader.lists, reader.values(rows), strict=True)
    return Values(len(rows), [kind.gather(of_kind) for kind, of_kind in values])


def join(record: Record, parts: Sequence[Values]) -> Values:
    """Join the values of rows."""
    if len(parts) == 1:
        return parts[0]
    arrays = zip(*(part.arrays for part in parts or [gather(record, [])]), strict=True)
    return Values(sum(part.rows for part in parts), list(map(pa.concat_arrays, arrays)))


def columns(record: Record, values: Values) -> dict[str, pa.Array]:
    """Turn the values of rows into the record's columns.

    Raises
    ------
    pyarrow.ArrowInvalid, OverflowError, UnicodeDecodeError
        A value has the right JSON type but is not written as its kind declares (`REFUSALS`).
    """
    found: dict[str, pa.Array] = {}
    count = values.rows
    lists = _reader(record).lists
    for (kind, of_kind), gathered in zip(lists.items(), values.arrays, strict=True):
        # Arrow transposes the values faster than Python, which would touch every object.
        array = kind.prove(gathered).take(_transposed(count, len(of_kind)))
        for i, column in enumerate(of_kind):
            found[column.name] = array.slice(i * count, count)
    for member in record.computed:
        if isinstance(member, Loose):
            found |= repeated(member.record, found[member.column])
        else:
            found[member.column] = moments(found[member.of])
    return {column.name: found[column.name] for column in record.columns}


def decode(record: Record, rows: Sequence[msgspec.Struct]) -> dict[str, pa.Array]:
    """Turn structs into the record's columns.

    Raises
    ------
    pyarrow.ArrowInvalid, OverflowError, UnicodeDecodeError
        As `gather` and `columns`.
    """
    return columns(record, gather(record, rows))


def encode(
    record: Record,
    columns: Mapping[str, pa.Array],
    rows: Mapping[str, Sequence[Any]],
    dialect: Dialect,
) -> list[Any]:
    """Turn columns back into structs.

    Parameters
    ----------
    record
        What the structs are.
    columns
        The record's columns by name, without derived ones.
    rows
        For each `Rows` member, by key, the value in each struct.
    dialect
        How shards, opcodes and what is null are written.
    """
    writer = _writer(record, dialect)
    values = [column.kind.encode(columns[column.name], dialect) for column in writer.columns]
    return writer.build(*values, *(rows[key] for key in writer.rows))


class _Reader:
    """The loop of `decode`: the list that each column's values go to, and the code that fills it.

    For each row the code reads `part = row.part`, then for an optional part `v0 = part.key` or
    `v0 = None`, and at the end extends each list once: `texts += (row.account, v0, …)`.
    """

    def __init__(self, record: Record) -> None:
        self.lists: dict[Kind, list[Column]] = defaultdict(list)
        self._values: dict[Kind, list[str]] = defaultdict(list)
        self._columns = {column.path: column for column in record.columns if not column.of}
        self._variables: list[tuple[str, str]] = []
        lines = self._lines(record, "row", (), "        ")
        names = [f"{kind.name}s" for kind in self.lists]
        adds = (
            f"        {name} += ({', '.join(values)},)"
            for name, values in zip(names, self._values.values(), strict=True)
        )
        self._fill = _compile(
            [f"def made(rows, {', '.join(names)}):", "    for row in rows:", *lines, *adds]
        )

    def _lines(
        self, record: Record, name: str, path: Path, indent: str, *, optional: bool = False
    ) -> list[str]:
        """Return code that reads the object `name`, and note the expressions of its columns."""
        lines: list[str] = []
        for member in record.wired:
            if isinstance(member, Rows | Entries):
                continue
            value, inner = f"{name}.{attribute(member.key)}", (*path, member.key)
            if not isinstance(member, Part):
                if isinstance(self._columns[inner].kind, Json):
                    value = f"bytes({value})"
                if optional:
                    blank = "b''" if value.startswith("bytes") else "None"
                    lines.append(f"{indent}{self._variable(blank)} = {value}")
                    value = self._variables[-1][0]
                self._note(inner, value)
                continue
            part = self._variable("None")
            lines.append(f"{indent}{part} = {value}")
            if not member.has:
                lines += self._lines(member.record, part, inner, indent, optional=optional)
                continue
            self._note(inner, f"{part} is not None", PRESENCE)
            before = len(self._variables)
            there = self._lines(member.record, part, inner, f"{indent}    ", optional=True)
            blanks = [f"{indent}    {v} = {blank}" for v, blank in self._variables[before:]]
            lines += [f"{indent}if {part} is None:", *blanks, f"{indent}else:", *there]
        return lines

    def _variable(self, blank: str) -> str:
        self._variables.append((f"v{len(self._variables)}", blank))
        return self._variables[-1][0]

    def _note(self, path: Path, value: str, kind: Kind | None = None) -> None:
        column = self._columns[path]
        self.lists[kind or column.kind].append(column)
        self._values[kind or column.kind].append(value)

    def values(self, rows: Sequence[msgspec.Struct]) -> list[list[Any]]:
        """Return the values of each kind in one list, row after row."""
        lists: list[list[Any]] = [[] for _ in self.lists]
        self._fill(rows, *lists)
        return lists


class _Writer:
    """The loop of `encode`: one nested constructor call for each row."""

    def __init__(self, record: Record, dialect: Dialect) -> None:
        self._dialect = dialect
        self.columns: list[Column] = []
        self.rows: list[str] = []
        self._scope: dict[str, Any] = {}
        self._columns = {column.path: column for column in record.columns if not column.of}
        row = self._call(record, ())
        names = [*(f"c{i}" for i in range(len(self.columns))), *self.rows]
        self.build: Callable[..., list[Any]] = _compile(
            [
                f"def made({', '.join(names)}):",
                f"    return [{row} for {', '.join(names)}, in zip({', '.join(names)})]",
            ],
            self._scope,
        )

    def _call(self, record: Record, path: Path) -> str:
        """Return code that constructs an object, and note the columns that it takes."""
        arguments = []
        for member in record.wired:
            inner = (*path, member.key)
            match member:
                case Rows(key):
                    self.rows.append(key)
                    value = key
                case Part(has=""):
                    value = self._call(member.record, inner)
                case Part():
                    has = self._note(inner)
                    value = f"{self._call(member.record, inner)} if {has} else None"
                case _:
                    value = self._note(inner)
            arguments.append(f"{attribute(member.key)}={value}")
        name = f"S{len(self._scope)}"
        self._scope[name] = record.writers[self._dialect]
        return f"{name}({', '.join(arguments)})"

    def _note(self, path: Path) -> str:
        self.columns.append(self._columns[path])
        return f"c{len(self.columns) - 1}"


@cache
def _reader(record: Record) -> _Reader:
    return _Reader(record)


@cache
def _writer(record: Record, dialect: Dialect) -> _Writer:
    return _Writer(record, dialect)


@lru_cache(maxsize=32)
def _transposed(count: int, width: int) -> pa.Array:
    """Return the indices that bring values from row order into column order."""
    return pa.array(np.arange(count * width).reshape(count, width).T.ravel())


def _compile(lines: list[str], scope: dict[str, Any] | None = None) -> Callable[..., Any]:
    scope = scope or {}
    exec("\n".join(lines), scope)  # noqa: S102 - the source comes from the declaration alone
    made: Callable[..., Any] = scope["made"]
    return made


def moments(seconds: pa.Array) -> pa.Array:
    """Turn unix seconds into moments; null outside the years 1 to 9999 of Python."""
    sane = pc.and_(pc.greater_equal(seconds, FIRST), pc.less_equal(seconds, LAST))
    return pc.multiply(pc.if_else(sane, seconds, None), 10**6).cast(TIME.arrow)


def repeated(record: Record, texts: pa.Array) -> dict[str, pa.Array]:
    """Return columns that repeat known fields of loose objects; wrong values are null."""
    rows = record.known(texts.drop_null().cast(pa.binary()).to_pylist())
    columns: dict[str, list[Any]] = {}
    kinds: dict[str, Kind] = {}
    for f in record.members:
        if isinstance(f, Field) and f.column:
            values = list(map(attrgetter(attribute(f.key)), rows))
            if isinstance(f.kind, Json):
                opening = f.kind.opening.encode()
                values = [v if v.startswith(opening) else b"" for v in map(bytes, values)]
            if f.column in columns:
                first = columns[f.column]
                values = [b if a is None else a for a, b in zip(first, values, strict=True)]
            columns[f.column], kinds[f.column] = values, f.kind
    found = {name: kinds[name].decode(values) for name, values in columns.items()}
    if not texts.null_count:
        return found
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return {name: column.take(places) for name, column in found.items()}
