"""Why transactions failed, what that cost, and how much value stayed with the wrong account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import narwhals as nw

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.engines import divided, first_match, one_if
from tonframes.analysis.grouping import Options, Summary
from tonframes.analysis.intake import Given
from tonframes.network import exit_codes, result_codes
from tonframes.wire.schema import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

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

#: The code of the contract, which decides between the meanings of an exit code.
CODE_HASH = "account_state_code_hash_before"

SKIPPED, COMPUTE, ACTION = "skipped", "compute", "action"
COMMITTED, IGNORED, DEPOSIT, DUST = "committed", "ignored", "deposit", "dust"

# Phases that are not failures: nothing was called.
_NO_CALL = (DEPOSIT, DUST)
# Phases in which the account should keep the value of the message.
_SETTLED = (COMMITTED, IGNORED, *_NO_CALL)

#: What the name and the meaning of a failure depend on.
NAMED_BY = ("phase", "code", "skipped_reason", CODE_HASH)

#: Columns that are computed on the way: which table of exit codes is right, and the key of
#: `_EXPLANATIONS`.
_TABLE, _EXPLANATION = COMPUTED = ("table_of_codes", "explanation")
_OF = " "


# Names and meanings by table and code, by skipped reason, and of ignored messages. The name of a
# reason is the reason.
_CODES = {**exit_codes.TABLES, ACTION: result_codes.RESULT_CODES}
_EXPLANATIONS = {
    **{
        f"{table}{_OF}{code}": (row.name, row.meaning)
        for table, rows in _CODES.items()
        for code, row in rows.items()
    },
    **{
        f"{SKIPPED}{_OF}{reason}": (reason, meaning)
        for reason, meaning in exit_codes.SKIP_REASONS.items()
    },
    IGNORED: ("skipped actions", "Messages that could not be sent were left out (mode +2)."),
}
_TABLES = {code_hash: (table,) for code_hash, table in exit_codes.TABLE_OF.items()}
_DEFINED = "Thrown by the contract: see its source code."

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
    given = Given(transactions, "failures", TRANSACTIONS)
    rows = given.take(_needs(given), numbered=True)
    rows = engines.by_row(rows, _listed).filter(nw.col("listed"))
    acted = nw.col("phase") == ACTION
    rows = engines.by_row(
        rows,
        lambda frame: _named(_explained(frame)).with_columns(
            # The node omits an index of 0.
            result_arg=nw.when(acted).then(nw.col("action_result_arg").fill_null(0)),
            no_funds=nw.when(acted).then(nw.col("action_no_funds")),
        ),
    )
    return cast("AnyFrame", given.give(rows, results.FAILURES.names()))


def _needs(given: Given) -> list[str]:
    """List the columns to read. The public lake has no has_credit."""
    return [*FAILURES, *(name for name in ("has_credit", CODE_HASH) if name in given.columns)]


@overload
def failure_summary(
    transactions: Blocks, messages: None = None, **options: Unpack[Options]
) -> pd.DataFrame: ...
@overload
def failure_summary(
    transactions: AnyFrame, messages: AnyFrame | None = ..., **options: Unpack[Options]
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

    With `prices`, each amount in nanoton is followed by the amount in the currency (`fee_summary`).

    Raises
    ------
    OverflowError
        A sum does not fit int64, and `wide` is not set; of lazy frames when they are computed.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> summary = failure_summary(read_blocks(sample()))
    >>> summary[["phase", "code", "name", "failures", "accounts"]].head(3).values.tolist()
    [['skipped', <NA>, 'no_state', 9, 9], ['action', 37, 'not enough TON', 7, 5],
     ['compute', 9, 'cell underflow', 6, 2]]
    """
    given, theirs = intake.entered("failure_summary", transactions, messages)
    summary = Summary(
        results.FAILURE_SUMMARY, given, theirs, by=by, wide=wide, prices=prices, currency=currency
    )
    keys = summary.keys
    summary.refuse_own([k for k in keys if k in OWN and k not in TRANSACTIONS.schema.names])
    if {"phase", "code"} <= set(keys):
        at = max(keys.index("phase"), keys.index("code")) + 1
        keys = list(dict.fromkeys([*keys[:at], "name", "meaning", *keys[at:]]))
    summary.keys, money = keys, summary.money
    others = [key for key in keys if key not in OWN]
    rows = summary.transactions(_needs(given), steps=_STEPS, keys=others)
    calls = engines.by_row(
        rows, lambda frame: _called(frame).select(*others, calls=one_if(nw.col("called")))
    )
    calls = sums.add_up(calls, others, sums=["calls"], rows_as="all")
    # Failures are few, so they are counted before they are named.
    failed = engines.by_row(rows, lambda frame: _called(_listed(frame)))
    failed = failed.filter(nw.col("listed") & nw.col("called"))
    unknown = one_if(nw.col("stuck").is_null())
    failed = engines.by_row(
        failed, lambda frame: _explained(frame).with_columns(stuck_unknown=unknown)
    )
    naming = not {"name", "meaning"}.isdisjoint(keys)
    counting = [key for key in keys if key in OWN and key not in ("name", "meaning")]
    if naming:
        here = failed.collect_schema().names()
        counting += [name for name in NAMED_BY if name in here]
    counts = sums.add_up(
        failed,
        list(dict.fromkeys([*others, *counting, "account"])),
        sums=["stuck_unknown"],
        amounts=_AMOUNTS,
        rows_as="failures",
        currency=money,
    )
    among = others or [sums.ALL]
    groups = sums.add_up(
        engines.by_row(counts, _named) if naming else counts,
        [*among, *(key for key in OWN if key in keys)],
        sums=[
            "failures",
            "stuck_unknown",
            *([] if money is None else [sums.UNPRICED, *money.columns]),
        ],
        amounts=_AMOUNTS,
        rows_as="counts",
        accounts=True,
    )
    count, called = nw.col("failures"), nw.col("calls")
    groups = engines.by_row(
        engines.join_groups(groups, calls, among),
        lambda frame: frame.with_columns(
            rate=divided(count, nw.col("all")), call_rate=count / nw.when(called > 0).then(called)
        ),
    )
    return cast("AnyFrame", summary.give(summary.whole(groups), largest="failures"))


