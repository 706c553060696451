"""The summaries: what they have in common before and after they add up amounts.

Transactions are grouped by their columns, by the message that started them, or by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import narwhals as nw

from tonframes.analysis import engines, intake, sums
from tonframes.analysis.doubts import tell_repeated, tell_unstarted
from tonframes.analysis.money import read_prices, with_price_at
from tonframes.analysis.operations import OPERATION, reads_of, to_messages, to_transactions
from tonframes.analysis.periods import PERIODS, with_period
from tonframes.errors import did_you_mean, shorten
from tonframes.network.opcodes import unsigned_opcodes
from tonframes.wire.schema import MESSAGES

if TYPE_CHECKING:
    import pandas as pd

    from tonframes.analysis.engines import Frame
    from tonframes.analysis.intake import Given
    from tonframes.analysis.results import Result

#: What `by` may name in addition to columns.
COMPUTED = (*PERIODS, OPERATION)


class Options(TypedDict, total=False):
    """The options of every summary, for its types."""

    by: str | Sequence[str]
    wide: bool
    prices: pd.Series[Any] | None
    currency: str


class Summary:
    """One call of a summary, which adds up the rows of `given`."""

    def __init__(
        self,
        result: Result,
        given: Given,
        messages: Given | None = None,
        *,
        by: str | Sequence[str],
        wide: bool = False,
        prices: object = None,
        currency: str = "USD",
    ) -> None:
        self.result, self.helper, self.given, self.messages = result, result.name, given, messages
        self.keys = keys_of(self.helper, by)
        self.wide = wide
        self.money = read_prices(self.helper, prices, currency, result.amounts)
        self.suffix = "" if self.money is None else self.money.suffix

    def transactions(
        self,
        needs: Iterable[str],
        *,
        steps: Iterable[str],
        keys: Sequence[str] | None = None,
        also: Sequence[str] = (),
    ) -> Frame:
        """Return transactions with the columns to group by, and with their price."""
        keys = self.keys if keys is None else keys
        self.refuse_figures([key for key in keys if key not in also], steps)
        periods = [key for key in keys if key in PERIODS]
        self.refuse_own(periods)
        ours = self.given.columns
        own = [key for key in keys if key in ours and key not in periods]
        others = [key for key in keys if key not in ours and key not in periods]
        messages = self.messages
        if others and (messages is None or messages.passed is None):
            self._refuse_without_messages(others[0])
        typed = OPERATION in others or (bool(others) and "descr" in ours)
        timed = bool(periods) or self.money is not None
        needs = [*needs, "hash", *["now"] * timed, *["descr"] * typed]
        rows = self.given.take(needs, also=own)
        tell_repeated(self.given, rows)
        if others and messages is not None:
            theirs = messages.columns
            self.refuse_unknown(others, theirs, [*ours, *theirs])
            reads = ["tx_hash", "direction", *["source"] * ("opcode" in others)]
            incoming = messages_with(messages, others, reads).filter(nw.col("direction") == "in")
            if "opcode" in others:
                incoming = engines.by_row(incoming, _with_internal_opcode)
            incoming = engines.once(incoming.select("tx_hash", *others), "tx_hash")
            intake.same_engine(self.given, messages)
            tell_unstarted(self.given, rows, incoming)
            rows = rows.join(incoming, left_on="hash", right_on="tx_hash", how="left")
            if OPERATION in others:
                rows = engines.by_row(rows, to_transactions)
        return self.timed(rows, periods, "now")

    def timed(self, rows: Frame, periods: Sequence[str], seconds: str) -> Frame:
        """Add periods, and the price in force, at unix seconds."""
        for period in periods:
            rows = with_period(rows, period, seconds)
        return with_price_at(
            rows, self.money, seconds, helper=self.helper, in_memory=self.given.in_memory
        )

    def whole(
        self, groups: Frame, *, also: Sequence[str] = (), unsure: Sequence[str] = ()
    ) -> Frame:
        """Return the amounts of the result, and others, as `sums.whole` does."""
        return sums.whole(
            groups,
            [*self.result.amounts, *also],
            helper=self.helper,
            keys=self.keys,
            wide=self.wide,
            unsure=unsure,
            currency=self.money,
        )

    def give(self, groups: Frame, *, largest: str = "") -> Any:
        """Return the result, the largest figure first, or in the order of keys or of time."""
        groups = groups.select(self.result.names(self.keys, self.suffix))
        if not largest or (self.keys and set(self.keys) <= set(PERIODS)):
            ordered = groups.sort(*self.keys, nulls_last=True) if self.keys else groups
        else:
            ordered = engines.largest_first(groups, largest, self.keys)
        return self.given.give(ordered)

    # ── what by= cannot contain ──────────────────────────────────────────────────────────────────

    def refuse_figures(self, keys: Sequence[str], steps: Iterable[str]) -> None:
        """Raise an error if a key has the name of a column that the helper computes."""
        computed = {*self.result.names((), self.suffix), *steps, sums.ALL}
        if taken := next((key for key in keys if key in computed), None):
            raise ValueError(
                f"{self.helper} cannot group by {taken!r}: it is a column of the result, or of a "
                "step towards it. To group by a column of your own, rename it"
            )

    def refuse_own(self, keys: Sequence[str]) -> None:
        """Raise an error if a frame has a column with the name of a computed key."""
        for each in (self.given, self.messages) if keys else ():
            # The messages of a `Blocks` are those of the schema: they need not be read.
            if each is None or each.passed is None or (each is self.messages and each.of_tables):
                continue
            if own := next((key for key in keys if key in each.columns), None):
                raise ValueError(
                    f"{self.helper} cannot group by {own!r}: the frame of {each.table.name} has a "
                    f"column of this name, and {self.helper} computes {own!r} itself. Rename the "
                    "column to group by it, or leave it out"
                )

    def refuse_unknown(
        self, keys: Sequence[str], columns: Iterable[str], known: Iterable[str]
    ) -> None:
        """Raise an error if no frame has the column of a key."""
        here = {*columns, OPERATION}
        if unknown := next((key for key in keys if key not in here), None):
            near = did_you_mean(unknown, [*known, *COMPUTED])
            raise ValueError(
                f"{self.helper} cannot group by {unknown!r}: there is no such column. by= takes "
                f"columns of the frames, {OPERATION}, {', '.join(PERIODS[:-1])} and "
                f"{PERIODS[-1]}{near}"
            )

    def _refuse_without_messages(self, key: str) -> None:
        if key in (*MESSAGES.schema.names, OPERATION):
            raise ValueError(
                f"{self.helper} cannot group by {key!r} without messages: pass messages=, or a "
                "Blocks"
            )
        near = did_you_mean(key, [*self.given.columns, *MESSAGES.schema.names, *COMPUTED])
        raise ValueError(
            f"{self.helper} cannot group by {key!r}: transactions have no such column. Pass "
            f"messages= for {OPERATION} and columns of messages; {', '.join(PERIODS)} are computed "
            f"from now{near}"
        )


def keys_of(helper: str, by: str | Sequence[str]) -> list[str]:
    """Return what to group by as a list of names, each once."""
    keys = [by] if isinstance(by, str) else by
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise TypeError(f"{helper} groups by names of columns, not by {shorten(by)}")
    return list(dict.fromkeys(keys))


def messages_with(messages: Given, keys: Sequence[str], needs: Sequence[str]) -> Frame:
    """Return messages with columns to group by. The operation is computed; opcodes are unsigned."""
    own = [key for key in keys if key in messages.columns]
    known = [key for key in own if key in MESSAGES.schema.names]
    computed = OPERATION in keys and OPERATION not in own
    reads = reads_of(messages) if computed else []
    rows = messages.take([*needs, *known, *reads], also=own)
    if computed:
        rows = engines.by_row(rows, to_messages)
    if "opcode" in keys:
        unsigned = unsigned_opcodes(nw.col("opcode"))
        rows = engines.by_row(rows, lambda frame: frame.with_columns(opcode=unsigned))
    return rows


def _with_internal_opcode(rows: Frame) -> Frame:
    """Remove the opcodes of external messages, which are mostly the first bits of a signature."""
    return rows.with_columns(opcode=nw.when(~nw.col("source").is_null()).then(nw.col("opcode")))
