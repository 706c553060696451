"""From the frame of a helper to pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.wire.dtypes import dtype_of

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(frame: object) -> pd.DataFrame:
    """Read the result of a helper into memory. Integers stay integers."""
    native: Any = frame
    table = nw.from_native(native).lazy().collect("pyarrow").to_native()
    rows: pd.DataFrame = table.to_pandas(types_mapper=dtype_of, ignore_metadata=True)
    return rows
