"""Which files of a store have the rows that are asked for.

The names of files say which masterchain seqnos they have. The files of a period are found by
bisection, from the times in footers. The footers of the chosen files are verified, each once in a
process.
"""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as pads

from tonframes.bucket import BucketPath
from tonframes.errors import StoreError, warn
from tonframes.scanning.asked import Asked, expression, filter_of
from tonframes.scanning.engines import Files, local_path
from tonframes.seqnos import spell, subtract
from tonframes.store import ENDS, read_transactions, within
from tonframes.store.histories import files_of, held_spans
from tonframes.store.merging import reading_again
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tonframes.scanning.asked import Filter
    from tonframes.store import Period
    from tonframes.store.files import Footer, HeldFile
    from tonframes.store.reader import Reader

_RANGED = ("transactions", "messages", "blocks")
_SNAPSHOTS = ("accounts", "address_book", "metadata")
#: The folders of histories, by table.
_HISTORIES = {"transactions": "account_transactions", "messages": "account_messages"}

#: A block of a shard is not later than the masterchain block that commits it, and may be earlier
#: than the masterchain block before that one by less than so many seconds. The masterchain commits
#: only blocks of the validators whose turn it is in the shard (`check_one_shard` in
#: validator/impl/validate-query.cpp and `validate_internal` in top-shard-descr.cpp of the TON
#: monorepo). A turn ends in each period of `shard_catchain_lifetime` seconds
#: (`update_shard_cc_` in validate-query.cpp). By default these are 250 (configuration parameter
#: 28); an hour leaves room for other networks.
_LATE = 3600

_THREADS = 8


@dataclass(frozen=True)
class HeldTables:
    """The tables of a store that belong to masterchain seqnos, and its snapshots."""

    reader: Reader
    names = (*_RANGED, *_SNAPSHOTS)

    def __str__(self) -> str:
        return f"the store {self.reader.path}"

    def check(self, asked: Asked) -> None:
        """Raise an error unless what is asked for is held."""
        self.reader.check()
        if asked.seqnos is not None:
            self.reader.require(asked.seqnos)

    def rows(self, name: str, asked: Asked) -> Files | pa.Table:
        """Return the files of a table; of a snapshot, the newest row of each address."""
        if name in _SNAPSHOTS:
            self.reader.check()
            return self.reader.snapshot(name, addresses=asked.accounts)
        return _of_seqnos(self.reader, name, asked)


@dataclass(frozen=True)
class HistoryTables:
    """The tables of a store that belong to histories of accounts."""

    reader: Reader
    names = ("transactions", "messages")

    def __str__(self) -> str:
        return f"histories in the store {self.reader.path}"

    def check(self, asked: Asked) -> None:
        """Raise an error unless what is asked for is held."""
        if asked.seqnos is not None:
            raise ValueError("seqnos: histories are chosen by accounts, since and until")
        read_transactions(self.reader.path, asked.accounts, since=asked.since, until=asked.until)

    def rows(self, name: str, asked: Asked) -> Files:
        """Return the files of a table."""
        self.check(asked)
        return _of_histories(self.reader, name, asked)


@reading_again
def _of_seqnos(reader: Reader, name: str, asked: Asked) -> Files:
    reader.check()
    wanted = reader.held() if asked.seqnos is None else asked.seqnos
    if not wanted and asked.seqnos is None and reader.held_snapshots("account_transactions"):
        warn(
            f"{reader.path} holds no masterchain blocks, so {name} has no rows: `.histories` of "
            "`scan(store)` has the transactions of accounts that it holds"
        )
    by_account = name == "transactions" and asked.accounts is not None
    listed = reader.account_files(wanted) if by_account else reader.held_files(name, wanted)
    if lacking := subtract(wanted, [run for run, _ in listed]):
        warn(
            f"{reader.path} holds no rows of {name} for {spell(lacking)}, because the service did "
            "not show them"
        )
    listed = [] if asked.nothing else _of_period(listed, asked.period)
    _check(reader.path, [file for _, file in listed])
    whole: list[HeldFile] = []
    more: list[tuple[range, HeldFile]] = []
    for run, file in listed:
        # Of a store in a bucket, what is not there yet is here.
        in_place = isinstance(file.path, BucketPath) == isinstance(reader.path, BucketPath)
        if run == file.run and in_place:
            whole.append(file)
        else:
            more.append((run, file))
    chosen = filter_of(name, asked, [run for run, _ in listed])
    return _files(name, whole, chosen, _rows_of(name, more, chosen))


