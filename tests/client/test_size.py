"""Answers of legal size that take much memory or time, each read in a process of its own."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from functools import partial
from itertools import chain

import pytest
from chain import synthetic_blocks
from fault_server import FaultServer, answer, raw
from slow import slow, slow_after

from tonframes.client import Client, TooManyRowsError
from tonframes.client.size import (
    ASCII,
    LARGEST_ANSWER,
    LARGEST_OF,
    MEMORY,
    TEXT,
    VALUE,
    check_memory,
)
from tonframes.errors import RequestError
from tonframes.wire import pages, schema

#: Reads an answer as fetching does, and prints what happened and how many bytes the peak grew.
READ = """
import sys, time, warnings
from pathlib import Path

import tonframes as tf
from tonframes.wire import pages, schema

warnings.simplefilter("ignore")
url, operation = sys.argv[1:]

def peak():
    # ru_maxrss would be that of the process that started this one (getrusage(2), execve(2)).
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

def blocks(content):
    pages.blocks_tables([pages.read(schema.BLOCKS_ANSWER, content)])

def accounts(content):
    pages.accounts_tables([pages.read(schema.ACCOUNTS_ANSWER, content)])

with tf.Client(url, timeout=2, deadline=60) as client:
    ask = {
        "accounts": lambda: client.account_states(["0:00"], accounts),
        "blocks": lambda: client.blocks(blocks, start_utime=1, end_utime=2),
        "masterchainInfo": lambda: client.masterchain_info(blocks),
        "transactions": lambda: client.transactions_by_masterchain_block(7, blocks),
    }[operation]
    ask()
    Path("/proc/self/clear_refs").write_text("5")
    before, began = peak(), time.monotonic()
    try:
        ask()
        print("read")
    except tf.TonframesError as error:
        print(type(error).__name__, str(error)[:300])
    print(peak() - before, time.monotonic() - began)
