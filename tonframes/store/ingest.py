"""Ingest: JSON that somebody saved becomes rows of a store, marked unproven."""

from __future__ import annotations

import codecs
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from tonframes.errors import DecodeError, StoreError, shorten
from tonframes.parse import json_bytes
from tonframes.store.identity import NETWORKS
from tonframes.store.ingested import UNPROVEN, Ingested
from tonframes.store.store import Store
from tonframes.wire import pages, schema
from tonframes.wire.kinds import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.wire.pages import Page
    from tonframes.wire.tables import Tables

#: JSON or where it is: a file, an open file, text or bytes of JSON, or parsed JSON.
Source = str | PathLike[str] | bytes | Mapping[str, Any] | IO[Any]

#: Rows that are decoded and committed together.
BATCH = 20_000
#: Bytes of one JSON text: as many as a `Client` takes in one answer. Reading a text of real rows
#: takes about four times its size.
LONGEST = 2**26
#: Values in it, by their commas and braces. A value takes up to 700 bytes when it is read
#: (`tonframes.client.size`), so a text takes 2 GiB at most. Real ones have 29 bytes for each.
MOST_VALUES = 3_000_000
#: Bytes of one file, pipe or stream with a text on each line: about 250,000 transactions. Lines are
#: read one after the other, but one of these may have no end.
MOST = 2**30
#: Bytes that are read at once.
_CHUNK = 2**20

#: The lists of an answer, each with keys that its records have and those of other lists have not.
_LISTS = {
    "transactions": ({"hash", "account", "lt"}, schema.BLOCKS_ANSWER),
    "blocks": ({"workchain", "shard", "seqno", "gen_utime"}, schema.BLOCKS_ANSWER),
    "accounts": ({"address", "status"}, schema.ACCOUNTS_ANSWER),
}


def ingest(
    documents: Source | Iterable[Source], /, *, store: str | PathLike[str]
) -> dict[str, int]:
    r"""Put JSON that you already have into a store, as unproven rows.

    It is unknown whether rows are missing among these. So they are kept apart from those that were
    fetched, in the folder `ingested` of the store: `read_blocks(store, unproven=True)`
    reads them too, and `fetch_blocks` fetches their masterchain blocks as if they were not there.
    Once a masterchain block is fetched, its ingested rows are not read any more.

    Parameters
    ----------
    documents
        Files, JSON, or a list of them. A `Path` is a file, and so is text unless it begins with
        "{" or "[". Bytes, other text and dicts are JSON. A file may be a pipe, but not a device.

        JSON is an answer of the service with transactions, blocks or accounts, a single record of
        one of these, or a list of answers and records: at most 64 MiB and three million values.
        A file can also have one of them on each line (JSON Lines), and then at most 1 GiB in all.
        Both dialects can be mixed.
    store
        Folder of the store, which is made if it does not exist.

    Returns
    -------
    How many rows were added to each table. Rows that were ingested before are not added again.

    Raises
    ------
    DecodeError
        Something is not JSON, or too large, or not of the declared form, or says something else
        than what was ingested before of the same transaction or block. `path` begins with the file
        and the line. What came before it may be committed: after a correction, ingest all of it
        again.
    StoreError
        A file cannot be read, the store cannot be written to, or blocks are of another network
        than the store.

    Warns
    -----
    TonframesWarning
        As from `parse_blocks`; or a damaged file of ingested rows was set aside.

    Examples
    --------
    >>> import tempfile
    >>> import tonframes as tf
    >>> saved = tf.read_blocks(tf.sample(), [90_000_000]).to_json()
    >>> store = tempfile.mkdtemp()
    >>> tf.ingest(saved, store=store)["transactions"]
    25
    >>> tf.read_blocks(store, unproven=True).unproven
    (range(90000000, 90000001),)
    """
    target = Store(store)
    target.prepare()
    ingested = Ingested(store)
    ingested.claim(UNPROVEN, UNPROVEN)
    ingested.set_damaged_aside()
    added: Counter[str] = Counter()
    for batch in _batches(documents):
        for tables in _tables(batch):
            _check_network(target, tables)
            added.update(ingested.add(tables))
    return dict(added)


class _Document(NamedTuple):
    """One answer, where it is, and the path in it of what is there."""

    where: str
    inner: str
    page: Page


def _batches(documents: Source | Iterable[Source]) -> Iterator[list[_Document]]:
    """Read documents in batches, each with one kind of answer."""
    batch: list[_Document] = []
    rows = size = 0
    for where, text in _texts(documents, "documents"):
        for document in _read(where, text):
            page = document.page
            full = rows >= BATCH or size >= LONGEST
            if batch and (full or page.record is not batch[0].page.record):
                yield batch
                batch, rows, size = [], 0, 0
            batch.append(document)
            rows += max(1, sum(len(getattr(page.answer, name, None) or ()) for name in _LISTS))
            size += len(page.content)
    if batch:
        yield batch


def _tables(batch: list[_Document]) -> list[Tables]:
    """Make tables of documents together, which takes less time; one by one if they differ."""
    of_blocks = batch[0].page.record is schema.BLOCKS_ANSWER
    make = pages.blocks_tables if of_blocks else pages.accounts_tables
    try:
        return [make([document.page for document in batch])]
    except DecodeError:
        # Two dialects or two moments write the same row differently, or one document is wrong.
        made = []
        for document in batch:
            with _located(document.where, document.inner):
                made.append(make([document.page]))
        return made


