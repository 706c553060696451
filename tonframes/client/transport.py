"""One HTTP exchange: a status, headers and content, limited in time and size.

This uses the layer below `requests.Session`. A session reads credentials from `.netrc`, keeps
cookies, and follows redirects with every header except `Authorization`: it would send a key in
`X-API-Key` to any host that the service names.
"""

from __future__ import annotations

import io
import os
import re
import socket
import ssl
import time
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection

from tonframes import deadline
from tonframes.client.rate import SLICE
from tonframes.client.size import check_memory, check_size
from tonframes.deadline import LateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import WriteableBuffer
    from urllib3.connectionpool import HTTPConnectionPool

    from tonframes.client.site import Site
    from tonframes.masking import Key

#: Bytes read of an answer with a status other than 200: a message, or a gateway's HTML page.
LARGEST_ERROR = 64 * 2**10
#: Bytes read of an answer beside its content: status, headers, and lengths of chunks.
LARGEST_FRAME = 2**20
#: Bytes read at a time.
CHUNK = 64 * 2**10
#: Idle connections kept open; one for each thread that sends requests.
CONNECTIONS = 256


class TransportError(Exception):
    """There is no complete answer; the message says why."""


class UnreachableError(TransportError):
    """There is no connection: the host is unknown, or refuses it."""


