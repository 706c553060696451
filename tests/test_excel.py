"""Excel: what is written can be read back, every digit is there, and nothing in it is live."""

import base64
import os
import re
import sys
import zipfile
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from parity import ENGINES, frame_of

import tonframes as tf
from tonframes.export import excel
from tonframes.inert import inert
from tonframes.wire import schema

BLOCKS = tf.read_blocks(tf.sample())


def load_workbook(path):
    import openpyxl

    return openpyxl.load_workbook(path)


def sheet(path, name=None):
    book = load_workbook(path)
    return book[name] if name else book.worksheets[0]


def column(path, name, of=None):
    """Return the cells of a column below its header."""
    page = sheet(path, of)
    [place] = [cell.column for cell in page[1] if cell.value == name]
    return [page.cell(row, place) for row in range(2, page.max_row + 1)]


def write(tmp_path, tables):
    tf.write_excel(tmp_path / "a.xlsx", tables)
    return tmp_path / "a.xlsx"


def written(tmp_path, values, dtype=None):
    """Return the values of a column as they are read back."""
    file = write(tmp_path, pd.DataFrame({"a": pd.Series(values, dtype=dtype)}))
    return [cell.value for cell in column(file, "a")]


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def test_blocks_have_a_sheet_for_each_table_with_every_row(tmp_path):
    blocks = tf.read_blocks(tf.sample(), range(90_000_000, 90_000_004))
    file = write(tmp_path, blocks)
    book = load_workbook(file)
    assert book.sheetnames == ["transactions", "messages", "blocks", "address_book"]
    for name in blocks.names:
        frame = getattr(blocks, name)
        assert [cell.value for cell in book[name][1]] == list(frame)
        assert book[name].max_row == len(frame) + 1
    fees = [cell.value for cell in column(file, "total_fees", "transactions")]
    assert fees == blocks.transactions.total_fees.to_list()


def test_accounts_and_a_single_frame_are_written_too(tmp_path):
    states = tf.read_accounts(tf.sample())
    assert len(column(write(tmp_path, states), "address", "accounts")) == 300
    assert sheet(write(tmp_path, states.accounts[["address"]])).title == "Sheet1"


def test_tables_without_rows_are_left_out_of_a_set(tmp_path):
    answer = tf.read_blocks(tf.sample(), [90_000_000]).to_json(dialect="specification")
    parsed = tf.parse_blocks(answer)
    sheets = load_workbook(write(tmp_path, parsed)).sheetnames
    assert sheets == ["transactions", "messages", "address_book"]
    empty = tf.parse_blocks({"transactions": []})
    assert load_workbook(write(tmp_path, empty)).sheetnames == list(empty.names)


def test_a_column_with_a_long_integer_is_text_and_says_so(tmp_path):
    frame = pd.DataFrame({"balance": [10**15 - 1, None], "value": [10**15 + 1, 5]}, dtype="Int64")
    file = write(tmp_path, {"accounts": frame})
    assert [cell.value for cell in column(file, "balance")] == [10**15 - 1, None]
    assert [cell.value for cell in column(file, "value")] == ["1000000000000001", "5"]
    assert "Text, as Excel rounds numbers to 15 digits." in comments(file)["value"]
    assert "Text" not in comments(file)["balance"]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4))
@example([10**18, 7])
@example([2**53 + 1])
def test_every_digit_of_an_integer_is_written(tmp_path_factory, integers):
    read = written(tmp_path_factory.mktemp("excel"), integers, "Int64")
    read += [None] * (len(integers) - len(read))  # empty rows at the end are not read
    assert [None if value is None else int(value) for value in read] == integers


def test_decimals_keep_their_digits(tmp_path):
    wide = [Decimal(f"1{'0' * 36}1"), Decimal(5)]
    assert written(tmp_path, pa.array(wide).to_pandas()) == [f"1{'0' * 36}1", "5"]
    assert written(tmp_path, [Decimal("1.5"), Decimal("NaN"), Decimal(2)]) == [1.5, None, 2]


