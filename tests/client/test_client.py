from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gzip
import http.client
import itertools
import json
import logging
import pickle
import socket
import threading
import time
import traceback
import zlib
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest
import requests
from fault_server import GOOD, FaultServer, answer, error, raw
from hypothesis import given
from hypothesis import strategies as st
from interrupts import interrupt
from urllib3.connection import HTTPConnection

from tonframes.client import Client
from tonframes.client.rate import Clock, Rate, Turn
from tonframes.errors import DecodeError, RequestError, TonframesWarning

KEY = "SECRET_key-0123456789abcdef0123456789abcdef"
ADDRESSES = [f"0:{number:064X}" for number in range(300)]


def rows(body: bytes) -> list[int]:
    try:
        return json.loads(body)["rows"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DecodeError("$", "an object with rows", repr(body[:20])) from None


class FakeClock(Clock):
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    proxies = [f"{kind}_proxy" for kind in ("http", "https", "all", "no")]
    for name in ["TONFRAMES_URL", "TONCENTER_API_KEY", *proxies, *map(str.upper, proxies)]:
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def connect(server, *, clock=None, **options):
    with Client(server if isinstance(server, str) else server.url, **options) as client:
        if clock is not None:
            client._retry._clock = clock
            client._retry._rate = Rate(client.requests_per_second, clock)
        yield client


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def client(server, clock):
    with connect(server, clock=clock, requests_per_second=1) as client:
        yield client


def ask(client):
    return client.masterchain_block_shards(7, rows)


def met(server, faults):
    """All faults were injected, and each cost one request more than the good one."""
    return not server.script and len(server.seen) == faults + 1


# What is asked


def test_each_operation_sends_the_parameters_of_the_service(server):
    with connect(server.url + "/api/v3/") as client:
        client.account_states(["0:AB", "EQ+/="], rows, include_boc=False)
        client.masterchain_block_shards(5, rows, limit=10, offset=20)
        client.transactions_by_masterchain_block(5, rows)
        client.masterchain_block_shard_state(2**31 - 1, rows)
        assert client.masterchain_info(rows) == [1, 2, 3]
    asked = [(seen.path.removeprefix("/api/v3/"), seen.query) for seen in server.seen]
    page = {"seqno": ["5"], "sort": ["asc"]}
    assert asked == [
        ("accountStates", {"address": ["0:AB", "EQ+/="], "include_boc": ["false"]}),
        ("masterchainBlockShards", page | {"limit": ["10"], "offset": ["20"]}),
        ("transactionsByMasterchainBlock", page | {"limit": ["1000"], "offset": ["0"]}),
        ("masterchainBlockShardState", {"seqno": [str(2**31 - 1)]}),
        ("masterchainInfo", {}),
    ]
    headers = server.seen[0].headers
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["User-Agent"].startswith("tonframes/")
    assert not {"X-API-Key", "Authorization", "Cookie"} & set(headers)
    assert len({seen.peer for seen in server.seen}) == 1, "the connection is kept"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.account_states([], rows), ValueError),
        (lambda c: c.account_states([""], rows), ValueError),
        (lambda c: c.account_states(["0:AB", " "], rows), ValueError),
        (lambda c: c.account_states(["0:AB,0:CD"], rows), ValueError),
        (lambda c: c.account_states(["\ud800"], rows), ValueError),
        (lambda c: c.account_states(["a\nb"], rows), ValueError),
        (lambda c: c.account_states("0:AB", rows), TypeError),
        (lambda c: c.account_states([1], rows), TypeError),
        (lambda c: c.account_states(["0:AB"] * 1025, rows), ValueError),
        (lambda c: next(c.account_states_in_batches([""], rows)), ValueError),
        (lambda c: c.masterchain_block_shards(0, rows), ValueError),
        (lambda c: c.masterchain_block_shards(2**31, rows), ValueError),
        (lambda c: c.masterchain_block_shards(True, rows), TypeError),
        (lambda c: c.masterchain_block_shards("5", rows), TypeError),
        (lambda c: c.masterchain_block_shards(5, rows, limit=0), ValueError),
        (lambda c: c.masterchain_block_shards(5, rows, limit=1001), ValueError),
        (lambda c: c.masterchain_block_shards(5, rows, limit=5.0), TypeError),
        (lambda c: c.transactions_by_masterchain_block(5, rows, offset=-1), ValueError),
        (lambda c: c.masterchain_block_shard_state(-1, rows), ValueError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(server, client, call, kind):
    with pytest.raises(kind, match=r"address|seqno|limit|offset"):
        call(client)
    assert server.seen == []


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("https://toncenter.com", "https://toncenter.com"),
        ("https://testnet.toncenter.com/api/v3/", "https://testnet.toncenter.com"),
        ("http://[::1]:8081/", "http://[::1]:8081"),
        ("HTTP://Example.org:80/ton/api/v3", "http://example.org:80/ton"),
    ],
)
def test_base_url_is_taken_with_and_without_the_path(url, given):
    with Client(url) as client:
        assert client.base_url == given


