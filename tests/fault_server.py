"""A service on loopback that sends scripted faults and records the requests.

It buffers writes and turns off Nagle's algorithm: with http.server's defaults every answer waits
40 ms for an ACK.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

GOOD = json.dumps({"rows": [1, 2, 3]}).encode()


#: Linux tells when the bytes that were read had arrived (socket(7)); Python has no name for it.
SO_TIMESTAMPNS = 35 if sys.platform == "linux" else None
#: What to subtract from the wall clock's time of it.
_START = time.time() - time.monotonic()


class Arrivals(io.RawIOBase):
    """Reads a socket, and knows when what was read last had arrived.

    The kernel's time does not depend on when this process, or a thread of it, has its turn.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.last = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if SO_TIMESTAMPNS is None:
            count, notes = self._connection.recv_into(buffer), []
        else:
            count, notes, _, _ = self._connection.recvmsg_into([buffer], 64)
        self.last = time.monotonic()
        for _, kind, content in notes:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", content)
                self.last = seconds + nanoseconds / 10**9 - _START
        return count


@dataclass(frozen=True)
class Seen:
    """A request, and when it reached the service."""

    time: float
    line: str
    headers: dict[str, str]
    peer: int

    @property
    def path(self) -> str:
        return urlsplit(self.line).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.line).query, keep_blank_values=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: FaultServer

    def setup(self) -> None:
        super().setup()
        self.arrivals = Arrivals(self.connection)
        self.rfile = io.BufferedReader(self.arrivals)
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().handle()

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.seen.append(
                Seen(self.arrivals.last, self.path, dict(self.headers), self.client_address[1])
            )
            reply = server.script.popleft() if server.script else server.otherwise
        reply(self)

    def log_message(self, *_: object) -> None:
        pass


Reply = Callable[[Handler], None]


class FaultServer(ThreadingHTTPServer):
    """Sends the replies of `script` one after the other, and then `otherwise`."""

    request_queue_size = 256
    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        if SO_TIMESTAMPNS is not None:  # connections that it accepts inherit it
            self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.connections: set[socket.socket] = set()
        self.seen: list[Seen] = []
        self.script: deque[Reply] = deque()
        self.otherwise: Reply = answer()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.shutdown()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()


def answer(content: bytes = GOOD, status: int = 200, **headers: str) -> Reply:
    """Send a correct answer; write header names with _ for -."""
    fields = {"Content_Type": "application/json", "Content_Length": str(len(content))} | headers

    def reply(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)
        handler.wfile.flush()

    return reply


def error(text: str, status: int, **headers: str) -> Reply:
    return answer(json.dumps({"error": text}).encode(), status, **headers)


def raw(*parts: bytes, pause: float = 0.0, end: str = "close") -> Reply:
    """Send raw bytes with pauses; then close, reset, or stall until the client disconnects."""

    def reply(handler: Handler) -> None:
        handler.close_connection = True
        for part in parts:
            handler.connection.sendall(part)
            if pause and handler.server.over.wait(pause):
                return
        if end == "stall":
            handler.connection.settimeout(20)
            handler.connection.recv(1)
        elif end == "reset":
            handler.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            # The handler's file objects keep the socket open; this closes it nevertheless.
            socket.socket(fileno=handler.connection.detach()).close()

    return reply