def test_times_are_in_utc_and_say_so(tmp_path):
    zone = timezone(timedelta(hours=3))
    frame = pd.DataFrame(
        {
            "block_time": [datetime(2026, 5, 28, 23, 0, 1, tzinfo=zone)],
            "plain": [datetime(2026, 5, 28, 23, 0, 1)],  # noqa: DTZ001
        }
    )
    file = write(tmp_path, frame)
    [time], [plain] = column(file, "block_time"), column(file, "plain")
    assert time.value == datetime(2026, 5, 28, 20, 0, 1)  # noqa: DTZ001
    assert time.number_format == "yyyy-mm-dd hh:mm:ss"
    assert plain.value == datetime(2026, 5, 28, 23, 0, 1)  # noqa: DTZ001
    zoned, other = (cell.comment for cell in sheet(file)[1])
    assert "UTC" in zoned.text
    assert other is None


def test_times_before_those_of_excel_are_text(tmp_path):
    assert written(tmp_path, [datetime(1899, 1, 1, tzinfo=UTC)]) == ["1899-01-01T00:00:00Z"]
    assert written(tmp_path, [date(1900, 2, 28)]) == ["1900-02-28"]
    [kept] = written(tmp_path, [date(2026, 5, 28)])
    assert kept.date() == date(2026, 5, 28)
    moments = pd.to_datetime(["1890-01-01", "2026-05-28"])
    assert written(tmp_path, moments) == ["1890-01-01T00:00:00", datetime(2026, 5, 28)]  # noqa: DTZ001


def test_periods_are_text(tmp_path):
    months = pd.period_range("2026-01", periods=2, freq="M")
    assert written(tmp_path, months) == ["2026-01", "2026-02"]
    file = write(tmp_path, pd.DataFrame({"cost": [1, 2]}, index=months.rename("month")))
    assert [cell.value for cell in column(file, "month")] == ["2026-01", "2026-02"]


def test_integers_beyond_64_bits_are_text(tmp_path):
    assert written(tmp_path, [2**64, None, 5], object) == [str(2**64), None, "5"]


def test_unknown_values_are_empty(tmp_path):
    frame = pd.DataFrame(
        {
            "key": [1, 2],
            "integer": pd.array([None, 0], "Int64"),
            "float": [float("nan"), 0.5],
            "text": pd.array([None, ""], "str"),
            "time": pd.to_datetime([None, "2026-01-01"], utc=True),
            "bool": pd.array([None, True], "boolean"),
        }
    )
    file = write(tmp_path, frame)
    for name in list(frame)[1:]:
        assert column(file, name)[0].value is None, name
    assert column(file, "integer")[1].value == 0
    assert column(file, "bool")[1].value is True


def test_other_kinds_of_values(tmp_path):
    values = [[1, {"a": None}], b"\x00\xff", float("inf"), timedelta(1), Fraction(1, 2), "x"]
    assert written(tmp_path, values) == [
        '[1, {"a": null}]',
        base64.b64encode(b"\x00\xff").decode(),
        "inf",
        "1 day, 0:00:00",
        "1/2",
        "x",
    ]
    assert written(tmp_path, [{"a": Decimal(10) ** 20}]) == [f'{{"a": "1{"0" * 20}"}}']


# ── nothing is live ──────────────────────────────────────────────────────────────────────────────

LIVE = [
    "=1+1",
    "{=1+1}",
    '=HYPERLINK("https://example.org")',
    "=cmd|'/c calc'!A1",
    "+1",
    "-1",
    "@SUM(A1)",
    " =1",
    "\uff1d1",
    "https://example.org",
    "internal:Sheet1!A1",
    "mailto:a@example.org",
    "\\\\host\\share",
]


