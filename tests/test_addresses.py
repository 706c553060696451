import base64

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytoniq_core import Address
from pytoniq_core.crypto.crc import crc16

from tonframes.addresses import to_friendly, to_raw

# TEP-2's own example.
RAW = "-1:E56754F83426F69B09267BD876AC97C44821345B7E266BD956A7BFBFB98DF35C"
BOUNCEABLE = "Ef_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXDvq"
NON_BOUNCEABLE = "Uf_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXGYv"
ZERO = "0:" + "0" * 64

flags = st.fixed_dictionaries({"bounceable": st.booleans(), "test_only": st.booleans()})
accounts = st.tuples(st.integers(-128, 127), st.binary(min_size=32, max_size=32))


@st.composite
def spellings(draw):
    """Draw the canonical raw form of an account and one of its spellings."""
    workchain, account = draw(accounts)
    raw = f"{workchain}:{account.hex().upper()}"
    spelling = draw(st.sampled_from(["raw", "lower", "mixed", "url", "plain"]))
    if spelling == "raw":
        return raw, raw
    if spelling == "lower":
        return raw, raw.lower()
    if spelling == "mixed":
        cases = draw(st.lists(st.booleans(), min_size=len(raw), max_size=len(raw)))
        return raw, "".join(c.lower() if low else c for c, low in zip(raw, cases, strict=True))
    wanted = draw(flags)
    return raw, Address((workchain, account)).to_str(
        is_url_safe=spelling == "url",
        is_bounceable=wanted["bounceable"],
        is_test_only=wanted["test_only"],
    )


def retagged(address, tag):
    """Change the tag of a user-friendly address and correct its checksum."""
    body = bytes([tag]) + base64.urlsafe_b64decode(address)[1:34]
    return base64.urlsafe_b64encode(body + crc16(body)).decode()


BAD = [
    ("", "0 characters"),
    (" ", "1 characters"),
    (f" {RAW}", "workchain ' -1'"),
    (f"{RAW} ", "65 characters after the colon"),
    (RAW[:-1], "63 characters after the colon"),
    (RAW + "0", "65 characters after the colon"),
    (RAW[:-1] + "G", "hex digits"),
    (RAW[:-1] + "\uff11", "hex digits"),  # a digit to str.isdigit
    (RAW[:-1] + "é", "hex digits"),
    (RAW[:-2] + " 0", "hex digits"),
    (ZERO[2:], "no colon and 64 characters"),
    ("0" + ZERO, "workchain '00'"),
    ("+" + ZERO, "workchain '+0'"),
    ("-" + ZERO, "workchain '-0'"),
    ("\0" + ZERO, "workchain"),
    ("\0\0\0" + ZERO, "workchain"),
    ("128" + ZERO[1:], "workchain '128' is not a decimal from -128 to 127"),
    ("-129" + ZERO[1:], "workchain '-129'"),
    ("9999" + ZERO[1:], "workchain '9999'"),
    ("256" + ZERO[1:], "workchain '256'"),
    ("::" + ZERO[2:], "workchain ''"),
    ("0;" + ZERO[2:], "no colon and 66 characters"),
    (":" * 66, "workchain ''"),
    (BOUNCEABLE[:-1], "47 characters"),
    (BOUNCEABLE + "=", "49 characters"),
    (BOUNCEABLE[:-1] + "=", "alphabets"),
    (BOUNCEABLE[:-1] + "\n", "alphabets"),
    (BOUNCEABLE[:-1] + "é", "alphabets"),
    (BOUNCEABLE[:-2] + "é", "47 characters"),  # 48 bytes
    (BOUNCEABLE[:-1] + "r", "checksum"),
    (BOUNCEABLE.swapcase(), "checksum"),
    (NON_BOUNCEABLE[:1] + BOUNCEABLE[1:], "checksum"),
    # Every bit is set, as in the table entry for an invalid pair.
    (to_friendly("0:" + "F" * 64)[:10] + "!!" + to_friendly("0:" + "F" * 64)[12:], "alphabets"),
    (retagged(BOUNCEABLE, 0x12), "tag is 0x12"),
    (retagged(BOUNCEABLE, 0x31), "tag is 0x31"),
    (retagged(BOUNCEABLE, 0x00), "tag is 0x00"),
    (retagged(BOUNCEABLE, 0xFF), "tag is 0xff"),
    ("A" * 48, "tag is 0x00"),  # its checksum is zero as well
    ("addr_none", "service prints this"),
    ("addr_extern", "service prints this"),
    ("addr_var", "service prints this"),
    (f"{BOUNCEABLE}\n", "strip the white space"),
    (ZERO[2:].lower(), "write the workchain before these hex digits, 0:"),
    (RAW.replace(":", "%3A"), "percent-encoded"),
    (f"ton://transfer/{BOUNCEABLE}", "extract the address"),
    ("foundation.ton", "it is a domain"),
    ("\ud800" * 48, "alphabets"),
    ("x" * 1000, "1000 characters"),
]

