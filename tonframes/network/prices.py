"""The price history of mainnet: data only.

Amounts are nanoton. `gas_price`, `bit_price` and `cell_price` are fixed-point numbers with 16
fractional bits (nanoton times 2^16), as in the configuration of the network; so is every
`..._frac` and `..._factor`.

Source of the rows: configuration cells of mainnet as recorded in ton-org/sandbox,
`src/config/defaultConfig.ts`, at many dates from November 2022 to June 2026. Parameters: 20 and 21
(gas), 24 and 25 (messages), 18 (storage), of the masterchain and the basechain. The validators
can vote for a price change at any time, so there may be a newer one than the last row; and other
networks have other prices. That is why functions take the history as an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The gas limit of one transaction of an ordinary account, the same in every row.
GAS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """One row of the price history of gas and messages.

    Attributes
    ----------
    name
        A name for people to read.
    workchain
        The workchain that the prices are for: -1 masterchain, 0 basechain.
    valid_from, valid_until
        Unix seconds of the first and the last moment at which the row is known to have been in
        force; None if there is no such limit. The exact blocks of the price changes are not on
        record: between `valid_until` of one row and `valid_from` of the next, either row may
        apply. A shard block uses the prices of the masterchain block that it refers to, so for a
        moment after a change two shards may use different prices.
    flat_gas_limit, flat_gas_price
        The first `flat_gas_limit` units of gas cost `flat_gas_price` together, used or not.
    gas_price
        Price of each further unit of gas.
    gas_limit, special_gas_limit
        The gas limit of one transaction, for ordinary and for special accounts.
    gas_credit
        Gas that an external message may use before the contract accepts to pay for it.
    freeze_due_limit, delete_due_limit
        Storage debt above which an account is frozen, or deleted.
    lump_price, bit_price, cell_price
        Forwarding: a message costs `lump_price`, plus these prices for the bits and cells below
        its root cell.
    first_frac
        Share of the forwarding fee that the sending transaction collects.
    next_frac
        Share of the rest that each further hop collects.
    ihr_factor
        Fee of instant hypercube routing, relative to the forwarding fee; it was never in use.
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
    """One entry of the storage prices (configuration parameter 18), for all workchains.

    Attributes
    ----------
    valid_from
        Unix second from which the entry applies, as stated in the configuration itself.
    bit_price, cell_price
        Price of one bit, or one cell, for one second, on the basechain.
    mc_bit_price, mc_cell_price
        The same for the masterchain.
    """

    valid_from: int
    bit_price: int
    cell_price: int
    mc_bit_price: int = 1_000
    mc_cell_price: int = 500_000


BASECHAIN = (
    # In every configuration from November 2022 to masterchain block 36964449 (27 March 2024);
    # transactions up to block 37311815 paid these prices.
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
    # First seen in the configuration of block 37471063. Its end was announced on 23 April 2026, and
    # transactions of block 62206707 on the same day still paid these prices.
    Prices(
        name="basechain from April 2024",
        workchain=0,
        valid_from=1_713_830_400,  # 2024-04-23, configuration recorded
        valid_until=1_776_935_867,  # 2026-04-23 09:17:47Z, block 62206707
        flat_gas_limit=100,
        flat_gas_price=40_000,
        gas_price=26_214_400,  # 400 nanoton
        lump_price=400_000,
        bit_price=26_214_400,
        cell_price=2_621_440_000,
    ),
    # First seen in fees of 3 May 2026, and in the configuration recorded on 4 May. Its storage
    # prices apply since 29 April. These prices are not multiples of 2^16, so from here on rounding
    # up matters.
    Prices(
        name="basechain from May 2026",
        workchain=0,
        valid_from=1_777_813_238,  # 2026-05-03 13:00:38Z, first fees on record
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
    # The same in every configuration from November 2022 to June 2026, except for the limit of
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

#: All rows, the oldest first within each workchain.
PRICES = BASECHAIN + MASTERCHAIN

STORAGE = (
    StoragePrices(valid_from=0, bit_price=1, cell_price=500),
    StoragePrices(valid_from=1_777_500_000, bit_price=0, cell_price=135),  # 2026-04-29 22:00:00Z
)

#: Special accounts of the masterchain, which pay neither rent nor gas: the configuration contract
#: (parameter 0), and those in parameter 31 (`fundamental_smc_addr`) of June 2026 and before. A few
#: others were special earlier, or are since June 2026.
SPECIAL = (
    "-1:0000000000000000000000000000000000000000000000000000000000000000",
    "-1:3333333333333333333333333333333333333333333333333333333333333333",  # the elector
    "-1:4D5C0210B35DADDAA219FAC459DBA0FDEFB1FAE4E97A0D0797739FE050D694CA",
    "-1:5555555555555555555555555555555555555555555555555555555555555555",  # the configuration
    "-1:DD24C4A1F2B88F8B7053513B5CC6C5A31BC44B2A72DCB4D8C0338AF0F0D37EC5",
    "-1:EAD7DA389BDE317C5FB285807CE507BAAD31C35FE5534B3C418785E901F64C68",
)
