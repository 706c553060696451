"""The schemes of known bodies, and how a body is read by them into a row.

Sources of the schemes: TEP-62 (NFT), TEP-74 and TEP-89 (jettons), block.tlb of the TON monorepo
(`new_bounce_body`); comments: docs.ton.org. Kinds are named as the service names them
(ton-indexer, ton-marker/src/schemes/schemes.tlb); it has no names for the bodies of TEP-89.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonframes.bodies.boc import Node, Slice, read_root

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = dict[str, Any]

_OPCODE = 32
_INT64 = 1 << 63

#: Kind and fields by opcode. Data after the last field is not read.
SCHEMES = {
    0x0F8A7EA5: (
        "jetton_transfer",
        (
            "query_id",
            "amount",
            "recipient",
            "response_destination",
            "custom_payload",
            "forward_amount",
            "forward_payload",
        ),
    ),
    0x178D4519: (
        "jetton_internal_transfer",
        (
            "query_id",
            "amount",
            "sender",
            "response_destination",
            "forward_amount",
            "forward_payload",
        ),
    ),
    0x7362D09C: ("jetton_notify", ("query_id", "amount", "sender", "forward_payload")),
    0x595F07BC: ("jetton_burn", ("query_id", "amount", "response_destination")),
    0x7BDD97DE: (
        "jetton_burn_notification",
        ("query_id", "amount", "sender", "response_destination"),
    ),
    # An amount follows; whether of jettons or of TON depends on the minter.
    0x642B7D07: ("jetton_mint", ("query_id", "recipient")),
    0xD53276DB: ("excess", ("query_id",)),
    0x2C76B973: ("provide_wallet_address", ("query_id",)),
    0xD1735400: ("take_wallet_address", ("query_id",)),
    0x5FCC3D14: (
        "nft_transfer",
        (
            "query_id",
            "recipient",
            "response_destination",
            "custom_payload",
            "forward_amount",
            "forward_payload",
        ),
    ),
    0x05138D91: ("nft_ownership_assigned", ("query_id", "sender", "forward_payload")),
    0x2FCB26A2: ("get_static_data", ("query_id",)),
    0x8B771735: ("report_static_data", ("query_id",)),
}

_READ: dict[str, Callable[[Slice], Any]] = {
    "query_id": lambda body: body.uint(64),
    "amount": Slice.coins,
    "sender": Slice.address,
    "recipient": Slice.address,
    "response_destination": Slice.address,
    "custom_payload": Slice.maybe_ref,
    "forward_amount": Slice.coins,
    "forward_payload": Slice.either,
}


def read_body(boc: str | bytes) -> Row:
    """Read a body into columns of `decode_bodies`; those that it has no value for are absent."""
    try:
        body = Slice(read_root(boc, Node))
    except ValueError as error:
        return {"error": str(error)}
    if body.bits < _OPCODE:
        return {} if body.bits or body.refs else {"kind": "empty_cell"}
    opcode = body.uint(_OPCODE)
    return {"opcode": opcode} | _after_opcode(opcode, body)


def _after_opcode(opcode: int, body: Slice) -> Row:
    match opcode:
        case 0x00000000:
            return {"kind": "text_comment"} | _comment(body)
        case 0x2167DA4B:
            return {"kind": "encrypted_text_comment"}
        case 0xFFFFFFFF:
            return {"kind": "bounce", "bounced_opcode": _opcode(body)}
        case 0xFFFFFFFE:
            return _new_bounce(body)
    return _fields(*SCHEMES[opcode], body) if opcode in SCHEMES else {}


def _fields(kind: str, fields: tuple[str, ...], body: Slice) -> Row:
    row: Row = {"kind": kind}
    for field in fields:
        try:
            row[field] = _READ[field](body)
        except ValueError as error:
            return {"kind": kind, "error": f"{field}: {error}"}
    row.pop("custom_payload", None)
    payload = row.pop("forward_payload", None)
    if "amount" in row:
        row |= {"amount": float(row["amount"]), "amount_exact": str(row["amount"])}
    if row.get("forward_amount", 0) >= _INT64:
        row["forward_amount"] = None
    return row | _payload(payload)


def _payload(payload: Slice | None) -> Row:
    if payload is None or _opcode(payload) != 0:
        return {}
    return _comment(payload)


def _comment(text: Slice) -> Row:
    try:
        data = text.snake()
    except ValueError as error:
        return {"error": f"comment: {error}"}
    try:
        return {"comment": data.decode()}
    except UnicodeDecodeError:
        reason = "comment: some bytes are not UTF-8; U+FFFD stands in their place"
        return {"comment": data.decode(errors="replace"), "error": reason}


def _new_bounce(body: Slice) -> Row:
    # The elector uses the same opcode for an answer, which has no references.
    if len(body.refs) < 2:  # noqa: PLR2004 - original_body and original_info
        return {}
    try:
        return {"kind": "bounce", "bounced_opcode": _opcode(body.ref())}
    except ValueError as error:
        return {"kind": "bounce", "error": f"original_body: {error}"}


def _opcode(body: Slice) -> int | None:
    return body.uint(_OPCODE) if body.bits >= _OPCODE else None
