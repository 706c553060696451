"""Repeat a request until it returns a value or an error that cannot be retried.

A public service drops connections, limits the rate, answers with HTML when it has problems, and
truncates answers of status 200. So one loop covers the whole request (the exchange, the status,
the content and the caller's `parse`) and sends it again while that can help:

===================================================  =============================================
answer                                               action
===================================================  =============================================
none, or a part of one; 304, 408, 425, 429, 5xx;     repeat until the deadline
422 with a text about the database; 200 with HTML
or without content
200 that `parse` refuses; other 2xx; a 404 that the  repeat, at most `DOUBTS` attempts
service did not write
404 that it wrote: nothing there, or not yet         raise an error, `status` 404, `retryable`
other 3xx and 4xx; 5xx with a text about the         raise an error
arguments; an answer that is too large
===================================================  =============================================
"""

from __future__ import annotations

import logging
import os
import random
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from tonframes import deadline
from tonframes.client.answers import Failure, Verdict, judge
from tonframes.client.rate import Clock, Rate, StoppedError
from tonframes.client.transport import Transport
from tonframes.errors import RequestError, TonframesError
from tonframes.inert import inert

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tonframes.client.arguments import Site
    from tonframes.client.rate import Turn
    from tonframes.masking import Key

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Attempts at an answer that cannot be used, until it is taken as the service's final answer.
DOUBTS = 6
#: Longest wait between two attempts, unless Retry-After asks for more.
LONGEST_BACKOFF = 30.0
#: First wait between two attempts if the service has no rate limit.
SHORTEST_BACKOFF = 0.05
#: Longest wait that is accepted from Retry-After.
LONGEST_RETRY_AFTER = 120.0
#: Seconds after which a host is given up that has never answered, and is unknown or refuses
#: connections.
UNREACHABLE = 8.0
#: Longest quotation of the service's text in a message, in characters.
QUOTED = 200
#: Share of the newest attempt in the average of the seconds that attempts take.
NEWEST = 0.1

_STOPPED = "the client was closed, or the fetch ended"


class TooLongError(RequestError):
    """The URL was too long for the service, or for a gateway before it."""


class TooSlowError(RequestError):
    """The answer did not come in time; one with fewer rows may."""


class LargeAnswerError(RequestError):
    """The answer is too large; one with fewer rows may not be."""


class UnknownOperationError(RequestError):
    """The service does not have the operation."""


