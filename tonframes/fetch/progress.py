"""Show the progress of a long call: a bar in a terminal or a notebook, lines in a log."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.client import Client

#: Seconds between two lines in a log.
LOG_INTERVAL = 10.0


class Progress(Protocol):
    def advance(self, done: int, **details: object) -> None: ...


class Counted:
    """Counts transactions, and tells a bar of them, of retries and of pauses."""

    def __init__(self, client: Client, bar: Progress) -> None:
        self._client, self._bar = client, bar
        self.transactions = 0

    def add(self, items: int, transactions: int) -> None:
        self.transactions += transactions
        statistics = self._client.statistics
        self._bar.advance(
            items,
            transactions=self.transactions,
            retries=statistics.retries,
            paused=f"{statistics.seconds_paused:.0f} s",
        )


@contextmanager
def progress_bar(total: int, unit: str, *, show: bool | None) -> Iterator[Progress]:
    """Show progress while the block runs; with `show` None, in a terminal or a notebook only."""
    notebook = _in_notebook()
    live = notebook or sys.stderr.isatty()
    if not (live if show is None else show) or not total:
        yield Silent()
    elif live:
        if notebook:
            from tqdm.notebook import tqdm  # noqa: PLC0415 - warns without ipywidgets
        else:
            from tqdm import tqdm  # type: ignore[assignment] # noqa: PLC0415
        with tqdm(total=total, unit=unit, dynamic_ncols=True) as bar:
            yield _Bar(bar)
    else:
        lines = _Lines(total, unit)
        yield lines
        lines.say()


class Silent:
    def advance(self, done: int, **details: object) -> None: ...


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


def _in_notebook() -> bool:
    """Whether this runs in a notebook's kernel with widgets."""
    ipython = sys.modules.get("IPython")
    if ipython is None or "ipykernel" not in sys.modules:
        return False
    from importlib.util import find_spec  # noqa: PLC0415 - asked only in a kernel

    return ipython.get_ipython() is not None and find_spec("ipywidgets") is not None