@pytest.mark.parametrize(
    "url",
    [
        "toncenter.com",
        "file:///etc/passwd",
        "ftp://example.org",
        "https://",
        "https://user:SECRET@example.org",
        "https://example.org?api_key=SECRET",
        "https://example.org/#SECRET",
        "https://example.org:SECRET",
        "https://exam ple.org",
        "https://exam\nple.org",
        "https://example.org\\@SECRET.org",
        "https://[::1",
    ],
)
def test_odd_base_urls_are_refused_unquoted(url):
    with pytest.raises(ValueError, match="base_url") as caught:
        Client(url)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value)[-1:])


@pytest.mark.parametrize("name", ["requests_per_second", "timeout", "deadline"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "1"])
def test_bounds_are_positive_numbers(name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        Client("http://127.0.0.1", **{name: value})


def test_the_rate_is_that_of_the_plan(monkeypatch):
    def rate(*args, **options):
        with Client(*args, **options) as client:
            return client.requests_per_second

    assert rate() == 1
    assert rate(api_key=KEY) == 10
    assert rate("http://127.0.0.1:8081") == rate("https://example.org") == inf
    assert rate(requests_per_second=inf) == inf
    monkeypatch.setenv("TONCENTER_API_KEY", KEY)
    assert rate() == 10
    assert rate("http://127.0.0.1:8081") == inf
    monkeypatch.setenv("TONFRAMES_URL", "http://localhost:8081/api/v3")
    with Client() as client:
        assert repr(client) == "Client('http://localhost:8081', requests_per_second=inf)"


# The rate


def test_429_without_retry_after_is_waited_out(server, client, clock):  # F01
    times = []

    def limited(handler):
        times.append(clock.time)
        error("Ratelimit exceed", 429)(handler)

    server.script.extend([limited] * 3)
    assert ask(client) == [1, 2, 3]
    assert met(server, 3)
    times.append(clock.time)
    assert all(later - sooner >= 1 for sooner, later in itertools.pairwise(times))
    statistics = client.statistics
    assert (statistics.requests, statistics.retries) == (4, 3)
    slept = statistics.seconds_waited + statistics.seconds_paced
    assert slept == pytest.approx(sum(clock.slept))


def test_the_bound_of_waits_doubles(server, clock, monkeypatch):  # F01
    monkeypatch.setattr("random.uniform", lambda _, bound: bound)
    server.script.extend([error("ill", 500)] * 6)
    with connect(server, clock=clock, requests_per_second=2) as client:
        ask(client)
    assert met(server, 6)
    assert clock.slept == [1.5, 2.5, 4.5, 8.5, 16.5, 30.5]


DATE = "Fri, 13 Feb 2026 23:31:30 GMT"


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("Fri, 13 Feb 2026 23:31:37 GMT", 7, 7),
        ("Fri, 13 Feb 2026 23:31:36 -0000", 6, 6),
        ("Fri, 13 Feb 2015 23:31:37 GMT", 1, 3),
        ("abc", 1, 3),
        ("-5", 1, 3),
        ("1.5", 1, 3),
        ("", 1, 3),
        ("٣", 1, 3),
        ("Fri, 99 Feb 2026 99:99:99 GMT", 1, 3),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 105, 105),
        ("9" * 400, 1, 3),
        ("999999", 105, 105),  # F03; F48: the date's distance is bounded, too
        ("Fri, 13 Feb 2099 23:31:37 GMT", 105, 105),
    ],
)
def test_retry_after_is_read_and_bounded(server, client, header, least, most):  # F02, F03
    latin = header.encode().decode("latin-1")
    reply = raw(
        b"HTTP/1.1 429 Too Many\r\nDate: " + DATE.encode() + b"\r\nRetry-After: "
        + latin.encode("latin-1") + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )  # fmt: skip
    server.script.append(reply)
    assert ask(client) == [1, 2, 3]
    assert met(server, 1)
    assert least <= client._retry._clock.slept[0] <= most


def test_a_retry_after_date_without_a_date_header_is_bounded(monkeypatch):  # F48
    from tonframes.client.answers import retry_after

    header = {"Retry-After": "Fri, 13 Feb 2026 23:31:37 GMT"}
    monkeypatch.setattr("time.time", lambda: 1771025490.0)
    assert retry_after(header) == 7
    monkeypatch.setattr("time.time", lambda: 1771025490.0 + 3600)
    assert retry_after(header) == 0


def test_a_shortened_retry_after_is_reported(server, client):  # F03
    server.otherwise = error("Ratelimit exceed", 429, Retry_After="999999")
    with pytest.raises(RequestError, match=r"asked to wait 999999 s.*120 s") as caught:
        ask(client)
    assert len(server.seen) == 2
    assert caught.value.retryable


