"""Structs to columns and back: two functions for each record, generated from its declaration.

Their loops run once for each row, so the source of the loops is generated and compiled. `gather`
appends the values of each row to one flat list for each kind, and turns each list into one Arrow
array; `columns` takes the columns as slices of these arrays. So structs can be dropped after some
rows, while they are in the processor's cache. `encode` calls the constructors of the structs, in
one nested expression for each row.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.wire.kinds import PRESENCE, REFUSALS, TIME, Dialect, Json, Kind
from tonframes.wire.record import Entries, Field, Loose, Part, Rows, attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tonframes.wire.record import Column, Path, Record


#: Unix seconds of the first and the last second that Python's datetime can represent.
FIRST, LAST = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, slots=True)
class Values:
    """The values of some rows of a record: one Arrow array for each kind, row after row."""

    rows: int
    arrays: Sequence[pa.Array]


def gather(record: Record, rows: Sequence[msgspec.Struct]) -> Values:
    """Take the values of structs; raise one of `REFUSALS` if one is not as its kind declares."""
    reader = _reader(record)
    lists: list[list[Any]] = [[] for _ in reader.columns]
    reader.fill(rows, *lists)
    return Values(len(rows), [k.decode(v) for k, v in zip(reader.columns, lists, strict=True)])


def join(record: Record, batches: Sequence[Values]) -> Values:
    """Join the values of rows."""
    if len(batches) == 1:
        return batches[0]
    arrays = zip(*(batch.arrays for batch in batches or [gather(record, [])]), strict=True)
    return Values(sum(batch.rows for batch in batches), list(map(pa.concat_arrays, arrays)))


def columns(record: Record, values: Values) -> dict[str, pa.Array]:
    """Turn the values of rows into the record's columns."""
    by_name: dict[str, pa.Array] = {}
    count = values.rows
    for array, of_kind in zip(values.arrays, _reader(record).columns.values(), strict=True):
        # Arrow transposes the values faster than Python, which would touch every object.
        transposed = array.take(_transposed(count, len(of_kind)))
        for i, column in enumerate(of_kind):
            by_name[column.name] = transposed.slice(i * count, count)
    for member in record.computed:
        if isinstance(member, Loose):
            by_name |= repeated(member.record, by_name[member.column])
        else:
            by_name[member.column] = moments(by_name[member.of])
    return {column.name: by_name[column.name] for column in record.columns}


def decode(record: Record, rows: Sequence[msgspec.Struct]) -> dict[str, pa.Array]:
    """Turn structs into the record's columns; raise as `gather` does."""
    return columns(record, gather(record, rows))


def encode(
    record: Record,
    columns: Mapping[str, pa.Array],
    inner: Mapping[str, Sequence[Any]],
    dialect: Dialect,
) -> list[Any]:
    """Turn columns back into structs; `inner` has the values of each `Rows` member, by its key."""
    writer = _writer(record, dialect)
    values = [column.kind.encode(columns[column.name], dialect) for column in writer.columns]
    return writer.build(*values, *(inner[key] for key in writer.inner))


class _Reader:
    """The loop of `gather`: the columns whose values go to each kind's list, and the compiled code.

    For each row the code reads `v0 = row.part`, then for an optional part `v1 = v0.key` or
    `v1 = None`, and at the end extends each list once: `texts += (row.account, v1, …)`.
    """

    def __init__(self, record: Record) -> None:
        self.columns: dict[Kind, list[Column]] = defaultdict(list)
        self._values: dict[Kind, list[str]] = defaultdict(list)
        self._by_path = {column.path: column for column in record.columns if not column.of}
        self._variables: list[tuple[str, str]] = []
        lines = self._lines(record, "row", (), "        ")
        names = [f"{kind.name}s" for kind in self.columns]
        adds = (
            f"        {name} += ({', '.join(values)},)"
            for name, values in zip(names, self._values.values(), strict=True)
        )
        self.fill = _compile(
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
                if isinstance(self._by_path[inner].kind, Json):
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
            reads = self._lines(member.record, part, inner, f"{indent}    ", optional=True)
            blanks = [f"{indent}    {v} = {blank}" for v, blank in self._variables[before:]]
            lines += [f"{indent}if {part} is None:", *blanks, f"{indent}else:", *reads]
        return lines

    def _variable(self, blank: str) -> str:
        """Return a new variable, which is `blank` where its object is absent."""
        self._variables.append((f"v{len(self._variables)}", blank))
        return self._variables[-1][0]

    def _note(self, path: Path, value: str, kind: Kind | None = None) -> None:
        column = self._by_path[path]
        self.columns[kind or column.kind].append(column)
        self._values[kind or column.kind].append(value)


class _Writer:
    """The loop of `encode`: one nested constructor call for each row."""

    def __init__(self, record: Record, dialect: Dialect) -> None:
        self._dialect = dialect
        self.columns: list[Column] = []
        self.inner: list[str] = []
        self._scope: dict[str, Any] = {}
        self._by_path = {column.path: column for column in record.columns if not column.of}
        row = self._call(record, ())
        names = ", ".join([*(f"c{i}" for i in range(len(self.columns))), *self.inner])
        self.build: Callable[..., list[Any]] = _compile(
            [f"def made({names}):", f"    return [{row} for {names}, in zip({names})]"],
            self._scope,
        )

    def _call(self, record: Record, path: Path) -> str:
        """Return code that constructs an object, and note the columns that it takes."""
        arguments = []
        for member in record.wired:
            inner = (*path, member.key)
            match member:
                case Rows(key):
                    self.inner.append(key)
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
        self.columns.append(self._by_path[path])
        return f"c{len(self.columns) - 1}"


_reader = cache(_Reader)
_writer = cache(_Writer)


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
    objects = _loose_reader(record)(texts.fill_null("{}").cast(pa.binary()).to_pylist())
    values_of: dict[str, list[Any]] = {}
    kinds: dict[str, Kind] = {}
    for field in record.members:
        if not isinstance(field, Field) or not field.column:
            continue
        values = list(map(attrgetter(attribute(field.key)), objects))
        if isinstance(field.kind, Json):
            opening = field.kind.opening.encode()
            values = [v if v.startswith(opening) else b"" for v in map(bytes, values)]
        else:
            values = [v if type(v) is field.kind.wire else None for v in values]
        if before := values_of.get(field.column):
            values = [b if a is None else a for a, b in zip(before, values, strict=True)]
        values_of[field.column], kinds[field.column] = values, field.kind
    return {name: kinds[name].decode(values) for name, values in values_of.items()}


@cache
def _loose_reader(record: Record) -> Callable[[Sequence[bytes]], list[Any]]:
    """Return a function that reads the fields of loose objects that name a column."""
    fields = [f for f in record.members if isinstance(f, Field) and f.column]
    struct = msgspec.defstruct(
        f"{record.name}Known",
        [
            (attribute(f.key), msgspec.Raw if isinstance(f.kind, Json) else Any, f.kind.missing)
            for f in fields
        ],
        rename={attribute(f.key): f.key for f in fields},
        gc=False,
    )
    many = msgspec.json.Decoder(list[struct]).decode  # type: ignore[valid-type]
    one = msgspec.json.Decoder(struct).decode

    def attempt(token: bytes) -> Any:
        try:
            return one(token)
        except REFUSALS:
            return struct()

    def read(tokens: Sequence[bytes]) -> list[Any]:
        try:
            return many(b"[%b]" % b",".join(tokens))
        except REFUSALS:
            return list(map(attempt, tokens))

    return read
