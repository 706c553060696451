"""Executors, and what happens to their workers: they are killed, interrupted, or wait.

A service here has `requests`, how many it has had, and `otherwise`, which answers them.
"""

from __future__ import annotations

import _thread
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fault_server import FaultServer


def pool(kind: str, count: int = 2):
    if kind == "threads":
        return ThreadPoolExecutor(count)
    if kind == "fork":
        return ProcessPoolExecutor(count, mp_context=get_context("fork"))
    return ProcessPoolExecutor(count, mp_context=get_context("forkserver"))


def children() -> list[int]:
    """Return the processes of ours that loky has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"popen_loky" in command:
            found.append(int(folder.name))
    return found


def killing(service: FaultServer, condition, victims=children) -> list[int]:
    """Kill one of the workers at each request that meets a condition; return the killed ones."""
    killed: list[int] = []
    usual = service.otherwise

    def reply(handler) -> None:
        if condition(handler.path):
            for worker in victims()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
        usual(handler)

    service.otherwise = reply
    return killed


def slowed(service: FaultServer, after: int) -> None:
    usual = service.otherwise

    def reply(handler) -> None:
        if service.requests > after:
            service.over.wait(1)
        usual(handler)

    service.otherwise = reply


def pressing(service: FaultServer, after: int) -> list[int]:
    """Press Ctrl-C once after so many requests; return at which one."""
    usual = service.otherwise
    pressed: list[int] = []

    def reply(handler) -> None:
        if service.requests > after and not pressed:
            pressed.append(service.requests)
            _thread.interrupt_main()
        usual(handler)

    service.otherwise = reply
    return pressed


def until(condition, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)
