"""Cells and bags that we write are read by pytoniq-core with the same content."""

from base64 import b64decode
from random import Random

import pytest

from chain.cells import MAX_BITS, Builder, Cell, usage

pytoniq = pytest.importorskip("pytoniq_core")


def made_up_cell(rng, depth):
    refs = tuple(made_up_cell(rng, depth - 1) for _ in range(rng.randrange(4) if depth else 0))
    bits = rng.choice((0, 1, 7, 8, 9, 255, 1016, 1017, 1023))
    return Cell(rng.getrandbits(bits) if bits else 0, bits, refs)


@pytest.mark.parametrize("seed", range(40))
def test_bag_is_read_back_with_the_same_hash(seed):
    cell = made_up_cell(Random(seed), depth=4)
    read = pytoniq.Cell.one_from_boc(b64decode(cell.to_base64()))
    assert read.hash == cell.hash
    assert len(read.bits) == cell.bits
    assert len(read.refs) == len(cell.refs)
    assert read.get_depth() == cell.depth


def test_bag_holds_equal_cells_once_and_many_cells():
    twin = Cell(5, 3)
    assert usage(Cell(0, 0, (twin, Cell(5, 3), twin))) == (2, 3)
    chain = Cell()
    for number in range(400):  # more than one byte can count
        chain = Cell(number, 16, (chain, twin))
    bag = b64decode(chain.to_base64())
    assert pytoniq.Cell.one_from_boc(bag).hash == chain.hash
    assert usage(chain) == (402, 400 * 16 + 3)


def test_bag_looks_like_those_of_the_service():
    assert Builder().uint(0xD53276DB, 32).uint(1, 64).cell().to_base64().startswith("te6cckEB")


def test_builder_writes_what_pytoniq_writes():
    raw = "-1:" + "3F" * 32
    theirs = pytoniq.Builder().store_coins(10**18).store_address(raw).store_address(None)
    theirs = theirs.store_uint(7, 5).store_coins(0).store_ref(pytoniq.Cell.empty()).end_cell()
    ours = Builder().coins(10**18).address(raw).address(None).uint(7, 5).coins(0).ref(Cell())
    assert ours.cell().hash == theirs.hash
    assert Builder().raw(b"ab").inline(ours.cell()).cell().bits == 16 + len(theirs.bits)


@pytest.mark.parametrize(
    ("value", "bits", "refs"), [(0, MAX_BITS + 1, 0), (4, 2, 0), (0, 0, 5)], ids=str
)
def test_more_than_a_cell_holds_is_refused(value, bits, refs):
    with pytest.raises(ValueError, match="a cell has at most"):
        Cell(value, bits, (Cell(),) * refs)
