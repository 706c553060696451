"""The client: HTTP, and nothing about frames.

- `operations`: `Client`, the service's operations with their arguments checked.
- `pursuit`: one request until it is answered: attempts, waits, deadline, the error in the end.
- `answers`: what an answer means: done, try again, give up; what it says in words.
- `transport`: one exchange, bounded in time and size, on the way it should take.
- `pace`: never faster than the service allows.
"""

from tonframes.client.client import MOST_ADDRESSES, MOST_ROWS, Client
from tonframes.client.retry import Statistics

__all__ = ["MOST_ADDRESSES", "MOST_ROWS", "Client", "Statistics"]
