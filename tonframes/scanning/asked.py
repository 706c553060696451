"""Which rows are asked for, and the same as a filter of narwhals or pyarrow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, product
from operator import and_, eq, ge, lt, or_
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow.dataset as pads

from tonframes.addresses import to_raw
from tonframes.errors import shorten
from tonframes.seqnos import checked, from_text, joined, subtract
from tonframes.store import Period

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, datetime

#: The column of each table with the unix time of its block.
SECONDS = {"transactions": "now", "messages": "tx_now", "blocks": "gen_utime"}

#: Alternatives, each of conditions that all hold: (column, operator, value). An empty list chooses
#: all rows.
Filter = list[list[tuple[str, str, Any]]]


@dataclass(frozen=True)
class Asked:
    """The rows that are asked for; None is all."""

    seqnos: tuple[range, ...] | None = None
    accounts: tuple[str, ...] | None = None
    since: datetime | date | str | None = None
    until: datetime | date | str | None = None

    @classmethod
    def parse(
        cls,
        seqnos: range | Iterable[int] | int | str | None,
        accounts: Iterable[str] | None,
        since: datetime | date | str | None,
        until: datetime | date | str | None,
    ) -> Asked:
        """Check what a user passes."""
        raw = None
        if accounts is not None:
            if not isinstance(accounts, Iterable):
                raise TypeError(f"accounts is a list of accounts, not {shorten(accounts)}")
            listed = [accounts] if isinstance(accounts, str) else list(accounts)
            raw = tuple(dict.fromkeys(to_raw(account) for account in listed))
        for name, moment in (("since", since), ("until", until)):
            if isinstance(moment, int) or str(moment).startswith("lt:"):
                raise TypeError(f"{name} is a moment such as 2026-05-01, not {shorten(moment)}")
        if isinstance(seqnos, str):
            text, seqnos = seqnos, from_text(seqnos)
            if seqnos is None:
                raise ValueError(
                    f"seqnos are ints, or text such as 100:150 or 100, not {shorten(text)}: choose "
                    "by time with since and until"
                )
        ranges = (
            checked([seqnos] if isinstance(seqnos, int) else seqnos) if seqnos is not None else None
        )
        asked = cls(ranges, raw, since, until)
        _ = asked.period  # is checked now
        return asked

    @cached_property
    def period(self) -> Period | None:
        """The unix seconds; None is all."""
        if self.since is None and self.until is None:
            return None
        return Period.parse(self.since, self.until)

    def __str__(self) -> str:
        parts = []
        if self.seqnos is not None:
            first, last = (self.seqnos[0].start, self.seqnos[-1].stop) if self.seqnos else (0, 0)
            count = sum(map(len, self.seqnos))
            parts.append(f"{count:,} masterchain seqnos, {first}:{last}")
        if self.accounts is not None:
            one = len(self.accounts) == 1
            parts.append(self.accounts[0] if one else f"{len(self.accounts):,} accounts")
        if self.period is not None:
            parts.append(str(self.period))
        return "; ".join(parts) or "all rows"

    @property
    def nothing(self) -> bool:
        """Whether no row can be asked for."""
        return self.seqnos == () or self.accounts == ()


def filter_of(table: str, asked: Asked, runs: Iterable[range] = ()) -> Filter:
    """Return the filter of a table, for files with the seqnos of `runs`, if these are known."""
    choices = [_of_seqnos(asked.seqnos, joined(runs))]
    if asked.period is not None:
        start, stop = asked.period.start, asked.period.stop
        until = [] if stop is None else [(SECONDS[table], "<", stop)]
        choices.append([[(SECONDS[table], ">=", start), *until]])
    if asked.accounts is not None:
        accounts = list(asked.accounts)
        if table == "blocks":
            raise ValueError("accounts: the table blocks has no column with an account")
        choices.append(
            [[("account", "in", accounts)]]
            if table == "transactions"
            else [  # the account of the message's transaction
                [("direction", "==", "in"), ("destination", "in", accounts)],
                [("direction", "==", "out"), ("source", "in", accounts)],
            ]
        )
    filters = [choice for choice in choices if choice]
    return [[*chain(*each)] for each in product(*filters)] if filters else []


def _of_seqnos(seqnos: Sequence[range] | None, runs: Sequence[range]) -> Filter:
    if seqnos is None:
        return []
    if runs:
        # Ranges may grow over seqnos that no file has: mostly one range is left, or none.
        others = subtract(runs, seqnos)
        if not others:
            return []
        seqnos = subtract([range(runs[0].start, runs[-1].stop)], others)
    column = "mc_block_seqno"
    return [[(column, ">=", run.start), (column, "<", run.stop)] for run in seqnos]


def expression(chosen: Filter, column: Callable[[str], Any] = nw.col) -> Any:
    """Return a filter in narwhals, or in pyarrow with `pads.field`; None chooses all rows."""
    operators = {"==": eq, ">=": ge, "<": lt, "in": _is_in}
    alternatives = [
        reduce(and_, (operators[operator](column(name), value) for name, operator, value in each))
        for each in chosen
    ]
    while len(alternatives) > 1:  # in pairs: polars crashes on thousands that are nested in a row
        pairs = (alternatives[at : at + 2] for at in range(0, len(alternatives), 2))
        alternatives = [reduce(or_, pair) for pair in pairs]
    return alternatives[0] if alternatives else None


def _is_in(column: Any, values: list[str]) -> Any:
    arrow = isinstance(column, pads.Expression)
    return column.isin(values) if arrow else column.is_in(values)
