"""What opcodes mean: the first 32 bits of a message body (`opcode`).

Opcodes are conventions. A contract is free to use any number for anything: a name says what the
message is taken for, not what its receiver does.

Opcodes are named as the service names them (`decoded_opcode`), by schemes.tlb of
https://github.com/toncenter/ton-indexer; those that it does not name, as their standard does.
Other sources: transaction.cpp, block.tlb and the contracts elector-code.fc and config-code.fc of
https://github.com/ton-blockchain/ton; the standards https://github.com/ton-blockchain/TEPs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.network.lookup import look_up, name_codes

if TYPE_CHECKING:
    from tonframes.network.lookup import Column


@dataclass(frozen=True, slots=True)
class Opcode:
    """What an opcode means; `family` is the standard or contract that it belongs to."""

    code: int
    name: str
    family: str
    source: str


_TX, _TLB, _SCHEMES = "transaction.cpp", "block.tlb", "schemes.tlb"
_ELECTOR, _CONFIG = "elector-code.fc", "config-code.fc"

#: By opcode, unsigned. If two conventions share a number, the name contains both names with a
#: comma between them, as the names of the service do.
OPCODES = {row.code: row for row in (
    #      code        name                                       family     source
    Opcode(0x00000000, "text_comment",                            "text",    "TEP-74"),
    Opcode(0x2167DA4B, "encrypted_text_comment",                  "text",    _SCHEMES),
    Opcode(0xFFFFFFFF, "bounce",                                  "bounce",  _TX),
    Opcode(0xFFFFFFFE, "new_bounce_body,elector_recover_stake_error",
                                                                  "bounce",  f"{_TLB}, {_ELECTOR}"),
    Opcode(0x0F8A7EA5, "jetton_transfer",                         "jetton",  "TEP-74"),
    Opcode(0x178D4519, "jetton_internal_transfer",                "jetton",  "TEP-74"),
    Opcode(0x7362D09C, "jetton_notify",                           "jetton",  "TEP-74"),
    Opcode(0x595F07BC, "jetton_burn",                             "jetton",  "TEP-74"),
    Opcode(0x7BDD97DE, "jetton_burn_notification",                "jetton",  "TEP-74"),
    Opcode(0xD53276DB, "excess",                                  "jetton",  "TEP-74"),
    Opcode(0x2C76B973, "provide_wallet_address",                  "jetton",  "TEP-89"),
    Opcode(0xD1735400, "take_wallet_address",                     "jetton",  "TEP-89"),
    Opcode(0x642B7D07, "jetton_mint",                             "jetton",  _SCHEMES),
    Opcode(0x00000015, "minter_jetton_mint",                      "jetton",  _SCHEMES),
    Opcode(0x6501F354, "jetton_change_admin",                     "jetton",  _SCHEMES),
    Opcode(0xFB88E119, "jetton_claim_admin",                      "jetton",  _SCHEMES),
    Opcode(0x2508D66A, "jetton_upgrade",                          "jetton",  _SCHEMES),
    Opcode(0xCB862902, "jetton_change_metadata",                  "jetton",  _SCHEMES),
    Opcode(0x235CAF52, "jetton_call_to",                          "jetton",  _SCHEMES),
    Opcode(0xEED236D3, "jetton_set_status",                       "jetton",  _SCHEMES),
    Opcode(0xD372158C, "top_up",                                  "jetton",  _SCHEMES),
    Opcode(0xAC392598, "display_multiplier_changed",              "jetton",  "TEP-526"),
    Opcode(0x5FCC3D14, "nft_transfer",                            "nft",     "TEP-62"),
    Opcode(0x05138D91, "nft_ownership_assigned",                  "nft",     "TEP-62"),
    Opcode(0x2FCB26A2, "get_static_data",                         "nft",     "TEP-62"),
    Opcode(0x8B771735, "report_static_data",                      "nft",     "TEP-62"),
    Opcode(0x693D3950, "get_royalty_params",                      "nft",     "TEP-66"),
    Opcode(0xA8CB00AD, "report_royalty_params",                   "nft",     "TEP-66"),
    Opcode(0x04DED148, "prove_ownership",                         "sbt",     "TEP-85"),
    Opcode(0x0524C7AE, "ownership_proof",                         "sbt",     "TEP-85"),
    Opcode(0xD0C3BFEA, "sbt_request_owner",                       "sbt",     "TEP-85"),
    Opcode(0x0DD607E3, "sbt_owner_info",                          "sbt",     "TEP-85"),
    Opcode(0x1F04537A, "sbt_destroy",                             "sbt",     "TEP-85"),
    Opcode(0x6F89F5E3, "sbt_revoke",                              "sbt",     "TEP-85"),
    Opcode(0x4EB1F0F9, "change_dns_record",                       "dns",     _SCHEMES),
    Opcode(0x4ED14B65, "dns_balance_release",                     "dns",     _SCHEMES),
    Opcode(0x44BEAE41, "process_governance_decision",             "dns",     _SCHEMES),
    Opcode(0x557CEA20, "outbid_notification",                     "dns",     _SCHEMES),
    Opcode(0x370FEC51, "auction_fill_up",                         "dns",     _SCHEMES),
    Opcode(0x4E73744B, "elector_new_stake",                       "elector", _ELECTOR),
    Opcode(0xF374484C, "elector_new_stake_confirmation",          "elector", _ELECTOR),
    Opcode(0xEE6F454C, "elector_new_stake_error",                 "elector", _ELECTOR),
    Opcode(0x47657424, "elector_recover_stake_request",           "elector", _ELECTOR),
    Opcode(0xF96F7324, "elector_recover_stake_response",          "elector", _ELECTOR),
    Opcode(0x4E565354, "config_set_validators",                   "config",  _CONFIG),
    Opcode(0xEE764F4B, "config_set_validators_confirmation",      "config",  _CONFIG),
    Opcode(0xEE764F6F, "config_set_validators_error",             "config",  _CONFIG),
    Opcode(0x6E565052, "config_new_proposal",                     "config",  _CONFIG),
    Opcode(0xEE565052, "config_new_proposal_answer",              "config",  _CONFIG),
    Opcode(0x566F7465, "config_vote",                             "config",  _CONFIG),
    Opcode(0x7369676E, "w5_external_signed_request",              "wallet",  _SCHEMES),
    Opcode(0x73696E74, "w5_internal_signed_request",              "wallet",  _SCHEMES),
    Opcode(0x6578746E, "w5_extension_action_request",             "wallet",  _SCHEMES),
    Opcode(0x706C7567, "payment_request",                         "wallet",  _SCHEMES),
    Opcode(0x64737472, "wallet_plugin_destruct",                  "wallet",  _SCHEMES),
    Opcode(0xE4737472, "wallet_plugin_destruct_response",         "wallet",  _SCHEMES),
    Opcode(0x6E6F7465, "wallet_plugin_installation_notification", "wallet",  _SCHEMES),
)}

OPCODE_NAMES = {code: row.name for code, row in OPCODES.items()}

_SIGNED_OR_UNSIGNED = range(-(2**31), 2**32)


@overload
def opcode_name(opcode: int | None) -> str | None: ...
@overload
def opcode_name(opcode: Column) -> Column: ...
def opcode_name(opcode: object) -> object:
    """Return the names of opcodes of messages (`opcode`).

    Parameters
    ----------
    opcode
        An opcode or a column of them, as in `exit_code_name`. Opcodes may be unsigned, as in our
        tables, or signed, as in the public Parquet lake.

    Returns
    -------
    The name; None for opcodes that are not in `tonframes.network.opcodes.OPCODES`, and for None.
    For a column, a column as from `exit_code_name`.

    Raises
    ------
    TypeError
        As in `exit_code_name`.
    ValueError
        An opcode is outside 32 bits, signed or unsigned.

    Notes
    -----
    An external message to a wallet of version 4 or older begins with a signature. The opcode of
    such a message is random, and so is its name if it has one.

    Examples
    --------
    >>> opcode_name(0xd53276db), opcode_name(0xd53276db - 2**32), opcode_name(12345)
    ('excess', 'excess', None)
    """
    return name_codes(opcode, "an opcode", _SIGNED_OR_UNSIGNED, _name, opcode_names)


def opcode_names(opcode: nw.Expr) -> nw.Expr:
    """Name opcodes within a frame of any engine, as `opcode_name` does."""
    return look_up(unsigned_opcodes(opcode), OPCODE_NAMES)


def unsigned_opcodes(opcode: nw.Expr) -> nw.Expr:
    """Return opcodes as unsigned integers, as in our tables. In the public lake they are signed."""
    # The int32 of the lake would overflow, and engines differ on the remainder of negative numbers.
    opcode = opcode.cast(nw.Int64)
    return nw.when(opcode < 0).then(opcode + 2**32).otherwise(opcode)


def _name(opcode: int) -> str | None:
    return OPCODE_NAMES.get(opcode % 2**32)
