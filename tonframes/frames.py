"""Blocks and Accounts: what the two operations answer, as tables and frames."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tonframes import pages, schema
from tonframes.errors import DecodeError, shorten
from tonframes.ranges import ranges, spell
from tonframes.record import api_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from tonframes.kinds import Dialect

Body = bytes | str | dict[str, Any]
DtypeBackend = Literal["tonframes", "pyarrow"]


class _Frames(ABC):
    """Tables by name, each read and made into a frame on first use."""

    names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        tables: Mapping[str, pa.Table | Callable[[], pa.Table]],
        *,
        extra: str | None = None,
        source: str = "a body",
    ) -> None:
        self._tables = dict(tables)
        self._frames: dict[str, pd.DataFrame] = {}
        self.extra = extra
        """Keys of the bodies themselves that the schema does not know, as JSON text."""
        self.source = source
        """Where the tables come from, in words."""

    def arrow(self, name: str) -> pa.Table:
        """Give a table as Arrow, without going through pandas.

        Parameters
        ----------
        name
            One of `names`.

        Returns
        -------
        A table with the schema of `describe(name)`; units and meanings are in the field metadata.
        A table that the answer does not show (a specified service shows no blocks) is empty.
        """
        if name not in self.names:
            raise ValueError(f"no table {name!r} here: there are {', '.join(self.names)}")
        table = self._tables.get(name)
        if callable(table):
            table = table()
        return schema.TABLES[name].schema.empty_table() if table is None else table

    def frame(self, name: str, *, dtype_backend: DtypeBackend = "tonframes") -> pd.DataFrame:
        """Give a table as a new pandas DataFrame.

        Parameters
        ----------
        name
            One of `names`.
        dtype_backend
            "tonframes": numpy int64 and bool for columns that are always filled, Int64 and
            boolean for others, str, and datetime64[us, UTC]. "pyarrow": Arrow dtypes, which
            cost a third of the time to make.
        """
        table = self.arrow(name)
        if dtype_backend == "pyarrow":
            arrow: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
            return arrow
        if dtype_backend != "tonframes":
            raise ValueError(f'dtype_backend is "tonframes" or "pyarrow", not {dtype_backend!r}')
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def _frame(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = self.frame(name)
        # A copy that costs nothing until it is written to (pandas' copy on write): what a user
        # does to a frame is not seen by who asks for it next.
        return self._frames[name].copy(deep=False)

    def _count(self, name: str) -> int:
        table = self._tables[name]
        return len(table) if hasattr(table, "__len__") else len(self.arrow(name))

    @abstractmethod
    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Write the body back."""

    @abstractmethod
    def _title(self) -> str:
        """Say what this is, on one line."""

    def write(self, path: str | PathLike[str]) -> None:
        """Write one Parquet file per table into a folder, for other programs.

        `pandas.read_parquet(path / "transactions.parquet")` gives the same frame with the same
        dtypes. The folder is no store: `fetch_blocks(..., store=path)` makes one.

        Parameters
        ----------
        path
            A folder; made if it is not there. Files of the same names are replaced.
        """
        folder = Path(path)
        if (folder / "network.json").exists():
            raise ValueError(f"{folder} is a store: write into another folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._tables:
            pq.write_table(self.arrow(name), folder / f"{name}.parquet", compression="zstd")

    def __repr__(self) -> str:
        counts = (f"{self._count(name):,} {name}" for name in self._tables)
        return f"<{self._title()}: {', '.join(counts)}; from {self.source}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>.{name}</code></td><td>{self._count(name):,} rows</td>"
            f"<td>{len(schema.TABLES[name].columns)} columns</td></tr>"
            for name in self._tables
        )
        title, source = html.escape(self._title()), html.escape(self.source)
        return f"<div><b>{title}</b> from {source}<table>{rows}</table></div>"


