"""The operations of an index service, one method for each."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlencode

from tonframes.client.answers import Verdict
from tonframes.client.arguments import check_whole, checked_addresses
from tonframes.client.limit import FEWEST_ROWS, MOST_ROWS, PageLimit
from tonframes.client.retry import LargeAnswerError, TooLongError, TooSlowError
from tonframes.errors import RequestError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

#: Most addresses of one request; the service's limit.
MOST_ADDRESSES = 1024
#: Most bytes of the addresses in a URL. By default nginx refuses request lines over 8 kB
#: (large_client_header_buffers); this leaves room for the rest of the line.
MOST_ADDRESS_BYTES = 6800
#: The last logical time and the last second that the service's columns hold.
LAST_LT, LAST_UTIME = 2**63 - 1, 2**31 - 1

#: Failures after which an operation with a window is not repeated: the caller asks for fewer rows,
#: or does without the operation.
_OF_WINDOWS = frozenset({Verdict.SLOW, Verdict.NOT_FOUND})


class TooManyRowsError(RequestError):
    """The service refuses so many rows, or takes too long; `Client.page_limit` has fewer."""


class Operations(ABC):
    """From arguments to parameters, and to the value that `parse` makes of an answer."""

    page_limit: PageLimit

    @abstractmethod
    def _ask(
        self,
        operation: str,
        parameters: Mapping[str, object],
        about: str,
        parse: Callable[[bytes], T],
        final: frozenset[Verdict] = frozenset(),
    ) -> T:
        """Return what `parse` makes of the answer; a failure in `final` is not retried."""

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
        the service or a gateway before it, or an answer too large, this batch and the later ones
        are halved.
        """
        addresses = checked_addresses(addresses)
        start, size = 0, MOST_ADDRESS_BYTES
        while start < len(addresses):
            batch = next(self.batches(addresses[start : start + MOST_ADDRESSES], size))
            place = slice(start, start + len(batch))
            try:
                value = self._account_states(addresses, place, parse, include_boc=include_boc)
            except (TooLongError, LargeAnswerError):
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

    def account_transactions(
        self,
        accounts: Sequence[str],
        parse: Callable[[bytes], T],
        *,
        unit: Literal["lt", "utime"],
        first: int,
        last: int,
        newest_first: bool = False,
        limit: int = MOST_ROWS,
        offset: int = 0,
    ) -> T:
        """Return a page of the transactions of some accounts, by (lt, account).

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
        limit, offset
            As for `masterchain_block_shards`.

        Raises
        ------
        TooManyRowsError
            The service allows fewer rows, or did not answer in time.
        """
        accounts = checked_addresses(accounts)
        check_whole(first, "first", range(2**63))
        check_whole(last, "last", range(2**63))
        window: dict[str, object] = {f"start_{unit}": first, f"end_{unit}": last}
        if newest_first:
            window["sort"] = "desc"
        named = shorten(accounts[0]) + (f" and {len(accounts) - 1} more" * (len(accounts) > 1))
        about = f" of {named}, {unit} from {first} to {last}"
        return self._page(
            "transactions",
            {"account": accounts, **window},
            about,
            parse,
            limit=limit,
            offset=offset,
            final=_OF_WINDOWS,
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
        rows: Mapping[str, object],
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
        parameters = {"limit": limit, "offset": offset, "sort": "asc", **rows}
        about += f" (limit {limit}, offset {offset})"
        if limit <= FEWEST_ROWS:
            final -= {Verdict.SLOW}
        try:
            value = self._ask(operation, parameters, about, parse, final)
        except (TooSlowError, LargeAnswerError) as error:
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


def _bytes_in_url(address: str) -> int:
    return len(urlencode({"address": address}, safe=":")) + len("&")
