"""Bodies in the wire form, good and broken, drawn from the declaration in `schema`.

A drawn document is a *tree*: dicts and lists as JSON has them, values as Python has them, and `Raw`
for values with several spellings. `dump` writes a tree. `said` reads a document back, on its own
and without the code under test, into what it says: equal for two documents that differ only in what
`to_json` may change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from tonframes.wire import schema
from tonframes.wire.kinds import ARRAY, BOOL, DIGITS, INT, OBJECT, OPCODE, SHARD, TEXT
from tonframes.wire.record import Entries, Field, Loose, Part, Record, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Tree = Any


@dataclass(frozen=True)
class Raw:
    """JSON text, verbatim. A byte that is not UTF-8 is its surrogate: U+DCFF is 0xFF."""

    text: str


# ── writing and reading ──────────────────────────────────────────────────────────────────────────


def dump(tree: Tree, *, gap: str = "", ascii_only: bool = True) -> bytes:
    """Write a tree, `gap` wherever white space may stand."""

    def text(tree: Tree) -> str:
        match tree:
            case Raw(raw):
                return raw
            case dict():
                members = (
                    f"{json.dumps(key, ensure_ascii=ascii_only)}{gap}:{gap}{text(value)}{gap}"
                    for key, value in tree.items()
                )
                return "{" + gap + f",{gap}".join(members) + "}"
            case list():
                return "[" + gap + f"{gap},{gap}".join(map(text, tree)) + gap + "]"
            case _:
                return json.dumps(tree, ensure_ascii=ascii_only)

    return text(tree).encode("utf-8", "surrogateescape")


def said(record: Record, token: bytes) -> dict[str, Any]:
    """Read what an object says: its spelling is gone, but for free-form and unknown members."""
    says: dict[str, Any] = {}
    members = {member.key: member for member in record.wired}
    for key, raw in msgspec.json.decode(token, type=dict[str, msgspec.Raw]).items():
        inner, member = bytes(raw).strip(), members.get(key)
        if member is None:
            says[key] = inner
        elif inner != b"null":
            meant = _said(member, inner)
            if not (isinstance(member, Rows | Entries) and meant == _empty(member)):
                says[key] = meant
    return says


def _said(member: Any, inner: bytes) -> Any:
    match member:
        case Part() | Rows(single=True):
            return said(member.record, inner)
        case Rows():
            return [said(member.record, bytes(raw)) for raw in _elements(inner)]
        case Entries():
            entries = msgspec.json.decode(inner, type=dict[str, msgspec.Raw])
            return {key: bytes(raw).strip() for key, raw in entries.items()}
        case Field(kind=kind) if kind not in (OBJECT, ARRAY):
            return meaning(kind, json.loads(inner))
        case _:
            return inner


def _elements(token: bytes) -> list[msgspec.Raw]:
    return msgspec.json.decode(token, type=list[msgspec.Raw])


def _empty(member: Rows | Entries) -> Any:
    if isinstance(member, Rows):
        return None if member.single else []
    return {}


def meaning(kind: Any, value: Any) -> Any:
    """Return what a value of a kind means, the same for both dialects of shards and opcodes."""
    if kind is SHARD:
        decimal = value.startswith("-") or len(value) > 16
        return int(value, 10 if decimal else 16) % 2**64
    if kind is OPCODE:
        return (int(value, 16) if isinstance(value, str) else value) % 2**32
    return value


# ── values ───────────────────────────────────────────────────────────────────────────────────────

ABSENT = object()

#: JSON that stands where a reader has no business, in spellings that it may not change.
VERBATIM = [
    *("null", "true", "0", "-0", "1e5", "1E+5", "1.50", "1e-999", "1e999", str(2**248)),
    *('"\\u00e9"', '"é"', '"\\/"', '"\\ud83d\\ude00"', '" a "', '"\\u0000"', '"null"', '""'),
    *("{}", "[]", "{ }", '{"a" : [ 1 , 2.0]}', '{"a":1,"a":2}', '[[[[{"":null}]]]]'),
]
_INTEGERS = [0, 1, 7, -1, 1234567890123456789, 2**53 + 1, 2**63 - 1, -(2**63), 10**18, 1721063820]
_SHARDS = [1 << 63, 1 << 62, 3 << 62, 5 << 61, 1 << 54, 2**64 - 2**54, 0xA7C << 52]
_OPCODES = [0, 1, 0xD53276DB, 2**31, 2**32 - 1]

#: Values of each kind, rightly spelled; one draw each, because a transaction has 170 of them.
POOLS: dict[Any, list[Tree]] = {
    TEXT: ["", "a", "active", "ord", "0:00", "-1:AB", "/", "~1", "null", "\0", "\u2028", "é", "😀"],
    BOOL: [False, True],
    INT: _INTEGERS,
    DIGITS: [str(n) for n in _INTEGERS if n >= 0],
    # Of prefixes up to 9 bits both spellings tell themselves apart.
    SHARD: [
        *(f"{n:X}" for n in _SHARDS),
        *(f"{n:x}" for n in _SHARDS),
        *(f"{n:016X}" for n in _SHARDS),
        *(str(n) for n in _SHARDS),
        *(str(n - 2**64) for n in _SHARDS if n >= 2**63),
    ],
    OPCODE: [
        *(f"0x{n:08x}" for n in _OPCODES),
        *(f"0x{n:X}" for n in _OPCODES),
        *_OPCODES,
        *(-1, -(2**31)),
    ],
    OBJECT: [
        *({}, {"type": "text_comment", "comment": "hi"}, {"@type": "jetton_transfer", "type": "x"}),
        *map(Raw, ["{ }", '{"1" :"' + "9" * 75 + '"}', '{"a":1e5,"a":1.0}', '{"data":{"":[ ]}}']),
        *map(Raw, ['{"type":5,"comment":null}', '{"comment":"\\ud83d\\ude00 \\/"}']),
        *map(Raw, ['{"domain":[],"interfaces":[ "a"]}', '{"is_indexed":true,"token_info":[{}]}']),
        # What is not of the form it usually has, where nothing promises that form.
        *map(Raw, ['{"interfaces":"a","token_info":{}}', '{"interfaces":{},"is_indexed":"true"}']),
    ],
    ARRAY: [[], [1234567890123456789], ["a", None], *map(Raw, ["[ ]", "[1e5,\n1.0]", "[[[]]]"])],
}
#: Integers that an int64 column cannot hold.
OVERSIZES = {
    INT: [2**63, -(2**63) - 1, 2**64, 2**248],
    DIGITS: [str(n) for n in (2**63, 16298225961743024383, 2**64, 2**248)],
}

#: Any text and any integer, where the pools are not enough.
TEXTS = st.text(max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
OVERSIZE = st.integers(2**63, 2**248) | st.integers(-(2**248), -(2**63) - 1)
UNKNOWN_KEYS = st.sampled_from(
    ["", "/", "~", "~1", "~0/", "a/b", "a~b", "é", "\u2028", "😀", '"', "\\", "$.x", "at_type"]
) | st.text(max_size=3)
ANYTHING = st.recursive(
    st.sampled_from(VERBATIM).map(Raw) | TEXTS | INT64,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(UNKNOWN_KEYS, inner, max_size=2),
    max_leaves=4,
)
LAYOUTS = st.fixed_dictionaries(
    {"gap": st.sampled_from(["", " ", "\n\t"]), "ascii_only": st.booleans()}
)


def _verbatim(tree: Tree, layout: dict[str, Any]) -> Raw:
    return Raw(dump(tree, **layout).decode("utf-8", "surrogateescape"))


RICHER = {
    TEXT: TEXTS,
    INT: INT64 | OVERSIZE,
    DIGITS: st.integers(0, 2**248).map(str),
    OBJECT: st.builds(_verbatim, st.dictionaries(UNKNOWN_KEYS, ANYTHING, max_size=2), LAYOUTS),
    ARRAY: st.builds(_verbatim, st.lists(ANYTHING, max_size=2), LAYOUTS),
    OPCODE: st.integers(0, 2**32 - 1).map("0x{:08x}".format) | st.integers(-(2**31), 2**32 - 1),
}


# ── objects ──────────────────────────────────────────────────────────────────────────────────────


class _Choices:
    """Choices out of drawn bytes: a transaction makes 200, too many for a draw each."""

    def __init__(self, draw: st.DrawFn, count: int, *, odd: bool) -> None:
        self._octets = iter(draw(st.binary(min_size=count, max_size=count)))
        self.odd = odd

    def among(self, pool: list[Any]) -> Any:
        return pool[next(self._octets) % len(pool)]


@cache
def _count(record: Record) -> int:
    """Return how many choices an object takes at most."""
    inner = (m.record for m in record.wired if isinstance(m, Part))
    return 7 * len(record.wired) + sum(map(_count, inner))


@cache
def objects(record: Record, *, odd: bool) -> st.SearchStrategy[Tree]:
    """Draw an object of a record: every optional member at times absent, null or empty.

    An odd one holds integers beyond int64, and nothing where that cannot be.
    """
    count = _count(record)

    @st.composite
    def drawn(draw: st.DrawFn) -> Tree:
        return _filled(draw, record, _Choices(draw, count, odd=odd))

    return drawn()


def _filled(draw: st.DrawFn, record: Record, choices: _Choices) -> Tree:
    tree = {member.key: _value(draw, member, choices) for member in record.wired}
    for field in (m for m in record.wired if isinstance(m, Field) and m.older and choices.odd):
        # An older spelling in place of the present one, beside it, or with a value of no meaning.
        if choices.among(range(3)) == 2:
            tree[field.older.key] = choices.among(
                [*(field.older.values or ["no_gas"]), "odd", None]
            )
            tree[field.key] = choices.among([ABSENT, tree[field.key]])
    return {key: value for key, value in tree.items() if value is not ABSENT}


def _value(draw: st.DrawFn, member: Any, choices: _Choices) -> Tree:
    among, odd = choices.among, choices.odd
    if not is_needed(member) and not isinstance(member, Rows):
        presence = among([ABSENT, None, *[Ellipsis] * 4])
        if presence is not Ellipsis:
            return presence
    match member:
        case Field(kind=kind):
            oversize = odd and not member.always and kind in OVERSIZES and among(range(4)) == 3
            return among(OVERSIZES[kind] if oversize else POOLS[kind])
        case Part(record=record):
            # One that cannot be empty is nevertheless, at times, in documents of old services.
            if not is_needed(member) and among(range(4)) == 3 and (odd or not _is_full(record)):
                return {}
            return _filled(draw, record, choices)
        case Rows(record=record, single=True):
            choice = among([ABSENT, None, {} if odd else None, record, record, record])
            return draw(objects(record, odd=odd)) if choice is record else choice
        case Rows(record=record):
            count = among([1, 2, 3, 0, None, ABSENT])
            return _rows(draw, record, count, odd=odd) if isinstance(count, int) else count
        case Entries():
            count = among(range(4))
            return {among(POOLS[TEXT]): among([None, *POOLS[OBJECT]]) for _ in range(count)}
    return among(POOLS[OBJECT])


def _rows(draw: st.DrawFn, record: Record, count: int, *, odd: bool) -> Tree:
    rows = [draw(objects(record, odd=odd)) for _ in range(count)]
    for key in _keys(record):
        rows = list({tuple(row[name] for name in key): row for row in rows}.values())
    return rows


@cache
def _keys(record: Record) -> list[list[str]]:
    """Return what identifies rows, without shards, which have two spellings."""
    fields = {m.key: m for m in record.members if isinstance(m, Field)}
    return [
        [name for name in names if fields[name].kind is not SHARD]
        for table in schema.TABLES.values()
        for names in table.keys
        if table.record is record and set(names) <= fields.keys()
    ]


def is_needed(member: Any) -> bool:
    """Return whether a record needs a member."""
    match member:
        case Field(always=always):
            return always
        case Part(has=has):
            return not has
    return False


def _is_full(record: Record) -> bool:
    return any(map(is_needed, record.wired))


def _one_of(draw: st.DrawFn, choices: Iterable[Any]) -> Any:
    found = list(choices)
    return found[draw(st.integers(0, len(found) - 1))]


@cache
def trees(record: Record) -> st.SearchStrategy[Tree]:
    """Draw a whole document as a tree; one without any list of rows is an answer to nothing.

    Half of them hold what the strict path reads, and nothing else.
    """
    lists = {m.key for m in record.wired if isinstance(m, Rows)}

    @st.composite
    def drawn(draw: st.DrawFn) -> Tree:
        odd = draw(st.booleans())
        tree = draw(objects(record, odd=odd))
        if lists.isdisjoint(tree):
            tree[min(lists)] = []
        for _ in range(draw(st.integers(0, 3))):
            holder, member, _ = _one_of(draw, sites(record, tree))
            kind = OBJECT if isinstance(member, Loose) else getattr(member, "kind", None)
            if kind in RICHER and not is_needed(member):
                holder[member.key] = draw(RICHER[kind])
        for _ in range(draw(st.integers(0, 2)) if odd else 0):
            holder, known = _one_of(draw, [(tree, record), *inner(record, tree)])
            key = draw(UNKNOWN_KEYS)
            if key not in {member.key for member in known.wired}:
                holder[key] = draw(ANYTHING)
        return tree

    return drawn()


def documents(record: Record) -> st.SearchStrategy[bytes]:
    """Draw a whole document as bytes."""
    return st.builds(lambda tree, layout: dump(tree, **layout), trees(record), LAYOUTS)


def sites(record: Record, tree: Tree, path: str = "$") -> Iterator[tuple[Tree, Any, str]]:
    """Walk the members of a tree, those that must be there and are not included."""
    for member in record.wired:
        if member.key in tree or is_needed(member):
            yield tree, member, f"{path}.{member.key}"
    for part, known, here in _parts(record, tree, path):
        yield from sites(known, part, here)


def inner(record: Record, tree: Tree) -> Iterator[tuple[Tree, Record]]:
    """Walk the objects in a tree with their records."""
    for part, known, _ in _parts(record, tree, ""):
        yield part, known
        yield from inner(known, part)


def _parts(record: Record, tree: Tree, path: str) -> Iterator[tuple[Tree, Record, str]]:
    for member in record.wired:
        found, here = tree.get(member.key), f"{path}.{member.key}"
        if isinstance(found, dict) and found and isinstance(member, Part | Rows):
            yield found, member.record, here
        if isinstance(found, list) and isinstance(member, Rows):
            for i, row in enumerate(found):
                if isinstance(row, dict):
                    yield row, member.record, f"{here}[{i}]"


def least(record: Record) -> Tree:
    """Make the least object of a record: only what must be there."""
    return {
        m.key: POOLS[m.kind][0] if isinstance(m, Field) else least(m.record)
        for m in record.wired
        if is_needed(m)
    }


# ── broken documents ──────────────────────────────────────────────────────────────────────────────

_NO_OBJECT = ("[]", '""', '"{}"', "1", "1.5", "true")
_NO_NUMBER = ("1.0", "1e3", "true", "{}", "[]", "[1]", '"1"', '"null"')
WRONG = {
    TEXT: ("1", "1.5", "true", "{}", "[]", '["a"]', '"\udcff"', '"a\udcc3"'),
    BOOL: ("0", "1", '"true"', '"false"', '""', '"null"', "{}", "[]"),
    INT: (*_NO_NUMBER, '""'),
    DIGITS: (
        *('"1e3"', '"1.0"', '"007"', '"-0"', '"+7"', '"--7"', '"0x10"', '""', '"-"', '" 12"'),
        *('"12 "', '"1_0"', '"\uff11\uff12"', '"null"', '"NULL"', '"NaN"', '"true"'),
        *('"1\\n"', '"1\\u0000"', '"-1"', f'"{-(2**63)}"', f'"{-(2**63) - 1}"'),
        *("12", "0", "1.0", "1e3", "true", "{}", "[]", "99999999999999999999"),
    ),
    SHARD: (
        *('"0"', '"0000000000000000"', '""', '"-"', '"-0"', '"0x8000000000000000"', '"8000g"'),
        *('" 8000000000000000"', '"8000000000000000\\n"', '"-9223372036854775809"'),
        *('"18446744073709551616"', '"FFFFFFFFFFFFFFFFF"', '"null"', "8", "1.0", "true", "{}"),
    ),
    OPCODE: (
        *('""', '"0x"', '"1"', '"0x123456789"', '"0X10"', '"-0x1"', '"0x1g"', '" 0x1"'),
        *('"null"', '"text_comment"', "4294967296", "-2147483649", "1.0", "1e3", "true", "{}"),
    ),
    OBJECT: (*_NO_OBJECT, '{"a":"\udcff"}', '{"\udcff":1}'),
    ARRAY: ("{}", '""', '"[]"', "1", "true", '["\udcff"]'),
}
_WRONG_TREE = {Part: _NO_OBJECT, Loose: WRONG[OBJECT], Entries: _NO_OBJECT}


@dataclass(frozen=True)
class Broken:
    """A document with one wrong value, and the path where it stands."""

    document: bytes
    path: str
    found: str

    def __repr__(self) -> str:
        return f"Broken({self.path} is {self.found} in {self.document!r})"


def wrongs(member: Any) -> list[Any]:
    """List what must not stand at a member."""
    match member:
        case Field(kind=kind, always=True):
            oversize = {INT: [str(2**63)], DIGITS: [f'"{2**63}"']}
            return [ABSENT, "null", *oversize.get(kind, ()), *WRONG[kind]]
        case Field(kind=kind):
            return [*WRONG[kind]]
        case Part(has=""):
            return [ABSENT, "null", *_NO_OBJECT]
        case Rows(single=True):
            return [*_NO_OBJECT]
        case Rows():
            return ["{}", '""', '"[]"', "1", "true"]
    return [*_WRONG_TREE[type(member)]]


def broken(record: Record) -> st.SearchStrategy[Broken]:
    """Draw a good document and put one wrong value at one member of it."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Broken:
        tree = draw(trees(record))
        holder, member, path = _one_of(draw, sites(record, tree))
        # An object that loses its only member is an empty one, which is another case.
        wrong = draw(
            st.sampled_from([w for w in wrongs(member) if w is not ABSENT or len(holder) > 1])
        )
        if wrong is ABSENT:
            del holder[member.key]
            return Broken(dump(tree, **draw(LAYOUTS)), path, "nothing")
        holder[member.key] = Raw(wrong)
        return Broken(dump(tree, **draw(LAYOUTS)), path, wrong)

    return drawn()


