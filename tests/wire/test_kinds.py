"""Both spellings of a value, and the way between them."""

import msgspec
import pyarrow as pa
import pytest
import strategies
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import OVERSIZES, POOLS, WRONG, dump

from tonframes.wire.kinds import (
    ARRAY,
    BOOL,
    DIGITS,
    INT,
    OBJECT,
    OPCODE,
    REFUSALS,
    SHARD,
    TEXT,
    TIME,
    Mismatch,
    Oversize,
)

KINDS = [TEXT, BOOL, INT, DIGITS, SHARD, OPCODE, OBJECT, ARRAY]
kinds = pytest.mark.parametrize("kind", KINDS, ids=repr)
dialects = pytest.mark.parametrize("dialect", ["service", "specification"])
REFUSED = object()


def plain(value):
    """Return free-form JSON as the bytes that the loops of `codec` make of it."""
    return bytes(value) if isinstance(value, msgspec.Raw) else value


def strictly(kind, token):
    try:
        return one(kind, msgspec.json.decode(token, type=kind.wire))
    except REFUSALS:
        return REFUSED


def tolerantly(kind, token):
    try:
        return one(kind, kind.read(token))
    except (Mismatch, *REFUSALS):
        return REFUSED


def one(kind, value):
    return kind.decode([plain(value)])[0].as_py()


@pytest.mark.parametrize(
    ("spelled", "number"),
    [
        ("8000000000000000", -(2**63)),
        ("800000000000000", 0x800000000000000),
        ("C000000000000000", 0xC << 60),
        ("4000000000000000", 2**62),
        ("a000000000000000", 0xA << 60),
        ("1", 1),
        ("0000000000000008", 8),
        ("FFFFFFFFFFFFFFFF", -1),
        ("-9223372036854775808", -(2**63)),
        ("-1", -1),
        ("4611686018427387904", 2**62),
        ("18014398509481984", 2**54),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", -(2**63)),
        ("18446744073709551615", -1),
        # Sixteen digits are hex, seventeen are not.
        ("1000000000000000", 0x1000000000000000),
        ("10000000000000000", 10**16),
    ],
)
def test_a_shard_is_hex_up_to_16_digits_and_decimal_beyond(spelled, number):
    signed = number - 2**64 if number >= 2**63 else number
    assert one(SHARD, spelled) == signed
    assert SHARD.read(dump(spelled)) == spelled


@pytest.mark.parametrize(
    ("number", "service", "specification"),
    [
        (-(2**63), "8000000000000000", "-9223372036854775808"),
        (0x0800000000000000, "800000000000000", "576460752303423488"),
        (-(2**62), "C000000000000000", "-4611686018427387904"),
    ],
)
def test_a_shard_is_written_in_unpadded_upper_hex_or_as_a_signed_decimal(
    number, service, specification
):
    column = pa.array([number, None], pa.int64())
    assert SHARD.encode(column, "service") == [service, None]
    assert SHARD.encode(column, "specification") == [specification, None]


@pytest.mark.parametrize("length", range(10))
@dialects
def test_a_shard_of_up_to_9_bits_comes_back_in_both_dialects(length, dialect):
    numbers = [(2 * i + 1 << 63 - length) for i in range(2**length)]
    column = pa.array([n - 2**64 if n >= 2**63 else n for n in numbers], pa.int64())
    assert SHARD.decode(SHARD.encode(column, dialect)).equals(column)


@given(st.integers(1, 2**64 - 1))
def test_any_shard_comes_back_in_the_services_dialect(unsigned):
    column = pa.array([unsigned - 2**64 if unsigned >= 2**63 else unsigned], pa.int64())
    assert SHARD.decode(SHARD.encode(column, "service")).equals(column)


