"""Blocks and Accounts: the answers of the two operations as tables and frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.seqnos import ranges, spell
from tonframes.tableset import TableSet
from tonframes.wire import encode, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from tonframes.tableset import Unread
    from tonframes.wire.kinds import Dialect

#: How many ranges of seqnos a title names.
_NAMED = 3


class Blocks(TableSet):
    """Transactions of masterchain blocks, with their messages.

    The table `blocks` is empty if the service does not show blocks.

    `fetch_blocks`, `read_blocks` and `parse_blocks` return this.

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
        source: str = "JSON",
        proof: str | None = None,
        seqnos: tuple[range, ...] | None = None,
        unproven: tuple[range, ...] = (),
        note: str | None = None,
    ) -> None:
        super().__init__(tables, extra=extra, source=source, proof=proof)
        self._seqnos = seqnos
        self._note = note
        self.unproven = unproven
        """Masterchain seqnos of ingested rows: some of their rows may be missing."""

    @property
    def transactions(self) -> pd.DataFrame:
        """One row for each transaction, with its phases; see `describe("transactions")`."""
        return self._frame("transactions")

    @property
    def messages(self) -> pd.DataFrame:
        """One row for each message of each transaction.

        A message between two transactions has two rows: sent by one, received by the other.
        """
        return self._frame("messages")

    @property
    def blocks(self) -> pd.DataFrame:
        """One row for each block; empty if the service does not show blocks."""
        return self._frame("blocks")

    @property
    def address_book(self) -> pd.DataFrame:
        """One row for each address that occurs."""
        return self._frame("address_book")

    @property
    def seqnos(self) -> tuple[range, ...]:
        """The masterchain seqnos that were asked for, or that occur in the rows, as ranges."""
        if self._seqnos is not None:
            return self._seqnos
        columns = [
            self.arrow(name)["mc_block_seqno"].combine_chunks()
            for name in ("transactions", "blocks")
        ]
        return ranges(pc.unique(pa.concat_arrays(columns)).to_pylist())

    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Return the document that was parsed, except for the order of keys, white space and nulls.

        Parameters
        ----------
        dialect
            "service": shards in hex, opcodes as "0x%08x", blocks if there are any. Keys without a
            value are null or absent as deployed services write them today.
            "specification": shards as signed decimals, opcodes as ints, no blocks, and no nulls.
        """
        members: dict[str, Any] = {}
        if "blocks" in self._tables and dialect == "service":
            members["blocks"] = encode.encode_rows(schema.BLOCKS, self.arrow("blocks"), dialect)
        if "transactions" in self._tables or "blocks" not in members:
            members["transactions"] = encode.encode_transactions(
                self.arrow("transactions"), self.arrow("messages"), dialect
            )
        entries = encode.encode_entries(self.arrow("address_book"))
        if entries or "transactions" in members:  # an answer with blocks alone has none
            members["address_book"] = entries
        return encode.encode_answer(members, self.extra)

    def _about(self) -> dict[str, Any]:
        seqnos = [[run.start, run.stop] for run in self.seqnos]
        unproven = [[run.start, run.stop] for run in self.unproven]
        return super()._about() | {"seqnos": seqnos, "unproven": unproven}

    def _facts(self) -> list[tuple[str, str]]:
        facts = super()._facts()
        if self.unproven:
            facts.append(("unproven", f"masterchain blocks {_spelt(self.unproven)}: ingested"))
        if self._note:
            facts.append(("note", self._note))
        return facts

    def _title(self) -> str:
        return f"masterchain blocks {_spelt(self.seqnos)}"


class Accounts(TableSet):
    """States of accounts, as the service showed them at the moment `fetched_at`.

    `fetch_accounts`, `read_accounts` and `parse_accounts` return this.

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
        """One row for each account; `found` is False if the service does not know it."""
        return self._frame("accounts")

    @property
    def address_book(self) -> pd.DataFrame:
        """One row for each address."""
        return self._frame("address_book")

    @property
    def metadata(self) -> pd.DataFrame:
        """One row for each token."""
        return self._frame("metadata")

    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Return the document that was parsed. Accounts that were not found are left out.

        Parameters
        ----------
        dialect
            "service": keys without a value are null or absent as deployed services write them.
            "specification": keys without a value are absent.
        """
        accounts = self.arrow("accounts")
        return encode.encode_answer(
            {
                "accounts": encode.encode_rows(
                    schema.ACCOUNTS, accounts.filter(accounts["found"]), dialect
                ),
                "address_book": encode.encode_entries(self.arrow("address_book")),
                "metadata": encode.encode_entries(self.arrow("metadata")),
            },
            self.extra,
        )

    def _title(self) -> str:
        return "account states"


class Transactions(Blocks):
    """Transactions of accounts, with their messages; every helper takes them like `Blocks`.

    Made by `fetch_transactions` and `read_transactions`. The table of blocks is empty. Its `repr`
    says which period it is of, and what of that is proven: the whole period, or only each of
    several spans of consecutive transactions.

    Examples
    --------
    >>> import tonframes as tf
    >>> account = tf.read_accounts(tf.sample()).accounts.address[0]
    >>> with tf.serve(tf.sample(), dialect="service") as url, tf.Client(url) as client:
    ...     history = tf.fetch_transactions(
    ...         [account], since="2026-05-28T20:28", client=client, store=None
    ...     )
    >>> set(history.transactions.account) <= {account}
    True
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table | Unread | Callable[[], pa.Table]],
        *,
        accounts: Sequence[str],
        unknown: Sequence[str] = (),
        period: str = "",
        source: str,
        proof: str = "account",
    ) -> None:
        super().__init__(tables, source=source, proof=proof)
        self.accounts = tuple(accounts)
        """The accounts that were asked for, in raw form."""
        self.unknown = tuple(unknown)
        """Those of them that have no transactions, as far as the service knows."""
        self._period = period

    def _title(self) -> str:
        count = len(self.accounts)
        of = self.accounts[0] if count == 1 else f"{count:,} accounts"
        unknown = "unknown" if count == 1 else f"{len(self.unknown):,} of them unknown"
        note = f" ({unknown} to the service)" if self.unknown else ""
        return f"transactions of {of}{self._period and f', {self._period}'}{note}"


def _spelt(seqnos: tuple[range, ...]) -> str:
    """Return the first ranges of seqnos as text."""
    more = f" and {len(seqnos) - _NAMED:,} more ranges" if len(seqnos) > _NAMED else ""
    return (spell(seqnos[:_NAMED]) or "(none)") + more
