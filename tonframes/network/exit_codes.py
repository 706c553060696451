"""What exit codes mean: how the compute phase of a transaction ended (`compute_exit_code`).

Exit codes and result codes (`result_codes`) are two tables: the same number has another meaning
in each.

Sources: excno.hpp, vm.cpp (both crypto/vm) and transaction.cpp of
https://github.com/ton-blockchain/ton; exit-codes.mdx of https://github.com/ton-blockchain/docs;
the documentation of the Tact compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import narwhals as nw

from tonframes.network.lookup import INT32, Code, look_up, name_codes

if TYPE_CHECKING:
    from tonframes.network.lookup import Column

_VM, _RUN, _TX, _DOCS, _TACT = "excno.hpp", "vm.cpp", "transaction.cpp", "exit-codes.mdx", "Tact"

#: Every code from 2 on can also be thrown by a contract itself.
EXIT_CODES = {row.code: row for row in (
    #    code   name                                   meaning                                                  source
    Code(-14,   "out of gas",                          "Out of gas, not caught; exit_arg is the gas used.",     _TX),
    Code(-13,   "no code",                             "The account is active and has no code.",                _RUN),
    Code(0,     "success",                             "The run ended normally.",                               _VM),
    Code(1,     "alternative success",                 "The run ended by the alternative exit.",                _VM),
    Code(2,     "stack underflow",                     "Too few values on the stack.",                          _VM),
    Code(3,     "stack overflow",                      "Too many values on the stack.",                         _VM),
    Code(4,     "integer overflow",                    "A result of more than 257 bits, or a division by zero.", _VM),
    Code(5,     "integer out of range",                "An integer is outside the expected range.",             _VM),
    Code(6,     "invalid opcode",                      "The machine has no such instruction.",                  _VM),
    Code(7,     "type check error",                    "A value has the wrong type.",                           _VM),
    Code(8,     "cell overflow",                       "More than 1023 bits or 4 references for one cell.",     _VM),
    Code(9,     "cell underflow",                      "A read beyond the end of a cell.",                      _VM),
    Code(10,    "dictionary error",                    "A dictionary is malformed.",                            _VM),
    Code(11,    "unknown error",                       "Thrown by a contract, or there is no such get-method.", _VM),
    Code(12,    "fatal error",                         "The machine met a case that should be impossible.",     _VM),
    Code(13,    "out of gas (thrown)",                 "Thrown by a contract itself.",                          _VM),
    Code(14,    "virtualization error",                "Reserved.",                                             _VM),
    Code(128,   "null reference (Tact)",               "A null instead of a value.",                            _TACT),
    Code(129,   "invalid serialization prefix (Tact)", "The data begin with an unexpected prefix.",             _TACT),
    Code(130,   "invalid incoming message (Tact)",     "The contract has no receiver for this message.",        _TACT),
    Code(131,   "constraints error (Tact)",            "Reserved.",                                             _TACT),
    Code(132,   "access denied (Tact)",                "The sender is not the owner.",                          _TACT),
    Code(133,   "contract stopped (Tact)",             "The contract has been stopped.",                        _TACT),
    Code(134,   "invalid argument (Tact)",             "An argument is invalid.",                               _TACT),
    Code(135,   "code not found (Tact)",               "The code of a contract is missing.",                    _TACT),
    Code(136,   "invalid standard address (Tact)",     "An address has the wrong length or workchain.",         _TACT),
    Code(137,   "masterchain support off (Tact)",      "An address is on the masterchain; until Tact 1.6.",     _TACT),
    Code(138,   "not a basechain address (Tact)",      "An address is not in workchain 0; since Tact 1.6.3.",   _TACT),
    Code(65535, "unknown opcode",                      "The contract does not handle this message.",            _DOCS),
)}

#: Codes that contracts define themselves. By convention all others are left to the machine, the
#: network and compilers. Wallets and the elector throw 33 to 41, which are result codes as well.
CONTRACT_DEFINED = (range(32, 128), range(256, 65535))

#: Why the compute phase did not run (`skipped_reason`); transaction.cpp, prepare_compute_phase.
SKIP_REASONS = {
    "no_state":  "The account has no code, and the message has no initial state.",
    "bad_state": "The initial state in the message does not belong to the account's address.",
    "no_gas":    "The balance of the account, or the value of the message, buys no gas.",
    "suspended": "The account is not active, and the configuration suspends its address.",
}

EXIT_CODE_NAMES = {code: row.name for code, row in EXIT_CODES.items()}
CONTRACT_DEFINED_NAME = "contract-defined"


@overload
def exit_code_name(code: int | None) -> str | None: ...
@overload
def exit_code_name(code: Column) -> Column: ...
def exit_code_name(code: object) -> object:
    """Return the names of exit codes of the compute phase (`compute_exit_code`).

    Parameters
    ----------
    code
        A code, or a column of them: a pandas or polars Series, a pyarrow Array or ChunkedArray.

    Returns
    -------
    The name; "contract-defined" for codes that contracts define themselves
    (`tonframes.network.exit_codes.CONTRACT_DEFINED`); None for other codes, and for None. For a
    column, a column of text of the same kind (in pandas of dtype str, with the same index and
    name), null where there is no name.

    Raises
    ------
    TypeError
        `code` is not an integer or a column of integers; floats and booleans are not accepted.
    ValueError
        A code is outside 32 bits.

    Notes
    -----
    The code does not tell whether a run succeeded: a run that committed and then threw has
    succeeded. `compute_success` tells it.

    Examples
    --------
    >>> exit_code_name(-14), exit_code_name(406), exit_code_name(200)
    ('out of gas', 'contract-defined', None)
    >>> import pandas as pd
    >>> exit_code_name(pd.Series([0, 37, None], dtype="Int64")).to_list()
    ['success', 'contract-defined', nan]
    """
    return name_codes(code, "an exit code", INT32, _name, exit_code_names)


def exit_code_names(code: nw.Expr) -> nw.Expr:
    """Name exit codes within a frame of any engine, as `exit_code_name` does."""
    # Narrower integers do not hold the bounds.
    code = code.cast(nw.Int64)
    first, second = (code.is_between(codes[0], codes[-1]) for codes in CONTRACT_DEFINED)
    others = look_up(code, EXIT_CODE_NAMES)
    return nw.when(first | second).then(nw.lit(CONTRACT_DEFINED_NAME)).otherwise(others)


def _name(code: int) -> str | None:
    if any(code in codes for codes in CONTRACT_DEFINED):
        return CONTRACT_DEFINED_NAME
    return EXIT_CODE_NAMES.get(code)
