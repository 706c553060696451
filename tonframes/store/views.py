"""Views of a store: Blocks and Accounts that read their tables when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes import sealed
from tonframes.addresses import to_raw, warn_of_test_only
from tonframes.errors import MissingError, StoreError, shorten, warn
from tonframes.frames import Accounts, Blocks
from tonframes.moments import parse_moment
from tonframes.seqnos import checked, common, from_text, intersection, joined, spell, subtract
from tonframes.store.bucket_reader import open_store
from tonframes.store.damage import check_whole
from tonframes.store.files import (
    Damaged,
    columns_of,
    in_threads,
    reading,
    refuse_newer,
    with_later,
    within,
)
from tonframes.store.ingested import AllEntriesOf, AllRows, Ingested, newest
from tonframes.store.reader import chosen_of
from tonframes.tableset import Glance, Unread, ends
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime
    from os import PathLike
    from pathlib import Path

    from tonframes.store.files import Footer, HeldFile
    from tonframes.store.reader import Reader


#: Of so many files a glance reads the footers and sizes. Of more files it reads the first and the
#: last footer.
FEW = 100


@dataclass(frozen=True)
class HeldRows(Unread):
    """The rows of some masterchain seqnos, read from a store when called."""

    store: Reader
    name: str
    seqnos: tuple[range, ...]
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the rows."""
        return self.store.read(self.name, self.seqnos, self.columns)

    def __len__(self) -> int:
        return self.store.count(self.name, self.seqnos)

    def glance(self) -> Glance:
        """Read the footers: rows, times, proofs, services and bytes."""
        files = self.store.held_files(self.name, self.seqnos)
        few = len(files) <= FEW
        files = files if few else [files[0], files[-1]]
        seen = list(in_threads(lambda held: self._seen(*held), files))
        moments = [moment for _, times in seen for moment in times]
        footers = [footer for footer, _ in seen]
        return Glance(
            rows=sum(footer.rows for footer in footers) if few else None,
            first=min(moments, default=None),
            last=max(moments, default=None),
            size=sum(file.size() for _, file in files) if few else 0,
            proofs=tuple(dict.fromkeys(f.proof for f in footers if f.proof)) if few else (),
            services=tuple(dict.fromkeys(f.service for f in footers if f.service)),
        )

    def _seen(self, part: range, file: HeldFile) -> tuple[Footer, tuple[datetime, ...]]:
        """Return the footer, with the number of rows among these, and their first and last time."""
        here = common(part, self.seqnos)
        if not subtract([file.run or part], here):
            return file.times()
        rows = within(file.read(["mc_block_seqno", "block_time"]), here)
        return replace(file.footer(), rows=len(rows)), ends(rows, "block_time")

    def head(self, rows: int, columns: tuple[str, ...]) -> pa.Table:
        """Read the first rows."""
        chosen = [name for name in columns if self.columns is None or name in self.columns]
        return self.store.head(self.name, self.seqnos, rows, chosen)


