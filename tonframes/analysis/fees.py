"""What transactions cost: the parts of their fees, exact to the nanoton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.doubts import UNMATCHED, sending, tell_unmatched, unmatched
from tonframes.analysis.gas import EXCHANGE, is_exchanged
from tonframes.analysis.grouping import Options, Summary
from tonframes.analysis.intake import Given
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

#: The parts of `total_fees` that have columns of their own, by their names in `fee_breakdown`.
#: `action_total_fwd_fees` is not a part: it overlaps the action fees.
PARTS = {
    "storage": "storage_fees_collected",
    "gas": "compute_gas_fees",
    "action": "action_total_action_fees",
    "bounce": "bounce_msg_fees",
    "due": "credit_due_fees_collected",
}

#: All parts, in the order of the columns.
COMPONENTS = ("storage", "gas", "action", "bounce", "import", "due")

_UNSURE = (*COMPONENTS, "residual")
_OF_ROWS = (*_UNSURE, "total_fees")
# Columns that are computed on the way.
_STEPS = ("external", "free", "rest", "zero", "total", "complete", "sent")
# What is added, and what is subtracted.
_COMBINED = {
    "cost": (["total_fees", "fwd_fees"], []),
    "unknown": (["total_fees"], [*COMPONENTS, "residual"]),
}

#: What `fee_breakdown` reads.
BREAKDOWN = (
    "hash",
    "now",
    "total_fees",
    "compute_skipped",
    "compute_success",
    "compute_gas_credit",
    "action_success",
    "action_result_code",
    "bounce",
    *EXCHANGE,
    *(column for column in PARTS.values() if column not in EXCHANGE),
)

# Global versions of mainnet (GlobalVersions.md; transaction.cpp, prepare_action_phase): version 4
# came on 20 December 2023, version 10 on 7 May 2025. The hours are not on record, so these are the
# last seconds of the days. Before them, the sum of the parts decides if it can.
_VERSION_4 = 1_703_116_800
_VERSION_10 = 1_746_662_400
_STATE_TOO_BIG = 50


@overload
def fee_breakdown(transactions: Blocks) -> pd.DataFrame: ...
@overload
def fee_breakdown(transactions: AnyFrame) -> AnyFrame: ...
def fee_breakdown(transactions: AnyFrame) -> AnyFrame:
    """Split the fees of each transaction into their parts.

    In every complete row, in nanoton: ``total = storage + gas + action + bounce + import + due +
    residual``. There, ``residual`` is 0 if the data is correct (`check_fees`).

    Parameters
    ----------
    transactions
        A frame of any engine, of our tables or of the public lake, or a `Blocks`.
        `tonframes.analysis.fees.BREAKDOWN` names the columns.

    Returns
    -------
    A frame of the same engine with one row per transaction (on pandas with the same index):

    - hash: the transaction.
    - storage: rent collected.
    - gas: fee of the compute phase, with the exchange of gas and fees undone
      (`undo_gas_exchange`).
    - action: the part of the forwarding fees that is collected here, and fines. The other part
      travels with the messages: `fee_summary` adds it.
    - bounce: the same part of the forwarding fee of the bounced message.
    - import: the fee for importing the external message that started the transaction. The service
      has no field for it: it is the part of the total that no phase explains. The `import_fee` of
      a message is what its sender declared, and the network ignores it. `check_fees` recomputes
      the fee from the message.
    - due: old storage debt collected; 0 in all of history.
    - total: `total_fees`.
    - residual: total minus all parts.
    - complete: no phase of the transaction is missing. If one is missing, the unknown parts are
      null, and import and residual are null as well.

    Notes
    -----
    Some action fees of failed action phases are recorded, but were not charged. Before global
    version 4 (20 December 2023) these fees were never charged. Before version 10 (7 May 2025) they
    were not charged if the account's state had become too big (result code 50). In these rows
    `action` is 0.

    Source: transaction.cpp of the TON monorepo, where it adds to total_fees.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> fees = fee_breakdown(read_blocks(sample()))
    >>> fees.drop(columns=["hash", "complete"]).sum()["import"]
    np.int64(260352630)
    >>> bool((fees.residual == 0).all())
    True
    """
    given = Given(transactions, "fee_breakdown", TRANSACTIONS)
    rows = engines.by_row(given.take(BREAKDOWN, numbered=True), taken_apart)
    return cast("AnyFrame", given.give(rows, results.FEE_BREAKDOWN.names()))


def taken_apart(rows: Frame) -> Frame:
    """Add the columns of `fee_breakdown` to rows with the columns of `BREAKDOWN`."""
    # Most engines evaluate an expression as often as it is written: columns save that.
    external, rest = nw.col("external"), nw.col("rest")
    skipped = nw.col("compute_skipped").fill_null(value=False)
    failed = ~nw.col("compute_success")
    rows = rows.with_columns(
        # Gas is lent to external messages only.
        external=(nw.col("compute_gas_credit") > 0).fill_null(value=False),
        free=skipped | is_exchanged(),
        storage=nw.col(PARTS["storage"]),
        action=nw.when(skipped | failed | nw.col("action_success").is_in([True, False])).then(
            nw.col(PARTS["action"]).fill_null(0)
        ),
        bounce=nw.col(PARTS["bounce"]).fill_null(0),
        due=nw.col(PARTS["due"]).fill_null(0),
        total=nw.col("total_fees"),
    )
    rows = rows.with_columns(
        gas=nw.when(nw.col("free")).then(nw.lit(0)).otherwise(nw.col(PARTS["gas"])),
    )
    rows = rows.with_columns(
        rest=nw.col("total") - nw.col("storage") - nw.col("gas") - nw.col("bounce") - nw.col("due")
    )
    unpaid = _recorded_but_not_charged() & (external | (rest == 0))
    rows = rows.with_columns(action=nw.when(unpaid).then(nw.lit(0)).otherwise(nw.col("action")))
    rows = rows.with_columns(rest=rest - nw.col("action"))
    rows = rows.with_columns(zero=rest - rest, complete=~rest.is_null())
    return rows.with_columns(
        nw.when(external).then(rest).otherwise(nw.col("zero")).alias("import"),
        nw.when(external).then(nw.col("zero")).otherwise(rest).alias("residual"),
    )


def _recorded_but_not_charged() -> nw.Expr:
    failed = ~nw.col("action_success")
    too_big = (nw.col("action_result_code") == _STATE_TOO_BIG) & (nw.col("now") < _VERSION_10)
    return (failed & ((nw.col("now") < _VERSION_4) | too_big)).fill_null(value=False)


@overload
def fee_summary(
    transactions: Blocks, messages: None = None, **options: Unpack[Options]
) -> pd.DataFrame: ...
@overload
def fee_summary(
    transactions: AnyFrame, messages: AnyFrame, **options: Unpack[Options]
) -> AnyFrame: ...
def fee_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = (),
    wide: bool = False,
    prices: pd.Series[Any] | None = None,
    currency: str = "USD",
) -> AnyFrame:
    """Add up what groups of transactions cost.

    Parameters
    ----------
    transactions, messages
        Two frames of one engine, or a `Blocks` in place of both. The messages of all the
        transactions must be there.
    by
        Columns to group by: columns of transactions (account, descr, compute_exit_code, trace_id,
        account_state_code_hash_before, …); columns of messages (source, …), which means of the
        message that started the transaction; "operation", as `with_operation` gives it; or "hour",
        "day", "week" (from Monday) and "month", in UTC. An empty list makes one group, and no row
        if there is nothing to group. External messages have no opcode: "opcode" is null.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.
    prices, currency
        Prices of 1 TON, as for `with_price`: each amount is converted at the price of its
        transaction before it is added up. None adds no columns.

    Returns
    -------
    A frame of the same engine with a row for each group: the largest cost first, or in the
    order of time if `by` has periods only. Amounts are in nanoton.

    - the columns of `by`.
    - transactions: number of transactions.
    - storage, gas, action, bounce, import, due: as in `fee_breakdown`. Transactions in which a part
      is unknown add nothing to it; a part is null if it is unknown in all transactions.
    - residual: fees that violate the rules; 0 in true data; null if it is unknown in all
      transactions.
    - unknown: fees that cannot be assigned because phases are missing.
    - total_fees: the sum of the columns before, nulls left out: what validators collected in these
      transactions.
    - fwd_fees: the part of the forwarding fees that travels with the messages sent, for the
      validators who import them.
    - cost: total_fees plus fwd_fees: what the accounts paid.
    - share: share of the cost of all groups, 0 to 1; null if nothing was paid.

    With `prices`, each amount in nanoton is followed by the amount in the currency, as a float:
    `cost_usd` and so on. It is null if a price of the group is unknown. The error of
    floats is at most 2^-51 of the sum for each price that is used.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Notes
    -----
    The guide compares other figures that are in use ("What does it cost?").

    Examples
    --------
    >>> import tonframes as tf
    >>> tf.fee_summary(tf.read_blocks(tf.sample()))[["total_fees", "fwd_fees", "cost"]]
       total_fees   fwd_fees        cost
    0  2227351297  283247773  2510599070
    """
    given, theirs = intake.entered("fee_summary", transactions, messages)
    summary = Summary(
        results.FEE_SUMMARY, given, theirs, by=by, wide=wide, prices=prices, currency=currency
    )
    doubted = [*UNMATCHED] * given.in_doubt
    rows = summary.transactions((*BREAKDOWN, *sending(given)), steps=_STEPS)
    outgoing = theirs.take(["tx_hash", "direction", "fwd_fee"])
    outgoing = outgoing.filter(nw.col("direction") == "out").select("tx_hash", fwd_fees="fwd_fee")
    intake.same_engine(given, theirs)
    sent = sums.add_up(outgoing, ["tx_hash"], amounts=["fwd_fees"], rows_as="sent")
    rows = rows.join(sent, left_on="hash", right_on="tx_hash", how="left")
    if doubted:
        rows = engines.by_row(rows, lambda frame: unmatched(frame, "sent"))
    groups = sums.add_up(
        engines.by_row(rows, taken_apart),
        summary.keys,
        sums=doubted,
        amounts=(*_OF_ROWS, "fwd_fees"),
        unsure=_UNSURE,
        combine=_COMBINED,
        currency=summary.money,
    )
    if doubted:
        groups = tell_unmatched("fee_summary", groups)
    groups = summary.whole(sums.with_share(groups, "cost"), unsure=_UNSURE)
    return cast("AnyFrame", summary.give(groups, largest="cost"))
