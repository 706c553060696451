"""Convert account addresses between raw and user-friendly form, one at a time or whole columns.

An address is a workchain (a signed byte) and 32 bytes. It is written in one of two forms:

- raw: the workchain in decimal, a colon and 64 hex digits, as the service prints it;
- user-friendly: 48 characters of base64 or base64url, which contain a tag, the workchain, the 32
  bytes and their CRC-16/XMODEM. The tag has two flags that are not part of the address: that a
  message to it should not bounce, and that it is for test networks only. So compare and join raw
  addresses.

Sources: TEP-2 (https://github.com/ton-blockchain/TEPs/blob/master/text/0002-address.md) and
`unpack_std_smc_addr` in crypto/block/block.cpp of https://github.com/ton-blockchain/ton.
"""

from __future__ import annotations

import base64
import binascii
import string
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.errors import shorten, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from narwhals.typing import IntoSeries
    from numpy.typing import NDArray

    Converter = Callable[[str], str]

#: A column of addresses. pyarrow has no types: for a type checker its arrays are `Any`, which fits.
Column = TypeVar("Column", bound="pd.Series[Any] | np.ndarray[Any, Any] | list[Any] | IntoSeries")

_HEX_LENGTH, _FRIENDLY_LENGTH = 64, 48
_TAG, _TAG_MASK = 0x11, 0x3F  # outside the mask: 0x40 do not bounce, 0x80 test networks only
_WORKCHAINS = {str(n): n.to_bytes(1, "big", signed=True) for n in range(-128, 128)}
_SPECIAL = ("addr_none", "addr_extern", "addr_var")
_HEX_DIGITS = frozenset(string.hexdigits)
_BASE64_DIGITS = frozenset(string.ascii_letters + string.digits + "-_+/")
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())


@overload
def to_raw(address: str) -> str: ...
@overload
def to_raw(address: Column) -> Column: ...
def to_raw(address: str | Column) -> str | Column:
    """Convert addresses to the raw form, as the service prints them.

    Parameters
    ----------
    address
        An address in any form, or a column of addresses in any forms: a list of str, a numpy
        array, a pandas or polars Series, a pyarrow Array or ChunkedArray.

    Returns
    -------
    The workchain, a colon and 64 upper-case hex digits. For a column, a new column of the same
    kind, dtype and index (a categorical gets new categories). Nulls stay null.

    Raises
    ------
    ValueError
        A string is not the address of an account: its length, alphabet, checksum, tag or workchain
        is wrong. For a column, the message names the position of the first such string. The
        strings `addr_none`, `addr_extern` and `addr_var`, which the service may print where a
        message has no account, are refused too: as null they could not be distinguished.
        If that does not matter, replace them first with `Series.mask`.
    TypeError
        `address` is neither a string nor a column of strings.

    Notes
    -----
    ``00:``, ``-0:`` and ``+0:`` are not valid workchains, white space is not stripped, and the two
    alphabets of base64 may be mixed.

    Examples
    --------
    >>> to_raw("Ef_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXDvq")
    '-1:E56754F83426F69B09267BD876AC97C44821345B7E266BD956A7BFBFB98DF35C'
    >>> to_raw(["Uf_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXGYv", None])
    ['-1:E56754F83426F69B09267BD876AC97C44821345B7E266BD956A7BFBFB98DF35C', None]
    """
    if isinstance(address, str):
        account = _parse(address)
        return f"{int.from_bytes(account[:1], 'big', signed=True)}:{account[1:].hex().upper()}"
    return _convert(address, to_raw)


