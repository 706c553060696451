"""One task of a fetch, as a worker of an executor does it: in a thread, a process, or elsewhere."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakSet

from tonframes.errors import StoreError
from tonframes.fetch.shown import shown
from tonframes.store import store_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tonframes.client import Client, ClientSettings, Recent, Statistics
    from tonframes.errors import TonframesError
    from tonframes.fetch.shown import Known
    from tonframes.store import AnyStore

#: The clients of the tasks of this process.
_running: WeakSet[Client] = WeakSet()
_ended = threading.Event()


class Result(Protocol):
    """What a task returns."""

    @property
    def error(self) -> TonframesError | None:
        """The error that ended it."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it, which the terminal sends to all its processes."""


R_co = TypeVar("R_co", bound=Result, covariant=True)


class Task(Protocol[R_co]):
    """A part of a fetch, which a worker can do; it can be pickled."""

    @property
    def name(self) -> str:
        """What it fetches, for messages."""

    @property
    def missing(self) -> tuple[object, ...]:
        """What is missing without it."""

    def __call__(self, client: Client) -> R_co:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of another process."""

    text: str
    kind: type[Warning]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Report(Generic[R_co]):
    """What a worker tells after a task: its result, and what the client did and learned."""

    result: R_co
    statistics: Statistics
    recent: Recent
    known: Known
    warned: tuple[Warned, ...]


def work(task: Task[R_co], settings: ClientSettings, known: Known) -> Report[R_co]:
    """Do a task with a client of its own."""
    with _noting() as warned:
        with settings.client() as client:
            shown(client).learn(known)
            _running.add(client)
            if _ended.is_set():
                client.close()
            result = task(client)
        return Report(
            result, client.statistics, client.recent, shown(client).known, tuple(map(_told, warned))
        )


def open_store(path: Path, network: str | None) -> AnyStore:
    """Return the store that tasks were made for, as a worker sees it.

    Raises
    ------
    StoreError
        It is not there, or is of another network.
    """
    store = store_at(path)
    if not path.exists() or store.network != network:
        raise StoreError(
            f"a worker does not see the store {path} of the network {network}: all workers must "
            "have it at the same path, on a file system that they share",
            path=path,
        )
    return store


def end_work() -> None:
    """End the tasks of this process: they commit what is proven, and ask for nothing more."""
    _ended.set()
    for client in list(_running):
        client.close()


@contextmanager
def _noting() -> Iterator[list[warnings.WarningMessage]]:
    """Take the warnings of a process that does one task at a time; nobody sees what it prints."""
    is_alone = threading.current_thread() is threading.main_thread()
    if not is_alone or multiprocessing.parent_process() is None:
        yield []
        return
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield warned


def _told(warned: warnings.WarningMessage) -> Warned:
    return Warned(str(warned.message), warned.category, warned.filename, warned.lineno)
