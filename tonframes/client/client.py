"""The client of an index service: its address, its key, how fast it is asked, and what for."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack
from urllib.parse import urlencode

from tonframes import display
from tonframes.client import operations
from tonframes.client.answers import Verdict
from tonframes.client.arguments import Site, check_whole, checked_addresses, positive
from tonframes.client.operations import (
    FEWEST_ROWS,
    MOST_ADDRESS_BYTES,
    MOST_ADDRESSES,
    MOST_ROWS,
    LtWindow,
    Operation,
    Page,
    PageLimit,
    TimeWindow,
    TooManyRowsError,
)
from tonframes.client.rate import Recent
from tonframes.client.retry import LargeAnswerError, Retry, Statistics, TooLongError, TooSlowError
from tonframes.errors import RequestError, shorten
from tonframes.masking import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import NoReturn, Self

T = TypeVar("T")

#: Requests per second that TON Center allows without a key, and with a key of its free plan
#: (docs.ton.org, ecosystem/api/toncenter/rate-limit).
RATE_WITHOUT_KEY, RATE_WITH_KEY = 1.0, 10.0
#: Requests under way at a service without a rate limit.
UNLIMITED_IN_FLIGHT = 16
#: What an attempt is taken to last in seconds before the first has.
FIRST_SECONDS = 0.2


class Client:
    """A client of one index service. It repeats failed requests and limits their rate.

    The methods are named after the service's operations. Each takes a function `parse` that turns
    the content of an answer into the value to return. If `parse` raises `DecodeError` or another
    `TonframesError`, the request is sent again. Those that return pages take `limit`, the rows of
    the page, 1 to 1000, and `offset`, the number of rows before it; the bounds of a window are
    included. With `divisible=True`, and for windows, a page that does not come in time raises a
    `TooManyRowsError` at once: the caller asks for fewer rows.

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
        self._site = site = Site.parse(base_url)
        if key is None and site.is_ton_center and os.environ.get("TONCENTER_API_KEY"):
            key = Key(os.environ["TONCENTER_API_KEY"])
        if key is not None:
            key.check()
            if not site.url.startswith("https:") and not site.is_loopback:
                raise ValueError(f"a key is not sent without encryption: use https, not {site.url}")
        if requests_per_second is None:
            requests_per_second = inf
            if site.is_ton_center:
                requests_per_second = RATE_WITHOUT_KEY if key is None else RATE_WITH_KEY
        self._requests_per_second = positive(requests_per_second, "requests_per_second", most=inf)
        check_whole(max_in_flight, "max_in_flight", range(1, 257))
        self._most_in_flight = max_in_flight
        self.page_limit = PageLimit()
        try:
            agent = f"tonframes/{version('tonframes')}"
        except PackageNotFoundError:  # run from source, not installed
            agent = "tonframes/unknown"
        self._retry = Retry(
            site,
            {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": agent},
            key,
            rate=self._requests_per_second,
            timeout=positive(timeout, "timeout"),
            deadline=positive(deadline, "deadline"),
        )

    # ── the operations ───────────────────────────────────────────────────────────────────────────

    def account_states(
        self, addresses: Sequence[str], parse: Callable[[bytes], T], *, include_boc: bool = True
    ) -> T:
        """Fetch the present states of accounts in one request.

        Parameters
        ----------
        addresses
            1 to 1024 addresses in any form. 1024 make a URL longer than most gateways accept:
            see `account_states_in_batches`.
        parse
            Turns the content of the answer into the value to return.
        include_boc
            Whether to fetch code and data of the contracts.
        """
        addresses = checked_addresses(addresses)
        if len(addresses) > MOST_ADDRESSES:
            raise ValueError(
                f"one request takes at most {MOST_ADDRESSES} addresses, not {len(addresses)}; "
                "account_states_in_batches takes any number"
            )
        return self._account_states(addresses, range(len(addresses)), parse, include_boc)

    def account_states_in_batches(
        self, addresses: Sequence[str], parse: Callable[[bytes], T], *, include_boc: bool = True
    ) -> Iterator[tuple[list[str], T]]:
        """Fetch the present states of any number of accounts, in several requests.

        Yields each batch of addresses and its value, in the order given. If a URL is too long for
        the service or a gateway before it, or an answer too large, this batch and the later ones
        are halved.
        """
        addresses = checked_addresses(addresses)
        start, size = 0, MOST_ADDRESS_BYTES
        while start < len(addresses):
            batch = next(self.batches(addresses[start : start + MOST_ADDRESSES], size))
            place = range(start, start + len(batch))
            try:
                value = self._account_states(addresses, place, parse, include_boc)
            except (TooLongError, LargeAnswerError):
                if len(batch) == 1:
                    raise
                size = sum(map(_bytes_in_url, batch)) // 2
                continue
            yield batch, value
            start = place.stop

    @staticmethod
    def batches(addresses: Sequence[str], size: int = MOST_ADDRESS_BYTES) -> Iterator[list[str]]:
        """Split addresses into batches of at most so many bytes in a URL, each for one request.

        Examples
        --------
        >>> from tonframes import Client
        >>> addresses = [f"0:{number:064X}" for number in range(200)]
        >>> [len(batch) for batch in Client.batches(addresses)]
        [90, 90, 20]
        """
        batch: list[str] = []
        used = 0
        for address in checked_addresses(addresses):
            more = _bytes_in_url(address)
            if batch and (used + more > size or len(batch) == MOST_ADDRESSES):
                yield batch
                batch, used = [], 0
            batch.append(address)
            used += more
        yield batch

    def masterchain_block_shards(
        self, seqno: int, parse: Callable[[bytes], T], **page: Unpack[Page]
    ) -> T:
        """Fetch a page of what a masterchain block commits."""
        return self._page(operations.MASTERCHAIN_BLOCK_SHARDS, parse, {"seqno": seqno, **page})

    def transactions_by_masterchain_block(
        self, seqno: int, parse: Callable[[bytes], T], **page: Unpack[Page]
    ) -> T:
        """Fetch a page of the transactions in the blocks that a masterchain block commits."""
        operation = operations.TRANSACTIONS_BY_MASTERCHAIN_BLOCK
        return self._page(operation, parse, {"seqno": seqno, **page})

    def blocks(self, parse: Callable[[bytes], T], **window: Unpack[TimeWindow]) -> T:
        """Fetch a page of the blocks of a window of time, of all workchains, oldest first.

        Not every service has this operation. Blocks of one second come in no order. The logical
        time is the one that a block begins with.
        """
        return self._page(operations.BLOCKS, parse, {**window})

    def transactions(self, parse: Callable[[bytes], T], **window: Unpack[LtWindow]) -> T:
        """Fetch a page of the transactions of a window of logical time, by (lt, account).

        Not every service has this operation.
        """
        return self._page(operations.TRANSACTIONS, parse, {**window})

    def account_transactions(
        self,
        accounts: Sequence[str],
        parse: Callable[[bytes], T],
        *,
        unit: Literal["lt", "utime"],
        first: int,
        last: int,
        newest_first: bool = False,
        **page: Unpack[Page],
    ) -> T:
        """Fetch a page of the transactions of some accounts, by (lt, account).

        Not every service has this operation. Rows of a window of time come by (now, lt, account).

        Parameters
        ----------
        accounts
            Addresses in any form, as many as `batches` puts into one request.
        parse
            Turns the content of the answer into the value to return.
        unit
            What the window is of: "lt" is logical time, "utime" unix seconds.
        first, last
            First and last number of the window, both included.
        newest_first
            Whether to return the rows in the opposite order.
        """
        window = {"account": checked_addresses(accounts), f"start_{unit}": first}
        window |= {f"end_{unit}": last, **page} | ({"sort": "desc"} if newest_first else {})
        return self._page(operations.TRANSACTIONS, parse, window)

    def masterchain_block_shard_state(self, seqno: int, parse: Callable[[bytes], T]) -> T:
        """Fetch the last block of each shard as of a masterchain block."""
        return self._ask(operations.MASTERCHAIN_BLOCK_SHARD_STATE, parse, {"seqno": seqno})

    def masterchain_info(self, parse: Callable[[bytes], T]) -> T:
        """Fetch the first and the last masterchain block that the service has."""
        return self._ask(operations.MASTERCHAIN_INFO, parse, {})

    def _account_states(
        self,
        addresses: Sequence[str],
        place: range,
        parse: Callable[[bytes], T],
        include_boc: bool,  # noqa: FBT001
    ) -> T:
        """Fetch the states of the addresses at some positions."""
        parameters = {
            "address": addresses[place.start : place.stop],
            "include_boc": "true" if include_boc else "false",
        }
        try:
            return self._ask(operations.ACCOUNT_STATES, parse, parameters)
        except RequestError as error:
            named = re.search(r'index ([0-9]{1,4}) of "address"', str(error))
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or named is None:
                raise
            position = place.start + int(named[1])
            if position not in place:
                raise
            raise RequestError(
                f"address {position + 1} of {len(addresses)}, {shorten(addresses[position])}, "
                f"is not an address to the service: {error}",
                status=error.status,
            ) from None

    def _page(
        self, operation: Operation, parse: Callable[[bytes], T], parameters: dict[str, Any]
    ) -> T:
        """Return what `parse` makes of a page, and learn how many rows a page may have."""
        final = operation.final | ({Verdict.SLOW} if parameters.pop("divisible", False) else set())
        # Without `sort` the service selects blocks without ORDER BY.
        parameters = {"limit": MOST_ROWS, "offset": 0, "sort": "asc", **parameters}
        limit = parameters["limit"]
        operations.check(parameters)
        if limit <= FEWEST_ROWS:
            final -= {Verdict.SLOW}
        try:
            value = self._ask(operation, parse, parameters, final)
        except (TooSlowError, LargeAnswerError) as error:
            if Verdict.SLOW not in final:
                raise
            self.page_limit.too_slow(limit)
            raise TooManyRowsError(str(error), status=error.status, retryable=True) from None
        except RequestError as error:
            allowed = re.search(r"limit is not allowed: [0-9]+ > ([0-9]{1,9})", str(error))
            if allowed is None or int(allowed[1]) >= limit:
                raise
            self.page_limit.allow(int(allowed[1]))
            raise TooManyRowsError(str(error), status=error.status) from None
        self.page_limit.came(limit)
        return value

    def _ask(
        self,
        operation: Operation,
        parse: Callable[[bytes], T],
        parameters: Mapping[str, object],
        final: Collection[Verdict] = (),
    ) -> T:
        operations.check(parameters)
        query = urlencode(parameters, doseq=True, safe=":")
        url = f"{self.base_url}/api/v3/{operation.name}" + (query and "?" + query)
        question = f"{operations.in_words(operation, parameters)} from {self.base_url}"
        return self._retry.ask(url, question, parse, final)

    # ── what it is and does ──────────────────────────────────────────────────────────────────────

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
        return self._retry.counter.statistics

    @property
    def recent(self) -> Recent:
        """What must be known to continue the rate limit in another process."""
        return self._retry.rate.recent

    def take_over(self, done: Statistics, recent: Recent) -> None:
        """Count what another client of the same limit has done."""
        self._retry.counter.add(done)
        self._retry.rate.take_over(recent)

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
        """Wait before the next request; raise a `RequestError` once the client is closed."""
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
            f"{display.duration(done.seconds_paced)} for the rate limit, "
            f"{display.duration(done.seconds_waited)} after failures"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Client cannot be pickled or copied, because its connections, rate limit and key "
            "cannot: make one in each process"
        )


def _bytes_in_url(address: str) -> int:
    return len(urlencode({"address": address}, safe=":")) + len("&")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client is made of, for another process. Only its pickle has the key itself."""

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
        base_url, key, *others = (getattr(self, each.name) for each in fields(self))
        return _settings, (base_url, None if key is None else key.reveal(), *others)


def _settings(base_url: str, key: str | None, *others: Any) -> ClientSettings:
    return ClientSettings(base_url, None if key is None else Key(key), *others)
