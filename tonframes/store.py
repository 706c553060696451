"""The Parquet store: files that any engine can open, each whole or not there.

::

    store/
      network.json                                        which network; a store never mixes two
      transactions/00049000000-00049000100.parquet        half-open ranges of masterchain seqnos
      messages/…  blocks/…                                the same ranges
      accounts/20261121T094500.123456Z-6b1f.parquet       snapshots, appended and never changed
      address_book/…  metadata/…

There is no manifest: names and footers are the truth. Files of one folder never overlap and never
cross a multiple of 100, so a folder is one data set without doubled rows. A file is written under
a name that data sets ignore, flushed to the disk and renamed; the transactions file comes last and
is the commit of its range. Pages carry checksums and every read verifies them: without both,
nearly half of all single bit flips read back as wrong numbers without an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock
from filelock import Timeout as LockTimeout

from tonframes import schema
from tonframes.addresses import to_raw
from tonframes.errors import MissingError, StoreError, shorten
from tonframes.frames import Accounts, Blocks, ranges, spell
from tonframes.pages import latest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from tonframes.record import Table

#: Files never cross a multiple of this many seqnos.
SPAN = 100

#: Seconds to wait for another process's commit.
LOCK_TIMEOUT = 60.0

_RANGED = ("messages", "blocks", "transactions")
_MOMENT = "%Y%m%dT%H%M%S.%fZ"
_LATEST = "9"


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself, in the Parquet metadata key `tonframes`."""

    schema: int
    tonframes: str
    network: str
    rows: int
    digest: str
    start: int | None = None
    stop: int | None = None
    proof: str | None = None


