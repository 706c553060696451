"""Why transactions failed, what that cost, and what money it left where it was not meant to be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.expressions import first_match, one_if
from tonframes.analysis.grouping import keys_of, take_grouped
from tonframes.analysis.phases import is_deposit
from tonframes.network import codes
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonframes.analysis.engines import AnyFrame, Frame

#: What `failures` reads.
FAILURES = (
    "hash",
    "account",
    "lt",
    "now",
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
    "action_success",
    "action_result_code",
    "action_result_arg",
    "action_no_funds",
    "action_skipped_actions",
    "bounce",
    "bounce_fwd_fees",
)

#: What `failures` says of a transaction that `failure_summary` can group by.
OWN = ("phase", "code", "name", "meaning", "bounce")

SKIPPED, COMPUTE, ACTION = "skipped", "compute", "action"
COMMITTED, IGNORED, DEPOSIT = "committed", "ignored", "deposit"

_AMOUNTS = ("cost", "stuck")


def failures(transactions: AnyFrame) -> AnyFrame:
    """List the transactions that did not do what they were asked to, and say why.

    Parameters
    ----------
    transactions
        A frame of any engine; the lake's as well as ours. `FAILURES` names the columns.

    Returns
    -------
    A frame of the same engine, a row a transaction (on pandas with its index): every one that was
    `aborted`, and two kinds that were not.

    - hash, account, lt, now: the transaction.
    - phase: where it failed, or what happened instead:

      - skipped: the contract was not run; `name` is the reason.
      - compute: the run failed; `code` is the exit code.
      - action: what the run wanted could not be done; `code` is the result code.
      - committed: the run failed, with the exit code `code`, after it had made its work final by
        COMMIT. That stands, messages too: the network counts it as a success.
      - ignored: all went well, but messages that could not be sent were left out, as the contract
        had asked by mode +2, and wallets do. A payment of more than a wallet has ends like this.
        The network counts it as a success, and does not record what the matter was.
      - deposit: coins came to an address that has no contract yet, sent so as not to come back.
        The network calls that `aborted`, for it found nothing to run; nobody has failed.
      - null: aborted, and the phases that would say why are not there.
    - code: exit code or result code. The same number means one thing as the one, and another as
      the other.
    - name, meaning: of code or reason (`tonframes.network.codes`).
    - result_arg: of phase action: which action failed, from 0.
    - no_funds: of phase action: whether for want of money.
    - bounce: `ok`, what was left of the value went back; `nofunds`, it should have, but was less
      than that costs, and stayed; `none`, nothing was to go back.
    - cost: nanoton of fees: `total_fees`, and what left with the bounce for forwarding it. The
      same of other messages is not in it; only committed and ignored have any (`fee_summary`).
    - stuck: nanoton that came and stayed with the account for nothing: what was credited, less
      the fees of this transaction but for rent. 0 after a bounce, and of committed, ignored and
      deposit, where the money is where somebody wanted it. Of external messages 0: they bring none.

    Notes
    -----
    A bounced value is what gas, fines and forwarding leave of the credit (transaction.cpp,
    prepare_bounce_phase), so none of it is stuck. A failure without a bounce sends nothing: the
    balance changes by the credit less `total_fees`, and `stuck` is by how much it has grown, rent
    apart. Rent that the account owed may have been paid of it.

    Values of a nanoton, which notifications and advertisements carry, buy no gas: on most wallets
    they end as skipped, no_gas, without a bounce, as their senders knew.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> failed = failures(read_blocks(sample()).transactions)
    >>> failed.phase.value_counts().sort_index().to_dict()
    {'action': 21, 'committed': 2, 'compute': 42, 'deposit': 3, 'ignored': 4, 'skipped': 163}
    """
    rows = intake.take(transactions, "failures", TRANSACTIONS, FAILURES)
    rows = engines.by_row(rows, _explained).filter(nw.col("listed"))
    return intake.give(engines.by_row(rows, _shown), transactions)


def _shown(rows: Frame) -> Frame:
    acted = nw.col("phase") == ACTION
    rows = _named(rows).with_columns(
        # The node leaves an index of 0 out.
        result_arg=nw.when(acted).then(nw.col("action_result_arg").fill_null(0)),
        no_funds=nw.when(acted).then(nw.col("action_no_funds")),
    )
    return rows.select(results.FAILURES.names())


def _explained(rows: Frame) -> Frame:
    """Say of each transaction what happened, whether it is `listed`, and whether it `failed`."""
    rows = rows.with_columns(phase=_phase(), bounce=nw.col("bounce").fill_null("none"))
    phase = nw.col("phase")
    ran = phase.is_in([COMPUTE, COMMITTED])
    exit_code = nw.when(ran).then(nw.col("compute_exit_code"))
    # Where nothing bounced, total_fees are rent, old debt, and what the credit pays: gas, fines.
    debt = nw.col("storage_fees_collected") + nw.col("credit_due_fees_collected").fill_null(0)
    rows = rows.with_columns(
        listed=nw.col("aborted").fill_null(value=False) | ~phase.is_null(),
        code=nw.when(phase == ACTION).then(nw.col("action_result_code")).otherwise(exit_code),
        cost=nw.col("total_fees") + nw.col("bounce_fwd_fees").fill_null(0),
        kept=nw.col("credit").fill_null(0) - (nw.col("total_fees") - debt),
        settled=(nw.col("bounce") == "ok") | phase.is_in([COMMITTED, IGNORED, DEPOSIT]),
    )
    # Gas may be paid of the account's own: that of external messages always is.
    nothing = nw.col("settled").fill_null(value=False) | (nw.col("kept") < 0)
    return rows.with_columns(
        failed=nw.col("listed") & (phase != DEPOSIT).fill_null(value=True),
        stuck=nw.when(nothing.fill_null(value=False)).then(nw.lit(0)).otherwise(nw.col("kept")),
    )


def _phase() -> nw.Expr:
    """Name what happened: the first condition that is known to hold decides."""
    exit_code = nw.col("compute_exit_code")
    conditions = {
        DEPOSIT: is_deposit(),
        SKIPPED: nw.col("compute_skipped"),
        COMPUTE: ~nw.col("compute_success"),
        ACTION: ~nw.col("action_success"),
        COMMITTED: nw.col("compute_success") & (exit_code != 0) & (exit_code != 1),
        IGNORED: nw.col("action_skipped_actions") > 0,
    }
    return first_match(*((holds, nw.lit(name)) for name, holds in conditions.items()))


def _named(rows: Frame) -> Frame:
    """Add `name` and `meaning`, each phase from a table of its own."""
    phase, code, reason = nw.col("phase"), nw.col("code"), nw.col("skipped_reason")
    ran, acted = phase.is_in([COMPUTE, COMMITTED]), phase == ACTION
    skipped, ignored = phase.is_in([SKIPPED, DEPOSIT]), phase == IGNORED
    own = ran & (codes.exit_code_names(code) == codes.CONTRACT_DEFINED_NAME)
    exit_codes = {number: row.meaning for number, row in codes.EXIT_CODES.items()}
    result_codes = {number: row.meaning for number, row in codes.RESULT_CODES.items()}
    return rows.with_columns(
        first_match(
            (ran, codes.exit_code_names(code)),
            (acted, codes.result_code_names(code)),
            (skipped, reason),
            (ignored, nw.lit("skipped actions")),
        ).alias("name"),
        first_match(
            (own, nw.lit("Thrown by the contract: its source says why.")),
            (ran, _meaning(code, exit_codes)),
            (acted, _meaning(code, result_codes)),
            (skipped, _meaning(reason, codes.SKIP_REASONS)),
            (ignored, nw.lit("Messages that could not be sent were left out (mode +2).")),
        ).alias("meaning"),
    )


def _meaning(key: nw.Expr, meanings: Mapping[Any, str]) -> nw.Expr:
    return key.replace_strict(meanings, default=None, return_dtype=nw.String)


def failure_summary(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    by: str | Sequence[str] = ("phase", "code"),
    wide: bool = False,
) -> AnyFrame:
    """Count what failed in groups of transactions, and add up what that cost and left stuck.

    Deposits are no failures, and are left out: `failures` lists them.

    Parameters
    ----------
    transactions, messages
        Frames of one engine. Messages are needed where columns of theirs are grouped by.
    by
        Columns to group by: phase, code, name, meaning and bounce of `failures`; or columns of
        transactions (account, account_state_code_hash_before, …), of messages, then those of the
        message that each transaction was run by (opcode, source, …), or "hour" and "day", UTC.

    Returns
    -------
    A frame of the same engine, a row a group in which something failed, the most frequent first:

    - the columns of `by`; and with phase and code their name and meaning.
    - failures: how many.
    - rate: part of all transactions, 0 to 1: of those that are the same in the columns of `by`
      other than those of `failures`, so with ``by=["opcode", "phase"]`` of all with that opcode.
    - accounts: how many accounts failed so.
    - cost: nanoton, the sum of that of `failures`.
    - stuck: nanoton, the same; decimal128(38, 0), for it may be more than int64 holds.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> summary = failure_summary(read_blocks(sample()).transactions)
    >>> summary[["phase", "code", "name", "failures", "accounts"]].head(3).values.tolist()
    [['skipped', <NA>, 'no_gas', 148, 108], ['action', 37, 'not enough TON', 9, 5],
     ['skipped', <NA>, 'no_state', 9, 9]]
    """
    messages = intake.paired("failure_summary", transactions, messages)
    keys = keys_of("failure_summary", by)
    if {"phase", "code"} <= set(keys):
        at = max(keys.index("phase"), keys.index("code")) + 1
        keys = list(dict.fromkeys([*keys[:at], "name", "meaning", *keys[at:]]))
    others = [key for key in keys if key not in OWN]
    result = results.FAILURE_SUMMARY
    rows, _ = take_grouped(
        "failure_summary", transactions, messages, FAILURES, others, figures=result.figures
    )
    rows = engines.by_row(rows, _explained)
    rows = engines.by_row(rows, partial(_grouped, others=others))
    grouping = [*others, "failed", *(key for key in OWN if key in keys)]
    groups = sums.add_up(rows, grouping, amounts=_AMOUNTS, rows_as="failures", accounts=True)
    groups = engines.by_group(groups, others, partial(_with_rate, others=others))
    groups = groups.filter(nw.col("failed") == 1)
    groups = sums.whole(groups, _AMOUNTS, helper="failure_summary", keys=keys, wide=wide)
    groups = engines.largest_first(groups.select(result.names(keys)), "failures", keys)
    return intake.give(groups, transactions)


def _grouped(rows: Frame, others: Sequence[str]) -> Frame:
    """Keep of transactions that have not failed nothing but the groups that they are in."""
    failed = nw.col("failed")
    own = [name for name in ("account", *OWN) if name not in others]
    return _named(rows).select(
        *others,
        *(nw.when(failed).then(nw.col(name)).alias(name) for name in own),
        *_AMOUNTS,
        one_if(failed).alias("failed"),
    )


def _with_rate(groups: Frame, others: Sequence[str]) -> Frame:
    count = nw.col("failures")
    total = count.sum().over(*others) if others else count.sum()
    return groups.with_columns(rate=count / total)
