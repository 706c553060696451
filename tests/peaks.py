"""How much memory some code takes at its peak, measured in a process of its own."""

import subprocess
import sys

# `ru_maxrss` would be that of the process that started this one (getrusage(2), execve(2)).
PROGRAM = """
from pathlib import Path
import tonframes as tf

def peak():
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024

{setup}
Path("/proc/self/clear_refs").write_text("5", "ascii")
before = peak()
{code}
print(peak() - before)
"""


def peak_of(code, setup=""):
    """Return by how many bytes the peak of memory grows while code runs after its setup."""
    command = [sys.executable, "-c", PROGRAM.format(setup=setup, code=code)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


class Repeated:
    """A stream that repeats a text, without end or until it has so many bytes."""

    name = "repeated"

    def __init__(self, text, size=float("inf")):
        self.text, self.left = text, size

    def read(self, size):
        size = int(min(size, self.left))
        self.left -= size
        return (self.text * (size // len(self.text) + 1))[:size]
