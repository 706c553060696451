"""The pandas dtype of each Arrow type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def dtype_of(kind: pa.DataType) -> Any:
    """Return the pandas dtype that holds the values and the nulls of an Arrow type.

    It never depends on the rows. None leaves the choice to pandas: for a timestamp it has a dtype
    with nulls.

    Examples
    --------
    >>> [str(dtype_of(kind)) for kind in (pa.int32(), pa.bool_(), pa.large_string())]
    ['Int64', 'boolean', 'str']
    """
    if pa.types.is_uint64(kind):
        return pd.UInt64Dtype()
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if pa.types.is_floating(kind):
        return pd.Float64Dtype()
    if kind in _TEXTS:
        return pd.StringDtype(na_value=np.nan)
    return None if pa.types.is_timestamp(kind) else pd.ArrowDtype(kind)