def test_endless_429_ends_at_the_deadline(server, client, clock):  # F04
    server.otherwise = error("Ratelimit exceed", 429)
    start = clock.time
    with pytest.raises(RequestError) as caught:
        ask(client)
    assert clock.time - start <= 120 + client.statistics.seconds_paced
    assert caught.value.status == 429
    text = str(caught.value)
    for part in ("masterchainBlockShards of seqno 7", "attempts in", "waiting", "pass api_key"):
        assert part in text


SHAPES = [
    b'{"ok":false,"result":"Ratelimit exceed","code":429}',
    b'{"error": "Ratelimit exceeded"}',
    b'{"detail": [{"msg": "Rate limit exceeded"}]}',
    b'{"message": "Ratelimit exceed"}',
    b"Ratelimit exceed",
    b"<html><body><h1>Ratelimit&nbsp;exceed</h1></body></html>",
]


@pytest.mark.parametrize(
    ("body", "status"),
    [(body, 429) for body in [*SHAPES, b"", b"[" * 60000]] + [(body, 403) for body in SHAPES],
)
def test_every_shape_of_429_is_handled_alike(server, client, body, status):  # F05
    server.otherwise = answer(body, status)
    with pytest.raises(RequestError) as caught:
        ask(client)
    assert caught.value.status == 429
    assert caught.value.retryable
    assert "<" not in str(caught.value)
    assert len(server.seen) > 3


def fullest_second(times):
    """The most requests of any second."""
    times = sorted(times)
    return max(sum(start <= t < start + 1 for t in times) for start in times)


