"""Hand tasks to the workers of an executor: share out the rate limit, repeat what is lost."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import Counter, deque
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from tonframes.errors import (
    IncompleteError,
    RequestError,
    TonframesError,
    TonframesWarning,
    shorten,
    warn,
)
from tonframes.fetch.network import observed
from tonframes.fetch.workers import (
    Processes,
    Report,
    Result,
    cores,
    is_daemon,
    processes_pay,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tonframes.client import Client, ClientSettings, Recent
    from tonframes.fetch.workers import Task, Warned

R = TypeVar("R", bound=Result)

ExecutorOption = Executor | int | None

#: Tasks of each worker at least, if there is enough to do.
FEWEST_TASKS = 4
#: How often a worker may be lost with a task until the task is given up.
MOST_LOST = 3
#: Seconds between looks at whether Ctrl-C was pressed.
LOOK = 0.2
#: Seconds that workers of our own have after Ctrl-C to commit what is proven.
GRACE = 5.0


def check_executor(executor: object) -> None:
    is_count = isinstance(executor, int) and not isinstance(executor, bool)
    if executor is not None and not is_count and not isinstance(executor, Executor):
        raise TypeError(
            "executor is a concurrent.futures.Executor, a number of processes, or None, not "
            f"{shorten(executor)}"
        )
    if isinstance(executor, int) and executor < 1:
        raise ValueError(f"executor is {executor}: expected at least 1 process")


def workers_for(executor: ExecutorOption, client: Client, *, is_large: bool) -> Executor | int:
    """Return who does a fetch, the fastest if the caller does not say; 1 is this process alone."""
    if executor is None:
        executor = cores() if is_large and processes_pay(client) else 1
    return 1 if isinstance(executor, int) and is_daemon() else executor


def workers_of(executor: Executor | int) -> int:
    """Return how many tasks the workers of an executor can do at once."""
    if isinstance(executor, int):
        return executor
    for name in ("_max_workers", "num_workers"):  # of Python and of loky, of mpi4py
        if isinstance(count := getattr(executor, name, None), int) and count > 0:
            return count
    threads = getattr(getattr(executor, "_client", None), "nthreads", None)  # of Dask
    return (sum(threads().values()) if threads else 0) or cores()


def per_task(count: int, workers: int, *, most: int) -> int:
    """Return how many of so many files or accounts a task has, so that all workers are busy."""
    return max(1, min(most, count // (FEWEST_TASKS * workers)))


def most_telling(errors: Sequence[TonframesError]) -> TonframesError:
    """Return the error that says most: others are of requests that it has ended."""
    return next((error for error in errors if not isinstance(error, RequestError)), errors[0])


class Spread(Generic[R]):
    """Tasks, and the workers that do them: processes of our own if a number of them is given."""

    def __init__(self, executor: Executor | int, client: Client, tasks: Iterable[Task[R]]) -> None:
        self._executor = executor if isinstance(executor, Executor) else None
        self._client = client
        self._waiting = deque(tasks)
        self._shares = _Shares(client, workers_of(executor))
        self._running: dict[Future[Report[R]], tuple[Task[R], _Share]] = {}
        self._own: Processes | None = None
        self._lost: Counter[Task[R]] = Counter()
        self._suspects: set[Task[R]] = set()  # tasks that were under way when a pool broke
        self._warned: set[Warned] = set()
        self._ending = False
        #: Of the tasks with which workers were lost again and again.
        self.failures: list[IncompleteError] = []

    def results(self) -> Iterator[R]:
        """Yield what tasks return, as they end; after the first error no further task begins."""
        try:
            while self._waiting or self._running:
                self._submit()
                done, _ = wait(self._running, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    task, share = self._running.pop(future)
                    report = self._report(future, task, share)
                    if report is None:
                        continue
                    if report.result.error is not None:
                        self._stop()
                    yield report.result
        except BaseException:
            self._stop()
            for future in self._running:
                future.cancel()
            if self._own is not None:
                wait(self._running, timeout=GRACE)
            raise
        finally:
            self._close(kill=not all(future.done() for future in self._running))

    def _submit(self) -> None:
        """Give tasks to workers, as many as they can do at once."""
        while self._waiting and self._shares.free:
            # One of the tasks that were under way when a pool broke has broken it. Each of them is
            # done alone, so that it shows which.
            alone = self._waiting[0] in self._suspects
            if self._running and (alone or self._suspects & {t for t, _ in self._running.values()}):
                return
            task, share = self._waiting.popleft(), self._shares.take()
            settings, known = self._shares.settings(share), observed(self._client).known
            try:
                future = self._workers().submit(work, task, settings, known)
            except BrokenExecutor:
                self._waiting.appendleft(task)
                self._shares.give(share, share.now())
                if self._running:  # they tell that it broke, and are done again
                    return
                self._replace()
            except Exception as error:
                raise self._failed(task, error) from error
            else:
                self._running[future] = task, share

    def _report(self, future: Future[Report[R]], task: Task[R], share: _Share) -> Report[R] | None:
        """Return what a worker tells; None if it was lost, and its task is to be done again."""
        try:
            report = future.result()
        except (BrokenExecutor, CancelledError, asyncio.CancelledError) as error:
            self._lose(task, share, error)
            return None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # of Dask, which need not be there
                self._lose(task, share, error)
                return None
            raise self._failed(task, error) from error
        if not isinstance(report, Report):
            raise self._failed(task, TypeError(f"a task returned {shorten(report)}"))
        self._shares.give(share, report.recent)
        self._client.take_over(report.statistics, report.recent)
        observed(self._client).learn(report.known)
        for warned in report.warned:
            if warned in self._warned:
                continue
            self._warned.add(warned)
            if issubclass(warned.kind, TonframesWarning):
                warn(warned.text)
            else:
                warnings.warn_explicit(warned.text, warned.kind, warned.file, warned.line)
        if report.result.interrupted:
            self._lose(task, None, KeyboardInterrupt())
            return None
        return report

    def _failed(self, task: Task[R], error: Exception) -> IncompleteError:
        what = f"{type(error).__name__}: {shorten(str(error))}"
        return IncompleteError(
            f"{task.name}: the executor {shorten(self._executor)} failed with {what}. What other "
            "tasks had committed is kept",
            missing=task.missing,
        )

    def _lose(self, task: Task[R], share: _Share | None, error: BaseException) -> None:
        if share is not None:
            self._shares.lose(share)
        if isinstance(error, BrokenExecutor):
            self._suspects.add(task)
            self._replace()
        if self._ending:
            return
        self._lost[task] += 1
        if self._lost[task] < MOST_LOST:
            self._waiting.appendleft(task)
            return
        why = (
            "The executor cancels tasks: is it shut down?"
            if isinstance(error, CancelledError | asyncio.CancelledError)
            else "Most often the system ends a process that takes too much memory: use fewer "
            "workers at the same time"
        )
        self.failures.append(
            IncompleteError(
                f"{task.name}: {MOST_LOST} workers were lost with it, the last one by "
                f"{type(error).__name__}: {shorten(str(error))}. {why}",
                missing=task.missing,
            )
        )

    def _workers(self) -> Executor:
        if self._executor is not None:
            return self._executor
        if self._own is None:
            self._own = Processes(self._shares.count)
            self._own.start()
        return self._own.executor

    def _replace(self) -> None:
        """Go on with new processes of our own: a pool that broke takes no more tasks."""
        if is_daemon():  # which cannot start any
            raise IncompleteError(
                "the pool of the executor broke, and this process is a worker of multiprocessing, "
                "which cannot start other processes: pass executor=1",
                missing=[run for task in self._waiting for run in task.missing],
            )
        self._executor = None
        self._close(kill=True)

    def _close(self, *, kill: bool) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close(kill=kill)

    def _stop(self) -> None:
        """Begin nothing more, and end what is under way in processes of our own."""
        self._ending = True
        self._waiting.clear()
        if self._own is not None:
            self._own.stop()


@dataclass(slots=True)
class _Share:
    """A share of the rate limit, which one task at a time has."""

    rate: float
    #: The requests that were sent with it, as of the moment `since`.
    recent: Recent
    since: float = field(default_factory=time.monotonic)

    def now(self) -> Recent:
        return self.recent.after(time.monotonic() - self.since)


class _Shares:
    """The rate limit of a client, shared out among tasks.

    In whole requests a second: as many requests as the limit allows in any second are then not
    exceeded by all workers together. A share passes from one task to the next with the requests of
    its last second. One worker does not know of a 429 that another one gets; the tasks that begin
    afterwards do.
    """

    def __init__(self, client: Client, workers: int) -> None:
        whole = max(1, int(min(client.requests_per_second, workers)))
        self.count = min(workers, whole, client.in_flight)
        self._settings = replace(
            client.settings, max_in_flight=max(1, client.in_flight // self.count)
        )
        rates = [client.requests_per_second] * self.count
        if self.count > 1 and client.requests_per_second != inf:
            each, more = divmod(int(client.requests_per_second), self.count)
            rates = [each + (i < more) for i in range(self.count)]
        recent = client.recent
        sent = list(recent.sent)
        #: Those that no task has.
        self.free: list[_Share] = []
        for rate in rates:
            most = len(sent) if rate == inf else max(1, int(rate))
            self.free.append(_Share(rate, replace(recent, sent=tuple(sent[:most]))))
            del sent[:most]
        self._all = tuple(self.free)

    def take(self) -> _Share:
        return self.free.pop()

    def settings(self, share: _Share) -> ClientSettings:
        """Return the settings of a client with this share."""
        known = [one.now() for one in self._all]
        recent = replace(
            share.now(),
            slowness=max(one.slowness for one in known),
            pause=max(one.pause for one in known),
        )
        return replace(self._settings, requests_per_second=share.rate, recent=recent)

    def give(self, share: _Share, recent: Recent) -> None:
        share.recent, share.since = recent, time.monotonic()
        self.free.append(share)

    def lose(self, share: _Share) -> None:
        """Give back the share of a worker that was lost: it may have sent all it could."""
        sent = () if share.rate == inf else (0.0,) * max(1, int(share.rate))
        self.give(share, replace(share.recent, sent=sent))