KINDS = {
    "list": list,
    "object": lambda values: np.array([*values, None], object)[:-1],
    "pandas str": lambda values: pd.Series(values, dtype="str"),
    "string[pyarrow]": lambda values: pd.Series(values, dtype="string[pyarrow]"),
    "string[python]": lambda values: pd.Series(values, dtype="string[python]"),
    "pandas object": lambda values: pd.Series(values, dtype=object),
    "category": lambda values: pd.Series(values, dtype="str").astype("category"),
    "arrow string": lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.string())),
    "arrow view": lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.string_view())),
    "polars": lambda values: pl.Series("account", values, pl.String),
    "polars category": lambda values: pl.Series("account", values, pl.Categorical),
    "Array": lambda values: pa.array(values, pa.string()),
    "Array large": lambda values: pa.array(values, pa.large_string()),
    "Array view": lambda values: pa.array(values, pa.string_view()),
    "dictionary": lambda values: pa.array(values, pa.string()).cast(
        pa.dictionary(pa.int8(), pa.string())
    ),
    "ChunkedArray": lambda values: pa.chunked_array(
        [values[:1], values[1:1], values[1:]], pa.string()
    ),
    "slice": lambda values: pa.array(["junk", None, *values, "junk"], pa.string())[2:-1],
}


def texts(column):
    """Return a column of any kind as a list, with None for nulls."""
    values = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column
    return [value if isinstance(value, str) else None for value in values]


def test_vectors_of_tep_2():
    assert to_raw(BOUNCEABLE) == to_raw(NON_BOUNCEABLE) == to_raw(RAW.lower()) == RAW
    assert to_friendly(RAW) == BOUNCEABLE
    assert to_friendly(RAW, bounceable=False) == NON_BOUNCEABLE
    assert to_friendly(NON_BOUNCEABLE) == BOUNCEABLE
    assert [
        to_friendly(ZERO, bounceable=bounceable, test_only=test_only)[0]
        for test_only in (False, True)
        for bounceable in (True, False)
    ] == ["E", "U", "k", "0"]


@given(spellings(), flags)
def test_one_address_agrees_with_the_oracle(pair, wanted):
    raw, spelling = pair
    assert to_raw(spelling) == raw
    friendly = to_friendly(spelling, **wanted)
    assert friendly == Address(raw).to_str(
        is_bounceable=wanted["bounceable"], is_test_only=wanted["test_only"]
    )
    assert to_raw(friendly) == raw


@given(st.lists(st.none() | spellings(), max_size=20), flags)
def test_a_column_agrees_with_its_rows(pairs, wanted):
    spelt = [pair and pair[1] for pair in pairs]
    raw = [pair and pair[0] for pair in pairs]
    friendly = [text and to_friendly(text, **wanted) for text in spelt]
    assert to_raw(spelt) == raw
    assert to_friendly(spelt, **wanted) == friendly
    assert to_raw(friendly) == raw


@pytest.mark.parametrize("length", [0, 1, 2, 3, 600])
def test_columns_of_any_length_come_back(length):
    random = np.random.default_rng(length)
    raw = [f"{n % 256 - 128}:{random.bytes(32).hex().upper()}" for n in range(length)]
    column = pa.array([None if n % 7 == 3 else text for n, text in enumerate(raw)], pa.string())
    assert to_raw(column).equals(column)
    friendly = to_friendly(column)
    friendly.validate(full=True)
    assert friendly.to_pylist() == [text and to_friendly(text) for text in column.to_pylist()]
    back = to_raw(friendly)
    back.validate(full=True)
    assert back.equals(column)