class Wire(FakeClock):
    """A clock, and requests on their way to the socket, which arrive as it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[float, Turn]] = []
        self.arrived: list[float] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for due in [part for part in self.waiting if part[0] <= self.time]:
            self.waiting.remove(due)
            due[1].sent()
            self.arrived.append(self.time)


@given(
    limit=st.sampled_from([1, 2, 5, 10, 25, 100]),
    # Seconds that a request takes to the wire, and that the client then has nothing to send.
    delays=st.lists(
        st.tuples(st.sampled_from([0.0, 0.02, 0.15, 3.0]), st.sampled_from([0.0, 0.01, 3.0])),
        min_size=1,
        max_size=40,
    ),
)
def test_no_second_sees_more_however_long_it_takes_to_the_wire(limit, delays):
    wire = Wire()
    rate = Rate(limit, wire)
    for to_wire, pause in itertools.islice(itertools.cycle(delays), 2 * limit + 20):
        turn = rate.take_turn()
        wire.waiting.append((wire.time + to_wire, turn))
        wire.sleep(pause)
    wire.sleep(10)
    assert len(wire.arrived) == 2 * limit + 20
    assert fullest_second(wire.arrived) <= limit


@pytest.mark.parametrize("limit", [1, 10, 25, 100])
def test_turns_that_come_late_are_made_up_for(limit, clock):
    rate = Rate(limit, clock)
    late = itertools.cycle([0.0, 0.0, 0.2 / limit])
    start = clock.time
    for _ in range(20 * limit):
        rate.take_turn().sent()
        clock.time += next(late)
    assert 20 * limit / (clock.time - start) >= 0.96 * limit


def test_connecting_takes_nothing_from_the_distance_of_requests(server, monkeypatch):
    connect_to = HTTPConnection.connect
    shakes = itertools.chain([0.3, 0.2, 0.1], itertools.repeat(0.0))

    def slowly(connection):
        time.sleep(next(shakes))
        connect_to(connection)

    monkeypatch.setattr(HTTPConnection, "connect", slowly)
    with connect(server, requests_per_second=8) as client, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ask(client), range(12)))
    assert fullest_second(seen.time for seen in server.seen) <= 8


def test_200_threads_share_one_rate(server):  # F49, P6
    server.script.extend([error("ill", 503)] * 20)
    with connect(server, requests_per_second=150) as client, ThreadPoolExecutor(200) as pool:
        assert list(pool.map(lambda _: ask(client), range(200))) == [[1, 2, 3]] * 200
        assert client.statistics.requests == 220
    assert met(server, 219)
    assert 100 < fullest_second(seen.time for seen in server.seen) <= 150


def test_a_queue_for_the_rate_limit_does_not_count_as_delay(server):
    with (
        connect(server, requests_per_second=10, timeout=1, deadline=1) as client,
        ThreadPoolExecutor(15) as pool,
    ):
        start = time.monotonic()
        assert list(pool.map(lambda _: ask(client), range(15))) == [[1, 2, 3]] * 15
    assert time.monotonic() - start > 1.2


def test_the_rate_slows_and_recovers(clock):
    rate = Rate(1, clock)

    def spacing():
        rate.take_turn().sent()
        turn = rate.take_turn()
        turn.sent()
        return turn.seconds

    full = spacing()
    rate.slow_down()
    assert spacing() == pytest.approx(2 * full)
    for _ in range(9):
        rate.slow_down()
    assert spacing() == pytest.approx(8 * full)
    for _ in range(30):
        rate.recover()
    assert spacing() == pytest.approx(full)
    rate.slow_down(60)
    assert rate.take_turn().seconds == pytest.approx(60)


def test_works_inside_a_running_event_loop(server):  # F49
    async def cell():
        with connect(server) as client:
            return ask(client)

    assert asyncio.run(cell()) == [1, 2, 3]


def test_setting_the_clock_changes_nothing(server, client, clock, monkeypatch):  # F48
    jumps = itertools.cycle([0.0, 4e9, -4e9])
    monkeypatch.setattr("time.time", lambda: next(jumps))
    server.script.extend([error("ill", 500)] * 3)
    assert ask(client) == [1, 2, 3]
    assert met(server, 3)
    assert max(clock.slept) <= 30


# What the service says


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524])
def test_passing_statuses_are_retried(server, client, status):  # F06
    server.script.append(answer(b"<html><title>Bad</title></html>", status))
    assert ask(client) == [1, 2, 3]
    assert met(server, 1)


def test_a_304_is_retried(server, client):  # F60
    server.script.extend([answer(b"", 304), answer(GOOD, 304), answer(b"", 304, Location="/x")])
    assert ask(client) == [1, 2, 3]
    assert met(server, 3)
    server.otherwise = answer(b"", 304)
    with pytest.raises(RequestError, match="status 304, not modified") as caught:
        ask(client)
    assert caught.value.retryable


def test_endless_500_quotes_a_short_part(server, client, caplog):  # F07
    page = "<html><style>p{}</style><h1>500 Internal</h1>" + "<p>x\u3164" * 300 + "\x1b[31m"
    server.otherwise = answer(page.encode(), 500)
    caplog.set_level("INFO")
    with pytest.raises(RequestError) as caught:
        ask(client)
    text = str(caught.value)
    assert "\u3164" not in caplog.text + text
    assert caught.value.status == 500
    assert "status 500, 500 Internal x\\u3164 x" in text
    assert text.isprintable()
    assert text.count("x") < 101
    assert "<" not in text


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("internal server error: limit is not allowed: 1001 > 1000", 500),
        ("internal server error: wrong value for sort", 500),
        ("internal server error: Cannot GET /api/v3/accountState", 500),
        ("bad", 400),
        ("gone", 410),
        ("API key does not exist", 401),
        ("Network not allowed", 403),
        ('schema: error converting value for "limit"; conn timeout', 422),
        ("address of account is required", 422),
    ],
)
def test_final_answers_are_final(server, client, text, status):  # F08, F11
    server.otherwise = error(text, status)
    with pytest.raises(RequestError) as caught:
        ask(client)
    assert met(server, 0)
    assert (caught.value.status, caught.value.retryable) == (status, False)
    assert text in str(caught.value)
    if status in {401, 403}:
        assert "key" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "timeout: context deadline exceeded",
        "ERROR: canceling statement due to conflict with recovery",
        "failed to connect: conn closed",
        "FATAL: terminating (SQLSTATE 57P01)",
    ],
)
def test_a_422_of_the_database_is_retried(server, client, text):  # F09
    server.script.append(error(text, 422))
    assert client.account_states(["0:AB"], rows) == [1, 2, 3]
    assert met(server, 1)


def test_a_bad_address_is_named(server, client):  # F10
    def picky(handler):
        asked = server.seen[-1].query["address"]
        if "nonsense" in asked:
            text = (
                f'schema: error converting value for index {asked.index("nonsense")} of "address"'
            )
            error(text, 422)(handler)
        else:
            answer()(handler)

    server.otherwise = picky
    with pytest.raises(RequestError, match=r"address 4 of 5, 'nonsense'") as caught:
        client.account_states([*ADDRESSES[:3], "nonsense", "0:AB"], rows)
    assert (caught.value.status, caught.value.retryable) == (422, False)
    assert len(server.seen) == 1
    with pytest.raises(RequestError, match=r"address 201 of 300, 'nonsense'"):
        list(
            client.account_states_in_batches([*ADDRESSES[:200], "nonsense", *ADDRESSES[:99]], rows)
        )


def test_a_404_of_the_service_goes_to_the_caller(server, client):  # F12 to F15
    server.otherwise = error("blocks not found", 404)
    with pytest.raises(RequestError, match="blocks not found") as caught:
        client.masterchain_block_shards(7, rows, offset=1000)
    assert (caught.value.status, caught.value.retryable) == (404, True)
    assert met(server, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>404 nginx</html>",
        b"",
        b"no",
        b'{"ok": false, "error": "Not Found"}',
        b'{"message": "no Route matched with those values"}',
        b'{"detail": "Not Found"}',
        b'{"error": {"code": 404}}',
    ],
)
def test_a_404_of_another_server_is_no_end_of_a_list(server, client, body):
    server.script.append(answer(body, 404))
    assert ask(client) == [1, 2, 3]
    server.otherwise = answer(body, 404)
    with pytest.raises(RequestError, match="not written by the service") as caught:
        ask(client)
    assert (caught.value.status, caught.value.retryable) == (None, False)
    assert len(server.seen) == 2 + 6


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server, status):  # F36
    with FaultServer() as sink:
        server.otherwise = answer(b"", status, Location=f"{sink.url}/x?api_key=1")
        with (
            connect(server, api_key=KEY) as client,
            pytest.raises(RequestError, match=f"redirects to '{sink.url}', not followed"),
        ):
            ask(client)
        assert sink.seen == []
    assert met(server, 0)


def test_a_redirect_with_a_bomb_and_a_bad_location_is_refused(server, client):  # F36
    body = gzip.compress(bytes(2**24))
    server.otherwise = answer(body, 302, Location="http://[", Content_Encoding="gzip")
    with pytest.raises(RequestError, match="redirects to"):
        ask(client)
    assert met(server, 0)


@pytest.mark.parametrize(
    "too_long",
    [
        error("URI Too Long", 414),
        error("x", 431),
        answer(b"<html>400 Request Header Or Cookie Too Large</html>", 400),
        error("internal server error: Request Header Fields Too Large", 500),
    ],
)
def test_batches_are_halved_until_they_fit(server, client, too_long):  # F24
    def narrow(handler):
        (too_long if len(server.seen[-1].line) > 2000 else answer())(handler)

    server.otherwise = narrow
    batches = [batch for batch, _ in client.account_states_in_batches(ADDRESSES, rows)]
    assert list(itertools.chain(*batches)) == ADDRESSES
    assert sum(len(seen.line) > 2000 for seen in server.seen) == 2, "learnt once"
    with pytest.raises(RequestError, match="fewer addresses"):
        list(client.account_states_in_batches(["A" * 3000], rows))


def test_batches_stay_below_seven_kilobytes(server, client):  # F24
    addresses = ["EQ" + "+/" * 23 + str(number) for number in range(500)]
    for _ in client.account_states_in_batches(addresses, rows):
        pass
    assert max(len(seen.line) for seen in server.seen) < 7000
    asked = itertools.chain.from_iterable(seen.query["address"] for seen in server.seen)
    assert list(asked) == addresses
    assert max(map(len, Client.batches(["A"] * 3000, 10**9))) == 1024


# What goes wrong on the way


# What closes its connection says so: a client that asks again at once might reuse it otherwise.
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
ZIPPED = gzip.compress(GOOD)


def sized(body, size=None, head=HEAD):
    return head + b"Content-Length: %d\r\n\r\n" % (size or len(body)) + body


GZIP = HEAD + b"Content-Encoding: gzip\r\n"
DEFLATE = HEAD + b"Content-Encoding: deflate\r\n"
BROKEN = {
    "closed before status": raw(),
    "reset before status": raw(end="reset"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9\r\n"),
    "half a header": raw(HEAD[:30]),
    "reset in the content": raw(sized(GOOD[:5], 99), end="reset"),
    "closed in the content": raw(sized(GOOD[:5], 99)),
    "cut without a length": raw(HEAD + b"\r\n" + GOOD[:9]),
    "cut chunk": raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + GOOD[:5]),
    "no chunk": raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + GOOD[:5]),
    "two lengths": raw(HEAD + b"Content-Length: 5\r\nContent-Length: 9\r\n\r\n" + GOOD[:9]),
    "200 headers": raw(HEAD + b"X-A: b\r\n" * 200 + b"Content-Length: 2\r\n\r\n{}"),
    "gzip cut": raw(sized(ZIPPED[:-12], head=GZIP)),
    "gzip corrupt": raw(sized(ZIPPED[:-6] + b"\0\0\0" + ZIPPED[-3:], head=GZIP)),
    "gzip on plain text": raw(sized(GOOD, head=GZIP)),
    "deflate cut": raw(sized(zlib.compress(GOOD)[:-8], head=DEFLATE)),
    "HTML": answer(b"<!DOCTYPE html><html>We are ill</html>", Content_Type="text/html"),
    "HTML called JSON": answer(b"\n <html>We are ill</html>"),
    "empty": answer(b""),
    "blank": answer(b" \n"),
    "null": answer(b"null"),
    "list": answer(b"[]"),
    "no rows": answer(b"{}"),
    "no JSON": answer(GOOD[:-1]),
    "deep": answer(b"[" * 100_000),
    "no content": raw(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
    "partial": answer(GOOD[:5], 206),
    "cut 404": raw(b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 99\r\n\r\n{"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answers_are_retried(server, client, name):  # F27, F28, F31
    server.script.extend([BROKEN[name]] * 2)
    assert ask(client) == [1, 2, 3]
    assert met(server, 2)
    assert client.statistics.retries == 2


def test_a_gzip_without_its_trailer_is_whole(server, client):  # F28
    server.otherwise = raw(sized(ZIPPED[:-8], head=GZIP))
    assert ask(client) == [1, 2, 3]
    assert met(server, 0)


def test_good_json_is_read_under_any_content_type(server, client):  # F31
    server.otherwise = answer(GOOD, Content_Type="text/plain; charset=latin-1")
    assert ask(client) == [1, 2, 3]
    assert met(server, 0)


def test_endless_html_is_reported(server, client):  # F31
    server.otherwise = BROKEN["HTML"]
    with pytest.raises(RequestError, match=r"an HTML page: We are ill; .*base_url") as caught:
        ask(client)
    assert caught.value.retryable


def test_an_error_of_parse_is_raised_unchanged(server, client):  # F31
    server.otherwise = answer(b"{}")
    with pytest.raises(DecodeError, match="an object with rows") as caught:
        ask(client)
    assert len(server.seen) == 6
    assert "masterchainBlockShards of seqno 7" in caught.value.__notes__[0]
    assert "6 attempts" in caught.value.__notes__[0]


def test_an_error_of_the_caller_goes_through(server, client):
    with pytest.raises(ZeroDivisionError):
        client.masterchain_info(lambda _: 1 // 0)
    assert ask(client) == [1, 2, 3]
    assert len(server.seen) == 2


def test_a_refused_connection_is_reported(clock):  # F26
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        connect(f"http://127.0.0.1:{port}", clock=clock) as client,
        pytest.raises(RequestError, match=f"127.0.0.1:{port}.*refused") as caught,
    ):
        ask(client)
    assert caught.value.status is None
    assert caught.value.retryable
    assert client.statistics.retries > 3


def test_an_unknown_host_is_reported(clock, monkeypatch):  # F26
    def fail(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with (
        connect("https://nowhere.invalid", clock=clock) as client,
        pytest.raises(RequestError, match=r"nowhere\.invalid.*not known"),
    ):
        ask(client)
    assert client.statistics.retries > 3


def test_a_failed_tls_handshake_is_reported(server, clock):  # F26
    with (
        connect(server.url.replace("http", "https"), clock=clock, deadline=2) as client,
        pytest.raises(RequestError, match=r"SSL"),
    ):
        ask(client)
    assert client.statistics.retries > 3


SLOW = {
    "silence": raw(end="stall"),
    "stall in the headers": raw(HEAD, end="stall"),
    "stall in the content": raw(sized(GOOD[:5], 99), end="stall"),
    "drip of the headers": raw(*(b"%c" % c for c in HEAD * 9), pause=0.05),
    "drip of the content": raw(HEAD + b"Content-Length: 999\r\n\r\n", *[b" "] * 99, pause=0.05),
}
#: Seconds that the shortest of them takes if nobody cuts it.
SHORTEST = 4.9


@pytest.mark.parametrize("name", SLOW)
def test_slow_answers_are_cut_and_retried(server, name):  # F29
    server.script.append(SLOW[name])
    start = time.monotonic()
    with connect(server, timeout=0.2, deadline=1) as client:
        assert ask(client) == [1, 2, 3]
    assert 0.2 <= time.monotonic() - start < SHORTEST
    assert met(server, 1)
    assert server.seen[0].peer != server.seen[1].peer


@pytest.mark.parametrize("name", SLOW)
def test_the_deadline_holds(server, name):  # F29
    server.otherwise = SLOW[name]
    start = time.monotonic()
    with (
        connect(server, timeout=0.15, deadline=0.4) as client,
        pytest.raises(RequestError, match=r"took too long|nothing came"),
    ):
        ask(client)
    assert time.monotonic() - start < SHORTEST


def test_large_pages_of_errors_are_not_read(server, client):  # F30
    endless = raw(b"HTTP/1.1 500 No\r\n\r\n", *[b"x" * 2**16] * 200, end="stall")
    server.script.append(endless)
    assert ask(client) == [1, 2, 3]
    assert met(server, 1)


@pytest.mark.parametrize("state", ["waiting", "pacing", "reading"])
def test_ctrl_c_comes_at_once(server, state):  # F39
    rate = 0.01 if state == "pacing" else inf
    with connect(server, requests_per_second=rate) as client:
        if state == "pacing":
            ask(client)
        elif state == "reading":
            server.script.append(SLOW["stall in the content"])
        else:
            server.script.append(error("ill", 503, Retry_After="60"))
        asked = len(server.seen) + (state != "pacing")
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt), interrupt(0.2, lambda: len(server.seen) >= asked):
            ask(client)
        assert 0.2 <= time.monotonic() - start < 15  # each of them would last 20 s or more
        assert not server.script
        if state != "pacing":
            assert ask(client) == [1, 2, 3]


@pytest.mark.parametrize("state", ["waiting", "pacing", "reading"])
def test_closing_ends_what_other_threads_do(server, state):
    server.otherwise = SLOW["silence"] if state == "reading" else error("ill", 503, Retry_After="9")
    rate = 0.01 if state == "pacing" else inf
    with ThreadPoolExecutor(3) as pool, connect(server, requests_per_second=rate) as client:
        futures = [pool.submit(ask, client) for _ in range(3)]
        time.sleep(0.15)
        start = time.monotonic()
        client.close()
        for future in futures:
            with pytest.raises(RequestError, match="the client was closed"):
                future.result()
        assert time.monotonic() - start < 8  # each of them would last 9 s or more
        with pytest.raises(RequestError, match="the client was closed"):
            ask(client)


# What stays at home


def locals_of(error):
    """What a debugger shows of the frames that are not this file's."""
    lines = traceback.TracebackException.from_exception(error, capture_locals=True)
    return [f"{frame.locals}" for frame in lines.stack if frame.filename != __file__]


