"""What a store holds: nothing here writes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import MissingError, StoreError, shorten
from tonframes.seqnos import SPAN, joined, meeting, spell, subtract
from tonframes.store.digest import within
from tonframes.store.files import Damaged, Footer, Kept
from tonframes.wire import schema
from tonframes.wire.tables import latest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from tonframes.wire.record import Table

#: How the time of a snapshot is written in the names of its files.
MOMENT = "%Y%m%dT%H%M%S.%fZ"

_RANGE = re.compile(r"([0-9]{11})-([0-9]{11})\.parquet")
_SNAPSHOT = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)-[0-9a-f]{8}\.parquet")
_LATEST = "9"


class Reader:
    """A folder of Parquet files that belong to one network, to be read."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).expanduser()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def network(self) -> str | None:
        """The network that the store holds; None before it is claimed."""
        return self._about("network")

    @property
    def service(self) -> str | None:
        """The service that the store was first fetched from; None before that."""
        return self._about("service")

    def _about(self, key: str) -> str | None:
        file = self.path / "network.json"
        try:
            value = json.loads(file.read_bytes())[key]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{file} does not say which network the store is of ({shorten(str(error))}): it is "
                "no store of tonframes, or the file is damaged",
                path=file,
            ) from None
        return str(value)

    def check(self) -> None:
        """Raise `StoreError` unless there is a store."""
        if self.network is None:
            raise StoreError(
                f"there is no store at {self.path}: fetch_blocks(..., store={str(self.path)!r}) "
                "makes one",
                path=self.path,
            )

    # ── ranges of masterchain seqnos ─────────────────────────────────────────────────────────────

    def files(self, name: str) -> dict[range, Path]:
        """Give the files of a table by range, in order; those of transactions are the commits."""
        found = {}
        for file, match in self._listed(name, _RANGE):
            run = range(int(match[1]), int(match[2]))
            if not run or run.start // SPAN != (run.stop - 1) // SPAN:
                raise _misnamed(file)
            found[run] = file
        return found

    def held(self) -> tuple[range, ...]:
        """Give the masterchain seqnos that are committed."""
        return joined(self.files("transactions"))

    def gaps(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Give what of these ranges is not held."""
        return subtract(seqnos, self.held())

    def require(self, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Give these ranges joined, or raise `MissingError` if some of them are not held."""
        wanted = joined(seqnos)
        if missing := self.gaps(wanted):
            raise MissingError(
                f"{self.path} does not hold the masterchain seqnos {spell(missing)}: fetch them "
                f"with fetch_blocks(..., store={str(self.path)!r})",
                missing=missing,
            )
        return wanted

    def shown(self, name: str, seqnos: Iterable[range]) -> tuple[range, ...]:
        """Say for which of these seqnos a table was committed.

        Raises
        ------
        StoreError
            It was, and a file of it is gone.
        """
        wanted = joined(seqnos)
        return subtract(wanted, subtract(wanted, [run for run, _ in self._kept(name, wanted)]))

    def read(
        self, name: str, seqnos: Iterable[range], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the rows of a table that belong to these masterchain seqnos, in order.

        Parameters
        ----------
        name
            transactions, messages or blocks.
        seqnos
            Ranges that are held.
        columns
            Which columns to read, of those that the table has; None is all.

        Raises
        ------
        MissingError
            Some of `seqnos` are not held, or not any more.
        StoreError
            A file is damaged, or cannot be read.
        """
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        needed = list(dict.fromkeys([*chosen, "mc_block_seqno"]))
        wanted = self.require(seqnos)
        parts = [
            within(kept.read(needed), meeting(run, wanted)).select(chosen)
            for run, kept in self._kept(name, wanted)
        ]
        return pa.concat_tables([table.schema.empty_table().select(chosen), *parts])

    def count(self, name: str, seqnos: Iterable[range]) -> int:
        """How many rows `read` would give; footers tell of files that lie wholly inside."""
        total = 0
        wanted = self.require(seqnos)
        for run, kept in self._kept(name, wanted):
            here = meeting(run, wanted)
            if subtract([run], here):
                total += len(within(kept.read(["mc_block_seqno"]), here))
            else:
                total += kept.footer().rows
        return total

    def head(
        self, name: str, seqnos: Iterable[range], rows: int, columns: Sequence[str]
    ) -> pa.Table:
        """Read the first rows that `read` would give, and no more files than that takes."""
        table = schema.TABLES[name]
        chosen = chosen_of(table, columns)
        needed = list(dict.fromkeys([*chosen, "mc_block_seqno"]))
        wanted = self.require(seqnos)
        first = table.schema.empty_table().select(chosen)
        for run, kept in self._kept(name, wanted):
            if len(first) >= rows:
                break
            more = within(kept.read(needed), meeting(run, wanted)).select(chosen)
            first = pa.concat_tables([first, more.slice(0, rows - len(first))])
        return first

    def kept(self, name: str, seqnos: Iterable[range]) -> list[Kept]:
        """List the files that `read` would read, in order."""
        return [kept for _, kept in self._kept(name, self.require(seqnos))]

    def _kept(self, name: str, wanted: Sequence[range]) -> Iterator[tuple[range, Kept]]:
        """Give the files of a table that were committed and have some of these seqnos, in order."""
        network = self.network
        commits = self.files("transactions")
        files = commits if name == "transactions" else self.files(name)
        for run, commit in commits.items():
            if not meeting(run, wanted):
                continue
            if run in files:
                yield run, Kept(files[run], schema.TABLES[name], network, run)
            elif name in Kept(commit, schema.TRANSACTIONS, network, run).footer().tables:
                raise Damaged(self.path / name / commit.name, "is gone")

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────

    def snapshot(
        self, name: str, *, as_of: datetime | None = None, addresses: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the newest row of each address, or the newest as of a moment, oldest file first."""
        table, network = schema.TABLES[name], self.network
        last = _LATEST if as_of is None else as_of.astimezone(UTC).strftime(MOMENT)
        parts = [
            Kept(file, table, network, None).read(table.schema.names)
            for file, match in self._listed(name, _SNAPSHOT)
            if match[1] <= last
        ]
        rows = pa.concat_tables([table.schema.empty_table(), *parts])
        if addresses is not None:
            rows = rows.filter(pc.is_in(rows["address"], pa.array(addresses, pa.string())))
        return latest(rows)

    def snapshots(self, name: str) -> list[Path]:
        """List the files of a table of snapshots, oldest first."""
        return [file for file, _ in self._listed(name, _SNAPSHOT)]

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def footer(self, file: Path) -> Footer:
        """Read what a file of the store says of itself."""
        match = _RANGE.fullmatch(file.name)
        run = range(int(match[1]), int(match[2])) if match else None
        return Kept(file, schema.TABLES[file.parent.name], self.network, run).footer()

    def _listed(self, name: str, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        folder = self.path / name
        try:
            names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".parquet")
        except FileNotFoundError:  # a copy of the store may lack its empty folders
            return
        except OSError as error:
            raise StoreError(f"cannot list {folder}: {error.strerror}", path=folder) from error
        for file in names:
            match = pattern.fullmatch(file)
            if match is None:
                raise _misnamed(folder / file)
            yield folder / file, match


def chosen_of(table: Table, columns: Sequence[str] | None) -> list[str]:
    """Give those columns that a table has, in its order; None chooses all."""
    names: list[str] = table.schema.names
    return names if columns is None else [name for name in names if name in set(columns)]


def _misnamed(file: Path) -> StoreError:
    return StoreError(
        f"{file} is not called as the files of a store are: move it elsewhere", path=file
    )
