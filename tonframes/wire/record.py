"""The mechanism: what a declaration in `schema` turns into.

A `Record` says what an object of the API holds, one member a row: `Field` (a value), `Part` (an
object inside it), `Rows` (objects that are rows of another table), `Entries` (a map whose entries
are rows of another table), `Loose` (an object of free form, kept as JSON text) and `Derived` (a
column computed from another). A `Table` is a record's columns and those that are added to them.

From that follow the flat columns (`Record.columns`), the strict wire type (`Record.struct`), the
Arrow schema with units and meanings (`Table.schema`) and the pandas dtypes. `codec` turns structs
into columns and back. Nothing here knows a key of the API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tonframes.wire.kinds import BOOL, OBJECT, REFUSALS, TIME, Json, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A value of the API. `column` is "" where the column is called like the key."""

    key: str
    kind: Kind
    unit: str
    meaning: str
    column: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An object inside a record; `columns` is the pattern of its columns' names.

    `has` is the column that tells whether the object was there; "" where it always is.
    """

    key: str
    record: Record
    meaning: str
    has: str = ""
    columns: str = "{}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A list of objects, or a single one, that are rows of another table."""

    key: str
    record: Record
    meaning: str
    single: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """A map from text to objects, each of which is a row of another table."""

    key: str
    record: Record
    meaning: str


@dataclass(frozen=True, slots=True, eq=False)
class Loose:
    """An object of free form, kept as text in `column`.

    Fields of `record` that name a column are repeated there; two fields may name the same one.
    """

    key: str
    record: Record
    meaning: str
    column: str


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """The unix seconds of column `of` as a moment; never on the wire."""

    column: str
    of: str
    meaning: str


Wired = Field | Part | Rows | Entries | Loose
Member = Wired | Derived


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One flat column. `path` is its place in the API's object, `of` the column it repeats."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    path: Path = ()
    always: bool = False
    of: str = ""

    @property
    def dtype(self) -> str:
        """The pandas dtype, which never depends on the rows."""
        match str(self.kind.arrow):
            case "int64":
                return "int64" if self.always else "Int64"
            case "bool":
                return "bool" if self.always else "boolean"
            case "uint64":
                return "UInt64"
            case "string":
                return "str"
            case "double":
                return "Float64"
            case _:
                return "datetime64[us, UTC]"


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """An object of the API: its name there, its meaning, and its members in order."""

    name: str
    meaning: str
    members: tuple[Member, ...]

    def __repr__(self) -> str:
        return f"<record {self.name}>"

    @cached_property
    def wired(self) -> tuple[Wired, ...]:
        """The members that stand on the wire."""
        return tuple(member for member in self.members if not isinstance(member, Derived))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The flat columns, in the order of declaration."""
        return tuple(_columns(self, "{}", (), always=True))

    @cached_property
    def computed(self) -> tuple[Loose | Derived, ...]:
        """The members, of the record's parts as well, that columns are computed from."""
        found: list[Loose | Derived] = []
        for member in self.members:
            if isinstance(member, Part):
                found += member.record.computed
            elif isinstance(member, Loose | Derived):
                found.append(member)
        return tuple(found)

    @cached_property
    def struct(self) -> type[msgspec.Struct]:
        """The msgspec type of exactly this object: every key known, null and absent alike."""
        return msgspec.defstruct(
            self.name,
            [(attribute(member.key), *_wire(member)) for member in self.wired],
            rename={attribute(member.key): member.key for member in self.wired},
            kw_only=True,
            forbid_unknown_fields=True,
            omit_defaults=True,
            frozen=True,
            eq=False,
            gc=False,
        )

    @cached_property
    def known(self) -> Callable[[Sequence[bytes]], list[Any]]:
        """Read only the fields that name a column; what is not of its kind there is null."""
        fields = [f for f in self.members if isinstance(f, Field) and f.column]
        strict, loose = (
            msgspec.defstruct(
                f"{self.name}Known",
                [(attribute(f.key), kind(f), f.kind.missing) for f in fields],
                rename={attribute(f.key): f.key for f in fields},
                gc=False,
            )
            for kind in (_known, _anything)
        )
        many = msgspec.json.Decoder(list[strict | None]).decode  # type: ignore[valid-type]
        one = msgspec.json.Decoder(loose | None).decode
        nothing = strict()

        def attempt(token: bytes) -> Any:
            try:
                found = one(token)
            except REFUSALS:
                return None
            for f in fields if found is not None else ():
                name = attribute(f.key)
                if type(getattr(found, name)) is not f.kind.wire:
                    setattr(found, name, f.kind.missing)
            return found

        def known(tokens: Sequence[bytes]) -> list[Any]:
            try:
                found = many(b"[" + b",".join([token or b"null" for token in tokens]) + b"]")
            except REFUSALS:
                found = list(map(attempt, tokens))
            return [nothing if row is None else row for row in found]

        return known


