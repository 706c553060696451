"""Processes that are killed at a moment that is always the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What changes names in a folder.
RENAMES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "pandas", "tonframes.scanning", "tonframes.demo"])


def killed_at_each_rename(work: Callable[..., object], *args: Any) -> Iterator[int]:
    """Call a function in processes that are killed before the first change of a name, the second…

    Yields the number of the change after each of these processes, the last of which is not killed.
    """
    killed, moment = True, 0
    while killed:
        moment += 1
        child = _CONTEXT.Process(target=_until, args=(moment, work, args))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        killed = child.exitcode != 0
        yield moment


def _until(moment: int, work: Callable[..., object], args: tuple[Any, ...]) -> None:
    left = moment

    def strike(event: str, _args: object) -> None:
        nonlocal left
        if event in RENAMES:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(strike)
    work(*args)
