"""Wrap the frames that users pass: those of pandas, polars, pyarrow, DuckDB, Dask and PySpark.

The data sets of pyarrow are frames too. Their rows are read when they are wrapped.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.exceptions import DuplicateError

from tonframes.errors import shorten


def is_dataset(frame: Any) -> bool:
    """Return whether something is a `pyarrow.dataset.Dataset`, or has its methods."""
    return hasattr(frame, "to_table") and isinstance(getattr(frame, "schema", None), pa.Schema)


def enter(frame: Any, helper: str, **options: bool) -> Any:
    """Return a frame of narwhals, or the argument itself if it is not a frame.

    `helper` is the function that the user called, for error messages; `options` are those of
    `narwhals.from_native`.

    Examples
    --------
    >>> import pandas as pd
    >>> enter(pd.DataFrame([[1, 2]], columns=["lt", "lt"]), "fee_summary")
    Traceback (most recent call last):
    ValueError: fee_summary takes a frame in which each column has its own name: 'lt' comes 2 times
    """
    if is_dataset(frame):
        frame = frame.to_table()
    try:
        return nw.from_native(frame, pass_through=True, **options)
    except DuplicateError:
        names = getattr(frame, "column_names", None) or frame.columns
        [(name, times), *_] = Counter(names).most_common(1)
        raise ValueError(
            f"{helper} takes a frame in which each column has its own name: {shorten(name)} comes "
            f"{times} times"
        ) from None
