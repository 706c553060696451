"""The text of a plot: columns with their units, groups, addresses, and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd

from tonframes.analysis import intake, names
from tonframes.analysis.units import to_ton, unit_of
from tonframes.inert import inert
from tonframes.network.contracts import code_name
from tonframes.plots.frames import to_pandas
from tonframes.wire.schema import ADDRESS_BOOK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

#: Names that plots write in place of the name of the column.
_NAMES = {"fwd_fees": "forwarding", "mc_block_seqno": "masterchain seqno"}
#: Units that plots write in place of the unit of the column: amounts are drawn in TON.
_UNITS = {"nanoton": "TON"}

_WIDEST, _ADDRESS = 26, 11  # characters
#: How the start of a period is written. Other moments are written to the minute.
_PERIODS = {"day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}


def name(column: str) -> str:
    """Return the name of a column as plots write it.

    Examples
    --------
    >>> name("messages_in"), name("fwd_fees")
    ('messages in', 'forwarding')
    """
    return _NAMES.get(column, column.replace("_", " "))


def unit(column: str) -> str:
    """Return the unit in which plots draw a column; empty for a count.

    Examples
    --------
    >>> unit("cost"), unit("failures")
    ('TON', '')
    """
    return _UNITS.get(unit_of(column), unit_of(column))


def axis(column: str) -> str:
    """Return the label of an axis: the name of the column, and its unit if it has one.

    Examples
    --------
    >>> axis("cost"), axis("failures")
    ('cost (TON)', 'failures')
    """
    return f"{name(column)} ({unit(column)})" if unit(column) else name(column)


def label_groups(
    groups: pd.DataFrame,
    keys: Sequence[str],
    top: int,
    plot: str,
    address_book: object | None = None,
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the label of each row of a plot, and for each group the row it is drawn in.

    The first `top` groups have a row each. The others share the last row, unless only one group
    is left: it gets its own row, since a row for the others would take the same room.
    """
    shown = len(groups) if len(groups) <= top + 1 else top
    texts = _group_labels(groups.head(shown), keys, plot, address_book)
    if shown < len(groups):
        texts.append(f"{len(groups) - shown:,} others")
    return texts, np.minimum(np.arange(len(groups)), shown)


def _group_labels(
    groups: pd.DataFrame, keys: Sequence[str], plot: str, address_book: object | None
) -> list[str]:
    if not keys:
        return ["all"] * len(groups)
    addresses = [groups[key].dropna() for key in keys if key in names.COLUMNS]
    known = address_labels(set().union(*addresses), plot, address_book)
    columns = ([_label(value, key, known) for value in groups[key]] for key in keys)
    return [" · ".join(row) for row in zip(*columns, strict=True)]


def address_labels(
    addresses: Iterable[str], plot: str, address_book: object | None = None
) -> dict[str, str]:
    """Return a label for each address: its name in the address book, or the shortened address."""
    shown = list(addresses)
    if address_book is None:
        return {address: shortened(address, _ADDRESS) for address in shown}
    needs = ["address", "domain", "user_friendly", "fetched_at"]
    book = intake.take(address_book, plot, ADDRESS_BOOK, needs)
    if not shown:
        return {}
    entries = to_pandas(book.filter(nw.col("address").is_in(shown)).to_native())
    named = names.with_names(pd.DataFrame({"address": pd.Series(shown, dtype="str")}), entries)
    pairs = zip(shown, named.address_name, named.address_friendly, strict=True)
    return {address: _address_label(address, *entry) for address, *entry in pairs}


def _address_label(address: str, domain: object, friendly: object) -> str:
    if isinstance(domain, str) and domain.strip():
        return shortened(domain)
    return shortened(friendly if isinstance(friendly, str) else address, _ADDRESS)


def _label(value: Any, key: str, known: Mapping[str, str]) -> str:
    if pd.isna(value):
        return "none"
    if key in names.COLUMNS:
        return known[value]
    if key in names.CODE_HASHES and (contract := code_name(value)) is not None:
        return shortened(contract)
    if key == "opcode":
        return f"0x{int(value):08x}"
    if key == "block_shard":
        return shard(int(value))
    if isinstance(value, pd.Timestamp):
        return value.tz_convert("UTC").strftime(_PERIODS.get(key, "%Y-%m-%d %H:%M"))
    return shortened(str(value), _ADDRESS if _is_hash(key) else _WIDEST)


def _is_hash(key: str) -> bool:
    return "hash" in key or key == "trace_id"


def shard(prefix: int) -> str:
    """Return the tagged prefix of a shard in hex, as explorers write it.

    Examples
    --------
    >>> shard(-(2**63)), shard(2**61)
    ('8000000000000000', '2000000000000000')
    """
    return f"{prefix & (1 << 64) - 1:016x}"


def shortened(text: str, width: int = _WIDEST) -> str:
    """Return `text` with special characters escaped, and without its middle if it is too long.

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


def in_ton(nanoton: Iterable[Any]) -> NDArray[np.float64]:
    """Return amounts in TON, as floats. Call this last: sums are exact in nanoton only."""
    return np.array([to_ton(int(amount)) for amount in nanoton], np.float64)


def short(number: float) -> str:
    """Return a number with three significant digits.

    Examples
    --------
    >>> [short(number) for number in (0, 0.00012, 0.123456, 9876, 999_999, 2.5e9)]
    ['0', '0.00012', '0.123', '9.88k', '1M', '2.5G']
    """
    rounded = float(f"{number:.3g}")
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= scale:
            return f"{rounded / scale:.3g}{prefix}"
    return f"{rounded:.3g}"
