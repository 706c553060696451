"""The messages of a trace as the rows of a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

_SHOWN = ("msg_hash", "source", "destination", "value", "operation")


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and the transactions that sent and received it; None if they are unknown."""

    msg_hash: str
    source: str | None
    destination: str | None
    value: float | None
    operation: str
    sent_by: str | None
    received_by: str | None

    @property
    def cause(self) -> str | None:
        """The transaction that sent it, or else its sender; None if it came from outside."""
        return self.sent_by or self.source


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the plot: the account that received a message, or the number of `others`.

    `parent` is the row of the message that caused this one. A row without a message is an account
    that sent messages.
    """

    account: str | None
    value: float | None
    depth: int = 0
    parent: int | None = None
    operation: str | None = None
    others: int = 0


def join_ends(frame: pd.DataFrame) -> list[Message]:
    """Return each message once, with the transactions at both of its ends."""
    ends: dict[tuple[str, str], str] = {}
    for msg_hash, direction, transaction in zip(
        frame["msg_hash"], frame["direction"], frame["tx_hash"], strict=True
    ):
        ends[msg_hash, direction] = transaction
    once = frame.drop_duplicates("msg_hash").astype(object)
    columns: list[Any] = [once[name].where(once[name].notna(), None) for name in _SHOWN]
    return [
        Message(
            *(name, source, destination, value, operation),
            sent_by=ends.get((name, "out")),
            received_by=ends.get((name, "in")),
        )
        for name, source, destination, value, operation in zip(*columns, strict=True)
    ]


def rows_of(messages: Iterable[Message], top: int) -> list[Row]:
    """Return the rows of a tree: each message below the one that caused it.

    Parameters
    ----------
    messages
        The messages of one trace.
    top
        How many messages to draw, those with the highest values, with all that caused them. The
        other messages of a transaction share a row, and what they caused is not drawn.
    """
    messages = sorted(messages, key=lambda message: -(message.value or 0))
    drawn = _with_causes(messages, top)
    below = defaultdict[str | None, list[Message]](list)
    for message in messages:
        below[message.cause].append(message)
    known = {message.received_by for message in messages}
    senders = {m.cause: m.source for m in messages if m.cause and m.cause not in known}
    # The rows to come, the next one last, each with the transaction or sender that it stands for.
    stack: list[tuple[Row, str | None]]
    stack = [(Row(account, None), cause) for cause, account in reversed(senders.items())]
    stack += _children(below.pop(None, []), drawn, 0, None)
    rows: list[Row] = []
    while stack:
        row, cause = stack.pop()
        rows.append(row)
        stack += _children(below.pop(cause, []), drawn, row.depth + 1, len(rows) - 1)
    return rows


def _with_causes(messages: list[Message], top: int) -> set[Message]:
    """Return the first `top` messages, and all messages that caused them."""
    received = {message.received_by: message for message in messages if message.received_by}
    drawn: set[Message] = set()
    for message in messages[:top]:
        link: Message | None = message
        while link and link not in drawn:
            drawn.add(link)
            link = received.get(link.sent_by or "")
    return drawn


def _children(
    messages: list[Message], drawn: set[Message], depth: int, parent: int | None
) -> list[tuple[Row, str | None]]:
    """Return the rows of the messages that one transaction sent, the last row first."""
    others = [message for message in messages if message not in drawn]
    if len(others) == 1:  # a row for the others would take the same room
        others = []
    shown = [message for message in messages if message not in others]
    rows: list[tuple[Row, str | None]]
    rows = [
        (Row(m.destination, m.value, depth, parent, m.operation), m.received_by or "")
        for m in reversed(shown)
    ]
    if not others:
        return rows
    total = sum(message.value or 0 for message in others)
    return [(Row(None, total, depth, parent, others=len(others)), ""), *rows]
