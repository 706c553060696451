"""What gas, forwarding and storage cost on the synthetic chain.

Written apart from `analysis.fees` and `analysis.gas` on purpose: those are checked against this
chain, and a mistake made once would agree with itself. All in integers; source: transaction.cpp
and mc-config.h of the TON monorepo.
"""

from __future__ import annotations

from itertools import pairwise

from tonframes.network.prices import BASECHAIN, MASTERCHAIN, STORAGE, Prices


def prices_at(workchain: int, now: int) -> Prices:
    """Find the prices of a workchain: the last row known to be in force by then."""
    rows = MASTERCHAIN if workchain == -1 else BASECHAIN
    return [row for row in rows if row.valid_from is None or row.valid_from <= now][-1]


def _ceil(fixed: int) -> int:
    """Round a number with 16 fractional bits up."""
    return -(-fixed >> 16)


def gas_fee(prices: Prices, gas: int) -> int:
    """Price the gas used (`ComputePhaseConfig::compute_gas_price`)."""
    beyond = max(0, gas - prices.flat_gas_limit)
    return prices.flat_gas_price + _ceil(beyond * prices.gas_price)


def gas_bought(prices: Prices, amount: int) -> int:
    """Count the gas that an amount pays for (`ComputePhaseConfig::gas_bought_for`)."""
    if amount < prices.flat_gas_price:
        return 0
    if amount >= gas_fee(prices, prices.gas_limit):
        return prices.gas_limit
    return prices.flat_gas_limit + ((amount - prices.flat_gas_price) << 16) // prices.gas_price


def forward_fee(prices: Prices, cells: int, bits: int) -> int:
    """Price a message by the size of what hangs below its root (`MsgPrices::compute_fwd_fees`)."""
    return prices.lump_price + _ceil(prices.bit_price * bits + prices.cell_price * cells)


def first_part(prices: Prices, fee: int) -> int:
    """Take the share of a forwarding fee that the sending transaction collects."""
    return fee * prices.first_frac >> 16


def fine_per_cell(prices: Prices) -> int:
    """Price one cell of a message that could not be sent (transaction.cpp `fine_per_cell`)."""
    return (prices.cell_price >> 16) // 4


def storage_fee(workchain: int, cells: int, bits: int, since: int, now: int) -> int:
    """Charge for keeping an account: split where prices change, rounded up once, at the end."""
    bounds = [*(entry.valid_from for entry in STORAGE), now]
    fixed = 0
    for entry, (start, end) in zip(STORAGE, pairwise(bounds), strict=True):
        seconds = max(0, min(end, now) - max(start, since))
        if workchain == -1:
            fixed += seconds * (bits * entry.mc_bit_price + cells * entry.mc_cell_price)
        else:
            fixed += seconds * (bits * entry.bit_price + cells * entry.cell_price)
    return _ceil(fixed)