@dataclass(frozen=True)
class AddressBookOf(Unread):
    """The newest address book entries of the addresses that occur in some blocks."""

    store: Reader
    seqnos: tuple[range, ...]
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read the entries."""
        accounts = self.store.distinct("transactions", self.seqnos, ["account"])
        others = self.store.distinct("messages", self.seqnos, ["source", "destination"])
        addresses = list(accounts | others)
        return self.store.snapshot("address_book", addresses=addresses, columns=self.columns)


@dataclass(frozen=True)
class Snapshot(Unread):
    """The newest row of each address, read from a store when called."""

    store: Reader
    name: str
    as_of: datetime | None = None
    addresses: tuple[str, ...] | None = None
    columns: Sequence[str] | None = None
    ingested: Ingested | None = None

    def __call__(self) -> pa.Table:
        """Read the rows, in the order of `addresses` if they are given."""
        return self._read(self.columns)

    def glance(self) -> Glance:
        """Read addresses and moments: rows, when they were fetched, and bytes."""
        rows = self._read(["address", "fetched_at"])
        files = self.store.held_snapshots(self.name, as_of=self.as_of)
        size = sum(file.size() for file in files)
        return Glance(rows=len(rows), fetched=ends(rows, "fetched_at"), size=size)

    def head(self, rows: int, columns: tuple[str, ...]) -> pa.Table:
        """Read the first rows."""
        chosen = [name for name in columns if self.columns is None or name in self.columns]
        return self._read(chosen).slice(0, rows)

    def _read(self, columns: Sequence[str] | None) -> pa.Table:
        chosen = chosen_of(schema.TABLES[self.name], columns)
        if self.ingested is not None:
            found = newest(self.store, self.ingested, self.name, addresses=self.addresses)
        else:
            found = self.store.snapshot(
                self.name, as_of=self.as_of, addresses=self.addresses, columns=[*chosen, "address"]
            )
        if self.addresses is None:
            return found.select(chosen)
        wanted = pa.array(self.addresses, pa.string())
        places = pc.index_in(wanted, found["address"].combine_chunks())
        if missing := wanted.filter(pc.is_null(places)).to_pylist():
            raise MissingError(
                f"{self.store.path} does not hold {len(missing)} of {len(self.addresses)} "
                f"{self.name}, such as {missing[0]}: {self.store.advice('fetch_accounts')}",
                missing=tuple(missing),
            )
        return found.take(places).select(chosen)


def read_blocks(
    path: str | PathLike[str],
    seqnos: range | Iterable[int] | int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    unproven: bool = False,
    verify: bool = False,
) -> Blocks:
    """Open masterchain blocks in a store; asks no service.

    Parameters
    ----------
    path
        A store or the URL of one, as `fetch_blocks(..., store=path)` makes one, or a folder that
        `Blocks.write` has written. What a fetch on this computer has not put into a bucket yet is
        read, too.
    seqnos
        Masterchain seqnos, or a single one; or text: `100:150` (without 150), or `100`. None is all
        that are held. Times are refused: `seqno_at` asks a service for the seqno of a time.
    columns
        Which columns to read, of every table that has them; None is all.
    unproven
        Whether to read ingested rows of the masterchain blocks that are not held, too. They are
        not proven to be complete; `Blocks.unproven` lists their seqnos.
    verify
        Whether to verify all bytes of the files now, which takes a tenth of the time of reading
        all tables. In any case the footer of a file is verified when the file is opened, and each
        page when it is read.

    Returns
    -------
    Blocks, as a view of the store: a table is read when it is first asked for. Rows are ordered by
    (mc_block_seqno, lt, account). A folder that `Blocks.write` has written is read at once.

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
    check_columns(columns, Blocks.names)
    wanted = None if seqnos is None else _checked(seqnos)
    return open_blocks(path, wanted, columns=columns, unproven=unproven, verify=verify)


def _checked(seqnos: range | Iterable[int] | int | str) -> tuple[range, ...]:
    """Check the seqnos that a user passes, and return them as ranges."""
    if isinstance(seqnos, int):
        return checked([seqnos])
    if not isinstance(seqnos, str):
        return checked(seqnos)
    run = from_text(seqnos)
    if run is None:
        raise ValueError(
            "seqnos of a store are ints, or text such as 100:150 or 100, not "
            f"{shorten(seqnos)}. For times, take range(seqno_at(since), seqno_at(until)), which "
            "asks a service; or read all, and filter the rows by block_time"
        )
    if not run:
        raise ValueError(
            f"{seqnos!r} is empty: it starts at {run.start} and ends before {run.stop}"
        )
    return checked(run)


def open_blocks(
    path: str | PathLike[str],
    wanted: tuple[range, ...] | None,
    *,
    columns: Sequence[str] | None = None,
    unproven: bool = False,
    verify: bool = False,
) -> Blocks:
    """Open ranges of masterchain blocks as `read_blocks` does; None is all that are held."""
    store = open_store(path)
    ingested = Ingested(store.folder)
    if store.network is None and any(
        (store.folder / f"{name}.parquet").is_file() for name in ("transactions", "blocks")
    ):
        return _read_written(store.folder, wanted, columns, verify=verify)
    note = None
    if not ingested.exists():
        store.check()
    elif unproven:
        return _with_ingested(store, ingested, wanted, columns, verify=verify)
    else:
        count = ingested.total("transactions")
        note = f"{count:,} ingested transactions are not proven: unproven=True reads them too"
    held = store.held() if wanted is None else store.require(wanted)
    if not held and store.held_snapshots("account_transactions"):
        note = "it holds histories of accounts: read_transactions reads them"
    if verify:
        check_whole([file for _, file in store.held_files("transactions", held)])
    return blocks_of(store, held, columns=columns, note=note)


