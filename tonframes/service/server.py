"""HTTP/1.1 with the standard library's `http.server`, made fast and robust.

By default `http.server` is easy to block. Nagle's algorithm and delayed acknowledgements limit it
to 23 answers per second. It waits for a request without a timeout, or, with one, for each byte of
it. It starts any number of threads, each with an answer in memory until its client has read it, and
it answers requests that a web site makes a browser send.

Here are bounds of the connections, further ones of which wait; of the time for a request to come,
and for each part of an answer to be read; and of the bytes of all answers in memory.
"""

from __future__ import annotations

import io
import ipaddress
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Condition
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from tonframes.errors import TonframesError
from tonframes.service.parameters import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tonframes.service.dialects import Answer
    from tonframes.service.parameters import Query

#: Longest request line, in bytes: 1024 addresses take 79 kB.
LONGEST_LINE = 128 * 2**10
#: Most connections, each with a thread. Further ones wait until one is closed.
MOST_CONNECTIONS = 256
#: Longest time from the end of an answer to the end of the next request's head, in seconds.
TIMEOUT = 10
#: Longest time for a part of an answer to be sent, in seconds, and the bytes of a part.
STALL, PART = 5, 2**18
#: Bytes of answers that are not sent yet, from which on the next answer waits.
MOST_BYTES = 256 * 2**20
#: Most seconds and bytes to read after the last answer on a connection.
LINGER, LINGER_BYTES = 0.5, 2**20

_HEADERS = {"x_no_address_book": "X-No-Address-Book", "x_no_metadata": "X-No-Metadata"}


class Server(ThreadingHTTPServer):
    """Listens on an address, and passes requests to a function.

    Parameters
    ----------
    host, port
        Address and port to listen on; port 0 is any free port.
    answer
        Turns a path and its query into an object to encode as JSON, or raises a `Refusal`.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, answer: Callable[[str, Query], Answer]) -> None:
        self.answer = answer
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        name = f"[{host}]" if ":" in host else host
        # DNS rebinding: a web site may resolve its own name to this computer's address, and then a
        # browser lets it read the answers. The header `Host` contains the name of the web site.
        local = {name.lower(), "127.0.0.1", "localhost", "[::1]"}
        self._names = local if _is_loopback(host) else None
        self._changed = Condition()
        self._connections: set[Any] = set()
        self._unsent = 0
        self._stopping = False
        # One thread makes all answers, one at a time, as the size of an answer is known once it is
        # there. And Arrow's allocator keeps some megabytes for each thread that it has served.
        self._worker = ThreadPoolExecutor(1, "tonframes")
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {name}:{port} ({error.strerror}); port 0 is any free port",
            ) from None
        self.url = f"http://{name}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind without a look-up of the host's name, which may take seconds and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def admits(self, host: str) -> bool:
        """Return whether a `Host` header names this server."""
        name, colon, port = host.rpartition(":")
        return self._names is None or (name if colon and port.isdecimal() else host) in self._names

    def stop(self) -> None:
        """Close the port and all connections."""
        with self._changed:
            self._stopping = True
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.notify_all()
        self.shutdown()
        self.server_close()
        with self._changed:
            self._changed.wait_for(lambda: not self._connections, timeout=LINGER)
        self._worker.shutdown(wait=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, once fewer than `MOST_CONNECTIONS` are open."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or len(self._connections) < MOST_CONNECTIONS
            )
            self._connections.add(request)
        if self._stopping:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    @contextmanager
    def answering(self, path: str, query: Query) -> Iterator[tuple[HTTPStatus, bytes]]:
        """Make an answer once there is room for it; in the context it is sent."""
        status, content = self._worker.submit(self._make, path, query).result()
        try:
            yield status, content
        finally:
            with self._changed:
                self._unsent -= len(content)
                self._changed.notify_all()

    def _make(self, path: str, query: Query) -> tuple[HTTPStatus, bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._unsent < MOST_BYTES)
            if self._stopping:
                raise ConnectionAbortedError
        try:
            status, answer = HTTPStatus.OK, self.answer(path, query)
        except Refusal as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except (TonframesError, OSError) as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = {"error": f"internal server error: {error}"}
        content = msgspec.json.encode(answer)
        with self._changed:
            self._unsent += len(content)
        return status, content

    def shutdown_request(self, request: Any) -> None:
        """Close a connection in such a way that the last answer arrives.

        Closing with unread bytes sends a reset, after which the client may lose the answer
        (RFC 9112, 9.6).
        """
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(LINGER)
            left, end = LINGER_BYTES, time.monotonic() + LINGER
            while left > 0 and time.monotonic() < end and (read := request.recv(2**16)):
                left -= len(read)
        self.close_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a traceback, unless the client closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _TimedReader(io.RawIOBase):
    """Reads a connection until a deadline, however few bytes come at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and writes the answers."""

    server: Server
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # so that answers about a bad request line have a status
    server_version, sys_version = "tonframes", ""
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """As the base class, but read within a deadline."""
        super().setup()
        self.rfile.close()
        self._timed = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._timed)

    def handle_one_request(self) -> None:
        """As the base class, but allow longer request lines, and answer 408 to half a request."""
        self.requestline = self.request_version = self.command = ""
        self._timed.deadline = time.monotonic() + TIMEOUT
        try:
            self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
        except TimeoutError:
            self.close_connection = True
            return
        if not self.raw_requestline:
            self.close_connection = True
            return
        if len(self.raw_requestline) > LONGEST_LINE:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            return
        try:
            if not self.parse_request():
                return
        except TimeoutError:
            self.send_error(HTTPStatus.REQUEST_TIMEOUT)
            return
        self._answer()

    def _answer(self) -> None:
        if not self.server.admits(self.headers.get("Host", "").lower()):
            self.send_error(HTTPStatus.FORBIDDEN, "Host is not the name of this service")
            return
        if self.command not in ("GET", "HEAD"):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the content of the request is not read
        path, _, text = self.path.partition("?")
        query = parse_qs(text, keep_blank_values=True)
        for name, header in _HEADERS.items():
            query.setdefault(name, self.headers.get_all(header, []))
        with self.server.answering(path, query) as (status, content):
            self._send(status, content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send an error as JSON, with the text of the base class, and close the connection."""
        self.close_connection = True
        error = {"error": (message or HTTPStatus(code).phrase)[:200]}
        self._send(code, msgspec.json.encode(error))

    def _send(self, status: int, content: bytes) -> None:
        self.connection.settimeout(STALL)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        unsent = memoryview(b"" if self.command == "HEAD" else content)
        while unsent:
            self.connection.sendall(unsent[:PART])
            unsent = unsent[PART:]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
        """Log nothing."""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
