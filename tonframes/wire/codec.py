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

from tonframes.wire.kinds import BOOL, OBJECT, REFUSALS, TIME, Dialect, Json, Kind
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
    kinds, fill = _reader(record)
    lists: list[list[Any]] = [[] for _ in kinds]
    fill(rows, *lists)
    return Values(len(rows), [k.decode(values) for k, values in zip(kinds, lists, strict=True)])


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
    kinds, _ = _reader(record)
    for array, of_kind in zip(values.arrays, kinds.values(), strict=True):
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
    written, keys, build = _writer(record, dialect)
    values = [column.kind.encode(columns[column.name], dialect) for column in written]
    return build(*values, *(inner[key] for key in keys))


@cache
def _reader(record: Record) -> tuple[dict[Kind, list[Column]], Callable[..., None]]:
    """Return the columns whose values go to each kind's list, and a function that fills the lists.

    For each row it reads `v0 = row.part or b0`, where `b0` is a blank object, and at the end
    extends each list once: `texts += (row.account, v0.key, …)`.
    """
    columns: dict[Kind, list[Column]] = defaultdict(list)
    values: dict[Kind, list[str]] = defaultdict(list)
    by_path = {column.path: column for column in record.columns if not column.of}
    lines: list[str] = []
    blanks: dict[str, Any] = {}

    def visit(record: Record, name: str, path: Path) -> None:
        for member in record.wired:
            value, inner = f"{name}.{attribute(member.key)}", (*path, member.key)
            if isinstance(member, Part):
                part, blank = f"v{len(lines)}", f"b{len(lines)}"
                if member.has:
                    blanks[blank] = _blank(member.record)
                    columns[BOOL].append(by_path[inner])
                    values[BOOL].append(f"{part} is not {blank}")
                    value = f"{value} or {blank}"
                lines.append(f"        {part} = {value}")
                visit(member.record, part, inner)
            elif not isinstance(member, Rows | Entries):
                column = by_path[inner]
                columns[column.kind].append(column)
                values[column.kind].append(
                    f"bytes({value})" if isinstance(column.kind, Json) else value
                )

    visit(record, "row", ())
    names = ", ".join(f"{kind.name}s" for kind in columns)
    lines += [f"        {kind.name}s += ({', '.join(values[kind])},)" for kind in columns]
    return columns, _compile([f"def made(rows, {names}):", "    for row in rows:", *lines], blanks)


def _blank(record: Record) -> msgspec.Struct:
    """Return an object without values, for parts that are absent."""
    blank: dict[str, Any] = {}
    for member in record.wired:
        value: Any = None
        if isinstance(member, Part) and not member.has:
            value = _blank(member.record)
        elif isinstance(getattr(member, "kind", OBJECT), Json):
            value = Json.missing
        blank[attribute(member.key)] = value
    return record.struct(**blank)


@cache
def _writer(
    record: Record, dialect: Dialect
) -> tuple[list[Column], list[str], Callable[..., list[Any]]]:
    """Return the columns and the keys of `Rows` that a function takes, and the function."""
    columns: list[Column] = []
    inner_keys: list[str] = []
    by_path = {column.path: column for column in record.columns if not column.of}
    structs: dict[str, Any] = {}

    def value(path: Path) -> str:
        columns.append(by_path[path])
        return f"c{len(columns) - 1}"

    def construct(record: Record, path: Path) -> str:
        arguments = []
        for member in record.wired:
            inner = (*path, member.key)
            match member:
                case Rows(key):
                    inner_keys.append(key)
                    written = key
                case Part(has=""):
                    written = construct(member.record, inner)
                case Part():
                    has = value(inner)
                    written = f"{construct(member.record, inner)} if {has} else None"
                case _:
                    written = value(inner)
            arguments.append(f"{attribute(member.key)}={written}")
        name = f"S{len(structs)}"
        structs[name] = record.writers[dialect]
        return f"{name}({', '.join(arguments)})"

    row = construct(record, ())
    names = ", ".join([*(f"c{i}" for i in range(len(columns))), *inner_keys])
    lines = [f"def made({names}):", f"    return [{row} for {names}, in zip({names})]"]
    return columns, inner_keys, _compile(lines, structs)


def _compile(lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    exec("\n".join(lines), scope)  # noqa: S102 - the source comes from the declaration alone
    made: Callable[..., Any] = scope["made"]
    return made


@lru_cache(maxsize=32)
def _transposed(count: int, width: int) -> pa.Array:
    """Return the indices that bring values from row order into column order."""
    return pa.array(np.arange(count * width).reshape(count, width).T.ravel())


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