def _read_written(
    folder: Path, seqnos: tuple[range, ...] | None, columns: Sequence[str] | None, *, verify: bool
) -> Blocks:
    """Read a folder that `Blocks.write` has written."""
    files = {name: folder / f"{name}.parquet" for name in Blocks.names}
    found = {name: _read(f, verify=verify) for name, f in files.items() if f.is_file()}
    about = next(iter(found.values()))[1]
    if about["proof"] in ("account", "spans"):  # the proofs of `Transactions`
        raise StoreError(
            f"{folder} has transactions of accounts, not all those of its masterchain blocks: read "
            f'them with pandas.read_parquet("{folder / "transactions.parquet"}")',
            path=folder,
        )
    tables = {}
    for name in about["tables"]:  # another file was left by an earlier call
        if name not in found:
            raise StoreError(f"{files[name]} is gone: write the blocks again", path=files[name])
        tables[name], said = found[name]
        # `Accounts.write` may have replaced the address book: an entry of it says the same.
        if said["writing"] != about["writing"] and "accounts" not in said["tables"]:
            raise StoreError(
                f"{files[name]} was not written together with the other files of its folder, "
                "because Blocks.write was interrupted: write the blocks again",
                path=files[name],
            )
    there = _ranges(about["seqnos"])
    wanted = there if seqnos is None else seqnos
    if missing := subtract(wanted, there):
        raise MissingError(
            f"{folder} does not have the masterchain seqnos {spell(missing)}", missing=missing
        )
    for name, rows in tables.items():
        if name != "address_book" and wanted != there:
            tables[name] = within(rows, wanted)
        if columns is not None:
            tables[name] = tables[name].select(chosen_of(schema.TABLES[name], columns))
    return Blocks(
        tables,
        extra=about["extra"],
        source=str(folder),
        proof=about["proof"],
        seqnos=wanted,
        unproven=intersection(_ranges(about["unproven"]), wanted),
    )


def _ranges(pairs: Iterable[Sequence[int]]) -> tuple[range, ...]:
    return tuple(range(start, stop) for start, stop in pairs)