class SlowError(TransportError):
    """The answer did not come in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, decompressed.

    Attributes
    ----------
    refuse
        Closes the connection. If the answer is not one to the request, neither are those that
        follow it on the same connection.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    refuse: Callable[[], None] = field(default=lambda: None, repr=False)


@dataclass(slots=True)
class _Exchange:
    """The limits of an exchange, the key that is sent in a header, and how the exchange ended.

    `ends` is when it must end, `silence` how long it may pause, `largest` how large the content may
    be, compressed or not, and `stopped` whether the client was closed. `sent` is called when the
    request was written to the socket. `left_over` is what came on the connection after the answer.
    """

    ends: float
    silence: float
    largest: int
    stopped: Callable[[], bool]
    key: Key | None
    sent: Callable[[], None]
    socket: socket.socket | None = None
    left_over: bytes = b""

    def break_off(self) -> None:
        """Make the connection useless, so that the next request opens another."""
        if self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


_exchange: ContextVar[_Exchange] = ContextVar("current exchange of this thread")


class _BoundedSocket(io.RawIOBase):
    """Reads a socket within the bounds of the exchange.

    The timeout of a socket limits a single `recv`: a service that sends one byte a second, in the
    headers or in the content, never exceeds it. So the bounds are checked around every `recv`, and
    none waits longer than a slice. The bytes of an answer are counted here too: http.client reads a
    chunk whose length is below zero until the connection ends.
    """

    def __init__(self, sock: socket.socket, file: io.RawIOBase) -> None:
        self._socket = sock
        self._came = 0
        self._file = file  # keeps the socket open until this file is closed
        self.waits = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        exchange = _exchange.get()
        exchange.socket = self._socket
        if not self.waits:
            return self._waiting_into(buffer)
        silent_at = time.monotonic() + exchange.silence
        while True:
            now = time.monotonic()
            if exchange.stopped():
                raise ConnectionAbortedError("the client was closed")
            if now >= exchange.ends:
                raise LateError("the answer took too long")
            if now >= silent_at:
                raise LateError(f"nothing came for {exchange.silence:g} s")
            self._socket.settimeout(min(SLICE, exchange.ends - now, silent_at - now))
            try:
                count = self._socket.recv_into(buffer)
            except TimeoutError:
                continue
            self._came += count
            check_size(self._came - LARGEST_FRAME, exchange.largest)
            return count

    def _waiting_into(self, buffer: WriteableBuffer) -> int:
        """Read what has arrived, and 0 bytes if nothing has."""
        timeout = self._socket.gettimeout()
        try:
            self._socket.settimeout(0)
            count = self._socket.recv_into(buffer)
            self._socket.settimeout(timeout)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._socket.settimeout(timeout)
            return 0
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Reader(io.BufferedReader):
    """Reads an answer. When it is closed, it notes what has come after the answer."""

    def __init__(self, raw: _BoundedSocket) -> None:
        super().__init__(raw, CHUNK)
        self._bounded, self._exchange = raw, _exchange.get()

    def close(self) -> None:
        if not self.closed:
            self._bounded.waits = False
            with suppress(OSError):
                self._exchange.left_over = self.peek()
        super().close()


class _BoundedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        # CPython's http.client reads the whole answer, from the status line on, from `fp`.
        self.fp = _Reader(_BoundedSocket(sock, self.fp.detach()))


class _Bounded(HTTPConnection):
    response_class = _BoundedResponse
    debuglevel = 0  # `http.client.HTTPConnection.debuglevel = 1` would print the key to stdout

    def endheaders(self, *args: Any, **options: Any) -> None:
        exchange = _exchange.get()
        if exchange.key is not None:
            # Here and not earlier: requests and urllib3 never have the key.
            self.putheader("X-API-Key", exchange.key.reveal())
        super().endheaders(*args, **options)  # connects, if need be, and writes the request
        exchange.sent()


class _PlainConnection(_Bounded):
    pass


class _SecureConnection(_Bounded, HTTPSConnection):
    pass


class _Adapter(HTTPAdapter):
    def get_connection_with_tls_context(
        self,
        *args: Any,
        **options: Any,
    ) -> HTTPConnectionPool:
        pool = cast("HTTPConnectionPool", super().get_connection_with_tls_context(*args, **options))
        pool.ConnectionCls = _SecureConnection if pool.scheme == "https" else _PlainConnection
        return pool


class Transport:
    """Connections to one service, kept alive and shared by threads.

    Parameters
    ----------
    site
        The address of the service. The environment's proxies are used, except for loopback
        addresses.
    headers
        Sent with every request.
    key
        Sent with every request in the header `X-API-Key`.
    stopped
        Called while waiting for an answer; when it returns True, the exchange ends within a slice.
    """

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

    def get(
        self,
        url: str,
        *,
        seconds: float,
        silence: float,
        largest: int,
        sent: Callable[[], None],
    ) -> Answer:
        """Send one GET request and return the whole answer.

        Two things are not limited: name resolution, and connecting to a host with several
        addresses, where `silence` limits each of them.

        Parameters
        ----------
        seconds
            Longest time for the exchange.
        silence
            Longest time to connect, and longest wait for the next byte, in seconds.
        largest
            Largest content, in bytes after decompression.
        sent
            Called as soon as the request has been written to the socket.

        Raises
        ------
        TransportError
            There is no answer, it is incomplete, it took too long, or more than one came.
        TooLargeError
            The answer is larger, or would need too much memory.
        """
        silence = min(silence, seconds)
        ends = time.monotonic() + seconds
        exchange = _Exchange(ends, silence, largest, self._stopped, self._key, sent)
        token = _exchange.set(exchange)
        try:
            request = requests.Request("GET", url, headers=self._headers).prepare()
            with self._adapter.send(
                request, stream=True, timeout=silence, verify=self._verify, proxies=self._proxies
            ) as response:
                content = _content(response, largest)
                left_over = exchange.left_over  # only what was read to its end has been closed
                answer = Answer(response.status_code, response.headers, content, exchange.break_off)
        # requests does not translate all errors of urllib3 and http.client. ValueError is raised
        # for a chunk whose length is not a number.
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            HTTPException,
            OSError,
            ValueError,
        ) as error:
            raise _kind(error)(_reason(error)) from None
        except BaseException as error:  # noqa: BLE001 - raised again: Ctrl-C, a large answer
            # The variables of the frames that it came through have the request, with the key.
            error.__context__ = None
            raise error.with_traceback(None) from None
        finally:
            _exchange.reset(token)
        if left_over:
            exchange.break_off()
        if left_over.strip():
            # One of them is the answer to another request, and it may be the first.
            raise TransportError("more than one answer came")
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()


def _content(response: requests.Response, largest: int) -> bytes:
    """Return the whole content of an answer of status 200, or the beginning of any other."""
    chunks = []
    size = 0
    for chunk in response.iter_content(CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if response.status_code != HTTPStatus.OK and size >= LARGEST_ERROR:
            break
        check_size(size, largest)
        deadline.check()  # no byte need come: decompression alone may take long
    content = b"".join(chunks)
    if response.status_code == HTTPStatus.OK:
        check_memory(content, largest)
    return content


def _kind(error: BaseException) -> type[TransportError]:
    """Return which kind of failure an error is, by its innermost cause."""
    inner = _innermost(error)
    if isinstance(inner, ConnectionRefusedError | socket.gaierror):
        return UnreachableError
    return SlowError if isinstance(inner, LateError) else TransportError


def _reason(error: BaseException) -> str:
    """Return the innermost cause; the errors around it repeat the long URL.

    Examples
    --------
    >>> _reason(requests.ConnectionError(urllib3.exceptions.ProtocolError("cut", OSError("bad"))))
    'OSError: bad'
    """
    inner = _innermost(error)
    # A text of urllib3 begins with `HTTPConnection(host='…', port=80): `.
    text = re.sub(r"^\w+\(host=.*?\): ", "", str(inner))
    name = "TimeoutError" if isinstance(inner, LateError) else type(inner).__name__
    return f"{name}: {text}"


def _innermost(error: BaseException) -> BaseException:
    while True:
        causes = (error.__cause__, getattr(error, "reason", None), *error.args)
        inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
        if inner is None:
            return error
        error = inner
