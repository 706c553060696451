"""One transaction of the synthetic chain: its phases in order, and their result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chain.accounts import Account, digest
from chain.actions import action_phase
from chain.phases import bounce_phase, compute_phase, credit_phase, storage_phase
from chain.run import Moment, Run

if TYPE_CHECKING:
    from random import Random

    from chain.messages import Message


def execute(
    account: Account,
    message: Message | None,
    moment: Moment,
    *,
    rng: Random,
    suspended: bool = False,
    is_tock: bool = False,
    exchanged: bool = False,
) -> tuple[dict[str, Any], list[Message]]:
    """Run one transaction and change the account; return it as the service shows it, and messages.

    `exchanged` shows gas fees and gas used exchanged, as the service does since August 2025 where
    the fees are the smaller number: for special accounts only (ton-index-go, scan_common.go).
    """
    run = Run(
        account=account,
        message=message,
        moment=moment,
        rng=rng,
        suspended=suspended,
        exchanged=exchanged,
        balance=account.balance,
        left=message.value if message else 0,
    )
    before, orig_status = account.snapshot(), account.status
    phases = _phases(run)
    _finish(run)
    kind = {"is_tock": is_tock} if message is None else {"credit_first": not message.bounce}
    description = {
        "type": "tick_tock" if message is None else "ord",
        "aborted": not (run.committed and run.acted),
        "destroyed": run.deleted,
        **kind,
        **phases,
    }
    return _show(run, before, orig_status, description), run.out


def _phases(run: Run) -> dict[str, Any]:
    """Run the phases in order and return them as the service shows them."""
    message = run.message
    phases: dict[str, Any] = {}
    if message is None:
        phases["storage_ph"] = storage_phase(run)
    elif run.external:
        run.pay(run.forward_fee(message))  # the import fee, which is recorded only in total_fees
        phases["storage_ph"] = storage_phase(run)
    elif message.bounce:  # storage debt is not taken from a value that may be returned
        phases["storage_ph"] = storage_phase(run)
        phases["credit_ph"] = credit_phase(run)
    else:
        credit = credit_phase(run)
        phases["storage_ph"] = storage_phase(run)
        phases["credit_ph"] = credit
        run.left = min(run.left, run.balance)
    phases["compute_ph"] = compute_phase(run)
    if run.committed and run.outcome is not None:
        phases["action"] = action_phase(run, run.outcome)
    if message is not None and message.bounce and not run.acted and run.wants_bounce:
        phases["bounce"] = bounce_phase(run, message)
    return phases


def _finish(run: Run) -> None:
    """Update the account to its state after the transaction."""
    account, moment = run.account, run.moment
    account.balance = run.balance
    if account.status == "nonexist" and run.balance:
        account.status = "uninit"  # a new account, or a deleted one with a rest
    if account.status == "nonexist":
        account.due = 0
    pays_storage = not account.special and account.status != "nonexist"
    account.last_paid = moment.now if pays_storage else 0
    account.end_lt = moment.lt + 1 + len(run.out)
    account.touch()


def _show(
    run: Run, before: dict[str, Any], orig_status: str, description: dict[str, Any]
) -> dict[str, Any]:
    account, moment, message = run.account, run.moment, run.message
    after = account.snapshot()
    previous = account.last_hash, account.last_lt
    sent = message.hash if message else None
    content = (account.address, moment.lt, previous, before["hash"], after["hash"])
    own = digest("transaction", content, run.fees, sent)
    account.last_hash, account.last_lt = own, moment.lt
    trace = (message.trace if message else None) or own
    for out in run.out:
        out.trace = trace
    return {
        "account": account.address,
        "hash": own,
        "lt": str(moment.lt),
        "now": moment.now,
        "mc_block_seqno": moment.mc_seqno,
        "trace_id": trace,
        "prev_trans_hash": previous[0],
        "prev_trans_lt": str(previous[1]),
        "orig_status": orig_status,
        "end_status": account.status,
        "total_fees": str(run.fees),
        "total_fees_extra_currencies": {},
        "description": description,
        "block_ref": moment.block_ref,
        "in_msg": message.wire if message else None,
        "out_msgs": [out.wire for out in run.out],
        "account_state_before": before,
        "account_state_after": after,
        "emulated": False,
        "finality": "finalized",
    }
