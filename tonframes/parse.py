"""Answers that one already has, as Blocks and Accounts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tonframes.errors import DecodeError, shorten
from tonframes.frames import Accounts, Blocks
from tonframes.wire import pages, schema
from tonframes.wire.kinds import REFUSALS

#: An answer, or one object of it: as bytes, as text, or parsed.
Json = bytes | str | dict[str, Any]


def parse_blocks(body: Json) -> Blocks:
    """Turn an answer about masterchain blocks that you already have into frames.

    Parameters
    ----------
    body
        Bytes, text or parsed JSON: `{"transactions": […]}` as the specification has it,
        `{"blocks": […]}` as deployed services answer, or both.

    Returns
    -------
    Blocks, with rows in the body's order. Only the form is checked, not completeness.

    Raises
    ------
    DecodeError
        The body is not of the declared form: the message names path, expectation and value.

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
    page = pages.read(schema.BLOCKS_ANSWER, _bytes(body))
    return Blocks(pages.blocks_tables([page]), extra=pages.answer_extra([page]))


def parse_accounts(body: Json) -> Accounts:
    """Turn an answer about account states that you already have into frames.

    Parameters
    ----------
    body
        Bytes, text or parsed JSON: `{"accounts": […], "address_book": {…}, "metadata": {…}}`.

    Returns
    -------
    Accounts, with rows in the body's order; `fetched_at` is null.

    Raises
    ------
    DecodeError
        The body is not of the declared form: the message names path, expectation and value.

    Examples
    --------
    >>> parse_accounts({"accounts": [{"address": "0:00", "balance": "7"}]}).accounts.balance[0]
    np.int64(7)
    """
    page = pages.read(schema.ACCOUNTS_ANSWER, _bytes(body))
    return Accounts(pages.accounts_tables([page]), extra=pages.answer_extra([page]))


def parse_transactions(
    records: Iterable[Json], *, address_book: Mapping[str, Any] | None = None
) -> Blocks:
    """Turn transactions that you already have, one record each, into frames.

    Parameters
    ----------
    records
        Transactions as the service shows them, messages inside: dicts, or the bytes or texts of
        JSON objects, as the lines of a file are. An iterator is used up.
    address_book
        Address to entry, as in an answer.

    Returns
    -------
    Blocks, with rows in the order of the records, and without the table of blocks.

    Raises
    ------
    DecodeError
        A record is not of the declared form: the path `$.transactions[3]` names the fourth.

    Warns
    -----
    TonframesWarning
        As from `parse_blocks`.

    Examples
    --------
    >>> import tonframes as tf
    >>> body = tf.read_blocks(tf.sample(), [90_000_000]).to_json(dialect="specification")
    >>> records = json.loads(body)["transactions"]
    >>> len(parse_transactions(records).transactions)
    25
    >>> parse_transactions(['{"account": "0:00"}'])
    Traceback (most recent call last):
    tonframes.errors.DecodeError: $.transactions[0].hash: expected a string, found nothing
    """
    return parse_blocks(_body("transactions", records, {"address_book": address_book}))


def parse_account_states(
    records: Iterable[Json],
    *,
    address_book: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Accounts:
    """Turn account states that you already have, one record each, into frames.

    Parameters
    ----------
    records
        Account states as the service shows them: dicts, or the bytes or texts of JSON objects.
    address_book, metadata
        Address to entry, as in an answer.

    Returns
    -------
    Accounts, with rows in the order of the records; `fetched_at` is null.

    Raises
    ------
    DecodeError
        A record is not of the declared form: the path `$.accounts[3]` names the fourth.

    Examples
    --------
    >>> states = parse_account_states([{"address": "0:00", "balance": "7"}, '{"address": "0:01"}'])
    >>> states.accounts.balance.to_list()
    [7, <NA>]
    """
    entries = {"address_book": address_book, "metadata": metadata}
    return parse_accounts(_body("accounts", records, entries))


def _body(name: str, records: Iterable[Json], entries: Mapping[str, Any]) -> bytes:
    """Put records together to the body that they might have come in."""
    whole = isinstance(records, str | bytes | bytearray | memoryview | Mapping)
    if whole or not isinstance(records, Iterable):
        raise TypeError(
            f"records are an iterable of {name}, not {shorten(records)}; parse_blocks and "
            "parse_accounts take a whole body"
        )
    rows = [_record(record, f"$.{name}[{i}]") for i, record in enumerate(records)]
    maps = [
        b',"%b":%b' % (key.encode(), _bytes(dict(entry), f"$.{key}"))
        for key, entry in entries.items()
        if entry is not None
    ]
    return b'{"%b":[%b]%b}' % (name.encode(), b",".join(rows), b"".join(maps))


def _record(record: Json, path: str) -> bytes:
    """Give a record as bytes, which are JSON by themselves."""
    token = _bytes(record, path)
    try:
        return bytes(msgspec.json.decode(token, type=msgspec.Raw))
    except REFUSALS as malformed:
        raise DecodeError(path, "JSON", f"{shorten(token)} ({malformed})") from None


def _bytes(body: Json, path: str = "$") -> bytes:
    """Give a body as bytes; parsed JSON is written exactly, or refused."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DecodeError(path, "JSON", f"{shorten(body)} ({error})") from None
