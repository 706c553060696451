"""The operations of an index service, asked for in the words of its API."""

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

#: Rows of one page, by the service's own rule.
MOST_ROWS = 1000
#: Addresses of one request, by the service's own rule.
MOST_ADDRESSES = 1024
#: Bytes that addresses may take in a URL. nginx refuses lines over 8 kB unless told otherwise
#: (large_client_header_buffers); this leaves room for the rest of the line.
MOST_ADDRESS_BYTES = 6800
#: Requests per second that TON Center grants without a key, and with one of its free plan
#: (docs.ton.org, ecosystem/api/toncenter/rate-limit).
RATE_WITHOUT_KEY, RATE_WITH_KEY = 1.0, 10.0


class Client:
    """Asks one index service, as often as it takes and never faster than it allows.

    The methods are named after the service's operations. Each takes a function that turns the
    body of an answer into the value to be returned and raises `DecodeError`, or another
    `TonframesError`, when it cannot: then the body is fetched again.

    A client may be shared by threads, which then share its pace. It cannot be pickled, as its key
    would go along: each process makes its own.

    Parameters
    ----------
    base_url
        Where the service is, with or without `/api/v3`; by default the environment's
        `TONFRAMES_URL`, or TON Center. The environment's proxies are used, though not on the way
        to this computer itself; `.netrc` is not read.
    api_key
        Key of the service, sent in the header `X-API-Key`, and only over TLS or within this
        computer. By default the environment's `TONCENTER_API_KEY`, if the service is TON Center.
    requests_per_second
        Limit of the pace, retries included; infinite for none. Requests are spaced evenly. By
        default what TON Center grants without a key (1) or with one of the free plan (10); other
        services have no limit. An answer of 429 halves the pace, and answers bring it back.
    timeout
        Seconds that connecting may take, and that an answer may pause.
    deadline
        Seconds that a request may take with all its attempts and the waits between them; waiting
        for a turn at the pace is not counted. A single attempt gets a third of them, or `timeout`
        if that is more.

    Raises
    ------
    RequestError
        From each operation: the service does not answer as it should. `status` 404 means that the
        service itself says that nothing is there; whether that is the end of a list, a block not
        indexed yet or a hole, the caller knows.
    DecodeError
        From each operation, or what else `parse` raised, when no attempt brought a better body;
        a note tells the request.

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
        self._rate = _positive(requests_per_second, "requests_per_second", most=inf)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"tonframes/{_version()}",
        }
        if key is not None:
            headers["X-API-Key"] = key
        self._pursuit = Retry(
            self._site,
            headers,
            key,
            rate=self._rate,
            timeout=_positive(timeout, "timeout"),
            deadline=_positive(deadline, "deadline"),
        )

    @property
    def base_url(self) -> str:
        """Where the service is, without `/api/v3`."""
        return self._site.url

    @property
    def requests_per_second(self) -> float:
        """The limit of the pace; infinite if there is none."""
        return self._rate

    @property
    def deadline(self) -> float:
        """Seconds that a request may take with all its attempts."""
        return self._pursuit.deadline

    @property
    def statistics(self) -> Statistics:
        """What the client did so far: requests, retries, seconds of waiting."""
        return self._pursuit.statistics

    def account_states(
        self, addresses: Sequence[str], parse: Callable[[bytes], T], *, include_boc: bool = True
    ) -> T:
        """Ask for the present states of accounts, in one request.

        Parameters
        ----------
        addresses
            1 to 1024 of them, in any form. So many make a URL longer than most gateways take:
            see `account_states_in_batches`.
        parse
            Turns the body into the value to be returned.
        include_boc
            Whether code and data of the contracts are asked for.
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
        """Ask for the present states of any number of accounts, in as many requests as it takes.

        Yields each batch of addresses and its value, in the order given. A batch whose URL is too
        long for the service, or for what stands before it, is halved, and so are those after it.
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
        """Cut a list of addresses into batches, each for one request.

        Parameters
        ----------
        addresses
            Any number of addresses.
        size
            Bytes that a batch may take in the URL; an address of more goes alone.

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
        """Ask for a page of what came with a masterchain block.

        Parameters
        ----------
        seqno
            Of the masterchain block.
        parse
            Turns the body into the value to be returned.
        limit
            Rows of the page, 1 to 1000.
        offset
            Rows before the page.
        """
        return self._page("masterchainBlockShards", seqno, parse, limit, offset)

    def transactions_by_masterchain_block(
        self, seqno: int, parse: Callable[[bytes], T], *, limit: int = MOST_ROWS, offset: int = 0
    ) -> T:
        """Ask for a page of the transactions in the blocks that came with a masterchain block.

        The parameters are those of `masterchain_block_shards`.
        """
        return self._page("transactionsByMasterchainBlock", seqno, parse, limit, offset)

    def masterchain_block_shard_state(self, seqno: int, parse: Callable[[bytes], T]) -> T:
        """Ask for the last block of each shard as of a masterchain block."""
        _check_whole(seqno, "seqno", range(1, 2**31))
        return self._ask(
            "masterchainBlockShardState", {"seqno": seqno}, f" of seqno {seqno}", parse
        )

    def masterchain_info(self, parse: Callable[[bytes], T]) -> T:
        """Ask for the first and the last masterchain block that the service holds."""
        return self._ask("masterchainInfo", {}, "", parse)

    def wait(self, seconds: float) -> None:
        """Do nothing for a while, until something has changed at the service.

        Ends in a `RequestError` as soon as the client is closed.
        """
        self._pursuit.wait(seconds)

    def close(self) -> None:
        """Close the connections.

        Requests under way in other threads end within a fifth of a second, in a `RequestError`.
        """
        self._pursuit.close()

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
        client = f"Client({self.base_url!r}, requests_per_second={self._rate:g})"
        return f"<{client}: {self._so_far()}>" if self.statistics.requests else client

    def _repr_html_(self) -> str:
        rate = "no limit" if self._rate == inf else f"{self._rate:g} requests a second at most"
        facts = [("pace", rate), ("so far", self._so_far())]
        return display.Card(f"Client of {self.base_url}", facts).html()

    def _so_far(self) -> str:
        done = self.statistics
        return (
            f"{done.requests:,} requests, {done.retries:,} of them repeated; "
            f"{display.lasting(done.seconds_paced)} spent waiting for a turn, "
            f"{display.lasting(done.seconds_waited)} after failures"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Client is neither pickled nor copied, as connections, pace and key do not go "
            "along: make one in each process"
        )

    def _page(
        self, operation: str, seqno: int, parse: Callable[[bytes], T], limit: int, offset: int
    ) -> T:
        # The deployed service wraps larger seqnos, answering for another block
        # (ton-indexer, crud_blocks.go).
        _check_whole(seqno, "seqno", range(1, 2**31))
        _check_whole(limit, "limit", range(1, MOST_ROWS + 1))
        _check_whole(offset, "offset", range(2**31))
        # Without `sort` it orders blocks by nothing at all.
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
        """Ask for the addresses at a place of the list."""
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
                f"is none to the service: {error}",
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
        return self._pursuit.ask(url, f"{operation}{about} from {self.base_url}", parse)


