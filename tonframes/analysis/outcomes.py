"""What happened in a transaction, as `failures` tells it: where it failed, and by which code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from tonframes.analysis import engines
from tonframes.analysis.expressions import first_match
from tonframes.analysis.phases import is_deposit, is_dust
from tonframes.network import exit_codes, result_codes

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

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


def _explanations() -> dict[str, tuple[str, str]]:
    """Return names and meanings by table and code, by skipped reason, and of ignored messages."""
    tables = {**exit_codes.TABLES, ACTION: result_codes.RESULT_CODES}
    codes = {
        f"{table}{_OF}{code}": (row.name, row.meaning)
        for table, rows in tables.items()
        for code, row in rows.items()
    }
    # The name of a reason is the reason.
    reasons = exit_codes.SKIP_REASONS.items()
    skipped = {f"{SKIPPED}{_OF}{reason}": (reason, meaning) for reason, meaning in reasons}
    left_out = "Messages that could not be sent were left out (mode +2)."
    return codes | skipped | {IGNORED: ("skipped actions", left_out)}


_EXPLANATIONS = _explanations()
_TABLES = {code_hash: (table,) for code_hash, table in exit_codes.TABLE_OF.items()}
_DEFINED = "Thrown by the contract: see its source code."


def listed(rows: Frame) -> Frame:
    """Add whether a transaction is `listed`: it was aborted, or is in one of the phases."""
    # Most rows are not, and what follows is not computed for them.
    return rows.with_columns(
        listed=nw.any_horizontal(nw.col("aborted"), *_conditions().values(), ignore_nulls=True)
    )


def called(rows: Frame) -> Frame:
    """Add whether a transaction is `called`: neither a deposit nor dust."""
    # Only a skipped phase can be one of them: for all other rows the rest is not computed.
    other = nw.when(nw.col("compute_skipped")).then(~(is_deposit() | is_dust()))
    return rows.with_columns(called=other.otherwise(nw.lit(value=True)))


def explained(rows: Frame) -> Frame:
    """Add what happened to each transaction that is `listed`."""
    rows = rows.with_columns(phase=_phase(), bounce=nw.col("bounce").fill_null("none"))
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


def _phase() -> nw.Expr:
    """Return the name of what happened: the first condition that holds decides."""
    first = {DEPOSIT: is_deposit(), DUST: is_dust(), **_conditions()}
    return first_match(*((holds, nw.lit(name)) for name, holds in first.items()))


def _conditions() -> dict[str, nw.Expr]:
    """Return when a transaction is in a phase, unless a phase before that one is right.

    Deposits and dust are skipped.
    """
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


def named(rows: Frame) -> Frame:
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
