"""From the frame of a helper to what is written beside a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.analysis import intake, names
from tonframes.analysis.units import to_ton
from tonframes.display import inert
from tonframes.wire.schema import ADDRESS_BOOK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_WIDEST, _ADDRESS = 26, 11


def collected(frame: object) -> pd.DataFrame:
    """Read what a helper gave into memory: integers stay integers."""
    native: Any = frame
    table = nw.from_native(native).lazy().collect("pyarrow").to_native()
    rows: pd.DataFrame = table.to_pandas(types_mapper=_dtype, ignore_metadata=True)
    return rows


def _dtype(kind: pa.DataType) -> Any:
    return pd.Int64Dtype() if pa.types.is_integer(kind) else None


def rows(
    groups: pd.DataFrame,
    keys: Sequence[str],
    top: int,
    helper: str,
    address_book: object | None = None,
) -> tuple[list[str], NDArray[np.int64]]:
    """Choose the groups to draw, the first ones: their labels, and in which row each group goes.

    The others go into a row together; but a single one takes no more room than the word for it.
    """
    shown = len(groups) if len(groups) <= top + 1 else top
    texts = _of_groups(groups.head(shown), keys, helper, address_book)
    if shown < len(groups):
        texts.append(f"{len(groups) - shown:,} others")
    return texts, np.minimum(np.arange(len(groups)), shown)


def _of_groups(
    groups: pd.DataFrame, keys: Sequence[str], helper: str, address_book: object | None
) -> list[str]:
    if not keys:
        return ["all"] * len(groups)
    addresses = [groups[key].dropna() for key in keys if key in names.COLUMNS]
    known = of_addresses(set().union(*addresses), helper, address_book)
    columns = ([_label(value, key, known) for value in groups[key]] for key in keys)
    return [" · ".join(row) for row in zip(*columns, strict=True)]


def of_addresses(
    addresses: Iterable[str], helper: str, address_book: object | None = None
) -> dict[str, str]:
    """Write addresses short, or as the names that an address book has for them."""
    shown = list(addresses)
    if address_book is None:
        return {address: shortened(address, _ADDRESS) for address in shown}
    needs = ["address", "domain", "user_friendly", "fetched_at"]
    book = intake.take(address_book, helper, ADDRESS_BOOK, needs)
    if not shown:
        return {}
    entries = collected(book.filter(nw.col("address").is_in(shown)).to_native())
    named = names.with_names(pd.DataFrame({"address": pd.Series(shown, dtype="str")}), entries)
    pairs = zip(shown, named.address_name, named.address_friendly, strict=True)
    return {address: _called(address, *entry) for address, *entry in pairs}


def _called(address: str, name: object, friendly: object) -> str:
    if isinstance(name, str) and name.strip():
        return shortened(name)
    return shortened(friendly if isinstance(friendly, str) else address, _ADDRESS)


def _label(value: Any, key: str, known: Mapping[str, str]) -> str:
    if pd.isna(value):
        return "none"
    if key in names.COLUMNS:
        return known[value]
    if key == "opcode":
        return f"0x{int(value):08x}"
    if key == "block_shard":
        return shard(int(value))
    if isinstance(value, pd.Timestamp):
        return f"{value.tz_convert('UTC'):%Y-%m-%d %H:%M}"
    return shortened(str(value), _ADDRESS if _is_hash(key) else _WIDEST)


def _is_hash(key: str) -> bool:
    return "hash" in key or key == "trace_id"


def shard(prefix: int) -> str:
    """Write the tagged prefix of a shard in hex, as explorers do.

    Examples
    --------
    >>> shard(-(2**63)), shard(2**61)
    ('8000000000000000', '2000000000000000')
    """
    return f"{prefix & (1 << 64) - 1:016x}"


def shortened(text: str, width: int = _WIDEST) -> str:
    """Make text inert, and cut the middle out where it is long.

    Examples
    --------
    >>> shortened("0:12ab" + "0" * 56 + "89ef", 11)
    '0:12ab…89ef'
    """
    plain = inert(text)
    if len(plain) <= width:
        return plain
    tail = (width - 1) * 2 // 5
    return f"{plain[: width - 1 - tail]}…{plain[-tail:]}"


def ton(nanoton: Iterable[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Write amounts in TON: the last step."""
    return np.array([to_ton(int(amount)) for amount in nanoton], np.float64)


def short(figure: float) -> str:
    """Write a figure in three digits.

    Examples
    --------
    >>> [short(figure) for figure in (0, 0.00012, 0.123456, 9876, 999_999, 2.5e9)]
    ['0', '0.00012', '0.123', '9.88k', '1M', '2.5G']
    """
    rounded = float(f"{figure:.3g}")
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"
