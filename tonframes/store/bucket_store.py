"""Whole spans and snapshots are put into a bucket; see `bucket_reader`."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tonframes.bucket import BucketPath, is_url
from tonframes.errors import MissingError, warn
from tonframes.seqnos import joined, overlapping, spell, subtract
from tonframes.store.bucket_reader import BucketReader
from tonframes.store.files import (
    ASIDE,
    OF_ACCOUNTS,
    RANGED,
    SNAPSHOT_FOLDERS,
    Damaged,
    Footer,
    HeldFile,
    content,
    in_threads,
    range_name,
)
from tonframes.store.identity import COLUMNS, NETWORK, StoreInfo, encoded, meanings, read_info
from tonframes.store.listing import run_of
from tonframes.store.store import Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    import pyarrow as pa

#: Requests for footers at the same time: each waits for the service nearly all of its time.
THREADS = 16

#: Objects whose footers this process has found good, with what the service said of them.
_good: set[tuple[object, ...]] = set()


class BucketStore(BucketReader):
    """A store in a bucket that is written to, by any number of processes at a time."""

    def prepare(self) -> None:
        """Check that both places can be written to, before anything is asked of a service."""
        self.bucket.check_bucket()
        info = self.info()
        self.local.prepare()
        if info is None:
            return
        if self._info is None:
            self._write_info(info.network)
        else:  # shows whether the bucket can be written to
            (self.bucket / NETWORK).put(encoded(self._info))
        self.put_whole()
        held = self._spans_put()  # another process may have put it
        if any(overlapping(run, held) for run in self.local.held()):
            self.local.leave(held)

    def claim(self, network: str, service: str) -> None:
        """Make the bucket a store of this network, or refuse if it is one of another."""
        self._check_network(network, service)
        self.local.claim(network, service)
        if self._info is None:
            self._write_info(network)

    def _write_info(self, network: str) -> None:
        self._info = StoreInfo(network, None, schema.VERSION)
        (self.bucket / COLUMNS).put(meanings())
        (self.bucket / NETWORK).put(encoded(self._info))

    def _check_local(self) -> None:
        """Raise `StoreError` if the bucket is of another network than the local part by now."""
        self._check_network(self.local.network or "", f"its local part {self.local.path}")

    def _check_network(self, network: str, other: str) -> None:
        """Raise `StoreError` if the bucket is of another network by now."""
        self._info = read_info(self.path)
        if self._info is not None and self._info.network != network:
            raise self._other_network(network, other)

    def gaps(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Return the parts of these ranges that are not held now."""
        self._listings.clear()
        return super().gaps(seqnos)

    def write_blocks(
        self, tables: Mapping[str, pa.Table], seqnos: Iterable[range], *, proof: str
    ) -> None:
        """Commit the rows of whole masterchain blocks, and put the spans that are whole now."""
        # Whether the bucket holds some by now is not asked: it may not answer. It counts then.
        self.local.write_blocks(tables, seqnos, proof=proof)
        self.put_whole()

    def merge(self, seqnos: range) -> None:
        """Merge adjacent small files of the local part."""
        self.local.merge(seqnos)

    def write_accounts(self, tables: Mapping[str, pa.Table]) -> None:
        """Append snapshots of accounts, of the address book and of metadata."""
        self.local.write_accounts(tables)
        self._check_local()
        self._put_snapshots(SNAPSHOT_FOLDERS)

    def put_whole(self) -> None:
        """Put the spans that the local part holds wholly, which leave it then."""
        spans = self.local.whole_spans()
        if not spans:
            return
        self._check_local()
        self.local.verify(spans)
        self.local.merge_address_book()
        self._put_snapshots(["address_book"])
        spans = self.local.whole_spans()
        put = [span for span in spans if self._is_put(span) or self._put_span(span)]
        self._listings.clear()
        self.local.leave(put)

    def _is_put(self, span: range) -> bool:
        return (self.bucket / RANGED[-1] / range_name(span)).exists()

    def _put_span(self, span: range) -> bool:
        """Put the objects of a span, that of the transactions last; return whether they are put."""
        names = [name for name in RANGED if self.local.held_of(name, [span])]
        if any(subtract([span], self.local.held_of(name, [span])) for name in names):
            warn(
                f"the masterchain seqnos {spell([span])} stay in {self.local.path}: only a part of "
                "them has rows of blocks"
            )
            return False
        try:
            footers = [file.footer() for _, file in self.local.held_files(RANGED[-1], [span])]
            rows = {name: self.local.read(name, [span]) for name in names}
        except (Damaged, MissingError):
            if self._is_put(span):  # another process has put it meanwhile
                return True
            raise
        objects = {
            self.bucket / name / range_name(span): _content(
                name,
                rows[name],
                network=self.network or "",
                start=span.start,
                stop=span.stop,
                proof=_joined_proofs(footers),
                tables=names if name == RANGED[-1] else (),
            )
            for name in names
        }
        last, whole = objects.popitem()
        with ThreadPoolExecutor(len(RANGED)) as pool:
            list(pool.map(BucketPath.put, objects.keys(), objects.values()))
        last.put(whole)
        return True

    def _put_snapshots(self, names: Iterable[str]) -> None:
        """Put the snapshots of the local part as they are, and remove them there."""
        put = []
        for file in [file for name in names for file in self.local.held_snapshots(name)]:
            try:
                file.check()
                whole = file.path.read_bytes()
            except (Damaged, FileNotFoundError):  # another process has put it meanwhile
                continue
            (self.bucket / file.path.parent.name / file.path.name).put(whole)
            put.append(file)
        self._listings.clear()
        if put:
            self.local.leave_snapshots(put)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────

    def verify(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Look for damage where these seqnos are held; list the ranges that are not held any more.

        Of the bucket only the footers of these spans are read: an object that was cut, or that is
        something else, has none. All bytes are verified by `verify_store`.
        """
        wanted = joined(seqnos)
        lost = self._set_faults_aside(self._held_in_bucket(wanted), RANGED)
        return joined([*self.local.verify(wanted), *(file.run for file in lost if file.run)])

    def verify_snapshots(self, names: Iterable[str] = SNAPSHOT_FOLDERS) -> tuple[Path, ...]:
        """Look for damage in the snapshots, and set damaged files aside; as in `verify`."""
        lost = list(self.local.verify_snapshots(names := list(names)))
        for name in set(names).intersection(OF_ACCOUNTS):
            files = [self._held_file(path, self.network) for path in self._objects(name).values()]
            lost += [file.path for file in self._set_faults_aside(files, [name])]
        return tuple(lost)

    def _set_faults_aside(
        self, files: Sequence[HeldFile], folders: Sequence[str]
    ) -> list[HeldFile]:
        """Move away what has no footer or a wrong one, with what was put together with it."""
        there = [self._objects(name) for name in folders]
        listed = [{path.name: path.stat() for path in paths.values()} for paths in there]

        def fault(file: HeldFile) -> Damaged | None:
            stamp = (file, *(stats.get(file.path.name) for stats in listed))
            if stamp in _good:
                return None
            try:
                for name in file.footer().tables:
                    if name != file.path.parent.name:
                        file.beside(name).footer()
            except Damaged as damaged:
                return damaged
            _good.add(stamp)
            return None

        found = list(zip(files, in_threads(fault, files, THREADS), strict=True))
        for file, damaged in found:
            if damaged:
                reason = f"{damaged.path} {damaged.reason}"
                self._move_aside(list(reversed(folders)), file, reason)
        return [file for file, damaged in found if damaged]

    def set_aside(self, seqnos: Iterable[range], reason: str) -> None:
        """Set aside the files that hold some masterchain blocks, and warn."""
        wanted = joined(seqnos)
        self.local.set_aside(wanted, reason)
        for file in self._held_in_bucket(wanted):
            self._move_aside(reversed(RANGED), file, reason)

    def _held_in_bucket(self, wanted: Sequence[range]) -> list[HeldFile]:
        """List the objects with the transactions of some masterchain blocks."""
        return [
            self._held_file(path, self.network)
            for path in self._objects(RANGED[-1]).values()
            if overlapping(run_of(path.name) or range(0), wanted)
        ]

    def _move_aside(self, names: Iterable[str], file: HeldFile, reason: str) -> None:
        """Move an object, and those that were put together with it, into the folder `damaged`."""
        mark = secrets.token_hex(4)
        for name in names:
            path = self.bucket / name / file.path.name
            try:
                path.move(self.bucket / ASIDE / f"{name}-{path.stem}-{mark}.parquet")
            except FileNotFoundError:  # another process was here first
                continue
        self._listings.clear()
        warn(
            f"{reason}: moved to {self.bucket / ASIDE} with what was put "
            "together with it, which is not held any more"
        )


def _joined_proofs(footers: Sequence[Footer]) -> str:
    """Return what was proven of all of some rows, however they were divided into files.

    A proof with an exception, as in “chain, but for the first block”, covers that without it.
    """
    proofs = {proof for footer in footers if footer.proof for proof in footer.proof.split("; ")}
    weakest = [p for p in proofs if not any(other.startswith(f"{p},") for other in proofs)]
    return "; ".join(sorted(weakest))


def _content(name: str, rows: pa.Table, **about: Any) -> bytes:
    """Return the content of an object of a span: the rows determine it.

    Chunks of a table would end pages where the commits ended.
    """
    table = schema.TABLES[name]
    footer = Footer(
        schema=schema.VERSION,
        tonframes=version("tonframes"),
        service=None,
        rows=len(rows),
        **about,
    )
    return b"".join(content(table, rows.combine_chunks(), footer))


#: A store that masterchain blocks and states of accounts can be fetched into.
AnyStore = Store | BucketStore


def store_at(path: str | PathLike[str] | BucketPath) -> AnyStore:
    """Return the store that a path or a URL names, to be written to."""
    return BucketStore(path) if isinstance(path, BucketPath) or is_url(path) else Store(path)
