"""A flipped bit in the header of a page, which the checksum of the page does not cover."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from slow import slow

import tonframes as tf
from tonframes.scanning import engines
from tonframes.store import Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Without and with nulls, of some types, with and without a dictionary.
COLUMNS = ["account", "aborted", "storage_fees_due", "mc_block_seqno", "block_time"]

Flip = tuple[str, int, int]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    blocks = tf.read_blocks(tf.sample(), range(90_000_000, 90_000_004))
    made = Store(tmp_path_factory.mktemp("flipped") / "store")
    made.claim("-217", "a test")
    tables = {name: blocks.arrow(name) for name in blocks.names}
    made.write_blocks(tables, blocks.seqnos, proof="chain")
    return made.path


def file_of(store: Path) -> Path:
    [file] = (store / "transactions").iterdir()
    return file


# ── where the headers are ────────────────────────────────────────────────────────────────────────
# In the compact protocol of Thrift (doc/specs/thrift-compact-protocol.md of apache/thrift): the
# fields of PageHeader in parquet.thrift are integers, structs of them, and binary statistics.

BINARY, STRUCT = 8, 12
WITHOUT_VALUE, VARINTS = (1, 2), (4, 5, 6)
COMPRESSED_SIZE = 3  # the field compressed_page_size
KIND = slice(1, 2)  # where the field type is, after its own head


def varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while content[at] & 0x80:
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | content[at] << shift, at + 1


def struct(content: bytes, at: int) -> tuple[dict[int, int], int]:
    """Return the integers of a struct by field, and where it ends."""
    found: dict[int, int] = {}
    field = 0
    while head := content[at]:
        at, kind = at + 1, head & 15
        field += head >> 4
        assert head >> 4, "long form of a field"
        if kind in VARINTS:
            value, at = varint(content, at)
            found[field] = (value >> 1) ^ -(value & 1)
        elif kind == BINARY:
            length, at = varint(content, at)
            at += length
        elif kind == STRUCT:
            _, at = struct(content, at)
        else:
            assert kind in WITHOUT_VALUE
    return found, at + 1


def headers(file: Path) -> Iterator[tuple[str, range]]:
    """Yield the column of each page, and the bytes of its header."""
    content, metadata = file.read_bytes(), pq.read_metadata(file)
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            at = column.data_page_offset
            if column.has_dictionary_page:
                at = column.dictionary_page_offset
            stop = at + column.total_compressed_size
            while at < stop:
                said, end = struct(content, at)
                yield column.path_in_schema, range(at, end)
                at = end + said[COMPRESSED_SIZE]
            assert at == stop


def flips(file: Path, which: slice = slice(None)) -> list[Flip]:
    """List the bits of the headers of some columns, or of some bytes of each header."""
    return [
        (column, place, bit)
        for column, places in headers(file)
        if column in COLUMNS
        for place in places[which]
        for bit in range(8)
    ]


# ── what engines make of it ──────────────────────────────────────────────────────────────────────


def rows_of(store: Path, engine: str, column: str) -> list[object]:
    frame = tf.scan(store, "transactions", engine=engine)
    if engine == "pyarrow":
        return frame.to_table([column])[column].to_pylist()
    if engine == "polars":
        return frame.select(column).collect()[column].to_list()
    if engine == "dask":
        return frame[column].compute(scheduler="synchronous").astype(str).tolist()
    return [value for (value,) in frame.select(column).fetchall()]


def outcome(store: Path, engine: str, content: bytes, expected: list[object], flip: Flip) -> str:
    column, place, bit = flip
    damaged = bytearray(content)
    damaged[place] ^= 1 << bit
    file_of(store).write_bytes(damaged)
    try:
        found = rows_of(store, engine, column)
    except BaseException:  # noqa: BLE001 - each engine has its own, and a panic of polars is no Exception
        return "error"
    finally:
        file_of(store).write_bytes(content)
    if len(found) != len(expected):
        return "other rows"
    return "same" if found == expected else "other values"


def outcomes(store: Path, engine: str, flipped: list[Flip]) -> Iterator[str]:
    content = file_of(store).read_bytes()
    expected = {column: rows_of(store, engine, column) for column in COLUMNS}
    for flip in flipped:
        yield outcome(store, engine, content, expected[flip[0]], flip)


@pytest.mark.parametrize("engine", ["pyarrow", *slow("dask")])
def test_a_flipped_kind_of_a_page_is_an_error_and_loses_no_rows(engine, store):
    found = Counter(outcomes(store, engine, flips(file_of(store), KIND)))
    assert found.keys() <= {"same", "error"}
    assert found["error"]


def test_rows_are_not_lost_where_there_are_others_in_memory(store):
    file = file_of(store)
    content = file.read_bytes()
    [place, *_] = [place for column, place, _ in flips(file, KIND) if column == "account"]
    damaged = bytearray(content)
    damaged[place] ^= 2
    file.write_bytes(damaged)
    kind = schema.TRANSACTIONS.schema
    files = engines.Files((str(file),), (len(content),), kind, [], more=kind.empty_table())
    try:
        with pytest.raises(pa.ArrowInvalid, match="length"):
            engines.frame_of("pyarrow", files).to_table(["account"])
    finally:
        file.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("rest", range(4))
def test_any_flipped_bit_of_a_header_is_an_error_or_changes_nothing(rest, store):
    found = Counter(outcomes(store, "pyarrow", flips(file_of(store))[rest::4]))
    assert found.keys() == {"same", "error"}


def _send(store: Path, engine: str, flipped: list[Flip], sink: object) -> None:
    for found in outcomes(store, engine, flipped):
        sink.send(found)
    sink.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "allowed"),
    [("polars", {"same", "error"}), ("duckdb", {"same", "error", "other values"})],
)
def test_engines_that_read_files_themselves_lose_no_rows(engine, allowed, store):
    """DuckDB may take a flipped bit for other values. Both may end the process."""
    context = multiprocessing.get_context("spawn")
    content = file_of(store).read_bytes()
    left, found, ended = flips(file_of(store))[::6], Counter(), 0
    while left:
        source, sink = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(store, engine, left, sink))
        process.start()
        sink.close()
        done = 0
        try:
            while True:
                found[source.recv()] += 1
                done += 1
        except EOFError:
            process.join(60)
        if done < len(left):
            assert process.exitcode < 0
            ended += 1
            done += 1
        left = left[done:]
        file_of(store).write_bytes(content)
    assert found.keys() <= allowed
    assert found["same"]
    assert found["error"]
    assert ended < 20
