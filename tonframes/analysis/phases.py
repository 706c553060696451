"""Rules about the phases of a transaction that several helpers follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

#: The columns that show whether a service has exchanged gas and its fees.
EXCHANGE = ("block_workchain", "compute_gas_used", "compute_gas_fees", "compute_vm_steps")

#: What `with_gas` reads, and the hash: the columns of `gas_summary`.
GAS = (
    "hash",
    "block_workchain",
    "compute_skipped",
    "compute_gas_used",
    "compute_gas_fees",
    "compute_vm_steps",
)


def is_deposit() -> nw.Expr:
    """Return whether coins came to an address without a contract, in a message that cannot bounce.

    The network calls such a transaction `aborted`, because there was no code to run. Reads
    compute_skipped, skipped_reason, orig_status and bounce.
    """
    nobody = (nw.col("skipped_reason") == "no_state") & nw.col("orig_status").is_in(
        ["nonexist", "uninit"]
    )
    return (nw.col("compute_skipped") & nobody & nw.col("bounce").is_null()).fill_null(value=False)


def is_dust() -> nw.Expr:
    """Return whether a message brought too little to run the contract, and nothing was sent back.

    Such messages are spam and notifications, whether they ask to bounce or not. The network calls
    their transactions `aborted`, because it could not buy gas. Reads compute_skipped,
    skipped_reason and bounce.
    """
    returned = (nw.col("bounce") == "ok").fill_null(value=False)
    poor = nw.col("compute_skipped") & (nw.col("skipped_reason") == "no_gas")
    return (poor & ~returned).fill_null(value=False)


def is_exchanged() -> nw.Expr:
    """Return whether a service has exchanged gas and its fees (see `undo_gas_exchange`)."""
    free = (nw.col("block_workchain") == -1) & (nw.col("compute_gas_used") == 0)
    ran = (nw.col("compute_gas_fees") > 0) & (nw.col("compute_vm_steps") > 0)
    return (free & ran).fill_null(value=False)


def with_true_gas(rows: Frame) -> Frame:
    """Undo the exchange of gas and its fees in rows that hold the columns of `EXCHANGE`."""
    used, fees = nw.col("compute_gas_used"), nw.col("compute_gas_fees")
    return (
        rows.with_columns(exchanged=is_exchanged())
        .with_columns(
            compute_gas_used=nw.when(nw.col("exchanged")).then(fees).otherwise(used),
            compute_gas_fees=nw.when(nw.col("exchanged")).then(used).otherwise(fees),
        )
        .drop("exchanged")
    )


def with_gas(rows: Frame) -> Frame:
    """Add `gas`, null if the contract was not run, and whether it was `skipped` or `free`."""
    rows = with_true_gas(rows).with_columns(
        skipped=nw.col("compute_skipped").fill_null(value=False)
    )
    rows = rows.with_columns(gas=nw.when(~nw.col("skipped")).then(nw.col("compute_gas_used")))
    # The list of special accounts changes. They are recognized by their fee: all others pay one.
    free = (nw.col("block_workchain") == -1) & (nw.col("compute_gas_fees") == 0)
    ran = ~nw.col("gas").is_null()
    return rows.with_columns(free=(free & ran).fill_null(value=False))
