"""What happened in a transaction, as `failures` tells it: where it failed, and by which code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis.expressions import first_match
from tonframes.analysis.phases import is_deposit, is_dust
from tonframes.network import exit_codes, result_codes

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def explained(rows: Frame) -> Frame:
    """Add what happened to each transaction, whether it is `listed`, and whether it `failed`."""
    rows = rows.with_columns(phase=_phase(), bounce=nw.col("bounce").fill_null("none"))
    phase = nw.col("phase")
    ran = phase.is_in([COMPUTE, COMMITTED])
    exit_code = nw.when(ran).then(nw.col("compute_exit_code"))
    # Without a bounce, total_fees are rent, old debt, gas and fines. The credit pays the last two.
    debt = nw.col("storage_fees_collected") + nw.col("credit_due_fees_collected").fill_null(0)
    rows = rows.with_columns(
        listed=nw.col("aborted").fill_null(value=False) | ~phase.is_null(),
        code=nw.when(phase == ACTION).then(nw.col("action_result_code")).otherwise(exit_code),
        cost=nw.col("total_fees") + nw.col("bounce_fwd_fees").fill_null(0),
        kept=_credit(rows) - (nw.col("total_fees") - debt),
        settled=(nw.col("bounce") == "ok") | phase.is_in(_SETTLED),
        called=~phase.is_in(_NO_CALL).fill_null(value=False),
    )
    # The account itself may pay for gas. For external messages it always does.
    nothing = nw.col("settled").fill_null(value=False) | (nw.col("kept") < 0)
    return rows.with_columns(
        failed=nw.col("listed") & nw.col("called"),
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
    exit_code = nw.col("compute_exit_code")
    done = nw.col("action_spec_actions") + nw.col("action_msgs_created")
    left_out = nw.col("action_success") & (nw.col("action_tot_actions") > done)
    conditions = {
        DEPOSIT: is_deposit(),
        DUST: is_dust(),
        SKIPPED: nw.col("compute_skipped"),
        COMPUTE: ~nw.col("compute_success"),
        ACTION: ~nw.col("action_success"),
        COMMITTED: nw.col("compute_success") & (exit_code != 0) & (exit_code != 1),
        IGNORED: (nw.col("action_skipped_actions") > 0) | left_out,
    }
    return first_match(*((holds, nw.lit(name)) for name, holds in conditions.items()))


def named(rows: Frame) -> Frame:
    """Add `name` and `meaning`: each phase has its own table of codes."""
    phase, code, reason = nw.col("phase"), nw.col("code"), nw.col("skipped_reason")
    ran, acted = phase.is_in([COMPUTE, COMMITTED]), phase == ACTION
    skipped, ignored = phase.is_in([SKIPPED, *_NO_CALL]), phase == IGNORED
    contract = nw.col(CODE_HASH) if CODE_HASH in rows.collect_schema().names() else None
    exit_name = exit_codes.exit_code_names(code, contract)
    own = ran & (exit_name == exit_codes.CONTRACT_DEFINED_NAME)
    of_results = {number: row.meaning for number, row in result_codes.RESULT_CODES.items()}
    return rows.with_columns(
        first_match(
            (ran, exit_name),
            (acted, result_codes.result_code_names(code)),
            (skipped, reason),
            (ignored, nw.lit("skipped actions")),
        ).alias("name"),
        first_match(
            (own, nw.lit("Thrown by the contract: see its source code.")),
            (ran, exit_codes.exit_code_meanings(code, contract)),
            (acted, _meaning(code, of_results)),
            (skipped, _meaning(reason, exit_codes.SKIP_REASONS)),
            (ignored, nw.lit("Messages that could not be sent were left out (mode +2).")),
        ).alias("meaning"),
    )


def _meaning(key: nw.Expr, meanings: Mapping[Any, str]) -> nw.Expr:
    return key.replace_strict(meanings, default=None, return_dtype=nw.String)
