"""Tables as CSV, which a spreadsheet may open: no digit is lost, and no text is a formula.

A spreadsheet takes a cell that begins with one of ``= + - @`` for a formula, blanks before it or
not, and what anyone writes into a comment could so read other cells or start programs
(https://owasp.org/www-community/attacks/CSV_Injection). In text such a beginning gets a quote
before it, ``'``, and so does one after a semicolon, a tab or the end of a line, where a
spreadsheet that expects other separators begins a cell. Text that has the quote there already
gets a second one, so that `read_csv` can take them off again.

Two texts are left as they are although they may begin with ``-`` or ``+``, because programs look
them up: a raw address (``-1:5555…``), which holds nothing but digits, A to F and a colon, so that
it can neither call a function nor name another file; and a hash in base64, whose ``=`` at the end
no formula can have.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tonframes.errors import shorten
from tonframes.wire import schema

if TYPE_CHECKING:
    from os import PathLike

_BLANKS = r"[\s\p{Z}\p{Cc}\p{Cf}]*"
_SIGNS = "[=+\\-@\uff1d\uff0b\uff0d\uff20]"  # and their full-width variants
_HARMLESS = r"\A(-?[0-9]+:[0-9A-F]{64}|[0-9A-Za-z+/]{43}=)\z"
_LIVE = rf"\A('|[\t\r\n]|{_BLANKS}{_SIGNS})"
_LIVE_WITHIN = rf"([;\t\r\n]{_BLANKS})({_SIGNS}|')"
_QUOTED_WITHIN = rf"([;\t\r\n]{_BLANKS})'({_SIGNS}|')"

#: Bytes that are read at once: more than a row may have.
_BLOCK = 1 << 26


def write_csv(frame: Any, path: str | PathLike[str]) -> None:
    """Write a frame as CSV: UTF-8, commas, text in quotes as in RFC 4180, nulls as nothing.

    The file has every digit, but spreadsheets round integers to 15 of them when they open it:
    import such columns (``lt``, amounts) as text there. Text that would be a formula gets a quote
    before it, as the module says.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow frame: a table of `Blocks`, or what an analysis gave. The index
        of a pandas frame is written if it has a name.
    path
        The file. One that is there is replaced, once all is written.

    Raises
    ------
    TypeError
        Not such a frame, or a column holds what has no place in a cell, such as lists.

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
    file = Path(path)
    table = _inert(_table(frame))
    # pyarrow 21 to 23 write the header once more for a batch without rows.
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as sink:
            csv.write_csv(pa.Table.from_batches(batches, table.schema), sink)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def read_csv(path: str | PathLike[str], table: str) -> pd.DataFrame:
    """Read a table back that `write_csv` has written.

    Parameters
    ----------
    path
        The file; it may have a part of the table's columns, in any order.
    table
        transactions, messages, blocks, accounts, address_book or metadata.

    Returns
    -------
    The frame that was written, with the dtypes of `describe(table)`.

    Raises
    ------
    ValueError
        The file is not of that table: a column is unknown, or a value is not of its kind, as
        after a spreadsheet has rounded it.

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
        raise ValueError(f"no table {table!r}: there are {', '.join(schema.TABLES)}")
    declared = schema.TABLES[table].schema
    try:
        found = csv.read_csv(
            Path(path),
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
        raise ValueError(f"{path} is not CSV of {table}: {shorten(str(error))}") from None
    names = found.column_names
    if strangers := [name for name in names if name not in declared.names]:
        raise ValueError(
            f"{path} is not CSV of {table}: it has a column {shorten(strangers[0])}, which "
            f"describe({table!r}) does not know"
        )
    fields = [declared.field(name) for name in names]
    for field in fields:
        if not field.nullable and found[field.name].null_count:
            raise ValueError(f"{path} is not CSV of {table}: {field.name} is empty in some rows")
    rows = pa.Table.from_arrays(
        [_live(column) if pa.types.is_string(column.type) else column for column in found.columns],
        schema=pa.schema(fields, declared.metadata),
    )
    frame: pd.DataFrame = rows.to_pandas()
    return frame


def _table(frame: Any) -> pa.Table:
    """Make a table of a frame in which every cell is a number, a truth value, a time or text."""
    rows = nw.from_native(frame, eager_only=False, pass_through=True)
    if isinstance(rows, nw.LazyFrame):
        raise TypeError("write_csv takes a frame that is there, not a lazy one: collect it first")
    if not isinstance(rows, nw.DataFrame):
        raise TypeError(f"write_csv takes a frame, not {type(frame).__name__}")
    try:
        if isinstance(frame, pd.DataFrame):
            named = any(name is not None for name in frame.index.names)
            kept = frame.reset_index() if named else frame
            table = pa.Table.from_pandas(kept, preserve_index=False)
        else:
            table = rows.to_arrow()
    except (pa.ArrowException, UnicodeEncodeError) as error:  # mixed types; half a surrogate pair
        raise TypeError(f"write_csv cannot put this into cells: {shorten(str(error))}") from None
    names = table.column_names
    columns = [_cells(name, table.column(place)) for place, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names)


def _cells(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _cells(name, column.cast(kind.value_type))
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return column.cast(pa.large_string())
    if not any(fits(kind) for fits in _CELLS):
        raise TypeError(f"write_csv cannot put the column {shorten(name)} into cells: it is {kind}")
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


def _inert(table: pa.Table) -> pa.Table:
    """Put quotes before what a spreadsheet would take for a formula, in names of columns too."""
    columns = [
        _dead(column) if pa.types.is_large_string(column.type) else column
        for column in table.columns
    ]
    names = _dead(pa.chunked_array([table.column_names], pa.large_string()))
    return pa.Table.from_arrays(columns, names.to_pylist())


def _dead(text: pa.ChunkedArray) -> pa.ChunkedArray:
    within = pc.replace_substring_regex(text, pattern=_LIVE_WITHIN, replacement=r"\1'\2")
    live = pc.and_not(
        pc.match_substring_regex(within, _LIVE), pc.match_substring_regex(within, _HARMLESS)
    )
    return pc.if_else(live, pc.utf8_replace_slice(within, 0, 0, "'"), within)


def _live(text: pa.ChunkedArray) -> pa.ChunkedArray:
    bare = pc.replace_substring_regex(text, pattern=r"\A'", replacement="")
    return pc.replace_substring_regex(bare, pattern=_QUOTED_WITHIN, replacement=r"\1\2")
