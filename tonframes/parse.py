"""Turn JSON that you already have into Blocks and Accounts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tonframes.errors import DecodeError, shorten
from tonframes.frames import Accounts, Blocks
from tonframes.wire import pages, schema
from tonframes.wire.kinds import REFUSALS

if TYPE_CHECKING:
    from tonframes.wire.pages import Page
    from tonframes.wire.record import Record

#: JSON as bytes, as text, or parsed.
Json = bytes | str | dict[str, Any]


def parse_blocks(document: Json) -> Blocks:
    """Turn JSON about masterchain blocks that you already have into frames.

    Parameters
    ----------
    document
        Bytes, text or parsed JSON: `{"transactions": […]}` as in the specification,
        `{"blocks": […]}` as deployed services write it, or both.

    Returns
    -------
    Blocks, with rows in the order of the document. Only the form is checked, not whether anything
    is missing.

    Raises
    ------
    DecodeError
        The document does not have the declared form: the message names the path, what was expected
        and the value.
    TypeError
        The document is neither bytes, text nor parsed JSON.

    Warns
    -----
    TonframesWarning
        Fields that the schema does not know were kept in `extra`, or a transaction that came
        twice with the same content was kept once.

    Examples
    --------
    >>> parse_blocks('{"transactions": []}').transactions.shape
    (0, 100)
    >>> parse_blocks('{"error": "blocks not found"}')
    Traceback (most recent call last):
    tonframes.errors.DecodeError: $: expected an object with "transactions" or "blocks", found ...
    """
    page = _read(schema.BLOCKS_ANSWER, document)
    return Blocks(pages.blocks_tables([page]), extra=pages.answer_extra([page]))


def parse_accounts(document: Json) -> Accounts:
    """Turn JSON about account states that you already have into frames.

    Parameters
    ----------
    document
        Bytes, text or parsed JSON: `{"accounts": […], "address_book": {…}, "metadata": {…}}`.

    Returns
    -------
    Accounts, with rows in the order of the document; `fetched_at` is null.

    Raises
    ------
    DecodeError, TypeError
        As from `parse_blocks`.

    Examples
    --------
    >>> parse_accounts({"accounts": [{"address": "0:00", "balance": "7"}]}).accounts.balance[0]
    np.int64(7)
    """
    page = _read(schema.ACCOUNTS_ANSWER, document)
    return Accounts(pages.accounts_tables([page]), extra=pages.answer_extra([page]))


def parse_transactions(
    records: Iterable[Json], *, address_book: Mapping[str, Any] | None = None
) -> Blocks:
    """Turn single transactions that you already have into frames.

    Parameters
    ----------
    records
        Transactions as the service shows them, with their messages inside: dicts, or JSON objects
        as bytes or text, such as the lines of a file. An iterator is consumed.
    address_book
        Entries by address, as the service shows them.

    Returns
    -------
    Blocks, with rows in the order of the records, and without the table of blocks.

    Raises
    ------
    DecodeError
        A record does not have the declared form: the path `$.transactions[3]` means the fourth.
    TypeError
        `records` is not an iterable of records, or `address_book` is not a mapping.

    Warns
    -----
    TonframesWarning
        As from `parse_blocks`.

    Examples
    --------
    >>> import tonframes as tf
    >>> document = tf.read_blocks(tf.sample(), [90_000_000]).to_json(dialect="specification")
    >>> records = json.loads(document)["transactions"]
    >>> len(parse_transactions(records).transactions)
    25
    >>> parse_transactions(['{"account": "0:00"}'])
    Traceback (most recent call last):
    tonframes.errors.DecodeError: $.transactions[0].hash: expected a string, found nothing
    """
    return parse_blocks(_document("transactions", records, {"address_book": address_book}))


def parse_account_states(
    records: Iterable[Json],
    *,
    address_book: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Accounts:
    """Turn single account states into frames, as `parse_transactions` does with transactions."""
    entries = {"address_book": address_book, "metadata": metadata}
    return parse_accounts(_document("accounts", records, entries))


def _read(record: Record, document: Json) -> Page:
    if not isinstance(document, bytes | bytearray | memoryview | str | dict | list):
        raise TypeError(f"the document is JSON as bytes, text or a dict, not {shorten(document)}")
    return pages.read(record, json_bytes(document))


def _document(name: str, records: Iterable[Json], entries: Mapping[str, Any]) -> bytes:
    """Join records into one document, as the service would send them."""
    whole = isinstance(records, str | bytes | bytearray | memoryview | Mapping)
    if whole or not isinstance(records, Iterable) or getattr(records, "ndim", 1) == 0:
        raise TypeError(
            f"records are an iterable of {name}, not {shorten(records)}; parse_blocks and "
            "parse_accounts take a whole document"
        )
    rows = []
    for i, record in enumerate(records):
        path = f"$.{name}[{i}]"
        token = json_bytes(record, path)
        try:  # a record must be JSON by itself
            rows.append(bytes(msgspec.json.decode(token, type=msgspec.Raw)))
        except REFUSALS as malformed:
            raise DecodeError(path, "JSON", f"{shorten(token)} ({malformed})") from None
    members = [b'"%b":[%b]' % (name.encode(), b",".join(rows))]
    for key, entry in entries.items():
        if entry is not None and not isinstance(entry, Mapping):
            raise TypeError(f"{key} has entries by address, not {shorten(entry)}")
        if entry is not None:
            members.append(b'"%b":%b' % (key.encode(), json_bytes(dict(entry), f"$.{key}")))
    return b"{%b}" % b",".join(members)


def json_bytes(document: Json, path: str = "$") -> bytes:
    """Return JSON as bytes. Parsed JSON is written exactly, or raises an error."""
    if isinstance(document, bytes | bytearray | memoryview):
        return bytes(document)
    try:
        text = document if isinstance(document, str) else json.dumps(document, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DecodeError(path, "JSON", f"{shorten(document)} ({error})") from None
