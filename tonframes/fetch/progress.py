"""Show the progress of a long call: a bar in a terminal or a notebook, lines in a log."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds between two lines in a log.
LOG_INTERVAL = 10.0


class Progress(Protocol):
    """Takes the number of items that have been done."""

    def advance(self, done: int, **details: object) -> None:
        """Add to the number of items done; show details beside it."""


@contextmanager
def progress(total: int, unit: str, *, show: bool | None) -> Iterator[Progress]:
    """Show progress while the block runs.

    Parameters
    ----------
    total
        Number of items.
    unit
        What the items are.
    show
        True shows it, False does not; None shows a bar in a terminal or a notebook, and nothing
        elsewhere.
    """
    notebook = _in_notebook()
    live = notebook or sys.stderr.isatty()
    if not (live if show is None else show) or not total:
        yield Silent()
    elif live:
        with _bar(notebook=notebook)(total=total, unit=unit, dynamic_ncols=True) as bar:
            yield _Bar(bar)
    else:
        lines = _Lines(total, unit)
        yield lines
        lines.say()


class Silent:
    """Shows nothing."""

    def advance(self, done: int, **details: object) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, bar: object) -> None:
        self._bar = bar

    def advance(self, done: int, **details: object) -> None:
        self._bar.set_postfix(details, refresh=False)  # type: ignore[attr-defined]
        self._bar.update(done)  # type: ignore[attr-defined]


class _Lines:
    def __init__(self, total: int, unit: str) -> None:
        self._total, self._unit, self._done = total, unit, 0
        self._details: dict[str, object] = {}
        self._next = time.monotonic() + LOG_INTERVAL

    def advance(self, done: int, **details: object) -> None:
        self._done += done
        self._details = details
        if time.monotonic() >= self._next:
            self._next += LOG_INTERVAL
            self.say()

    def say(self) -> None:
        details = "".join(f", {name} {value}" for name, value in self._details.items())
        sys.stderr.write(f"{self._done} of {self._total} {self._unit}{details}\n")


def _bar(*, notebook: bool) -> type:
    if notebook:
        from tqdm.notebook import tqdm  # noqa: PLC0415 - warns without ipywidgets
    else:
        from tqdm import tqdm  # type: ignore[assignment] # noqa: PLC0415
    return tqdm


def _in_notebook() -> bool:
    """Return whether this runs in a notebook's kernel with widgets."""
    ipython = sys.modules.get("IPython")
    if ipython is None or "ipykernel" not in sys.modules:
        return False
    from importlib.util import find_spec  # noqa: PLC0415 - asked only in a kernel

    return ipython.get_ipython() is not None and find_spec("ipywidgets") is not None
