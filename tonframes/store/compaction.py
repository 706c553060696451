"""Compaction: the files of whole spans of masterchain seqnos become one."""

from __future__ import annotations

import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import shorten
from tonframes.seqnos import SPAN, WIDTHS, span_of
from tonframes.store.damage import find_damaged
from tonframes.store.files import (
    BY_ACCOUNT,
    RANGED,
    Damaged,
    range_name,
    write_groups,
    writing,
)
from tonframes.store.listing import MERGING
from tonframes.store.locks import locked
from tonframes.store.ranges import proof_of
from tonframes.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta
    from os import PathLike
    from pathlib import Path

    from tonframes.store.files import HeldFile

#: Rows of a row group: a reader of a few seqnos reads one or two of them, and each has its part of
#: the footer.
GROUP = 25_000
#: Rows that are sorted at once.
BATCH = 100_000
#: Bounds between batches are found by looking at so many rows of each.
_SAMPLE = 100
#: The folder of files that are not finished, and the lock of the process that writes them.
_FOLDER, _LOCK = "compacting", ".compacting.lock"


def compact_store(
    path: str | PathLike[str], *, grace: str | timedelta = "1h", by_account: bool = False
) -> list[range]:
    """Join the files of a store that have 1,000 or 10,000 consecutive masterchain seqnos.

    A fetch writes files of up to 100 seqnos. Each whole span of 10,000 seqnos (49,000,000 to
    49,009,999, for example) becomes one file of each table, and so does each whole span of 1,000
    in a span of 10,000 that is not whole. Other files stay as they are. Engines read the larger
    files faster, and they are smaller than the others together. The files of the address book, one
    of each commit, are joined too, at once, as soon as there are many small ones.

    Other processes may read, fetch and compact meanwhile. `read_blocks` and `scan` use the new
    files as soon as they are written. The files that they replace stay where they are for the
    grace, because readers that began before need them. The next fetch, `follow` or compaction
    after that puts the new files into their places and removes the others. So there must be room
    for both on the disk.

    If a process is killed, the store still has every row once, and compacting it again goes on.
    The same rows become the same bytes, whoever compacts them.

    Parameters
    ----------
    path
        A store.
    grace
        For how long files that were replaced stay at least, such as "1h" or "10min". With "0s"
        they are removed at once; an engine that has listed them before then fails with an error.
    by_account
        Whether to write a copy of the transactions of each joined span as well, sorted by account.
        `scan` reads the transactions of a few accounts from the copies. They need as much room as
        the transactions, and are kept until their span is joined into a larger one.

    Returns
    -------
    The spans that have become one file.

    Raises
    ------
    StoreError
        There is no store at `path`, it cannot be written to, or another process compacts it for
        more than a minute.

    Warns
    -----
    TonframesWarning
        A file is damaged. It was set aside, its span stays as it is, and a fetch fills the gap.

    Examples
    --------
    >>> import tonframes as tf
    >>> compact_store(tf.sample())  # has fewer than 1,000 masterchain seqnos
    []
    """
    seconds = _seconds(grace)
    store = Store(path)
    store.check()
    spans = _whole_spans(store)
    begun = any((store.path / name).exists() for name in (MERGING, _FOLDER))
    if not (spans or by_account or begun or store.crowded_address_book()):
        return []
    store.prepare()
    folder = store.path / _FOLDER
    compacted = []
    with writing(store.path), locked(store.path, _LOCK):
        try:
            for span in spans:
                shutil.rmtree(folder, ignore_errors=True)  # or a killed process has left it
                folder.mkdir()
                if _compact(store, span, folder):
                    compacted.append(span)
                    store.settle(seconds)
            if by_account:
                _sort(store, folder)
            store.join_address_book()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    store.settle(seconds)
    store.remove_copies(seconds)
    return compacted


def _seconds(grace: str | timedelta) -> float:
    wrong = f'grace is a duration such as "1h", not {shorten(grace)}'
    try:
        seconds = pd.Timedelta(grace).total_seconds()
    except (ValueError, TypeError):
        raise ValueError(wrong) from None
    # pandas takes a number without a unit for nanoseconds.
    if isinstance(grace, int | float) or str(grace).strip().isdecimal() or not seconds >= 0:
        raise ValueError(wrong)
    return float(seconds)


