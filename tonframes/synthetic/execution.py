"""One transaction of the synthetic chain: the phases in their order, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonframes.synthetic.accounts import Account, digest
from tonframes.synthetic.actions import action_phase
from tonframes.synthetic.phases import bounce_phase, compute_phase, credit_phase, storage_phase
from tonframes.synthetic.run import Moment, Run

if TYPE_CHECKING:
    from random import Random

    from tonframes.synthetic.messages import Message


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
    """Run one transaction and change the account accordingly.

    Parameters
    ----------
    account
        The account.
    message
        The message it answers; None makes a tick-tock transaction.
    moment
        Where and when.
    rng
        For what contracts leave open.
    suspended
        Whether the account may not be brought into being (configuration parameter 44).
    is_tock
        Which of the two a tick-tock transaction is.
    exchanged
        Show gas fees and gas used in each other's place, as the service has done since August 2025
        wherever the fees are the smaller number, which they are for special accounts only
        (ton-index-go, scan_common.go `ScanTransaction`).

    Returns
    -------
    tuple
        The transaction as the service shows it, and the messages it sent.
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
    _close(run)
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
    """Go through the phases."""
    message = run.message
    phases: dict[str, Any] = {}
    if message is None:
        phases["storage_ph"] = storage_phase(run)
    elif run.external:
        run.pay(run.forward_fee(message))  # the import fee, on record nowhere but in the sum
        phases["storage_ph"] = storage_phase(run)
    elif message.bounce:  # what has to go back is not touched by storage debt
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


def _close(run: Run) -> None:
    """Leave the account as it is after the transaction."""
    account, moment = run.account, run.moment
    account.balance = run.balance
    if account.status == "nonexist" and run.balance:
        account.status = "uninit"  # a new account, or what is left after a deletion
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