class Blocks(_Frames):
    """Transactions of masterchain blocks, with their messages and, where shown, their blocks.

    Made by `fetch_blocks`, `read_blocks` and `parse_blocks`.

    Examples
    --------
    >>> import tonframes as tf
    >>> blocks = tf.read_blocks(tf.sample())
    >>> blocks.transactions[["lt", "total_fees", "compute_gas_used"]].dtypes
    lt                  int64
    total_fees          int64
    compute_gas_used    Int64
    dtype: object
    """

    names = ("transactions", "messages", "blocks", "address_book")

    def __init__(
        self,
        tables: Mapping[str, pa.Table | Callable[[], pa.Table]],
        *,
        extra: str | None = None,
        source: str = "a body",
        seqnos: tuple[range, ...] | None = None,
    ) -> None:
        super().__init__(tables, extra=extra, source=source)
        self._seqnos = seqnos

    @property
    def transactions(self) -> pd.DataFrame:
        """One row a transaction, its phases flattened; `describe("transactions")` tells all."""
        return self._frame("transactions")

    @property
    def messages(self) -> pd.DataFrame:
        """One row a transaction and message: a message between two of them has two rows."""
        return self._frame("messages")

    @property
    def blocks(self) -> pd.DataFrame:
        """One row a block; empty where the service shows none."""
        return self._frame("blocks")

    @property
    def address_book(self) -> pd.DataFrame:
        """One row an address that occurs."""
        return self._frame("address_book")

    @property
    def seqnos(self) -> tuple[range, ...]:
        """The masterchain seqnos that were asked for, or that occur in the body, as ranges."""
        if self._seqnos is not None:
            return self._seqnos
        columns = [
            self.arrow(name)["mc_block_seqno"].combine_chunks()
            for name in ("transactions", "blocks")
        ]
        return ranges(pc.unique(pa.concat_arrays(columns)).to_pylist())

    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Write the body back: what was parsed, up to order of keys, white space and nulls.

        Parameters
        ----------
        dialect
            "service": shards in hex, opcodes as "0x%08x", blocks if there are any.
            "specification": shards as signed decimals, opcodes as ints, and no blocks.
        """
        body: dict[str, Any] = {}
        if "blocks" in self._tables and dialect == "service":
            body["blocks"] = pages.encode_rows(schema.BLOCKS, self.arrow("blocks"), dialect)
        if "transactions" in self._tables or "blocks" not in body:
            body["transactions"] = pages.encode_transactions(
                self.arrow("transactions"), self.arrow("messages"), dialect
            )
        body["address_book"] = pages.encode_entries(self.arrow("address_book"))
        return _with_extra(body, self.extra)

    def _title(self) -> str:
        return f"masterchain blocks {spell(self.seqnos) or '(none)'}"


class Accounts(_Frames):
    """States of accounts, as a service knew them at the moment `fetched_at`.

    Made by `fetch_accounts`, `read_accounts` and `parse_accounts`.

    Examples
    --------
    >>> import tonframes as tf
    >>> accounts = tf.read_accounts(tf.sample()).accounts
    >>> accounts[["balance", "found"]].dtypes
    balance    Int64
    found       bool
    dtype: object
    """

    names = ("accounts", "address_book", "metadata")

    @property
    def accounts(self) -> pd.DataFrame:
        """One row an account; `found` is False where the service does not know it."""
        return self._frame("accounts")

    @property
    def address_book(self) -> pd.DataFrame:
        """One row an address."""
        return self._frame("address_book")

    @property
    def metadata(self) -> pd.DataFrame:
        """One row a token."""
        return self._frame("metadata")

    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Write the body back; accounts that were not found are not in it.

        Parameters
        ----------
        dialect
            Both dialects write accounts alike.
        """
        accounts = self.arrow("accounts")
        return _with_extra(
            {
                "accounts": pages.encode_rows(
                    schema.ACCOUNTS, accounts.filter(accounts["found"]), dialect
                ),
                "address_book": pages.encode_entries(self.arrow("address_book")),
                "metadata": pages.encode_entries(self.arrow("metadata")),
            },
            self.extra,
        )

    def _title(self) -> str:
        return "account states"


def parse_blocks(body: Body) -> Blocks:
    """Turn an answer about masterchain blocks that you already have into frames.

    Parameters
    ----------
    body
        Bytes, text or parsed JSON: `{"transactions": […]}` as the specification has it,
        `{"blocks": […]}` as deployed services answer, or both.

    Returns
    -------
    Blocks, with rows in the body's order. Only the form is checked, not completeness.

    Raises
    ------
    DecodeError
        The body is not of the declared form: the message names path, expectation and value.

    Warns
    -----
    TonframesWarning
        Fields that the schema does not know were kept in `extra`, or a transaction that came
        twice with the same content was kept once.

    Examples
    --------
    >>> parse_blocks('{"transactions": []}').transactions.shape
    (0, 100)
    >>> parse_blocks('{"error": "blocks not found"}')
    Traceback (most recent call last):
    tonframes.errors.DecodeError: $: expected an object with "transactions" or "blocks", found ...
    """
    page = pages.read(schema.BLOCKS_BODY, _bytes(body))
    return Blocks(pages.blocks_tables([page]), extra=pages.body_extra([page]))


def parse_accounts(body: Body) -> Accounts:
    """Turn an answer about account states that you already have into frames.

    Parameters
    ----------
    body
        Bytes, text or parsed JSON: `{"accounts": […], "address_book": {…}, "metadata": {…}}`.

    Returns
    -------
    Accounts, with rows in the body's order; `fetched_at` is null.

    Raises
    ------
    DecodeError
        The body is not of the declared form: the message names path, expectation and value.

    Examples
    --------
    >>> parse_accounts({"accounts": [{"address": "0:00", "balance": "7"}]}).accounts.balance[0]
    np.int64(7)
    """
    page = pages.read(schema.ACCOUNTS_BODY, _bytes(body))
    return Accounts(pages.accounts_tables([page]), extra=pages.body_extra([page]))


def describe(table: str) -> pd.DataFrame:
    """Tell what the columns of a table are.

    Parameters
    ----------
    table
        transactions, messages, blocks, accounts, address_book or metadata.

    Returns
    -------
    One row a column: `column`, `dtype` (pandas), `unit`, `meaning`, `api_path` (where it stands
    in the API's object, "" if it does not) and `derived` (computed from `api_path`'s neighbours,
    never written back by `to_json`).

    Examples
    --------
    >>> print(describe("transactions").set_index("column").loc["compute_gas_used"].to_string())
    dtype                               Int64
    unit                                  gas
    meaning                     Gas consumed.
    api_path    description.compute_ph.gas_used
    derived                             False
    """
    if table not in schema.TABLES:
        raise ValueError(f"no table {table!r}: there are {', '.join(schema.TABLES)}")
    return pd.DataFrame(
        [
            {
                "column": column.name,
                "dtype": column.dtype,
                "unit": column.unit,
                "meaning": column.meaning.removeprefix("+ "),
                "api_path": api_path(column),
                "derived": not api_path(column),
            }
            for column in schema.TABLES[table].columns
        ]
    )


def _with_extra(body: dict[str, Any], extra: str | None) -> bytes:
    token = msgspec.json.encode(body)
    if extra is None:
        return token
    return pages.insert(token, msgspec.json.decode(extra, type=dict[str, msgspec.Raw]))


def _bytes(body: Body) -> bytes:
    """Give a body as bytes; parsed JSON is written exactly, or refused."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DecodeError("$", "JSON", f"{shorten(body)} ({error})") from None
