"""The mechanism: what a declaration in `results` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonframes.wire.kinds import TEXT
from tonframes.wire.record import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Stands in a declaration where the columns of `by` come.
BY = Column("by", TEXT, "", "The columns that were grouped by.")


@dataclass(frozen=True, eq=False)
class Result:
    """What a helper returns: a row of what, and which columns."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def figures(self) -> list[str]:
        """The names of the columns, without those of `by`."""
        return [column.name for column in self.columns if column is not BY]

    def names(self, keys: Sequence[str] = ()) -> list[str]:
        """List the columns of a frame that is grouped by `keys`, in order."""
        found: list[str] = []
        for column in self.columns:
            found += keys if column is BY else [column.name]
        return list(dict.fromkeys(found))
