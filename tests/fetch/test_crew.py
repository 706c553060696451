"""Threads that end, with their requests, when nobody wants what they fetch any more."""

from __future__ import annotations

import threading
import time

import pytest
from fault_server import FaultServer, error, raw
from interrupts import interrupt

import tonframes as tf
from tonframes.errors import TonframesError
from tonframes.fetch.network import lacks_windows
from tonframes.fetch.workers import Crew


@pytest.fixture
def server():
    check_end()  # of those of other tests
    with FaultServer() as server:
        yield server


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "tonframes"]


def check_end():
    """All threads end soon."""
    ends = time.monotonic() + 10
    while workers() and time.monotonic() < ends:
        time.sleep(0.02)
    assert not workers()


def check_silence(server):
    """All threads end, and the service sees no request after that."""
    check_end()
    before = len(server.seen)
    time.sleep(1)
    assert len(server.seen) == before


@pytest.mark.parametrize("state", ["waiting", "pacing", "reading"])
def test_a_closed_crew_sends_nothing_more(server, state):  # F39
    server.otherwise = raw(end="stall") if state == "reading" else error("ill", 503)
    crew, failures = Crew(), []

    def call():
        try:
            client.masterchain_info(bytes)
        except TonframesError as failure:
            failures.append(str(failure))

    with tf.Client(server.url, requests_per_second=2 if state == "pacing" else 50) as client:
        for _ in range(16):
            crew.run(call)
        time.sleep(0.7)
        assert len(workers()) == 16
        crew.close()
        check_silence(server)
        assert len(failures) == 16
        assert all("the fetch ended" in failure for failure in failures)
        server.otherwise = error("gone", 400)
        with pytest.raises(TonframesError, match="gone"):  # the client itself goes on
            client.masterchain_info(bytes)


@pytest.mark.parametrize("what", ["blocks", "transactions"])
def test_ctrl_c_ends_what_the_threads_ask_of_a_client_that_stays_open(server, what):  # F39
    server.otherwise = error("ill", 503)
    with tf.Client(server.url, requests_per_second=20) as client:
        lacks_windows(client)
        addresses = [f"0:{number:064X}" for number in range(300)]
        fetch, of = {
            "blocks": (tf.fetch_blocks, range(100, 200)),
            "transactions": (tf.fetch_transactions, addresses),
        }[what]
        with pytest.raises(KeyboardInterrupt), interrupt(1, lambda: server.seen):
            fetch(of, client=client, store=None, progress=False)
        assert server.seen
        check_silence(server)


def test_ctrl_c_while_the_threads_start_leaves_none(server, monkeypatch):  # F39
    run = Crew.run
    begun = []

    def interrupted(crew, call):
        run(crew, call)
        begun.append(call)
        if len(begun) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Crew, "run", interrupted)
    with tf.Client(server.url) as client:
        lacks_windows(client)
        with pytest.raises(KeyboardInterrupt):
            tf.fetch_blocks(range(100, 200), client=client, store=None, progress=False)
        assert len(begun) == 3
        check_end()