def _check_network(store: Store, tables: Tables) -> None:
    if "blocks" not in tables or store.network not in NETWORKS.values():
        return
    for number in tables["blocks"]["global_id"].unique().drop_null().to_pylist():
        if NETWORKS.get(number) != store.network:
            raise StoreError(
                f"the store {store.path} is of the network {store.network}, and blocks are of "
                f"{NETWORKS.get(number, number)}: give another store=",
                path=store.path,
            )


# ── where JSON comes from ─────────────────────────────────────────────────────────────────────────


def _texts(documents: Any, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield each JSON text of files, texts and dicts, and where it is."""
    is_json = isinstance(documents, str) and documents.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")
    if is_json or isinstance(documents, Mapping | bytes | bytearray | memoryview):
        with _located(f"{name}: $", "$"):
            content = json_bytes(documents)
        yield from _in_stream(name, BytesIO(content))
    elif isinstance(documents, str | PathLike):
        yield from _in_file(Path(documents))
    elif hasattr(documents, "read"):
        yield from _in_stream(str(getattr(documents, "name", name)), documents)
    elif isinstance(documents, Iterable):
        for i, document in enumerate(documents):
            yield from _texts(document, f"{name}[{i}]")
    else:
        raise TypeError(f"{name} is JSON, a file or a list of them, not {shorten(documents)}")


def _in_file(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        found = path.expanduser()
        mode = found.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise StoreError(f"cannot read {path}: it is a device, not a file or a pipe", path=path)
        with found.open("rb") as source:
            yield from _in_stream(str(path), source)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}", path=path) from error


def _in_stream(name: str, source: IO[Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the whole content, or each of its lines if the first of them is JSON by itself."""
    where, lines = f"{name}: $", _lines(name, source)
    first = next(lines, (1, b""))
    if _malformed(first[1]) is None:
        second = next(lines, None)
        if second is None:
            yield where, _checked(where, first[1])
            return
        for number, line in chain([first, second], lines):
            where = f"{name}, line {number}: $"
            yield where, _checked(where, line)
        return
    whole, last = bytearray(), 1
    for number, line in chain([first], lines):
        whole += b"\n" * (number - last) + line
        last = number
        if len(whole) > LONGEST:
            raise _too_long(where)
    yield where, _checked(where, bytes(whole))


def _lines(name: str, source: IO[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, and their numbers."""
    number, size, rest = 0, 0, bytearray()
    while chunk := json_bytes(source.read(_CHUNK)):
        rest += chunk if size else chunk.removeprefix(codecs.BOM_UTF8)
        size += len(chunk)
        if size > MOST:
            expected = f"at most {MOST:,} bytes (split it into several files)"
            raise DecodeError(f"{name}: $", expected, "more")
        if b"\n" in chunk:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                number += 1
                if line.strip():
                    yield number, bytes(line)
        if len(rest) > LONGEST:
            raise _too_long(f"{name}, line {number + 1}: $")
    if rest.strip():
        yield number + 1, bytes(rest)


def _too_long(where: str) -> DecodeError:
    expected = f"JSON of at most {LONGEST:,} bytes (write one answer or record on each line)"
    return DecodeError(where, expected, "more")


def _checked(where: str, text: bytes) -> bytes:
    """Return a JSON text that is not malformed, and not too large to be read."""
    if len(text) > LONGEST:
        raise _too_long(where)
    if fault := _malformed(text):
        raise DecodeError(where, "JSON", f"{shorten(text)} ({fault})")
    values = text.count(b",") + text.count(b"{")
    if values > MOST_VALUES:
        expected = f"at most {MOST_VALUES:,} values (write one answer or record on each line)"
        raise DecodeError(where, expected, f"{values:,}")
    return text


def _malformed(content: bytes) -> str | None:
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except REFUSALS as error:
        return str(error)
    return None


def _read(where: str, text: bytes) -> Iterator[_Document]:
    """Read an answer, a record, or a list of them."""
    if text.lstrip().startswith(b"["):
        for i, item in enumerate(msgspec.json.decode(text, type=list[msgspec.Raw])):
            yield from _read_one(f"{where}[{i}]", bytes(item))
    else:
        yield from _read_one(where, text.strip())


def _read_one(where: str, token: bytes) -> Iterator[_Document]:
    keys = _keys(token)
    names = [name for name in _LISTS if name in keys]
    inner = "$"
    if not names:
        names = [name for name, (needed, _) in _LISTS.items() if needed <= keys][:1]
        if not names:
            expected = "transactions, blocks or accounts: an answer, a record or a list of them"
            raise DecodeError(where, expected, shorten(token))
        inner = f"$.{names[0]}[0]"
        token = b'{"%b":[%b]}' % (names[0].encode(), token)
    for record in dict.fromkeys(_LISTS[name][1] for name in names):
        with _located(where, inner):
            page = pages.read(record, token)
        yield _Document(where, inner, page)


def _keys(token: bytes) -> set[str]:
    if not token.startswith(b"{"):
        return set()
    return set(msgspec.json.decode(token, type=dict[str, msgspec.Raw]))


@contextmanager
def _located(where: str, inner: str) -> Iterator[None]:
    """Name the file and the line in errors."""
    try:
        yield
    except DecodeError as error:
        path = where + error.path.removeprefix(inner)
        raise DecodeError(path, error.expected, error.found) from None