def _known(field: Field) -> Any:
    return field.kind.wire if isinstance(field.kind, Json) else field.kind.wire | None


def _anything(field: Field) -> Any:
    return field.kind.wire if isinstance(field.kind, Json) else Any


def attribute(key: str) -> str:
    """Name the struct's attribute of a key."""
    return key.replace("@", "at_")


def _wire(member: Wired) -> tuple[Any, ...]:
    """Type and default of a struct's field; a type alone where it must be there."""
    match member:
        case Field(kind=kind, always=True):
            return (kind.wire,)
        case Field(kind=Json()) | Loose():
            return Json.wire, Json.missing
        case Field(kind=kind):
            return kind.wire | None, None
        case Part(record=record, has=""):
            return (record.struct,)
        case Part(record=record) | Rows(record=record, single=True):
            return record.struct | None, None
        case Rows(record=record):
            return list[record.struct] | None, None  # type: ignore[name-defined]
        case Entries():
            return dict[str, msgspec.Raw] | None, None


def _columns(record: Record, pattern: str, path: Path, *, always: bool) -> Iterator[Column]:
    for member in record.members:
        match member:
            case Field(key, kind, unit, meaning, column):
                here = always and member.always
                yield Column(pattern.format(column or key), kind, unit, meaning, (*path, key), here)
            case Part(key, part, meaning, has, columns):
                if has:
                    yield Column(has, BOOL, "", f"Whether there is a `{key}`.", (*path, key), True)
                inner = pattern.format(columns) if "{}" in columns else columns
                yield from _columns(part, inner, (*path, key), always=always and not has)
            case Loose(key, inside, meaning, column):
                yield Column(column, OBJECT, "", meaning, (*path, key))
                repeated = {f.column: f for f in reversed(inside.members) if isinstance(f, Field)}
                for f in reversed(repeated.values()):
                    if f.column:
                        where = (*path, key, f.key)
                        yield Column(f.column, f.kind, f.unit, f.meaning, where, of=column)
            case Derived(column, of, meaning):
                yield Column(column, TIME, "", meaning, of=of)


@dataclass(frozen=True, eq=False)
class Table:
    """A table: a record's columns between those that are added before and after them.

    Each of `keys` tells its rows apart; `order` sorts them where a body's own order is not kept.
    """

    name: str
    record: Record
    keys: tuple[tuple[str, ...], ...]
    order: tuple[str, ...]
    before: tuple[Column, ...] = ()
    after: tuple[Column, ...] = field(default=(), kw_only=True)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in order."""
        return (*self.before, *self.record.columns, *self.after)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema: unit, meaning and API path in the fields, pandas dtypes beside."""
        fields = [
            pa.field(
                column.name,
                column.kind.arrow,
                nullable=not column.always,
                metadata={
                    "unit": column.unit,
                    "meaning": column.meaning,
                    "path": api_path(column),
                },
            )
            for column in self.columns
        ]
        return pa.schema(fields, metadata={"pandas": json.dumps(self._pandas)})

    @property
    def _pandas(self) -> dict[str, object]:
        """What pandas and pyarrow read dtypes from: the pandas metadata of a Parquet file."""
        types = {"string": "unicode", "timestamp[us, tz=UTC]": "datetimetz"}
        return {
            "index_columns": [],
            "column_indexes": [],
            "columns": [
                {
                    "name": column.name,
                    "field_name": column.name,
                    "pandas_type": types.get(str(column.kind.arrow), str(column.kind.arrow)),
                    "numpy_type": column.dtype.replace("[us, UTC]", "[us]"),
                    "metadata": {"timezone": "UTC"} if column.kind is TIME else None,
                }
                for column in self.columns
            ],
            "pandas_version": "3.0.0",
        }


def api_path(column: Column) -> str:
    """Say where a column stands in the API's object, "" for one that is added or derived."""
    return "" if column.of or not column.path else ".".join(column.path)