def _read(file: Path, *, verify: bool) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read a table in the present version of the schema, and what its file says of itself."""
    try:
        with reading(file), sealed.opened(file, whole=verify) as opened:
            refuse_newer(file, opened.about["schema"])
            rows = opened.parquet().read()
    except Damaged as damaged:
        raise StoreError(f"{file} {damaged.reason}: write the blocks again", path=file) from None
    table = schema.TABLES[file.stem]
    names = table.schema.names
    if rows.column_names != columns_of(table, opened.about["schema"], names):
        raise StoreError(
            f"{file} does not have the columns of {table.name}: only some of them were written",
            path=file,
        )
    return with_later(table, rows, names), opened.about


def _with_ingested(
    store: Reader,
    ingested: Ingested,
    wanted: tuple[range, ...] | None,
    columns: Sequence[str] | None,
    *,
    verify: bool,
) -> Blocks:
    """Return masterchain blocks that are held, and ingested rows of others."""
    there, all_held = ingested.seqnos(), store.held()
    held = all_held if wanted is None else intersection(wanted, all_held)
    more = subtract(there if wanted is None else intersection(wanted, there), held)
    if missing := subtract(wanted or (), [*held, *more]):
        raise MissingError(
            f"{store.path} neither holds the masterchain seqnos {spell(missing)}, nor were rows of "
            "them ingested",
            missing=missing,
        )
    if verify:
        check_whole([file for _, file in store.held_files("transactions", held)])
        check_whole(ingested.all_files())
    tables = {
        name: AllRows(store, ingested, name, held, None if wanted is None else more, columns)
        for name in ("transactions", "messages", "blocks")
    }
    book = AllEntriesOf(tables["transactions"], tables["messages"], columns)
    seqnos = joined([*held, *more])
    return Blocks(
        {**tables, "address_book": book}, source=str(store.path), seqnos=seqnos, unproven=more
    )


def blocks_of(
    store: Reader,
    seqnos: tuple[range, ...],
    *,
    columns: Sequence[str] | None = None,
    note: str | None = None,
) -> Blocks:
    """Return masterchain blocks that a store holds, as a view of it."""
    store.held_of("messages", seqnos)  # raises an error if a file of them is gone
    tables: dict[str, Any] = {
        name: HeldRows(store, name, seqnos, columns) for name in ("transactions", "messages")
    }
    if held := store.held_of("blocks", seqnos):
        tables["blocks"] = HeldRows(store, "blocks", held, columns)
        if lacking := subtract(seqnos, held):
            warn(
                f"{store.path} holds no rows of blocks for {spell(lacking)}, because the service "
                "did not show them; it holds the transactions"
            )
    tables["address_book"] = AddressBookOf(store, seqnos, columns)
    return Blocks(tables, source=str(store.path), seqnos=seqnos, note=note)


def read_accounts(
    path: str | PathLike[str],
    addresses: Iterable[str] | None = None,
    *,
    as_of: datetime | date | str | None = None,
    columns: Sequence[str] | None = None,
    unproven: bool = False,
) -> Accounts:
    """Open account states in a store; asks no service.

    Parameters
    ----------
    path
        A store or the URL of one, as `fetch_accounts(..., store=path)` makes one.
    addresses
        Accounts in any form, which is also the order of the rows; None is all that are held.
    as_of
        Read the newest state fetched until this moment: a datetime with a time zone, a date (its
        first moment in UTC), or text in the form of ISO 8601 (in UTC if it names no time zone).
        None is now.
    columns
        Which columns to read, of every table that has them; None is all.
    unproven
        Whether to read ingested states of accounts of which none was fetched, too. It is not known
        when they were fetched, so `as_of` cannot be given as well.

    Returns
    -------
    Accounts, as a view of the store: a table is read when it is first asked for. It has the newest
    state of each account.

    Raises
    ------
    MissingError
        Some of `addresses` are not held; `.missing` has them.
    StoreError
        There is no store at `path`, or a file of it is damaged.

    Warns
    -----
    TonframesWarning
        Nothing was fetched until `as_of`, so there are no rows. Or some of `addresses` are marked
        for test networks only (`kQ…`, `0Q…`), and the store holds mainnet.

    Examples
    --------
    >>> import tonframes as tf
    >>> accounts = tf.read_accounts(tf.sample(), columns=["address", "balance"]).accounts
    >>> accounts.shape
    (300, 2)
    """
    store = open_store(path)
    ingested = Ingested(store.folder)
    if not ingested.exists():
        store.check()
    if unproven and as_of is not None:
        raise ValueError("unproven and as_of: it is not known when ingested states were fetched")
    more = ingested if unproven and ingested.exists() else None
    check_columns(columns, Accounts.names)
    if isinstance(addresses, str | bytes):
        raise TypeError("addresses is a list of addresses: put a single one into a list")
    moment = None if as_of is None else parse_moment(as_of, "as_of")
    if moment is not None and not store.held_snapshots("accounts", as_of=moment):
        warn(f"{store.path} holds no state of an account that was fetched until {moment}")
    wanted = None
    if addresses is not None:
        listed = list(addresses)
        wanted = tuple(dict.fromkeys(to_raw(address) for address in listed))
        if store.network == "mainnet":
            warn_of_test_only(listed, f"{store.path} holds")
        # Whether they are held is known now, not when the table is first asked for.
        Snapshot(store, "accounts", moment, wanted, ["address"], more)()
    return Accounts(
        {
            "accounts": Snapshot(store, "accounts", moment, wanted, columns, more),
            "address_book": Snapshot(store, "address_book", moment, None, columns, more),
            "metadata": Snapshot(store, "metadata", moment, None, columns, more),
        },
        source=str(store.path),
    )


def check_columns(columns: Sequence[str] | None, tables: Sequence[str]) -> None:
    """Check names of columns that a user passes."""
    if isinstance(columns, str):
        raise TypeError("columns is a list of names: put a single one into a list")
    known = {name for table in tables for name in schema.TABLES[table].schema.names}
    if unknown := [name for name in columns or () if name not in known]:
        raise ValueError(f"no table here has a column {unknown[0]!r}: see describe(table)")
