"""Tables by name, in memory or in a store: read on first use, displayed, written."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes import display, sealed
from tonframes.atomic import replacing_all
from tonframes.bucket import local
from tonframes.errors import TonframesError
from tonframes.wire import schema
from tonframes.wire.kinds import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from os import PathLike

    from tonframes.wire.kinds import Dialect, Kind

DtypeBackend = Literal["tonframes", "pyarrow"]

#: How many rows a notebook shows of a table, and which columns: those that are asked for most.
SHOWN = 5
PREVIEWED = {
    "transactions": (
        "block_time",
        "account",
        "total_fees",
        "compute_gas_used",
        "aborted",
        "compute_exit_code",
        "lt",
    ),
    "messages": (
        "block_time",
        "direction",
        "source",
        "destination",
        "value",
        "decoded_opcode",
        "comment",
    ),
    "blocks": ("block_time", "mc_block_seqno", "workchain", "shard", "seqno", "tx_count"),
    "accounts": ("address", "status", "balance", "last_transaction_lt", "fetched_at"),
    "address_book": ("address", "user_friendly", "domain"),
    "metadata": ("address", "is_indexed", "token_info"),
}


@dataclass(frozen=True)
class Glance:
    """What is known about a table without reading it; None or 0 where that would take too long."""

    rows: int | None
    first: datetime | None = None
    last: datetime | None = None
    fetched: tuple[datetime, ...] = ()
    size: int = 0
    proofs: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


class Unread(ABC):
    """A table that is read when it is called."""

    @abstractmethod
    def __call__(self) -> pa.Table:
        """Read the table."""

    def glance(self) -> Glance:
        """Return what is known about the table without reading it."""
        return Glance(rows=None)

    def head(self, rows: int, columns: tuple[str, ...]) -> pa.Table | None:  # noqa: ARG002
        """Read the first rows; return None if all rows would have to be read."""
        return None


class TableSet(ABC):
    """Tables by name, each read on first use."""

    names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        tables: Mapping[str, pa.Table | Unread | Callable[[], pa.Table]],
        *,
        extra: str | None = None,
        source: str = "JSON",
        proof: str | None = None,
    ) -> None:
        self._tables = dict(tables)
        self._frames: dict[str, pd.DataFrame] = {}
        self.extra = extra
        """Keys of the document itself that the schema does not know, as JSON text."""
        self.source = source
        """Where the tables come from, in words."""
        self._proof = proof

    def arrow(self, name: str) -> pa.Table:
        """Return a table as Arrow, without going through pandas.

        Parameters
        ----------
        name
            One of `names`.

        Returns
        -------
        A table with the columns of `describe(name)`; units and meanings are in the field metadata.
        A table that the service does not show is empty, such as the blocks of a service that
        follows the specification.
        """
        if name not in self.names:
            raise ValueError(f"no table {name!r} here: there are {', '.join(self.names)}")
        table = self._tables.get(name)
        if callable(table):
            table = table()
        return schema.TABLES[name].schema.empty_table() if table is None else table

    def frame(self, name: str, *, dtype_backend: DtypeBackend = "tonframes") -> pd.DataFrame:
        """Return a table as a new pandas DataFrame.

        Parameters
        ----------
        name
            One of `names`.
        dtype_backend
            "tonframes": int64 and bool for columns that are always filled, Int64 and boolean for
            others, str, and datetime64[us, UTC]. "pyarrow": Arrow dtypes, which take a third of
            the time to make.
        """
        table = self.arrow(name)
        if dtype_backend == "pyarrow":
            arrow: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
            return arrow
        if dtype_backend != "tonframes":
            raise ValueError(f'dtype_backend is "tonframes" or "pyarrow", not {dtype_backend!r}')
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def _frame(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = self.frame(name)
        # pandas copies on write: this costs nothing until the user changes the frame, and then the
        # next caller still gets the frame as it was.
        return self._frames[name].copy(deep=False)

    @abstractmethod
    def to_json(self, *, dialect: Dialect = "service") -> bytes:
        """Return the JSON that the tables came from."""

    def write(self, path: str | PathLike[str]) -> None:
        """Write one Parquet file per table into a folder, for other programs.

        `read_blocks` opens such a folder of `Blocks`, but not one of `Transactions`. For a single
        table, `pandas.read_parquet(path / "transactions.parquet")` returns the same frame with the
        same dtypes. The folder is not a store: `fetch_blocks(..., store=path)` makes one.

        Parameters
        ----------
        path
            A folder, which is made if it does not exist. Files of the same names are replaced
            when all new ones are on the disk, and keep their mode, owner and group; of a link, the
            file at its end is replaced. Pipes and devices of these names are refused.

        Raises
        ------
        ValueError
            The folder is a store.
        OSError
            A file cannot be written, for example because the disk is full, its owner cannot be
            kept, or something else than a file has its name. What was there stays as it is.
        """
        folder = local(path, f"{type(self).__name__}.write")
        if (folder / "network.json").exists():
            raise ValueError(f"{folder} is a store: write into another folder")
        folder.mkdir(parents=True, exist_ok=True)
        # By these two, `read_blocks` finds out which files belong together.
        about = self._about() | {"tables": list(self._tables), "writing": secrets.token_hex(8)}
        tables = {name: self.arrow(name) for name in self._tables}
        files = [folder / f"{name}.parquet" for name in tables]
        with replacing_all(files, keep=True) as sinks:
            for sink, (name, rows) in zip(sinks, tables.items(), strict=True):
                pruning = [c for c in schema.TABLES[name].pruning if c in rows.column_names]
                # Such a file is also read alone, so each has the units and meanings.
                sink.writelines(sealed.content(rows.schema, rows, about, pruning))

    def _about(self) -> dict[str, Any]:
        """Return what is written beside the rows, because they do not contain it."""
        return {"schema": schema.VERSION, "proof": self._proven(), "extra": self.extra}

    # ── for display ──────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _title(self) -> str:
        """Return what this is, in one line."""

    def __repr__(self) -> str:
        return self._card(", ".join(map(self._counted, self._tables))).text()

    def _repr_html_(self) -> str:
        return self._card().html([self._preview(name) for name in self._tables])

    def _card(self, counts: str = "") -> display.Card:
        title = f"{self._title()}: {counts}" if counts else self._title()
        try:
            return display.Card(title, self._facts())
        except TonframesError as error:  # the store was moved or damaged since
            return display.Card(title, [("from", self.source), ("but", str(error))])

    def _counted(self, name: str) -> str:
        try:
            rows = self._glance(name).rows
        except TonframesError:
            rows = None
        return name if rows is None else f"{rows:,} {name}"

    def _glance(self, name: str) -> Glance:
        if name in self._frames:
            return Glance(rows=len(self._frames[name]))
        return self._glances[name]

    @cached_property
    def _glances(self) -> dict[str, Glance]:
        return {name: _glance(table) for name, table in self._tables.items()}

    def _facts(self) -> list[tuple[str, str]]:
        glances = self._glances
        found = [glance for glance in glances.values() if glance.first and glance.last]
        facts = []
        if found:
            last = max(glance.last for glance in found if glance.last)
            first = min(glance.first for glance in found if glance.first)
            facts.append(
                ("time", f"{display.period_text(first, last)}, the newest {display.ago(last)}")
            )
        if moments := [moment for glance in glances.values() for moment in glance.fetched]:
            last = max(moments)
            facts.append(
                ("fetched", f"{display.period_text(min(moments), last)}, {display.ago(last)}")
            )
        services = dict.fromkeys(s for glance in glances.values() for s in glance.services)
        facts.append(("from", self.source))
        facts += [("service", ", ".join(services))] if services else []
        if proof := self._proven():
            facts.append(("proven", PROOFS.get(proof, proof)))
        return [*facts, *self._sizes()]

    def _proven(self) -> str | None:
        """Return how it was proven that nothing is missing, if that is known."""
        glances = self._glances.values()
        proofs = dict.fromkeys(proof for glance in glances for proof in glance.proofs)
        return self._proof or ", ".join(proofs) or None

    def _sizes(self) -> list[tuple[str, str]]:
        """Return the sizes in memory, if something was read, and on disk."""
        tables = (table.nbytes for table in self._tables.values() if isinstance(table, pa.Table))
        frames = (int(frame.memory_usage().sum()) for frame in self._frames.values())
        disk = sum(glance.size for glance in self._glances.values())
        sizes = {"memory": sum(tables) + sum(frames), "on disk": disk}
        return [(place, display.size(count)) for place, count in sizes.items() if count]

    def _preview(self, name: str) -> display.Preview:
        columns = len(schema.TABLES[name].columns)
        wanted = PREVIEWED[name]
        try:
            rows = self._glance(name).rows
            head = self._head(name, wanted)
        except TonframesError:
            rows, head = None, None
        if head is None:
            return display.Preview(f".{name}: read when it is used")
        counted = "" if rows is None else f"{rows:,} rows, "
        kinds = {column.name: column.kind for column in schema.TABLES[name].columns}
        return display.Preview(
            f".{name}: {counted}{columns} columns",
            shown := [column for column in wanted if column in head.column_names],
            [[_spelt(row[column], kinds[column]) for column in shown] for row in head.to_pylist()],
            f"The first rows; describe({name!r}) lists all columns.",
        )

    def _head(self, name: str, columns: tuple[str, ...]) -> pa.Table | None:
        table: Any = self._frames.get(name, self._tables[name])
        if isinstance(table, Unread):
            return table.head(SHOWN, columns)
        if isinstance(table, pd.DataFrame):
            table = pa.Table.from_pandas(table.head(SHOWN), preserve_index=False)
        if not isinstance(table, pa.Table):
            return None
        return table.slice(0, SHOWN).select([c for c in columns if c in table.column_names])


#: How it was proven that nothing is missing: the name in a store, and a description.
PROOFS = {
    "chain": "whole, by the chain of every shard's blocks (chain)",
    "account": "whole, by the chain of each account's transactions (account)",
    "spans": "each span whole, by the chain of each account's transactions (spans)",
    "links": "whole, by the chain of every account's transactions (links)",
}


def _glance(table: Any) -> Glance:
    if isinstance(table, Unread):
        return table.glance()
    if not isinstance(table, pa.Table):
        return Glance(rows=None)
    first, last = ends(table, "block_time") or (None, None)
    return Glance(len(table), first, last, ends(table, "fetched_at"))


def ends(table: pa.Table, column: str) -> tuple[datetime, ...]:
    """Return the first and the last moment of a column, if it has any."""
    if column not in table.column_names:
        return ()
    ends = pc.min_max(table[column]).as_py()
    return () if ends["min"] is None else (ends["min"], ends["max"])


def _spelt(value: Any, kind: Kind) -> str:
    """Return a cell as text; a moment to the second, and a shard in hex, as explorers show it."""
    if value is None:
        return ""
    if kind is SHARD:
        return f"{value % (1 << 64):016X}"
    if hasattr(value, "tzinfo"):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return str(value)
