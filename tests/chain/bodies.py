"""Message bodies of the synthetic chain: their cells, and how the service decodes them.

Layouts: TEP-74 and TEP-89 (jettons), TEP-62 (NFT), `wallet/interact` of the TON documentation
(comments, signed requests). The decoded form is the service's: TL-B constructors under `@type`,
numbers as strings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chain.cells import Builder, Cell

if TYPE_CHECKING:
    from collections.abc import Sequence

OPCODE_BITS = 32
#: Bytes of text that fit into a cell after the opcode; the rest follows in a chain of cells.
TEXT_ROOM = 123
SUBWALLET = 698_983_191
#: The id of a wallet v5: the id of the network (-217) with the first bit changed.
WALLET_ID = 2_147_483_431


@dataclass(frozen=True, slots=True)
class Body:
    """A message body."""

    cell: Cell
    decoded: dict[str, Any] | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def opcode(self) -> int | None:
        """The first 32 bits; None in a shorter body."""
        spare = self.cell.bits - OPCODE_BITS
        return self.cell.value >> spare if spare >= 0 else None

    @property
    def decoded_opcode(self) -> str | None:
        """The name that the service gives the body; None if it is empty or not known."""
        if self.opcode is None or self.decoded is None:
            return None
        name: str = self.decoded.get("@type") or self.decoded["type"]
        return name


def shown_coins(amount: int) -> dict[str, Any]:
    """Return an amount of coins as the service decodes it."""
    size = (amount.bit_length() + 7) // 8
    return {"@type": "var_uint", "len": str(size), "value": str(amount)}


def _address(raw: str | None) -> dict[str, Any]:
    if raw is None:
        return {"@type": "addr_none"}
    workchain, _, account = raw.partition(":")
    return {
        "@type": "addr_std",
        "anycast": {"@type": "nothing_from_maybe"},
        "workchain_id": workchain,
        "address": account,
    }


def _text(text: str) -> Cell:
    """Write a comment: 32 zero bits and UTF-8, continued in references ("snake" format)."""
    data = bytes(4) + text.encode()
    chunks = [data[: TEXT_ROOM + 4]]
    rest = data[TEXT_ROOM + 4 :]
    chunks += [rest[at : at + TEXT_ROOM + 4] for at in range(0, len(rest), TEXT_ROOM + 4)]
    tail: tuple[Cell, ...] = ()
    for chunk in reversed(chunks):
        tail = (Cell(int.from_bytes(chunk), 8 * len(chunk), tail),)
    return tail[0]


def empty() -> Body:
    """Return the empty body of a plain transfer."""
    return Body(Cell(), {"@type": "empty_cell"})


def comment(text: str, form: int = 0) -> Body:
    """Write a comment, decoded in one of the forms that versions of the service use.

    `form` is 0 for the newer `@type`, 1 for the older `type`, 2 for both, 3 for not decoded.
    """
    newer, older = {"@type": "text_comment"}, {"type": "text_comment"}
    shown = {"comment": text}
    forms = (newer | shown, older | shown, newer | shown | older, None)
    return Body(_text(text), forms[form], {"text": text})


def opaque(opcode: int, payload: int, bits: int, *refs: Cell) -> Body:
    """Write a body that the service does not know."""
    return Body(Cell(opcode << bits | payload, 32 + bits, refs))


def excess(query: int) -> Body:
    """Write the body that returns the rest of the value (TEP-74 `excesses`)."""
    cell = Builder().uint(0xD53276DB, 32).uint(query, 64).cell()
    return Body(cell, {"@type": "excess", "query_id": str(query)}, {"query": query})


def _payload(content: str | Body | None) -> tuple[Cell, dict[str, Any]]:
    """Write a forward payload, a text or any other body, always in its own cell."""
    if isinstance(content, Body):
        return content.cell, {"@type": "second_from_either", "value": content.decoded}
    cell = _text(content) if content else Cell()
    value = {"@type": "text_comment", "text": content} if content else {"@type": "empty_cell"}
    return cell, {"@type": "second_from_either", "value": value}


def jetton_transfer(
    query: int,
    amount: int,
    *,
    to: str,
    response: str,
    forward: int = 0,
    content: str | Body | None = None,
) -> Body:
    """Write the request to a jetton wallet to send jettons (TEP-74 `transfer`)."""
    payload, shown = _payload(content)
    cell = Builder().uint(0x0F8A7EA5, 32).uint(query, 64).coins(amount).address(to)
    cell.address(response).uint(0, 1).coins(forward).uint(1, 1).ref(payload)
    decoded = {
        "@type": "jetton_transfer",
        "query_id": str(query),
        "amount": shown_coins(amount),
        "destination": _address(to),
        "response_destination": _address(response),
        "custom_payload": {"@type": "nothing_from_maybe"},
        "forward_ton_amount": shown_coins(forward),
        "forward_payload": shown,
    }
    fields = {"query": query, "amount": amount, "to": to, "response": response}
    return Body(cell.cell(), decoded, fields | {"forward": forward, "content": content})


def jetton_internal_transfer(
    query: int,
    amount: int,
    *,
    sender: str | None,
    response: str,
    forward: int = 0,
    content: str | Body | None = None,
) -> Body:
    """Write the transfer from jetton wallet to jetton wallet (TEP-74 `internal_transfer`)."""
    payload, shown = _payload(content)
    cell = Builder().uint(0x178D4519, 32).uint(query, 64).coins(amount).address(sender)
    cell.address(response).coins(forward).uint(1, 1).ref(payload)
    decoded = {
        "@type": "jetton_internal_transfer",
        "query_id": str(query),
        "amount": shown_coins(amount),
        "from": _address(sender),
        "response_address": _address(response),
        "forward_ton_amount": shown_coins(forward),
        "forward_payload": shown,
    }
    fields = {"query": query, "amount": amount, "sender": sender, "response": response}
    return Body(cell.cell(), decoded, fields | {"forward": forward, "content": content})


def jetton_notify(query: int, amount: int, sender: str | None, content: str | Body | None) -> Body:
    """Write the notice to the owner of received jettons (TEP-74 `transfer_notification`)."""
    payload, shown = _payload(content)
    cell = Builder().uint(0x7362D09C, 32).uint(query, 64).coins(amount).address(sender)
    decoded = {
        "@type": "jetton_notify",
        "query_id": str(query),
        "amount": shown_coins(amount),
        "sender": _address(sender),
        "forward_payload": shown,
    }
    fields = {"query": query, "amount": amount, "sender": sender, "content": content}
    return Body(cell.uint(1, 1).ref(payload).cell(), decoded, fields)


def jetton_mint(query: int, amount: int, to: str) -> Body:
    """Write the request of an administrator to a jetton master to mint jettons."""
    cell = Builder().uint(0x642B7D07, 32).uint(query, 64).address(to).coins(amount).cell()
    decoded = {
        "@type": "jetton_mint",
        "query_id": str(query),
        "to_address": _address(to),
        "amount": shown_coins(amount),
    }
    return Body(cell, decoded, {"query": query, "amount": amount, "to": to})


def nft_transfer(query: int, new_owner: str, response: str, forward: int) -> Body:
    """Write the request to an NFT to change its owner (TEP-62 `transfer`)."""
    cell = Builder().uint(0x5FCC3D14, 32).uint(query, 64).address(new_owner).address(response)
    decoded = {
        "@type": "nft_transfer",
        "query_id": str(query),
        "new_owner": _address(new_owner),
        "response_destination": _address(response),
        "custom_payload": {"@type": "nothing_from_maybe"},
        "forward_amount": shown_coins(forward),
        "forward_payload": {"@type": "first_from_either", "value": {"@type": "empty_cell"}},
    }
    fields = {"query": query, "to": new_owner, "response": response, "forward": forward}
    return Body(cell.uint(0, 1).coins(forward).uint(0, 1).cell(), decoded, fields)


def nft_ownership_assigned(query: int, previous: str) -> Body:
    """Write the notice to the new owner of an NFT (TEP-62 `ownership_assigned`)."""
    cell = Builder().uint(0x05138D91, 32).uint(query, 64).address(previous).uint(0, 1).cell()
    decoded = {
        "@type": "nft_ownership_assigned",
        "query_id": str(query),
        "prev_owner": _address(previous),
        "forward_payload": {"@type": "first_from_either", "value": {"@type": "empty_cell"}},
    }
    return Body(cell, decoded)


def bounced(body: Body) -> Body:
    """Write the body of a bounce: 32 ones and the first 256 bits of the original body.

    This is the format without `extra_flags` (transaction.cpp `prepare_bounce_phase`).
    """
    bits = min(256, body.cell.bits)
    value = body.cell.value >> (body.cell.bits - bits)
    cell = Builder().uint(0xFFFFFFFF, 32).uint(value, bits).cell()
    inner = {"@type": body.decoded_opcode} if body.decoded_opcode else {"@type": "empty_cell"}
    return Body(cell, {"@type": "bounce", "payload": inner}, {"of": body})


def signed_request(
    signature: bytes, until: int, seqno: int, orders: Sequence[tuple[int, Cell, dict[str, Any]]]
) -> Body:
    """Write the external body for a wallet v4: a signature, and up to four messages with modes."""
    cell = Builder().raw(signature).uint(SUBWALLET, 32).uint(until, 32).uint(seqno, 32).uint(0, 8)
    messages: dict[str, Any] = {"@type": f"msgs_{len(orders)}"}
    for number, (mode, message, decoded) in enumerate(orders, 1):
        cell.uint(mode, 8).ref(message)
        messages[f"msg_{number}"] = {"mode": str(mode), "msg": decoded}
    decoded = {
        "@type": "wallet_signed_v4",
        "signature": signature.hex().upper(),
        "subwallet_id": str(SUBWALLET),
        "valid_until": str(until),
        "msg_seqno": str(seqno),
        "op": {"@type": "simple_send", "msgs": messages},
    }
    return Body(cell.cell(), decoded)


def signed_request_v5(
    signature: bytes, until: int, seqno: int, orders: Sequence[tuple[int, Cell, dict[str, Any]]]
) -> Body:
    """Write the external body for a wallet v5: any number of messages as a list of actions."""
    actions = Cell()
    shown: dict[str, Any] = {"@type": "out_list_empty"}
    for mode, message, decoded in orders:
        actions = Builder().uint(0x0EC3C86D, 32).uint(mode, 8).ref(actions).ref(message).cell()
        action = {"@type": "action_send_msg", "mode": str(mode), "out_msg": decoded}
        shown = {"@type": "out_list", "prev": shown, "action": action}
    cell = Builder().uint(0x7369676E, 32).uint(WALLET_ID, 32).uint(until, 32).uint(seqno, 32)
    cell.uint(1, 1).ref(actions).uint(0, 1).raw(signature)
    decoded = {
        "@type": "w5_external_signed_request",
        "request": {
            "@type": "w5_signed_request",
            "wallet_id": str(WALLET_ID),
            "valid_until": str(until),
            "msg_seqno": str(seqno),
            "inner": {
                "@type": "w5_actions_request",
                "out_actions": {
                    "@type": "something_from_maybe",
                    "value": {"cell_reference": shown},
                },
                "extended_actions": {"@type": "nothing_from_maybe"},
            },
        },
        "signature": signature.hex().upper(),
    }
    return Body(cell.cell(), decoded)
