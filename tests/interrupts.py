"""Ctrl-C at a time of the test's choice."""

from __future__ import annotations

import signal
from contextlib import contextmanager


@contextmanager
def interrupt(seconds, when=lambda: True):
    """Press Ctrl-C in so many seconds, but not before a condition is met."""

    def press(*_):
        if when():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
