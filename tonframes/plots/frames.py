"""From the frames of a user, and of a helper, to pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import pandas as pd
import pyarrow as pa

from tonframes.errors import shorten
from tonframes.frames import Blocks


def unpack(plot: str, transactions: object, messages: object | None) -> tuple[object, Any]:
    """Return the two frames, or those of a `Blocks` where one is given."""
    if not isinstance(transactions, Blocks):
        return transactions, messages
    if messages is not None:
        raise ValueError(
            f"{plot} takes the messages of a Blocks from itself: pass either that alone, or two "
            "frames"
        )
    return transactions.transactions, transactions.messages


def messages_of(messages: object) -> object:
    """Return the frame of messages, or that of a `Blocks` where one is given."""
    return messages.messages if isinstance(messages, Blocks) else messages


def keys_of(plot: str, by: str | Sequence[str] | None) -> list[str]:
    """Return the names of the columns to group by, each once."""
    keys = [by] if isinstance(by, str) else ([] if by is None else by)
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise TypeError(f"{plot} groups by names of columns, not by {shorten(by)}")
    return list(dict.fromkeys(keys))


def to_pandas(frame: object) -> pd.DataFrame:
    """Read the result of a helper into memory. Integers stay integers."""
    native: Any = frame
    table = nw.from_native(native).lazy().collect("pyarrow").to_native()
    rows: pd.DataFrame = table.to_pandas(types_mapper=_dtype, ignore_metadata=True)
    return rows


def _dtype(kind: pa.DataType) -> Any:
    return pd.Int64Dtype() if pa.types.is_integer(kind) else None