def damaged(record: Record) -> st.SearchStrategy[bytes]:
    """Draw a good document and damage its bytes: cut, flip, cut out, put in, wrap."""

    @st.composite
    def drawn(draw: st.DrawFn) -> bytes:
        document = draw(documents(record))
        i = draw(st.integers(0, len(document) - 1))
        j = draw(st.integers(i, min(len(document), i + 9)))
        match draw(st.sampled_from(["cut", "flip", "out", "in", "twice", "wrap"])):
            case "cut":
                return document[:i]
            case "flip":
                flipped = bytes([document[i] ^ 1 << draw(st.integers(0, 7))])
                return document[:i] + flipped + document[i + 1 :]
            case "out":
                return document[:i] + document[j:]
            case "in":
                return document[:i] + draw(st.binary(min_size=1, max_size=3)) + document[i:]
            case "twice":
                return document[:j] + document[i:]
            case _:
                return b"[" + document + b"]"

    return drawn()


def shuffled(record: Record) -> st.SearchStrategy[bytes]:
    """Draw a good document and put anything at all at some of its members."""

    @st.composite
    def drawn(draw: st.DrawFn) -> bytes:
        tree = draw(trees(record))
        for _ in range(draw(st.integers(1, 3))):
            holder, member, _ = _one_of(draw, sites(record, tree))
            holder[member.key] = draw(ANYTHING)
        return dump(tree, **draw(LAYOUTS))

    return drawn()
