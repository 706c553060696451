"""A process that is forked while threads of the first one use a client."""

from __future__ import annotations

import os
import time
from threading import Thread

import pytest
from fault_server import FaultServer, raw

from tonframes.client import Client
from tonframes.errors import RequestError

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    # Python 3.12 and later warn of a fork while there are threads.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def in_child(work, seconds=10):
    """Fork; return what `work` returns in the child, or "hangs"."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, work().encode())
        finally:
            os._exit(0)
    os.close(write)
    ends = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return "hangs"
        time.sleep(0.01)
    with os.fdopen(read) as pipe:
        return pipe.read()


def asked(client):
    try:
        return str(client.masterchain_info(bytes))
    except RequestError as error:
        return str(error)


@pytest.mark.parametrize(
    "use",
    [
        asked,
        repr,
        lambda client: client._repr_html_(),
        lambda client: f"closed {client.close()}",
    ],
    ids=["ask", "repr", "html", "close"],
)
def test_a_forked_process_refuses_the_client_and_does_not_hang(use):  # F77
    with FaultServer() as server, Client(server.url, requests_per_second=0.5) as client:
        server.otherwise = raw(end="stall")
        threads = [Thread(target=asked, args=[client]) for _ in range(8)]
        for thread in threads:
            thread.start()
        counter, turn = client._retry._counter._lock, client._retry._rate._turn
        while not (turn.locked() and server.seen):
            time.sleep(0.01)
        with counter:  # as a thread may have it at any time
            assert turn.locked()
            said = in_child(lambda: use(client))
        assert any(word in said for word in ("process", "closed None"))
        requests = len(server.seen)
        assert requests == 1
        client.close()
        for thread in threads:
            thread.join()


def test_a_forked_process_makes_a_client_of_its_own():  # F77
    with FaultServer() as server, Client(server.url) as client:
        assert asked(client) == in_child(lambda: asked(Client(server.url)))
        assert "make one in each process" in in_child(lambda: asked(client))
        assert len(server.seen) == 2
