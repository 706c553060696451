"""Texts without keys."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonframes.errors import DecodeError, RequestError
from tonframes.masking import MASK, PIECE, Key, masked

KEY = "0123456789abcdefGHIJKLMNOP_-"


@given(before=st.text(max_size=20), after=st.text(max_size=20), cut=st.integers(PIECE, len(KEY)))
def test_a_key_and_what_is_cut_of_it_are_masked(before, after, cut):
    key = Key(KEY)
    for piece in (KEY[:cut], KEY[-cut:], KEY[:cut].upper()):
        shown = masked(f"{before}{piece}{after}")
        assert MASK in shown
        assert not any(KEY[at : at + PIECE] in shown for at in range(len(KEY) - PIECE + 1))
    assert key.reveal() == KEY


@given(st.text(alphabet="xyz ", max_size=50))
def test_other_text_stays(text):
    key = Key(KEY)
    assert masked(text) == key.mask(text) == text


def test_a_short_key_is_masked_as_a_whole():
    key = Key("abc")
    assert masked("abc, ab, xabcx") == "***, ab, x***x"
    assert repr(key) == MASK


def test_several_keys_are_masked_and_none_that_nobody_has():
    one, two = Key("one_zyxwvutsrq"), Key("two_qazwsxedcr")
    assert masked("one_zyxwvutsrq two_qazwsxedcr") == "*** ***"
    del one, two
    gc.collect()
    assert masked("one_zyxwvutsrq") == "one_zyxwvutsrq"


def test_errors_and_their_notes_are_masked():
    key = Key(KEY)
    error = DecodeError(f"$.{KEY}", "a number", KEY)
    error.add_note(f"of {KEY}")
    told = [*error.args, error.path, error.found, *error.__notes__, repr(RequestError(KEY))]
    assert not any(KEY in text for text in told)
    assert key.mask("") == ""


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_key_cannot_be_copied(copying):
    with pytest.raises(TypeError, match="cannot be pickled"):
        copying(Key(KEY))