_PASSING = {Verdict.PASSING, Verdict.SLOW, Verdict.UNREACHABLE}
_DOUBTFUL = {Verdict.DOUBTFUL, Verdict.NOT_FOUND}
_ERRORS = {
    Verdict.TOO_LONG: TooLongError,
    Verdict.SLOW: TooSlowError,
    Verdict.TOO_LARGE: LargeAnswerError,
    Verdict.UNKNOWN: UnknownOperationError,
    Verdict.NOT_FOUND: UnknownOperationError,
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a client has done so far.

    Attributes
    ----------
    requests
        Requests sent.
    retries
        Requests among them that repeated another one.
    seconds_paced
        Seconds waited for the rate limit, summed over threads.
    seconds_waited
        Seconds waited after failures, summed over threads.
    seconds_paused
        Seconds in which threads waited, for either, and no request was under way.
    """

    requests: int = 0
    retries: int = 0
    seconds_paced: float = 0.0
    seconds_waited: float = 0.0
    seconds_paused: float = 0.0

    def __add__(self, other: Statistics) -> Statistics:
        own = asdict(self)
        return Statistics(**{name: own[name] + value for name, value in asdict(other).items()})


class Counter:
    """Counts what threads do, and how long none of them has a request under way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._statistics = Statistics()
        self._waiting = self._sending = 0
        self._since = clock.now()

    @property
    def statistics(self) -> Statistics:
        """What has been done until now."""
        self._change()
        return self._statistics

    def add(self, done: Statistics) -> None:
        """Count what was done."""
        with self._lock:
            self._statistics += done

    @contextmanager
    def during(self, *, waiting: int = 0, sending: int = 0) -> Iterator[None]:
        """Count the time as that of a thread that waits, or of a request under way."""
        self._change(waiting, sending)
        try:
            yield
        finally:
            self._change(-waiting, -sending)

    def _change(self, waiting: int = 0, sending: int = 0) -> None:
        with self._lock:
            now = self._clock.now()
            if self._waiting and not self._sending:
                paused = self._statistics.seconds_paused + now - self._since
                self._statistics = replace(self._statistics, seconds_paused=paused)
            self._since = now
            self._waiting += waiting
            self._sending += sending


class Retry:
    """Sends requests to one service and repeats them; threads share one rate limit."""

    def __init__(
        self,
        site: Site,
        headers: dict[str, str],
        key: Key | None,
        *,
        rate: float,
        timeout: float,
        deadline: float,
    ) -> None:
        self.key = key
        self.timeout = timeout
        self.deadline = deadline
        # A very slow answer must leave time for another attempt.
        self._longest_attempt = max(timeout, deadline / 3)
        self._first_backoff = max(1 / rate, SHORTEST_BACKOFF)
        self._clock = Clock()
        self._rate = Rate(rate, self._clock)
        self._transport = Transport(site, headers, key, stopped=lambda: self._clock.stopped)
        self._answered = False
        self._counter = Counter(self._clock)
        self.seconds: float | None = None
        self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked after the client was made."""
        return os.getpid() != self._process

    def _check_process(self) -> None:
        # A lock that another thread had at the fork is never released here.
        if self.is_forked:
            raise RequestError(
                "a Client cannot be used in a process that was forked after it was made, because "
                "its connections, rate limit and locks are those of the first process: make one "
                "in each process"
            )

    @property
    def counter(self) -> Counter:
        """What has been done so far."""
        self._check_process()
        return self._counter

    @property
    def rate(self) -> Rate:
        """The rate limit."""
        self._check_process()
        return self._rate

    def wait(self, seconds: float) -> None:
        """Wait; raise a `RequestError` as soon as the client is closed."""
        self._check_process()
        try:
            self._clock.sleep(seconds)
        except StoppedError:
            raise RequestError(_STOPPED, retryable=True) from None

    def close(self) -> None:
        """Close the connections, and end the requests of other threads."""
        if not self.is_forked:
            self._clock.stop()
            self._transport.close()

    def ask(
        self,
        url: str,
        question: str,
        parse: Callable[[bytes], T],
        final: Collection[Verdict] = (),
    ) -> T:
        """Send a request until it returns a value, cannot succeed, or the deadline is over.

        Every error message begins with `question`. After the failures in `final` it is not sent
        again, nor after those that are always final.
        """
        self._check_process()
        try:
            return self._repeat(url, question, parse, final)
        except StoppedError:
            raise RequestError(f"{question}: {_STOPPED}", retryable=True) from None

    def _repeat(
        self, url: str, question: str, parse: Callable[[bytes], T], final: Collection[Verdict]
    ) -> T:
        clock = self._clock
        began = clock.now()
        # The last wait is shortened so that one more attempt fits before the deadline.
        ends, reserve = began + self.deadline, min(self.timeout, self.deadline / 4)
        attempt, doubts, waited = 0, 0, 0.0
        while True:
            attempt += 1
            with self._counter.during(waiting=1):
                turn = self._rate.take_turn()
            # A queue of many threads is not the service's fault: it does not use up the deadline.
            ends += turn.seconds
            self._counter.add(Statistics(1, int(attempt > 1), seconds_paced=turn.seconds))
            sent = clock.now()
            with self._counter.during(sending=1):
                outcome = self._attempt(url, parse, ends - sent, turn)
            took = clock.now() - sent
            average = took if self.seconds is None else self.seconds
            self.seconds = average + NEWEST * (took - average)
            if not isinstance(outcome, Failure):
                self._rate.recover()
                return outcome
            if outcome.verdict is Verdict.UNREACHABLE and not self._answered:
                # The deadline is for services that have answered before.
                ends = min(ends, began + reserve + UNREACHABLE)
            left = ends - reserve - clock.now()
            asked = min(outcome.retry_after, LONGEST_RETRY_AFTER)
            # The shortest wait plus a random part of a bound that doubles.
            bound = min(self._first_backoff * 2**attempt, LONGEST_BACKOFF)
            backoff = self._first_backoff + random.uniform(0, bound)  # noqa: S311 (no secret)
            wait = max(0.0, min(max(asked, backoff), left))
            if outcome.status == HTTPStatus.TOO_MANY_REQUESTS:
                # Retry-After applies to all threads that use the key.
                self._rate.slow_down(min(asked, wait))
            doubts += outcome.verdict in _DOUBTFUL
            may_help = outcome.verdict in _PASSING | _DOUBTFUL and outcome.verdict not in final
            if not may_help or doubts == DOUBTS or left <= 0:
                effort = f"{attempt} attempt{'s' * (attempt > 1)} in {clock.now() - began:.1f} s"
                if waited:
                    effort += f", {waited:.1f} s of them waiting"
                # Without a context: the errors of requests and urllib3 quote what they got.
                raise self._error(question, outcome, effort).with_traceback(None) from None
            _log.info("%s: %s; asking again in %.1f s", question, _say(outcome), wait)
            with self._counter.during(waiting=1):
                clock.sleep(wait)
            waited += wait
            self._counter.add(Statistics(seconds_waited=wait))

    def _attempt(
        self, url: str, parse: Callable[[bytes], T], left: float, turn: Turn
    ) -> T | Failure:
        seconds = min(self._longest_attempt, max(left, 0.001))
        with deadline.within(seconds):
            try:
                answer = self._transport.get(
                    url, seconds=seconds, silence=self.timeout, sent=turn.sent
                )
            finally:
                turn.sent()  # also where there was no connection
            if isinstance(answer, Failure):
                if self._clock.stopped:
                    raise StoppedError
                return answer
            self._answered = True
            failure = judge(answer, url)
            if failure is not None:
                return failure
            try:
                return parse(answer.content)
            except TonframesError as error:
                answer.refuse()
                return Failure(Verdict.DOUBTFUL, str(error), answer.status, cause=error)
            except deadline.LateError:
                return Failure(Verdict.SLOW, "reading the answer took too long", answer.status)

    def _error(self, question: str, failure: Failure, effort: str) -> TonframesError:
        if failure.cause is not None:
            failure.cause.add_note(f"{question}: {effort}")
            return failure.cause
        message = f"{question}: {_say(failure)}; {effort}"
        if failure.retry_after > LONGEST_RETRY_AFTER:
            message += (
                f"; the service asked to wait {failure.retry_after:.0f} s, but at most "
                f"{LONGEST_RETRY_AFTER:.0f} s are accepted"
            )
        hint = failure.hint
        if failure.status == HTTPStatus.TOO_MANY_REQUESTS:
            hint = (
                "pass api_key for a higher limit"
                if self.key is None
                else "lower requests_per_second: all keys of a plan share its limit"
            )
        if hint:
            message += f"; {hint}"
        kind = _ERRORS.get(failure.verdict, RequestError)
        retryable = failure.verdict in _PASSING | {Verdict.ABSENT}
        return kind(message, status=failure.status, retryable=retryable)


def _say(failure: Failure) -> str:
    """Return a failure as text: on one line, and shortened."""
    said = inert(failure.reason)
    said = said if len(said) <= QUOTED else said[: QUOTED - 1] + "…"
    return said if failure.status is None else f"status {failure.status}, {said}"