def test_every_workchain_and_every_hex_pair():
    raw = [f"{n}:{bytes([n % 256] * 32).hex()}" for n in range(-128, 128)]
    upper = [text.upper() for text in raw]
    assert to_raw(raw) == to_raw(to_friendly(raw)) == upper
    digits = "0123456789abcdefABCDEF"
    pairs = [f"0:{(a + b) * 32}" for a in digits for b in digits]
    assert to_raw(pairs) == [text.upper() for text in pairs]


@pytest.mark.parametrize("friendly", [BOUNCEABLE, NON_BOUNCEABLE, to_friendly(ZERO)])
def test_every_bit_flip_is_detected(friendly):
    """Check flips in the 36 bytes and in the 48 characters."""
    body = base64.urlsafe_b64decode(friendly)
    flipped = []
    for source, write in (
        (body, lambda data: base64.urlsafe_b64encode(data).decode()),
        (friendly.encode(), lambda data: data.decode("latin-1")),
    ):
        number = int.from_bytes(source, "big")
        flipped += [
            write((number ^ 1 << bit).to_bytes(len(source), "big"))
            for bit in range(8 * len(source))
        ]
    assert len(set(flipped)) > 36 * 8 + 48 * 4
    for text in flipped:
        for column in (text, [text]):
            with pytest.raises(ValueError, match="is not the address of an account"):
                to_raw(column)


@pytest.mark.parametrize(("text", "fault"), BAD)
@pytest.mark.parametrize("convert", [to_raw, to_friendly])
def test_invalid_addresses_are_refused_alone_and_in_a_column(convert, text, fault):
    with pytest.raises(ValueError, match="Use the raw form") as alone:
        convert(text)
    assert fault in str(alone.value)
    assert len(str(alone.value)) < 400
    with pytest.raises(ValueError, match=r"^position 2: ") as column:
        convert([None, RAW, text, BOUNCEABLE, "junk"])
    assert str(column.value) == f"position 2: {alone.value}"


@given(st.data())
def test_a_column_refuses_the_same_as_a_single_address(data):
    """Check valid addresses with characters replaced, dropped and added."""
    _, good = data.draw(spellings())
    at = data.draw(st.integers(0, len(good)))
    new = data.draw(st.text(st.characters(max_codepoint=0x17F), max_size=3))
    text = good[:at] + new + good[at + data.draw(st.integers(0, 2)) :]
    try:
        alone = to_raw(text)
    except ValueError as error:
        alone = f"position 0: {error}"
    try:
        [column] = to_raw([text])
    except ValueError as error:
        column = str(error)
    assert column == alone


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_kind_dtype_and_nulls_are_kept(make):
    values = [RAW.lower(), None, NON_BOUNCEABLE, ZERO, None]
    wanted = [RAW, None, RAW, ZERO, None]
    for convert, expected in (
        (to_raw, wanted),
        (to_friendly, [text and to_friendly(text) for text in wanted]),
    ):
        column, untouched = make(values), make(values)
        result = convert(column)
        assert type(result) is type(column)
        assert texts(result) == expected
        assert texts(column) == texts(untouched) == values
        if isinstance(column, pa.Array | pa.ChunkedArray):
            result.validate(full=True)
            assert result.type == column.type
        elif isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
            assert sorted(result.cat.categories) == sorted({*expected} - {None})
        elif not isinstance(column, list):
            assert result.dtype == column.dtype


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("values", [[], [None, None]], ids=["empty", "null"])
def test_empty_and_null_columns_keep_their_kind(make, values):
    column = make(values)
    for result in (to_raw(column), to_friendly(column)):
        assert type(result) is type(column)
        assert texts(result) == values
        if isinstance(column, pa.Array | pa.ChunkedArray):
            assert result.type == column.type
        elif not isinstance(column, list):
            assert result.dtype == column.dtype


def test_a_series_keeps_index_name_and_attrs():
    column = pd.Series([RAW, None], index=[7, 7], name="account", dtype="str")
    column.attrs["unit"] = ""
    result = to_friendly(column)
    assert result.index.equals(column.index)
    assert (result.name, result.attrs) == ("account", {"unit": ""})


