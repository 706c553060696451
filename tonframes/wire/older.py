"""How older versions of the service spelled fields that have other keys or values today.

The older spelling is read into the column of the field. It also stays in `extra`, so that a row is
written back in the form that it had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tonframes.wire.kinds import REFUSALS, TEXT, Kind, Mismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonframes.wire.extra import Extra


@dataclass(frozen=True, slots=True, eq=False)
class Older:
    """The spelling of a field in older answers: another key.

    `values` maps each older value to the present one; None if the values are the same. `since` is
    the first schema version that reads this spelling.
    """

    key: str
    values: Mapping[str, Any] | None = None
    since: int = 1

    def read(self, kind: Kind, token: bytes) -> Any:
        """Turn a token of this spelling into a wire value of the field; None if it is none."""
        try:
            if self.values is None:
                return kind.read(token)
            return self.values.get(TEXT.read(token))
        except (Mismatch, *REFUSALS):
            return None


@dataclass(frozen=True, slots=True, eq=False)
class Respelled:
    """A field that older services spell differently: its present pointer and its column."""

    pointer: str
    column: str
    kind: Kind
    older: Older

    def found_in(self, extra: Extra, pointer: str) -> Any:
        """Return the wire value that `extra` has in the older spelling; None if it has none.

        If an object had both spellings, `extra` has both, and the present one counts.
        """
        if pointer not in extra or self.pointer in extra:
            return None
        return self.older.read(self.kind, extra[pointer])