# ── what happened in a transaction ───────────────────────────────────────────────────────────────


def is_deposit() -> nw.Expr:
    """Return whether coins came to no contract, in a message that cannot bounce."""
    nobody = (nw.col("skipped_reason") == "no_state") & nw.col("orig_status").is_in(
        ["nonexist", "uninit"]
    )
    return (nw.col("compute_skipped") & nobody & nw.col("bounce").is_null()).fill_null(value=False)


def is_dust() -> nw.Expr:
    """Return whether a message was too little to run the contract, and nothing was sent back."""
    returned = (nw.col("bounce") == "ok").fill_null(value=False)
    poor = nw.col("compute_skipped") & (nw.col("skipped_reason") == "no_gas")
    return (poor & ~returned).fill_null(value=False)


def _listed(rows: Frame) -> Frame:
    """Add whether a transaction is `listed`: it was aborted, or is in one of the phases."""
    # Most rows are not, and what follows is not computed for them.
    return rows.with_columns(
        listed=nw.any_horizontal(nw.col("aborted"), *_conditions().values(), ignore_nulls=True)
    )


def _called(rows: Frame) -> Frame:
    """Add whether a transaction is `called`: neither a deposit nor dust."""
    # Only a skipped phase can be one of them: for all other rows the rest is not computed.
    other = nw.when(nw.col("compute_skipped")).then(~(is_deposit() | is_dust()))
    return rows.with_columns(called=other.otherwise(nw.lit(value=True)))


