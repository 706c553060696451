"""The operations of an index service, one method for each."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from tonframes import display
from tonframes.client.retry import Key, Retry, Statistics, TooLongError
from tonframes.client.transport import Site
from tonframes.errors import RequestError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import NoReturn, Self

T = TypeVar("T")

#: Most rows of one page; the service's limit.
MOST_ROWS = 1000
#: Most addresses of one request; the service's limit.
MOST_ADDRESSES = 1024
#: Most bytes of the addresses in a URL. By default nginx refuses request lines over 8 kB
#: (large_client_header_buffers); this leaves room for the rest of the line.
MOST_ADDRESS_BYTES = 6800
#: Requests per second that TON Center allows without a key, and with a key of its free plan
#: (docs.ton.org, ecosystem/api/toncenter/rate-limit).
RATE_WITHOUT_KEY, RATE_WITH_KEY = 1.0, 10.0


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
    ) -> None:
        if base_url is None:
            base_url = os.environ.get("TONFRAMES_URL") or "https://toncenter.com"
        self._site = Site.parse(base_url)
        if api_key is None and self._site.is_ton_center:
            api_key = os.environ.get("TONCENTER_API_KEY") or None
        key = None if api_key is None else _checked_key(api_key, self._site)
        if requests_per_second is None:
            requests_per_second = inf
            if self._site.is_ton_center:
                requests_per_second = RATE_WITHOUT_KEY if key is None else RATE_WITH_KEY
        self._requests_per_second = _positive(requests_per_second, "requests_per_second", most=inf)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"tonframes/{_version()}",
        }
        if key is not None:
            headers["X-API-Key"] = key
        self._retry = Retry(
            self._site,
            headers,
            key,
            rate=self._requests_per_second,
            timeout=_positive(timeout, "timeout"),
            deadline=_positive(deadline, "deadline"),
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
        addresses = _checked_addresses(addresses)
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
        addresses = _checked_addresses(addresses)
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
        for address in _checked_addresses(addresses):
            more = _bytes_in_url(address)
            if batch and (used + more > size or len(batch) == MOST_ADDRESSES):
                yield batch
                batch, used = [], 0
            batch.append(address)
            used += more
        yield batch

    def masterchain_block_shards(
        self, seqno: int, parse: Callable[[bytes], T], *, limit: int = MOST_ROWS, offset: int = 0
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
        """
        return self._page("masterchainBlockShards", seqno, parse, limit, offset)

    def transactions_by_masterchain_block(
        self, seqno: int, parse: Callable[[bytes], T], *, limit: int = MOST_ROWS, offset: int = 0
    ) -> T:
        """Fetch a page of the transactions that a masterchain block commits.

        The parameters are those of `masterchain_block_shards`.
        """
        return self._page("transactionsByMasterchainBlock", seqno, parse, limit, offset)

    def masterchain_block_shard_state(self, seqno: int, parse: Callable[[bytes], T]) -> T:
        """Fetch the last block of each shard as of a masterchain block."""
        _check_whole(seqno, "seqno", range(1, 2**31))
        return self._ask(
            "masterchainBlockShardState", {"seqno": seqno}, f" of seqno {seqno}", parse
        )

    def masterchain_info(self, parse: Callable[[bytes], T]) -> T:
        """Fetch the first and the last masterchain block that the service has."""
        return self._ask("masterchainInfo", {}, "", parse)

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

    def _page(
        self, operation: str, seqno: int, parse: Callable[[bytes], T], limit: int, offset: int
    ) -> T:
        # The deployed service wraps larger seqnos, and answers for another block
        # (ton-indexer, crud_blocks.go).
        _check_whole(seqno, "seqno", range(1, 2**31))
        _check_whole(limit, "limit", range(1, MOST_ROWS + 1))
        _check_whole(offset, "offset", range(2**31))
        # Without `sort` the service selects blocks without ORDER BY.
        parameters = {"seqno": seqno, "limit": limit, "offset": offset, "sort": "asc"}
        about = f" of seqno {seqno} (limit {limit}, offset {offset})"
        return self._ask(operation, parameters, about, parse)

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
    ) -> T:
        query = urlencode(parameters, doseq=True, safe=":")
        url = f"{self.base_url}/api/v3/{operation}" + (query and "?" + query)
        return self._retry.ask(url, f"{operation}{about} from {self.base_url}", parse)


def _bytes_in_url(address: str) -> int:
    return len(urlencode({"address": address}, safe=":")) + len("&")


def _checked_key(text: str, site: Site) -> Key:
    """Check a key here, because other code would quote it in its errors."""
    if not isinstance(text, str):
        raise TypeError(f"api_key is a str, not {type(text).__name__}")
    key = Key(text.strip())
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        raise ValueError("api_key may contain letters, digits, - and _ only (not shown here)")
    if not site.keeps_secrets:
        raise ValueError(f"a key is not sent without encryption: use https, not {site.url}")
    return key


def _checked_addresses(addresses: Sequence[str]) -> Sequence[str]:
    if isinstance(addresses, str | bytes) or not isinstance(addresses, Sequence):
        raise TypeError(f"addresses is a list of str, not {type(addresses).__name__}")
    if not addresses:
        raise ValueError("addresses is empty")
    for position, address in enumerate(addresses, 1):
        name = f"address {position} of {len(addresses)}"
        if not isinstance(address, str):
            raise TypeError(f"{name} is a str, not {type(address).__name__}")
        # For an empty address the deployed service answers with arbitrary accounts; it splits an
        # address at a comma into two.
        if not re.fullmatch(r"[!-+\--~]+", address):
            raise ValueError(
                f"{name}, {shorten(address)}, is empty or contains a character that no address "
                "has: a space, a comma, or one outside ASCII"
            )
    return list(addresses)


def _check_whole(value: int, name: str, allowed: range) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name} is from {allowed[0]} to {allowed[-1]}, not {shorten(value)}")


def _positive(value: float, name: str, *, most: float = 10.0**6) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 < value <= most:
        raise ValueError(f"{name} is greater than 0 and at most {most:g}, not {value:g}")
    return float(value)


def _version() -> str:
    try:
        return version("tonframes")
    except PackageNotFoundError:  # run from source, not installed
        return "unknown"
