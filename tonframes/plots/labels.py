"""The text of a plot: columns, groups, addresses, and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd

from tonframes.analysis import intake, names
from tonframes.analysis.operations import OPERATION
from tonframes.inert import inert
from tonframes.network.contracts import code_name
from tonframes.network.opcodes import opcode_name
from tonframes.wire.dtypes import dtype_of
from tonframes.wire.schema import ADDRESS_BOOK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

#: Names that plots write in place of the name of the column.
_NAMES = {
    "fwd_fees": "forwarding",
    "mc_block_seqno": "masterchain seqno",
    "account_state_code_hash_before": "contract",
    "account_state_code_hash_after": "contract",
    "block_shard": "shard",
    "block_workchain": "workchain",
}
#: Columns of words with underscores, which plots write with spaces.
_WORDS = (OPERATION, "phase", "descr", "bounce", "skipped_reason")

_WIDEST, _ADDRESS = 40, 11  # characters
_TINY = 1e-15  # a millionth of a nanoton: with all zeros, smaller numbers would be too long
_WHOLE = 1000  # from here on, three significant digits are a whole number
#: How the start of a period is written. Other moments are written to the minute.
_PERIODS = {"day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}


def to_pandas(frame: object) -> pd.DataFrame:
    """Read the result of a helper into memory. Integers stay integers."""
    native: Any = frame
    table = nw.from_native(native).lazy().collect("pyarrow").to_native()
    rows: pd.DataFrame = table.to_pandas(types_mapper=dtype_of, ignore_metadata=True)
    return rows


def name(column: str) -> str:
    """Return the name of a column as plots write it."""
    return _NAMES.get(column, column.replace("_", " "))


def title(what: str, keys: Sequence[str]) -> str:
    """Return the title of a plot that has groups."""
    return f"{what} by {' and '.join(map(name, keys))}" if keys else what


def label_groups(
    groups: pd.DataFrame,
    keys: Sequence[str],
    top: int,
    plot: str,
    address_book: object | None = None,
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the label of each row of a plot, and for each group the row it is drawn in.

    The first `top` groups have a row each. The others share the last row, unless only one group
    is left: it gets its own row, since a row for the others would take the same room. The hash or
    address of something that has a name is in a second line.
    """
    own = len(groups) if len(groups) <= top + 1 else top
    texts = _group_labels(groups.head(own), keys, plot, address_book)
    if own < len(groups):
        texts.append(f"{len(groups) - own:,} others")
    return texts, np.minimum(np.arange(len(groups)), own)


def _group_labels(
    groups: pd.DataFrame, keys: Sequence[str], plot: str, address_book: object | None
) -> list[str]:
    if not keys:
        return ["all"] * len(groups)
    addresses = [groups[key].dropna() for key in keys if key in names.COLUMNS]
    known = address_labels(set().union(*addresses), plot, address_book)
    columns = [[_label(value, key, known) for value in groups[key]] for key in keys]
    if len(columns) == 1:
        return columns[0]
    return [" · ".join(in_one_line(text) for text in row) for row in zip(*columns, strict=True)]


def in_one_line(text: str) -> str:
    """Return a label without its second line."""
    return text.partition("\n")[0]


def first_lines(texts: Sequence[str]) -> list[str]:
    """Return labels without their second lines, except where several would be the same."""
    firsts = [in_one_line(text) for text in texts]
    return [
        first if firsts.count(first) == 1 else text.replace("\n", " · ")
        for first, text in zip(firsts, texts, strict=True)
    ]


def address_labels(
    addresses: Iterable[str], plot: str, address_book: object | None = None
) -> dict[str, str]:
    """Return a label for each address: its name in the address book, or the shortened address."""
    texts = {address: shortened(address, _ADDRESS) for address in addresses}
    if address_book is None:
        return texts
    needs = ["address", "domain", "user_friendly", "fetched_at"]
    book = intake.take(address_book, plot, ADDRESS_BOOK, needs)
    if not texts:
        return {}
    entries = to_pandas(book.filter(nw.col("address").is_in(list(texts))).to_native())
    named = names.with_names(
        pd.DataFrame({"address": pd.Series(list(texts), dtype="str")}), entries
    )
    for address, domain, friendly in zip(
        texts, named.address_name, named.address_friendly, strict=True
    ):
        if isinstance(friendly, str):
            texts[address] = shortened(friendly, _ADDRESS)
        if isinstance(domain, str) and domain.strip():
            texts[address] = f"{shortened(domain)}\n{texts[address]}"
    return texts


def _label(value: Any, key: str, known: Mapping[str, str]) -> str:
    if pd.isna(value):
        return "none"
    if key in names.COLUMNS:
        return known[value]
    if key == "opcode":
        return _named(opcode_name(int(value)), f"0x{int(value):08x}")
    if "hash" in key or key == "trace_id":
        contract = code_name(value) if key in names.CODE_HASHES else None
        return _named(contract, shortened(str(value), _ADDRESS))
    if key == "block_shard":
        return f"{int(value) & (1 << 64) - 1:016x}"  # the tagged prefix, as explorers write it
    if isinstance(value, pd.Timestamp):
        return value.tz_convert("UTC").strftime(_PERIODS.get(key, "%Y-%m-%d %H:%M"))
    text = words(str(value)) if key in _WORDS else str(value)
    return shortened(text)


def _named(name: str | None, code: str) -> str:
    return code if name is None else f"{shortened(words(name))}\n{code}"


def words(identifier: str) -> str:
    """Return a name with spaces."""
    return identifier.replace("_", " ")


def shortened(text: str, width: int = _WIDEST) -> str:
    """Return a text with special characters escaped, and without its middle if it is too long."""
    return cut(inert(text), width)


def cut(plain: str, width: int) -> str:
    """Return a text without its middle if it is too long."""
    if len(plain) <= width:
        return plain
    if plain.endswith("…"):  # it has lost its end already
        return f"{plain[: width - 1].rstrip()}…"
    tail = (width - 1) * 2 // 5
    return f"{plain[: width - 1 - tail]}…{plain[-tail:]}"


def short(number: float) -> str:
    """Return a number with three significant digits.

    Examples
    --------
    >>> [short(number) for number in (0, 0.000000012, 0.123456, 9876, 999_999, 2.5e9)]
    ['0', '0.000000012', '0.123', '9,880', '1 million', '2.5 billion']
    >>> short(2e18)
    '2,000,000 trillion'
    >>> short(1.5e-300)
    '1.5e-300'
    """
    rounded = float(f"{number:.3g}")
    for scale, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(rounded) >= scale:
            scaled = rounded / scale
            return f"{scaled:,.0f} {word}" if abs(scaled) >= _WHOLE else f"{scaled:.3g} {word}"
    if abs(rounded) >= _WHOLE:
        return f"{rounded:,.0f}"
    if 0 < abs(rounded) < _TINY:
        return f"{rounded:.3g}"
    return np.format_float_positional(rounded, trim="-")
