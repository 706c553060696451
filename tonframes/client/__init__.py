"""The client: HTTP, and nothing about frames.

- `client`: `Client`, one method for each operation of the service; checks the arguments.
- `retry`: repeats a request until it succeeds or cannot: attempts, waits, deadline, final error.
- `answers`: classifies an answer: use it, try again, or give up; finds the text of an error.
- `transport`: one HTTP exchange, limited in time and size.
- `rate`: limits the requests per second.
"""

from tonframes.client.client import MOST_ADDRESSES, MOST_ROWS, Client
from tonframes.client.retry import Statistics

__all__ = ["MOST_ADDRESSES", "MOST_ROWS", "Client", "Statistics"]
