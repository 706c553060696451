"""The class that `results` declares the columns of a result with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonframes.wire.kinds import TEXT
from tonframes.wire.record import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Marks the place of the columns of `by` in a declaration.
BY = Column(
    "by",
    TEXT,
    "",
    'The columns that were grouped by. An operation may have several opcodes: add "opcode" to by.',
)


@dataclass(frozen=True, eq=False)
class Result:
    """What a helper returns: what a row is, and which columns it has."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def figures(self) -> list[str]:
        """Names of the columns, without those of `by`."""
        return [column.name for column in self.columns if column is not BY]

    def names(self, keys: Sequence[str] = (), suffix: str = "") -> list[str]:
        """List the columns of a frame that is grouped by `keys`, in order.

        With a suffix, each amount is followed by the column of the amount in a currency.
        """
        found: list[str] = []
        for column in self.columns:
            found += keys if column is BY else [column.name]
            if suffix and column.unit == "nanoton":
                found.append(f"{column.name}{suffix}")
        return list(dict.fromkeys(found))
