"""The client: HTTP, and nothing about frames.

- `client`: `Client`: the address of a service, the key, the rate limit.
- `operations`: one method for each operation of the service.
- `arguments`: checks of what a client is given.
- `limit`: how many rows a page may have.
- `retry`: repeats a request until it succeeds or cannot: attempts, waits, deadline, final error.
- `answers`: classifies an answer: use it, try again, or give up; finds the text of an error.
- `site`: the address of a service.
- `transport`: one HTTP exchange, limited in time and size.
- `statistics`: what a client has done so far.
- `size`: how large an answer may be, and how much memory it may need.
- `rate`: limits the requests per second.
"""

from tonframes.client.client import Client, ClientSettings
from tonframes.client.limit import MOST_ROWS, PageLimit
from tonframes.client.operations import LAST_LT, MOST_ADDRESSES, TooManyRowsError
from tonframes.client.rate import Recent, until
from tonframes.client.retry import TooLongError, UnknownOperationError
from tonframes.client.statistics import Statistics

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
