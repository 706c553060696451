"""HTTP/1.1 on sockets of the standard library, made quick and hard to hurt.

The defaults of `http.server` are neither: it sends headers and body in packets of their own, which
Nagle's algorithm and delayed acknowledgements turn into 23 answers per second; it waits for ever
for a request, starts any number of threads, and answers whatever web site makes a browser ask.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Condition
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from tonframes.errors import TonframesError
from tonframes.service.dialects import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tonframes.service.dialects import Answer, Query

#: Bytes of a request line at most: 1024 addresses take 79 kB.
LONGEST_LINE = 128 * 2**10
#: Connections at most, each with a thread; more wait in the system's queue.
MOST_CONNECTIONS = 256
#: Seconds that a connection may pause.
TIMEOUT = 30
#: Seconds and bytes to read after the last answer on a connection.
LINGER, LINGER_BYTES = 0.5, 2**20

_HEADERS = {"x_no_address_book": "X-No-Address-Book", "x_no_metadata": "X-No-Metadata"}


class Server(ThreadingHTTPServer):
    """Listens on an address and passes on what is asked.

    Parameters
    ----------
    host, port
        Where to listen; port 0 is any.
    answer
        Turns a path and its query into an object for JSON, or raises a `Refusal`.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, answer: Callable[[str, Query], Answer]) -> None:
        self.answer = answer
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        name = f"[{host}]" if ":" in host else host
        # A web site may give its own name this computer's address, and then a browser lets it
        # read the answers (DNS rebinding); the name in `Host` gives it away.
        local = {name.lower(), "127.0.0.1", "localhost", "[::1]"}
        self._names = local if _is_loopback(host) else None
        self._changed = Condition()
        self._connections: set[Any] = set()
        self._stopping = False
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot listen on {name}:{port} ({error.strerror}); port 0 is any"
            ) from None
        self.url = f"http://{name}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which may take seconds and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def admits(self, host: str) -> bool:
        """Tell whether a `Host` header names this server."""
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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection once there is room for it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or len(self._connections) < MOST_CONNECTIONS
            )
            self._connections.add(request)
        if self._stopping:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection so that the last answer arrives.

        Closing with unread bytes sends a reset, at which the client may drop the answer
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
        """Print a traceback, but not of clients that went away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection and writes the answers."""

    server: Server
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # so that errors about the request line have a status
    server_version, sys_version = "tonframes", ""
    timeout = TIMEOUT
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Do as the base class, but with longer request lines and with 408 for half a request."""
        self.requestline = self.request_version = self.command = ""
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
        self.wfile.flush()

    def _answer(self) -> None:
        if not self.server.admits(self.headers.get("Host", "").lower()):
            self.send_error(HTTPStatus.FORBIDDEN, "Host is not the name of this service")
            return
        if self.command not in ("GET", "HEAD"):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body is not read
        path, _, text = self.path.partition("?")
        query = parse_qs(text, keep_blank_values=True)
        for name, header in _HEADERS.items():
            query.setdefault(name, self.headers.get_all(header, []))
        try:
            status, answer = HTTPStatus.OK, self.server.answer(path, query)
        except Refusal as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except (TonframesError, OSError) as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = {"error": f"internal server error: {error}"}
        self._send(status, answer)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse and close; in the words of the base class, but as JSON."""
        self.close_connection = True
        self._send(code, {"error": (message or HTTPStatus(code).phrase)[:200]})

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        body = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
        """Keep no log."""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
