"""Why transactions failed, what that cost, and how much value stayed with the wrong account."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.currency import UNPRICED, names_of, read_prices, with_price_at
from tonframes.analysis.expressions import divided, one_if
from tonframes.analysis.grouping import (
    in_time_or_largest_first,
    keys_of,
    refuse_ambiguous,
    take_grouped,
)
from tonframes.analysis.outcomes import (
    ACTION,
    CODE_HASH,
    COMPUTED,
    NAMED_BY,
    called,
    explained,
    listed,
    named,
)
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks

#: What `failures` reads.
FAILURES = (
    "hash",
    "account",
    "lt",
    "now",
    "descr",
    "aborted",
    "orig_status",
    "total_fees",
    "storage_fees_collected",
    "credit_due_fees_collected",
    "credit",
    "compute_skipped",
    "skipped_reason",
    "compute_success",
    "compute_exit_code",
    "compute_gas_credit",
    "action_success",
    "action_result_code",
    "action_result_arg",
    "action_no_funds",
    "action_tot_actions",
    "action_spec_actions",
    "action_skipped_actions",
    "action_msgs_created",
    "bounce",
    "bounce_fwd_fees",
)

#: Columns of `failures` that `failure_summary` can group by.
OWN = ("phase", "code", "name", "meaning", "bounce")

_AMOUNTS = ("cost", "stuck")
# Columns that are computed on the way.
_STEPS = ("listed", "kept", "settled", "called", "calls", "all", "counts", *COMPUTED)


@overload
def failures(transactions: Blocks) -> pd.DataFrame: ...
@overload
def failures(transactions: AnyFrame) -> AnyFrame: ...
def failures(transactions: AnyFrame) -> AnyFrame:
    """List the transactions that did not do what they should, and why.

    Parameters
    ----------
    transactions
        A frame of any engine, of our tables or of the public lake, or a `Blocks`.
        `tonframes.analysis.failures.FAILURES` names the columns.

    Returns
    -------
    A frame of the same engine with one row per transaction (on pandas with its index) that was
    `aborted`, and two kinds that were not aborted: committed and ignored.

    - hash, account, lt, now: the transaction.
    - phase: where it failed, or what happened instead:

      - skipped: the contract was not run; `name` is the reason.
      - compute: the run failed; `code` is the exit code.
      - action: an action of the run could not be carried out; `code` is the result code.
      - committed: the run failed with the exit code `code`, but after COMMIT had made its work
        final. The work and its messages stay. The network counts this as a success.
      - ignored: the run succeeded, but messages that could not be sent were left out, because the
        contract sent them with mode +2. Wallets use this mode. A payment of more than the balance
        of a wallet ends like this. The network counts it as a success, and does not record the
        reason. Since global version 8 (August 2024) it counts such messages in
        `action_skipped_actions`. Older transactions show them by an `action_tot_actions` of more
        than `action_spec_actions` plus `action_msgs_created`.
      - deposit: coins came to an address without a contract, in a message that cannot bounce. The
        network calls this `aborted`, because there was no code to run. Nothing has failed.
      - dust: a message bought no gas, so the contract was not run, and nothing was sent back. These
        are spam and notifications, with a value of mostly 0 or 1 nanoton. The network calls this
        `aborted`. Nothing has failed.
      - null: aborted, but the phases that show the reason are missing.
    - code: exit code or result code. The same number has different meanings in the two.
    - name, meaning: name and meaning of the code or reason (`tonframes.network.exit_codes` and
      `tonframes.network.result_codes`). An exit code may have several meanings. The code of the
      contract decides between them, if the frame has `account_state_code_hash_before`.
    - result_arg: in phase action: the index of the action that failed, from 0.
    - no_funds: in phase action: whether it failed because money was missing.
    - bounce: `ok`: the rest of the value was sent back; `nofunds`: it should have been sent back,
      but was less than the fee for that, and stayed; `none`: nothing had to be sent back.
    - cost: nanoton, `total_fees` plus the forwarding fee that travels with the bounce. Forwarding
      fees of other messages are not included; only committed and ignored have any (`fee_summary`).
    - stuck: nanoton that came with the message and stayed with the account although the call
      failed: the credit minus the fees of this transaction, except rent. It is 0 after a bounce; 0
      for committed, ignored, deposit and dust, where the value is meant for the account or too
      little to send back; and 0 for external messages, which carry no value. It is null if the
      credit phase is missing, as in answers of 2023.

    Notes
    -----
    A bounce sends back the credit minus gas, fines and forwarding (transaction.cpp,
    prepare_bounce_phase), so nothing is stuck. A failure without a bounce sends nothing: the
    balance changes by the credit minus `total_fees`, and `stuck` is its growth without rent. Rent
    that the account owed may have been paid from it.

    Dust is ``skipped_reason == "no_gas"`` with a `bounce` that is not `ok`: the message could not
    bounce, or its value was less than the fee for that. The amount is not part of this rule, so a
    payment that was used up by the rent that the account owed is dust as well.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> failed = failures(read_blocks(sample()))
    >>> failed.phase.value_counts().sort_index().to_dict()
    {'action': 15, 'committed': 5, 'compute': 40, 'deposit': 3, 'dust': 291, 'ignored': 6,
     'skipped': 15}
    """
    rows = intake.take(transactions, "failures", TRANSACTIONS, _needs(transactions, "failures"))
    rows = intake.numbered(rows, transactions)
    rows = engines.by_row(rows, listed).filter(nw.col("listed"))
    rows = engines.by_row(rows, lambda frame: _shown(explained(frame)))
    return intake.give(rows, transactions, results.FAILURES.names())


def _needs(transactions: object, helper: str) -> list[str]:
    """List the columns to read. The public lake has no has_credit."""
    here = intake.columns_of(transactions, helper, TRANSACTIONS)
    return [*FAILURES, *(name for name in ("has_credit", CODE_HASH) if name in here)]


def _shown(rows: Frame) -> Frame:
    acted = nw.col("phase") == ACTION
    return named(rows).with_columns(
        # The node omits an index of 0.
        result_arg=nw.when(acted).then(nw.col("action_result_arg").fill_null(0)),
        no_funds=nw.when(acted).then(nw.col("action_no_funds")),
    )


@overload
def failure_summary(
    transactions: Blocks,
    messages: None = None,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> pd.DataFrame: ...
@overload
def failure_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    by: str | Sequence[str] = ...,
    wide: bool = ...,
    prices: pd.Series[Any] | None = ...,
    currency: str = ...,
) -> AnyFrame: ...
def failure_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = ("phase", "code"),
    wide: bool = False,
    prices: pd.Series[Any] | None = None,
    currency: str = "USD",
) -> AnyFrame:
    """Count the failures in groups of transactions, and add up their cost and the stuck value.

    Deposits and dust are not failures and are left out: `failures` lists them. Committed and
    ignored are counted, although the network does not mark them as aborted; `trace_costs` counts
    only aborted transactions.

    Parameters
    ----------
    transactions, messages
        Frames of one engine, or a `Blocks` in place of both. Messages are only needed to group by
        the operation or by their columns.
    by
        Columns to group by: phase, code, name, meaning and bounce of `failures`; columns of
        transactions (account, account_state_code_hash_before, …); columns of messages (source, …),
        which means of the message that started the transaction; "operation", as `with_operation`
        gives it; or "hour", "day", "week" (from Monday) and "month", in UTC. An empty list makes
        one group, and no row if there is nothing to group. External messages have no opcode:
        "opcode" is null.
    wide
        Return sums of nanoton as decimal128(38, 0), which hold any sum, and not as int64.
    prices, currency
        Prices of 1 TON, as for `with_price`: each amount is converted at the price of its
        transaction before it is added up. None adds no columns.

    Returns
    -------
    A frame of the same engine with a row for each group with failures: the most failures first,
    or in the order of time if `by` has periods only.

    - the columns of `by`; phase and code come with their name and meaning.
    - failures: number of failed transactions.
    - rate: share of the transactions that failed in this way, 0 to 1. It refers to all transactions
      with the same values in those columns of `by` that are not columns of `failures`: with
      ``by=["operation", "phase"]``, to all transactions with the same operation.
    - call_rate: the same share of the calls, which are the transactions without deposits and dust.
      Spam does not change this rate.
    - accounts: number of different accounts that failed in this way.
    - cost: nanoton, the sum of `cost` of `failures`.
    - stuck: nanoton, the sum of `stuck` of `failures`, where it is known.
    - stuck_unknown: number of failures whose `stuck` is unknown.

    With `prices`, each amount in nanoton is followed by the amount in the currency, as a float:
    `cost_usd` and so on. It is null if a price of the group is unknown. The error of
    floats is at most 2^-52 of the sum for each price that is used.

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set. Lazy engines raise it, or an error of
        their own with the same message, when the frame is computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> summary = failure_summary(read_blocks(sample()))
    >>> summary[["phase", "code", "name", "failures", "accounts"]].head(3).values.tolist()
    [['skipped', <NA>, 'no_state', 9, 9], ['action', 37, 'not enough TON', 7, 5],
     ['compute', 9, 'cell underflow', 6, 2]]
    """
    messages = intake.paired("failure_summary", transactions, messages)
    keys = keys_of("failure_summary", by)
    described = [key for key in keys if key in OWN and key not in TRANSACTIONS.schema.names]
    refuse_ambiguous("failure_summary", described, transactions, messages)
    if {"phase", "code"} <= set(keys):
        at = max(keys.index("phase"), keys.index("code")) + 1
        keys = list(dict.fromkeys([*keys[:at], "name", "meaning", *keys[at:]]))
    others = [key for key in keys if key not in OWN]
    money = read_prices("failure_summary", prices, currency, _AMOUNTS)
    rows, _ = take_grouped(
        "failure_summary",
        transactions,
        messages,
        _needs(transactions, "failure_summary"),
        others,
        figures=(*names_of(results.FAILURE_SUMMARY, (), money), *_STEPS),
    )
    rows = with_price_at(
        rows, money, "now", helper="failure_summary", in_memory=intake.in_memory(transactions)
    )
    among = others or [sums.ALL]
    calls = engines.by_row(rows, partial(_calls, others=others))
    calls = sums.add_up(calls, others, sums=["calls"], rows_as="all")
    # Failures are few, so they are counted before they are named.
    failed = engines.by_row(rows, lambda frame: called(listed(frame)))
    failed = failed.filter(nw.col("listed") & nw.col("called"))
    failed = engines.by_row(failed, explained)
    naming = not {"name", "meaning"}.isdisjoint(keys)
    counting = [key for key in keys if key in OWN and key not in ("name", "meaning")]
    if naming:
        here = failed.collect_schema().names()
        counting += [name for name in NAMED_BY if name in here]
    counts = sums.add_up(
        engines.by_row(failed, _with_stuck_known),
        list(dict.fromkeys([*others, *counting, "account"])),
        sums=["stuck_unknown"],
        amounts=_AMOUNTS,
        rows_as="failures",
        currency=money,
    )
    added = ["failures", "stuck_unknown", *sums.parts_of(counts, _AMOUNTS)]
    groups = sums.add_up(
        engines.by_row(counts, named) if naming else counts,
        [*among, *(key for key in OWN if key in keys)],
        sums=[*added, *([] if money is None else [UNPRICED, *money.columns])],
        rows_as="counts",
        accounts=True,
    )
    groups = engines.by_row(engines.join_groups(groups, calls, among), _with_rates)
    groups = sums.whole(
        groups, _AMOUNTS, helper="failure_summary", keys=keys, wide=wide, currency=money
    )
    groups = groups.select(names_of(results.FAILURE_SUMMARY, keys, money))
    return intake.give(in_time_or_largest_first(groups, "failures", keys), transactions)


def _calls(rows: Frame, others: Sequence[str]) -> Frame:
    """Select what to group by, and which transactions are calls: all but deposits and dust."""
    return called(rows).select(*others, calls=one_if(nw.col("called")))


def _with_stuck_known(rows: Frame) -> Frame:
    stuck = nw.col("stuck")
    return rows.with_columns(stuck=stuck.fill_null(0), stuck_unknown=one_if(stuck.is_null()))


def _with_rates(groups: Frame) -> Frame:
    count, calls = nw.col("failures"), nw.col("calls")
    return groups.with_columns(
        rate=divided(count, nw.col("all")), call_rate=count / nw.when(calls > 0).then(calls)
    )
