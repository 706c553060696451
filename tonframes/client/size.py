"""How large an answer may be, and how much memory it may need when it is read."""

from __future__ import annotations

import numpy as np

#: Largest answer after decompression, in bytes. A full page of 1000 transactions has about 5
#: million; one megabyte of gzip can decompress to a thousand million.
LARGEST_ANSWER = 64 * 2**20
#: The same for operations whose correct answers are known to be smaller: two blocks, a block of
#: each shard, 1000 blocks. A block has at most 2 kB.
LARGEST_OF = {
    "masterchainInfo": 2**20,
    "masterchainBlockShardState": 4 * 2**20,
    "blocks": 16 * 2**20,
}
#: Largest memory that an answer may need, as a multiple of its largest size.
MEMORY = 6
#: Memory that reading takes, in bytes, by the answers that take most: for each JSON value (messages
#: with a single value), and for each byte (a long name or text that the schema does not know, which
#: is copied several times). A str has 4 bytes for each character if one of them is beyond U+FFFF.
VALUE, ASCII, TEXT = 700, 10, 21


class TooLargeError(Exception):
    """The answer has more bytes or values than are accepted."""


def check_size(size: int, largest: int) -> None:
    """Raise an error if so many bytes are more than are accepted."""
    if size > largest:
        raise TooLargeError(f"an answer of more than {largest} bytes after decompression")


def check_memory(content: bytes, largest: int) -> None:
    """Raise an error if reading JSON of this content would take too much memory.

    Parameters
    ----------
    content
        The content. Only its commas and braces are counted: each value follows one of them.
    largest
        Largest size of this answer, in bytes.

    Examples
    --------
    >>> check_memory(b'{"transactions": []}', LARGEST_ANSWER)
    >>> check_memory(b"[" + b"0," * 10**6 + b"0]", LARGEST_ANSWER)
    Traceback (most recent call last):
    tonframes.client.size.TooLargeError: an answer of 1000000 values in 2000003 bytes, ...
    """
    if len(content) * (VALUE + TEXT) <= MEMORY * largest:
        return
    characters = np.frombuffer(content, np.uint8)
    values = sum(int(np.count_nonzero(characters == ord(mark))) for mark in ",{")
    plain = content.isascii() and b"\\u" not in content
    if values * VALUE + len(content) * (ASCII if plain else TEXT) > MEMORY * largest:
        raise TooLargeError(
            f"an answer of {values} values in {len(content)} bytes, which takes more memory than "
            f"{MEMORY} times {largest} bytes"
        )
