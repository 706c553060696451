"""HTTP/1.1 with the standard library's `http.server`, made fast and bounded.

By default `http.server` is easy to block. Nagle's algorithm and delayed acknowledgements limit it
to 23 answers per second. It waits for a request without a timeout, starts any number of threads,
and answers requests that a web site makes a browser send.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from tonframes.errors import TonframesError
from tonframes.service.parameters import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonframes.service.parameters import Answer, Query

#: Longest request line, in bytes: 1024 addresses take 79 kB.
LONGEST_LINE = 128 * 2**10
#: Most connections, each with a thread. Further ones wait until one is closed.
MOST_CONNECTIONS = 256
#: Longest wait for a byte of a request, or for a client to read more of an answer, in seconds.
TIMEOUT = 10

_HEADERS = {"x_no_address_book": "X-No-Address-Book", "x_no_metadata": "X-No-Metadata"}


class Server(ThreadingHTTPServer):
    """Listens on an address, and passes a path and its query to a function."""

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
        self._room = Semaphore(MOST_CONNECTIONS)
        self._lock = Lock()
        self._connections: set[socket.socket] = set()
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
        """Decide whether a `Host` header names this server."""
        name, colon, port = host.rpartition(":")
        return self._names is None or (name if colon and port.isdecimal() else host) in self._names

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, once fewer than `MOST_CONNECTIONS` are open."""
        self._room.acquire()
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and make room for another."""
        super().shutdown_request(request)
        with self._lock:
            self._connections.discard(request)
        self._room.release()

    def stop(self) -> None:
        """Close the port and all connections."""
        self._close_connections()  # one that waits for room keeps `shutdown` waiting
        self.shutdown()
        self.server_close()
        self._close_connections()

    def _close_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a traceback, unless the client closed the connection or reads nothing."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and writes the answers."""

    server: Server
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # so that answers about a bad request line have a status
    server_version, sys_version = "tonframes", ""
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = TIMEOUT

    def handle_one_request(self) -> None:
        """As the base class, but allow longer request lines, and close after half a request."""
        self.requestline = self.request_version = self.command = ""
        self.close_connection = True
        with suppress(TimeoutError):
            self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
            if len(self.raw_requestline) > LONGEST_LINE:
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            elif self.raw_requestline and self.parse_request():
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
        try:
            status, answer = HTTPStatus.OK, self.server.answer(path, query)
        except Refusal as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except (TonframesError, OSError) as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = {"error": f"internal server error: {error}"}
        self._send(status, answer)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send an error as JSON, with the text of the base class, and close the connection."""
        self.close_connection = True
        self._send(code, {"error": (message or HTTPStatus(code).phrase)[:200]})

    def _send(self, status: int, answer: Answer) -> None:
        content = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
        """Log nothing."""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