@pytest.mark.parametrize(
    ("spelled", "number"),
    [
        ("0x00000000", 0),
        ("0xd53276db", 0xD53276DB),
        ("0xD53276DB", 0xD53276DB),
        ("0x1", 1),
        (0, 0),
        (-1, 0xFFFFFFFF),
        (-(2**31), 0x80000000),
        (2**32 - 1, 0xFFFFFFFF),
        (None, None),
    ],
)
def test_an_opcode_is_hex_text_or_a_signed_or_unsigned_int(spelled, number):
    assert one(OPCODE, spelled) == number


def test_an_opcode_is_written_as_8_hex_digits_or_as_an_unsigned_int():
    column = pa.array([0xF8A7EA5, None, 0xD53276DB], pa.int64())
    assert OPCODE.encode(column, "service") == ["0x0f8a7ea5", None, "0xd53276db"]
    assert OPCODE.encode(column, "specification") == [0xF8A7EA5, None, 0xD53276DB]


@kinds
@dialects
def test_decode_and_encode_are_inverse(kind, dialect):
    wire = [msgspec.json.decode(dump(value), type=kind.wire) for value in POOLS[kind]]
    column = kind.decode([*map(plain, wire), plain(kind.missing)])
    assert column.type == kind.arrow
    assert column.null_count == 1
    assert kind.decode(list(map(plain, kind.encode(column, dialect)))).equals(column)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [pytest.param(k, w, id=f"{k}-{w!a}") for k in KINDS for w in WRONG[k]],
)
def test_a_wrong_spelling_is_refused_on_both_paths(kind, wrong):
    token = wrong.encode("utf-8", "surrogateescape")
    assert strictly(kind, token) is REFUSED
    assert tolerantly(kind, token) is REFUSED


@kinds
def test_both_paths_read_the_same_of_every_right_spelling(kind):
    for value in POOLS[kind]:
        token = dump(value)
        assert strictly(kind, token) == tolerantly(kind, token) != REFUSED, token


@kinds
@given(data=st.data())
def test_both_paths_read_the_same_of_anything(kind, data):
    value = st.from_regex(r"[-+ ]?(0x)?[0-9a-fA-F_]{0,22}[ .e]?[0-9]?", fullmatch=True)
    token = dump(data.draw(value | strategies.ANYTHING))
    assume(token != b"null")  # which no kind is ever asked to read
    assert strictly(kind, token) == tolerantly(kind, token), token


@pytest.mark.parametrize("kind", [INT, DIGITS], ids=repr)
def test_an_integer_beyond_int64_is_refused_strictly_and_oversize_tolerantly(kind):
    for value in OVERSIZES[kind]:
        assert strictly(kind, dump(value)) is REFUSED
        with pytest.raises(Oversize):
            kind.read(dump(value))


@pytest.mark.parametrize("kind", [INT, DIGITS], ids=repr)
def test_int64_is_exact_to_its_ends_beside_nulls(kind):
    least = -(2**63) if kind is INT else 0
    numbers = [2**63 - 1, None, least, None, 1234567890123456789, 2**53 + 1]
    spelled = [n if n is None or kind is INT else str(n) for n in numbers]
    assert kind.decode(spelled).to_pylist() == numbers


@pytest.mark.parametrize("token", [b'{ "a" : [1e5,\n1.50] }', '{"é":"\\u00e9"}'.encode()])
def test_an_object_is_kept_byte_for_byte(token):
    assert one(OBJECT, token) == token.decode()
    assert bytes(OBJECT.encode(OBJECT.decode([token]), "service")[0]) == token


@pytest.mark.parametrize("kind", [OBJECT, ARRAY], ids=repr)
def test_null_and_absence_of_free_form_are_one(kind):
    assert kind.decode([b"", b"null"]).to_pylist() == [None, None]


@kinds
def test_a_column_of_nulls_or_of_nothing_has_its_type(kind):
    missing = b"" if kind in (OBJECT, ARRAY) else None
    assert kind.decode([]).type == kind.decode([missing]).type == kind.arrow


def test_a_moment_is_utc():
    assert pa.timestamp("us", tz="UTC") == TIME.arrow
