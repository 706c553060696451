"""The price rows are right, and do not overlap in time."""

from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tonframes.network.prices import BASECHAIN, MASTERCHAIN, PRICES, STORAGE, Prices


@pytest.mark.parametrize(
    ("row", "flat", "gas", "message", "one_cell_of_100_bits"),
    [
        (BASECHAIN[0], 100_000, 3_308_000, 1_000_000, 1_200_000),
        (BASECHAIN[1], 40_000, 1_323_200, 400_000, 480_000),
        (BASECHAIN[2], 6_667, 220_534, 66_667, 80_001),
        (MASTERCHAIN[0], 1_000_000, 33_080_000, 10_000_000, 12_000_000),
    ],
    ids=lambda value: value.name if isinstance(value, Prices) else "",
)
def test_known_fees(row, flat, gas, message, one_cell_of_100_bits):
    assert row.flat_gas_price == flat
    assert flat + -(-(3_308 - row.flat_gas_limit) * row.gas_price // 65_536) == gas
    assert row.lump_price == message
    size = row.cell_price + 100 * row.bit_price
    assert message + -(-size // 65_536) == one_cell_of_100_bits


def test_rows_follow_each_other():
    assert PRICES == BASECHAIN + MASTERCHAIN
    assert {row.workchain for row in BASECHAIN} == {0}
    assert {row.workchain for row in MASTERCHAIN} == {-1}
    assert BASECHAIN[0].valid_from is None
    assert BASECHAIN[-1].valid_until is None
    for row, following in pairwise(BASECHAIN):
        assert row.valid_until < following.valid_from
    assert [entry.valid_from for entry in STORAGE] == sorted(entry.valid_from for entry in STORAGE)
    assert datetime.fromtimestamp(STORAGE[1].valid_from, UTC) == datetime(
        2026, 4, 29, 22, tzinfo=UTC
    )


def test_rows_are_integers_and_cannot_be_changed():
    for row in PRICES:
        for field in fields(row):
            value = getattr(row, field.name)
            assert value is None or type(value) is (str if field.name == "name" else int)
    with pytest.raises(AttributeError):
        PRICES[0].gas_price = 1