def test_no_text_is_a_formula_or_a_link(tmp_path):
    file = write(tmp_path, {"=1": pd.DataFrame({"=1+1": LIVE})})
    cells = column(file, "=1+1")
    assert [cell.value for cell in cells] == [inert(text) for text in LIVE]
    assert {cell.data_type for cell in cells} <= {"s", "inlineStr"}
    assert not any(cell.hyperlink for cell in cells)
    assert all(cell.quotePrefix for cell in cells if cell.value.lstrip()[0] in "=+-@\uff1d")
    with zipfile.ZipFile(file) as parts:
        sheets = [parts.read(name).decode() for name in parts.namelist() if "sheet1" in name]
        assert not any(re.search(r"<f[ >]|hyperlink", text) for text in sheets)


@given(st.lists(st.text(max_size=8) | st.text("=+-@\t\n\r\x00_x01;\u202e\ud800", max_size=9)))
def test_any_text_comes_back_inert(tmp_path_factory, texts):
    frame = pd.DataFrame({"key": range(len(texts)), "a": pd.Series(texts, dtype=object)})
    file = write(tmp_path_factory.mktemp("excel"), frame)
    read = [cell.value for cell in column(file, "a")] if texts else []
    assert read == [inert(text) for text in texts]


# ── comments ─────────────────────────────────────────────────────────────────────────────────────


def comments(path, name=None):
    return {cell.value: cell.comment.text for cell in sheet(path, name)[1] if cell.comment}


def test_headers_have_the_unit_and_the_meaning(tmp_path):
    sheets = {"costs": tf.fee_summary(BLOCKS, by="operation"), "messages": BLOCKS.messages.head()}
    file = write(tmp_path, sheets)
    meaning = tf.describe("fee_summary").set_index("column").meaning["cost"]
    assert comments(file, "costs")["cost"] == f"Unit: nanoton\n{meaning}"
    assert "operation" not in comments(file, "costs")  # the columns of `by` are the user's
    assert set(comments(file, "messages")) == set(BLOCKS.messages)
    assert comments(file, "messages")["block_time"].startswith("UTC\n")


def meanings(name):
    return tf.describe(name).set_index("column").meaning


def test_amounts_in_ton_are_said_to_be_in_ton(tmp_path):
    said = comments(write(tmp_path, tf.to_ton(tf.fee_summary(BLOCKS, by="operation"))))
    assert said["cost"] == f"Unit: TON\n{meanings('fee_summary')['cost']}"
    assert said["residual"].startswith("Unit: TON\n")  # although all of them are 0
    assert said["transactions"] == "Number of transactions."


def test_whole_floats_may_be_nanoton_or_ton(tmp_path):
    costs = tf.fee_summary(BLOCKS, by="operation")
    for name in costs.columns[2:-1]:
        costs[name] = costs[name].astype("float64")
    assert comments(write(tmp_path, costs))["cost"] == meanings("fee_summary")["cost"]


def test_the_columns_say_which_result_it_is_and_not_the_name_of_the_sheet(tmp_path):
    sheets = {
        "failures": tf.failure_summary(BLOCKS),
        "transactions": tf.fee_summary(BLOCKS),
        "fee_summary": tf.gas_summary(BLOCKS, by="operation"),
    }
    file = write(tmp_path, sheets)
    for name, result in zip(sheets, ["failure_summary", "fee_summary", "gas_summary"], strict=True):
        for column, text in comments(file, name).items():
            assert text.endswith(meanings(result)[column])


def test_a_column_of_its_own_name_is_no_amount_in_a_currency(tmp_path):
    said = comments(write(tmp_path, tf.failure_summary(BLOCKS)))
    assert said["stuck_unknown"] == meanings("failure_summary")["stuck_unknown"]
    costs = tf.fee_summary(BLOCKS, by="operation").assign(cost_mean=0.5, cost_rank=1)
    assert not {"cost_mean", "cost_rank"} & set(comments(write(tmp_path, costs)))


