"""The classes that `schema` declares records and tables with, and what follows from them.

A `Record` declares the members of an object of the API: `Field` (a value), `Part` (an object inside
it), `Rows` (objects that are rows of another table), `Entries` (a map whose entries are rows of
another table), `Loose` (an object of free form, kept as JSON text) and `Derived` (a column that is
computed from another one). A `Table` has the columns of a record, and a few of its own.

From these follow the flat columns (`Record.columns`), the msgspec types that read strictly
(`Record.struct`) and that write (`Record.writers`), the Arrow schema with units and meanings
(`Table.schema`) and the pandas dtypes. `codec` turns structs into columns and back. No key of the
API is mentioned here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tonframes.wire.dtypes import dtype_of
from tonframes.wire.extra import pointer_to
from tonframes.wire.kinds import BOOL, OBJECT, TIME, Dialect, Json, Kind, Older

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Path = tuple[str, ...]

#: Columns of addresses by which rows may be sorted.
_ADDRESSES = ("account", "address")


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A value of the API. `column` is "" where the column has the name of the key.

    `since` and `rule` are those of its column. Deployed services send `null` members as null where
    there is no value, and leave out the others. `older` is how it was spelled before.
    """

    key: str
    kind: Kind
    unit: str
    meaning: str
    column: str = ""
    always: bool = False
    since: int = 1
    rule: Any = None
    null: bool = False
    older: Older | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An object inside a record; `columns` is the pattern of its columns' names.

    `has` is the column that says whether the object was there; "" where it always is.
    """

    key: str
    record: Record
    meaning: str
    has: str = ""
    columns: str = "{}"
    since: int = 1
    null: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A list of objects, or a single one, that are rows of another table.

    The strict reading leaves rows that are `raw` for another pass, which takes a few at a time.
    """

    key: str
    record: Record
    meaning: str
    single: bool = False
    raw: bool = False
    null: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """A map from text to objects, each of which is a row of another table."""

    key: str
    record: Record
    meaning: str


@dataclass(frozen=True, slots=True, eq=False)
class Loose:
    """An object of free form, kept as text in `column`.

    Fields of `record` that name a column are repeated in that column. If two fields name the same
    column, the first that has a value counts.
    """

    key: str
    record: Record
    meaning: str
    column: str
    since: int = 1
    null: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """The unix seconds of column `of` as a moment. The API does not send it."""

    column: str
    of: str
    meaning: str
    since: int = 1


Wired = Field | Part | Rows | Entries | Loose
Member = Wired | Derived


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One flat column.

    `path` is its place in the API's object, `of` the column that it is computed from, `since` the
    first version of the schema that has it. `rule` is its value in older files, where it is null
    otherwise: a column that is never null and came later must have one.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    path: Path = ()
    always: bool = False
    of: str = ""
    since: int = 1
    rule: Any = None

    @property
    def dtype(self) -> str:
        """The pandas dtype, which never depends on the rows."""
        name = str(dtype_of(self.kind.arrow) or "datetime64[us, UTC]")
        return {"Int64": "int64", "boolean": "bool"}.get(name, name) if self.always else name


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
        """The members that the API sends."""
        return tuple(member for member in self.members if not isinstance(member, Derived))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The flat columns, in the order of declaration."""
        return tuple(_columns(self, "{}", (), always=True, since=1))

    @cached_property
    def computed(self) -> tuple[Loose | Derived, ...]:
        """The members that columns are computed from, those of the record's parts included."""
        found: list[Loose | Derived] = []
        for member in self.members:
            if isinstance(member, Part):
                found += member.record.computed
            elif isinstance(member, Loose | Derived):
                found.append(member)
        return tuple(found)

    @cached_property
    def older(self) -> dict[str, str]:
        """The pointers of fields, by the pointers of their older spellings."""
        return {
            pointer_to((*path, f.older.key)): pointer_to((*path, f.key))
            for path, f in _fields(self, ())
            if f.older
        }

    @cached_property
    def struct(self) -> type[msgspec.Struct]:
        """The msgspec type that reads the object: no other keys; null and absent are the same."""
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
    def writers(self) -> dict[Dialect, type[msgspec.Struct]]:
        """The msgspec types that write the object, by dialect: what is None is null, or absent."""
        names = {attribute(member.key): member for member in self.wired}

        def writer(dialect: Dialect) -> type[msgspec.Struct]:
            return msgspec.defstruct(
                self.name,
                [
                    (name, Any)
                    if dialect == "service" and getattr(member, "null", False)
                    else (name, Any, None)
                    for name, member in names.items()
                ],
                rename={name: member.key for name, member in names.items()},
                kw_only=True,
                omit_defaults=True,
                frozen=True,
                eq=False,
                gc=False,
            )

        return {"service": writer("service"), "specification": writer("specification")}


