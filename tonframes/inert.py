"""Text that is safe to show, whoever wrote it."""

from __future__ import annotations

import re

#: Control characters and separators other than the space: terminals act on them.
_ACTIVE = "\\x00-\\x1f\\x7f-\\x9f\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
#: Format characters (category Cf) that are not among the next ones.
_FORMAT = (
    "\u0600-\u0605\u06dd\u070f\u0890-\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f"
)
#: Characters that are drawn as nothing, or only move others: the Unicode property
#: Default_Ignorable_Code_Point, which Python's unicodedata does not know. It contains fillers of
#: Hangul, variation selectors, characters that reverse the direction of text, and code points that
#: are reserved for such characters.
#: Source: https://www.unicode.org/Public/17.0.0/ucd/DerivedCoreProperties.txt
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Letters and symbols whose picture is empty. Unicode has no property for this: the Braille
#: pattern without dots, the object replacement character, the blanks of Egyptian hieroglyphs, the
#: filler of the Khitan script and the note without a head.
_BLANK = "\u2800\ufffc\U00013441-\U00013442\U00016fe4\U0001d159"

#: A regular expression for characters that do something or cannot be seen. It has the same meaning
#: in Python, RE2, Rust and Java.
UNSEEN = f"[{_ACTIVE}{_FORMAT}{_IGNORABLE}{_BLANK}]"
_UNSEEN = re.compile(UNSEEN)


def inert(text: str) -> str:
    r"""Return text that is safe to show: on one line, every character visible.

    These characters become escapes: control characters (terminals act on them), format characters
    (invisible, or they change the direction of text), separators other than the space, characters
    without a picture such as fillers and variation selectors, code points without a character, and
    single surrogates. HTML must be escaped as well.

    Examples
    --------
    >>> inert("wal\u200blet\u202egnp.ton")
    'wal\\u200blet\\u202egnp.ton'
    >>> inert("\x1b[2J two\nlines, and ₮ stays")
    '\\x1b[2J two\\nlines, and ₮ stays'
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return text
    return "".join(c if c.isprintable() and not _UNSEEN.match(c) else ascii(c)[1:-1] for c in text)
