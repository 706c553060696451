"""Words of error messages."""

import pytest

from tonframes.errors import QUOTED, did_you_mean, shorten


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        (b"<html>\n", "'<html>\\n'"),
        (b"\xff", "'\\\\xff'"),
        ("9" * QUOTED, "'" + "9" * (QUOTED - 3) + "…'"),
        (None, "None"),
        (10**5000, "a int"),
    ],
    ids=["bytes", "no UTF-8", "long", "None", "huge"],
)
def test_a_value_is_quoted_on_one_short_line(value, quoted):
    assert shorten(value) == quoted
    assert len(quoted) <= QUOTED


def test_a_similar_name_is_suggested_and_another_is_not():
    assert did_you_mean("acount", ["account", "hash"]) == ". Did you mean 'account'?"
    assert did_you_mean("Day", ["day", "now"]) == ". Did you mean 'day'?"
    assert did_you_mean("x", ["account"]) == ""
