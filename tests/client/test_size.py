"""Answers that are too large, or take too long to read."""

from __future__ import annotations

import gzip
import resource
from functools import partial
from itertools import chain

import pytest
from fault_server import answer

from tonframes.client import Client, TooManyRowsError
from tonframes.errors import RequestError
from tonframes.wire import pages, schema

#: 65 MiB of spaces in 66 kB.
LARGE = answer(gzip.compress(b" " * 65 * 2**20, 1), Content_Encoding="gzip")


def bomb():
    return gzip.compress(bytes(2**24)) * 64


@pytest.mark.parametrize(
    "reply",
    [
        LARGE,
        answer(bomb(), Content_Encoding="gzip"),
        answer(gzip.compress(bomb(), 9), Content_Encoding="gzip, gzip"),
    ],
    ids=["large", "bomb", "bomb in a bomb"],
)
def test_bombs_are_not_unpacked(server, reply):  # F30
    server.otherwise = reply
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        Client(server.url) as client,
        pytest.raises(RequestError, match=r"more than 67108864 bytes.*1 attempt in") as caught,
    ):
        client.masterchain_info(bytes)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert not caught.value.retryable


def test_reading_ends_at_the_deadline(server):  # F75
    rows = b",".join(b'{"address": "0:%x", "unknown": 1}' % n for n in range(2**16))
    server.otherwise = answer(b'{"accounts": [%s]}' % rows)
    with (
        Client(server.url, timeout=0.05, deadline=0.15) as client,
        pytest.raises(RequestError, match="reading the answer took too long") as caught,
    ):
        client.account_states(["0:00"], partial(pages.read, schema.ACCOUNTS_ANSWER))
    assert caught.value.retryable


def test_a_page_that_is_too_large_halves_the_limit(server):
    server.otherwise = LARGE
    with Client(server.url) as client:
        with pytest.raises(TooManyRowsError, match="more than 67108864 bytes"):
            client.blocks(bytes, start_utime=1, end_utime=2)
        assert client.page_limit.rows == 500
        with pytest.raises(RequestError, match="more than 67108864 bytes"):
            client.blocks(bytes, start_utime=1, end_utime=2, limit=1)


def test_batches_of_accounts_are_halved_until_their_answers_are_small(server):
    def reply(handler):
        (LARGE if handler.path.count("address=") > 30 else answer(b"{}"))(handler)

    server.otherwise = reply
    addresses = [f"0:{number:064X}" for number in range(90)]
    with Client(server.url) as client:
        batches = [batch for batch, _ in client.account_states_in_batches(addresses, bytes)]
    assert list(chain.from_iterable(batches)) == addresses
    assert max(map(len, batches)) <= 30