def test_the_key_stays_in_its_header(server, clock, caplog, capsys, monkeypatch):  # F53
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    caplog.set_level(logging.DEBUG)
    quoting = b'{"error": "%s no key %s"}' % (b"x" * 180, KEY.encode())
    replies = [
        answer(quoting, 401),
        answer(quoting, 500),
        error(f"no {KEY}", 404),
        answer(b"<html>" + quoting),
        answer(b"{}"),
        answer(b"", 302, Location=f"https://{KEY}:{KEY}@other.example/?{KEY}"),
        raw(f"{KEY} 200 OK\r\n\r\n".encode()),
        raw(HEAD + f"Content-Length: {KEY}\r\n\r\n".encode()),
        raw(end="reset"),
    ]
    with connect(server, clock=clock, api_key=f" {KEY}\n", deadline=2) as client:
        told = [repr(client), str(client), repr(vars(client)), repr(vars(client._retry))]
        told.append(repr(client._retry._transport._headers))
        contexts = []
        for reply in replies:
            server.otherwise = reply
            try:
                ask(client)
            except (RequestError, DecodeError) as caught:
                told.append(f"{caught!r} {caught}")
                told += locals_of(caught)
                if isinstance(caught, RequestError):
                    contexts.append(caught.__context__)
                told.append(repr(pickle.dumps(caught)))
        server.otherwise = raw(sized(GOOD[:5], 99), end="stall")
        with pytest.raises(KeyboardInterrupt) as interrupted, interrupt(0.1):
            ask(client)
        told += locals_of(interrupted.value)
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="make one in each process") as refused:
                copying(client)
            told.append(str(refused.value))
    assert {seen.headers["X-API-Key"] for seen in server.seen} == {KEY}
    assert len(server.seen) > len(replies)
    assert not any(KEY in seen.line for seen in server.seen)
    told += [caplog.text, *capsys.readouterr()]
    assert "asking again" in caplog.text
    assert contexts == [None] * (len(replies) - 1)
    assert len(told) > 30
    for text in told:
        assert KEY not in text
        assert KEY[:10] not in text