def _bytes_in_url(address: str) -> int:
    return len(urlencode({"address": address}, safe=":")) + len("&")


def _checked_key(text: str, site: Site) -> Key:
    """Check a key before it meets code that would quote it in an error."""
    if not isinstance(text, str):
        raise TypeError(f"api_key is text, not {type(text).__name__}")
    key = Key(text.strip())
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        raise ValueError("api_key consists of letters, digits, - and _ (it is not shown here)")
    if not site.keeps_secrets:
        raise ValueError(f"a key is not sent without encryption: use https, not {site.url}")
    return key


def _checked_addresses(addresses: Sequence[str]) -> Sequence[str]:
    if isinstance(addresses, str | bytes) or not isinstance(addresses, Sequence):
        raise TypeError(f"addresses is a list of texts, not {type(addresses).__name__}")
    if not addresses:
        raise ValueError("addresses is empty")
    for position, address in enumerate(addresses, 1):
        name = f"address {position} of {len(addresses)}"
        if not isinstance(address, str):
            raise TypeError(f"{name} is text, not {type(address).__name__}")
        # An empty one makes the deployed service answer with accounts of its choice, a comma
        # splits one into two.
        if not re.fullmatch(r"[!-+\--~]+", address):
            raise ValueError(
                f"{name}, {shorten(address)}, is empty or holds what no address does: a space, "
                "a comma or something outside ASCII"
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
        raise ValueError(f"{name} is over 0 and at most {most:g}, not {value:g}")
    return float(value)


def _version() -> str:
    try:
        return version("tonframes")
    except PackageNotFoundError:  # run from its source, without an installation
        return "unknown"
