"""Rules about the phases of a transaction that several helpers follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

#: The columns that show whether a service has exchanged gas and its fees.
EXCHANGE = ("block_workchain", "compute_gas_used", "compute_gas_fees", "compute_vm_steps")


def is_deposit() -> nw.Expr:
    """Return whether coins came to an address without a contract, sent so as not to come back.

    The network calls such a transaction `aborted`, for it found nothing to run. Reads
    compute_skipped, skipped_reason, orig_status and bounce.
    """
    nobody = (nw.col("skipped_reason") == "no_state") & nw.col("orig_status").is_in(
        ["nonexist", "uninit"]
    )
    return (nw.col("compute_skipped") & nobody & nw.col("bounce").is_null()).fill_null(value=False)


def is_exchanged() -> nw.Expr:
    """Return whether a service has exchanged gas and its fees: `undo_gas_exchange` says why."""
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
