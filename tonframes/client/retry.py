"""The loop around a request: it ends with a value, or with an error that says why.

A public service drops connections, limits the rate, shows HTML when it is ill and cuts bodies
short under status 200. So one loop goes around all of a request (the exchange, the status, the
body and the caller's `parse`) and asks again while that can help:

===================================================  =============================================
what came                                            what is done
===================================================  =============================================
no answer, or a part of one; 408, 425, 429, 5xx;     asked again until the deadline
422 with a text about the database; 200 with HTML
or without a body
200 that `parse` refuses; 2xx; a 404 that the        asked again, `DOUBTS` times altogether
service did not write
404 that it wrote: nothing there, or not yet         an error at once, `status` 404, `retryable`
3xx; other 4xx; 5xx with a text about the            an error at once
arguments; a body too large
===================================================  =============================================
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from tonframes.client.answers import Failure, Verdict, judge
from tonframes.client.rate import Clock, Rate, StoppedError
from tonframes.client.transport import Site, TooLargeError, Transport, TransportError
from tonframes.errors import RequestError, TonframesError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: How often a body that cannot be used is fetched before it is taken for what the service says.
DOUBTS = 6
#: Bound of the wait between two attempts, but for what Retry-After asks.
LONGEST_BACKOFF = 30.0
#: First wait between two attempts at a service without a limit of its rate.
SHORTEST_BACKOFF = 0.05
#: Longest wait that Retry-After is granted.
LONGEST_RETRY_AFTER = 120.0
#: Characters of what the service said that a message quotes.
QUOTED = 200


class TooLongError(RequestError):
    """The URL was too long for the service or for what stands before it."""


class Key(str):
    """A key that logs and debuggers do not print; only the wire gets its letters.

    Examples
    --------
    >>> print({"X-API-Key": Key("secret")}, Key("secret"))
    {'X-API-Key': '***'} '***'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a client did so far; seconds are summed over threads.

    Attributes
    ----------
    requests
        Requests sent.
    retries
        Those of them that repeated another.
    seconds_paced
        Spent waiting for a turn at the client's pace.
    seconds_waited
        Spent waiting after a failure.
    """

    requests: int = 0
    retries: int = 0
    seconds_paced: float = 0.0
    seconds_waited: float = 0.0


class Retry:
    """Pursues the answers of one service, from any number of threads, at one pace.

    Parameters
    ----------
    site
        Where the service is.
    headers
        Sent with every request.
    key
        The key among the headers, to be cut out of what the service says.
    rate
        Requests per second, retries included.
    timeout
        Seconds that connecting may take, and that an answer may pause.
    deadline
        Seconds that all attempts and waits of a request may take, but for those for a turn.
    """

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
        self._key = key
        self._timeout = timeout
        self.deadline = deadline
        # An answer that drips must leave time for another attempt.
        self._longest_attempt = max(timeout, deadline / 3)
        self._first_backoff = max(1 / rate, SHORTEST_BACKOFF)
        self._clock = Clock()
        self._pace = Rate(rate, self._clock)
        self._transport = Transport(site, headers, stopped=lambda: self._clock.stopped)
        self._counting = Lock()
        self.statistics = Statistics()

    def ask(self, url: str, question: str, parse: Callable[[bytes], T]) -> T:
        """Ask until there is a value, or no hope or no time for one.

        Parameters
        ----------
        url
            What is asked for.
        question
            The same for people: the beginning of every error.
        parse
            Turns the body of an answer into the value, or raises a `TonframesError`.
        """
        try:
            outcome = self._pursue(url, question, parse)
        except StoppedError:
            outcome = _Error(RequestError(f"{question}: the client was closed", retryable=True))
        # Raised outside of any handler, the error drags no other behind it, nor its frames.
        if isinstance(outcome, _Error):
            raise outcome.error
        return outcome

    def wait(self, seconds: float) -> None:
        """Wait; closing ends it in a `RequestError`."""
        try:
            self._clock.sleep(seconds)
        except StoppedError:
            raise RequestError("the client was closed", retryable=True) from None

    def close(self) -> None:
        """Close the connections, and end what is under way in other threads."""
        self._clock.stop()
        self._transport.close()

    def _pursue(self, url: str, question: str, parse: Callable[[bytes], T]) -> T | _Error:
        clock = self._clock
        began = clock.now()
        # The last wait is cut so that another attempt fits before the deadline.
        ends, reserve = began + self.deadline, min(self._timeout, self.deadline / 4)
        attempt, doubts, waited = 0, 0, 0.0
        while True:
            attempt += 1
            paced = self._pace.take_turn()
            # That many threads queue for a turn is no failing of the service.
            ends += paced
            self._count(requests=1, retries=int(attempt > 1), seconds_paced=paced)
            outcome = self._attempt(url, parse, ends - clock.now())
            if not isinstance(outcome, Failure):
                self._pace.recover()
                return outcome
            left = ends - reserve - clock.now()
            asked = min(outcome.retry_after, LONGEST_RETRY_AFTER)
            wait = max(0.0, min(max(asked, self._backoff(attempt)), left))
            if outcome.status == HTTPStatus.TOO_MANY_REQUESTS:
                # What Retry-After says holds for everybody who uses the key.
                self._pace.slow_down(min(asked, wait))
            doubts += outcome.verdict is Verdict.DOUBTFUL
            may_help = outcome.verdict in {Verdict.PASSING, Verdict.DOUBTFUL}
            if not may_help or doubts == DOUBTS or left <= 0:
                effort = f"{attempt} attempt{'s' * (attempt > 1)} in {clock.now() - began:.1f} s"
                if waited:
                    effort += f", {waited:.1f} s of it waiting"
                return _Error(self._error(question, outcome, effort))
            _log.info("%s: %s; asking again in %.1f s", question, self._say(outcome), wait)
            clock.sleep(wait)
            waited += wait
            self._count(seconds_waited=wait)

    def _attempt(self, url: str, parse: Callable[[bytes], T], left: float) -> T | Failure:
        seconds = min(self._longest_attempt, max(left, 0.001))
        try:
            answer = self._transport.get(url, seconds=seconds, silence=self._timeout)
        except TransportError as error:
            if self._clock.stopped:
                raise StoppedError from None
            return Failure(Verdict.PASSING, str(error), hint="check base_url and the network")
        except TooLargeError as error:
            return Failure(Verdict.FINAL, str(error), hint="ask for fewer rows or addresses")
        failure = judge(answer, url)
        if failure is not None:
            return failure
        try:
            return parse(answer.body)
        except TonframesError as error:
            return Failure(Verdict.DOUBTFUL, str(error), answer.status, cause=error)

    def _backoff(self, attempt: int) -> float:
        """Choose a wait: the first one, and a part by chance of a bound that doubles."""
        bound = min(self._first_backoff * 2**attempt, LONGEST_BACKOFF)
        spread = random.uniform(0, bound)  # noqa: S311 (chance keeps threads apart, no secrets)
        return self._first_backoff + spread

    def _say(self, failure: Failure) -> str:
        """Word a failure: in one line, cut, and without the key, should the service quote it."""
        said = failure.reason if self._key is None else failure.reason.replace(self._key, "***")
        said = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in said)
        said = said if len(said) <= QUOTED else said[: QUOTED - 1] + "…"
        return said if failure.status is None else f"status {failure.status}, {said}"

    def _error(self, question: str, failure: Failure, effort: str) -> TonframesError:
        if failure.cause is not None:
            failure.cause.add_note(f"{question}: {effort}")
            return failure.cause
        message = f"{question}: {self._say(failure)}; {effort}"
        if failure.retry_after > LONGEST_RETRY_AFTER:
            message += (
                f"; the service asked to wait {failure.retry_after:.0f} s, of which "
                f"{LONGEST_RETRY_AFTER:.0f} s at most are granted"
            )
        hint = failure.hint
        if failure.status == HTTPStatus.TOO_MANY_REQUESTS:
            hint = (
                "pass api_key for a higher limit"
                if self._key is None
                else "lower requests_per_second: the keys of a plan share its limit"
            )
        if hint:
            message += f"; {hint}"
        kind = TooLongError if failure.verdict is Verdict.TOO_LONG else RequestError
        retryable = failure.verdict in {Verdict.PASSING, Verdict.ABSENT}
        return kind(message, status=failure.status, retryable=retryable)

    def _count(self, **more: float) -> None:
        with self._counting:
            now = self.statistics
            sums = {name: getattr(now, name) + value for name, value in more.items()}
            self.statistics = replace(now, **sums)


@dataclass(frozen=True, slots=True)
class _Error:
    """An error on its way out of the loop, to be told from a value."""

    error: TonframesError