def _fields(record: Record, path: Path) -> Iterator[tuple[Path, Field]]:
    """List the fields of a record and of its parts, with the paths of their objects."""
    for member in record.members:
        if isinstance(member, Field):
            yield path, member
        elif isinstance(member, Part):
            yield from _fields(member.record, (*path, member.key))


def attribute(key: str) -> str:
    """Return the name of the struct's attribute for a key."""
    return key.replace("@", "at_")


def _wire(member: Wired) -> tuple[Any, ...]:
    """Return type and default of a struct's field; the type alone if it must be there."""
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
        case Rows(raw=True):
            return list[msgspec.Raw] | None, None
        case Rows(record=record):
            return list[record.struct] | None, None  # type: ignore[name-defined]
        case Entries():
            return dict[str, msgspec.Raw] | None, None


def _columns(
    record: Record, pattern: str, path: Path, *, always: bool, since: int
) -> Iterator[Column]:
    for member in record.members:
        if isinstance(member, Rows | Entries):
            continue
        first = max(since, member.since)
        match member:
            case Field(key, kind, unit, meaning, column):
                name, here = pattern.format(column or key), always and member.always
                inner = (*path, key)
                yield Column(name, kind, unit, meaning, inner, here, since=first, rule=member.rule)
            case Part(key, part, _, has, columns):
                if has:
                    says = f"Whether there is a `{key}`."
                    inner = (*path, key)
                    yield Column(has, BOOL, "", says, inner, True, since=first, rule=False)
                names = pattern.format(columns) if "{}" in columns else columns
                there = always and not has
                yield from _columns(part, names, (*path, key), always=there, since=first)
            case Loose(key, inside, meaning, column):
                yield Column(column, OBJECT, "", meaning, (*path, key), since=first)
                repeated = {f.column: f for f in reversed(inside.members) if isinstance(f, Field)}
                for f in reversed(repeated.values()):
                    if f.column:
                        inner, later = (*path, key, f.key), max(first, f.since)
                        of = column
                        yield Column(f.column, f.kind, f.unit, f.meaning, inner, of=of, since=later)
            case Derived(column, of, meaning):
                yield Column(column, TIME, "", meaning, of=of, since=first)


@dataclass(frozen=True, eq=False)
class Table:
    """A table: the columns of a record, with a few more before and after them.

    Each of `keys` identifies a row. `order` sorts rows, unless they keep the order of an answer.
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
        """The Arrow schema, with units, meanings, API paths, and pandas dtypes as metadata."""
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

    def select(self, names: Sequence[str]) -> pa.Schema:
        """Return the Arrow schema of some columns, in this order."""
        return _select(self, tuple(names))

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The schema of the files of a store: without units, meanings and API paths."""
        return pa.schema([field.remove_metadata() for field in self.schema], self.schema.metadata)

    @cached_property
    def pruning(self) -> list[str]:
        """The columns whose least and greatest values say whether rows of a file are wanted.

        Those of random hashes and of other texts never do, and take a tenth to a half of a footer.
        """
        return [c.name for c in self.columns if c.dtype != "str" or c.name in _ADDRESSES]

    @property
    def _pandas(self) -> dict[str, object]:
        """The pandas metadata, from which pandas and pyarrow read dtypes.

        It lists the columns that would get another dtype without it: integers and booleans with
        nulls.
        """
        return {
            "index_columns": [],
            "column_indexes": [],
            "columns": [
                {
                    "name": column.name,
                    "field_name": column.name,
                    "pandas_type": str(column.kind.arrow),
                    "numpy_type": column.dtype,
                    "metadata": None,
                }
                for column in self.columns
                if column.dtype in ("Int64", "boolean")
            ],
            "pandas_version": "3.0.0",
        }


@lru_cache(1024)  # reading a small file asks for it twice, and making it takes a tenth of the time
def _select(table: Table, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in names], table.schema.metadata)


def api_path(column: Column) -> str:
    """Return where a column is in the API's object; "" if it is added or derived."""
    return "" if column.of or not column.path else ".".join(column.path)
