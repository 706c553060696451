"""The messages of a trace as the rows of a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


_SHOWN = ("msg_hash", "source", "destination", "value")


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and the transactions that sent it and that it ran, as far as they are there."""

    msg_hash: str
    source: str | None
    destination: str | None
    value: int | None
    sent_by: str | None
    ran: str | None

    @property
    def cause(self) -> str | None:
        """What is before it: a transaction, or a sender; None of a message from outside."""
        return self.sent_by or self.source


@dataclass(frozen=True, slots=True)
class Row:
    """Who received a message, or how many `others` did; `parent` is the row that it came from."""

    account: str | None
    value: int | None
    depth: int = 0
    parent: int | None = None
    others: int = 0


def messages_of(frame: pd.DataFrame) -> list[Message]:
    """Put both ends of each message together."""
    ends: dict[tuple[str, str], str] = {}
    for name, direction, transaction in zip(
        frame["msg_hash"], frame["direction"], frame["tx_hash"], strict=True
    ):
        ends[name, direction] = transaction
    once = frame.drop_duplicates("msg_hash").astype(object)
    columns: list[Any] = [once[name].where(once[name].notna(), None) for name in _SHOWN]
    return [
        Message(name, source, destination, value, ends.get((name, "out")), ends.get((name, "in")))
        for name, source, destination, value in zip(*columns, strict=True)
    ]


def rows_of(messages: Iterable[Message], top: int) -> list[Row]:
    """Lay messages out, each below the one that caused it, those of higher values first.

    Parameters
    ----------
    messages
        Those of one trace.
    top
        How many to draw, with those that caused them. What else a transaction sent is summed up
        in one row, and what came of that is left out.
    """
    messages = sorted(messages, key=lambda message: -(message.value or 0))
    drawn = _with_causes(messages, top)
    below = defaultdict[str | None, list[Message]](list)
    for message in messages:
        below[message.cause].append(message)
    known = {message.ran for message in messages}
    senders = {m.cause: m.source for m in messages if m.cause and m.cause not in known}
    # What is to come, the next at the end: a row, and the transaction or sender that it stands for.
    waiting: list[tuple[Row, str | None]]
    waiting = [(Row(account, None), cause) for cause, account in reversed(senders.items())]
    waiting += _children(below.pop(None, []), drawn, 0, None)
    rows: list[Row] = []
    while waiting:
        row, cause = waiting.pop()
        rows.append(row)
        waiting += _children(below.pop(cause, []), drawn, row.depth + 1, len(rows) - 1)
    return rows


def _with_causes(messages: list[Message], top: int) -> set[Message]:
    """Choose the first messages, and all that led to them."""
    ran_by = {message.ran: message for message in messages if message.ran}
    drawn: set[Message] = set()
    for message in messages[:top]:
        link: Message | None = message
        while link and link not in drawn:
            drawn.add(link)
            link = ran_by.get(link.sent_by or "")
    return drawn


def _children(
    messages: list[Message], drawn: set[Message], depth: int, parent: int | None
) -> list[tuple[Row, str | None]]:
    """Make the rows of what one transaction sent, the last one first."""
    left = [message for message in messages if message not in drawn]
    if len(left) == 1:  # takes no more room than the word for it
        left = []
    shown = [message for message in messages if message not in left]
    rows: list[tuple[Row, str | None]]
    rows = [(Row(m.destination, m.value, depth, parent), m.ran or "") for m in reversed(shown)]
    if not left:
        return rows
    total = sum(message.value or 0 for message in left)
    return [(Row(None, total, depth, parent, len(left)), ""), *rows]
