"""to_lake: rows of ours as files in the form of the public lake."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from tonframes.atomic import inherit, temporary
from tonframes.bucket import local
from tonframes.errors import shorten
from tonframes.native import enter
from tonframes.scanning.asked import SECONDS
from tonframes.scanning.form import BYTES, UNSIGNED, LakeForm, LakeRows, mapped
from tonframes.scanning.lake import FOLDERS
from tonframes.scanning.scan import Scan, scan
from tonframes.tableset import TableSet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

#: The partitions of the lake: the date of the block in UTC, such as `date=2026-05-28`.
_BY_DATE = pads.partitioning(pa.schema([("date", pa.string())]), flavor="hive")
#: Rows in a group of a file.
_GROUP = 125_000


def to_lake(
    source: str | PathLike[str] | TableSet | Scan | Mapping[str, Any], path: str | PathLike[str]
) -> None:
    """Write transactions, messages and blocks in the form of the public lake of TON.

    The result is for programs that read the lake at `s3://aws-public-blockchain/v1.1/ton/`. `scan`
    reads it too.

    Parameters
    ----------
    source
        A store, of which all blocks are written; what `read_blocks`, `read_transactions` or `scan`
        with pyarrow returns; or frames of pandas, polars or pyarrow by the names of their tables.
        A store and a `Scan` need not fit into memory.
    path
        A folder that does not exist yet, or is empty; or a link to one. It gets its name when all
        files are written. An empty folder is replaced, and its mode, owner and group stay.

    Raises
    ------
    ValueError
        There is something at `path`; or a value cannot be written: a number does not fit into the
        32 bits that it has in the lake, a body is no base64, or a block has no time.
    OSError
        The files cannot be written, or the owner of an empty folder cannot be kept.

    Notes
    -----
    The files have the columns of the lake: `opcode` is signed, the bodies of messages are bytes
    (`body_boc`, `init_state_boc`), and an external message has the time of its transaction as
    `created_at`. Columns of ours that the lake does not have are not written, such as those that
    begin with `has_`.

    Examples
    --------
    >>> import tonframes as tf
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     to_lake(tf.sample(), Path(folder, "lake"))
    ...     lake = tf.scan(Path(folder, "lake"), "transactions")
    ...     lake.count_rows()
    3000
    """
    folder = Path(os.path.realpath(local(path, "to_lake")))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"there is something at {folder}: to_lake writes into a new folder")
    made = temporary(folder)
    made.mkdir(0o700 if folder.exists() else 0o777, parents=True)
    try:
        if folder.exists() and os.name == "posix":
            handle = os.open(made, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                inherit(handle, folder)
            finally:
                os.close(handle)
        for name, (place, *_) in FOLDERS.items():
            rows = _rows(source, name)
            if rows is not None:
                form = LakeForm(name)
                pads.write_dataset(
                    _batches(rows, form),
                    made / place,
                    schema=form.stored.append(pa.field("date", pa.string())),
                    format="parquet",
                    partitioning=_BY_DATE,
                    use_threads=False,  # keeps the order of the rows
                    max_rows_per_group=_GROUP,
                    min_rows_per_group=_GROUP // 5,
                )
        if folder.exists():
            folder.rmdir()
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _rows(source: Any, name: str) -> Any:
    """Return the rows of a table as a data set; None if there are none."""
    if isinstance(source, Mapping):
        if name not in source:
            return None
        frame = enter(source[name], "to_lake")
        if not isinstance(frame, nw.DataFrame):
            raise TypeError(
                f"to_lake takes frames of pandas, polars or pyarrow, not "
                f"{type(source[name]).__name__}"
            )
        return pads.dataset(frame.to_arrow())
    if isinstance(source, TableSet):
        return pads.dataset(source.arrow(name)) if name in source.names else None
    tables = source if isinstance(source, Scan) else scan(source)
    if name not in tables.names:
        return None
    rows = tables.frame(name)
    if not isinstance(rows, pads.Dataset | LakeRows):
        raise TypeError(f"to_lake takes a Scan with engine='pyarrow', not {shorten(source)}")
    return rows


def _batches(rows: pads.Dataset | LakeRows, form: LakeForm) -> Iterator[pa.RecordBatch]:
    """Read rows of ours in batches with the columns of the lake, and the date."""
    names = [name for name in form.table.schema.names if name in rows.schema.names]
    for batch in rows.to_batches(columns=names):
        ours = pa.Table.from_batches([batch])
        columns = [_column(form.name, ours, stored) for stored in form.stored]
        written = pa.Table.from_arrays(columns, schema=form.stored)
        seconds = written[SECONDS[form.name]]
        if seconds.null_count:
            raise ValueError(
                f"to_lake cannot write {form.name} without a time: the date is unknown"
            )
        dates = pc.strftime(seconds.cast(pa.int64()).cast(pa.timestamp("s")), "%Y-%m-%d")
        yield from written.append_column("date", dates).to_batches()


def _column(table: str, rows: pa.Table, stored: pa.Field) -> pa.ChunkedArray:
    """Make a column of the lake."""
    ours = {source: name for name, source in BYTES.items()}.get(stored.name, stored.name)
    if ours not in rows.column_names:
        return pa.chunked_array([pa.nulls(len(rows), stored.type)])
    column = rows[ours]
    try:
        if ours in BYTES:
            return mapped(column, lambda each: base64.b64decode(each, validate=True), pa.binary())
        if ours == "opcode":
            negative = pc.greater_equal(column, UNSIGNED // 2)
            column = pc.if_else(negative, pc.subtract(column, UNSIGNED), column)
        if ours == "created_at":
            external = pc.and_(pc.is_null(rows["source"]), pc.equal(rows["direction"], "in"))
            column = pc.if_else(external, rows["tx_now"], column)
        return column.cast(stored.type)
    except (pa.ArrowInvalid, ValueError) as error:
        raise ValueError(
            f"to_lake cannot write the column {ours} of {table}, which is {stored.type} in "
            f"the lake: {error}"
        ) from None
