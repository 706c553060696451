"""Pages as large as the service manages, and what is given up at once."""

from __future__ import annotations

import socket
import time

import pytest
from fault_server import answer, error, raw

from tonframes.client import Client, PageLimit, TooManyRowsError, UnknownOperationError
from tonframes.errors import RequestError


def ask(client, limit=1000):
    return client.transactions(bytes, start_lt=1, end_lt=2, limit=limit)


def test_the_limit_that_a_service_allows_is_learnt(server):
    text = "internal server error: limit is not allowed: 1000 > 100"
    server.script.append(error(text, 500))
    with Client(server.url) as client:
        with pytest.raises(TooManyRowsError, match="1000 > 100"):
            ask(client)
        assert client.page_limit.rows == 100
        ask(client, 100)
        assert client.statistics.requests == 2


@pytest.mark.parametrize(
    "reply",
    [
        error("internal server error: query timeout 3s", 500),
        error("timeout: context deadline exceeded", 500),
        error("ERROR: canceling statement due to user request (SQLSTATE 57014)", 500),
        raw(end="stall"),
    ],
    ids=["query timeout", "context deadline", "canceling statement", "silence"],
)
def test_a_page_that_does_not_come_in_time_halves_the_limit(server, reply):
    server.otherwise = reply
    with Client(server.url, timeout=0.2, deadline=5) as client:
        for rows in (500, 250, 125):
            with pytest.raises(TooManyRowsError):
                ask(client, client.page_limit.rows)
            assert client.page_limit.rows == rows
        assert client.statistics.retries == 0


def test_few_rows_are_asked_for_until_the_deadline(server):
    server.script.append(error("query timeout 3s", 500))
    with Client(server.url) as client:
        ask(client, 10)
        assert client.statistics.retries == 1


def test_pages_that_come_raise_the_limit_again_but_not_beyond_what_is_allowed():
    limit = PageLimit()
    limit.allow(600)
    limit.too_slow(600)
    assert limit.rows == 300
    for _ in range(16):
        limit.came(limit.rows)
    assert limit.rows == 375
    for _ in range(1000):
        limit.came(limit.rows)
    assert limit.rows == 600
    limit.too_slow(1000)  # of a page that was asked for before
    assert limit.rows == 600


def test_a_larger_page_is_tried_less_often_each_time():
    limit = PageLimit()
    tried = []
    for _ in range(6):
        limit.too_slow(limit.rows)
        before, count = limit.rows, 0
        while limit.rows == before:
            limit.came(before)
            count += 1
        tried.append(count)
    assert tried == sorted(set(tried))


@pytest.mark.parametrize(
    "reply",
    [
        error("internal server error: Cannot GET /api/v3/transactions", 500),
        error("Cannot GET /api/v3/transactions", 404),
        answer(b"<html><pre>Cannot GET /api/v3/transactions</pre></html>", 404),
        answer(b"<html>404 nginx</html>", 404),
        answer(b"", 405),
        answer(b"", 501),
    ],
)
def test_an_operation_that_the_service_does_not_have_ends_at_once(server, reply):
    server.otherwise = reply
    with Client(server.url) as client:
        with pytest.raises(UnknownOperationError, match="check that base_url"):
            ask(client)
        assert client.statistics.requests == 1


def test_a_refused_connection_fails_long_before_the_deadline(monkeypatch):
    monkeypatch.setattr("tonframes.client.retry.UNREACHABLE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    start = time.monotonic()
    with (
        Client(f"http://127.0.0.1:{port}") as client,
        pytest.raises(RequestError, match=r"refused.*check base_url and the network"),
    ):
        client.masterchain_info(bytes)
    assert 0.2 < time.monotonic() - start < 10


def test_in_flight_are_as_many_as_rate_times_latency_ask_for(server):
    assert Client(server.url).in_flight == 16
    with Client(server.url, requests_per_second=40) as client:
        reply = server.otherwise
        server.otherwise = lambda handler: (time.sleep(0.2), reply(handler))
        for _ in range(3):
            ask(client)
        assert 10 <= client.in_flight <= 20
    assert Client(server.url, requests_per_second=1000, max_in_flight=8).in_flight == 8
    with pytest.raises(ValueError, match="max_in_flight"):
        Client(server.url, max_in_flight=0)