@overload
def to_friendly(raw: str, *, bounceable: bool = ..., test_only: bool = ...) -> str: ...
@overload
def to_friendly(raw: Column, *, bounceable: bool = ..., test_only: bool = ...) -> Column: ...
def to_friendly(
    raw: str | Column, *, bounceable: bool = True, test_only: bool = False
) -> str | Column:
    """Convert addresses to the user-friendly form, in base64url.

    Parameters
    ----------
    raw
        An address in any form or a column of addresses, as in `to_raw`. The flags of an address
        that is already user-friendly are replaced.
    bounceable
        Whether a message to the address should be returned if it fails. By convention True for
        contracts and False for wallets.
    test_only
        Whether software for the main network should refuse the address.

    Returns
    -------
    48 characters. For a column, a new column as from `to_raw`.

    Raises
    ------
    ValueError, TypeError
        As in `to_raw`.

    Examples
    --------
    >>> raw = "-1:e56754f83426f69b09267bd876ac97c44821345b7e266bd956a7bfbfb98df35c"
    >>> to_friendly(raw)
    'Ef_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXDvq'
    >>> to_friendly(pd.Series([raw, None], index=["a", "b"]), bounceable=False)
    a    Uf_lZ1T4NCb2mwkme9h2rJfESCE0W34ma9lWp7-_uY3zXGYv
    b                                                 NaN
    dtype: str
    """
    tag = _TAG | (0 if bounceable else 0x40) | (0x80 if test_only else 0)
    if isinstance(raw, str):
        data = bytes([tag]) + _parse(raw)
        checksum = binascii.crc_hqx(data, 0)  # CRC-16/XMODEM
        return base64.urlsafe_b64encode(data + checksum.to_bytes(2, "big")).decode()
    return _convert(raw, partial(to_friendly, bounceable=bounceable, test_only=test_only))


def marked_test_only(addresses: Iterable[str]) -> list[str]:
    """Return those of valid addresses that are marked for test networks only."""
    # The first six bits of the tags 0x91 and 0xd1. A raw address is longer.
    return [a for a in addresses if len(a) == _FRIENDLY_LENGTH and a[0] in "k0"]


def warn_of_test_only(addresses: Sequence[str], place: str) -> None:
    """Warn of valid addresses that are marked for test networks only, where a place has mainnet."""
    if marked := marked_test_only(addresses):
        warn(
            f"{len(marked)} of {len(addresses)} addresses, such as {marked[0]}, are marked for "
            f"test networks only, and {place} mainnet, where they are other accounts, or none: "
            "check the addresses, or use a service of the test network"
        )


def warn_of_unknown(unknown: Sequence[str], accounts: Sequence[str], place: str) -> None:
    """Warn of accounts of which a place knows nothing; it ends with what it does not know."""
    if unknown:
        warn(
            f"{place} of {len(unknown)} of {len(accounts)} accounts, such as {unknown[0]}: check "
            "the addresses, and whether they are of this network"
        )


def _parse(text: str) -> bytes:
    """Read one address in any form; return the byte of its workchain and its 32 bytes."""
    workchain, colon, account = text.partition(":")
    if text in _SPECIAL:
        fault = "the service prints this where a message has no account"
    elif colon:
        if workchain not in _WORKCHAINS:
            fault = f"its workchain {shorten(workchain)} is not a decimal from -128 to 127"
        elif len(account) != _HEX_LENGTH:
            fault = f"it has {len(account)} characters after the colon, not {_HEX_LENGTH}"
        elif not _HEX_DIGITS.issuperset(account):
            fault = "after the colon it has characters that are not hex digits"
        else:
            return _WORKCHAINS[workchain] + bytes.fromhex(account)
    elif len(text) != _FRIENDLY_LENGTH:
        fault = f"it has no colon and {len(text)} characters instead of {_FRIENDLY_LENGTH}"
    elif not _BASE64_DIGITS.issuperset(text):
        fault = "it has characters outside the alphabets of base64 and base64url"
    else:
        data = base64.urlsafe_b64decode(text)
        if binascii.crc_hqx(data, 0):  # over data and checksum together, the CRC is zero
            fault = "its checksum does not match; a character is mistyped"
        elif data[0] & _TAG_MASK != _TAG:
            fault = f"its tag is 0x{data[0]:02x}, not that of an account (0x11, 0x51, 0x91, 0xd1)"
        else:
            return data[1:34]
    raise ValueError(
        f"{shorten(text)} is not the address of an account: {fault}{_advice(text)}. Use the raw "
        "form (0: and 64 hex digits) or the user-friendly form (48 characters of base64 or "
        "base64url)."
    )


def _advice(text: str) -> str:
    """Return what to do if a string is almost an address, or contains one."""
    if text != text.strip():
        return "; strip the white space around it"
    if len(text) == _HEX_LENGTH and _HEX_DIGITS.issuperset(text):
        return ": write the workchain before these hex digits, 0: or (masterchain) -1:"
    if "://" in text:
        return "; it is a link: extract the address from it"
    if "%" in text:
        return "; it is percent-encoded: use urllib.parse.unquote"
    if text.endswith((".ton", ".t.me")):
        return "; it is a domain: look up its account in an address book"
    return ""


