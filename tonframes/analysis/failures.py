"""Why transactions failed, what that cost, and what money it left where it was not meant to be."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis import engines
from tonframes.analysis.grouping import take_grouped
from tonframes.network import exit_codes, result_codes
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

_SUMS = ("failures", "cost", "stuck_high", "stuck_low")


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
    - name, meaning: of code or reason (`tonframes.network.exit_codes`, `result_codes`).
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
    rows = engines.take(transactions, "failures", TRANSACTIONS, FAILURES)
    rows = engines.by_row(rows, _explained).filter(nw.col("listed"))
    return engines.give(engines.by_row(rows, _shown), transactions)


def _shown(rows: Frame) -> Frame:
    acted = nw.col("phase") == ACTION
    return _named(rows).select(
        *("hash", "account", "lt", "now", "phase", "code", "name", "meaning"),
        # The node leaves an index of 0 out.
        result_arg=nw.when(acted).then(nw.col("action_result_arg").fill_null(0)),
        no_funds=nw.when(acted).then(nw.col("action_no_funds")),
        bounce=nw.col("returned"),
        cost=nw.col("cost"),
        stuck=nw.col("stuck"),
    )


def _explained(rows: Frame) -> Frame:
    """Say of each transaction what happened, whether it is `listed`, and whether it `failed`."""
    rows = rows.with_columns(_phase(), returned=nw.col("bounce").fill_null("none")).drop("bounce")
    phase, returned = nw.col("phase"), nw.col("returned")
    ran = phase.is_in([COMPUTE, COMMITTED])
    exit_code = nw.when(ran).then(nw.col("compute_exit_code"))
    # Where nothing bounced, total_fees are rent, old debt, and what the credit pays: gas, fines.
    debt = nw.col("storage_fees_collected") + nw.col("credit_due_fees_collected").fill_null(0)
    rows = rows.with_columns(
        listed=nw.col("aborted").fill_null(value=False) | ~phase.is_null(),
        code=nw.when(phase == ACTION).then(nw.col("action_result_code")).otherwise(exit_code),
        cost=nw.col("total_fees") + nw.col("bounce_fwd_fees").fill_null(0),
        kept=nw.col("credit").fill_null(0) - (nw.col("total_fees") - debt),
        settled=(returned == "ok") | phase.is_in([COMMITTED, IGNORED, DEPOSIT]),
    )
    # Gas may be paid of the account's own: that of external messages always is.
    nothing = nw.col("settled").fill_null(value=False) | (nw.col("kept") < 0)
    return rows.with_columns(
        failed=nw.col("listed") & (phase != DEPOSIT).fill_null(value=True),
        stuck=nw.when(nothing.fill_null(value=False)).then(nw.lit(0)).otherwise(nw.col("kept")),
    )


def _phase() -> nw.Expr:
    """Name what happened: the first condition that is known to hold decides."""
    exit_code, status = nw.col("compute_exit_code"), nw.col("orig_status")
    nobody = (nw.col("skipped_reason") == "no_state") & status.is_in(["nonexist", "uninit"])
    conditions = {
        DEPOSIT: nw.col("compute_skipped") & nobody & nw.col("bounce").is_null(),
        SKIPPED: nw.col("compute_skipped"),
        COMPUTE: ~nw.col("compute_success"),
        ACTION: ~nw.col("action_success"),
        COMMITTED: nw.col("compute_success") & (exit_code != 0) & (exit_code != 1),
        IGNORED: nw.col("action_skipped_actions") > 0,
    }
    return _first(
        *((holds.fill_null(value=False), nw.lit(name)) for name, holds in conditions.items())
    ).alias("phase")


def _first(*cases: tuple[nw.Expr, nw.Expr]) -> nw.Expr:
    """Take the value of the first condition that holds, null where none does."""
    (condition, value), *others = cases
    case = nw.when(condition).then(value)
    return case.otherwise(_first(*others)) if others else case


def _named(rows: Frame) -> Frame:
    """Add `name` and `meaning`, each phase from a table of its own."""
    phase, code, reason = nw.col("phase"), nw.col("code"), nw.col("skipped_reason")
    ran, acted = phase.is_in([COMPUTE, COMMITTED]), phase == ACTION
    skipped, ignored = phase.is_in([SKIPPED, DEPOSIT]), phase == IGNORED
    own = ran & (exit_codes.exit_code_names(code) == exit_codes.CONTRACT_DEFINED_NAME)
    of_exits = {number: row.meaning for number, row in exit_codes.EXIT_CODES.items()}
    of_results = {number: row.meaning for number, row in result_codes.RESULT_CODES.items()}
    return rows.with_columns(
        _first(
            (ran, exit_codes.exit_code_names(code)),
            (acted, result_codes.result_code_names(code)),
            (skipped, reason),
            (ignored, nw.lit("skipped actions")),
        ).alias("name"),
        _first(
            (own, nw.lit("Thrown by the contract: its source says why.")),
            (ran, _meaning(code, of_exits)),
            (acted, _meaning(code, of_results)),
            (skipped, _meaning(reason, exit_codes.SKIP_REASONS)),
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
    keys = [by] if isinstance(by, str) else list(dict.fromkeys(by))
    if {"phase", "code"} <= set(keys):
        at = max(keys.index("phase"), keys.index("code")) + 1
        keys = list(dict.fromkeys([*keys[:at], "name", "meaning", *keys[at:]]))
    others = [key for key in keys if key not in OWN]
    rows, _ = take_grouped("failure_summary", transactions, messages, FAILURES, others)
    rows = engines.by_row(rows, _explained)
    rows = engines.by_row(rows, functools.partial(_counted, others=others))
    grouping = [*others, "failed", *(key for key in OWN if key in keys)]
    # First by account too: what is left to count are rows, which every engine adds up alike.
    groups = _added_up(rows, [*grouping, "failing"], _SUMS)
    groups = engines.by_row(groups, lambda rows: rows.with_columns(accounts=nw.lit(1)))
    groups = _added_up(groups, grouping, ("accounts", *_SUMS))
    groups = engines.by_group(groups, others, functools.partial(_with_rate, others=others))
    groups = engines.whole(groups.filter(nw.col("failed") == 1), "stuck")
    groups = groups.select(*keys, "failures", "rate", "accounts", "cost", "stuck")
    return engines.give(engines.largest_first(groups, "failures", keys), transactions)


def _added_up(rows: Frame, keys: list[str], sums: Sequence[str]) -> Frame:
    groups = rows.group_by(keys, drop_null_keys=False).agg(nw.col(name).sum() for name in sums)
    return engines.integers(groups, *sums)


def _counted(rows: Frame, others: Sequence[str]) -> Frame:
    """Leave to transactions that have not failed nothing but the groups they are in."""
    failed = nw.col("failed")
    own = {name: name for name in OWN} | {"bounce": "returned", "failing": "account"}
    return _named(rows).select(
        *others,
        nw.when(failed).then(nw.lit(1)).otherwise(nw.lit(0)).alias("failed"),
        *(nw.when(failed).then(nw.col(name)).alias(alias) for alias, name in own.items()),
        nw.lit(1).alias("failures"),
        "cost",
        *engines.halves("stuck"),
    )


def _with_rate(groups: Frame, others: Sequence[str]) -> Frame:
    count = nw.col("failures")
    total = count.sum().over(*others) if others else count.sum()
    return groups.with_columns(rate=count.cast(nw.Float64) / total.cast(nw.Float64))
