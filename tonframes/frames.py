"""Blocks and Accounts: what the two operations answer, as tables and frames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes import pages, schema
from tonframes.errors import DecodeError, shorten
from tonframes.kinds import REFUSALS
from tonframes.ranges import ranges, spell
from tonframes.record import api_path
from tonframes.tableset import TableSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonframes.kinds import Dialect
    from tonframes.tableset import Unread

Body = bytes | str | dict[str, Any]

#: Ranges of seqnos that a title names.
_NAMED = 3


class Blocks(TableSet):
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
        tables: Mapping[str, pa.Table | Unread | Callable[[], pa.Table]],
        *,
        extra: str | None = None,
        source: str = "a body",
        proof: str | None = None,
        seqnos: tuple[range, ...] | None = None,
    ) -> None:
        super().__init__(tables, extra=extra, source=source, proof=proof)
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
        seqnos = self.seqnos
        more = f" and {len(seqnos) - _NAMED:,} more ranges" if len(seqnos) > _NAMED else ""
        return f"masterchain blocks {spell(seqnos[:_NAMED]) or '(none)'}{more}"


class Accounts(TableSet):
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


def parse_transactions(
    records: Iterable[Body], *, address_book: Mapping[str, Any] | None = None
) -> Blocks:
    """Turn transactions that you already have, one record each, into frames.

    Parameters
    ----------
    records
        Transactions as the service shows them, messages inside: dicts, or the bytes or texts of
        JSON objects, as the lines of a file are. An iterator is used up.
    address_book
        Address to entry, as in an answer.

    Returns
    -------
    Blocks, with rows in the order of the records, and without the table of blocks.

    Raises
    ------
    DecodeError
        A record is not of the declared form: the path `$.transactions[3]` names the fourth.

    Warns
    -----
    TonframesWarning
        As from `parse_blocks`.

    Examples
    --------
    >>> import tonframes as tf
    >>> body = tf.read_blocks(tf.sample(), [90_000_000]).to_json(dialect="specification")
    >>> records = json.loads(body)["transactions"]
    >>> len(parse_transactions(records).transactions)
    25
    >>> parse_transactions(['{"account": "0:00"}'])
    Traceback (most recent call last):
    tonframes.errors.DecodeError: $.transactions[0].hash: expected a string, found nothing
    """
    return parse_blocks(_body("transactions", records, {"address_book": address_book}))


def parse_account_states(
    records: Iterable[Body],
    *,
    address_book: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Accounts:
    """Turn account states that you already have, one record each, into frames.

    Parameters
    ----------
    records
        Account states as the service shows them: dicts, or the bytes or texts of JSON objects.
    address_book, metadata
        Address to entry, as in an answer.

    Returns
    -------
    Accounts, with rows in the order of the records; `fetched_at` is null.

    Raises
    ------
    DecodeError
        A record is not of the declared form: the path `$.accounts[3]` names the fourth.

    Examples
    --------
    >>> states = parse_account_states([{"address": "0:00", "balance": "7"}, '{"address": "0:01"}'])
    >>> states.accounts.balance.to_list()
    [7, <NA>]
    """
    entries = {"address_book": address_book, "metadata": metadata}
    return parse_accounts(_body("accounts", records, entries))


def _body(name: str, records: Iterable[Body], entries: Mapping[str, Any]) -> bytes:
    """Put records together to the body that they might have come in."""
    whole = isinstance(records, str | bytes | bytearray | memoryview | Mapping)
    if whole or not isinstance(records, Iterable):
        raise TypeError(
            f"records are an iterable of {name}, not {shorten(records)}; parse_blocks and "
            "parse_accounts take a whole body"
        )
    rows = [_record(record, f"$.{name}[{i}]") for i, record in enumerate(records)]
    maps = [
        b',"%b":%b' % (key.encode(), _bytes(dict(entry), f"$.{key}"))
        for key, entry in entries.items()
        if entry is not None
    ]
    return b'{"%b":[%b]%b}' % (name.encode(), b",".join(rows), b"".join(maps))


def _record(record: Body, path: str) -> bytes:
    """Give a record as bytes, which are JSON by themselves."""
    token = _bytes(record, path)
    try:
        return bytes(msgspec.json.decode(token, type=msgspec.Raw))
    except REFUSALS as malformed:
        raise DecodeError(path, "JSON", f"{shorten(token)} ({malformed})") from None


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

    Notes
    -----
    pandas cuts long frames and long cells when it shows them; to see everything::

        with pd.option_context("display.max_rows", None, "display.max_colwidth", None):
            display(tf.describe("transactions"))

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


def _bytes(body: Body, path: str = "$") -> bytes:
    """Give a body as bytes; parsed JSON is written exactly, or refused."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DecodeError(path, "JSON", f"{shorten(body)} ({error})") from None


def column_reference() -> str:
    """Write the columns of every table as a page of Markdown: `data/COLUMNS.md` is this."""
    lines = [
        "# Columns",
        "",
        "Made from the schema by `make columns`. Times are UTC. An API path is relative to the",
        "object of the row; what is derived has no place in the answers of the service.",
    ]
    for name, table in schema.TABLES.items():
        lines += ["", f"## {name}", "", table.record.meaning, ""]
        lines.append("| column | dtype | unit | meaning | API path |")
        lines.append("|---|---|---|---|---|")
        for row in describe(name).to_dict("records"):
            path = f"`{row['api_path']}`" if row["api_path"] else "*derived*"
            cells = [f"`{row['column']}`", row["dtype"], row["unit"], row["meaning"], path]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