def _explained(rows: Frame) -> Frame:
    """Add what happened to each transaction that is `listed`."""
    first = {DEPOSIT: is_deposit(), DUST: is_dust(), **_conditions()}
    what = first_match(*((holds, nw.lit(name)) for name, holds in first.items()))
    rows = rows.with_columns(phase=what, bounce=nw.col("bounce").fill_null("none"))
    phase = nw.col("phase")
    ran = phase.is_in([COMPUTE, COMMITTED])
    exit_code = nw.when(ran).then(nw.col("compute_exit_code"))
    # Without a bounce, total_fees are rent, old debt, gas and fines. The credit pays the last two.
    debt = nw.col("storage_fees_collected") + nw.col("credit_due_fees_collected").fill_null(0)
    rows = rows.with_columns(
        code=nw.when(phase == ACTION).then(nw.col("action_result_code")).otherwise(exit_code),
        cost=nw.col("total_fees") + nw.col("bounce_fwd_fees").fill_null(0),
        kept=_credit(rows) - (nw.col("total_fees") - debt),
        settled=(nw.col("bounce") == "ok") | phase.is_in(_SETTLED),
    )
    # The account itself may pay for gas. For external messages it always does.
    nothing = nw.col("settled").fill_null(value=False) | (nw.col("kept") < 0)
    return rows.with_columns(
        stuck=nw.when(nothing.fill_null(value=False)).then(nw.lit(0)).otherwise(nw.col("kept")),
    )


def _credit(rows: Frame) -> nw.Expr:
    """Return what the message brought; null if it is unknown.

    External messages and ticks bring nothing: what answers of 2024 show as the credit of external
    messages is a random number. In a credit phase, a credit of 0 may be omitted. But answers of
    2023 have no credit phase, although internal messages did bring value.
    """
    credit = nw.col("credit")
    nothing = (nw.col("compute_gas_credit") > 0) | (nw.col("descr") == "tick_tock")
    if "has_credit" in rows.collect_schema().names():
        nothing |= credit.is_null() & nw.col("has_credit")
    return nw.when(nothing.fill_null(value=False)).then(nw.lit(0)).otherwise(credit)


def _conditions() -> dict[str, nw.Expr]:
    """Return when a transaction is in a phase, unless a phase before that one is right."""
    exit_code = nw.col("compute_exit_code")
    done = nw.col("action_spec_actions") + nw.col("action_msgs_created")
    left_out = nw.col("action_success") & (nw.col("action_tot_actions") > done)
    return {
        SKIPPED: nw.col("compute_skipped"),
        COMPUTE: ~nw.col("compute_success"),
        ACTION: ~nw.col("action_success"),
        COMMITTED: nw.col("compute_success") & (exit_code != 0) & (exit_code != 1),
        IGNORED: (nw.col("action_skipped_actions") > 0) | left_out,
    }


def _named(rows: Frame) -> Frame:
    """Add `name` and `meaning`: each phase has its own table of codes."""
    phase, code, reason = nw.col("phase"), nw.col("code"), nw.col("skipped_reason")
    ran, acted = phase.is_in([COMPUTE, COMMITTED]), phase == ACTION
    skipped, ignored = phase.is_in([SKIPPED, *_NO_CALL]), phase == IGNORED
    table = nw.lit("")
    if CODE_HASH in rows.collect_schema().names():
        rows = engines.look_up_texts(rows, CODE_HASH, _TABLES, [_TABLE])
        table = nw.col(_TABLE).fill_null("")
    digits = code.cast(nw.Int64).cast(nw.String)
    explanation = first_match(
        (ran, nw.concat_str(table, digits, separator=_OF)),
        (acted, nw.concat_str(nw.lit(ACTION), digits, separator=_OF)),
        (skipped, nw.concat_str(nw.lit(SKIPPED), reason, separator=_OF)),
        (ignored, nw.lit(IGNORED)),
    )
    rows = rows.with_columns(explanation.alias(_EXPLANATION))
    rows = engines.look_up_texts(rows, _EXPLANATION, _EXPLANATIONS, ["name", "meaning"])
    own = ran & nw.col("name").is_null() & exit_codes.is_contract_defined(code)
    name = nw.when(skipped).then(reason).otherwise(nw.col("name"))
    return rows.with_columns(
        name=nw.coalesce(name, nw.when(own).then(nw.lit(exit_codes.CONTRACT_DEFINED_NAME))),
        meaning=nw.coalesce(nw.col("meaning"), nw.when(own).then(nw.lit(_DEFINED))),
    )