def test_part_of_a_result_says_what_all_results_say(tmp_path):
    part = tf.failure_summary(BLOCKS)[["phase", "failures", "cost"]]
    said = comments(write(tmp_path, part))
    assert said["cost"] == "Unit: nanoton"  # `failures` means another cost
    assert "failures" not in said  # those of a trace are others
    assert said["phase"] == meanings("failures")["phase"]
    part = BLOCKS.transactions[["total_fees"]].head()
    assert comments(write(tmp_path, part))["total_fees"] == "Unit: nanoton"
    named = comments(write(tmp_path, {"transactions": part}))
    assert named["total_fees"] == f"Unit: nanoton\n{meanings('transactions')['total_fees']}"


def test_a_column_of_another_dtype_is_another_column(tmp_path):
    costs = tf.fee_summary(BLOCKS, by="operation").assign(cost="much")
    said = comments(write(tmp_path, costs))
    assert "cost" not in said
    assert "gas" in said


def test_amounts_in_a_currency_say_which(tmp_path):
    prices = pd.Series([3.0], index=pd.to_datetime(["2026-01-01"]))  # made up
    costs = tf.fee_summary(BLOCKS, prices=prices, currency="EUR")
    meaning = tf.describe("fee_summary").set_index("column").meaning["cost"]
    said = comments(write(tmp_path, costs))
    assert said["cost_eur"] == f"Unit: EUR\n{meaning}"
    assert said["cost"] == f"Unit: nanoton\n{meaning}"


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_declared_column_has_a_comment(table, tmp_path):
    rows = schema.TABLES[table].schema.empty_table()
    assert set(comments(write(tmp_path, {table: rows}))) == set(rows.column_names)


# ── formats ──────────────────────────────────────────────────────────────────────────────────────


def formats(tmp_path, frame):
    page = sheet(write(tmp_path, frame))
    rows = page.iter_rows(min_row=2)
    return {page.cell(1, c.column).value: c.number_format for row in rows for c in row if c.value}


def test_numbers_have_the_format_of_what_they_count(tmp_path):
    prices = pd.Series([3.0], index=pd.to_datetime(["2026-01-01"]))  # made up
    costs = formats(tmp_path, tf.fee_summary(BLOCKS, prices=prices))
    assert (costs["transactions"], costs["cost"]) == ("#,##0", "#,##0")
    assert costs["share"] == "0.00%"
    assert re.fullmatch(r"#,##0\.0{2,9}", costs["cost_usd"])
    in_ton = formats(tmp_path, tf.to_ton(tf.fee_summary(BLOCKS)))
    assert in_ton["cost"] == "#,##0.000000000"  # a nanoton is seen
    failed = formats(tmp_path, tf.failures(BLOCKS))
    assert (failed["lt"], failed["now"], failed["code"]) == ("0", "0", "0")
    rates = formats(tmp_path, tf.failure_summary(BLOCKS, by="operation"))
    assert (rates["rate"], rates["call_rate"], rates["failures"]) == ("0.00%", "0.00%", "#,##0")


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([1500.0, None], "#,##0.00"),
        ([0.0, 0.25], "#,##0.000"),
        ([float("inf"), 1e-9], "General"),
        ([1000, None], "#,##0"),
        ([Decimal("1E+40"), None], "#,##0"),
    ],
)
def test_floats_have_decimals_for_the_smallest(values, form, tmp_path):
    frame = pd.DataFrame({"key": 1, "a": pd.Series(values, dtype=object)})
    page = sheet(write(tmp_path, frame))
    [found] = {page.cell(row, 2).number_format for row in (2, 3) if page.cell(row, 2).value}
    assert found == form


def test_columns_are_as_wide_as_what_is_shown(tmp_path):
    late = [1] * 200 + [123_456_789_012]  # its width counts although it comes late
    page = sheet(write(tmp_path, pd.DataFrame({"balance": late})))
    assert page.column_dimensions["A"].width >= len("123,456,789,012")


