"""The operations of an index service, one method for each."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from http import HTTPStatus
from math import ceil, inf
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from tonframes import display
from tonframes.client.answers import Verdict
from tonframes.client.arguments import (
    check_whole,
    checked_addresses,
    checked_key,
    positive,
    user_agent,
)
from tonframes.client.limit import FEWEST_ROWS, MOST_ROWS, PageLimit
from tonframes.client.retry import Retry, TooLongError, TooSlowError
from tonframes.client.transport import Site
from tonframes.errors import RequestError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import NoReturn, Self

    from tonframes.client.statistics import Statistics

T = TypeVar("T")

#: Most addresses of one request; the service's limit.
MOST_ADDRESSES = 1024
#: Most bytes of the addresses in a URL. By default nginx refuses request lines over 8 kB
#: (large_client_header_buffers); this leaves room for the rest of the line.
MOST_ADDRESS_BYTES = 6800
#: Requests per second that TON Center allows without a key, and with a key of its free plan
#: (docs.ton.org, ecosystem/api/toncenter/rate-limit).
RATE_WITHOUT_KEY, RATE_WITH_KEY = 1.0, 10.0
#: Requests under way at a service without a rate limit.
UNLIMITED_IN_FLIGHT = 16
#: What an attempt is taken to last in seconds before the first has.
FIRST_SECONDS = 0.2
#: The last logical time and the last second that the service's columns hold.
LAST_LT, LAST_UTIME = 2**63 - 1, 2**31 - 1

#: Failures of the operations with windows after which they are not asked again: fewer rows are, or
#: the service is taken not to have them.
_OF_WINDOWS = frozenset({Verdict.SLOW, Verdict.NOT_FOUND})


class TooManyRowsError(RequestError):
    """The service does not allow so many rows, or not in time: `Client.page_limit` has fewer."""


class Client:
    """A client of one index service. It repeats failed requests and limits their rate.

    The methods are named after the service's operations. Each takes a function `parse` that turns
    the content of an answer into the value to return. If `parse` raises `DecodeError` or another
    `TonframesError`, the request is sent again.

    Threads may share a client, and then share its rate limit. A client cannot be pickled, because
    that would copy its key: create one in each process.

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
        Longest time for all attempts of a request and the waits between them, in seconds; waits
        for the rate limit are not counted. A single attempt may take a third of it, or `timeout`
        if that is more.

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
        if base_url is None:
            base_url = os.environ.get("TONFRAMES_URL") or "https://toncenter.com"
        self._site = Site.parse(base_url)
        if api_key is None and self._site.is_ton_center:
            api_key = os.environ.get("TONCENTER_API_KEY") or None
        key = None if api_key is None else checked_key(api_key, self._site)
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
        if key is not None:
            headers["X-API-Key"] = key
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
    def in_flight(self) -> int:
        """How many requests at the same time keep up the rate limit."""
        if self._requests_per_second == inf:
            return min(self._most_in_flight, UNLIMITED_IN_FLIGHT)
        seconds = self._retry.seconds or FIRST_SECONDS
        # Some more than the product: what an answer takes varies.
        needed = 2 + ceil(1.25 * self._requests_per_second * seconds)
        return min(self._most_in_flight, needed)

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
        return self._account_states(
            addresses, slice(0, len(addresses)), parse, include_boc=include_boc
        )

    def account_states_in_batches(
        self, addresses: Sequence[str], parse: Callable[[bytes], T], *, include_boc: bool = True
    ) -> Iterator[tuple[list[str], T]]:
        """Fetch the present states of any number of accounts, in several requests.

        Yields each batch of addresses and its value, in the order given. If a URL is too long for
        the service or a gateway before it, this batch and the later ones are halved.
        """
        addresses = checked_addresses(addresses)
        start, size = 0, MOST_ADDRESS_BYTES
        while start < len(addresses):
            batch = next(self.batches(addresses[start : start + MOST_ADDRESSES], size))
            place = slice(start, start + len(batch))
            try:
                value = self._account_states(addresses, place, parse, include_boc=include_boc)
            except TooLongError:
                if len(batch) == 1:
                    raise
                size = sum(map(_bytes_in_url, batch)) // 2
                continue
            yield batch, value
            start = place.stop

    @staticmethod
    def batches(addresses: Sequence[str], size: int = MOST_ADDRESS_BYTES) -> Iterator[list[str]]:
        """Split a list of addresses into batches, each for one request.

        Parameters
        ----------
        addresses
            Any number of addresses.
        size
            Most bytes of a batch in the URL; a longer address is a batch of its own.

        Examples
        --------
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
        self,
        seqno: int,
        parse: Callable[[bytes], T],
        *,
        limit: int = MOST_ROWS,
        offset: int = 0,
        divisible: bool = False,
    ) -> T:
        """Fetch a page of what a masterchain block commits.

        Parameters
        ----------
        seqno
            Seqno of the masterchain block.
        parse
            Turns the content of the answer into the value to return.
        limit
            Rows of the page, 1 to 1000.
        offset
            Number of rows before the page.
        divisible
            Whether the caller can ask for fewer rows. If the page does not come in time, a
            `TooManyRowsError` is raised at once, and the page is not asked for again.
        """
        return self._page_of(
            "masterchainBlockShards", seqno, parse, limit, offset, divisible=divisible
        )

    def transactions_by_masterchain_block(
        self,
        seqno: int,
        parse: Callable[[bytes], T],
        *,
        limit: int = MOST_ROWS,
        offset: int = 0,
        divisible: bool = False,
    ) -> T:
        """Return a page of the transactions in the blocks that a masterchain block commits.

        The parameters are those of `masterchain_block_shards`.
        """
        return self._page_of(
            "transactionsByMasterchainBlock", seqno, parse, limit, offset, divisible=divisible
        )

    def blocks(
        self,
        parse: Callable[[bytes], T],
        *,
        start_utime: int,
        end_utime: int,
        start_lt: int = 0,
        end_lt: int = LAST_LT,
        limit: int = MOST_ROWS,
        offset: int = 0,
    ) -> T:
        """Return a page of the blocks of a window of time, of all workchains, oldest first.

        Not every service has this operation. Blocks of one second come in no order.

        Parameters
        ----------
        parse
            Turns the content of the answer into the value to return.
        start_utime, end_utime
            First and last unix second of the blocks, both included.
        start_lt, end_lt
            Bounds of the logical time that a block begins with, both included.
        limit, offset
            As for `masterchain_block_shards`.

        Raises
        ------
        TooManyRowsError
            The service allows fewer rows, or did not answer in time.
        """
        check_whole(start_utime, "start_utime", range(2**31))
        check_whole(end_utime, "end_utime", range(2**31))
        window = {"start_utime": start_utime, "end_utime": end_utime}
        about = f" from {start_utime} to {end_utime}"
        if (start_lt, end_lt) != (0, LAST_LT):
            window |= {"start_lt": start_lt, "end_lt": end_lt}
            about += f", lt from {start_lt} to {end_lt}"
        return self._page(
            "blocks", window, about, parse, limit=limit, offset=offset, final=_OF_WINDOWS
        )

    def transactions(
        self,
        parse: Callable[[bytes], T],
        *,
        start_lt: int,
        end_lt: int,
        limit: int = MOST_ROWS,
        offset: int = 0,
    ) -> T:
        """Return a page of the transactions of a window of logical time, by (lt, account).

        Not every service has this operation.

        Parameters
        ----------
        parse
            Turns the content of the answer into the value to return.
        start_lt, end_lt
            First and last logical time, both included.
        limit, offset
            As for `masterchain_block_shards`.

        Raises
        ------
        TooManyRowsError
            The service allows fewer rows, or did not answer in time.
        """
        check_whole(start_lt, "start_lt", range(2**63))
        check_whole(end_lt, "end_lt", range(2**63))
        window = {"start_lt": start_lt, "end_lt": end_lt}
        about = f" of lt from {start_lt} to {end_lt}"
        return self._page(
            "transactions", window, about, parse, limit=limit, offset=offset, final=_OF_WINDOWS
        )

    def masterchain_block_shard_state(self, seqno: int, parse: Callable[[bytes], T]) -> T:
        """Fetch the last block of each shard as of a masterchain block."""
        check_whole(seqno, "seqno", range(1, 2**31))
        return self._ask(
            "masterchainBlockShardState", {"seqno": seqno}, f" of seqno {seqno}", parse
        )

    def masterchain_info(self, parse: Callable[[bytes], T]) -> T:
        """Fetch the first and the last masterchain block that the service has."""
        return self._ask("masterchainInfo", {}, "", parse)

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
        client = f"Client({self.base_url!r}, requests_per_second={self._requests_per_second:g})"
        return f"<{client}: {self._so_far()}>" if self.statistics.requests else client

    def _repr_html_(self) -> str:
        limit = (
            "no limit"
            if self._requests_per_second == inf
            else f"{self._requests_per_second:g} requests a second at most"
        )
        facts = [("rate", limit), ("so far", self._so_far())]
        return display.Card(f"Client of {self.base_url}", facts).html()

    def _so_far(self) -> str:
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

    def _page_of(
        self,
        operation: str,
        seqno: int,
        parse: Callable[[bytes], T],
        limit: int,
        offset: int,
        *,
        divisible: bool,
    ) -> T:
        # The deployed service wraps larger seqnos, and answers for another block
        # (ton-indexer, crud_blocks.go).
        check_whole(seqno, "seqno", range(1, 2**31))
        about = f" of seqno {seqno}"
        return self._page(
            operation,
            {"seqno": seqno},
            about,
            parse,
            limit=limit,
            offset=offset,
            final=frozenset({Verdict.SLOW} if divisible else ()),
        )

    def _page(
        self,
        operation: str,
        rows: Mapping[str, int],
        about: str,
        parse: Callable[[bytes], T],
        *,
        limit: int,
        offset: int,
        final: frozenset[Verdict],
    ) -> T:
        check_whole(limit, "limit", range(1, MOST_ROWS + 1))
        check_whole(offset, "offset", range(2**31))
        # Without `sort` the service selects blocks without ORDER BY.
        parameters = {**rows, "limit": limit, "offset": offset, "sort": "asc"}
        about += f" (limit {limit}, offset {offset})"
        if limit <= FEWEST_ROWS:
            final -= {Verdict.SLOW}
        try:
            value = self._ask(operation, parameters, about, parse, final)
        except TooSlowError as error:
            if Verdict.SLOW not in final:
                raise
            self.page_limit.too_slow(limit)
            refused = TooManyRowsError(str(error), status=error.status, retryable=True)
        except RequestError as error:
            allowed = re.search(r"limit is not allowed: [0-9]+ > ([0-9]{1,9})", str(error))
            if allowed is None or int(allowed[1]) >= limit:
                raise
            self.page_limit.allow(int(allowed[1]))
            refused = TooManyRowsError(str(error), status=error.status)
        else:
            self.page_limit.came(limit)
            return value
        raise refused

    def _account_states(
        self,
        addresses: Sequence[str],
        place: slice,
        parse: Callable[[bytes], T],
        *,
        include_boc: bool,
    ) -> T:
        """Fetch the states of a slice of the addresses."""
        batch = addresses[place]
        about = " of " + " … ".join(dict.fromkeys(map(shorten, (batch[0], batch[-1]))))
        about += f" ({len(batch)} addresses)" if len(batch) > 1 else ""
        parameters = {"address": batch, "include_boc": "true" if include_boc else "false"}
        try:
            return self._ask("accountStates", parameters, about, parse)
        except RequestError as error:
            found = re.search(r'index ([0-9]{1,4}) of "address"', str(error))
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or found is None:
                raise
            position = place.start + int(found[1])
            if position >= place.stop:
                raise
            refused = RequestError(
                f"address {position + 1} of {len(addresses)}, {shorten(addresses[position])}, "
                f"is not an address to the service: {error}",
                status=error.status,
            )
        raise refused

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
        return self._retry.ask(url, question, parse, final=final)


def _bytes_in_url(address: str) -> int:
    return len(urlencode({"address": address}, safe=":")) + len("&")
