"""Fee arithmetic on frames of transactions."""

from __future__ import annotations

from typing import overload

import pandas as pd

#: 1 TON in nanoton.
TON = 10**9

#: The parts of `total_fees`, by phase, and the column that each stands in. The fee for importing
#: an external message stands in none: it is what is left of `total_fees` (transaction.cpp,
#: unpack_input_msg). `action_total_fwd_fees` is no part of it: it overlaps the action fees.
PARTS = {
    "storage": "storage_fees_collected",
    "credit": "credit_due_fees_collected",
    "compute": "compute_gas_fees",
    "action": "action_total_action_fees",
    "bounce": "bounce_msg_fees",
}


@overload
def to_ton(nanoton: int) -> float: ...
@overload
def to_ton(nanoton: pd.Series) -> pd.Series: ...
@overload
def to_ton(nanoton: pd.DataFrame) -> pd.DataFrame: ...
def to_ton(nanoton: int | pd.Series | pd.DataFrame) -> float | pd.Series | pd.DataFrame:
    """Write amounts in TON, to be looked at: from here on they are floats.

    Parameters
    ----------
    nanoton
        An amount, a column of amounts, or a frame. Of a frame every column of integers is taken
        for amounts: choose them first.

    Returns
    -------
    The same, in TON. Unknown amounts stay null. Amounts above 9 million TON lose their last
    digits, as floats do.

    Examples
    --------
    >>> to_ton(1_500_000_000)
    1.5
    >>> to_ton(pd.Series([1, None], dtype="Int64")).to_list()
    [1e-09, <NA>]
    """
    if isinstance(nanoton, pd.DataFrame):
        amounts = nanoton.select_dtypes("integer").columns
        return nanoton.assign(**{name: to_ton(nanoton[name]) for name in amounts})
    if isinstance(nanoton, pd.Series):
        if not pd.api.types.is_integer_dtype(nanoton.dtype):
            raise TypeError(
                f"amounts in nanoton are integers; the column {nanoton.name!r} is {nanoton.dtype}"
            )
        return nanoton / TON
    if isinstance(nanoton, bool) or not hasattr(nanoton, "__index__"):
        raise TypeError(f"an amount in nanoton is an int, not {type(nanoton).__name__}")
    return int(nanoton) / TON


def undo_gas_exchange(transactions: pd.DataFrame) -> pd.DataFrame:
    """Give gas and its fees as they are on the chain.

    Deployed services (ton-index-go since 1.2.1, scan_common.go) exchange `gas_fees` and `gas_used`
    where the fees are less than the gas, to repair rows of the past. That is true of special
    masterchain accounts, whose gas is free: they come with fees and without gas. Executed steps
    use gas, so the exchanged form cannot be a true one.

    Parameters
    ----------
    transactions
        Needs block_workchain, compute_gas_used, compute_gas_fees and compute_vm_steps.

    Returns
    -------
    A new frame; only compute_gas_used and compute_gas_fees of exchanged rows differ.

    Examples
    --------
    >>> row = {"block_workchain": -1, "compute_gas_used": 0, "compute_gas_fees": 6464}
    >>> frame = pd.DataFrame([row | {"compute_vm_steps": 99}])
    >>> undo_gas_exchange(frame)[["compute_gas_used", "compute_gas_fees"]].values.tolist()
    [[6464, 0]]
    """
    used, fees = transactions["compute_gas_used"], transactions["compute_gas_fees"]
    exchanged = (
        (transactions["block_workchain"] == -1)
        & (used == 0)
        & (fees > 0)
        & (transactions["compute_vm_steps"] > 0)
    ).fillna(value=False)
    return transactions.assign(
        compute_gas_used=used.mask(exchanged, fees), compute_gas_fees=fees.mask(exchanged, 0)
    )