ECHOES = {
    "value": b'{"transactions": "%s"}' % KEY.encode(),
    "list": b'{"transactions": ["%s"]}' % KEY.encode(),
    "name": b'{"%s": []}' % KEY.encode(),
    "text": b"got %s" % KEY.encode(),
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_key_that_an_answer_has_is_not_shown(server, clock, caplog, name):  # F74
    from tonframes.wire import pages, schema

    caplog.set_level(logging.DEBUG)
    server.otherwise = answer(ECHOES[name])
    read = functools.partial(pages.read, schema.BLOCKS_ANSWER)
    with connect(server, clock=clock, api_key=KEY) as client:
        with pytest.raises(DecodeError) as caught:
            client.masterchain_info(read)
        error = caught.value
        attributes = [error.path, error.expected, error.found, *error.__notes__]
        told = [str(error), repr(error), repr(pickle.dumps(error)), *attributes, caplog.text]
    assert not any(KEY in text for text in told)
    assert "***" in str(error)


def test_a_key_that_is_the_name_of_a_field_is_in_no_warning(server):  # F74
    from tonframes.wire import pages, schema

    server.otherwise = answer(b'{"transactions": [], "%s": 1}' % KEY.encode())
    with connect(server, api_key=KEY) as client:
        page = client.masterchain_info(functools.partial(pages.read, schema.BLOCKS_ANSWER))
        with pytest.warns(TonframesWarning, match=r"no place for /\*\*\*") as warned:
            pages.blocks_tables([page])
    assert not any(KEY in str(warning.message) for warning in warned)


def test_a_key_in_the_address_of_a_redirect_is_not_shown(server):  # F74
    server.otherwise = answer(b"", 302, Location=f"https://{KEY}.example/{KEY}")
    with (
        connect(server, api_key=KEY) as client,
        pytest.raises(RequestError, match=r"pass 'https://\*\*\*\.example' as"),
    ):
        ask(client)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (KEY, {"timeout": -1}),
        (KEY, {"base_url": "http://example.org"}),
        (KEY + " " + KEY, {}),
        (KEY.encode(), {}),
    ],
)
def test_the_constructor_shows_no_key_in_its_variables(key, options):  # F74
    with pytest.raises((ValueError, TypeError)) as caught:
        Client(api_key=key, **options)
    assert locals_of(caught.value)
    assert KEY not in f"{caught.value} {locals_of(caught.value)}"


