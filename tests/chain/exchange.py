"""An exchange of TON for a jetton, in two versions: its code is upgraded while it runs.

It is one pool with a constant product. The layouts of its bodies are those that DeDust documents
for its vaults, pools and events (docs.dedust.io). Where DeDust has a vault for each side and a
pool, this is one contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chain import bodies
from chain.bodies import Body
from chain.cells import Builder, Cell
from chain.contracts import Call, Contract, Outcome, gas_within, jetton_wallet_of
from chain.messages import Message, Send

if TYPE_CHECKING:
    from collections.abc import Callable

SWAP, SWAP_JETTONS, NOTIFY = 0xEA06185D, 0xE3A0D482, 0x7362D09C
DEPOSIT, COLLECT, UPGRADE = 0xD55E4686, 0x0B429F52, 0x53E252AE
PAYOUT, SWAP_EVENT, DEPOSIT_EVENT = 0x474F86CF, 0x9C610DE3, 0xB544F4A4
#: Exit codes: the price is worse than the limit of the user; the value is below the amount and
#: `LEAST_GAS`; this sender may not send this.
PRICE_MOVED, TOO_LITTLE, WRONG_SENDER = 1_002, 1_003, 1_004
#: What a user should attach for fees, what the exchange asks for at least, and what it keeps of it.
SWAP_GAS, LEAST_GAS, KEPT = 100_000_000, 60_000_000, 20_000_000
#: What a user attaches who sends jettons, and how much of it their notice brings to the exchange.
JETTON_SWAP_GAS, FORWARD = 200_000_000, 60_000_000
#: 0.3 % of what is given stays in the pool, and 0.05 % of the TON is for the administrator.
KEEPS, PER_MILLE, FEE_PART = 997, 1_000, 2_000


def amount_out(given: int, reserve_in: int, reserve_out: int) -> int:
    """Return what the pool gives for an amount, so that the product of the reserves stays."""
    given *= KEEPS
    return given * reserve_out // (reserve_in * PER_MILLE + given)


# Bodies


def swap(query: int, amount: int, limit: int, recipient: str) -> Body:
    """Write the request to swap TON for jettons, at least `limit` of them."""
    parameters = Builder().uint(0, 32).address(recipient).address(None).uint(0, 2).cell()
    cell = Builder().uint(SWAP, 32).uint(query, 64).coins(amount).address(None)
    decoded = {"@type": "dedust_swap", "query_id": str(query), "amount": bodies.shown_coins(amount)}
    fields = {"query": query, "amount": amount, "limit": limit, "recipient": recipient}
    return Body(cell.uint(0, 1).coins(limit).uint(0, 1).ref(parameters).cell(), decoded, fields)


def swap_jettons(limit: int, recipient: str) -> Body:
    """Write the forward payload of jettons that are to be swapped for at least `limit` nanoton."""
    parameters = Builder().uint(0, 32).address(recipient).address(None).uint(0, 2).cell()
    cell = Builder().uint(SWAP_JETTONS, 32).address(None).uint(0, 1).coins(limit).uint(0, 1)
    return Body(cell.ref(parameters).cell(), {"@type": "dedust_swap"}, {"limit": limit})


def deposit(query: int, amount: int) -> Body:
    """Write the request to add TON to the pool."""
    cell = Builder().uint(DEPOSIT, 32).uint(query, 64).coins(amount).cell()
    decoded = {"@type": "dedust_deposit_liquidity", "query_id": str(query)}
    return Body(cell, decoded, {"query": query, "amount": amount})


def collect(query: int) -> Body:
    """Write the request of the administrator for the fees."""
    cell = Builder().uint(COLLECT, 32).uint(query, 64).cell()
    return Body(cell, {"@type": "dedust_collect_fees", "query_id": str(query)}, {"query": query})


def upgrade(query: int, contract: Contract) -> Body:
    """Write the request of the administrator to run other code from now on."""
    cell = Builder().uint(UPGRADE, 32).uint(query, 64).ref(contract.code).cell()
    decoded = {"@type": "dedust_upgrade_pool", "query_id": str(query)}
    return Body(cell, decoded, {"contract": contract})


def _payout(query: int, amount: int) -> Body:
    cell = Builder().uint(PAYOUT, 32).uint(query, 64).coins(amount).cell()
    return Body(cell, {"@type": "dedust_payout", "query_id": str(query)})


def _event(opcode: int, given: int, taken: int, user: str | None, memory: dict[str, Any]) -> Send:
    after = Builder().address(user).coins(memory["ton"]).coins(memory["jettons"]).cell()
    cell = Builder().uint(opcode, 32).coins(given).coins(taken).ref(after).cell()
    name = "dedust_swap" if opcode == SWAP_EVENT else "dedust_deposit"
    return Send(destination=None, body=Body(cell, {"@type": name}))


# The contract


@dataclass(frozen=True, slots=True)
class _Gas:
    """The gas that a version of the code needs, from the least to the most."""

    swap: range
    notify: range
    other: range


def _data(memory: dict[str, Any]) -> Cell:
    cell = Builder().coins(memory["ton"]).coins(memory["jettons"]).coins(memory["fees"])
    return cell.address(memory["admin"]).address(memory["master"]).cell()


def _version(gas: _Gas) -> Callable[[Call], Outcome]:
    handlers = {
        SWAP: (_swap, gas.swap),
        NOTIFY: (_swap_jettons, gas.notify),
        DEPOSIT: (_deposit, gas.other),
    }

    def run(call: Call) -> Outcome:
        message = call.message
        if message is None or call.opcode is None or message.bounced:
            return Outcome(gas=419)
        handler, needed = handlers.get(call.opcode, (_administer, gas.other))
        return handler(call, message, gas_within(call.rng, needed))

    return run


def _swap(call: Call, message: Message, gas: int) -> Outcome:
    """Take TON, and send jettons to the recipient through the jetton wallet of the exchange."""
    memory, given = call.memory, call.fields
    amount, fee = given["amount"], given["amount"] // FEE_PART
    if message.value < amount + LEAST_GAS:
        return Outcome(gas=gas // 9, exit_code=TOO_LITTLE)
    out = amount_out(amount - fee, memory["ton"], memory["jettons"])
    if out < given["limit"]:
        return Outcome(gas=gas // 2, exit_code=PRICE_MOVED)
    left = memory | {
        "ton": memory["ton"] + amount - fee,
        "jettons": memory["jettons"] - out,
        "fees": memory["fees"] + fee,
    }
    value = message.value - amount - KEPT
    jettons = _send_jettons(call, given["query"], out, given["recipient"], value)
    event = _event(SWAP_EVENT, amount, out, message.source, left)
    return Outcome(gas=gas, memory=left, actions=(jettons, event))


def _swap_jettons(call: Call, message: Message, gas: int) -> Outcome:
    """Take jettons that have come, and send TON; or send them back if the price has moved."""
    memory, given = call.memory, call.fields
    if message.source != jetton_wallet_of(call.address, memory["master"])[0]:
        return Outcome(gas=gas // 9, exit_code=WRONG_SENDER)
    amount, user, rest = given["amount"], given["sender"], message.value - KEPT
    out = amount_out(amount, memory["jettons"], memory["ton"])
    if out < given["content"].fields["limit"]:
        back = _send_jettons(call, given["query"], amount, user, rest)
        return Outcome(gas=gas, actions=(back,))
    left = memory | {"ton": memory["ton"] - out, "jettons": memory["jettons"] + amount}
    paid = _payout(given["query"], out)
    payout = Send(destination=user, value=out + rest, mode=1, body=paid, bounce=False)
    event = _event(SWAP_EVENT, amount, out, user, left)
    return Outcome(gas=gas, memory=left, actions=(payout, event))


def _send_jettons(call: Call, query: int, amount: int, to: str, value: int) -> Send:
    wallet, _ = jetton_wallet_of(call.address, call.memory["master"])
    body = bodies.jetton_transfer(query, amount, to=to, response=to)
    return Send(destination=wallet, value=value, mode=1, body=body)


def _deposit(call: Call, message: Message, gas: int) -> Outcome:
    memory, given = call.memory, call.fields
    rest = message.value - given["amount"] - KEPT
    if rest < 0:
        return Outcome(gas=gas // 9, exit_code=TOO_LITTLE)
    left = memory | {"ton": memory["ton"] + given["amount"]}
    event = _event(DEPOSIT_EVENT, given["amount"], 0, message.source, left)
    back = bodies.excess(given["query"])
    sends = (event, Send(destination=message.source, value=rest, mode=1, body=back, bounce=False))
    return Outcome(gas=gas, memory=left, actions=sends)


def _administer(call: Call, message: Message, gas: int) -> Outcome:
    memory = call.memory
    if call.opcode not in (COLLECT, UPGRADE):
        return Outcome(gas=gas // 9, exit_code=65_535)
    if message.source != memory["admin"]:
        return Outcome(gas=gas // 9, exit_code=WRONG_SENDER)
    if call.opcode == UPGRADE:
        return Outcome(gas=gas // 4, code=call.fields["contract"])
    paid = _payout(call.fields["query"], memory["fees"])
    payout = Send(destination=message.source, value=memory["fees"], mode=1, body=paid)
    return Outcome(gas=gas // 2, memory=memory | {"fees": 0}, actions=(payout,))


_FIRST = _Gas(range(23_412, 24_349), range(10_600, 16_400), range(12_530, 13_032))
EXCHANGE = Contract("exchange", _version(_FIRST), _data, size=1_400)
#: The version after the upgrade needs about a third less gas. The median of real notices of jettons
#: on exchanges is 8,258.
_SECOND = _Gas(range(14_866, 15_461), range(7_050, 11_400), range(10_902, 11_339))
EXCHANGE_V2 = Contract("exchange v2", _version(_SECOND), _data, size=1_200)
