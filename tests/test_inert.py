"""Inert text: no character of it does anything, and none is invisible."""

import re
import sys
import unicodedata
from pathlib import Path

import matplotlib as mpl
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.ft2font import FT2Font

from tonframes.display import WIDEST, cut
from tonframes.inert import UNSEEN, inert

IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
EVERY = "".join(map(chr, range(sys.maxunicode + 1)))


@given(st.text())
def test_inert_text_has_no_character_that_does_anything(text):
    shown = inert(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not IGNORABLE.search(shown)
    assert inert(shown) == shown
    assert len(cut(text)) <= WIDEST


@pytest.mark.parametrize(
    "text",
    [
        *("\x1b[31m", "\x07", "\u202e", "\u2066", "\u200f", "\ud800", "\u2028", "\u00ad", "\x9b1m"),
        *"\u3164\u115f\u1160\uffa0\u2800\u034f\u17b4\u180b\ufe0f\U000e0100",
    ],
)
def test_active_characters_and_those_without_a_picture_are_escaped(text):
    assert inert(f"a{text}b") == f"a{ascii(text)[1:-1]}b"


def test_every_code_point_that_unicode_calls_ignorable_is_escaped():
    ignorable = IGNORABLE.findall(EVERY)
    assert len(ignorable) > 4000
    assert not [c for c in ignorable if inert(c) == c]


def test_every_character_that_a_font_draws_without_ink_is_escaped():
    fonts = Path(mpl.get_data_path(), "fonts", "ttf")
    blank = set()
    for name in ("DejaVuSans.ttf", "STIXGeneral.ttf"):
        font = FT2Font(fonts / name)
        for code, glyph in font.get_charmap().items():
            font.load_glyph(glyph)
            if not len(font.get_path()[0]):
                blank.add(chr(code))
    assert len(blank) > 50
    assert {c for c in blank if inert(c) == c} == {" "}


@pytest.mark.parametrize("text", ["שלום, 世界 ₮", "e\u0301 café", "한국어 ½ 🙂", "नमस्ते", "TON 💎"])
def test_text_of_any_language_stays_unchanged(text):
    assert inert(text) == text


def test_the_expression_has_every_character_that_is_not_inert():
    rest = {c for c in re.sub(UNSEEN, "", EVERY) if inert(c) != c}
    assert {unicodedata.category(c) for c in rest} == {"Cn", "Co", "Cs"}
