"""The client: HTTP, and nothing about frames.

::

    client      `Client`: one method for each operation of the service
    operations  the operations, their parameters, and the rows of a page
    retry       repeats a request until it succeeds or cannot: attempts, waits, deadline, counts
    answers     classifies an answer: use it, try again, or give up; finds the text of an error
    transport   one HTTP exchange, limited in time and size
    rate        limits the requests per second
    arguments   checks of what a client is given
"""

from tonframes.client.client import Client, ClientSettings
from tonframes.client.operations import (
    LAST_LT,
    MOST_ADDRESSES,
    MOST_ROWS,
    PageLimit,
    TooManyRowsError,
)
from tonframes.client.rate import Recent, until
from tonframes.client.retry import Statistics, TooLongError, UnknownOperationError

__all__ = [
    "LAST_LT",
    "MOST_ADDRESSES",
    "MOST_ROWS",
    "Client",
    "ClientSettings",
    "PageLimit",
    "Recent",
    "Statistics",
    "TooLongError",
    "TooManyRowsError",
    "UnknownOperationError",
    "until",
]
