"""Texts without keys."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from tonframes.masking import MASK, Key, masked

KEY = "0123456789abcdefGHIJKLMNOP_-"


def test_a_key_is_masked_wherever_it_stands():
    key = Key(f" {KEY}\n")
    assert masked(f"{KEY}, x{KEY}{KEY}y") == key.mask(f"{KEY}, x{KEY}{KEY}y") == "***, x******y"
    assert masked("other text") == "other text"
    assert (key.reveal(), repr(key)) == (KEY, MASK)


def test_several_keys_are_masked_and_none_that_nobody_has():
    one, two = Key("one_zyxwvutsrq"), Key("two_qazwsxedcr")
    assert masked("one_zyxwvutsrq two_qazwsxedcr") == "*** ***"
    del one, two
    gc.collect()
    assert masked("one_zyxwvutsrq") == "one_zyxwvutsrq"


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_key_cannot_be_copied(copying):
    with pytest.raises(TypeError, match="cannot be pickled"):
        copying(Key(KEY))
