"""Blocks and Accounts as views of a store; nothing here touches the network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw
from tonframes.errors import MissingError, warn
from tonframes.frames import Accounts, Blocks
from tonframes.moments import parse_moment
from tonframes.seqnos import checked, meeting, spell, subtract
from tonframes.store.digest import within
from tonframes.store.reader import Reader, chosen_of
from tonframes.tableset import Glance, Unread, ends
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from os import PathLike

    from tonframes.store.files import Footer, Kept


#: Files whose footers are read for a glance; of more of them only the first and the last, as each
#: takes a millisecond or two.
FEW = 300


@dataclass(frozen=True)
class Held(Unread):
    """Rows in a store: a number of them, read when called."""

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
        """Look at the footers: rows, times, proofs, services and bytes."""
        files = self.store.kept(self.name, self.seqnos)
        few = len(files) <= FEW
        seen = [self._seen(kept) for kept in (files if few else [files[0], files[-1]])]
        moments = [moment for _, times in seen for moment in times]
        footers = [footer for footer, _ in seen]
        return Glance(
            rows=sum(footer.rows for footer in footers) if few else None,
            first=min(moments, default=None),
            last=max(moments, default=None),
            size=sum(kept.size() for kept in files),
            proofs=tuple(dict.fromkeys(f.proof for f in footers if f.proof)) if few else (),
            services=tuple(dict.fromkeys(f.service for f in footers if f.service)),
        )

    def _seen(self, kept: Kept) -> tuple[Footer, tuple[datetime, ...]]:
        """Say how many rows of a file are among these, and the ends of their times."""
        run = kept.run or range(0)
        here = meeting(run, self.seqnos)
        if not subtract([run], here):
            return kept.times()
        rows = within(kept.read(["mc_block_seqno", "block_time"]), here)
        return replace(kept.footer(), rows=len(rows)), ends(rows, "block_time")

    def head(self, rows: int, columns: tuple[str, ...]) -> pa.Table:
        """Read the first rows."""
        chosen = [name for name in columns if self.columns is None or name in self.columns]
        return self.store.head(self.name, self.seqnos, rows, chosen)


@dataclass(frozen=True)
class Mentioned(Unread):
    """The newest address book entries for the addresses that occur in some blocks."""

    store: Reader
    seqnos: tuple[range, ...]
    columns: Sequence[str] | None = None

    def __call__(self) -> pa.Table:
        """Read them."""
        places = {"transactions": ["account"], "messages": ["source", "destination"]}
        columns = [
            column
            for name, chosen in places.items()
            for column in self.store.read(name, self.seqnos, chosen).columns
        ]
        occurring = pc.unique(pa.chunked_array([c for column in columns for c in column.chunks]))
        rows = self.store.snapshot("address_book", addresses=occurring.to_pylist())
        return rows.select(chosen_of(schema.ADDRESS_BOOK, self.columns))


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
    store = Reader(path)
    store.check()
    _check_columns(columns, Blocks.names)
    wanted = store.held() if seqnos is None else store.require(checked(seqnos))
    return blocks_of(store, wanted, columns=columns)


def blocks_of(
    store: Reader, seqnos: tuple[range, ...], *, columns: Sequence[str] | None = None
) -> Blocks:
    """View masterchain blocks that a store holds."""
    tables: dict[str, Any] = {
        name: Held(store, name, seqnos, columns) for name in ("transactions", "messages")
    }
    if shown := store.shown("blocks", seqnos):
        tables["blocks"] = Held(store, "blocks", shown, columns)
        if unshown := subtract(seqnos, shown):
            warn(
                f"{store.path} shows no blocks for {spell(unshown)}, as the service that these "
                "were fetched from; their transactions are there"
            )
    tables["address_book"] = Mentioned(store, seqnos, columns)
    return Blocks(tables, source=str(store.path), seqnos=seqnos)


def read_accounts(
    path: str | PathLike[str],
    addresses: Iterable[str] | None = None,
    *,
    as_of: datetime | str | None = None,
) -> Accounts:
    """Read account states from a store; never touches the network.

    Parameters
    ----------
    path
        A store, as `fetch_accounts(..., store=path)` makes one.
    addresses
        Accounts in any form, which is also the order of the rows; None is all that are there.
    as_of
        Read the newest state fetched until this moment: a datetime with a time zone, or text (in
        UTC if it names no time zone). None is now.

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
    store = Reader(path)
    store.check()
    if isinstance(addresses, str | bytes):
        raise TypeError("addresses is a list of addresses: put a single one into a list")
    moment = None if as_of is None else parse_moment(as_of, "as_of")
    accounts = store.snapshot("accounts", as_of=moment)
    if addresses is not None:
        asked = list(dict.fromkeys(to_raw(address) for address in addresses))
        place = {address: i for i, address in enumerate(accounts["address"].to_pylist())}
        if missing := tuple(address for address in asked if address not in place):
            raise MissingError(
                f"{store.path} does not hold {len(missing)} of {len(asked)} accounts, such as "
                f"{missing[0]}",
                missing=missing,
            )
        accounts = accounts.take(pa.array([place[address] for address in asked], pa.int64()))
    return Accounts(
        {
            "accounts": accounts,
            "address_book": store.snapshot("address_book", as_of=moment),
            "metadata": store.snapshot("metadata", as_of=moment),
        },
        source=str(store.path),
    )


def _check_columns(columns: Sequence[str] | None, tables: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise TypeError("columns is a list of names: put a single one into a list")
    known = {name for table in tables for name in schema.TABLES[table].schema.names}
    if unknown := [name for name in columns or () if name not in known]:
        raise ValueError(f"no table here has a column {unknown[0]!r}: see describe(table)")
