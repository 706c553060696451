"""Calls with a chosen amount of gas, as a table of transactions."""

from __future__ import annotations

import pyarrow as pa

from tonframes.network.prices import gas_fee

LAST = 2**63 - 1
CODE = "account_state_code_hash_before"


def calls(gas, **columns):
    """Return transactions of the basechain that used these amounts of gas; `columns` override."""
    gas = list(gas)
    count = range(len(gas))
    made = {
        "hash": [f"{place:04}" for place in count],
        "account": ["0:A" for _ in count],
        "lt": list(count),
        "now": [1_780_000_000 for _ in count],
        "block_workchain": [0 for _ in count],
        "compute_skipped": [None if used is None else False for used in gas],
        "compute_gas_used": gas,
        "compute_gas_fees": [None if used is None else gas_fee(used) for used in gas],
        "compute_vm_steps": [None if used is None else used // 40 for used in gas],
        "compute_gas_credit": [None for _ in count],
        CODE: ["C" for _ in count],
        **columns,
    }
    texts = ("hash", "account", CODE)
    kinds = {name: pa.string() if name in texts else pa.int64() for name in made}
    kinds["compute_skipped"] = pa.bool_()
    return pa.table({name: pa.array(made[name], kinds[name]) for name in made})