def test_each_header_has_a_filter(tmp_path):
    file = write(tmp_path, pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    assert sheet(file).auto_filter.ref == "A1:B3"
    write(tmp_path, pd.DataFrame())


# ── frames of all engines ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
def test_frames_of_every_engine_are_written(engine, tmp_path):
    table = BLOCKS.arrow("transactions").select(["lt", "total_fees", "block_time"]).slice(0, 5)
    file = write(tmp_path, frame_of(engine, table, tmp_path))
    assert sorted(cell.value for cell in column(file, "total_fees")) == sorted(
        table["total_fees"].to_pylist()
    )


def test_an_index_with_a_name_is_written(tmp_path):
    frame = pd.DataFrame({"cost": [1]}, index=pd.Index(["x"], name="operation"))
    assert [cell.value for cell in column(write(tmp_path, frame), "operation")] == ["x"]
    assert sheet(write(tmp_path, frame.reset_index(drop=True))).max_column == 1


# ── what does not fit ────────────────────────────────────────────────────────────────────────────

ONE = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pd.DataFrame({"a": [1]}).set_index("a", drop=False),
    ],
)
def test_columns_of_one_name_are_refused(frame, tmp_path):
    with pytest.raises(ValueError, match="two columns that are named"):
        write(tmp_path, frame)


@pytest.mark.parametrize(
    "name", ["", "x" * 32, "a/b", "[a]", "'a", "a'", "History", "a\nb", "\u200b", "😀" * 16]
)
def test_names_that_excel_does_not_take_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="cannot name a sheet"):
        write(tmp_path, {name: ONE})
    assert list(tmp_path.iterdir()) == []


def test_names_differ_in_more_than_case(tmp_path):
    with pytest.raises(ValueError, match="occurs once; upper and lower case are the same"):
        write(tmp_path, {"Costs": ONE, "costs": ONE})
    write(tmp_path, {"x" * 31: ONE, "=a b": ONE})


def test_a_frame_too_long_for_a_sheet_is_refused(tmp_path):
    frame = pl.DataFrame({"a": pl.repeat(1, excel.MAX_ROWS, eager=True)})
    with pytest.raises(ValueError, match=r"sheet 'long' has 1,048,576 rows .* holds 1,048,575"):
        write(tmp_path, {"long": frame})
    with pytest.raises(ValueError, match="holds 1,048,575 and 16,384"):
        write(tmp_path, pa.table({f"{number}": [1] for number in range(excel.MAX_COLUMNS + 1)}))


def test_a_text_too_long_for_a_cell_is_refused(tmp_path):
    fits = "x" * excel.MAX_TEXT
    assert written(tmp_path, [fits]) == [fits]
    with pytest.raises(ValueError, match=r"column 'a', row 1: a text of 32,768 characters"):
        written(tmp_path, ["", f"{fits}x"])


@pytest.mark.parametrize("other", [1, None, "x", [ONE], {"a": 1}])
def test_what_is_no_frame_is_refused(other, tmp_path):
    with pytest.raises(TypeError, match="write_excel takes frames"):
        write(tmp_path, other)


def test_no_frames_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one frame"):
        write(tmp_path, {})


@pytest.mark.parametrize("name", ["a.xls", "a", "a.xlsx.csv"])
def test_a_file_of_another_format_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=rf"ends in \.xlsx, not '{name}'"):
        tf.write_excel(tmp_path / name, ONE)
    assert list(tmp_path.iterdir()) == []


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def test_an_existing_file_stays_if_writing_fails(tmp_path, monkeypatch):
    file = write(tmp_path, ONE)
    before = file.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, pd.DataFrame({"b": [2]}))
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_without_xlsxwriter_an_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    monkeypatch.setattr(excel, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'tonframes\[excel\]'"):
        write(tmp_path, ONE)