def _rows_of(name: str, more: Sequence[tuple[range, HeldFile]], chosen: Filter) -> pa.Table | None:
    """Read the rows of files that an engine cannot open together with the others."""
    if not more:
        return None
    names = schema.TABLES[name].schema.names
    rows = pa.concat_tables(within(file.read(names), [run]) for run, file in more)
    condition = expression(chosen, pads.field)
    return rows if condition is None else rows.filter(condition)


def _of_period(
    listed: list[tuple[range, HeldFile]], period: Period | None
) -> list[tuple[range, HeldFile]]:
    """Choose the files that may have rows of a period; it may be some more."""
    if period is None:
        return listed

    def last(place: int) -> int:
        """Return the last time in a file, or in the next one that has rows."""
        _, seconds = _next_with_rows(listed, place)
        return seconds

    places = range(len(listed))
    start = bisect_left(places, period.start - _LATE, key=last)
    # The rows of later files come after the last time in the file that is found here.
    stop = bisect_left(places, period.end + _LATE, key=last)
    if stop < len(listed):
        stop, _ = _next_with_rows(listed, stop)
    return listed[start : stop + 1]


def _next_with_rows(listed: list[tuple[range, HeldFile]], place: int) -> tuple[int, int]:
    """Return the place of a file, or of the next one that has rows, and the last time in it."""
    for here in range(place, len(listed)):
        _, file = listed[here]
        if (seconds := _last_second(file, file.stamp())) is not None:
            return here, seconds
    return len(listed), ENDS["utime"] + _LATE


@lru_cache(1 << 14)  # files never change; the stamp tells if another one has taken the name
def _last_second(file: HeldFile, _stamp: tuple[int, ...]) -> int | None:
    _, times = file.times()
    return int(times[1].timestamp()) if times else None


@reading_again
def _of_histories(reader: Reader, name: str, asked: Asked) -> Files:
    accounts = held_spans(reader) if asked.accounts is None else asked.accounts
    transactions = files_of(reader, accounts)
    files = [file.beside(_HISTORIES[name]) for file in transactions]
    _check(reader.path, files)
    _check_apart([file.beside("histories") for file in transactions], reader)
    return _files(name, files, filter_of(name, asked))


def _check_apart(histories: Sequence[HeldFile], reader: Reader) -> None:
    """Raise `StoreError` if two files have the same transactions, after `cp -r` of a store."""
    columns = ["account", "start_lt", "stop_lt"]
    spans = pa.concat_tables(
        [schema.HISTORIES.schema.empty_table().select(columns)]
        + [file.read(columns) for file in histories]
    ).sort_by([("account", "ascending"), ("start_lt", "ascending")])
    before, reached = None, 0
    for account, start, stop in zip(*(spans[name].to_pylist() for name in columns), strict=True):
        if account == before and start < min(stop, reached):
            raise StoreError(
                f"two files of {reader.path / 'account_transactions'} may have the same "
                f"transactions of {account}, because files of another store came in: "
                "read_transactions reads each row once",
                path=reader.path,
            )
        before, reached = account, max(stop, reached) if account == before else stop


def _check(store: Path, files: Sequence[HeldFile]) -> None:
    """Verify footers, and raise `StoreError` if one of them is of an older version."""
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = pool.map(_footer, files, [file.stamp() for file in files])
        older = [
            file
            for file, footer in zip(files, footers, strict=True)
            if footer.schema < schema.VERSION
        ]
    if older:
        raise StoreError(
            f"{len(older):,} files of {store} have columns of an older version, such as "
            f"{older[0].path}: fetch them again into another store",
            path=older[0].path,
        )


@lru_cache(1 << 16)
def _footer(file: HeldFile, _stamp: tuple[int, ...]) -> Footer:
    return file.footer()


def _files(
    name: str, files: Sequence[HeldFile], chosen: Filter, more: pa.Table | None = None
) -> Files:
    paths: list[object] = [file.path for file in files]
    objects = [path for path in paths if isinstance(path, BucketPath)]
    return Files(
        paths=tuple(path.key for path in objects) or tuple(local_path(f.path) for f in files),
        sizes=tuple(file.size() for file in files),
        schema=schema.TABLES[name].schema,
        chosen=chosen,
        more=more,
        filesystem=objects[0].filesystem if objects else None,
    )
