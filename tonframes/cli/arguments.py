"""Arguments: numbers, paths, times, and files of addresses."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes that a list of addresses may have: about a million of them.
LONGEST = 2**26


def path(text: str) -> Path:
    """Return a path, which may not be empty."""
    # `--store "$UNSET"` would otherwise write into the current directory.
    if not text:
        raise argparse.ArgumentTypeError(
            "the path is empty: name a file or folder, or leave it out"
        )
    return Path(text)


def place(text: str) -> Path | str:
    """Return the path or the URL of a store."""
    from tonframes.bucket import is_url

    return text if is_url(text) else path(text)


def port(text: str) -> int:
    """Return the number of a port."""
    if not _is_number(text):
        raise argparse.ArgumentTypeError(f"expected a number such as 8081, not {shorten(text)}")
    return int(text)


def count(text: str) -> int:
    """Return a number from 1 on."""
    if not _is_number(text) or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number such as 4, not {shorten(text)}")
    return int(text)


def rate(text: str) -> float:
    """Return a number of requests per second."""
    # float() reads the digits of every script, and underscores.
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text):
        raise argparse.ArgumentTypeError(f"expected a number such as 2 or 0.5, not {shorten(text)}")
    return float(text)


def _is_number(text: str) -> bool:
    """Return whether a text has digits from 0 to 9 only."""
    return text.isascii() and text.isdecimal()


def bound(text: str | None) -> str | int | None:
    """Return digits as an int, which is a logical time, and other text as it is."""
    return int(text) if text is not None and _is_number(text) else text


def addresses(file: Path) -> Iterator[str]:
    """Read addresses from a file, as they are written. An error names the line of a wrong one."""
    try:
        text = _content(file)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}") from None
    lines = [line.partition("#")[0] for line in text.removeprefix("\ufeff").splitlines()]
    if not "".join(lines).strip():
        raise ValueError(f"{file} contains no address")
    for number, line in enumerate(lines, start=1):
        for address in line.split():
            try:
                tf.to_raw(address)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None
            yield address


def _content(file: Path) -> str:
    """Return the text of a file, or of stdin. A device such as /dev/zero has no end."""
    if str(file) == "-":
        content = sys.stdin.read(LONGEST + 1)
    else:
        with file.open("rb") as source:
            content = source.read(LONGEST + 1).decode()
    if len(content) > LONGEST:
        raise ValueError(f"{file} has more than {LONGEST:,} bytes: pass fewer addresses at once")
    return content