"""
GOOD = answer(b'{"transactions": [], "blocks": []}'), answer(b'{"accounts": []}')


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server


def read(server, operation, reply):
    """Return what happened, the growth of the peak of memory in bytes, and the seconds."""
    server.script.append(GOOD[operation == "accounts"])
    server.otherwise = reply
    done = subprocess.run(
        [sys.executable, "-c", READ, server.url, operation],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    said, measured = done.stdout.splitlines()
    grown, seconds = measured.split()
    return said, int(grown), float(seconds)


def zipped(content):
    return answer(gzip.compress(content, 1), Content_Encoding="gzip")


def many(before, values, after, most):
    """Return JSON with as many values as fit into so many bytes, and may be read."""
    frame = before + after
    parts, size = [], len(frame)
    weight = VALUE * (frame.count(b",") + frame.count(b"{")) + ASCII * size
    for value in values:
        weight += VALUE * (2 if b"{" in value else 1) + ASCII * (len(value) + 1)
        size += len(value) + 1
        if size > most or weight > MEMORY * most:
            break
        parts.append(value)
    return before + b",".join(parts) + after


def numbers():
    return (b"%x" % number for number in range(2**24))


TRANSACTION = synthetic_blocks(1, transactions_per_block=10)[0]["transactions"][0]
_BEFORE, _AFTER = json.dumps({"transactions": [TRANSACTION | {"out_msgs": ["?"]}]}).split('"?"')
#: What an answer consists of; `values` yields more than there is room for.
SHAPES = {
    "messages": (
        _BEFORE.encode(),
        lambda: (b'{"hash":"%s"}' % n for n in numbers()),
        _AFTER.encode(),
    ),
    "unknown fields": (b'{"transactions": [], ', lambda: (b'"%s":1' % n for n in numbers()), b"}"),
    "unknown fields of a row": (
        b'{"accounts": [{"address": "0:00", ',
        lambda: (b'"%s":1' % n for n in numbers()),
        b"}]}",
    ),
    "entries": (
        b'{"transactions": [], "address_book": {',
        lambda: (b'"%s":{}' % n for n in numbers()),
        b"}}",
    ),
    "metadata": (
        b'{"accounts": [], "metadata": {',
        lambda: (b'"%s":{"token_info":[]}' % n for n in numbers()),
        b"}}",
    ),
    "accounts": (b'{"accounts": [', lambda: (b'{"address":"0:%s"}' % n for n in numbers()), b"]}"),
}


def operation_of(content):
    return "accounts" if content.startswith(b'{"accounts"') else "transactions"


@pytest.mark.parametrize("shape", slow_after(1, SHAPES))
def test_the_most_values_that_are_read_take_bounded_memory(server, shape):  # F75
    before, values, after = SHAPES[shape]
    content = many(before, values(), after, LARGEST_ANSWER)
    said, grown, _ = read(server, operation_of(content), zipped(content))
    assert said == "read"
    assert grown <= MEMORY * LARGEST_ANSWER


def deep(content):
    """Put what the content of a message has into an answer."""
    message = {"hash": "", "message_content": {"hash": "", **content}}
    return {"transactions": [TRANSACTION | {"in_msg": message}]}


LONG = {
    "a name": lambda text: {"accounts": [{"address": "0:00", text: 1}]},
    "a field": lambda text: {"accounts": [{"address": text}]},
    "a field deep inside": lambda text: deep({"decoded": {"comment": text}}),
    "an unknown field": lambda text: {"accounts": [{"address": "0:00", "unknown": text}]},
    "an unknown field deep inside": lambda text: deep({"unknown": text}),
    "an entry": lambda text: {"transactions": [], "address_book": {text: {}}},
}


@pytest.mark.parametrize("last", slow_after(1, ["😀", "é", "x"]))
@pytest.mark.parametrize("shape", slow_after(1, LONG))
def test_the_longest_text_that_is_read_takes_bounded_memory(server, shape, last):  # F75
    size = (MEMORY * LARGEST_ANSWER - 200 * VALUE) // (ASCII if last.isascii() else TEXT)
    content = json.dumps(LONG[shape]("x" * (size - 10_000) + last), ensure_ascii=False).encode()
    said, grown, _ = read(server, operation_of(content), zipped(content))
    assert said == "read" or (shape == "a name" and said.startswith("DecodeError"))
    assert grown <= MEMORY * LARGEST_ANSWER


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def bomb():
    return gzip.compress(b" " * 2**26, 9) * 16


def unknown_fields():
    return SHAPES["unknown fields"][0] + b",".join(b'"%06x":1' % n for n in range(2**22)) + b"}"


#: The operation, and what makes its answer.
REFUSED = {
    "64 MB of unknown fields": ("transactions", lambda: zipped(unknown_fields())),
    "objects": ("accounts", lambda: zipped(b'{"accounts": [' + b"{}," * 2**24 + b"{}]}")),
    "text": ("accounts", lambda: zipped(json.dumps(["x" * 2**25 + "\U0001f600"]).encode())),
    "bomb": ("transactions", lambda: answer(bomb(), Content_Encoding="gzip")),
    "bomb in a bomb": (
        "transactions",
        lambda: answer(gzip.compress(bomb(), 9), Content_Encoding="gzip, gzip"),
    ),
    "chunk below zero": (
        "transactions",
        lambda: raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", *[b" " * 2**20] * 2000),
    ),
    "status 100 for ever": (
        "masterchainInfo",
        lambda: raw(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 40_000] * 1000),
    ),
    "info of 2 MB": ("masterchainInfo", lambda: answer(b'{"blocks": []}' + b" " * 2**21)),
    "blocks of 17 MB": ("blocks", lambda: answer(b'{"blocks": []}' + b" " * 17 * 2**20)),
}


#: Of what is alike, the ordinary run has one.
LIKE = ["objects", "text", "bomb", "chunk below zero", "info of 2 MB"]


@pytest.mark.parametrize("name", [*(name for name in REFUSED if name not in LIKE), *slow(*LIKE)])
def test_what_is_too_large_is_refused_at_once(server, name):  # F30, F75, F76
    operation, make = REFUSED[name]
    said, grown, seconds = read(server, operation, make())
    assert said.startswith(("LargeAnswerError", "TooManyRowsError"))
    assert "1 attempt in" in said
    assert grown <= MEMORY * LARGEST_OF.get(operation, LARGEST_ANSWER)
    assert seconds < 20


def test_reading_ends_at_the_deadline(server):  # F75
    before, values, after = SHAPES["unknown fields"]
    server.otherwise = zipped(many(before, values(), after, LARGEST_ANSWER))
    began = time.monotonic()
    with (
        Client(server.url, timeout=0.2, deadline=0.6) as client,
        pytest.raises(RequestError, match="reading the answer took too long") as caught,
    ):
        client.masterchain_block_shards(7, partial(pages.read, schema.BLOCKS_ANSWER))
    assert time.monotonic() - began < 10
    assert caught.value.retryable


def test_honest_pages_may_be_half_as_large_again():
    (document,) = synthetic_blocks(1, transactions_per_block=1500)
    check_memory(json.dumps(document, ensure_ascii=False).encode(), LARGEST_ANSWER)


def test_a_page_that_is_too_large_halves_the_limit(server):
    server.otherwise = answer(b'{"blocks": []}' + b" " * 17 * 2**20)
    with Client(server.url) as client:
        with pytest.raises(TooManyRowsError, match="more than 16777216 bytes"):
            client.blocks(bytes, start_utime=1, end_utime=2)
        assert client.page_limit.rows == 500
        with pytest.raises(RequestError, match="more than 16777216 bytes"):
            client.blocks(bytes, start_utime=1, end_utime=2, limit=1)


def test_batches_of_accounts_are_halved_until_their_answers_are_small(server):
    def reply(handler):
        large = handler.path.count("address=") > 30
        answer(b" " * 65 * 2**20 if large else b"{}")(handler)

    server.otherwise = reply
    addresses = [f"0:{number:064X}" for number in range(90)]
    with Client(server.url) as client:
        batches = [batch for batch, _ in client.account_states_in_batches(addresses, bytes)]
    assert list(chain.from_iterable(batches)) == addresses
    assert max(map(len, batches)) <= 30
