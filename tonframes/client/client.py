"""The client of an index service: its address, its key, and how fast it is asked."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from math import ceil, inf
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from tonframes import display
from tonframes.client.arguments import check_whole, positive, user_agent
from tonframes.client.limit import PageLimit
from tonframes.client.operations import Operations
from tonframes.client.rate import Recent
from tonframes.client.retry import Retry
from tonframes.client.site import Site
from tonframes.client.size import LARGEST_ANSWER, LARGEST_OF
from tonframes.client.statistics import Statistics
from tonframes.masking import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import NoReturn, Self

    from tonframes.client.answers import Verdict

T = TypeVar("T")

#: Requests per second that TON Center allows without a key, and with a key of its free plan
#: (docs.ton.org, ecosystem/api/toncenter/rate-limit).
RATE_WITHOUT_KEY, RATE_WITH_KEY = 1.0, 10.0
#: Requests under way at a service without a rate limit.
UNLIMITED_IN_FLIGHT = 16
#: What an attempt is taken to last in seconds before the first has.
FIRST_SECONDS = 0.2


class Client(Operations):
    """A client of one index service. It repeats failed requests and limits their rate.

    The methods are named after the service's operations. Each takes a function `parse` that turns
    the content of an answer into the value to return. If `parse` raises `DecodeError` or another
    `TonframesError`, the request is sent again.

    Threads may share a client, and then share its rate limit. A client cannot be pickled, nor used
    after a fork: create one in each process. What a fetch with `executor=` sends to its workers are
    settings, and a share of the rate limit.

    Parameters
    ----------
    base_url
        URL of the service, with or without `/api/v3`; by default the environment variable
        `TONFRAMES_URL`, or TON Center. The environment's proxies are used, except for loopback
        addresses; `.netrc` is not read.
    api_key
        Key of the service. It is sent in the header `X-API-Key`, and only over TLS or within this
        computer. By default the environment variable `TONCENTER_API_KEY`, if the service is TON
        Center.
    requests_per_second
        Rate limit, including retries; `inf` for no limit. Requests are spaced evenly. The default
        for TON Center is 1 without a key and 10 with one, which is what its free plan allows;
        for other services there is no limit. A 429 halves the rate; successful requests raise it
        again, up to the limit.
    timeout
        Longest time to connect, and longest pause within an answer, in seconds.
    deadline
        Longest time for all attempts of a request, with the reading of their answers, and the waits
        between them, in seconds; waits for the rate limit are not counted. A single attempt may
        take a third of it, or `timeout` if that is more.

    max_in_flight
        Most requests under way at the same time while blocks are fetched. Fewer are, if the rate
        limit and the time that an answer takes do not call for so many.

    Attributes
    ----------
    page_limit
        How many rows a page may have: what the service allows, and what it answers in time.

    Raises
    ------
    RequestError
        From each operation: the service does not answer as it should. `status` 404 means that the
        service itself reports that nothing is there: the end of a list, a block that is not
        indexed yet, or a hole.
    DecodeError
        From each operation: every attempt returned an answer that `parse` refused. Other errors
        that `parse` raises are raised as well. A note names the request.

    Examples
    --------
    >>> with Client("https://example.org/api/v3/") as client:
    ...     client
    Client('https://example.org', requests_per_second=inf)
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        requests_per_second: float | None = None,
        timeout: float = 15.0,
        deadline: float = 120.0,
        max_in_flight: int = 64,
    ) -> None:
        # First of all: a traceback may show local variables.
        key = None if api_key is None else Key(api_key)
        del api_key
        if base_url is None:
            base_url = os.environ.get("TONFRAMES_URL") or "https://toncenter.com"
        self._site = Site.parse(base_url)
        if key is None and self._site.is_ton_center and os.environ.get("TONCENTER_API_KEY"):
            key = Key(os.environ["TONCENTER_API_KEY"])
        if key is not None:
            key.check()
            if not self._site.keeps_secrets:
                url = self._site.url
                raise ValueError(f"a key is not sent without encryption: use https, not {url}")
        if requests_per_second is None:
            requests_per_second = inf
            if self._site.is_ton_center:
                requests_per_second = RATE_WITHOUT_KEY if key is None else RATE_WITH_KEY
        self._requests_per_second = positive(requests_per_second, "requests_per_second", most=inf)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": user_agent(),
        }
        check_whole(max_in_flight, "max_in_flight", range(1, 257))
        self._most_in_flight = max_in_flight
        self.page_limit = PageLimit()
        self._retry = Retry(
            self._site,
            headers,
            key,
            rate=self._requests_per_second,
            timeout=positive(timeout, "timeout"),
            deadline=positive(deadline, "deadline"),
        )

    @property
    def base_url(self) -> str:
        """URL of the service, without `/api/v3`."""
        return self._site.url

    @property
    def requests_per_second(self) -> float:
        """The rate limit; infinite if there is none."""
        return self._requests_per_second

    @property
    def deadline(self) -> float:
        """Longest time for all attempts of a request, in seconds."""
        return self._retry.deadline

    @property
    def statistics(self) -> Statistics:
        """Requests, retries and seconds of waiting so far."""
        return self._retry.statistics

    @property
    def recent(self) -> Recent:
        """What must be known to continue the rate limit in another process."""
        return self._retry.recent

    def take_over(self, done: Statistics, recent: Recent) -> None:
        """Count what another client of the same limit has done."""
        self._retry.take_over(done, recent)

    @property
    def settings(self) -> ClientSettings:
        """What another process needs to make an equal client; it may be pickled."""
        return ClientSettings(
            self._site.url,
            self._retry.key,
            requests_per_second=self._requests_per_second,
            timeout=self._retry.timeout,
            deadline=self._retry.deadline,
            max_in_flight=self._most_in_flight,
            rows=self.page_limit.most,
        )

    @property
    def in_flight(self) -> int:
        """How many requests at the same time keep up the rate limit."""
        if self._requests_per_second == inf:
            return min(self._most_in_flight, UNLIMITED_IN_FLIGHT)
        seconds = self._retry.seconds or FIRST_SECONDS
        # Some more than the product: what an answer takes varies.
        needed = 2 + ceil(1.25 * self._requests_per_second * seconds)
        return min(self._most_in_flight, needed)

    @contextmanager
    def hurried(self, seconds: float) -> Iterator[None]:
        """Let requests take no longer than this while the context lasts."""
        before = self._retry.deadline
        self._retry.deadline = min(seconds, before)
        try:
            yield
        finally:
            self._retry.deadline = before

    def wait(self, seconds: float) -> None:
        """Wait before the next request; raise a `RequestError` if the client is closed meanwhile.

        Parameters
        ----------
        seconds
            How long to wait.
        """
        self._retry.wait(seconds)

    def close(self) -> None:
        """Close the connections.

        Requests of other threads end with a `RequestError` within a fifth of a second.
        """
        self._retry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if not hasattr(self, "_retry"):  # a traceback of the constructor may show it
            return "<Client that was not made>"
        client = f"Client({self.base_url!r}, requests_per_second={self._requests_per_second:g})"
        forked = self._retry.is_forked
        return f"<{client}: {self._so_far()}>" if forked or self.statistics.requests else client

    def _repr_html_(self) -> str:
        limit = (
            "no limit"
            if self._requests_per_second == inf
            else f"{self._requests_per_second:g} requests a second at most"
        )
        facts = [("rate", limit), ("so far", self._so_far())]
        return display.Card(f"Client of {self.base_url}", facts).html()

    def _so_far(self) -> str:
        if self._retry.is_forked:
            return "used in another process"
        done = self.statistics
        return (
            f"{done.requests:,} requests, {done.retries:,} of them retries; waited "
            f"{display.lasting(done.seconds_paced)} for the rate limit, "
            f"{display.lasting(done.seconds_waited)} after failures"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Client cannot be pickled or copied, because its connections, rate limit and key "
            "cannot: make one in each process"
        )

    def _ask(
        self,
        operation: str,
        parameters: Mapping[str, object],
        about: str,
        parse: Callable[[bytes], T],
        final: frozenset[Verdict] = frozenset(),
    ) -> T:
        query = urlencode(parameters, doseq=True, safe=":")
        url = f"{self.base_url}/api/v3/{operation}" + (query and "?" + query)
        question = f"{operation}{about} from {self.base_url}"
        largest = LARGEST_OF.get(operation, LARGEST_ANSWER)
        return self._retry.ask(url, question, parse, final=final, largest=largest)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client is made of, for another process. Only its pickle has the key itself.

    Attributes
    ----------
    base_url, requests_per_second, timeout, deadline, max_in_flight
        As in `Client`.
    key
        The key; its repr does not show it.
    rows
        How many rows of a page the service allows, as far as it has said.
    recent
        The requests that were sent before within the same limit.
    """

    base_url: str
    key: Key | None
    requests_per_second: float
    timeout: float
    deadline: float
    max_in_flight: int
    rows: int
    recent: Recent = field(default_factory=Recent)

    def client(self) -> Client:
        """Return a new client."""
        client = Client(
            self.base_url,
            api_key=None if self.key is None else self.key.reveal(),
            requests_per_second=self.requests_per_second,
            timeout=self.timeout,
            deadline=self.deadline,
            max_in_flight=self.max_in_flight,
        )
        client.page_limit.allow(self.rows)
        client.take_over(Statistics(), self.recent)
        return client

    def __reduce__(self) -> tuple[object, ...]:
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        key = state.pop("key")
        return _settings, (None if key is None else key.reveal(), state)


def _settings(key: str | None, state: Mapping[str, Any]) -> ClientSettings:
    # First of all: a traceback may show local variables.
    hidden = None if key is None else Key(key)
    del key
    return ClientSettings(key=hidden, **state)