# Columns: every kind is converted to Arrow and back.


def _convert(column: Column, convert: Converter) -> Column:
    """Convert every address of a column; its kind, dtype, index and nulls stay the same."""
    result: Any
    if isinstance(column, pa.Array | pa.ChunkedArray):
        result = _convert_arrow(column, convert)
    elif isinstance(column, pd.Series):
        dtype, values = column.dtype, cast("Any", column.array)
        if isinstance(dtype, pd.CategoricalDtype):
            plain = _convert(column.astype(dtype.categories.dtype), convert)
            values = plain.astype("category").array
        elif isinstance(dtype, pd.StringDtype | pd.ArrowDtype):
            values = cast("Any", dtype).__from_arrow__(_convert_arrow(_to_arrow(values), convert))
        else:
            values = _convert_numpy(column.to_numpy(), convert)
        result = pd.Series(values, column.index, values.dtype).__finalize__(column)
    elif isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray):
        result = _convert_numpy(column, convert)
    elif isinstance(column, list):
        result = _convert_numpy(np.fromiter(column, object, len(column)), convert).tolist()
    else:
        result = _convert_series(column, convert)
    return cast("Column", result)


def _convert_series(column: Any, convert: Converter) -> Any:
    """Convert a series of polars, or of another library that narwhals supports."""
    series = nw.from_native(column, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        raise TypeError(
            f"addresses must be a str, a list, a numpy array, a pandas or polars Series, or a "
            f"pyarrow Array or ChunkedArray, not {type(column).__name__}"
        )
    table = pa.table({"address": _convert_arrow(series.to_arrow(), convert)})
    made = nw.from_arrow(table, backend=series.implementation).get_column("address")
    return made.alias(series.name).to_native()


def _convert_numpy(column: NDArray[Any], convert: Converter) -> NDArray[Any]:
    if column.ndim != 1 or column.dtype.kind not in "OUT":
        raise TypeError(
            f"addresses must be a one-dimensional array of str, not {column.ndim}-dimensional of "
            f"{column.dtype}"
        )
    objects = column.astype(object)  # a copy, which keeps its kinds of null
    arrow = _convert_arrow(_to_arrow(objects), convert)
    valid = arrow.is_valid().to_numpy(zero_copy_only=False)
    objects[valid] = arrow.drop_null().to_numpy(zero_copy_only=False)
    longest = pc.max(pc.binary_length(arrow)) if column.dtype.kind == "U" and len(column) else None
    return objects.astype(f"U{longest}" if longest else column.dtype, copy=False)


def _convert_arrow(column: pa.Array, convert: Converter) -> pa.Array:
    """Convert each address once: columns repeat them."""
    if pa.types.is_null(column.type):
        return column
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if values not in _TEXT_TYPES:
        raise TypeError(f"addresses must be a column of strings, not of {column.type}")
    chunked = isinstance(column, pa.ChunkedArray)
    chunks, position = [], 0
    for chunk in column.chunks if chunked else [column]:
        distinct = chunk.cast(pa.large_string()).dictionary_encode()
        converted = []
        for i, text in enumerate(distinct.dictionary.to_pylist()):
            try:
                converted.append(convert(text))
            except ValueError as error:
                first = position + pc.index(distinct.indices, i).as_py()
                raise ValueError(f"position {first}: {error}") from None
        texts = pa.array(converted, pa.large_string()).take(distinct.indices)
        chunks.append(texts.cast(column.type))
        position += len(chunk)
    return pa.chunked_array(chunks, column.type) if chunked else chunks[0]


def _to_arrow(values: Any) -> pa.Array:
    """Convert strings and nulls to Arrow; raise for the first other value, or wrong address."""
    try:
        arrow = pa.array(values, from_pandas=True)
        if not pa.types.is_binary(arrow.type):  # pyarrow makes this of strings mixed with bytes
            return arrow
    except (pa.ArrowException, UnicodeEncodeError):  # mixed types; half a surrogate pair
        pass
    for position, value in enumerate(values):
        if isinstance(value, str):
            try:
                _parse(value)
            except ValueError as error:
                raise ValueError(f"position {position}: {error}") from None
        elif pd.isna(value) is not True:  # for a list it returns an array
            raise TypeError(f"position {position}: {shorten(value)} is not a str")
    raise TypeError("not a column of addresses")
