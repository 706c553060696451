"""What result codes mean: how the action phase of a transaction ended (`action_result_code`).

Result codes and exit codes (`exit_codes`) are two tables: the same number has another meaning in
each.

Sources: transaction.cpp and block.tlb of https://github.com/ton-blockchain/ton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from tonframes.network.lookup import INT32, Code, name_codes

if TYPE_CHECKING:
    from tonframes.network.lookup import Column

_TX = "transaction.cpp"

#: `action_result_arg` is the index of the action that failed.
RESULT_CODES = {row.code: row for row in (
    #    code name                           meaning                                                              source
    Code(0,  "success",                     "All actions were carried out.",                                      _TX),
    Code(32, "invalid action list",         "The list of actions cannot be read.",                                _TX),
    Code(33, "action list too long",        "There are more than 255 actions.",                                   _TX),
    Code(34, "invalid action",              "An action is invalid or not supported.",                             _TX),
    Code(35, "invalid source address",      "The source of a message is not the account.",                        _TX),
    Code(36, "invalid destination address", "The destination of a message is not a valid address.",               _TX),
    Code(37, "not enough TON",              "The balance is too low for an action.",                              _TX),
    Code(38, "not enough extra currency",   "The account has less of an extra currency than it is to send.",      _TX),
    Code(39, "message does not fit a cell", "A message is too large for its cell after its header was rewritten.", _TX),
    Code(40, "message cannot be processed", "A message is too large or too deep, or its cells cannot be paid for.", _TX),
    Code(41, "library reference is null",   "A library action names no library.",                                 _TX),
    Code(42, "library change error",        "A library action failed.",                                           _TX),
    Code(43, "library too large",           "A library has too many cells or is too deep.",                       _TX),
    Code(44, "too many extra currencies",   "A message carries more kinds of extra currency than allowed.",       _TX),
    Code(45, "invalid extra flags",         "A message has invalid extra flags; since global version 12.",        _TX),
    Code(46, "library change not allowed",  "Library actions are not allowed; since global version 15.",          _TX),
    Code(47, "messages too large in total", "All messages together are too large; since global version 15.",      _TX),
    Code(50, "account state too big",       "The new state of the account exceeds the limits.",                   _TX),
)}

#: The result of the bounce phase (`bounce`); block.tlb.
BOUNCES = {
    "ok":       "The message was returned with the rest of its value.",
    "nofunds":  "The rest of the value was too low for returning it, and stayed with the account.",
    "negfunds": "Declared in block.tlb; no node writes it.",
}

RESULT_CODE_NAMES = {code: row.name for code, row in RESULT_CODES.items()}


@overload
def result_code_name(code: int | None) -> str | None: ...
@overload
def result_code_name(code: Column) -> Column: ...
def result_code_name(code: object) -> object:
    """Return the names of result codes of the action phase (`action_result_code`).

    Parameters
    ----------
    code
        A code or a column of them, as in `exit_code_name`.

    Returns
    -------
    The name; None for codes that the network does not use, and for null. For a column, a column
    as from `exit_code_name`.

    Raises
    ------
    TypeError, ValueError
        As in `exit_code_name`.

    Examples
    --------
    >>> from tonframes import exit_code_name
    >>> result_code_name(37), exit_code_name(37)
    ('not enough TON', 'contract-defined')
    """
    return name_codes(code, "a result code", INT32, RESULT_CODE_NAMES.get)
