"""A game of chance: a player stakes TON, and may win twice the stake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chain import bodies
from chain.cells import Builder
from chain.contracts import Call, Contract, Outcome
from chain.messages import Send

if TYPE_CHECKING:
    from chain.cells import Cell

LEAST_STAKE, TOO_SMALL, CLOSED = 100_000_000, 101, 102
#: How many players of a hundred win.
WINNERS = 45


def _game(call: Call) -> Outcome:
    message, memory = call.message, call.memory
    if message is None or call.opcode is None or message.bounced:
        return Outcome(gas=318)
    if call.fields.get("text") == "close":
        return Outcome(gas=1_204, memory=memory | {"open": 0})
    if not memory["open"]:
        return Outcome(gas=906, exit_code=CLOSED)
    if message.value < LEAST_STAKE:
        return Outcome(gas=1_118, exit_code=TOO_SMALL)
    memory = memory | {"rounds": memory["rounds"] + 1}
    if call.rng.randrange(100) >= WINNERS:
        return Outcome(gas=5_216, memory=memory)
    prize = Send(
        destination=message.source,
        value=2 * message.value,
        mode=1,
        body=bodies.comment("you have won"),
        bounce=False,
    )
    return Outcome(gas=6_031, memory=memory, actions=(prize,))


def _data(memory: dict[str, Any]) -> Cell:
    return Builder().uint(memory["open"], 1).uint(memory["rounds"], 64).cell()


GAME = Contract("game", _game, _data, size=500)