def test_a_polars_series_keeps_its_name_and_errors_name_the_position():
    column = pl.Series("account", [RAW, None, NON_BOUNCEABLE])
    assert to_raw(column).equals(pl.Series("account", [RAW, None, RAW]), check_names=True)
    with pytest.raises(ValueError, match=r"^position 1: 'junk'"):
        to_friendly(pl.Series([RAW, "junk"]))
    assert to_raw(pl.Series([None, None])).to_list() == [None, None]


def test_nulls_in_objects_keep_their_kind():
    column = pd.Series([None, float("nan"), pd.NA, RAW], dtype=object)
    result = to_friendly(column)
    assert all(a is b for a, b in zip(result[:3], column[:3], strict=True))
    assert result[3] == BOUNCEABLE


def test_numpy_strings():
    fixed = np.array([RAW, ZERO])
    assert to_friendly(fixed).dtype == "U48"
    assert to_raw(to_friendly(fixed)).tolist() == [RAW, ZERO]
    assert to_raw(np.array([], "U48")).dtype.kind == "U"
    variable = np.array([RAW, ZERO], np.dtypes.StringDType())
    assert to_friendly(variable).dtype == variable.dtype
    assert to_raw(to_friendly(variable)).tolist() == [RAW, ZERO]
    alone = to_raw(np.str_(BOUNCEABLE))
    assert (alone, type(alone)) == (RAW, str)
    strided = np.array([RAW, "junk", ZERO, "junk"], object)[::2]
    assert to_raw(strided).tolist() == [RAW, ZERO]


def test_the_position_counts_through_chunks():
    chunk = pa.array([ZERO] * 20)
    bad = pa.array([ZERO, None, BOUNCEABLE.lower()])
    with pytest.raises(ValueError, match=r"^position 42: .*checksum"):
        to_raw(pa.chunked_array([chunk, chunk, bad]))
    with pytest.raises(ValueError, match=r"^position 22: "):
        to_raw(pd.Series(pa.concat_arrays([chunk, bad]).to_pylist(), dtype="str"))


def test_data_under_a_null_is_not_read():
    text = pa.array(["x" * 48, RAW])
    nulled = pa.StringArray.from_buffers(2, *text.buffers()[1:], pa.py_buffer(b"\x02"))
    assert nulled.to_pylist() == [None, RAW]
    result = to_friendly(nulled)
    assert result.to_pylist() == [None, BOUNCEABLE]
    assert result.nbytes <= 48 + 3 * 4 + 1


def test_read_only_input_is_fine():
    column = np.array([RAW, None], object)
    column.flags.writeable = False
    assert to_friendly(column).tolist() == [BOUNCEABLE, None]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (None, "addresses must be a str, a list, a numpy array"),
        (7, "not int"),
        (RAW.encode(), "not bytes"),
        ((RAW,), "not tuple"),
        (np.ma.array([RAW], mask=[True]), "not MaskedArray"),
        ([RAW, 7], "position 1: 7 is not a str"),
        ([RAW, RAW.encode()], "position 1: '-1:E567"),
        ([[RAW]], "list<item: string>"),
        ([RAW, [RAW]], "position 1: "),
        ([1, 2], "int64"),
        (np.array([1.0]), "float64"),
        (np.array([[RAW]]), "not 2-dimensional"),
        (pd.Series([1, 2]), "int64"),
        (pd.Series([1, None], dtype="Int64"), "not 1-dimensional of float64"),
        (pd.Series([1, 2], dtype="category"), "int64"),
        (pa.array([1, 2]), "int64"),
        (pa.array([[RAW]]), "list<item: string>"),
        (pa.array([RAW.encode()]), "binary"),
        (pa.chunked_array([[1]]), "int64"),
        (pl.Series([1]), "int64"),
        (pl.Series([RAW.encode()]), "binary"),
        (pl.DataFrame({"account": [RAW]}), "not DataFrame"),
    ],
)
def test_columns_without_strings_are_a_type_error(column, message):
    with pytest.raises(TypeError) as error:
        to_raw(column)
    assert message in str(error.value)
