"""A chain of made-up transactions as columns of numbers: which trace, account, time and balance.

Traces of the sample begin at random masterchain blocks, and each gets accounts of its own: popular
ones often, most of them rarely (Zipf), those that it creates never again. An account's transactions
are a chain, with its balance, its rent and the version of its data.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tonframes.network.prices import BASECHAIN, STORAGE

from .hashes import mixed, uniform
from .templates import MORE_GAS, MOST, templates

#: Where the chain begins, after the newest prices of storage.
SEQNO, TIME, LT = 70_000_000, 1_780_000_000, 60_000_000_000_000
#: Logical times from one masterchain block to the next, and from one transaction of a trace to the
#: next: their messages are between them.
STEP, APART = 4_000_000, 32
#: Traces that may have transactions in one masterchain block; see `lt_of`.
_SLOTS = STEP // (APART * MOST)
#: Traces that begin in each masterchain block, besides those of ticks and tocks.
TRACES = 14
#: A masterchain block comes every 2.1 seconds.
_TENTHS = 21
#: Accounts that have transactions again and again; new ones come to these.
ACCOUNTS = 500_000


@dataclass
class Skeleton:
    """Transactions in order, by columns.

    Attributes
    ----------
    row
        The row of the sample that it is made from.
    instance, number
        The trace, counted from 0; the transaction, counted so that those of a trace follow each
        other.
    fresh
        The first new account of the trace.
    seqno, lt, account
        Where it is.
    previous, previous_lt
        The number of the account's transaction before it, -1 if that is not known; its time, 0 if
        there is none.
    data_before, data_after
        The number of the transaction that wrote the account's data, before and after; -1 if that
        is not known.
    rent, before, after
        Nanoton: rent, and the balance before and after.
    """

    row: np.ndarray
    instance: np.ndarray
    number: np.ndarray
    fresh: np.ndarray
    seqno: np.ndarray
    lt: np.ndarray
    account: np.ndarray
    previous: np.ndarray
    previous_lt: np.ndarray
    data_before: np.ndarray
    data_after: np.ndarray
    rent: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def part(self, start: int, stop: int) -> Skeleton:
        """Return some of the rows."""
        return Skeleton(*(getattr(self, field.name)[start:stop] for field in fields(self)))


def time_of(seqnos: np.ndarray) -> np.ndarray:
    """Return the unix time of masterchain blocks."""
    return TIME + (seqnos - SEQNO) * _TENTHS // 10


def lt_of(instance: np.ndarray, seqno: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Return the logical time of a trace's transaction: no two have the same."""
    slot = instance % _SLOTS * MOST + local
    return LT + (seqno - SEQNO) * STEP + slot * APART + 1


