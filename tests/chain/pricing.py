"""The fees of the synthetic chain for gas, forwarding and storage.

This does not use `tonframes.network.prices` or `tonframes.analysis`, on purpose: they are tested
against this chain, and with shared code a mistake would not show. All arithmetic is in integers.
Source: transaction.cpp and mc-config.h of the TON monorepo.
"""

from __future__ import annotations

from itertools import pairwise

from tonframes.network.prices import BASECHAIN, MASTERCHAIN, STORAGE, Prices


def prices_at(workchain: int, now: int) -> Prices:
    """Return the prices of a workchain at a moment: the last row that was in force by then."""
    rows = MASTERCHAIN if workchain == -1 else BASECHAIN
    return [row for row in rows if row.valid_from is None or row.valid_from <= now][-1]


def _ceil(fixed: int) -> int:
    """Round up a number with 16 fractional bits."""
    return -(-fixed >> 16)


def gas_fee(prices: Prices, gas: int) -> int:
    """Return the fee for the gas used (`ComputePhaseConfig::compute_gas_price`)."""
    beyond = max(0, gas - prices.flat_gas_limit)
    return prices.flat_gas_price + _ceil(beyond * prices.gas_price)


def gas_bought(prices: Prices, amount: int) -> int:
    """Return the gas that an amount pays for (`ComputePhaseConfig::gas_bought_for`)."""
    if amount < prices.flat_gas_price:
        return 0
    if amount >= gas_fee(prices, prices.gas_limit):
        return prices.gas_limit
    return prices.flat_gas_limit + ((amount - prices.flat_gas_price) << 16) // prices.gas_price


def forward_fee(prices: Prices, cells: int, bits: int) -> int:
    """Return the forwarding fee for the size below the root (`MsgPrices::compute_fwd_fees`)."""
    return prices.lump_price + _ceil(prices.bit_price * bits + prices.cell_price * cells)


def first_part(prices: Prices, fee: int) -> int:
    """Return the part of a forwarding fee that the sending transaction collects."""
    return fee * prices.first_frac >> 16


def fine_per_cell(prices: Prices) -> int:
    """Return the fine per cell of a message that could not be sent (transaction.cpp)."""
    return (prices.cell_price >> 16) // 4


def storage_fee(workchain: int, cells: int, bits: int, since: int, now: int) -> int:
    """Return the storage fee, computed per price period and rounded up once, at the end."""
    bounds = [*(entry.valid_from for entry in STORAGE), now]
    fixed = 0
    for entry, (start, end) in zip(STORAGE, pairwise(bounds), strict=True):
        seconds = max(0, min(end, now) - max(start, since))
        if workchain == -1:
            fixed += seconds * (bits * entry.mc_bit_price + cells * entry.mc_cell_price)
        else:
            fixed += seconds * (bits * entry.bit_price + cells * entry.cell_price)
    return _ceil(fixed)
