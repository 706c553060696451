"""Pages of transactions of some accounts, and the last transactions from their states."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw
from tonframes.client import TooManyRowsError
from tonframes.errors import DecodeError, shorten
from tonframes.fetch.proof import contradicted, lack
from tonframes.store import COLUMNS
from tonframes.wire import pages, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.store import Unit
    from tonframes.wire.tables import Tables


#: The elector. It runs in every masterchain block (ton, block.tlb `trans_tick_tock`).
WITNESS = "-1:" + "3" * 64


class Last(NamedTuple):
    """An account's last transaction."""

    lt: int
    hash: str | None


@dataclass(frozen=True, slots=True)
class AccountPage:
    """A page of transactions of some accounts.

    Attributes
    ----------
    count
        Rows of the answer.
    full
        Whether there may be more rows: the answer has as many as were asked for.
    tables
        The rows as tables.
    lacking
        Hashes of the transactions whose messages did not all come, or which contradict the one
        before or after them.
    """

    count: int
    full: bool
    tables: Tables
    lacking: frozenset[str]

    @property
    def transactions(self) -> pa.Table:
        """The transactions."""
        return self.tables["transactions"]


def last_transactions(client: Client, accounts: Sequence[str]) -> dict[str, Last]:
    """Return the last transactions of accounts, from their states; accounts without any are absent.

    One more account is asked for, `WITNESS`, whose last transaction shows how far the replica is.

    Raises
    ------
    RequestError, DecodeError
        The service does not answer, or its answer is about other accounts.
    """
    asked = list(dict.fromkeys([*accounts, WITNESS]))

    def parse(content: bytes) -> dict[str, Last]:
        states = {}
        for i, row in enumerate(pages.read(schema.ACCOUNTS_ANSWER, content).answer.accounts or ()):
            try:
                address = to_raw(row.address)
            except ValueError:
                address = ""
            if address not in asked:
                path = f"$.accounts[{i}].address"
                raise DecodeError(path, "one of the accounts asked for", shorten(row.address))
            if lt := int(row.last_transaction_lt or 0):
                states[address] = Last(lt, row.last_transaction_hash)
        return states

    return client.account_states(asked, parse, include_boc=False)


def read_window(
    client: Client,
    accounts: Sequence[str],
    unit: Unit,
    window: range,
    *,
    most: int | None = None,
) -> Iterator[AccountPage]:
    """Yield all transactions of a window, oldest first, in pages of at most so many rows.

    The next page begins with the number of the last row, and leaves out as many rows as have this
    number and came before: many accounts may share a logical time, or a second.
    """
    start, offset = window.start, 0
    while True:
        rest = range(start, window.stop)
        page = read_page(client, accounts, unit, rest, most=most, offset=offset)
        yield page
        if not page.full:
            return
        numbers = page.transactions[COLUMNS[unit]]
        last = pc.max(numbers).as_py()
        same = pc.sum(pc.equal(numbers, last)).as_py()
        start, offset = last, (offset + same if last == start else same)


def read_page(
    client: Client,
    accounts: Sequence[str],
    unit: Unit,
    window: range,
    *,
    most: int | None = None,
    offset: int = 0,
    newest_first: bool = False,
) -> AccountPage:
    """Read a page of the transactions of a window: as many rows as the service manages, or fewer.

    Parameters
    ----------
    most
        Most rows; None for as many as the service manages.
    """
    parse = _reading(accounts, unit, window)
    ends = time.monotonic() + client.deadline
    while True:
        limit = client.page_limit.rows
        if most is not None:
            limit = min(limit, most)
        try:
            count, tables, lacking = client.account_transactions(
                accounts,
                parse,
                unit=unit,
                first=window.start,
                last=window.stop - 1,
                newest_first=newest_first,
                limit=limit,
                offset=offset,
            )
            return AccountPage(count, count >= limit, tables, lacking)
        except TooManyRowsError:
            if time.monotonic() >= ends:
                raise


def _reading(
    accounts: Sequence[str], unit: Unit, window: range
) -> Callable[[bytes], tuple[int, Tables, frozenset[str]]]:
    """Return a function that reads a page; it refuses transactions that were not asked for."""
    asked = pa.array(accounts, pa.string())

    def parse(content: bytes) -> tuple[int, Tables, frozenset[str]]:
        page = pages.read(schema.BLOCKS_ANSWER, content)
        if page.answer.transactions is None:
            raise DecodeError("$", 'an object with "transactions"', "one without")
        tables = pages.blocks_tables([page])
        transactions = tables["transactions"]
        others = transactions.filter(pc.invert(pc.is_in(transactions["account"], value_set=asked)))
        if len(others):
            found = shorten(others["account"][0].as_py())
            raise DecodeError("$.transactions", "transactions of the accounts asked for", found)
        ends = pc.min_max(transactions[COLUMNS[unit]]).as_py()
        if len(transactions) and not window.start <= ends["min"] <= ends["max"] < window.stop:
            found = ends["min"] if ends["min"] < window.start else ends["max"]
            expected = f"{COLUMNS[unit]} from {window.start} and before {window.stop}"
            raise DecodeError("$.transactions", expected, shorten(found))
        rows = page.answer.transactions
        lacking = {row.hash for row in rows if lack(row)}
        return len(rows), tables, frozenset(lacking | contradicted(transactions))

    return parse
