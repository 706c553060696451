"""The phases of a transaction except the action phase: storage, credit, compute, bounce.

Each function changes the run and returns the phase as the service shows it. Source: the functions
`prepare_..._phase` of transaction.cpp in the TON monorepo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chain import bodies
from chain.contracts import Call, Outcome
from chain.messages import Message, base64
from chain.pricing import first_part, forward_fee, gas_bought, gas_fee, storage_fee

if TYPE_CHECKING:
    from chain.run import Run

#: The service does not index the state hashes of the virtual machine.
NO_HASH = base64(bytes(32))
GAS_PER_STEP = 45
OUT_OF_GAS = -14


def storage_phase(run: Run) -> dict[str, Any]:
    """Collect the storage fee since the last transaction, and old debt."""
    account, now = run.account, run.moment.now
    fee = account.due
    if account.last_paid:
        fee += storage_fee(account.workchain, *account.storage(), account.last_paid, now)
    collected = min(fee, run.balance)
    account.due = due = fee - collected
    run.pay(collected)
    phase = {"storage_fees_collected": str(collected)}
    if due:
        phase["storage_fees_due"] = str(due)
    phase["status_change"] = "unchanged"
    if account.status == "active" and due > run.prices.freeze_due_limit:
        account.freeze()
        phase["status_change"] = "frozen"
    elif account.status in ("uninit", "frozen") and due > run.prices.delete_due_limit:
        account.delete()
        run.deleted = True
        phase["status_change"] = "deleted"
    return phase


def credit_phase(run: Run) -> dict[str, Any]:
    """Credit the value of the message; an amount of 0 is omitted."""
    run.balance += run.left
    return {"credit": str(run.left)} if run.left else {}


def compute_phase(run: Run) -> dict[str, Any]:
    """Buy gas and run the contract, or say why the phase is skipped."""
    account, prices = run.account, run.prices
    if account.special:
        gas_max = gas_limit = prices.special_gas_limit
    else:
        gas_max = gas_bought(prices, run.balance)
        gas_limit = min(gas_bought(prices, run.left), gas_max)
    gas_credit = min(prices.gas_credit, gas_max) if run.external else 0
    reason, activated = None, False
    if run.balance <= 0 or not (gas_limit or gas_credit):
        reason = "no_gas"
    elif account.status != "active":
        reason = _activate(run)
        activated = reason is None
    if reason or account.contract is None:
        return {"skipped": True, "reason": reason or "no_state"}

    # The contract accepts an external message with ACCEPT, which raises the limit.
    ceiling = gas_max if run.external else gas_limit
    outcome = _call(run, ceiling)
    exhausted = outcome.gas > ceiling
    used = min(outcome.gas, ceiling)
    exit_code = OUT_OF_GAS if exhausted else outcome.exit_code
    run.outcome = outcome
    run.committed = exit_code in (0, 1) or (outcome.committed and not exhausted)
    run.gas_fees = 0 if account.special else gas_fee(prices, used)
    run.pay(run.gas_fees)
    fees_shown, used_shown = (used, run.gas_fees) if run.exchanged else (run.gas_fees, used)
    return {
        "skipped": False,
        "success": run.committed,
        "msg_state_used": activated,
        "account_activated": activated,
        "gas_fees": str(fees_shown),
        "gas_used": str(used_shown),
        "gas_limit": str(gas_limit),
        **({"gas_credit": str(gas_credit)} if gas_credit else {}),
        "mode": 0,
        "exit_code": exit_code,
        **({"exit_arg": outcome.gas} if exhausted else {}),
        "vm_steps": 1 + used // GAS_PER_STEP,
        "vm_init_state_hash": NO_HASH,
        "vm_final_state_hash": NO_HASH,
    }


def _activate(run: Run) -> str | None:
    """Activate the account with the initial state in the message; return why if impossible."""
    account, init = run.account, run.message.init if run.message else None
    if init is None:
        return "no_state"
    if run.suspended:
        return "suspended"
    if account.status == "frozen" or init.address(account.workchain) != account.address:
        return "bad_state"  # no message of this chain brings the state of a frozen account
    account.activate(init)
    return None


def _call(run: Run, gas_limit: int) -> Outcome:
    account = run.account
    if account.contract is None:
        raise ValueError(f"{account.address} is active and has no contract")
    call = Call(
        address=account.address,
        memory=account.memory,
        balance=run.balance,
        gas_limit=gas_limit,
        message=run.message,
        rng=run.rng,
    )
    return account.contract.run(call)


def bounce_phase(run: Run, message: Message) -> dict[str, Any]:
    """Return the rest of the value to the sender.

    The bounced body is in the root cell, so the fee is that of a message with no cells below it.
    """
    prices = run.prices_to(message.source)
    fee = forward_fee(prices, 0, 0)
    value = run.left - run.gas_fees - run.fine - fee
    size = {"cells": "0", "bits": "0"}
    if value < 0:  # the rest stays with the account
        return {"type": "nofunds", "msg_size": size, "req_fwd_fees": str(fee)}
    own = first_part(prices, fee)
    run.balance -= value + fee
    run.fees += own  # special accounts pay this fee too
    returned = Message(
        source=run.account.address,
        destination=message.source,
        body=bodies.bounced(message.body),
        value=value,
        bounced=True,
        fwd_fee=fee - own,
        created_lt=run.moment.lt + 1,
        created_at=run.moment.now,
    )
    run.out = [returned]
    return {"type": "ok", "msg_size": size, "msg_fees": str(own), "fwd_fees": str(fee - own)}