def gas_of(row: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gas of transactions, and by how much it costs more than that of the sample."""
    found = templates()
    more = (mixed(number, "gas") % np.uint64(MORE_GAS)).astype(np.int64)
    used = found.gas[row] + np.where(found.metered[row], more, 0)
    return used, _gas_price(used) - _gas_price(found.gas[row])


def _gas_price(gas: np.ndarray) -> np.ndarray:
    """Return the price of gas that is more than the flat limit."""
    prices = BASECHAIN[-1]
    return -(-(gas - prices.flat_gas_limit) * prices.gas_price // 2**16)


def account_of(
    trace: np.ndarray, instance: np.ndarray, fresh: np.ndarray, local: np.ndarray
) -> np.ndarray:
    """Return the accounts that traces have drawn from their pools."""
    found = templates()
    pool = found.pool[trace, local]
    sizes = pool_sizes()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = np.maximum(pool, 0)
    size = sizes[place]
    # Inverse of the cumulative distribution of Zipf's law with exponent 1.
    share = uniform(instance * MOST + local, "drawn")
    rank = np.minimum((size + 1.0) ** share - 1, size - 1).astype(np.int64)
    return np.where(pool < 0, fresh - 1 - pool, starts[place] + rank)


def pool_sizes() -> np.ndarray:
    """Return how many accounts each pool has; those of the masterchain come first."""
    found = templates()
    counts = np.array(found.pools)
    sizes = np.maximum(counts * ACCOUNTS // counts.sum(), 1)
    sizes[: len(found.specials)] = 1
    return sizes


class Chain:
    """What is known after some masterchain blocks, to go on from there."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.seqno = SEQNO
        self.written = self.transactions = self.traces = 0
        self.accounts = int(pool_sizes().sum())
        self._last = np.empty((0, 5), np.int64)
        self._pending = [np.empty(0, np.int64)] * 5
        self._grow()

    def go_on(self, count: int) -> Skeleton:
        """Return the transactions of the next masterchain blocks."""
        stop = self.seqno + count
        new = self._begin(range(self.seqno, stop))
        columns = [np.concatenate(pair) for pair in zip(self._pending, new, strict=True)]
        now = columns[4] < stop
        self._pending = [column[~now] for column in columns]
        self.seqno = stop
        self._grow()
        return self._linked(*(column[now] for column in columns))

    def _begin(self, seqnos: range) -> list[np.ndarray]:
        """Return the rows of the traces that begin in some masterchain blocks."""
        found, count = templates(), len(seqnos)
        kinds = [self.random.choice(kind, (count, 1)) for kind in found.special]
        usual = self.random.choice(found.ordinary, (count, TRACES))
        traces = np.concatenate([*kinds, usual], axis=1).ravel()
        begun = np.repeat(np.array(seqnos), len(kinds) + TRACES)
        sizes, fresh = found.size[traces], found.fresh[traces]
        ends = np.cumsum(sizes)
        first = np.repeat(ends - sizes, sizes)
        local = np.arange(ends[-1]) - first
        row = np.repeat(found.start[traces], sizes) + local
        made = np.repeat(self.accounts + np.cumsum(fresh) - fresh, sizes)
        instance = np.repeat(self.traces + np.arange(len(traces)), sizes)
        number = self.transactions + np.arange(ends[-1])
        self.accounts += int(fresh.sum())
        self.traces += len(traces)
        self.transactions += int(ends[-1])
        return [row, instance, number, made, np.repeat(begun, sizes) + found.later[row]]

    def _grow(self) -> None:
        """Make room for new accounts: number, lt, time and data of the last one, and balance."""
        start, stop = len(self._last), self.accounts
        accounts = np.arange(start, stop)
        more = np.empty((stop - start, 5), np.int64)
        chance = uniform(accounts, "earlier")
        more[:, 0] = more[:, 3] = -1 - accounts
        more[:, 2] = TIME - 1 - (chance * 1_000_000).astype(np.int64)
        more[:, 1] = LT - (TIME - more[:, 2]) * STEP
        # Popular accounts pay more than they get, as the traces of the sample do.
        more[:, 4] = 10**12 + 10**17 // (accounts - start + 1) if start == 0 else 0
        self._last = np.concatenate([self._last, more])

    def _linked(self, row, instance, number, fresh, seqno) -> Skeleton:
        """Return transactions in order, each with what its account was before it."""
        found = templates()
        local = row - found.start[found.trace[row]]
        lt = lt_of(instance, seqno, local)
        order = np.argsort(lt)
        row, instance, number, fresh, seqno, lt = (
            column[order] for column in (row, instance, number, fresh, seqno, lt)
        )
        account = account_of(found.trace[row], instance, fresh, found.account[row])
        by = np.argsort(account, kind="stable")
        ids, rows, own = account[by], row[by], number[by]
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        lasts = np.append(starts[1:], len(ids))
        group = np.repeat(np.arange(len(starts)), lasts - starts)
        known = self._last[ids[starts]]
        # An account that a trace brings with it may have been there before, and have money.
        brought = (known[:, 4] == 0) & (known[:, 0] < 0) & ~found.born[rows[starts]]
        known[:, 4] += np.where(brought, 10**12, 0)

        def before(values: np.ndarray, place: int) -> np.ndarray:
            shifted = np.empty_like(values)
            shifted[1:] = values[:-1]
            shifted[starts] = known[:, place]
            return shifted

        now = time_of(seqno[by])
        born = found.born[rows]
        gap = now - before(now, 2)
        rent = np.where(found.paying[rows], _rent(ids, gap), found.rent[rows])
        moved = found.change[rows] - rent - gas_of(rows, own)[1]
        total = np.cumsum(moved)
        offset = known[:, 4] - (total[starts] - moved[starts])
        balance = total + offset[group]
        # The last transaction that wrote the data: the greatest place within the group.
        wrote = np.where(found.rewrites[rows], np.arange(len(rows)), -1)
        wrote = np.maximum.accumulate(wrote)
        data = np.where(wrote >= starts[group], own[np.maximum(wrote, 0)], known[group, 3])
        sorted_columns = (
            np.where(born, -1, before(own, 0)),
            np.where(born, 0, before(lt[by], 1)),
            before(data, 3),
            data,
            rent,
            balance - moved,
            balance,
        )
        ends = lasts - 1
        self._last[ids[starts]] = np.stack(
            [own[ends], lt[by][ends], now[ends], data[ends], balance[ends]], axis=1
        )
        back = np.empty_like(by)
        back[by] = np.arange(len(by))
        linked = (column[back] for column in sorted_columns)
        return Skeleton(row, instance, number, fresh, seqno, lt, account, *linked)


def _rent(accounts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the rent for some time: an account has 3 to 60 cells, and always as many."""
    prices = STORAGE[-1]
    cells = 3 + accounts * 7 % 58
    bits = cells * 300
    due = (cells * prices.cell_price + bits * prices.bit_price) * np.maximum(seconds, 0)
    return -(-due // 2**16)
