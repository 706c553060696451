"""From the frame of a helper to pandas."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd
import pyarrow as pa


def to_pandas(frame: object) -> pd.DataFrame:
    """Read the result of a helper into memory. Integers stay integers."""
    native: Any = frame
    table = nw.from_native(native).lazy().collect("pyarrow").to_native()
    rows: pd.DataFrame = table.to_pandas(types_mapper=_dtype, ignore_metadata=True)
    return rows


def _dtype(kind: pa.DataType) -> Any:
    return pd.Int64Dtype() if pa.types.is_integer(kind) else None
