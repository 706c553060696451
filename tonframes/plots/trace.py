"""Plot the messages of one trace as a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis import engines, intake, operations
from tonframes.analysis.money import with_price
from tonframes.errors import shorten
from tonframes.plots import amounts, axes, labels, marks
from tonframes.plots.colors import MAIN, choose, ink
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from tonframes.plots.amounts import Unit
    from tonframes.plots.colors import Colors

#: What `plot_trace` reads.
TRACE = (
    "tx_hash",
    "trace_id",
    "direction",
    "msg_hash",
    "source",
    "destination",
    "value",
    "bounced",
    "opcode",
)

_WIDEST, _THINNEST, _ALL_WIDTHS = 10.0, 0.8, 150.0  # points
_BESIDE = 8.0  # points between a point and its value
_ENDS = ("msg_hash", "source", "destination", "value", "operation")


def plot_trace(
    messages: object,
    *,
    trace_id: str,
    top: int = 10,
    unit: str = "TON",
    prices: pd.Series[Any] | None = None,
    colors: Colors | None = None,
    address_book: object | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the messages of one trace as a tree.

    Parameters
    ----------
    messages
        A frame of any engine, or a `Blocks`. `tonframes.plots.trace.TRACE`
        names the columns.
    trace_id
        Which trace to draw.
    top
        How many messages to draw, those with the highest values, with all messages that caused
        them. The others share a row below the message that caused them, with their sum.
    unit
        What the values are written in: "TON", "nanoton", or the currency of `prices`, such as
        "USD".
    prices
        The price of 1 TON in this currency, as for `with_price`. A currency needs them.
    colors
        A mapping from operations to the colours of their lines, or the colours of the first
        operations. None draws all lines in one colour.
    address_book
        Names for the addresses: a frame of any engine.
    ax
        The Axes to draw on. None creates a new figure.

    Returns
    -------
    The Axes. Each row is a message: its operation (`with_operation`), and below it the account that
    received it. A line comes from the row of the message that caused it, which is above and to the
    left. The higher the value, the thicker the line; at the right is the value.

    Raises
    ------
    ValueError
        There are no messages of this trace.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> ax = plot_trace(blocks, trace_id=blocks.messages.trace_id[0], ax=Figure().subplots())
    >>> len(ax.get_yticklabels())
    5
    """
    axes.check_top(top)
    drawn = amounts.unit_of("plot_trace", unit, prices)
    if not isinstance(trace_id, str):
        raise TypeError(f"plot_trace needs a trace_id, a str, not {shorten(trace_id)}")
    times = [] if drawn.prices is None else ["tx_now"]
    needs = dict.fromkeys([*TRACE, *times, *operations.read_of(messages, "plot_trace")])
    every = intake.take(messages, "plot_trace", MESSAGES, needs)
    trace = engines.by_row(every.filter(nw.col("trace_id") == trace_id), operations.to_messages)
    frame = labels.to_pandas(trace.to_native())
    if frame.empty:
        raise ValueError(f"plot_trace: no message is of the trace {shorten(trace_id)}")
    if drawn.prices is not None:
        # Both ends of a message have its value. It is converted at the time it was sent.
        frame = frame.sort_values("tx_now", kind="stable")
        frame = with_price(frame, columns=["value"], time="tx_now", **drawn.options)
        frame["value"] = frame[drawn.column("value")]
    rows = rows_of(join_ends(frame), top)
    accounts = {row.account for row in rows if row.account}
    known = labels.address_labels(accounts, "plot_trace", address_book)
    kinds = list(dict.fromkeys(row.operation for row in rows if row.operation is not None))
    palette = choose(colors, kinds, "plot_trace")
    names = [_label(row, known) for row in rows]
    title = f"Trace {labels.shortened(trace_id, 11)}, in {drawn.name}"
    ax = axes.start(ax, rows=names)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xticks([])
    _draw_tree(ax, rows, dict.fromkeys(kinds, MAIN) if colors is None else palette)
    _write_values(ax, rows, drawn)
    axes.finish(ax, title)
    return ax


def _draw_tree(ax: Axes, rows: Sequence[Row], colors: Mapping[str, str]) -> None:
    """Draw a point for each row, and a curve to it from its parent."""
    from matplotlib import patches, path  # noqa: PLC0415 - importing tonframes does not import matplotlib

    scale = min(_WIDEST, _ALL_WIDTHS / len(rows)) / (max(row.value or 0 for row in rows) or 1)
    for place, row in enumerate(rows):
        if row.parent is None:
            continue
        start = rows[row.parent].depth, row.parent
        curve = path.Path([start, (start[0], place), (row.depth, place)], [1, 3, 3])
        width = max(_THINNEST, scale * (row.value or 0))
        color = colors.get(row.operation or "", MAIN)
        ax.add_patch(patches.PathPatch(curve, fill=False, edgecolor=color, linewidth=width))
    depths = [row.depth for row in rows]
    ax.plot(depths, range(len(rows)), "o", markersize=5, color=ink(ax))


def _write_values(ax: Axes, rows: Sequence[Row], unit: Unit) -> None:
    """Write the value of each message beside its point."""
    values = {place: row.value for place, row in enumerate(rows) if row.value is not None}
    texts = [labels.short(value) for value in unit.values(values.values())]
    deepest = max(row.depth for row in rows)
    ax.set_xlim(-0.2, deepest + 0.2 + marks.room(ax, texts) * (deepest + 0.4))
    for place, text in zip(values, texts, strict=True):
        marks.write(ax, text, (rows[place].depth, place), gap=_BESIDE)


def _label(row: Row, known: Mapping[str, str]) -> str:
    if row.others:
        return f"{row.others:,} others"
    if row.account is None:
        return "outside"
    account = known[row.account]
    if row.operation is None:
        return account
    operation = labels.shortened(labels.words(row.operation))
    return f"{operation}\n{labels.in_one_line(account)}"


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
    """A row of the plot: the account that received a message, or the number of `others`."""

    account: str | None
    value: float | None
    depth: int = 0
    parent: int | None = None
    operation: str | None = None
    others: int = 0


def join_ends(frame: pd.DataFrame) -> list[Message]:
    """Return each message once, with the transactions at both of its ends."""
    ends: dict[Any, str] = frame.set_index(["msg_hash", "direction"])["tx_hash"].to_dict()
    once = frame.drop_duplicates("msg_hash").astype(object)
    columns: list[Any] = [once[name].where(once[name].notna(), None) for name in _ENDS]
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

    Drawn are the `top` messages with the highest values, with all that caused them. The other
    messages of a transaction share a row, and what they caused is not drawn.
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
    single = [message for message in messages if message not in others]
    rows: list[tuple[Row, str | None]]
    rows = [
        (Row(m.destination, m.value, depth, parent, m.operation), m.received_by or "")
        for m in reversed(single)
    ]
    if not others:
        return rows
    total = sum(message.value or 0 for message in others)
    return [(Row(None, total, depth, parent, others=len(others)), ""), *rows]
