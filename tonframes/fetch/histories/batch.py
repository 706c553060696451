"""Histories of as many accounts as one request takes, read until they are complete."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.addresses import to_raw
from tonframes.client import MOST_ROWS, TooLongError
from tonframes.errors import DecodeError, shorten
from tonframes.fetch.block import wait_before
from tonframes.fetch.histories.chains import After, Created, Disputed, Last, Named
from tonframes.fetch.proof import contradicted, lack
from tonframes.fetch.windows import read_page
from tonframes.store import COLUMNS, ENDS
from tonframes.wire import pages, schema
from tonframes.wire.tables import concat, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonframes.client import Client
    from tonframes.fetch.histories.chains import Chains, Step
    from tonframes.store import Spans, Unit
    from tonframes.wire.tables import Tables

#: How often a transaction that there must be is asked for.
ATTEMPTS = 12
#: The same for a transaction that is older than the first masterchain block of the service.
ATTEMPTS_BEFORE = 3
#: After so many, the one that names it is asked for again: it may name a wrong one.
DOUBTED = 2
#: How often states are asked for until they prove where the histories end: for some seconds, after
#: which a replica that was a little behind has the last block.
LOOKS = 6
#: Rows of a request for single transactions: so many for each account, at least so many.
ROWS_PER_ACCOUNT, FEWEST_ROWS = 4, 16
#: Windows that begin and end within the same cell of this grid are read as one: about a day.
GRID = {"lt": 2**35, "utime": 86_400}


#: The elector. It runs in every masterchain block (ton, block.tlb `trans_tick_tock`).
WITNESS = "-1:" + "3" * 64


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AccountPage:
    """A page of transactions of some accounts."""

    #: Rows of the answer.
    count: int
    #: Whether there may be more rows: the answer has as many as were asked for.
    full: bool
    tables: Tables
    #: Hashes of the transactions whose messages did not all come, or which contradict the one
    #: before or after them.
    lacking: frozenset[str]

    @property
    def transactions(self) -> pa.Table:
        return self.tables["transactions"]


def last_transactions(client: Client, accounts: Sequence[str]) -> dict[str, Last]:
    """Return the last transactions of accounts, from their states; accounts without any are absent.

    One more account is asked for, `WITNESS`, whose last transaction shows how far the replica is.
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
    most: int = MOST_ROWS,
) -> Iterator[AccountPage]:
    """Yield all transactions of a window, oldest first, in pages of at most so many rows.

    The next page begins with the number of the last row, and leaves out as many rows as have this
    number and came before: many accounts may share a logical time, or a second.
    """
    start, offset = window.start, 0
    while True:
        remaining = range(start, window.stop)
        page = read_account_page(client, accounts, unit, remaining, most=most, offset=offset)
        yield page
        if not page.full:
            return
        numbers = page.transactions[COLUMNS[unit]]
        last = pc.max(numbers).as_py()
        same = pc.sum(pc.equal(numbers, last)).as_py()
        start, offset = last, (offset + same if last == start else same)


def read_account_page(
    client: Client,
    accounts: Sequence[str],
    unit: Unit,
    window: range,
    *,
    most: int = MOST_ROWS,
    offset: int = 0,
    newest_first: bool = False,
) -> AccountPage:
    """Read a page of a window: as many rows as the service manages, or fewer."""
    ask = partial(
        client.account_transactions,
        accounts,
        _page_parser(accounts, unit, window),
        unit=unit,
        first=window.start,
        last=window.stop - 1,
        newest_first=newest_first,
        offset=offset,
    )
    (count, tables, lacking), limit = read_page(client, ask, most)
    return AccountPage(count, count >= limit, tables, lacking)


def _page_parser(
    accounts: Sequence[str], unit: Unit, window: range
) -> Callable[[bytes], tuple[int, Tables, frozenset[str]]]:
    """Return a function that reads a page, and refuses transactions that were not asked for."""
    asked = pa.array(accounts, pa.string())

    def parse(content: bytes) -> tuple[int, Tables, frozenset[str]]:
        page = pages.read(schema.BLOCKS_ANSWER, content)
        if page.answer.transactions is None:
            raise DecodeError("$", 'an object with "transactions"', "one without")
        tables = pages.blocks_tables([page])
        transactions = tables["transactions"]
        others = transactions.filter(pc.invert(pc.is_in(transactions["account"], value_set=asked)))
        if len(others):
            other = shorten(others["account"][0].as_py())
            raise DecodeError("$.transactions", "transactions of the accounts asked for", other)
        ends = pc.min_max(transactions[COLUMNS[unit]]).as_py()
        if len(transactions) and not window.start <= ends["min"] <= ends["max"] < window.stop:
            other = ends["min"] if ends["min"] < window.start else ends["max"]
            expected = f"{COLUMNS[unit]} from {window.start} and before {window.stop}"
            raise DecodeError("$.transactions", expected, shorten(other))
        rows = page.answer.transactions
        lacking = {row.hash for row in rows if lack(row)}
        return len(rows), tables, frozenset(lacking | contradicted(transactions))

    return parse


