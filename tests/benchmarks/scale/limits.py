"""Run a command in a process of its own, with a limit of memory and of time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How the line of an exception begins; others may follow.
_ERROR = re.compile(r"[\w.]+(Error|Exception): ")
#: Seconds between two looks at the memory of the process.
_WAIT = 0.05


@dataclass(frozen=True, slots=True)
class Taken:
    """What something took; or why there is no result.

    Attributes
    ----------
    seconds, cpu
        Seconds that passed, and those of the processor.
    peak
        MB of memory that the process held at most, above what it held before.
    rows
        Rows of the result.
    failed
        "" or why there is no result: "memory", "time", or the first line of the error.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    rows: int = 0
    failed: str = ""


def in_a_process(command: Sequence[str], *, megabytes: int, seconds: float) -> Taken:
    """Run a command that prints what it took, and stop it at a limit.

    What it has spilled to the disk is removed, also if it was killed.
    """
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": scratch},
        ) as process,
    ):
        stopped = _watch(process, megabytes, seconds)
        out, error = process.communicate()
    if stopped:
        return Taken(failed=stopped)
    if process.returncode:
        lines = error.strip().splitlines() or [f"exit code {process.returncode}"]
        said = next((line for line in lines if _ERROR.match(line)), lines[-1])
        return Taken(failed=re.sub(r'"[^"]*"', "…", said)[:200])  # paths of this machine
    return Taken(**json.loads(out.strip().splitlines()[-1]))


def _watch(process: subprocess.Popen[str], megabytes: int, seconds: float) -> str:
    """Wait for a process, and kill it at a limit; return which one that was."""
    end = time.monotonic() + seconds
    while process.poll() is None:
        reached = "time" if time.monotonic() > end else ""
        if _held(process.pid) > megabytes:
            reached = "memory"
        if reached:
            process.kill()
            return reached
        time.sleep(_WAIT)
    return ""


def _held(process: int | str, field: str = "VmRSS") -> int:
    """Return how many MB a process holds, or held at most (VmHWM); 0 if that is not known."""
    try:
        status = Path(f"/proc/{process}/status").read_text("ascii")
    except OSError:
        return 0
    _, _, rest = status.partition(f"{field}:")
    return int(rest.split()[0]) * 1024 // 1_000_000 if rest else 0


class Clock:
    """Measures what the code in a `with` block takes."""

    def __enter__(self) -> Self:
        with suppress(OSError):  # the peak so far is forgotten
            Path("/proc/self/clear_refs").write_text("5", "ascii")
        self.rows = 0
        self._before = _held("self")
        self._start, self._used = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        seconds, cpu = time.perf_counter() - self._start, time.process_time() - self._used
        peak = max(0, _held("self", "VmHWM") - self._before)
        print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "rows": self.rows}))
