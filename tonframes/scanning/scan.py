"""scan: a store, or the public lake, as the lazy frames of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from tonframes.bucket import BucketPath, is_bucket
from tonframes.errors import did_you_mean, shorten
from tonframes.scanning.asked import Asked
from tonframes.scanning.engines import Engine, Files, check_engine, frame_of, frame_of_table
from tonframes.scanning.held import HeldTables, HistoryTables
from tonframes.scanning.lake import LakeTables, is_public, lake_at, lake_in
from tonframes.store.bucket_reader import open_store
from tonframes.store.identity import NETWORK
from tonframes.store.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime
    from os import PathLike

Name = Literal["transactions", "messages", "blocks", "accounts", "address_book", "metadata"]
Tables = HeldTables | HistoryTables | LakeTables


@overload
def scan(
    store: str | PathLike[str],
    table: None = None,
    *,
    engine: Engine = "pyarrow",
    seqnos: range | Iterable[int] | int | str | None = None,
    accounts: Iterable[str] | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
) -> Scan: ...
@overload
def scan(
    store: str | PathLike[str],
    table: Name,
    *,
    engine: Engine = "pyarrow",
    seqnos: range | Iterable[int] | int | str | None = None,
    accounts: Iterable[str] | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
) -> Any: ...
def scan(
    store: str | PathLike[str],
    table: Name | None = None,
    *,
    engine: Engine = "pyarrow",
    seqnos: range | Iterable[int] | int | str | None = None,
    accounts: Iterable[str] | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
) -> Any:
    """Open a store, or the public lake, as the lazy frames of an engine.

    Nothing is read before the engine needs it, so there may be more rows than fit into memory.
    Files that have no rows of the seqnos or moments that are asked for are not opened. The footers
    of the others are verified, once in a process.

    Parameters
    ----------
    store
        A store or the URL of one; or a lake: `s3://aws-public-blockchain/v1.1/ton/`, or a folder
        with files in its form, as `tonframes.export.to_lake` writes them.
    table
        transactions, messages or blocks; or accounts, address_book or metadata, which have the
        newest row of each address, and are read into memory. None is all: the result is an object
        with these tables that every helper takes like a `Blocks`.
    engine
        pyarrow, duckdb, polars, dask or spark. Spark uses the active session.
    seqnos
        Masterchain seqnos, or a single one; or text: `100:150` (without 150), or `100`. None is all
        that are held.
    accounts
        Accounts in any form; a single one may be passed as text. Transactions of these accounts
        and the messages of these transactions; of the snapshots, the rows of these addresses.
        The table `blocks` cannot be chosen by accounts.
    since, until
        Moments, as in `fetch_transactions`, and no logical times; `until` is not included. Rows are
        chosen by the time of their block: `now`, `tx_now` or `gen_utime`. The snapshots have their
        newest rows anyway.

    Returns
    -------
    With `table`, a `pyarrow.dataset.Dataset`, a DuckDB relation, a polars LazyFrame, a Dask
    DataFrame or a Spark DataFrame, with the columns of `describe(table)`. Rows come in no certain
    order, except for pyarrow and polars: in that of `read_blocks`, unless `accounts` are read from
    the copies that `compact_store(by_account=True)` writes. Without `table`, a `Scan`.

    Raises
    ------
    MissingError
        Some of `seqnos` are not held; `.missing` has their ranges.
    StoreError
        There is no store at `store`, a file of it is damaged, or of another version.
    ImportError
        The engine is not installed.

    Warns
    -----
    TonframesWarning
        The service did not show blocks for some of the seqnos, so that they have no rows. Or the
        store holds histories of accounts only, which are in `scan(store).histories`.

    Notes
    -----
    pyarrow and Dask verify the checksum of each page that they read, and that no rows are missing,
    as `read_blocks` does. The other engines read local files in their own way, and do not: a
    flipped bit may be read as another value. `verify_store` finds damage.

    Rows that `ingest` has put into a store are not proven and not among those here, as in
    `read_blocks` without `unproven=True`. A store that has no others is an error.

    A frame names the files that were there when it was made. If one of them is gone later, the
    engine says so: make a new frame. A `Scan` lists the files each time that it is used.

    In a lake, columns that it does not have are null, such as `mc_block_seqno` of messages: there,
    `seqnos` cannot choose messages. pyarrow has no lazy frame with computed columns, so for a lake
    it is an object with the methods `schema`, `to_table`, `to_batches` and `count_rows` of a
    `Dataset`.

    Examples
    --------
    >>> import tonframes as tf
    >>> transactions = tf.scan(tf.sample(), "transactions", engine="duckdb")
    >>> transactions.aggregate("aborted, count(*)").order("aborted").fetchall()
    [(False, 2636), (True, 364)]
    >>> first = tf.scan(tf.sample(), seqnos="90000000:90000010", engine="polars")
    >>> tf.fee_summary(first).select("transactions", "cost").collect().rows()
    [(250, 84429082)]
    """
    asked = Asked.parse(seqnos, accounts, since, until)
    check_engine(engine)
    tables = _tables_of(store)
    found = Scan(tables, engine, asked)
    if table is not None:
        return found.frame(table)
    tables.check(asked)
    return found


def _tables_of(store: str | PathLike[str]) -> Tables:
    if is_bucket(store) and not is_public(store):
        path = BucketPath.from_url(store)
        if (path / NETWORK).exists():
            return HeldTables(open_store(path))
    if isinstance(store, str) and "://" in store:
        return lake_at(store)
    reader = Reader(store)
    return lake_in(reader.path) or HeldTables(reader)


class Scan:
    """The tables of a store, or of the public lake, as lazy frames of an engine.

    `scan` makes one. Every helper takes it like `Blocks`, and returns a frame of the engine. The
    files are listed anew each time that a table is asked for.

    Examples
    --------
    >>> import tonframes as tf
    >>> found = tf.scan(tf.sample())
    >>> found.names
    ('transactions', 'messages', 'blocks', 'accounts', 'address_book', 'metadata')
    >>> found.transactions.count_rows()
    3000
    """

    def __init__(self, tables: Tables, engine: Engine, asked: Asked) -> None:
        self._tables = tables
        self._engine = engine
        self._asked = asked

    @property
    def transactions(self) -> Any:
        """The transactions."""
        return self.frame("transactions")

    @property
    def messages(self) -> Any:
        """The messages of these transactions."""
        return self.frame("messages")

    @property
    def blocks(self) -> Any:
        """The blocks. They cannot be chosen by accounts."""
        return self.frame("blocks")

    @property
    def accounts(self) -> Any:
        """The newest state of each account, in memory."""
        return self.frame("accounts")

    @property
    def address_book(self) -> Any:
        """The newest entry of each address, in memory."""
        return self.frame("address_book")

    @property
    def metadata(self) -> Any:
        """The newest entry of each token, in memory."""
        return self.frame("metadata")

    @property
    def histories(self) -> Scan:
        """The transactions of accounts that `fetch_transactions` has fetched into the store."""
        if isinstance(self._tables, HeldTables):
            histories = HistoryTables(self._tables.reader)
            histories.check(self._asked)
            return Scan(histories, self._engine, self._asked)
        raise ValueError(f"{self._tables} has no other histories of accounts")

    @property
    def names(self) -> tuple[str, ...]:
        """The tables."""
        return self._tables.names

    def frame(self, table: str) -> Any:
        """Return a table by its name."""
        if table not in self.names:
            near = did_you_mean(str(table), self.names) or f": there are {', '.join(self.names)}"
            raise ValueError(f"{self._tables} has no table {shorten(table)}{near}")
        rows = self._tables.rows(table, self._asked)
        if isinstance(rows, Files):
            return frame_of(self._engine, rows)
        return frame_of_table(self._engine, rows)

    def __repr__(self) -> str:
        return f"<Scan of {self._tables} with {self._engine}: {self._asked}>"
