"""What the network charges, and since when: data only.

Amounts are nanoton. `gas_price`, `bit_price` and `cell_price` are fixed-point numbers with 16
fractional bits (nanoton times 2^16), as in the network's configuration; so is every `..._frac`
and `..._factor`.

Source of the rows: configuration cells of mainnet as recorded in ton-org/sandbox,
`src/config/defaultConfig.ts`, at many dates from November 2022 to June 2026. Parameters: 20 and 21
(gas), 24 and 25 (messages), 18 (storage), of the masterchain and the basechain. A price change is
a vote of the validators: a later one than the last row cannot be excluded, and networks other than
mainnet have prices of their own. So these rows are values to pass, not a law to compute by.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The most gas that one transaction of an ordinary account may use: the same in every row.
GAS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """One row of the price history of gas and messages.

    Attributes
    ----------
    name
        A name to show.
    workchain
        Whose accounts pay them: -1 the masterchain, 0 the basechain.
    valid_from, valid_until
        Unix seconds of the first and the last moment at which the row is known to have been in
        force; None where it is open. The exact blocks of the changes are not on record: between
        `valid_until` of one row and `valid_from` of the next either may hold. A shard follows the
        masterchain block it refers to, so neighbours may differ for a moment even then.
    flat_gas_limit, flat_gas_price
        The first so many units of gas cost this much together, used or not.
    gas_price
        Price of one further unit.
    gas_limit, special_gas_limit
        The most gas one transaction may use, of ordinary and of special accounts.
    gas_credit
        Gas that an external message may use before the contract accepts to pay for it.
    freeze_due_limit, delete_due_limit
        Storage debt beyond which an account is frozen, or deleted.
    lump_price, bit_price, cell_price
        Forwarding: a message costs `lump_price`, and more for what hangs below its root cell.
    first_frac
        Share of the forwarding fee that is collected where the message is sent.
    next_frac
        Share of what is left that each further hop collects.
    ihr_factor
        Fee of instant hypercube routing per forwarding fee; the feature was never in use.
    """

    name: str
    workchain: int
    valid_from: int | None
    valid_until: int | None
    flat_gas_limit: int
    flat_gas_price: int
    gas_price: int
    gas_limit: int = GAS_LIMIT
    special_gas_limit: int = 1_000_000
    gas_credit: int = 10_000
    freeze_due_limit: int = 100_000_000
    delete_due_limit: int = 1_000_000_000
    lump_price: int
    bit_price: int
    cell_price: int
    first_frac: int = 21_845
    next_frac: int = 21_845
    ihr_factor: int = 98_304


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePrices:
    """One entry of the storage prices (configuration parameter 18), for every workchain.

    Attributes
    ----------
    valid_from
        Unix second since which the entry holds; here the configuration itself says so.
    bit_price, cell_price
        Of one bit, or one cell, for one second, on the basechain.
    mc_bit_price, mc_cell_price
        The same on the masterchain.
    """

    valid_from: int
    bit_price: int
    cell_price: int
    mc_bit_price: int = 1_000
    mc_cell_price: int = 500_000


BASECHAIN = (
    # In every configuration from November 2022 to masterchain block 36964449 (27 March 2024), and
    # in transactions up to block 37311815.
    Prices(
        name="basechain until April 2024",
        workchain=0,
        valid_from=None,
        valid_until=1_713_189_438,  # 2024-04-15 13:57:18Z, block 37311815
        flat_gas_limit=100,
        flat_gas_price=100_000,
        gas_price=65_536_000,  # 1000 nanoton
        lump_price=1_000_000,
        bit_price=65_536_000,
        cell_price=6_553_600_000,
    ),
    # First seen in the configuration of block 37471063; announced on 23 April 2026 to end.
    Prices(
        name="basechain from April 2024",
        workchain=0,
        valid_from=1_713_830_400,  # 2024-04-23, configuration recorded
        valid_until=1_776_902_400,  # 2026-04-23, the sixfold cut announced
        flat_gas_limit=100,
        flat_gas_price=40_000,
        gas_price=26_214_400,  # 400 nanoton
        lump_price=400_000,
        bit_price=26_214_400,
        cell_price=2_621_440_000,
    ),
    # First seen in the configuration recorded on 4 May 2026; its storage prices hold since
    # 29 April 2026, and fees of transactions in July and August 2026 agree. No multiple of 2^16:
    # from here on rounding up matters.
    Prices(
        name="basechain from May 2026",
        workchain=0,
        valid_from=1_777_852_800,  # 2026-05-04, configuration recorded
        valid_until=None,
        flat_gas_limit=100,
        flat_gas_price=6_667,
        gas_price=4_369_067,  # 66.6667 nanoton
        lump_price=66_667,
        bit_price=4_369_067,
        cell_price=436_906_667,
    ),
)

MASTERCHAIN = (
    # Unchanged in every configuration from November 2022 to June 2026, but for the limit of
    # special accounts: 20 million in 2022, 35 million from 2023, 70 million from 2025.
    Prices(
        name="masterchain",
        workchain=-1,
        valid_from=None,
        valid_until=None,
        flat_gas_limit=100,
        flat_gas_price=1_000_000,
        gas_price=655_360_000,  # 10 000 nanoton
        special_gas_limit=70_000_000,
        lump_price=10_000_000,
        bit_price=655_360_000,
        cell_price=65_536_000_000,
    ),
)

#: Every row, oldest first within its workchain.
PRICES = BASECHAIN + MASTERCHAIN

STORAGE = (
    StoragePrices(valid_from=0, bit_price=1, cell_price=500),
    StoragePrices(valid_from=1_777_500_000, bit_price=0, cell_price=135),  # 2026-04-29 22:00:00Z
)