class Store:
    """A folder of Parquet files that belong to one network."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).expanduser()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    @property
    def network(self) -> str | None:
        """The network that the store holds; None before the first commit."""
        return self._about("network")

    @property
    def service(self) -> str | None:
        """The service that the store was first fetched from; None before that."""
        return self._about("service")

    def _about(self, key: str) -> str | None:
        file = self.path / "network.json"
        try:
            value = json.loads(file.read_bytes())[key]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{file} does not say which network the store is of ({shorten(error)}): it is no "
                "store of tonframes, or the file is damaged",
                path=file,
            ) from None
        return str(value)

    def check(self) -> None:
        """Raise `StoreError` unless there is a store."""
        if self.network is None:
            raise StoreError(
                f"there is no store at {self.path}: fetch_blocks(..., store={str(self.path)!r}) "
                "makes one",
                path=self.path,
            )

    # ── what is held ─────────────────────────────────────────────────────────────────────────────

    def files(self, name: str) -> dict[range, Path]:
        """Give the committed files of a table by range, in order."""
        found = {}
        for file in sorted((self.path / name).glob("*.parquet")):
            start, _, stop = file.stem.partition("-")
            if not (start.isdecimal() and stop.isdecimal()):
                raise StoreError(f"{file} is not called as a store's files are", path=file)
            found[range(int(start), int(stop))] = file
        return found

    def held(self) -> tuple[range, ...]:
        """Give the masterchain seqnos that are committed."""
        return _joined(self.files("transactions"))

    def gaps(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Give what of these ranges is not held."""
        return subtract(seqnos, self.held())

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def claim(self, network: str, service: str) -> None:
        """Make the folder a store of this network, or refuse if it is one of another."""
        held = self.network
        if held == network:
            return
        if held is not None:
            raise StoreError(
                f"the store {self.path} is of the network {held}, and {service} is of {network}: "
                "give another store=",
                path=self.path,
            )
        file = self.path / "network.json"
        content = {"network": network, "service": service, "schema": schema.VERSION}
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            for name in schema.TABLES:
                (self.path / name).mkdir(exist_ok=True)
            with self._lock():
                if self.network is None:
                    _replace(file, json.dumps(content, indent=2).encode() + b"\n")
        self.claim(network, service)

    def write_blocks(
        self, tables: Mapping[str, pa.Table], seqnos: Iterable[range], *, proof: str
    ) -> None:
        """Commit the rows of whole masterchain blocks; those held already are left as they are.

        Parameters
        ----------
        tables
            transactions and messages, blocks where they are shown, and the address book.
        seqnos
            What the tables cover, empty masterchain blocks included.
        proof
            How it was shown that nothing is missing.
        """
        with _writing(self.path), self._lock():
            self._sweep()
            for run in self.gaps(seqnos):
                for part in aligned(run):
                    for name in _RANGED:
                        if name in tables:
                            rows = within(tables[name], [part])
                            self._write_range(schema.TABLES[name], rows, part, proof)
            self._append(schema.ADDRESS_BOOK, tables["address_book"])

    def write_accounts(self, tables: Mapping[str, pa.Table]) -> None:
        """Append snapshots of accounts, of the address book and of metadata."""
        with _writing(self.path), self._lock():
            for name in ("metadata", "address_book", "accounts"):
                self._append(schema.TABLES[name], tables[name])

    def _lock(self) -> FileLock:
        return FileLock(self.path / ".lock", timeout=LOCK_TIMEOUT)

    def _sweep(self) -> None:
        """Remove what a killed process has left: temporary files, and ranges without a commit."""
        committed = self.files("transactions")
        for name in _RANGED:
            for file in (self.path / name).glob(".*.tmp"):
                file.unlink(missing_ok=True)
            if name != "transactions":
                for run, file in self.files(name).items():
                    if run not in committed:
                        file.unlink(missing_ok=True)

    def _write_range(self, table: Table, rows: pa.Table, run: range, proof: str) -> None:
        file = self.path / table.name / f"{run.start:011d}-{run.stop:011d}.parquet"
        self._write(table, rows, file, start=run.start, stop=run.stop, proof=proof)

    def _append(self, table: Table, rows: pa.Table) -> None:
        if len(rows):
            moment = pc.max(rows["fetched_at"]).as_py().strftime(_MOMENT)
            file = self.path / table.name / f"{moment}-{digest(rows)[:8]}.parquet"
            self._write(table, rows, file)

    def _write(self, table: Table, rows: pa.Table, file: Path, **about: Any) -> None:
        footer = Footer(
            schema=schema.VERSION,
            tonframes=version("tonframes"),
            network=self.network or "",
            rows=len(rows),
            digest=digest(rows),
            **about,
        )
        metadata = {**table.schema.metadata, b"tonframes": json.dumps(asdict(footer)).encode()}
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows.replace_schema_metadata(metadata),
            sink,
            compression="zstd",
            write_page_checksum=True,
        )
        _replace(file, sink.getvalue())

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read(
        self, name: str, seqnos: Sequence[range], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the rows of a table that belong to these masterchain seqnos, in order."""
        table = schema.TABLES[name]
        chosen = _chosen(table, columns)
        needed = [*chosen, *({"mc_block_seqno"} - set(chosen))]
        parts = [
            within(self._read(table, file, needed, run), seqnos).select(chosen)
            for run, file in self.files(name).items()
            if any(_meet(run, wanted) for wanted in seqnos)
        ]
        return pa.concat_tables(parts) if parts else table.schema.empty_table().select(chosen)

    def count(self, name: str, seqnos: Sequence[range]) -> int:
        """How many rows `read` would give; footers tell of files that lie wholly inside."""
        total = 0
        for run, file in self.files(name).items():
            if subtract([run], seqnos) == ():
                total += self.footer(file).rows
            elif any(_meet(run, wanted) for wanted in seqnos):
                rows = self._read(schema.TABLES[name], file, ["mc_block_seqno"], run)
                total += len(within(rows, seqnos))
        return total

    def snapshot(
        self, name: str, *, as_of: datetime | None = None, addresses: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the newest row of each address, or the newest as of a moment, oldest file first."""
        table = schema.TABLES[name]
        last = _LATEST if as_of is None else as_of.astimezone(UTC).strftime(_MOMENT)
        parts = [
            self._read(table, file, table.schema.names, None)
            for file in sorted((self.path / name).glob("*.parquet"))
            if file.stem.partition("-")[0] <= last
        ]
        rows = pa.concat_tables([table.schema.empty_table(), *parts])
        if addresses is not None:
            rows = rows.filter(pc.is_in(rows["address"], pa.array(addresses, pa.string())))
        return latest(rows)

    def footer(self, file: Path) -> Footer:
        """Read what a file says of itself."""
        with _reading(file):
            metadata = pq.read_schema(file).metadata or {}
        try:
            return Footer(**json.loads(metadata[b"tonframes"]))
        except (KeyError, ValueError, TypeError):
            raise StoreError(f"{file} was not written by tonframes", path=file) from None

    def _read(
        self, table: Table, file: Path, columns: Sequence[str], run: range | None
    ) -> pa.Table:
        footer = self.footer(file)
        if footer.schema != schema.VERSION:
            raise StoreError(
                f"{file} has version {footer.schema} of the columns and this tonframes reads "
                f"{schema.VERSION}: use tonframes {footer.tonframes}, or fetch it anew",
                path=file,
            )
        with _reading(file):
            rows = pq.ParquetFile(file, page_checksum_verification=True).read(list(columns))
        declared = table.schema.empty_table().select(list(columns)).schema
        if not rows.schema.equals(declared):
            raise StoreError(f"{file} does not have the columns of {table.name}", path=file)
        if len(rows) != footer.rows or footer.network != self.network:
            raise StoreError(
                f"{file} is damaged or of another store: it has {len(rows)} rows of "
                f"{footer.network}, expected {footer.rows} of {self.network}; remove it and fetch "
                "again",
                path=file,
            )
        if run is not None and (footer.start, footer.stop) != (run.start, run.stop):
            raise StoreError(
                f"{file} holds the seqnos {footer.start}:{footer.stop}, not those of its name",
                path=file,
            )
        return rows


@dataclass(frozen=True)
class Held:
    """Rows in a store: a number of them, read when called."""

    store: Store
    name: str
    seqnos: tuple[range, ...]
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the rows."""
        return self.store.read(self.name, self.seqnos, self.columns)

    def __len__(self) -> int:
        return self.store.count(self.name, self.seqnos)


def read_blocks(
    path: str | PathLike[str],
    seqnos: range | Iterable[int] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> Blocks:
    """Open masterchain blocks in a store; never touches the network.

    Parameters
    ----------
    path
        A store, as `fetch_blocks(..., store=path)` makes one.
    seqnos
        Masterchain seqnos; None is all that is there.
    columns
        Which columns to read, of every table that has them; None is all.

    Returns
    -------
    Blocks, as a view of the store: a table is read when it is first asked for. Rows come ordered
    by (mc_block_seqno, lt, account).

    Raises
    ------
    MissingError
        Some of `seqnos` are not held; `.missing` has their ranges.
    StoreError
        There is no store at `path`, or a file of it is damaged.

    Examples
    --------
    >>> import tonframes as tf
    >>> blocks = tf.read_blocks(tf.sample(), columns=["account", "total_fees"])
    >>> list(blocks.transactions)
    ['account', 'total_fees']
    """
    store = Store(path)
    store.check()
    _check_columns(columns, Blocks.names)
    if seqnos is None:
        wanted = store.held()
    else:
        wanted = ranges(seqnos) if not isinstance(seqnos, range) else _as_run(seqnos)
        if missing := store.gaps(wanted):
            raise MissingError(
                f"{store.path} does not hold the masterchain seqnos {spell(missing)}: fetch them "
                f"with fetch_blocks(..., store={str(store.path)!r})",
                missing=missing,
            )
    return blocks_of(store, wanted, columns=columns)


def blocks_of(
    store: Store, seqnos: tuple[range, ...], *, columns: Sequence[str] | None = None
) -> Blocks:
    """View masterchain blocks that a store holds."""
    shown = subtract(seqnos, _joined(store.files("blocks"))) == ()
    tables: dict[str, Any] = {
        name: Held(store, name, seqnos, columns)
        for name in ("transactions", "messages", *(("blocks",) if shown else ()))
    }
    chosen = _chosen(schema.ADDRESS_BOOK, columns)
    tables["address_book"] = lambda: store.snapshot("address_book").select(chosen)
    return Blocks(tables, source=str(store.path), seqnos=seqnos)


def read_accounts(
    path: str | PathLike[str],
    addresses: Iterable[str] | None = None,
    *,
    as_of: datetime | None = None,
) -> Accounts:
    """Read account states from a store; never touches the network.

    Parameters
    ----------
    path
        A store, as `fetch_accounts(..., store=path)` makes one.
    addresses
        Accounts in any form, which is also the order of the rows; None is all that are there.
    as_of
        A moment (with its time zone): the newest state fetched until then; None is now.

    Returns
    -------
    Accounts: of each the newest state.

    Raises
    ------
    MissingError
        Some of `addresses` are not held; `.missing` has them.
    StoreError
        There is no store at `path`, or a file of it is damaged.

    Examples
    --------
    >>> import tonframes as tf
    >>> len(tf.read_accounts(tf.sample()).accounts)
    300
    """
    store = Store(path)
    store.check()
    if as_of is not None and as_of.tzinfo is None:
        raise ValueError(f"as_of must have a time zone: {as_of.isoformat()} may mean any")
    accounts = store.snapshot("accounts", as_of=as_of)
    if addresses is not None:
        asked = list(dict.fromkeys(to_raw(address) for address in addresses))
        place = {address: i for i, address in enumerate(accounts["address"].to_pylist())}
        if missing := [address for address in asked if address not in place]:
            raise MissingError(
                f"{store.path} does not hold {len(missing)} of {len(asked)} accounts, such as "
                f"{missing[0]}",
                missing=missing,
            )
        accounts = accounts.take(pa.array([place[address] for address in asked], pa.int64()))
    return Accounts(
        {
            "accounts": accounts,
            "address_book": store.snapshot("address_book", as_of=as_of),
            "metadata": store.snapshot("metadata", as_of=as_of),
        },
        source=str(store.path),
    )


# ── ranges ───────────────────────────────────────────────────────────────────────────────────────


def subtract(runs: Iterable[range], taken: Iterable[range]) -> tuple[range, ...]:
    """Take ranges out of ranges.

    Examples
    --------
    >>> subtract([range(0, 10)], [range(2, 4), range(8, 20)])
    (range(0, 2), range(4, 8))
    """
    rest = [run for run in runs if run]
    for cut in taken:
        rest = (
            [
                piece
                for run in rest
                for piece in (
                    range(run.start, min(run.stop, cut.start)),
                    range(max(run.start, cut.stop), run.stop),
                )
                if piece
            ]
            if cut
            else rest
        )
    return tuple(rest)


def aligned(run: range) -> Iterator[range]:
    """Cut a range at the multiples of `SPAN`.

    Examples
    --------
    >>> list(aligned(range(90, 210)))
    [range(90, 100), range(100, 200), range(200, 210)]
    """
    start = run.start
    while start < run.stop:
        stop = min(run.stop, (start // SPAN + 1) * SPAN)
        yield range(start, stop)
        start = stop


def _joined(runs: Iterable[range]) -> tuple[range, ...]:
    joined: list[range] = []
    for run in sorted(runs, key=lambda r: r.start):
        if joined and joined[-1].stop >= run.start:
            joined[-1] = range(joined[-1].start, max(run.stop, joined[-1].stop))
        else:
            joined.append(run)
    return tuple(joined)


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _as_run(seqnos: range) -> tuple[range, ...]:
    if seqnos.step != 1:
        return ranges(seqnos)
    return (seqnos,) if seqnos else ()


def within(rows: pa.Table, seqnos: Sequence[range]) -> pa.Table:
    """Keep the rows whose mc_block_seqno lies in one of the ranges."""
    column = rows["mc_block_seqno"]
    mask = pa.chunked_array([pa.repeat(pa.scalar(False), len(rows))])
    for run in seqnos:
        inside = pc.and_(pc.greater_equal(column, run.start), pc.less(column, run.stop))
        mask = pc.or_(mask, inside)
    return rows.filter(mask)


# ── tables and files ─────────────────────────────────────────────────────────────────────────────


def digest(rows: pa.Table) -> str:
    """Hash what a table says: the same for equal tables, however they are laid out in memory."""
    sha = hashlib.sha256()
    for name, chunks in zip(rows.column_names, rows.columns, strict=True):
        column = chunks.combine_chunks()
        sha.update(f"{name}:{column.type}:{len(column)};".encode())
        sha.update(pc.is_valid(column).to_numpy(zero_copy_only=False).tobytes())
        if pa.types.is_string(column.type):
            sha.update(pc.binary_length(column).fill_null(0).to_numpy().tobytes())
            sha.update("".join(text for text in column.to_pylist() if text).encode())
        else:
            numbers = column.cast(pa.int8() if pa.types.is_boolean(column.type) else pa.int64())
            sha.update(numbers.fill_null(0).to_numpy().tobytes())
    return sha.hexdigest()


def _check_columns(columns: Sequence[str] | None, tables: Sequence[str]) -> None:
    known = {name for table in tables for name in schema.TABLES[table].schema.names}
    if unknown := [name for name in columns or () if name not in known]:
        raise ValueError(f"no table here has a column {unknown[0]!r}: see describe(table)")


def _chosen(table: Table, columns: Sequence[str] | None) -> list[str]:
    names: list[str] = table.schema.names
    return names if columns is None else [name for name in names if name in set(columns)]


def _replace(file: Path, content: bytes | pa.Buffer) -> None:
    """Write a file whole or not at all, and see it on the disk before going on."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(file.parent)


def _sync(folder: Path) -> None:
    """Make a rename in a folder last; where folders cannot be opened, the system sees to it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _writing:  # noqa: N801 - reads as a statement
    """Turn failures to write below a folder into errors that name it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LockTimeout):
            raise StoreError(
                f"another process has held {error.lock_file} for {LOCK_TIMEOUT:.0f} s",
                path=self.path,
            ) from None
        if isinstance(error, OSError):
            raise StoreError(
                f"cannot write to the store {self.path}: {error.strerror or error}; what is "
                "committed is kept",
                path=self.path,
            ) from error


class _reading:  # noqa: N801 - reads as a statement
    """Turn failures to read a file into errors that name it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            raise StoreError(
                f"{self.file} cannot be read: {shorten(str(error))}; it is damaged or gone: remove "
                "it and fetch again",
                path=self.file,
            ) from error
