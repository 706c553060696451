"""CSV: every digit and every text comes back, and nothing in the file is a formula."""

import csv
import os
import re
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import tonframes as tf
from tonframes.export import read_csv, write_csv
from tonframes.wire import schema
from tonframes.wire.kinds import BOOL, TIME

#: What a spreadsheet takes for a formula; a number is none.
LIVE = re.compile(r"[\s\ufeff\u200b\x00]*(?!-[0-9]+(,|\Z))[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
SEPARATORS = ",;\t"
MASTERCHAIN = "-1:" + "5" * 64
HASH = "+" + "A" * 42 + "="


def cells(path):
    """Read the rows of a file with the csv module."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def comments(*texts):
    return pd.DataFrame({"comment": pd.array(texts, dtype="str")})


# ── and back ─────────────────────────────────────────────────────────────────────────────────────

SAMPLES = {
    name: parsed
    for parsed in (tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample()))
    for name in parsed.names
}
every_table = pytest.mark.parametrize("name", schema.TABLES)


@every_table
def test_every_table_of_the_sample_comes_back(name, tmp_path):
    frame = getattr(SAMPLES[name], name)
    assert len(frame) > 100
    write_csv(frame, tmp_path / "a.csv")
    assert_frame_equal(read_csv(tmp_path / "a.csv", name), frame)


@every_table
def test_no_rows_come_back_with_their_dtypes(name, tmp_path):
    frame = schema.TABLES[name].schema.empty_table().to_pandas()
    write_csv(frame, tmp_path / "a.csv")
    assert_frame_equal(read_csv(tmp_path / "a.csv", name), frame)


CHARACTERS = "=+-@\uff0d\t\r\n\x0b\x85\u2028;' \",\\abnrtxu0123\u200b\ufeff\x00"
texts = st.text(max_size=8) | st.text(CHARACTERS, max_size=12)
values = {
    "str": texts,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "datetime64[us, UTC]": st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def tables(draw):
    """Draw rows of some columns of some table."""
    table = draw(st.sampled_from(list(schema.TABLES.values())))
    columns = draw(st.lists(st.sampled_from(table.columns), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(0, 6))
    arrays = []
    for column in columns:
        kind = {"Int64": "int64", "boolean": "bool"}.get(column.dtype, column.dtype)
        value = values[kind] if column.always else st.none() | values[kind]
        rows = draw(st.lists(value, min_size=count, max_size=count))
        arrays.append(pa.array(rows, column.kind.arrow))
    fields = [table.schema.field(column.name) for column in columns]
    return table.name, pa.Table.from_arrays(arrays, schema=pa.schema(fields, table.schema.metadata))


@given(tables())
def test_any_rows_of_any_columns_come_back(tmp_path_factory, drawn):
    name, table = drawn
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    write_csv(table, file)
    assert_frame_equal(read_csv(file, name), table.to_pandas())


@given(st.lists(st.none() | texts, max_size=5))
@example(["'=1", "''", "'", "", None, "\t'", ";'=", "a;;=b\n\n -1", ";'';=", "\r\n'=\r'"])
def test_any_text_comes_back_and_none_is_a_formula(tmp_path_factory, written):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    frame = comments(*written)
    write_csv(frame, file)
    assert_frame_equal(read_csv(file, "messages"), frame)
    shown = [row[0] if row else "" for row in cells(file)[1:]]
    assert len(shown) == len(written)
    assert not [text for text in shown if LIVE.match(text)]


def rows_by_csv(file, separator):
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines, delimiter=separator))


def rows_by_csv_of_lines(file, separator):
    return list(csv.reader(file.read_text("utf-8").splitlines(), delimiter=separator))


def rows_by_pandas(file, separator):
    frame = pd.read_csv(file, sep=separator, header=None, dtype=str, keep_default_na=False)
    return frame.to_numpy().tolist()


@given(
    st.lists(st.tuples(texts, st.integers(-9, 9), texts), min_size=1, max_size=4),
    st.permutations(["a", "value", "b"]),
)
@example([('hello\n"=HYPERLINK(A1)\n;x', 1, "")], ["value", "a", "b"])
@example([('hello;"=1+1', 1, '\t"=2')], ["value", "a", "b"])
@example([('"=1', 1, '\n"\n"=2')], ["a", "b", "value"])
def test_every_reader_sees_the_rows_and_no_formula(tmp_path_factory, rows, order):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    write_csv(pd.DataFrame(rows, columns=["a", "value", "b"])[order], file)
    for read in (rows_by_csv, rows_by_csv_of_lines, rows_by_pandas):
        for separator in SEPARATORS:
            seen = read(file, separator)
            assert len(seen) == len(rows) + 1
            assert {len(row) for row in seen} == {3 if separator == "," else 1}
            assert not [cell for row in seen for cell in row if LIVE.match(cell)]


def test_digits_beyond_floats_are_written(tmp_path):
    write_csv(
        pd.DataFrame({"value": pd.array([2**53 + 1, None, -(2**63)], "Int64")}), tmp_path / "a"
    )
    assert (tmp_path / "a").read_bytes() == b'"value"\n9007199254740993\n\n-9223372036854775808\n'


# ── formulas ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://a.example","b")',
        "+1",
        "-1+cmd|' /C calc'!A0",
        "@SUM(1)",
        "  =1",
        "\u00a0=1",
        "\ufeff=1",
        "\u200b-1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff201",
        "'=1",
    ],
)
def test_a_formula_gets_a_quote_before_it(text, tmp_path):
    write_csv(comments(text), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv") == [["comment"], [f"'{text}"]]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("pay; =1+1", r"pay\x3b =1+1"),
        ("\t=1", r"\t=1"),
        ("\r\n=1", r"\r\n=1"),
        ("\x00=1", r"\x00=1"),
        (" \n=1", r" \n=1"),
        ("a\u2028\x85\x0bb", r"a\u2028\x85\x0bb"),
        (r"\n \x3b", r"\\n \\x3b"),
        ("1 = 1, 2-1 @home", "1 = 1, 2-1 @home"),
    ],
)
def test_separators_line_breaks_and_backslashes_are_written_as_escapes(text, written, tmp_path):
    write_csv(comments(text), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[1] == [written]


@pytest.mark.parametrize("text", [MASTERCHAIN, "0:" + "A" * 64, HASH])
def test_addresses_and_hashes_stay_unchanged(text, tmp_path):
    write_csv(comments(text), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[1] == [text]


@pytest.mark.parametrize(
    "text", [MASTERCHAIN + " ", "-1:" + "5" * 63 + "(", "-1:5", HASH + "A1", HASH[:-1], "-" + HASH]
)
def test_text_that_only_resembles_an_address_or_hash_is_quoted(text, tmp_path):
    write_csv(comments(text), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[1] == [f"'{text}"]


def test_names_of_columns_are_quoted_too(tmp_path):
    pivot = pd.DataFrame([[1, 2]], columns=["=1+1", "a,b"])
    write_csv(pivot, tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv")[0] == ["'=1+1", "a,b"]


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


def test_pandas_polars_and_pyarrow_write_the_same(tmp_path):
    table = SAMPLES["messages"].arrow("messages")
    frames = [table, table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)]
    files = []
    for frame in [*frames, pl.from_arrow(table)]:
        write_csv(frame, tmp_path / "a.csv")
        files.append((tmp_path / "a.csv").read_bytes())
    assert files == files[:1] * 4


def test_the_header_is_written_once_for_a_table_with_empty_chunks(tmp_path):
    column = pa.chunked_array([[], [1], [], [2]], pa.int64())
    write_csv(pa.table({"value": column}), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv") == [["value"], ["1"], ["2"]]


def test_a_table_without_rows_is_its_header(tmp_path):
    write_csv(pa.table({"value": pa.chunked_array([[], []], pa.int64())}), tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv") == [["value"]]


def test_frames_of_an_analysis_are_written(tmp_path):
    frame = pd.DataFrame(
        {
            "total": pd.array([Decimal(10**30)], pd.ArrowDtype(pa.decimal128(38))),
            "share": [0.1],
            "day": [datetime(2026, 1, 1, tzinfo=UTC)],
            "kind": pd.Categorical(["=x"]),
            "nothing": [None],
        },
        index=pd.Index(["-1"], name="code"),
    )
    write_csv(frame, tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv") == [
        ["code", *frame],
        ["'-1", str(10**30), "0.1", "2026-01-01 00:00:00.000000Z", "'=x", ""],
    ]


def test_an_index_without_a_name_is_not_written(tmp_path):
    write_csv(comments("a", "b")[1:], tmp_path / "a.csv")
    assert cells(tmp_path / "a.csv") == [["comment"], ["b"]]


def test_the_frame_is_not_changed(tmp_path):
    frame = comments("=1", None)
    write_csv(frame, tmp_path / "a.csv")
    assert_frame_equal(frame, comments("=1", None))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.LazyFrame({"a": [1]}), "collect it first"),
        ([1], "frame of pandas, polars or pyarrow, not list"),
        (pa.table({"a": [[1]]}), "the column 'a': its type is list"),
        (pa.table({"a": [b"=1"]}), "the column 'a': its type is binary"),
        (pd.DataFrame({"a": [1, "x"]}), "cannot write this frame"),
        (pd.DataFrame({"a": pd.Series(["\ud800"], dtype=object)}), "cannot write this frame"),
    ],
)
def test_columns_that_do_not_fit_cells_are_refused(frame, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        write_csv(frame, tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    write_csv(comments("old"), file)
    write_csv(comments("new"), file)
    assert cells(file)[1] == ["new"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.csv.write_csv", full)
    with pytest.raises(OSError, match="No space left"):
        write_csv(comments("newest"), file)
    assert cells(file)[1] == ["new"]
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_names_the_file_that_was_to_be_written(tmp_path):
    file = tmp_path / "none" / "a.csv"
    with pytest.raises(FileNotFoundError, match="cannot write: No such file") as caught:
        write_csv(comments("a"), file)
    assert caught.value.filename == str(file)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such paths")
def test_a_path_that_is_not_utf8_is_written_and_read(tmp_path):
    file = tmp_path / os.fsdecode(b"\xff.csv")
    write_csv(comments("a"), file)
    assert_frame_equal(read_csv(file, "messages"), comments("a"))


def test_a_row_of_megabytes_comes_back(tmp_path):
    frame = comments("x" * 3_000_000, "a\r\nb")
    write_csv(frame, tmp_path / "a.csv")
    assert_frame_equal(read_csv(tmp_path / "a.csv", "messages"), frame)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"value"\n1.23E+18\n', r"conversion error to int64: invalid value"),
        (b'"value"\n9223372036854775808\n', "conversion error to int64"),
        (b'"value","lt"\n1,2\n', "it has a column 'lt', which describe"),
        (b'"tx_lt"\n1\n\n', "tx_lt is empty in some rows"),
        (b'"value","comment"\n1\n', "Expected 2 columns, got 1"),
        (b'"comment"\n"\xff"\n', "UTF8"),
        (b"", "Empty CSV file"),
    ],
)
def test_a_file_that_does_not_fit_the_table_is_refused(content, message, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(tmp_path / "a.csv", "messages")
    assert f"{tmp_path / 'a.csv'} is not a CSV file of messages" in str(caught.value)


def test_an_unknown_table_and_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="no table 'message'; the tables are transactions"):
        read_csv(tmp_path / "a.csv", "message")
    with pytest.raises(FileNotFoundError):
        read_csv(tmp_path / "a.csv", "messages")


def test_every_kind_of_column_is_tested():
    assert {BOOL, TIME} <= {c.kind for t in schema.TABLES.values() for c in t.columns}
