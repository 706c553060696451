"""The action phase: pay for the messages of a contract and send them, one after another.

Source: `prepare_action_phase` and `try_action_send_msg` of transaction.cpp in the TON monorepo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chain.cells import Cell
from chain.contracts import (
    IGNORE_ERRORS,
    TOO_MANY_ACTIONS,
    TOO_MANY_CELLS,
    Outcome,
)
from chain.messages import Message, Send, base64, workchain_of
from chain.pricing import fine_per_cell, first_part

if TYPE_CHECKING:
    from chain.run import Run
    from tonframes.network.prices import Prices

#: The most cells a message may have (configuration parameter 43, `max_msg_cells`).
MAX_CELLS = 8_192
TOO_LONG, UNKNOWN_ACTION, BAD_DESTINATION, NO_FUNDS, TOO_BIG = 33, 34, 36, 37, 50
SEPARATE_FEES, BOUNCE, DESTROY, REST, EVERYTHING = 1, 16, 32, 64, 128
#: Since version 8 of the network (August 2024; here since the end of the month) the node counts the
#: actions that it skips.
VERSION_8 = 1_725_148_800


def action_phase(run: Run, outcome: Outcome) -> dict[str, Any]:
    """Carry out the actions of the contract. If one fails, only a fine is charged."""
    account, spending = run.account, Spending(run)
    code, arg = spending.do(outcome.actions)
    if not code and outcome.cells >= TOO_MANY_CELLS:
        code = TOO_BIG
    run.acted = code == 0
    deleted = run.acted and spending.destroy and spending.balance == 0
    if run.acted:
        charged = spending.collected + spending.fine
        run.fees += charged
        run.balance, run.out = spending.balance, spending.messages
        if outcome.code is not None:
            account.contract = outcome.code
        if outcome.memory is not None or outcome.code is not None:
            account.remember(account.memory if outcome.memory is None else outcome.memory)
    else:
        run.fine = charged = min(spending.fine, run.balance)
        run.pay(charged)
        run.wants_bounce = code == TOO_BIG or spending.bounce
    if deleted:
        run.deleted = True
        account.delete()
    # A phase that failed shows the sums and counts of what it had prepared. They were not paid.
    forwarding, special = spending.forwarding, int(outcome.code is not None)
    return {
        "success": run.acted,
        "valid": code not in (TOO_LONG, UNKNOWN_ACTION),
        "no_funds": code == NO_FUNDS,
        "status_change": "deleted" if deleted else "unchanged",
        **({"total_fwd_fees": str(forwarding)} if forwarding else {}),
        **({"total_action_fees": str(charged)} if charged else {}),
        "result_code": code,
        **({"result_arg": arg} if arg else {}),
        "tot_actions": len(outcome.actions) + special,
        "spec_actions": special,
        "skipped_actions": spending.skipped if run.moment.now >= VERSION_8 else 0,
        "msgs_created": len(spending.messages),
        "action_list_hash": _list_hash(outcome),
        "tot_msg_size": {"cells": str(spending.cells), "bits": str(spending.bits)},
    }


def _list_hash(outcome: Outcome) -> str:
    """Hash the list of actions as its cells, with the last action outermost."""
    cell = Cell()
    if outcome.code is not None:  # action_set_code#ad4de08e
        cell = Cell(0xAD4DE08E, 32, (cell, outcome.code.code))
    for action in outcome.actions:
        if action is None:
            cell = Cell(0xBAD00BAD, 32, (cell,))
        else:  # action_send_msg#0ec3c86d
            cell = Cell(0x0EC3C86D << 8 | action.mode, 40, (cell, action.body.cell))
    return base64(cell.hash)


class Spending:
    """The balance of an action phase, and what it is spent on."""

    def __init__(self, run: Run) -> None:
        self.run, self.balance, self.left = run, run.balance, run.left
        self.messages: list[Message] = []
        self.collected = self.forwarding = self.fine = 0
        self.skipped = self.cells = self.bits = 0
        self.destroy = self.bounce = False

    def do(self, actions: tuple[Send | None, ...]) -> tuple[int, int]:
        """Carry out the actions; return the result code and the index of the action that failed."""
        if len(actions) >= TOO_MANY_ACTIONS:
            return TOO_LONG, TOO_MANY_ACTIONS
        if None in actions:  # found when the list is read, before any action
            return UNKNOWN_ACTION, actions.index(None)
        for index, send in enumerate(actions):
            code = self._send(send) if send else UNKNOWN_ACTION
            if send and code and send.mode & IGNORE_ERRORS:
                self.skipped += 1
            elif code:
                self.bounce = bool(send and send.mode & BOUNCE)
                return code, index
        return 0, 0

    def _send(self, send: Send) -> int:
        """Make one message and pay for it. Return the result code."""
        if send.destination is not None and workchain_of(send.destination) not in (0, -1):
            return BAD_DESTINATION
        run = self.run
        message = Message(
            source=run.account.address,
            destination=send.destination,
            body=send.body,
            init=send.init,
            bounce=send.bounce,
            created_lt=run.moment.lt + 1 + len(self.messages),
            created_at=run.moment.now,
        )
        prices = run.prices_to(send.destination)
        fee = run.forward_fee(message)
        if send.destination is None:  # this transaction collects the whole fee
            value, cost, own = 0, fee, fee
        else:
            value, cost = self._value(send, fee)
            own = first_part(prices, fee)
        if value < 0 or cost > self.balance:
            self._fine(send, prices, message.size[0])
            return NO_FUNDS
        message.value, message.fwd_fee = value, fee - own
        self.balance -= cost
        if send.mode & (REST | EVERYTHING):
            self.left = 0
        self.destroy |= bool(send.mode & DESTROY)
        self.messages.append(message)
        self.collected += own
        self.forwarding += fee
        cells, bits = message.size
        self.cells, self.bits = self.cells + cells + 1, self.bits + bits + message.cell.bits
        return 0

    def _value(self, send: Send, fee: int) -> tuple[int, int]:
        """Return the value of a message, and what the account pays for it including fees."""
        if send.mode & EVERYTHING:
            return self.balance - fee, self.balance
        value = send.value
        if send.mode & REST:
            value += self.left
            if not send.mode & SEPARATE_FEES:
                value -= self.run.gas_fees + self.fine
        return (value, value + fee) if send.mode & SEPARATE_FEES else (value - fee, value)

    def _fine(self, send: Send, prices: Prices, cells: int) -> None:
        """Charge for a message that could not be sent (`collect_fine`)."""
        if self.run.account.special:
            return
        each, funds = fine_per_cell(prices), self.balance
        if not send.mode & (EVERYTHING | SEPARATE_FEES):
            rest = self.left - self.run.gas_fees if send.mode & REST else 0
            funds = max(0, min(funds, send.value + rest))
        fine = min(each * min(MAX_CELLS, funds // each, cells), self.balance)
        self.fine += fine
        self.balance -= fine
