"""What deployed services change in transactions as they read them from their database.

Source: ton-index-go since 1.2.1, index/parse/scan_common.go.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

_FEES, _USED, _CREDIT = "compute_gas_fees", "compute_gas_used", "has_credit"
#: What a credit phase may have. Values beyond int64 are in `extra`.
_CREDITED = ("credit_due_fees_collected", "credit", "credit_extra_currencies", "extra")


def scanned(transactions: pa.Table) -> pa.Table:
    """Return transactions as a deployed service answers them.

    Gas and its fees are exchanged where the fees are less than the gas, which is so for special
    accounts, whose gas is free: `undo_gas_exchange` is the inverse. A credit phase that has no
    values is left out. Rows that come from such a service stay as they are.
    """
    fees, used = transactions[_FEES], transactions[_USED]
    less = pc.fill_null(pc.less(fees, used), fill_value=False)
    credited = reduce(pc.or_, (pc.is_valid(transactions[name]) for name in _CREDITED))
    for name, column in {
        _FEES: pc.if_else(less, used, fees),
        _USED: pc.if_else(less, fees, used),
        _CREDIT: pc.and_(transactions[_CREDIT], credited),
    }.items():
        index = transactions.schema.get_field_index(name)
        transactions = transactions.set_column(index, transactions.schema.field(index), column)
    return transactions
