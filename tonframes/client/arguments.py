"""Checks of what a client is given, before anything is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from tonframes.errors import shorten


def checked_addresses(addresses: Sequence[str]) -> Sequence[str]:
    """Check a list of addresses; the error names the position of a wrong one."""
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


def check_whole(value: int, name: str, allowed: range) -> None:
    """Check that an argument is an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name} is from {allowed[0]} to {allowed[-1]}, not {shorten(value)}")


def positive(value: float, name: str, *, most: float = 10.0**6) -> float:
    """Check that an argument is a number greater than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 < value <= most:
        bounds = "greater than 0" + (f" and at most {most:g}" if math.isfinite(most) else "")
        raise ValueError(f"{name} is {bounds}, not {value:g}")
    return float(value)


def user_agent() -> str:
    """Return how a client names itself to the service."""
    try:
        return f"tonframes/{version('tonframes')}"
    except PackageNotFoundError:  # run from source, not installed
        return "tonframes/unknown"