@pytest.mark.parametrize("key", ["", " ", "SECRET key", "SECRET\nkey", "SECRÉT", "a" * 9 + "\0"])
def test_odd_keys_are_refused_unquoted(key):
    with pytest.raises(ValueError, match="api_key") as caught:
        Client(api_key=key)
    assert key.strip() == "" or key not in str(caught.value)
    assert "SECR" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_key_is_not_sent_in_the_clear(monkeypatch):
    with pytest.raises(ValueError, match="https"):
        Client("http://example.org", api_key=KEY)
    monkeypatch.setenv("TONCENTER_API_KEY", KEY)
    with pytest.raises(ValueError, match="https"):
        Client("http://toncenter.com")


def test_the_key_of_ton_center_is_not_sent_to_others(server, monkeypatch):
    monkeypatch.setenv("TONCENTER_API_KEY", KEY)
    with connect(server) as client:
        ask(client)
    with connect(server, api_key="other") as client:
        ask(client)
    assert [seen.headers.get("X-API-Key") for seen in server.seen] == [None, "other"]
    with Client("https://toncenter.com.example.org") as client:
        assert client._retry.key is None


def test_proxies_and_netrc_stay_out_of_loopback(server, monkeypatch, tmp_path):  # F37
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password SECRET\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    requests.get(server.url, timeout=5)
    assert "Authorization" in server.seen.pop().headers, "the trap is set"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(requests.exceptions.ProxyError):
        requests.get(server.url, timeout=5)
    with connect(server) as client:
        assert ask(client) == [1, 2, 3]
    assert met(server, 0)
    assert "Authorization" not in server.seen[0].headers


