"""Ctrl-C at a time of the test's choice."""

from __future__ import annotations

import signal
from contextlib import contextmanager


@contextmanager
def interrupt(seconds):
    """Press Ctrl-C in so many seconds."""

    def press(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
