"""One exchange over HTTP: a status, headers and a body within bounds of time and size.

This works on the layer below `requests.Session`, because a session does what must not happen
here: it takes credentials from `.netrc`, keeps cookies, and follows redirects with every header
but `Authorization`, so that a key in `X-API-Key` would go wherever the service points.
"""

from __future__ import annotations

import io
import os
import re
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection

from tonframes.client.rate import SLICE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from _typeshed import WriteableBuffer
    from urllib3.connectionpool import HTTPConnectionPool

#: Bytes that an answer may have after decompression. A full page of 1000 transactions has about 5
#: million; a gzip body of one megabyte can hold a thousand.
LARGEST_BODY = 64 * 2**20
#: Bytes read of the body of an answer other than 200: a message, or the page of a gateway.
LARGEST_ERROR_BODY = 64 * 2**10
#: Bytes read at a time.
CHUNK = 64 * 2**10
#: Idle connections kept open, one for each thread that may be at work.
CONNECTIONS = 256


class TransportError(Exception):
    """There is no whole answer; the message says why."""


class TooLargeError(Exception):
    """The body has more bytes than are accepted."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a service is, and what follows from that.

    Attributes
    ----------
    url
        Scheme, host, port and path, without a slash at the end.
    host
        The host alone, in lower case.
    """

    url: str
    host: str

    @classmethod
    def parse(cls, text: str) -> Site:
        """Check an address and take it apart; what it holds is not quoted, should that be secret.

        Examples
        --------
        >>> Site.parse("https://TonCenter.com/api/v3/")
        Site(url='https://toncenter.com', host='toncenter.com')
        >>> Site.parse("http://[::1]:8081").is_loopback
        True
        """
        if not isinstance(text, str):
            raise TypeError(f"base_url is text, not {type(text).__name__}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("base_url is no URL: its host or port cannot be read") from None
        if parts.scheme not in {"http", "https"}:
            raise ValueError("base_url starts with https:// or http://")
        if "@" in parts.netloc:
            raise ValueError("base_url holds a user or password; pass a key as api_key")
        if re.search(r"api_?key", parts.query, re.IGNORECASE):
            raise ValueError("base_url holds an API key, which would show in logs; pass api_key")
        if "?" in text or "#" in text:
            raise ValueError("base_url ends with the path, before any ? or #")
        if not re.fullmatch(r"[\w.-]+|[0-9a-f:.]+", host) or not re.fullmatch(
            r"[!-\[\]-~]*", parts.path
        ):
            raise ValueError("base_url has a host, and no space or backslash in its path")
        netloc = f"[{host}]" if ":" in host else host
        netloc += "" if port is None else f":{port}"
        path = re.sub(r"(/api/v3)?/*$", "", parts.path.rstrip("/"))
        return cls(f"{parts.scheme}://{netloc}{path}", host)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this computer itself."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_ton_center(self) -> bool:
        """Whether it is TON Center, mainnet or testnet."""
        return self.host == "toncenter.com" or self.host.endswith(".toncenter.com")

    @property
    def keeps_secrets(self) -> bool:
        """Whether a key may be sent there: nobody on the way reads it."""
        return self.url.startswith("https:") or self.is_loopback


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, with the body decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How long an exchange may last, how long it may be silent, and whether to go on at all."""

    ends: float
    silence: float
    stopped: Callable[[], bool]


_bounds: ContextVar[_Bounds] = ContextVar("bounds of the exchange under way in this thread")


class _BoundedSocket(io.RawIOBase):
    """Reads a socket within the bounds of the exchange.

    The timeout of a socket binds one `recv` only: a service that sends a byte a second, in the
    headers or in the body, is never late. So the bounds are checked around every `recv`, and
    each waits no longer than a slice.
    """

    def __init__(self, sock: socket.socket, file: io.RawIOBase) -> None:
        self._socket = sock
        self._file = file  # holds the socket open until it is closed itself

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        bounds = _bounds.get()
        silent_at = time.monotonic() + bounds.silence
        while True:
            now = time.monotonic()
            if bounds.stopped():
                raise ConnectionAbortedError("the client was closed")
            if now >= bounds.ends:
                raise TimeoutError("the answer took too long")
            if now >= silent_at:
                raise TimeoutError(f"nothing came for {bounds.silence:g} s")
            self._socket.settimeout(min(SLICE, bounds.ends - now, silent_at - now))
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                continue

    def close(self) -> None:
        self._file.close()
        super().close()


class _BoundedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        # CPython's http.client reads everything, status line to body, from the file `fp`.
        self.fp = io.BufferedReader(_BoundedSocket(sock, self.fp.detach()), CHUNK)


class _PlainConnection(HTTPConnection):
    response_class = _BoundedResponse
    debuglevel = 0  # `http.client.HTTPConnection.debuglevel = 1` would print the key to stdout


class _SecureConnection(HTTPSConnection):
    response_class = _BoundedResponse
    debuglevel = 0


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
        Where the service is. The environment's proxies are used, but not on the way to this
        computer itself.
    headers
        Sent with every request.
    stopped
        Asked while an answer is awaited; once true, the exchange ends within a slice.
    """

    def __init__(
        self, site: Site, headers: Mapping[str, str], *, stopped: Callable[[], bool]
    ) -> None:
        self._headers = dict(headers)
        self._stopped = stopped
        self._proxies = {} if site.is_loopback else get_environ_proxies(site.url)
        # The two variables by which requests and curl are told of a company's own authority.
        bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        self._verify: bool | str = bundle or True
        self._adapter = _Adapter(pool_connections=4, pool_maxsize=CONNECTIONS)

    def get(self, url: str, *, seconds: float, silence: float) -> Answer:
        """Send one GET request and read the answer to its end.

        Only name resolution is outside the bounds, and connecting to a host of several addresses,
        where `silence` binds each of them.

        Parameters
        ----------
        seconds
            How long the exchange may last.
        silence
            How long connecting, or the next byte, may take.

        Raises
        ------
        TransportError
            There is no answer, or it broke off, or a bound was met.
        TooLargeError
            The body is larger than `LARGEST_BODY`.
        """
        silence = min(silence, seconds)
        bounds = _bounds.set(_Bounds(time.monotonic() + seconds, silence, self._stopped))
        try:
            request = requests.Request("GET", url, headers=self._headers).prepare()
            with self._adapter.send(
                request, stream=True, timeout=silence, verify=self._verify, proxies=self._proxies
            ) as response:
                return Answer(response.status_code, response.headers, _body(response))
        # Not all that urllib3 and http.client raise is translated by requests. ValueError is what
        # the line of a chunk's length gives when it is no number.
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            HTTPException,
            OSError,
            ValueError,
        ) as error:
            raise TransportError(_reason(error)) from None
        finally:
            _bounds.reset(bounds)

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()


def _body(response: requests.Response) -> bytes:
    """Read the body: whole and not too large when it is an answer, its beginning otherwise."""
    chunks = []
    size = 0
    for chunk in response.iter_content(CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if response.status_code != HTTPStatus.OK and size >= LARGEST_ERROR_BODY:
            break
        if size > LARGEST_BODY:
            raise TooLargeError(f"a body of more than {LARGEST_BODY} bytes after decompression")
    return b"".join(chunks)


def _reason(error: BaseException) -> str:
    """Name the innermost cause; the layers around it repeat the URL at length.

    Examples
    --------
    >>> _reason(requests.ConnectionError(urllib3.exceptions.ProtocolError("cut", OSError("bad"))))
    'OSError: bad'
    """
    while True:
        causes = (error.__cause__, getattr(error, "reason", None), *error.args)
        inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
        if inner is None:
            # urllib3 begins with the connection, `HTTPConnection(host='…', port=80): `.
            text = re.sub(r"^\w+\(host=.*?\): ", "", str(error))
            return f"{type(error).__name__}: {text}"
        error = inner