def test_proxies_are_used_for_other_hosts(server, monkeypatch):  # F37
    monkeypatch.setenv("HTTP_PROXY", server.url)
    with connect("http://service.invalid") as client:
        assert ask(client) == [1, 2, 3]
    assert server.seen[0].line.startswith("http://service.invalid/api/v3/masterchainBlockShards?")
    monkeypatch.setenv("NO_PROXY", "service.invalid")
    with Client("http://service.invalid") as client:
        assert client._retry._transport._proxies == {}


def test_cookies_are_not_kept(server):
    server.otherwise = answer(Set_Cookie="a=b")
    with connect(server) as client:
        ask(client)
        ask(client)
    assert "Cookie" not in server.seen[1].headers


def test_threads_share_the_connections(server):
    together = threading.Barrier(8)
    with connect(server) as client, ThreadPoolExecutor(8) as pool:

        def work(_):
            together.wait()
            return [ask(client) for _ in range(20)]

        assert all(pool.map(work, range(8)))
    assert len({seen.peer for seen in server.seen}) <= 8


def test_large_answers_are_whole(server, client):
    body = json.dumps({"rows": list(range(300_000))}).encode()
    packed = gzip.compress(body, 1)
    server.script.extend([answer(body), answer(packed, Content_Encoding="gzip")])
    assert ask(client) == ask(client) == list(range(300_000))
    assert met(server, 1)


# Answers to no request


STRAY = b'{"rows": ["stray"]}'


def sent(*contents, pause=0.0):
    """Send several answers to one request, and keep the connection."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"

    def reply(handler):
        parts = [head % len(content) + content for content in contents]
        for part in parts if pause else [b"".join(parts)]:
            handler.connection.sendall(part)
            time.sleep(pause)

    return reply


@pytest.mark.parametrize("size", [0, 70_000], ids=["short", "longer than the buffer"])
def test_a_stray_answer_is_never_that_to_the_next_request(server, client, size):  # F61
    server.script.extend([answer(), sent(GOOD, STRAY.ljust(size))])
    assert [ask(client) for _ in range(3)] == [[1, 2, 3]] * 3


def test_a_stray_answer_between_two_requests_is_never_believed(server, client):  # F61
    server.script.append(sent(GOOD, STRAY, pause=0.05))
    assert ask(client) == [1, 2, 3]
    time.sleep(0.2)
    assert ask(client) == [1, 2, 3]
    assert server.seen[0].peer != server.seen[1].peer


def test_after_an_answer_that_is_refused_the_connection_is_closed(server, client):  # F61
    server.script.append(answer())
    server.script.append(sent(b'{"stray": 1}', GOOD, pause=0.2))
    assert [ask(client) for _ in range(3)] == [[1, 2, 3]] * 3
    peers = [seen.peer for seen in server.seen]
    assert peers[0] == peers[1] != peers[2] == peers[3]


def test_white_space_after_an_answer_does_no_harm(server, client):  # F61
    answered = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b\r\n" % (len(GOOD), GOOD)
    server.script.append(lambda handler: handler.connection.sendall(answered))
    assert ask(client) == ask(client) == [1, 2, 3]
    assert met(server, 1)
