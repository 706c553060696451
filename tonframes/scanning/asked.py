"""Which rows are asked for, and the same as a filter of each engine.

A filter is a list of alternatives. Each is a list of conditions (column, operator, value) that all
hold. An empty list chooses all rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, product
from operator import and_, or_
from typing import TYPE_CHECKING, Any

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

Condition = tuple[str, str, Any]
Filter = list[list[Condition]]


@dataclass(frozen=True)
class Asked:
    """The rows that are asked for; None is all.

    Attributes
    ----------
    seqnos
        Ranges of masterchain seqnos.
    accounts
        Accounts in raw form.
    since, until
        The moments between which they are.
    """

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
        asked = cls(None if seqnos is None else _ranges(seqnos), raw, since, until)
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


def _ranges(seqnos: range | Iterable[int] | int | str) -> tuple[range, ...]:
    if isinstance(seqnos, str):
        run = from_text(seqnos)
        if run is None:
            raise ValueError(
                f"seqnos are ints, or text such as 100:150 or 100, not {shorten(seqnos)}: choose "
                "by time with since and until"
            )
        return checked(run)
    return checked([seqnos] if isinstance(seqnos, int) else seqnos)


def filter_of(table: str, asked: Asked, runs: Iterable[range] = ()) -> Filter:
    """Return the filter of a table, for files with certain seqnos.

    Parameters
    ----------
    table
        transactions, messages or blocks.
    runs
        The ranges of masterchain seqnos that the files have, if that is known: a filter need not
        say what follows from the choice of the files.
    """
    choices = [_of_seqnos(asked.seqnos, joined(runs)), _of_period(SECONDS[table], asked.period)]
    if asked.accounts is not None:
        choices.append(_of_accounts(table, list(asked.accounts)))
    filters = [choice for choice in choices if choice]
    return [[*chain(*parts)] for parts in product(*filters)] if filters else []


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


def _of_period(column: str, period: Period | None) -> Filter:
    if period is None:
        return []
    until = [] if period.stop is None else [(column, "<", period.stop)]
    return [[(column, ">=", period.start), *until]]


def _of_accounts(table: str, accounts: list[str]) -> Filter:
    if table == "transactions":
        return [[("account", "in", accounts)]]
    if table == "messages":  # the account of the message's transaction
        return [
            [("direction", "==", "in"), ("destination", "in", accounts)],
            [("direction", "==", "out"), ("source", "in", accounts)],
        ]
    raise ValueError(f"accounts: the table {table} has no column with an account")


# ── in the languages of the engines ──────────────────────────────────────────────────────────────


def as_arrow(chosen: Filter) -> pads.Expression | None:
    """Return a filter as an expression of pyarrow; None chooses all rows."""
    return _built(chosen, pads.field, lambda field, values: field.isin(values))


def as_polars(chosen: Filter) -> Any:
    """Return a filter as an expression of polars; None chooses all rows."""
    import polars as pl  # noqa: PLC0415 - optional

    return _built(chosen, pl.col, lambda column, values: column.is_in(values))


def _built(chosen: Filter, column: Callable[[str], Any], is_in: Callable[[Any, Any], Any]) -> Any:
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "==": lambda one, other: one == other,
        ">=": lambda one, other: one >= other,
        "<": lambda one, other: one < other,
        "in": is_in,
    }
    alternatives = [
        reduce(and_, (operators[operator](column(name), value) for name, operator, value in each))
        for each in chosen
    ]
    return reduce(or_, alternatives) if alternatives else None


def as_sql(chosen: Filter) -> str | None:
    """Return a filter as SQL that DuckDB and Spark understand; None chooses all rows.

    Values are integers, raw addresses and our own words: nothing in them needs an escape.
    """
    alternatives = [" AND ".join(_sql(*condition) for condition in each) for each in chosen]
    return " OR ".join(f"({each})" for each in alternatives) or None


def _sql(name: str, operator: str, value: Any) -> str:
    if operator == "in":
        return f"{name} IN ({', '.join(map(repr, value))})"
    return f"{name} {'=' if operator == '==' else operator} {value!r}"
