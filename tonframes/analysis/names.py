"""Names for addresses, from the address book and the metadata of the service, and for contracts."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import narwhals as nw

from tonframes.analysis import engines
from tonframes.analysis.doubts import tell_friendly
from tonframes.analysis.engines import text_of
from tonframes.analysis.intake import Given, newest, same_engine
from tonframes.batches import left_join
from tonframes.inert import UNSEEN
from tonframes.native import enter
from tonframes.network.contracts import code_names
from tonframes.wire.kinds import REFUSALS
from tonframes.wire.schema import ADDRESS_BOOK, METADATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonframes.analysis.engines import AnyFrame, Frame

#: The columns of our tables that hold addresses.
COLUMNS = ("account", "source", "destination", "address")
#: The columns of our tables that hold code hashes.
CODE_HASHES = ("code_hash", "account_state_code_hash_before", "account_state_code_hash_after")

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HELPER, _KEY = "with_names", "address of the entry"


def with_names(
    frame: AnyFrame,
    address_book: object,
    metadata: object | None = None,
    *,
    columns: Sequence[str] = (*COLUMNS, *CODE_HASHES),
) -> AnyFrame:
    """Add names to addresses and code hashes.

    Owners choose names themselves. Anyone can register a domain that looks like another one, or
    call a token USD₮: compare addresses, never names. Characters that terminals act on or that
    cannot be seen are replaced by U+FFFD.

    Parameters
    ----------
    frame
        A frame of any engine with raw addresses or code hashes, as in the tables of `Blocks` and
        `Accounts`.
    address_book
        The address book of these addresses: a frame of the same engine. If an address has several
        entries, the newest one (`fetched_at`) is used.
    metadata
        The table `metadata` of `Accounts`, a frame of any engine. It has a row for each token and
        is read into memory.
    columns
        Columns of addresses, and of code hashes: `code_hash`, `account_state_code_hash_before` and
        `account_state_code_hash_after`. Columns that the frame does not have are ignored.

    Returns
    -------
    A frame of the same engine with the same rows. Their order stays the same if the engine keeps
    one, and on pandas the index as well. After each column found, there are:

    - <column>_name: symbol or, without one, name of the token; or else the domain; or else null.
      Of a column of code hashes, the name of the contract, as `code_name` gives it.
    - <column>_friendly: the user-friendly form in the address book. Columns of code hashes have
      none.

    Raises
    ------
    TypeError
        The frames are of different engines, or are not frames.
    ValueError
        The frame has none of the columns, or already has columns of these names.

    Examples
    --------
    >>> import tonframes as tf
    >>> states = tf.read_accounts(tf.sample())
    >>> named = with_names(states.accounts, states.address_book, states.metadata)
    >>> list(named)[:4]
    ['address', 'address_name', 'address_friendly', 'status']
    >>> sorted(named.address_name.dropna().unique())[:2]
    ['MUD₮', 'Picture 0']
    """
    rows, found = _checked(frame, columns)
    entries = Given(address_book, _HELPER, ADDRESS_BOOK)
    book = newest(entries, ["domain", "user_friendly"])
    same_engine(Given(frame, _HELPER, ADDRESS_BOOK), entries)
    tokens = {} if metadata is None else _tokens(metadata)
    order = list(rows.collect_schema())
    for column in found:
        if column not in CODE_HASHES:
            tell_friendly(_HELPER, rows, column)
        step = partial(_with_name, column=column, book=book, tokens=tokens)
        rows = engines.beside(rows, step, reads=[column], writes=_added(column))
        place = order.index(column) + 1
        order[place:place] = _added(column)
    native: AnyFrame = rows.select(order).to_native()
    return native


def _checked(frame: object, columns: Sequence[str]) -> tuple[nw.DataFrame[Any] | Frame, list[str]]:
    """Return a frame, and which of the columns it has."""
    if isinstance(columns, str):
        raise TypeError("columns is a list of names: put a single one into a list")
    rows = enter(frame, _HELPER)
    if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
        raise TypeError(
            f"{_HELPER} takes a frame with addresses or code hashes, not {type(frame).__name__}"
        )
    names = rows.collect_schema().names()
    found = [column for column in dict.fromkeys(columns) if column in names]
    if not found:
        raise ValueError(
            f"{_HELPER} found none of the columns {', '.join(columns)} in the frame: name those "
            "that hold addresses with columns="
        )
    if taken := [name for column in found for name in _added(column) if name in names]:
        raise ValueError(f"{_HELPER} would add the column {taken[0]!r}, which the frame has")
    return rows, found


def _added(column: str) -> tuple[str, ...]:
    name = f"{column}_name"
    return (name,) if column in CODE_HASHES else (name, f"{column}_friendly")


def _tokens(metadata: object) -> dict[str, str]:
    """Return the names of tokens by address."""
    rows = newest(Given(metadata, _HELPER, METADATA), ["token_info"]).collect("pyarrow")
    infos = zip(rows["address"].to_list(), rows["token_info"].to_list(), strict=True)
    return {address: name for address, info in infos if (name := _token(info)) is not None}


def token_entries(info: str | None) -> list[dict[str, Any]]:
    """Return the entries in the metadata of a token. Anything else in their place is ignored."""
    try:
        tokens = msgspec.json.decode(info) if info else []
    except REFUSALS:
        return []
    if not isinstance(tokens, list):
        return []
    return [token for token in tokens if isinstance(token, dict)]


def _token(info: str | None) -> str | None:
    """Return the symbol or, without one, the name in the metadata of a token."""
    entries = token_entries(info)
    names = (entry.get(key) for key in ("symbol", "name") for entry in entries)
    found = next((name for name in names if isinstance(name, str) and name), None)
    return found and re.sub(UNSEEN, _REPLACEMENT, found)


def _with_name(rows: Frame, column: str, book: Frame, tokens: dict[str, str]) -> Frame:
    if column in CODE_HASHES:
        return rows.with_columns(code_names(nw.col(column)).alias(f"{column}_name"))
    name, friendly = _added(column)
    # Characters that cannot be seen are replaced.
    entries = book.select(
        nw.col("address").cast(nw.String).alias(_KEY),
        text_of("domain").str.replace_all(UNSEEN, _REPLACEMENT).alias(name),
        text_of("user_friendly").str.replace_all(UNSEEN, _REPLACEMENT).alias(friendly),
    )
    named = left_join(rows, entries, left_on=column, right_on=_KEY)
    if not tokens:
        return named
    token = nw.col(column).replace_strict(tokens, default=None, return_dtype=nw.String)
    return named.with_columns(nw.coalesce(token, nw.col(name)).alias(name))
