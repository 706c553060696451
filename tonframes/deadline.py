"""The moment at which the work of a thread must end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ends: ContextVar[float] = ContextVar("when the work of this thread must end", default=inf)


class LateError(TimeoutError):
    """The work has not ended in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let the work in this context take no longer than so many seconds."""
    token = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def check() -> None:
    """Raise `LateError` if the work must have ended."""
    if time.monotonic() >= _ends.get():
        raise LateError("took too long")
