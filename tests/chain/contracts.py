"""Contracts of the synthetic chain: how an account reacts to a message.

A contract here is not code for the virtual machine, but a Python function from a call to its
outcome: gas, exit code, actions, new data. Everything else in a transaction follows from the rules
(`execution`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from chain import bodies
from chain.bodies import SUBWALLET, WALLET_ID
from chain.cells import Builder, Cell
from chain.messages import Message, Send, StateInit

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

TRANSFER, INTERNAL_TRANSFER, MINT, NFT_TRANSFER = 0x0F8A7EA5, 0x178D4519, 0x642B7D07, 0x5FCC3D14
#: Nanoton that a jetton transfer needs for its own fees.
JETTON_GAS = 20_000_000
#: Gas of jetton wallets. Each jetton has its own code, and each path through it needs another
#: amount. Real transfers need 6,300 to 10,300; the stablecoin reserves 10,065 and 10,435 (gas.fc).
TRANSFER_GAS, RECEIVE_GAS = range(6_300, 10_301), range(7_600, 10_436)
#: More cells than an account's state may have (parameter 43, `max_acc_state_cells`).
TOO_MANY_CELLS = 65_537
#: More than a list of actions may have (transaction.cpp `max_actions`).
TOO_MANY_ACTIONS = 256
#: The mode of a message that is left out if it cannot be sent.
IGNORE_ERRORS = 2
#: Every contract, by the hash of its code cell.
_BY_CODE: dict[bytes, Contract] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a contract reads when it runs. `message` is None in tick-tock transactions."""

    address: str
    memory: dict[str, Any]
    balance: int
    gas_limit: int
    message: Message | None
    rng: Random

    @property
    def opcode(self) -> int | None:
        """The first 32 bits of the message."""
        return self.message.body.opcode if self.message else None

    @property
    def fields(self) -> dict[str, Any]:
        """The content of the body of the message."""
        return self.message.body.fields if self.message else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run.

    Attributes
    ----------
    gas
        Gas that the run needs; above the limit it ends with -14.
    committed
        Whether COMMIT was called before an exit code that means failure; the actions stand then.
    memory
        What to store; None for no change.
    actions
        The actions; None stands for an unknown action.
    cells
        Cells of the new state, if it is to be too large.
    code
        The contract to run from the next transaction on; None for no change. This is one more
        action, before the others.
    """

    gas: int
    exit_code: int = 0
    committed: bool = False
    memory: dict[str, Any] | None = None
    actions: tuple[Send | None, ...] = ()
    cells: int = 0
    code: Contract | None = None


def gas_within(rng: Random, gas: range) -> int:
    """Draw an amount of gas: most calls need little more than the least, few the most."""
    return min(rng.choice(gas), rng.choice(gas))


def no_data(_memory: dict[str, Any]) -> Cell:
    """Return the data cell of contracts that store nothing."""
    return Cell()


@dataclass(frozen=True, slots=True)
class Contract:
    """A kind of contract: its behaviour, its code cell, and what the service knows about it."""

    name: str
    run: Callable[[Call], Outcome]
    data: Callable[[dict[str, Any]], Cell] = no_data
    interfaces: tuple[str, ...] = ()
    methods: tuple[int, ...] = ()
    size: int = 300
    #: Writes the external message of its owner.
    request: Callable[..., bodies.Body] = bodies.signed_request
    code: Cell = field(init=False)

    def __post_init__(self) -> None:
        seed = sha256(self.name.encode()).digest()
        tail: tuple[Cell, ...] = ()
        for at in range(self.size // 100):
            bulk = b"".join(sha256(seed + bytes((at, part))).digest() for part in range(3))
            tail = (Cell(int.from_bytes(bulk), 768, tail),)
        object.__setattr__(self, "code", tail[0])
        _BY_CODE[self.code.hash] = self

    def init(self, memory: dict[str, Any]) -> StateInit:
        """Return the initial state of a new account with this contract."""
        return StateInit(self.code, self.data(memory), memory)


# Wallets keep what they receive, and send what a signed external request asks for.


def _wallet_data(memory: dict[str, Any]) -> Cell:
    cell = Builder().uint(memory["seqno"], 32).uint(SUBWALLET, 32).uint(memory["key"], 256)
    return cell.uint(0, 1).cell()


def _wallet(call: Call) -> Outcome:
    if call.message is None or call.message.internal:
        # As recorded for messages with an opcode; 62 is below the flat limit.
        return Outcome(gas=62 if call.opcode is None else 991)
    memory = call.memory | {"seqno": call.memory["seqno"] + 1}
    gas = 2_666 + 642 * len(call.message.orders)
    return Outcome(gas=gas, memory=memory, actions=call.message.orders)


def _wallet_v5_data(memory: dict[str, Any]) -> Cell:
    cell = Builder().uint(1, 1).uint(memory["seqno"], 32).uint(WALLET_ID, 32)
    return cell.uint(memory["key"], 256).uint(0, 1).cell()


def _wallet_v5(call: Call) -> Outcome:
    """Send what the owner asks for, if every message is sent with mode +2 (wallet_v5.fc)."""
    if call.message is None or call.message.internal:
        return Outcome(gas=778)  # as recorded
    memory, orders = call.memory | {"seqno": call.memory["seqno"] + 1}, call.message.orders
    if any(not order.mode & IGNORE_ERRORS for order in orders):
        return Outcome(gas=3_601, exit_code=137, committed=True, memory=memory)
    return Outcome(gas=4_222 + 717 * len(orders), memory=memory, actions=orders)


def _careless(call: Call) -> Outcome:
    """Accept an external message before checking it, then throw: the fees are lost."""
    if call.message is None or call.message.internal:
        return Outcome(gas=62)
    return Outcome(gas=1_311, exit_code=9)


# Jettons (TEP-74): a master mints; every owner has a jetton wallet.


def _jetton_wallet_data(memory: dict[str, Any]) -> Cell:
    cell = Builder().coins(memory["balance"]).address(memory["owner"]).address(memory["master"])
    return cell.cell()


def _jetton_master_data(memory: dict[str, Any]) -> Cell:
    return Builder().coins(memory["supply"]).address(memory["admin"]).cell()


def _jetton_wallet(call: Call) -> Outcome:
    message, memory = call.message, call.memory
    if message is None:
        return Outcome(gas=812)
    if message.bounced:  # the transfer failed and the jettons are returned
        back = call.fields["of"].fields.get("amount", 0)
        return Outcome(gas=2_113, memory=memory | {"balance": memory["balance"] + back})
    if call.opcode == TRANSFER:
        return _send_jettons(call, message)
    if call.opcode == INTERNAL_TRANSFER:
        return _receive_jettons(call, message)
    return Outcome(gas=812, exit_code=65_535)


def _send_jettons(call: Call, message: Message) -> Outcome:
    """Handle `transfer` of the owner, with the exit codes of the reference contract."""
    memory, given = call.memory, call.fields
    if message.source != memory["owner"]:
        return Outcome(gas=1_542, exit_code=705)
    if given["amount"] > memory["balance"]:
        return Outcome(gas=1_877, exit_code=706)
    if message.value < 2 * given["forward"] + JETTON_GAS:
        return Outcome(gas=2_345, exit_code=709)
    body = bodies.jetton_internal_transfer(
        given["query"],
        given["amount"],
        sender=memory["owner"],
        response=given["response"],
        forward=given["forward"],
        content=given["content"],
    )
    to, init = jetton_wallet_of(given["to"], memory["master"])
    send = Send(destination=to, mode=64, body=body, init=init)
    left = memory | {"balance": memory["balance"] - given["amount"]}
    return Outcome(gas=gas_within(call.rng, TRANSFER_GAS), memory=left, actions=(send,))


def _receive_jettons(call: Call, message: Message) -> Outcome:
    """Handle `internal_transfer`: notify the owner, and return the rest of the value."""
    memory, given = call.memory, call.fields
    if given["amount"] == 0:
        return Outcome(gas=2_871, exit_code=707)
    sends: list[Send] = []
    forward = given["forward"]
    if forward:
        owner = memory["owner"]
        note = bodies.jetton_notify(
            given["query"], given["amount"], given["sender"], given["content"]
        )
        sends.append(Send(destination=owner, value=forward, mode=1, body=note, bounce=False))
    rest = message.value - 2 * forward - JETTON_GAS
    if rest > 0:  # mode 2: ignore it if it cannot be sent
        body, to = bodies.excess(given["query"]), given["response"]
        sends.append(Send(destination=to, value=rest, mode=2, body=body, bounce=False))
    memory = memory | {"balance": memory["balance"] + given["amount"]}
    gas = gas_within(call.rng, RECEIVE_GAS)
    return Outcome(gas=gas, memory=memory, actions=tuple(sends))


def _jetton_master(call: Call) -> Outcome:
    message, memory, given = call.message, call.memory, call.fields
    if call.opcode != MINT or message is None:
        return Outcome(gas=731, exit_code=65_535)
    if message.source != memory["admin"]:
        return Outcome(gas=1_020, exit_code=73)
    body = bodies.jetton_internal_transfer(
        given["query"], given["amount"], sender=None, response=memory["admin"]
    )
    to, init = jetton_wallet_of(given["to"], call.address)
    memory = memory | {"supply": memory["supply"] + given["amount"]}
    send = Send(destination=to, mode=64, body=body, init=init)
    return Outcome(gas=7_214, memory=memory, actions=(send,))


# NFT (TEP-62).


def _nft_data(memory: dict[str, Any]) -> Cell:
    cell = Builder().uint(memory["index"], 64).address(memory["collection"])
    return cell.address(memory["owner"]).cell()


def _nft_item(call: Call) -> Outcome:
    message, given = call.message, call.fields
    if call.opcode != NFT_TRANSFER or message is None:
        return Outcome(gas=911, exit_code=65_535)
    if message.source is None or message.source != call.memory["owner"]:
        return Outcome(gas=1_304, exit_code=401)
    note = bodies.nft_ownership_assigned(given["query"], message.source)
    rest = bodies.excess(given["query"])
    forward = given["forward"]
    sends = (
        Send(destination=given["to"], value=forward, mode=1, body=note, bounce=False),
        Send(destination=given["response"], value=message.value // 2, body=rest, bounce=False),
    )
    return Outcome(gas=5_214, memory=call.memory | {"owner": given["to"]}, actions=sends)


# Contracts for failures and rare cases.


def _thrower(exit_code: int) -> Callable[[Call], Outcome]:
    def run(call: Call) -> Outcome:
        return Outcome(gas=700 + call.rng.randrange(40), exit_code=exit_code)

    return run


def _burner(call: Call) -> Outcome:
    return Outcome(gas=call.gas_limit + call.rng.randrange(1, 40))


def _answer(call: Call, text: str, **send: Any) -> Send:
    source = call.message.source if call.message else None
    # Long enough to need its own cell: a fine is charged per cell.
    body = bodies.comment(f"{text}, in as many words as it takes to leave the root cell")
    return Send(destination=source, body=body, bounce=False, **send)


def _committer(call: Call) -> Outcome:
    """Call COMMIT, then throw: the actions stand, and the exit code is shown."""
    send = _answer(call, "done before it failed", mode=64)
    return Outcome(gas=1_902, exit_code=7, committed=True, actions=(send,))


def _failing(kind: str) -> Callable[[Call], Outcome]:
    """Make a contract whose action phase fails in some way after one valid action."""

    def run(call: Call) -> Outcome:
        good = _answer(call, "this one is good", value=1_000_000, mode=1)
        poor = _answer(call, "this costs more than there is", value=call.balance, mode=1)
        stray = Send(destination="7:" + "0" * 64, body=bodies.empty(), mode=1)
        lists: dict[str, tuple[Send | None, ...]] = {
            "unknown_action": (good, None),
            "too_many_actions": (good,) * TOO_MANY_ACTIONS,
            "no_funds": (good, poor),
            "no_funds_bounce": (_answer(call, "poor", value=call.balance, mode=1 + 16),),
            "stray": (stray,),
            "too_big": (),
            "skipping": (_answer(call, "never sent", value=call.balance, mode=1 + 2), good),
        }
        cells = TOO_MANY_CELLS if kind == "too_big" else 0
        return Outcome(gas=1_433, actions=lists[kind], cells=cells)

    return run


def _destroyer(call: Call) -> Outcome:
    return Outcome(gas=1_377, actions=(_answer(call, "farewell", mode=128 + 32),))


def _logger(call: Call) -> Outcome:
    """Send an event to the outside, as exchanges do for their trades, and keep the value."""
    number = call.memory["events"] + 1
    payload = sha256(call.address.encode()).digest() + number.to_bytes(8)
    event = bodies.opaque(0x9C610DE3, int.from_bytes(payload), 320)
    send = Send(destination=None, body=event)
    return Outcome(gas=3_140, memory={"events": number}, actions=(send,))


def _logger_data(memory: dict[str, Any]) -> Cell:
    return Builder().uint(memory["events"], 64).cell()


def _elector(call: Call) -> Outcome:
    return Outcome(gas=6_464 if call.message is None else 2_020)


def _config(call: Call) -> Outcome:
    return Outcome(gas=2_911 if call.message is None else 1_120)


WALLET_METHODS = (76_407, 78_748, 81_467, 85_143, 107_653)
WALLET = Contract("wallet", _wallet, _wallet_data, ("wallet_v4r2",), WALLET_METHODS, 700)
WALLET_V5 = Contract(
    "wallet v5",
    _wallet_v5,
    _wallet_v5_data,
    ("wallet_v5r1",),
    (78_748, 81_467, 85_143, 88_459, 117_729),
    900,
    bodies.signed_request_v5,
)
CARELESS = Contract("careless", _careless, _wallet_data)
JETTON_WALLET = Contract(
    "jetton wallet", _jetton_wallet, _jetton_wallet_data, ("jetton_wallet",), (97_026,), 900
)
JETTON_MASTER = Contract(
    "jetton master",
    _jetton_master,
    _jetton_master_data,
    ("jetton_master",),
    (103_289, 106_029),
    1_000,
)
NFT_ITEM = Contract("nft item", _nft_item, _nft_data, ("nft_item",), (102_351,), 800)
NFT_COLLECTION = Contract(
    "nft collection", _thrower(65_535), interfaces=("nft_collection",), methods=(92_067, 102_491)
)
#: Exit codes of the virtual machine, of conventions and of contracts.
EXIT_CODES = (2, 4, 5, 9, 33, 134, 406, 65_535)
THROWERS = tuple(Contract(f"throws {code}", _thrower(code)) for code in EXIT_CODES)
BURNER = Contract("burner", _burner)
COMMITTER = Contract("committer", _committer)
FAILURES = (
    "unknown_action",
    "too_many_actions",
    "no_funds",
    "no_funds_bounce",
    "stray",
    "too_big",
    "skipping",
)
FAILING = tuple(Contract(f"fails by {kind}", _failing(kind)) for kind in FAILURES)
DESTROYER = Contract("destroyer", _destroyer)
LOGGER = Contract("logger", _logger, _logger_data)
ELECTOR = Contract("elector", _elector, size=3_000)
CONFIG = Contract("config", _config, size=2_000)


def with_code(code: Cell) -> Contract:
    """Return the contract that has a code cell."""
    return _BY_CODE[code.hash]


@cache
def jetton_wallet_of(owner: str, master: str) -> tuple[str, StateInit]:
    """Return the address and the initial state of an owner's wallet for a jetton."""
    init = JETTON_WALLET.init({"balance": 0, "owner": owner, "master": master})
    return init.address(), init