# ── a batch of accounts ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NewRows:
    tables: Tables
    #: Whether they take the place of those that are known with other hashes.
    replacing: bool = False


@dataclass(frozen=True, slots=True)
class Absence:
    """Where accounts have no transactions."""

    spans: Spans


class Batch:
    """Reads the histories of some accounts; what was unknown is delivered page by page."""

    def __init__(
        self, client: Client, chains: Chains, deliver: Callable[[NewRows | Absence], None]
    ) -> None:
        self._client = client
        self._chains = chains
        self._deliver = deliver

    def fetch(self, accounts: Sequence[str]) -> dict[str, Step]:
        """Read what is unknown, of halves if the URL is too long; return what did not come."""
        try:
            return self._read(accounts)
        except TooLongError:
            if len(accounts) == 1:
                raise
        half = len(accounts) // 2
        return self.fetch(accounts[:half]) | self.fetch(accounts[half:])

    def _read(self, accounts: Sequence[str]) -> dict[str, Step]:
        """Read until the histories are complete, and proven to their ends if they can be."""
        failed: dict[str, Step] = {}
        for look in range(LOOKS):
            if look:
                wait_before(self._client, look - 1)
            knows_witness = self._ask_last(accounts)
            for window, unit, some in self._windows(accounts):
                for page in read_window(self._client, some, unit, window):
                    self._take_in_order(page, unit, window.start)
            failed |= self._complete(accounts)
            accounts = [a for a in accounts if a not in failed and self._chains.is_unproven(a)]
            if not accounts or (look and not knows_witness):
                break
        return failed

    def _ask_last(self, accounts: Sequence[str]) -> bool:
        """Ask for the last transactions of accounts; return whether the service knows `WITNESS`."""
        states = last_transactions(self._client, accounts)
        without = [account for account in accounts if account not in states]
        self._chains.note_states(accounts, states, self._last_of(without))
        return WITNESS in states

    def _last_of(self, accounts: Sequence[str]) -> dict[str, Last]:
        """Return the last transactions of those accounts that have any, though they have no state.

        An answer may lack states: only their transactions tell whether accounts have none.
        """
        last: dict[str, Last] = {}
        waiting = list(accounts)
        while waiting:
            most = _rows(len(waiting))
            page = read_account_page(
                self._client, waiting, "lt", range(ENDS["lt"]), most=most, newest_first=True
            )
            columns = (page.transactions[name].to_pylist() for name in ("account", "lt", "hash"))
            for account, lt, tx_hash in zip(*columns, strict=True):
                last.setdefault(account, Last(lt, tx_hash))
            if not page.full:
                break
            waiting = [account for account in waiting if account not in last]
        return last

    def _windows(self, accounts: Sequence[str]) -> Iterator[tuple[range, Unit, list[str]]]:
        """Yield the windows to read: gaps of accounts that are almost the same, as one."""
        cells: dict[tuple[Unit, int, int], list[tuple[range, str]]] = defaultdict(list)
        for account in accounts:
            if self._chains.step(account) is None:
                continue
            unit = self._chains.periods[account].unit
            for gap in self._chains.gaps(account):
                cells[unit, gap.start // GRID[unit], gap.stop // GRID[unit]].append((gap, account))
        for (unit, _, _), gaps in sorted(cells.items()):
            window = range(min(g.start for g, _ in gaps), max(g.stop for g, _ in gaps))
            yield window, unit, list(dict.fromkeys(account for _, account in gaps))

    def _complete(self, accounts: Sequence[str]) -> dict[str, Step]:
        """Ask for single transactions until all chains are complete, or cannot be."""
        failed: dict[str, Step] = {}
        tries: dict[str, int] = defaultdict(int)
        disputes: dict[str, int] = defaultdict(int)
        rounds, waited = 0, 0.0
        while True:
            steps = {a: self._chains.step(a) for a in accounts if a not in failed}
            after = [account for account, step in steps.items() if isinstance(step, After)]
            named = {a: step for a, step in steps.items() if isinstance(step, Named)}
            single = {a: step for a, step in steps.items() if isinstance(step, Disputed | Created)}
            if after:
                self._ask_after(after)
                continue
            if not named and not single:
                return failed
            before = {account: self._chains.spans[account] for account in steps}
            for account, step in single.items():
                if isinstance(step, Disputed):
                    disputes[account] += 1
                    self._ask_disputed(account, step.lt)
                else:
                    self._ask_before(account, step)
            due = [*single, *(self._ask_named(named, rounds) if named else ())]
            rounds += 1
            wanted = single | named
            absent = [
                account
                for account in due
                if self._chains.spans[account] == before[account] or disputes[account] > ATTEMPTS
            ]
            tries.update(dict.fromkeys(set(due).difference(absent), 0))
            for account in absent:
                tries[account] += 1
                if tries[account] == DOUBTED:
                    self._ask_disputed(account, wanted[account].lt)
                old = self._chains.is_before_service(account, wanted[account])
                most = ATTEMPTS_BEFORE if old else ATTEMPTS
                if tries[account] >= most or waited > self._client.deadline:
                    failed[account] = wanted[account]
            if absent and len(absent) == len(due):
                waited += wait_before(self._client, tries[absent[0]])

    def _ask_disputed(self, account: str, lt: int) -> None:
        """Ask for a transaction, the one before it and two after it, and for the state."""
        self._ask_last([account])
        this = read_account_page(
            self._client, [account], "lt", range(lt + 1), most=1, newest_first=True
        ).transactions
        start = min([lt, *this["lt"].to_pylist(), *this["prev_trans_lt"].to_pylist()])
        read: list[AccountPage] = []
        for page in read_window(self._client, [account], "lt", range(start, ENDS["lt"]), most=4):
            read.append(page)
            if sum(page.count for page in read) >= 4:  # noqa: PLR2004 - as many as are needed
                break
        tables = concat([page.tables for page in read])
        rows = tables["transactions"]
        lacking = contradicted(rows).union(*(page.lacking for page in read))
        page = AccountPage(len(rows), read[-1].full, tables, frozenset(lacking))
        self._take(page, range(len(rows)))

    def _ask_before(self, account: str, created: Created) -> None:
        """Ask for what comes before the transaction that created an account, and for that one."""
        unit = self._chains.periods[account].unit
        window = range(created.start, ENDS[unit])
        for page in read_window(self._client, [account], unit, window, most=FEWEST_ROWS):
            self._take_in_order(page, unit, window.start)
            if (pc.max(page.transactions[COLUMNS[unit]]).as_py() or 0) >= created.stop:
                break

    def _ask_after(self, accounts: Sequence[str]) -> None:
        """Ask for the first transaction of each account at or after the end of its period."""
        by_end: dict[tuple[Unit, int], list[str]] = defaultdict(list)
        for account in accounts:
            period = self._chains.periods[account]
            by_end[period.unit, period.end].append(account)
        for (unit, start), some in by_end.items():
            waiting, most = some, _rows(len(some))
            while waiting:
                page = read_account_page(
                    self._client, waiting, unit, range(start, ENDS[unit]), most=most
                )
                first: dict[str, int] = {}
                for i, account in enumerate(page.transactions["account"].to_pylist()):
                    first.setdefault(account, i)
                self._take(page, list(first.values()))
                if not page.full:
                    break
                waiting = [account for account in waiting if account not in first]
                most *= 2
        self._chains.asked_after.update(accounts)

    def _ask_named(self, named: dict[str, Named], rounds: int) -> list[str]:
        """Ask for named transactions and those before them; return whose are on the page."""
        window = range(
            min(step.floor for step in named.values()), max(step.lt for step in named.values()) + 1
        )
        page = read_account_page(
            self._client,
            list(named),
            "lt",
            window,
            most=_rows(len(named)) << min(rounds, 10),
            newest_first=True,
        )
        rows = page.transactions
        self._take(page, self._chains.needed_before(rows, {a: s.lt for a, s in named.items()}))
        reached = pc.min(rows["lt"]).as_py() if page.full else window.start
        return [account for account, step in named.items() if step.lt >= reached]

    def _take_in_order(self, page: AccountPage, unit: Unit, start: int) -> None:
        """Take all rows of a page of a window that begins at `start`, oldest first."""
        rows = page.transactions
        left = self._take(page, range(len(rows)))
        if absence := self._chains.note_created(rows, start, unit, incomplete=left):
            self._deliver(Absence(absence))

    def _take(self, page: AccountPage, positions: Sequence[int]) -> set[str]:
        """Add rows of a page to the chains; deliver those that were unknown, or known otherwise.

        A transaction whose messages did not all come, or which contradicts another one, counts as
        one that did not come: the chains ask for it again. Returns the accounts of which such rows
        were left out.
        """
        accounts = page.transactions["account"].to_pylist()
        hashes = page.transactions["hash"].to_pylist()
        whole = [i for i in positions if hashes[i] not in page.lacking]
        rows = page.transactions.take(pa.array(whole, pa.int64()))
        replaced = self._chains.correct(rows)
        disputed = self._chains.dispute(rows)
        agreed = [i for i in range(len(rows)) if i not in disputed]
        fresh = [agreed[i] for i in self._chains.add(rows.take(pa.array(agreed, pa.int64())))]
        for chosen in (replaced, fresh):
            if chosen:
                transactions = rows.take(pa.array(chosen, pa.int64()))
                hashes, messages = transactions["hash"].combine_chunks(), page.tables["messages"]
                messages = messages.filter(pc.is_in(messages["tx_hash"], value_set=hashes))
                tables = page.tables | {"transactions": transactions, "messages": messages}
                tables = stamped(tables, datetime.now(UTC))
                self._deliver(NewRows(tables, replacing=chosen is replaced))
        kept = {whole[i] for i in agreed}
        return {accounts[i] for i in positions if i not in kept}


def _rows(accounts: int) -> int:
    return max(FEWEST_ROWS, ROWS_PER_ACCOUNT * accounts)
