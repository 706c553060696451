"""How many rows a page may have: as many as the service allows, and answers in time."""

from __future__ import annotations

from threading import Lock

#: Most rows of one page; the service's limit.
MOST_ROWS = 1000
#: Smaller pages are not tried: if these take too long, the number of rows is not the reason.
FEWEST_ROWS = 10
#: How many pages must come before larger ones are tried again: the first number after the first
#: page that did not come, and twice as many after each further one, up to the second number.
PATIENCE, MOST_PATIENCE = 8, 512


class PageLimit:
    """The rows to ask for; threads share it.

    The deployed service cancels a query after 3 s, so that pages of 1000 rows may fail where those
    of 250 do not. So a page that does not come halves the limit, and pages that come raise it
    again, by a quarter. What the service does not allow is not asked for again.

    Examples
    --------
    >>> limit = PageLimit()
    >>> limit.too_slow(1000)
    >>> limit.rows
    500
    >>> limit.allow(100)
    >>> limit.rows
    100
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._most = self._rows = MOST_ROWS
        self._patience = PATIENCE
        self._came = 0

    @property
    def most(self) -> int:
        """Rows of a page that the service allows, as far as it has said."""
        return self._most

    @property
    def rows(self) -> int:
        """Rows of a page."""
        return self._rows

    def allow(self, most: int) -> None:
        """Ask for no more rows than the service says that it allows."""
        with self._lock:
            self._most = max(1, min(self._most, most))
            self._rows = min(self._rows, self._most)

    def too_slow(self, rows: int) -> None:
        """Ask for fewer rows: a page of so many did not come in time."""
        with self._lock:
            if rows <= self._rows:
                self._rows = max(1, rows // 2)
                self._came = 0
                self._patience = min(2 * self._patience, MOST_PATIENCE)

    def came(self, rows: int) -> None:
        """Take note of a page for which so many rows were asked."""
        with self._lock:
            self._came += rows >= self._rows
            if self._came >= self._patience:
                self._rows = min(self._most, max(self._rows + 1, self._rows * 5 // 4))
                self._came = 0
