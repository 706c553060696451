r"""Write Excel files that show every digit and start nothing.

An Excel file is for reading, not for storing: Excel has one kind of number, with 15 digits, and its
times have no zone. So `write_excel` decides for each column what its cells are:

- Integers and decimals are numbers if every value of the column has at most 15 digits. Otherwise
  all cells of the column are text, and the comment of its header says so. A column of both would be
  worse: Excel's ``SUM`` leaves out text without a word.
- Times are written in UTC.
- Text is never a formula or a link, whatever it begins with. Cells that look like a formula are
  marked (``quotePrefix``), so they stay text when somebody edits them. Invisible characters become
  escapes, as everywhere in tonframes.
- Unknown values are empty cells. Lists and dicts are JSON, bytes are base64, durations are text.

For files that another program reads, use Parquet (`Blocks.write`) or `write_csv`. When Excel saves
a sheet as CSV, it drops the marks. The module `headers` has what the header of a column says.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.atomic import output
from tonframes.bucket import local
from tonframes.errors import shorten
from tonframes.export.headers import comment, declared_columns, number_format, shown, with_units
from tonframes.inert import inert
from tonframes.native import enter
from tonframes.tableset import TableSet

if TYPE_CHECKING:
    from os import PathLike

    from tonframes.export.headers import Dtypes
    from tonframes.wire.record import Column

# Limits of Excel: "Excel specifications and limits", support.microsoft.com.
MAX_ROWS = 1_048_576  # with the header
MAX_COLUMNS = 16_384
MAX_TEXT = 32_767
MAX_NAME = 31
DIGITS = 15

_FORBIDDEN = re.compile(r"[\[\]:*?/\\\x00-\x1f]|^'|'$")  # in names of sheets
_FORMULA = re.compile(r"[\s\u200b\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_FIRST = dt.datetime(1900, 3, 1)  # noqa: DTZ001  # Excel counts a 29 February 1900, which there was not
_WIDE, _NARROW, _WIDTHS_OF = 40, 8, 100  # widths in characters, from this many rows
_BUTTON = 3  # width of the button of a filter


def write_excel(path: str | PathLike[str], tables: Any) -> None:
    """Write frames to an Excel file, a sheet for each.

    The comment of each header says the unit and the meaning of the column, if it is one of our
    tables or results. The columns decide which one it is; if several fit equally well, the name
    of the sheet decides. Amounts
    that are floats are taken to be in TON, as `to_ton` returns them. Each header has a filter.

    It needs XlsxWriter: ``pip install 'tonframes[excel]'``. See the module
    `tonframes.export.excel` for what becomes of each kind of value.

    Parameters
    ----------
    path
        The file, whose name ends in ``.xlsx``. An existing file is replaced when the new one is
        complete, and keeps its mode, its owner and its group; of a link, the file at its end is
        replaced. A pipe or a device is written to as it is.
    tables
        A frame of any engine; a `Blocks`, `Transactions` or `Accounts`; or a dict of frames by the
        names of their sheets. The index of a pandas frame is written if it has a name.

    Raises
    ------
    ValueError
        A frame or a text is too large for a sheet or a cell, or the name of a sheet is not valid,
        or the name of the file does not end in ``.xlsx``.
    TypeError
        Something is not a frame.
    OSError
        The file cannot be written, for example because the disk is full, or its owner cannot be
        kept. A file that was there stays as it is.
    ImportError
        XlsxWriter is not installed.

    Examples
    --------
    >>> import tonframes as tf
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> blocks = tf.read_blocks(tf.sample())
    >>> sheets = {
    ...     "by operation": tf.to_ton(tf.fee_summary(blocks, by="operation")),
    ...     "failures": tf.failure_summary(blocks),
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     write_excel(Path(folder, "costs.xlsx"), sheets)
    ...     read = pd.read_excel(Path(folder, "costs.xlsx"), sheet_name="failures")
    >>> read[["phase", "name", "failures"]].head(2)
         phase            name  failures
    0  skipped        no_state         9
    1   action  not enough TON         7
    """
    if find_spec("xlsxwriter") is None:
        raise ImportError("write_excel needs XlsxWriter: pip install 'tonframes[excel]'")
    file = local(path, "write_excel")
    if file.suffix.lower() != ".xlsx":
        raise ValueError(
            f"write_excel writes the format .xlsx, and Excel opens it only under a name that ends "
            f"in .xlsx, not {shorten(file.name)}"
        )
    sheets = [_sheet(name, frame) for name, frame in _named(tables).items()]
    _check_names([sheet.name for sheet in sheets])
    with output(file) as sink:
        _write(sink, sheets)


@dataclass(frozen=True)
class _Cells:
    """A column: its cells as Excel has them, and what the comment of its header says."""

    name: str
    cells: list[Any]
    format: str | None
    comment: str


@dataclass(frozen=True)
class _Sheet:
    name: str
    columns: list[_Cells]
    rows: int


def _named(tables: Any) -> dict[str, Any]:
    """Return the frames by the names of their sheets."""
    if isinstance(tables, TableSet):
        found = {name: tables.arrow(name) for name in tables.names}
        return {name: table for name, table in found.items() if len(table)} or found
    if isinstance(tables, Mapping):
        if not tables:
            raise ValueError("write_excel takes at least one frame: the dict is empty")
        return dict(tables)
    return {"Sheet1": tables}


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the name of a sheet is text, not {shorten(name)}")
        rule = (
            "has 1 to 31 characters"
            if not 0 < _length(name) <= MAX_NAME
            else "has none of [ ] : * ? / \\, and no quote at its ends"
            if _FORBIDDEN.search(name) or inert(name) != name
            else "is not History, which Excel keeps for itself"
            if name.lower() == "history"
            else "occurs once; upper and lower case are the same to Excel"
            if name.lower() in seen
            else ""
        )
        if rule:
            raise ValueError(f"write_excel cannot name a sheet {shorten(name)}: a name {rule}")
        seen.add(name.lower())


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


def _sheet(name: str, frame: Any) -> _Sheet:
    columns, dtypes = _columns(name, frame)
    rows = max((len(values) for values in columns.values()), default=0)
    if rows >= MAX_ROWS or len(columns) > MAX_COLUMNS:
        raise ValueError(
            f"the frame of sheet {shorten(name)} has {rows:,} rows and {len(columns):,} columns; "
            f"a sheet of Excel holds {MAX_ROWS - 1:,} and {MAX_COLUMNS:,}: summarize it, write a "
            "part of it, or use write_csv or Parquet"
        )
    declared = with_units(declared_columns(name, dtypes), columns)
    return _Sheet(
        name,
        [_cells(name, key, values, declared.get(key)) for key, values in columns.items()],
        rows,
    )


def _columns(name: str, frame: Any) -> tuple[dict[str, list[Any]], Dtypes]:
    """Return the values of each column, as Python has them, and the dtypes."""
    rows = enter(frame, "write_excel")
    if isinstance(rows, nw.LazyFrame):
        rows = rows.collect(backend="pyarrow")
    if not isinstance(rows, nw.DataFrame):
        raise TypeError(
            f"write_excel takes frames, a Blocks or Accounts, or a dict of frames; sheet "
            f"{shorten(name)} is of the type {type(frame).__name__}"
        )
    if isinstance(frame, pd.DataFrame):
        kept = _with_index(name, frame)
        dtypes = {str(key): dtype for key, dtype in nw.from_native(kept).schema.items()}
        return {str(key): _of_pandas(kept[key]) for key in kept.columns}, dtypes
    table = rows.to_arrow()
    return {key: table[key].to_pylist() for key in table.column_names}, dict(rows.schema)


def _with_index(sheet: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index as columns, if it has a name."""
    index = [level for level in frame.index.names if level is not None]
    names = [str(name) for name in (*index, *frame.columns)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"the frame of sheet {shorten(sheet)} has two columns that are named "
            f"{shorten(twice[0])}, with its index: rename one of them"
        )
    return frame.reset_index() if index else frame


def _of_pandas(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.PeriodDtype):  # Arrow has numbers for them
        return list(column.astype("str"))
    try:
        values: list[Any] = pa.Array.from_pandas(column).to_pylist()
    # Mixed types; half a surrogate pair; integers and moments that Arrow or Python cannot hold.
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return list(column.to_list())
    return values


# ── cells ────────────────────────────────────────────────────────────────────────────────────────


def _cells(sheet: str, name: str, values: list[Any], declared: Column | None) -> _Cells:
    """Turn the values of a column into what Excel can hold."""
    plain = [_plain(value) for value in values]
    there = [value for value in plain if value is not None]
    notes = []
    form = None
    # Moments before 1900 are text.
    if any(isinstance(value, dt.datetime) for value in there):
        form = "yyyy-mm-dd hh:mm:ss"
        notes += ["UTC"] if any(getattr(value, "tzinfo", None) for value in values) else []
    elif any(isinstance(value, dt.date) for value in there):
        form = "yyyy-mm-dd"
    elif any(isinstance(value, Decimal) and _digits(value) > DIGITS for value in there):
        notes.append(f"Text, as Excel rounds numbers to {DIGITS} digits.")
        plain = [f"{value:f}" if isinstance(value, Decimal) else value for value in plain]
    else:
        form = number_format(name, declared, there)
    for row, value in enumerate(plain):
        if isinstance(value, str) and _length(value) > MAX_TEXT:
            raise ValueError(
                f"sheet {shorten(sheet)}, column {shorten(name)}, row {row}: a text of "
                f"{len(value):,} characters; a cell of Excel holds {MAX_TEXT:,}. Leave the column "
                "out, or use write_csv or Parquet"
            )
    return _Cells(name, plain, form, comment(declared, notes))


def _plain(value: Any) -> Any:
    """Return a value as None, bool, Decimal, float, date, datetime (without a zone) or text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    match value:
        case bool():
            return value
        case float():
            return value if math.isfinite(value) else None if math.isnan(value) else str(value)
        case Decimal():
            return value if value.is_finite() else None if value.is_nan() else str(value)
        case dt.datetime():
            return _moment(value)
        case dt.date():
            return value if value >= _FIRST.date() else value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case list() | tuple() | dict():
            return inert(json.dumps(value, ensure_ascii=False, default=_in_json))
        case _:
            return Decimal(int(value)) if hasattr(value, "__index__") else inert(str(value))


def _moment(value: dt.datetime) -> dt.datetime | str:
    naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if naive < _FIRST:
        return f"{naive.isoformat()}{'Z' if value.tzinfo else ''}"
    return dt.datetime(*naive.timetuple()[:6], naive.microsecond)  # noqa: DTZ001


def _in_json(value: Any) -> Any:
    plain = _plain(value)
    return f"{plain:f}" if isinstance(plain, Decimal) else str(plain)


def _length(text: str) -> int:
    """Return the length of a text as Excel counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _digits(value: Decimal) -> int:
    """Return how many digits a number has, without zeros at its end."""
    return len("".join(map(str, value.as_tuple().digits)).rstrip("0"))


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def _write(sink: Any, sheets: list[_Sheet]) -> None:
    import xlsxwriter  # noqa: PLC0415

    # Rows are written one after the other, which bounds the memory.
    with xlsxwriter.Workbook(sink, {"constant_memory": True}) as book:
        bold = book.add_format({"bold": True, "bottom": 1})
        quoted = book.add_format({"quote_prefix": True})
        for sheet in sheets:
            page = book.add_worksheet(sheet.name)
            page.freeze_panes(1, 0)
            if sheet.columns:
                page.autofilter(0, 0, sheet.rows, len(sheet.columns) - 1)
            formats = [
                book.add_format({"num_format": column.format}) if column.format else None
                for column in sheet.columns
            ]
            for place, column in enumerate(sheet.columns):
                page.set_column(place, place, _width(column))
                page.write_string(0, place, inert(column.name), bold)
                if column.comment:
                    page.write_comment(0, place, column.comment, {"x_scale": 2})
            for row in range(sheet.rows):
                for place, column in enumerate(sheet.columns):
                    _put(page, (row + 1, place), column.cells[row], formats[place], quoted)


def _put(page: Any, place: tuple[int, int], value: Any, form: Any, quoted: Any) -> None:
    """Write a cell as what it is: the general `write` of XlsxWriter would guess."""
    if value is None:
        return
    if isinstance(value, bool):
        page.write_boolean(*place, value)
    elif isinstance(value, dt.date):  # and moments
        page.write_datetime(*place, value, form)
    elif isinstance(value, str):
        page.write_string(*place, value, quoted if _FORMULA.match(value) else None)
    else:
        page.write_number(*place, float(value), form)


def _width(column: _Cells) -> int:
    numbers = [cell for cell in column.cells if isinstance(cell, float | Decimal)]
    cells = [*column.cells[:_WIDTHS_OF], *([min(numbers), max(numbers)] if numbers else [])]
    texts = [len(shown(cell, column.format)) + 2 for cell in cells]
    return min(max(_NARROW, len(column.name) + _BUTTON, *texts), _WIDE)