def _whole_spans(store: Store) -> list[range]:
    """List the widest spans that are held and have several files."""
    found, rest = [], list(store.files(RANGED[-1]))
    for width in reversed(WIDTHS[1:]):
        spans = defaultdict(list)
        for run in rest:
            spans[span_of(run.start, width)].append(run)
        rest = []
        for span, runs in spans.items():
            if sum(map(len, runs)) < len(span):
                rest += runs
            elif len(runs) > 1:
                found.append(span)
    return found


def _compact(store: Store, span: range, folder: Path) -> bool:
    """Join the files of a span, and return whether this was possible."""
    if store.gaps([span]):
        return False
    files = [file for _, file in store.held_files(RANGED[-1], [span])]
    if find_damaged(files):
        store.verify([span])
        return False
    try:
        footers = [file.footer() for file in files]
        tables = footers[0].tables
        if any(list(footer.tables) != list(tables) for footer in footers):
            return False
        for name in tables:
            parts = [file.beside(name) for file in files]
            table = parts[0].table
            footer = store.new_footer(
                rows=sum(part.footer().rows for part in parts),
                start=span.start,
                stop=span.stop,
                proof=proof_of(footers),
                tables=tables if name == RANGED[-1] else (),
            )
            groups = _groups(rows for part in parts for rows in part.groups(table.schema.names))
            write_groups(folder / f"{name}.parquet", table, groups, footer)
    except Damaged:
        return False
    return store.replace_range(span, [file.path for file in files], folder)


def _sort(store: Store, folder: Path) -> None:
    """Write the copies by account that are lacking."""
    for run, file in store.held_files(RANGED[-1], store.held()):
        copy = store.held_file(BY_ACCOUNT, range_name(run))
        if len(run) <= SPAN or run != file.run or _is_sound(copy):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            said = file.footer()
            footer = store.new_footer(
                rows=said.rows, start=run.start, stop=run.stop, proof=said.proof
            )
            new = folder / copy.path.name
            write_groups(new, copy.table, _groups(sorted_by_account(file, folder)), footer)
        except Damaged:
            store.verify([run])
        else:
            store.place_copy(new)


def _is_sound(file: HeldFile) -> bool:
    try:
        file.footer()
    except Damaged:
        return False
    return True


def _groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Cut consecutive rows into row groups, each in one piece of memory.

    Where Parquet ends a page depends on the pieces, so the bytes of the file would as well.
    """
    kept: list[pa.Table] = []
    for part in parts:
        kept.append(part)
        while sum(map(len, kept)) >= GROUP:
            rows = pa.concat_tables(kept)
            yield rows.slice(0, GROUP).combine_chunks()
            kept = [rows.slice(GROUP)]
    if rest := [part for part in kept if len(part)]:
        yield pa.concat_tables(rest).combine_chunks()


def sorted_by_account(file: HeldFile, folder: Path) -> Iterator[pa.Table]:
    """Read the rows of a file of transactions by (account, lt).

    They are divided into consecutive ranges of that order, which are written to the disk, and each
    of them is sorted in memory. `folder` is for these files, which are removed as they are read.
    """
    step = BATCH // _SAMPLE
    keys = [_keys(rows)[step // 2 :: step] for rows in file.groups(["account", "lt"])]
    bounds = np.sort(np.concatenate([np.array([], "U"), *keys]))[_SAMPLE::_SAMPLE]
    parts = [folder / f"{number}.arrow" for number in range(len(bounds) + 1)]
    schema = file.table.schema
    sinks = [pa.ipc.new_file(str(part), schema) for part in parts]
    for rows in file.groups(schema.names):
        numbers = np.searchsorted(bounds, _keys(rows), side="right")
        for number in np.unique(numbers):
            sinks[number].write_table(rows.filter(pa.array(numbers == number)))
    for sink in sinks:
        sink.close()
    for part in parts:
        with pa.OSFile(str(part)) as source:
            rows = pa.ipc.open_file(source).read_all()
        part.unlink()
        yield rows.sort_by([("account", "ascending"), ("lt", "ascending")])


def _keys(rows: pa.Table) -> np.ndarray:
    """Return texts that have the order of (account, lt): no address begins with another one."""
    lt = pc.utf8_lpad(rows["lt"].cast(pa.string()), 20, "0")
    return np.array(pc.binary_join_element_wise(rows["account"], lt, ":").to_pylist(), "U")
