import json

import pytest
from strategies import least

import tonframes as tf
from tonframes.service.scanned import scanned
from tonframes.wire import encode, schema

# A value beyond int64 goes to `extra`.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")


def description(**phases):
    """Return the phases of a transaction as a deployed service answers them."""
    row = least(schema.TRANSACTION) | {"description": {"type": "ord"} | phases}
    parsed = tf.parse_blocks({"transactions": [row]})
    rows = scanned(parsed.arrow("transactions"))
    [again] = encode.encode_transactions(rows, parsed.arrow("messages"), "service")
    return json.loads(bytes(again))["description"]


@pytest.mark.parametrize(
    ("gas_fees", "gas_used", "answered"),
    [
        ("0", "6464", ("6464", "0")),
        ("6464", "0", ("6464", "0")),
        ("400", "1", ("400", "1")),
        ("7", "7", ("7", "7")),
        (None, "7", (None, "7")),
        (None, None, (None, None)),
    ],
)
def test_gas_and_fees_are_exchanged_where_the_fees_are_less(gas_fees, gas_used, answered):
    phase = {"skipped": False, "gas_fees": gas_fees, "gas_used": gas_used}
    found = description(compute_ph=phase)["compute_ph"]
    assert (found.get("gas_fees"), found.get("gas_used")) == answered


@pytest.mark.parametrize(
    ("phase", "there"),
    [
        ({}, False),
        ({"credit": "0"}, True),
        ({"due_fees_collected": "1"}, True),
        ({"credit_extra_currencies": {"1": "2"}}, True),
        ({"credit": "16298225961743024383"}, True),
    ],
)
def test_a_credit_phase_without_values_is_left_out(phase, there):
    assert description(credit_ph=phase).get("credit_ph") == (phase if there else None)


def test_what_is_answered_stays_as_it_is():
    rows = scanned(tf.read_blocks(tf.sample()).arrow("transactions"))
    assert scanned(rows).equals(rows)
