"""One HTTP exchange: a status, headers and content, limited in time and size.

This uses the layer below `requests.Session`. A session reads credentials from `.netrc`, keeps
cookies, and follows redirects with every header except `Authorization`: it would send a key in
`X-API-Key` to any host that the service names.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection

from tonframes.client.answers import Answer, Failure, Verdict
from tonframes.client.rate import SLICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3.connectionpool import HTTPConnectionPool

    from tonframes.client.arguments import Site
    from tonframes.masking import Key

#: Largest answer after decompression, in bytes. A full page of 1000 transactions has about 5
#: million; one megabyte of gzip can decompress to a thousand million.
LARGEST_ANSWER = 64 * 2**20
#: Bytes read of an answer with a status other than 200: a message, or a gateway's HTML page.
LARGEST_ERROR = 64 * 2**10
#: Bytes read at a time.
CHUNK = 64 * 2**10
#: Idle connections kept open; one for each thread that sends requests.
CONNECTIONS = 256

_TOO_LATE = "the answer took too long"
_HINT = "check base_url and the network"


@dataclass(eq=False, slots=True)
class _Exchange:
    """A request under way: when it must end, what ends it before, and its socket once it is sent.

    The timeout of a socket limits a single `recv`: a service that sends one byte a second, in the
    headers or in the content, never exceeds it.
    """

    ends: float
    stopped: Callable[[], bool]
    key: Key | None
    sent: Callable[[], None]
    socket: socket.socket | None = None
    is_over: bool = False

    def look(self) -> None:
        if time.monotonic() >= self.ends or self.stopped():
            self.is_over = True
            self.break_off()

    def break_off(self) -> None:
        """Make the connection useless: who reads it goes on at once, the next request opens one."""
        if self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


_exchange: ContextVar[_Exchange] = ContextVar("current exchange of this thread")


class _Watch:
    """Looks at all exchanges of a client, in a thread that lasts while there are any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._exchanges: set[_Exchange] = set()
        self._watching = False

    @contextmanager
    def over(self, exchange: _Exchange) -> Iterator[None]:
        with self._lock:
            self._exchanges.add(exchange)
            if not self._watching:
                with suppress(RuntimeError):  # Python ends: no thread can be started any more
                    Thread(target=self._watch, name="tonframes watch", daemon=True).start()
                    self._watching = True
        try:
            yield
        finally:
            with self._lock:
                self._exchanges.discard(exchange)

    def _watch(self) -> None:
        while True:
            time.sleep(SLICE)
            with self._lock:
                if not self._exchanges:
                    self._watching = False
                    return
                for exchange in self._exchanges:
                    exchange.look()


class _Connection(HTTPConnection):
    debuglevel = 0  # `http.client.HTTPConnection.debuglevel = 1` would print the key to stdout

    def endheaders(self, *args: Any, **options: Any) -> None:
        exchange = _exchange.get()
        if exchange.key is not None:
            # Here and not earlier: requests and urllib3, whose errors quote headers, never have it.
            self.putheader("X-API-Key", exchange.key.reveal())
        super().endheaders(*args, **options)  # connects, if need be, and writes the request
        exchange.socket = self.sock
        exchange.sent()


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Adapter(HTTPAdapter):
    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> HTTPConnectionPool:
        pool = cast("HTTPConnectionPool", super().get_connection_with_tls_context(*args, **options))
        pool.ConnectionCls = _SecureConnection if pool.scheme == "https" else _Connection
        return pool


class Transport:
    """Connections to one service, kept alive and shared by threads."""

    def __init__(
        self,
        site: Site,
        headers: Mapping[str, str],
        key: Key | None,
        *,
        stopped: Callable[[], bool],
    ) -> None:
        self._headers = dict(headers)
        self._key = key
        self._stopped = stopped
        self._proxies = {} if site.is_loopback else get_environ_proxies(site.url)
        # The variables with which requests and curl are configured for a company's certificates.
        bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        self._verify: bool | str = bundle or True
        self._adapter = _Adapter(pool_connections=4, pool_maxsize=CONNECTIONS)
        self._watch = _Watch()

    def get(
        self, url: str, *, seconds: float, silence: float, sent: Callable[[], None]
    ) -> Answer | Failure:
        """Send one GET request and return the whole answer, or how it failed.

        `silence` limits the wait for the next byte, and for each address of the host. `sent` is
        called as soon as the request has been written to the socket. Looking up the host's name is
        not limited.
        """
        silence = min(silence, seconds)
        # The thread that looks has another context, in which nothing is given up.
        stopped = partial(copy_context().run, self._stopped)
        exchange = _Exchange(time.monotonic() + seconds, stopped, self._key, sent)
        token = _exchange.set(exchange)
        try:
            request = requests.Request("GET", url, headers=self._headers).prepare()
            with (
                self._watch.over(exchange),
                self._adapter.send(
                    request,
                    stream=True,
                    timeout=silence,
                    verify=self._verify,
                    proxies=self._proxies,
                ) as response,
            ):
                content = _content(response)
        # requests does not translate all errors of urllib3 and http.client. ValueError is raised
        # for a chunk whose length is not a number.
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            HTTPException,
            OSError,
            ValueError,
        ) as error:
            return _failure(error, exchange, silence)
        finally:
            _exchange.reset(token)
        if exchange.is_over:  # an answer without a length ends where the connection does
            return _late(_TOO_LATE)
        if content is None:
            reason = f"an answer of more than {LARGEST_ANSWER} bytes after decompression"
            return Failure(Verdict.TOO_LARGE, reason, hint="ask for fewer rows or addresses")
        return Answer(response.status_code, response.headers, content, exchange.break_off)

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()


def _content(response: requests.Response) -> bytes | None:
    """Return the content of an answer, None if it is too large; of an error, the beginning."""
    chunks = []
    size = 0
    for chunk in response.iter_content(CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if response.status_code != HTTPStatus.OK and size >= LARGEST_ERROR:
            break
        if size > LARGEST_ANSWER:
            return None
    return b"".join(chunks)


def _failure(error: BaseException, exchange: _Exchange, silence: float) -> Failure:
    """Return the innermost cause of an error; the errors around it repeat the long URL."""
    if exchange.is_over:
        return _late(_TOO_LATE)
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        causes = (error.__cause__, getattr(error, "reason", None), *error.args)
        inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    if isinstance(error, TimeoutError) and exchange.socket is not None:
        return _late(f"nothing came for {silence:g} s")
    # A text of urllib3 begins with `HTTPConnection(host='…', port=80): `.
    reason = f"{type(error).__name__}: " + re.sub(r"^\w+\(host=.*?\): ", "", str(error))
    is_unreachable = isinstance(error, ConnectionRefusedError | socket.gaierror)
    verdict = Verdict.UNREACHABLE if is_unreachable else Verdict.PASSING
    return Failure(verdict, reason, hint=_HINT)


def _late(reason: str) -> Failure:
    return Failure(Verdict.SLOW, f"TimeoutError: {reason}", hint=_HINT)
