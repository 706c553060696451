"""What the numbers of the network mean: exit codes, result codes and opcodes.

Exit codes (`compute_exit_code`) and result codes (`action_result_code`) are two tables: the same
number means another thing in each. Opcodes are conventions, not law: contracts are free to use
any number for anything, and a name says what a message is taken for, not what its receiver does.

Sources of the rows: in https://github.com/ton-blockchain/ton excno.hpp (crypto/vm), vm.cpp
(crypto/vm), transaction.cpp, block.tlb and the contracts elector-code.fc and config-code.fc;
exit-codes.mdx of https://github.com/ton-blockchain/docs; the documentation of the Tact compiler;
the standards https://github.com/ton-blockchain/TEPs.
Opcodes are called as the service calls them (`decoded_opcode`), by schemes.tlb of
https://github.com/toncenter/ton-indexer; those it has no name for, as their standard does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from narwhals.typing import IntoSeries

#: pyarrow ships no types: a type checker takes its arrays for `Any`, which fits the bound.
Column = TypeVar("Column", bound="pd.Series[Any] | IntoSeries")


@dataclass(frozen=True, slots=True)
class Code:
    """What one exit code or result code means."""

    code: int
    name: str
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class Opcode:
    """What a message is that begins with these 32 bits; `family` is the standard or contract."""

    code: int
    name: str
    family: str
    source: str


_VM, _RUN, _TX, _TLB = "excno.hpp", "vm.cpp", "transaction.cpp", "block.tlb"
_ELECTOR, _CONFIG = "elector-code.fc", "config-code.fc"
_DOCS, _TACT, _SCHEMES = "exit-codes.mdx", "Tact", "schemes.tlb"

#: What a run of the machine ended with. A contract can throw any of them from 2 on by itself.
EXIT_CODES = {row.code: row for row in (
    #    code   name                                   meaning                               source
    Code(-14,   "out of gas",                          "Not caught; exit_arg is gas used.",  _TX),
    Code(-13,   "no code",                             "An active account without code.",    _RUN),
    Code(0,     "success",                             "The run ended as it should.",        _VM),
    Code(1,     "alternative success",                 "It ended by the alternative exit.",  _VM),
    Code(2,     "stack underflow",                     "Too few values on the stack.",       _VM),
    Code(3,     "stack overflow",                      "The stack holds no more values.",    _VM),
    Code(4,     "integer overflow",                    "Over 257 bits, or divided by zero.", _VM),
    Code(5,     "integer out of range",                "Outside the range expected.",        _VM),
    Code(6,     "invalid opcode",                      "No such instruction.",               _VM),
    Code(7,     "type check error",                    "A value of the wrong type.",         _VM),
    Code(8,     "cell overflow",                       "Over 1023 bits or 4 references.",    _VM),
    Code(9,     "cell underflow",                      "Read beyond the end of a slice.",    _VM),
    Code(10,    "dictionary error",                    "A malformed dictionary.",            _VM),
    Code(11,    "unknown error",                       "Thrown; or no such get-method.",     _VM),
    Code(12,    "fatal error",                         "Held for impossible.",               _VM),
    Code(13,    "out of gas (thrown)",                 "Thrown by a contract itself.",       _VM),
    Code(14,    "virtualization error",                "Reserved.",                          _VM),
    Code(128,   "null reference (Tact)",               "A null where a value must be.",      _TACT),
    Code(129,   "invalid serialization prefix (Tact)", "The data begin otherwise.",          _TACT),
    Code(130,   "invalid incoming message (Tact)",     "No receiver for this message.",      _TACT),
    Code(131,   "constraints error (Tact)",            "Reserved.",                          _TACT),
    Code(132,   "access denied (Tact)",                "The sender is not the owner.",       _TACT),
    Code(133,   "contract stopped (Tact)",             "The contract has been stopped.",     _TACT),
    Code(134,   "invalid argument (Tact)",             "An argument is invalid.",            _TACT),
    Code(135,   "code not found (Tact)",               "A contract's code is not there.",    _TACT),
    Code(136,   "invalid standard address (Tact)",     "Wrong length or workchain.",         _TACT),
    Code(137,   "masterchain support off (Tact)",      "A masterchain address; until 1.6.",  _TACT),
    Code(138,   "not a basechain address (Tact)",      "Not workchain 0; since 1.6.3.",      _TACT),
    Code(65535, "unknown opcode",                      "A message that nothing handles.",    _DOCS),
)}

#: Codes that contracts choose themselves, by the convention that leaves the rest to the machine,
#: the network and compilers. Wallets and the elector throw 33 to 41, which result codes are too.
CONTRACT_DEFINED = (range(32, 128), range(256, 65535))

#: What the action phase ended with; action_result_arg is the index of the action that failed.
RESULT_CODES = {row.code: row for row in (
    #    code name                           meaning                                          source
    Code(0,  "success",                     "All actions were carried out.",                  _TX),
    Code(32, "invalid action list",         "The list cannot be read.",                       _TX),
    Code(33, "action list too long",        "More than 255 actions.",                         _TX),
    Code(34, "invalid action",              "An action is invalid or not supported.",         _TX),
    Code(35, "invalid source address",      "A message's source is not the account.",         _TX),
    Code(36, "invalid destination address", "A message's destination is no valid address.",   _TX),
    Code(37, "not enough TON",              "The balance does not pay for an action.",        _TX),
    Code(38, "not enough extra currency",   "Less of an extra currency than to be sent.",     _TX),
    Code(39, "message does not fit a cell", "It is too large with its header rewritten.",     _TX),
    Code(40, "message cannot be processed", "No money for its cells, too large or too deep.", _TX),
    Code(41, "library reference is null",   "A change of libraries names none.",              _TX),
    Code(42, "library change error",        "A change of libraries failed.",                  _TX),
    Code(43, "library too large",           "Too many cells, or too deep.",                   _TX),
    Code(44, "too many extra currencies",   "A message carries more kinds than allowed.",     _TX),
    Code(45, "invalid extra flags",         "Flags of a message; since global version 12.",   _TX),
    Code(46, "library change not allowed",  "Since global version 15.",                       _TX),
    Code(47, "messages too large in total", "Since global version 15.",                       _TX),
    Code(50, "account state too big",       "The new state is beyond the limits.",            _TX),
)}

#: Messages by their first 32 bits, unsigned. Where two conventions share a number the name has
#: both, with a comma between, as in the service's own names.
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

#: Why the machine did not run (`skipped_reason`); by transaction.cpp, prepare_compute_phase.
SKIP_REASONS = {
    "no_state":  "The account has no code, and the message brings no state to run.",
    "bad_state": "The state that the message brings is not that of the account's address.",
    "no_gas":    "The account's balance, or the message's value, buys no gas.",
    "suspended": "The account is not active, and its address suspended by the configuration.",
}

#: What became of a message to be sent back (`bounce` of transactions).
BOUNCES = {
    "ok":       "It went back, with what was left of its value.",
    "nofunds":  "What was left did not pay for sending it back, and stayed with the account.",
    "negfunds": "Declared in block.tlb, and written by no node.",
}

EXIT_CODE_NAMES = {code: row.name for code, row in EXIT_CODES.items()}
RESULT_CODE_NAMES = {code: row.name for code, row in RESULT_CODES.items()}
OPCODE_NAMES = {code: row.name for code, row in OPCODES.items()}
CONTRACT_DEFINED_NAME = "contract-defined"

_INT32, _OPCODES = range(-(2**31), 2**31), range(-(2**31), 2**32)


@overload
def exit_code_name(code: int | None) -> str | None: ...
@overload
def exit_code_name(code: Column) -> Column: ...
def exit_code_name(code: object) -> object:
    """Name exit codes of the compute phase (`compute_exit_code`).

    Parameters
    ----------
    code
        A code, or a column of them: a pandas or polars Series, a pyarrow Array or ChunkedArray.

    Returns
    -------
    The name; "contract-defined" for what contracts define themselves (`CONTRACT_DEFINED`); None
    for other codes, and for None. For a column, a column of text of the same kind (on pandas of
    dtype str, with the same index and name), null where there is no name.

    Raises
    ------
    TypeError
        For what holds no integers: floats and booleans too.
    ValueError
        For what is not an integer of 32 bits.

    Notes
    -----
    A code does not tell whether a run succeeded: one that committed and then threw has succeeded.
    That is `compute_success`.

    Examples
    --------
    >>> exit_code_name(-14), exit_code_name(406), exit_code_name(200)
    ('out of gas', 'contract-defined', None)
    >>> exit_code_name(pd.Series([0, 37, None], dtype="Int64")).to_list()
    ['success', 'contract-defined', nan]
    """
    return _named(code, "an exit code", _INT32, _exit_code, exit_code_names)


@overload
def result_code_name(code: int | None) -> str | None: ...
@overload
def result_code_name(code: Column) -> Column: ...
def result_code_name(code: object) -> object:
    """Name result codes of the action phase (`action_result_code`).

    Parameters
    ----------
    code
        A code or a column of them, as for `exit_code_name`.

    Returns
    -------
    The name, None for codes that the network does not give, and for None; for a column, a column
    as from `exit_code_name`.

    Raises
    ------
    TypeError, ValueError
        As from `exit_code_name`.

    Examples
    --------
    >>> result_code_name(37), exit_code_name(37)
    ('not enough TON', 'contract-defined')
    """
    return _named(code, "a result code", _INT32, RESULT_CODE_NAMES.get, result_code_names)


@overload
def opcode_name(opcode: int | None) -> str | None: ...
@overload
def opcode_name(opcode: Column) -> Column: ...
def opcode_name(opcode: object) -> object:
    """Name opcodes of messages (`opcode`).

    Parameters
    ----------
    opcode
        An opcode or a column of them, as for `exit_code_name`. They may be unsigned, as in our
        tables, or signed, as in the public lake.

    Returns
    -------
    The name, None for opcodes that are not in `OPCODES`, and for None; for a column, a column as
    from `exit_code_name`.

    Raises
    ------
    TypeError
        As from `exit_code_name`.
    ValueError
        For what is not an integer of 32 bits, signed or unsigned.

    Notes
    -----
    What wallets of version 4 and before receive from outside begins with a signature: there an
    opcode, and a name that it may have, are chance.

    Examples
    --------
    >>> opcode_name(0xd53276db), opcode_name(0xd53276db - 2**32), opcode_name(12345)
    ('excess', 'excess', None)
    """
    return _named(opcode, "an opcode", _OPCODES, _opcode, opcode_names)


def exit_code_names(code: nw.Expr) -> nw.Expr:
    """Name exit codes within a frame of any engine, as `exit_code_name` does."""
    # Narrower integers do not hold the bounds.
    code = code.cast(nw.Int64)
    first, second = (code.is_between(codes[0], codes[-1]) for codes in CONTRACT_DEFINED)
    others = _looked_up(code, EXIT_CODE_NAMES)
    return nw.when(first | second).then(nw.lit(CONTRACT_DEFINED_NAME)).otherwise(others)


def result_code_names(code: nw.Expr) -> nw.Expr:
    """Name result codes within a frame of any engine, as `result_code_name` does."""
    return _looked_up(code, RESULT_CODE_NAMES)


def opcode_names(opcode: nw.Expr) -> nw.Expr:
    """Name opcodes within a frame of any engine, as `opcode_name` does."""
    return _looked_up(unsigned_opcodes(opcode), OPCODE_NAMES)


def unsigned_opcodes(opcode: nw.Expr) -> nw.Expr:
    """Return opcodes as unsigned integers, as in our tables. In the public lake they are signed."""
    # The lake's int32 would overflow; and engines differ on the remainder of a negative number.
    opcode = opcode.cast(nw.Int64)
    return nw.when(opcode < 0).then(opcode + 2**32).otherwise(opcode)


def _looked_up(code: nw.Expr, names: Mapping[int, str]) -> nw.Expr:
    return code.cast(nw.Int64).replace_strict(names, default=None, return_dtype=nw.String)


def _exit_code(code: int) -> str | None:
    if any(code in codes for codes in CONTRACT_DEFINED):
        return CONTRACT_DEFINED_NAME
    return EXIT_CODE_NAMES.get(code)


def _opcode(opcode: int) -> str | None:
    return OPCODE_NAMES.get(opcode % 2**32)


def _named(
    code: object,
    what: str,
    allowed: range,
    name: Callable[[int], str | None],
    names: Callable[[nw.Expr], nw.Expr],
) -> object:
    """Name one code by `name`, or a column of codes by `names`."""
    if code is None or code is pd.NA:
        return None
    if isinstance(code, int | np.integer) and not isinstance(code, bool):
        return name(_checked(int(code), what, allowed))
    if isinstance(code, pa.Array):
        return _name_column(pa.chunked_array([code]), what, allowed, names).combine_chunks()
    if isinstance(nw.from_native(code, series_only=True, pass_through=True), nw.Series):
        return _name_column(code, what, allowed, names)
    raise TypeError(f"{what} is an int, or a column of integers, not {type(code).__name__}")


def _name_column(
    native: Any, what: str, allowed: range, names: Callable[[nw.Expr], nw.Expr]
) -> Any:
    column: nw.Series[Any] = nw.from_native(native, series_only=True)
    known = column.drop_nulls()
    if not (column.dtype.is_integer() or (column.dtype == nw.Unknown and known.is_empty())):
        hint = "; make it one of integers with nulls, as by astype('Int64')"
        raise TypeError(
            f"{what} is an integer: the column {column.name!r} is {column.dtype}"
            f"{hint if column.dtype.is_float() else ''}"
        )
    for code in () if known.is_empty() else (known.min(), known.max()):
        _checked(int(code), what, allowed)
    rows = column.alias("code").to_frame().select(name=names(nw.col("code")))
    named = rows["name"].alias(column.name).to_native()
    if isinstance(named, pd.Series):
        return named.astype(pd.StringDtype(na_value=np.nan))
    return named


def _checked(code: int, what: str, allowed: range) -> int:
    if code not in allowed:
        bounds = f"{allowed[0]} to {allowed[-1]}"
        raise ValueError(f"{what} is an integer from {bounds}, not {shorten(code)}")
    return code
