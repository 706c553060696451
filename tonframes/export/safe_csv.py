r"""Write and read CSV files that are safe to open in a spreadsheet and lose no digit.

Anyone can write any text into a comment. Two things in it are dangerous in a CSV file:

- A spreadsheet treats a cell that begins with one of ``= + - @`` as a formula, even after white
  space. As a formula it could read other cells or start programs
  (https://owasp.org/www-community/attacks/CSV_Injection). So `write_csv` puts a quote, ``'``,
  before such a text. A text that already begins with a quote gets a second one.
- A spreadsheet that expects semicolons or tabs between cells does not understand the quotation
  marks around a text. It begins a new cell after each semicolon, tab or line break in it. So
  `write_csv` writes these characters, and all other control characters, as escapes: ``\n``,
  ``\t``, ``\x3b`` for the semicolon. A backslash is written twice. Every line of the file is
  then one row, whichever separator its reader expects.

`read_csv` undoes both.

Two kinds of text stay unchanged although they may begin with ``-`` or ``+``, because programs look
them up. A raw address (``-1:5555…``) contains only digits, A to F and a colon, so it can neither
call a function nor name another file. A hash in base64 ends with ``=``, which no formula does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tonframes.atomic import output
from tonframes.bucket import local
from tonframes.errors import shorten
from tonframes.native import enter
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

_BLANKS = r"[\s\p{Z}\p{Cf}]*"
_SIGNS = "[=+\\-@\uff1d\uff0b\uff0d\uff20]"  # with their full-width variants
_HARMLESS = r"\A(-?[0-9]+:[0-9A-F]{64}|[0-9A-Za-z+/]{43}=)\z"
_FORMULA = rf"\A('|{_BLANKS}{_SIGNS})"

#: Characters at which some reader ends a cell or a row, such as the line ends of
#: `str.splitlines`; and the backslash.
_BREAK = "[\\\\;\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]"
_ESCAPE = r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})"

#: Bytes that are read at once; a row must be shorter.
_BLOCK = 1 << 26


def write_csv(frame: Any, path: str | PathLike[str]) -> None:
    """Write a frame to a CSV file: UTF-8, commas, quoted text (RFC 4180), empty cells for nulls.

    The file contains every digit. But spreadsheets round integers to 15 digits when they open it:
    import such columns (``lt``, amounts) as text there. A text that a spreadsheet would treat as a
    formula gets a quote before it; see the module `tonframes.export.safe_csv`.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow frame: a table of `Blocks`, or the result of an analysis. The
        index of a pandas frame is written if it has a name.
    path
        The file. An existing file is replaced when the new one is complete, and keeps its mode,
        its owner and its group; of a link, the file at its end is replaced. A pipe or a device is
        written to as it is: ``write_csv(frame, "/dev/stdout")`` passes the rows to the next
        program.

    Raises
    ------
    TypeError
        `frame` is not such a frame, or a column has values that do not fit into cells, such as
        lists.
    OSError
        The file cannot be written, for example because the disk is full, or its owner cannot be
        kept. A file that was there stays as it is.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> frame = pd.DataFrame({"comment": ["=1+1", None], "value": [2**63 - 1, 0]})
    >>> with TemporaryDirectory() as folder:
    ...     write_csv(frame, Path(folder, "messages.csv"))
    ...     print(Path(folder, "messages.csv").read_text())
    "comment","value"
    "'=1+1",9223372036854775807
    ,0
    """
    file = local(path, "write_csv")
    table = _table(frame)
    # pyarrow 21 to 23 write the header once more for a batch without rows.
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    try:
        with output(file) as sink:
            csv.write_csv(pa.Table.from_batches(batches, table.schema), sink)
    except OSError as error:
        if error.errno is None:
            raise
        # The error names the temporary file, or none.
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(file)) from error


def read_csv(path: str | PathLike[str], table: str) -> pd.DataFrame:
    """Read a table that `write_csv` has written.

    Parameters
    ----------
    path
        The file. It may contain some of the columns of the table, in any order.
    table
        transactions, messages, blocks, accounts, address_book or metadata.

    Returns
    -------
    The frame that was written, with the dtypes of `describe(table)`.

    Raises
    ------
    ValueError
        The file does not fit the table: it has an unknown column, or a value of the wrong kind,
        for example because a spreadsheet has rounded it.

    Examples
    --------
    >>> import tonframes as tf
    >>> from tempfile import TemporaryDirectory
    >>> messages = tf.read_blocks(tf.sample()).messages
    >>> with TemporaryDirectory() as folder:
    ...     write_csv(messages, Path(folder, "messages.csv"))
    ...     again = read_csv(Path(folder, "messages.csv"), "messages")
    >>> again.equals(messages)
    True
    """
    if table not in schema.TABLES:
        raise ValueError(f"there is no table {table!r}; the tables are {', '.join(schema.TABLES)}")
    declared = schema.TABLES[table].schema
    try:
        with Path(path).open("rb") as source:
            found = csv.read_csv(
                source,
                csv.ReadOptions(block_size=_BLOCK),
                csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=declared,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a CSV file of {table}: {shorten(str(error))}") from None
    names = found.column_names
    if unknown := [name for name in names if name not in declared.names]:
        raise ValueError(
            f"{path} is not a CSV file of {table}: it has a column {shorten(unknown[0])}, which "
            f"describe({table!r}) does not list"
        )
    fields = [declared.field(name) for name in names]
    for field in fields:
        if not field.nullable and found[field.name].null_count:
            raise ValueError(
                f"{path} is not a CSV file of {table}: {field.name} is empty in some rows"
            )
    rows = pa.Table.from_arrays(
        [_unquote(each) if pa.types.is_string(each.type) else each for each in found.columns],
        schema=pa.schema(fields, declared.metadata),
    )
    frame: pd.DataFrame = rows.to_pandas()
    return frame


def _table(frame: Any) -> pa.Table:
    """Convert a frame to a table of numbers, booleans, times and text that is no formula."""
    rows = enter(frame, "write_csv")
    if isinstance(rows, nw.LazyFrame):
        raise TypeError("write_csv takes an eager frame, not a lazy one: collect it first")
    if not isinstance(rows, nw.DataFrame):
        raise TypeError(
            f"write_csv takes a frame of pandas, polars or pyarrow, not {type(frame).__name__}"
        )
    try:
        if isinstance(frame, pd.DataFrame):
            named = any(name is not None for name in frame.index.names)
            kept = frame.reset_index() if named else frame
            table = pa.Table.from_pandas(kept, preserve_index=False)
        else:
            table = rows.to_arrow()
    except (pa.ArrowException, UnicodeEncodeError) as error:  # mixed types; half a surrogate pair
        raise TypeError(f"write_csv cannot write this frame: {shorten(str(error))}") from None
    names = table.column_names
    columns = [_cells(name, table.column(place)) for place, name in enumerate(names)]
    safe = [_quote(each) if pa.types.is_large_string(each.type) else each for each in columns]
    headers = _quote(pa.chunked_array([names], pa.large_string()))
    return pa.Table.from_arrays(safe, headers.to_pylist())


def _cells(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type) or pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    if not any(fits(column.type) for fits in _CELLS):
        raise TypeError(
            f"write_csv cannot write the column {shorten(name)}: its type is {column.type}"
        )
    return column


_CELLS = (
    pa.types.is_large_string,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_temporal,
    pa.types.is_null,
)


def _quote(text: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = _replace(text, _BREAK, _escaped)
    formulas = pc.and_not(
        pc.match_substring_regex(whole, _FORMULA), pc.match_substring_regex(whole, _HARMLESS)
    )
    return pc.if_else(formulas, pc.utf8_replace_slice(whole, 0, 0, "'"), whole)


def _unquote(text: pa.ChunkedArray) -> pa.ChunkedArray:
    bare = pc.replace_substring_regex(text, pattern=r"\A'", replacement="")
    return _replace(bare, _ESCAPE, _unescaped)


def _replace(
    text: pa.ChunkedArray, pattern: str, replacement: Callable[[re.Match[str]], str]
) -> pa.ChunkedArray:
    """Replace each match of a pattern. Arrow finds the few texts that have one."""
    found = pc.fill_null(pc.match_substring_regex(text, pattern), fill_value=False)
    if not pc.any(found).as_py():
        return text
    replaced = [re.sub(pattern, replacement, each.as_py()) for each in text.filter(found)]
    return pc.replace_with_mask(text, found.combine_chunks(), pa.array(replaced, text.type))


def _escaped(match: re.Match[str]) -> str:
    return r"\x3b" if match[0] == ";" else ascii(match[0])[1:-1]


def _unescaped(match: re.Match[str]) -> str:
    return match[0].encode("ascii").decode("unicode_escape")
