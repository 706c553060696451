"""The errors that tonframes raises.

::

    TonframesError                every error that tonframes raises, except for wrong arguments
    ├── RequestError              the service did not answer as asked; `status`, `retryable`
    ├── DecodeError               JSON does not have the form that the schema declares; `path`
    ├── IncompleteError           something may be missing in what was fetched
    ├── MissingError              a store does not hold what was asked for
    └── StoreError                a store cannot be read or written; `path`

If a long call fails, `partial` contains what was fetched, and `missing` lists the rest.

Wrong arguments raise Python's own `ValueError` and `TypeError`, before anything is sent, read or
written. Every message says what was being done, what was expected, what was found (shortened), and
what to do if something can be done.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonframes.inert import inert
from tonframes.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A value quoted in a message is cut to this many characters.
QUOTED = 80
_NEAR = 0.7  # how similar a name must be to be suggested, 0 to 1


def shorten(value: object) -> str:
    """Quote a value for a message: printable, on one line, at most `QUOTED` characters."""
    if isinstance(value, bytes | bytearray | memoryview):
        text = ascii(bytes(value[: 2 * QUOTED]).decode("utf-8", "backslashreplace"))
    elif isinstance(value, str):
        text = ascii(value[: 2 * QUOTED])
    else:
        try:
            text = ascii(value)
        except (ValueError, RecursionError):  # an integer of 5000 digits, a list in itself
            text = f"a {type(value).__name__}"
    if len(text) <= QUOTED:
        return text
    quote = text[0] if text[0] in "'\"" else ""
    return text[: QUOTED - 1 - len(quote)] + "…" + quote


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests a similar name, for the end of a message, or ""."""
    plain = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), plain, 1, _NEAR)
    return f". Did you mean {plain[near[0]]!r}?" if near else ""


class TonframesError(Exception):
    """The base class of the errors of tonframes.

    Attributes
    ----------
    partial
        What a long call had fetched before it failed: `Blocks` or `Accounts`, or None.
    missing
        What it had not fetched: ranges of masterchain seqnos, addresses, or pairs of an account
        and a `Period` of its history.
    """

    partial: object = None
    missing: tuple[Any, ...] = ()

    def __init__(self, *arguments: object) -> None:
        # A service may send back the key that it got.
        super().__init__(*(masked(a) if isinstance(a, str) else a for a in arguments))

    def add_note(self, note: str) -> None:
        """Add a note, without the keys that are in use."""
        super().add_note(masked(note))

    def __str__(self) -> str:
        # A message may quote a file of a store or an answer that somebody else has written.
        return inert(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled as a call with `args`, which not all of these take.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[TonframesError], arguments: tuple[object, ...], state: dict[str, object]
) -> TonframesError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class TonframesWarning(UserWarning):
    """Something that you may want to know, such as unknown fields. Nothing is lost."""


def warn(message: str) -> None:
    """Warn, and name the line outside this package that made the call."""
    package = str(Path(__file__).parent)
    level, frame = 1, sys._getframe()  # noqa: SLF001 - the interpreter's way to look up the stack
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(inert(masked(message)), TonframesWarning, stacklevel=level)


class RequestError(TonframesError):
    """The service did not answer a request as it should.

    Attributes
    ----------
    status
        HTTP status of the last answer; None if there was none.
    retryable
        Whether the same request may succeed later.
    """

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable


class DecodeError(TonframesError):
    """JSON does not have the form that the schema declares.

    Attributes
    ----------
    path
        Where in the document, such as `$.transactions[3].description.compute_ph.gas_used`.
    expected
        What the schema declares there.
    found
        What was found there, shortened.
    """

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(f"{path}: expected {expected}, found {found}")
        self.path = masked(path)
        self.expected = masked(expected)
        self.found = masked(found)


class IncompleteError(TonframesError):
    """Something may be missing in what was fetched, so it was not kept."""

    def __init__(self, message: str, *, missing: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class MissingError(TonframesError):
    """A store does not hold what was asked for; `missing` lists it."""

    def __init__(self, message: str, *, missing: tuple[range, ...] | tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class StoreError(TonframesError):
    """A store cannot be read or written.

    Attributes
    ----------
    path
        The file or folder that the error is about.
    """

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path
