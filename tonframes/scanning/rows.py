"""The rows of the lake through pyarrow, which has no lazy frame with computed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.dataset as pads

    from tonframes.scanning.form import LakeForm


class LakeRows:
    """Rows of the lake with our columns, which are read when they are asked for.

    The methods are those of `pyarrow.dataset.Dataset`. Every helper takes such an object.
    """

    def __init__(self, dataset: pads.Dataset, form: LakeForm) -> None:
        self._dataset = dataset
        self._form = form

    def __repr__(self) -> str:
        return f"<LakeRows: {self._form.name}, {len(self.schema.names)} columns>"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._form.table.schema

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read columns; None is all."""
        names = self.schema.names if columns is None else list(columns)
        return self._form.read(self._dataset.to_table(columns=self._form.needed(names)), names)

    def to_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read columns in batches; None is all."""
        names = self.schema.names if columns is None else list(columns)
        for batch in self._dataset.to_batches(columns=self._form.needed(names)):
            yield from self._form.read(pa.Table.from_batches([batch]), names).to_batches()

    def count_rows(self) -> int:
        """Count the rows."""
        rows: int = self._dataset.count_rows()
        return rows
